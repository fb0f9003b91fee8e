//! The handle of the logger, which the other actors use.

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

/// The handle of the logger. A failed commit falls back to the service log.
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
    /// Returns the handle, and the queued entries, which [`Log::write`] commits.
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

    /// Makes `record` durable, on behalf of the current caller. If that fails for another reason than a stale row, its
    /// events go to the service log.
    ///
    /// # Errors
    /// `Stale`: read and decide again. `Unavailable`: nothing may be delivered.
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

    /// Reopens `oracle_log.jsonl` after a rotation.
    ///
    /// # Errors
    /// The text of the error that occurred while the file was opened.
    pub async fn reopen_mirror(&self) -> Result<(), String> {
        self.door.ask(ReopenMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Notes that the store is damaged, so that the next start checks all of it before it serves.
    pub async fn doubt(&self) {
        let noted = self.door.ask(Doubt).await.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(error) = noted {
            tracing::error!(
                error,
                "could not note the damage of the store; the next start will not check it"
            );
        }
    }

    /// Writes everything to the disk, queued entries included. The log accepts no more entries.
    pub async fn close(&self) {
        self.flush().await;
        if let Err(error) = self.door.ask(Close).await {
            tracing::error!(%error, "could not close the logger");
        }
    }

    /// The journal's latest report, and a way to wait for the next.
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
