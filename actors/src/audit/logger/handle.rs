//! What the other actors have of the logger.

pub(super) mod queue;

use super::{Close, Commit, CommitError, Doubt, JournalReport, Logger, ReopenMirror, Waiting};
use crate::audit::fallback::Fallback;
use crate::audit::logger::handle::queue::Queue;
use crate::platform::caller;
use crate::platform::door::Door;
use crate::platform::metrics::Metrics;
use oracled_store::{Receipt, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// What everyone else has of the logger: commits that fall back to the service log, and its report.
#[derive(Debug, Clone)]
pub struct Log {
    door: Door<Logger>,
    queue: Queue,
    pub(super) report: watch::Receiver<JournalReport>,
    fallback: Fallback,
    fallback_entries: Arc<AtomicU64>,
    metrics: Metrics,
}

impl Log {
    /// The log, and the entries that wait in its queue for [`Log::write`].
    pub(crate) fn new(
        door: Door<Logger>,
        report: watch::Receiver<JournalReport>,
        fallback: Fallback,
        fallback_entries: Arc<AtomicU64>,
        metrics: Metrics,
    ) -> (Self, Waiting) {
        let (queue, waiting) = Queue::new();
        (Self { door, queue, report, fallback, fallback_entries, metrics }, waiting)
    }

    /// Makes `record` durable, on behalf of the current caller. If that fails for any cause but a stale row, its events
    /// go to the service log.
    ///
    /// # Errors
    /// `Stale`, after which to read and decide again; `Unavailable`, after which nothing may be delivered.
    pub async fn commit(&self, record: Record) -> Result<Receipt, CommitError> {
        let record = Arc::new(caller::of_caller(record));
        let outcome = self.ask(&record).await;
        if let Err(CommitError::Unavailable(cause)) = &outcome {
            self.fall_back(&record, cause);
        }
        outcome
    }

    pub(super) async fn ask(&self, record: &Arc<Record>) -> Result<Receipt, CommitError> {
        let answer = self.door.ask(Commit(Arc::clone(record))).await;
        answer.unwrap_or_else(|error| Err(CommitError::Unavailable(error.to_string())))
    }

    pub(super) fn fall_back(&self, record: &Record, cause: &str) {
        let entries = self.fallback.write(record, cause);
        self.fallback_entries.fetch_add(entries, Ordering::Relaxed);
        self.metrics.fallback_entries.inc_by(entries);
    }

    /// Opens `oracle_log.jsonl` anew after a rotation.
    ///
    /// # Errors
    /// What kept it from being opened, in words.
    pub async fn reopen_mirror(&self) -> Result<(), String> {
        self.door.ask(ReopenMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Notes that the store was found damaged, for the next start to look at all of it before it serves.
    pub async fn doubt(&self) {
        let noted = self.door.ask(Doubt).await.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(error) = noted {
            tracing::error!(error, "the next start will not know that the store was found damaged");
        }
    }

    /// Writes everything to the disk, queued entries included. The log accepts no more entries.
    pub async fn close(&self) {
        self.flush().await;
        if let Err(error) = self.door.ask(Close).await {
            tracing::error!(%error, "the logger could not be closed");
        }
    }

    /// The latest report, and a way to wait for the next.
    #[must_use]
    pub fn report(&self) -> watch::Receiver<JournalReport> {
        self.report.clone()
    }

    /// The actor's door, for its report.
    #[must_use]
    pub fn door(&self) -> &Door<Logger> {
        &self.door
    }
}
