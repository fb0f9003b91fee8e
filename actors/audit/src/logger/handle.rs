//! The handle of the logger, which the other actors use.

pub mod queue;

use super::{
    CloseJournal, CommitError, CommitRecord, EntryQueueReceiver, JournalReport, Logger, LoggerMetrics,
    RebuildDatabase, ReopenMirror, RewriteMirror, SnapshotMirror,
};
use crate::fallback::FallbackLog;
use crate::logger::handle::queue::EntryQueue;
use crate::logger::outbox_queue::OutboxQueue;
use actors_platform::actor_handle::ActorHandle;
use actors_platform::caller;
use oracled_store::{CommitReceipt, JournalRecord, MirrorFault, MirrorSnapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The handle of the logger. A failed commit falls back to the service log.
#[derive(Debug, Clone)]
pub struct LoggerHandle {
    pub(super) handle: ActorHandle<Logger>,
    queue: EntryQueue,
    pub(super) report: watch::Receiver<JournalReport>,
    fallback: FallbackLog,
    fallback_entries: Arc<AtomicU64>,
    metrics: LoggerMetrics,
    pub(super) outbox: OutboxQueue,
}

impl LoggerHandle {
    /// Returns the handle, and the queued entries, which [`LoggerHandle::commit_queued_entries`] commits.
    pub fn new(
        handle: ActorHandle<Logger>,
        report: watch::Receiver<JournalReport>,
        fallback: FallbackLog,
        fallback_entries: Arc<AtomicU64>,
        metrics: LoggerMetrics,
        outbox: OutboxQueue,
    ) -> (Self, EntryQueueReceiver) {
        let (queue, waiting) = EntryQueue::new();
        (Self { handle, queue, report, fallback, fallback_entries, metrics, outbox }, waiting)
    }

    /// Makes `record` durable, on behalf of the current caller. If that fails for another reason than a stale row, its
    /// events go to the service log.
    ///
    /// # Errors
    /// `Stale`: read and decide again. `Unavailable`: nothing may be delivered.
    pub async fn commit(&self, record: JournalRecord) -> Result<CommitReceipt, CommitError> {
        let record = Arc::new(caller::add_current_caller(self.outbox.add_webhooks(record)));
        let outcome = self.try_commit(&record).await;
        if let Err(CommitError::Unavailable(cause)) = &outcome {
            self.fall_back(&record, cause);
        }
        outcome
    }

    pub(super) async fn try_commit(&self, record: &Arc<JournalRecord>) -> Result<CommitReceipt, CommitError> {
        let answer = self.handle.ask(CommitRecord(Arc::clone(record))).await;
        let outcome = answer.unwrap_or_else(|error| Err(CommitError::Unavailable(error.to_string())));
        if outcome.is_ok() {
            self.outbox.report_committed(record);
        }
        outcome
    }

    pub(super) fn fall_back(&self, record: &JournalRecord, cause: &str) {
        let entries = self.fallback.write(record, cause);
        self.fallback_entries.fetch_add(entries, Ordering::Relaxed);
        self.metrics.fallback_entries.inc_by(entries);
    }

    /// Reopens `oracle_log.jsonl` after a rotation.
    ///
    /// # Errors
    /// The text of the error that occurred while the file was opened.
    pub async fn reopen_mirror(&self) -> Result<(), String> {
        self.handle.ask(ReopenMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// `oracle_log.jsonl` as it is now, to compare it with the log.
    ///
    /// # Errors
    /// The text of the error: the file cannot be opened.
    pub async fn mirror_snapshot(&self) -> Result<MirrorSnapshot, String> {
        self.handle.ask(SnapshotMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Logs the fault that was found in `snapshot`, moves the file aside, and writes it again from the log. Does nothing if
    /// the file was rotated meanwhile.
    ///
    /// # Errors
    /// The text of the error: the entry cannot be committed, or the file cannot be moved.
    pub async fn rewrite_mirror(&self, snapshot: MirrorSnapshot, fault: MirrorFault) -> Result<(), String> {
        let rewritten = self.handle.ask(RewriteMirror(snapshot, fault)).await;
        rewritten.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Rebuilds the database from the segments, since `damage` was found. Until it is rebuilt, reads fail and commits wait.
    ///
    /// # Errors
    /// The text of the error: the disk cannot be written. It is tried again every second.
    pub async fn rebuild_database(&self, damage: String) -> Result<(), String> {
        self.handle.ask(RebuildDatabase(damage)).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Writes everything to the disk, queued entries included. The log accepts no more entries.
    pub async fn close(&self) {
        self.flush().await;
        if let Err(error) = self.handle.ask(CloseJournal).await {
            tracing::error!(%error, "could not close the logger");
        }
    }

    /// The journal's latest report, and a way to wait for the next.
    #[must_use]
    pub fn report(&self) -> watch::Receiver<JournalReport> {
        self.report.clone()
    }

    /// The actor's handle, for its report.
    #[must_use]
    pub fn actor_handle(&self) -> &ActorHandle<Logger> {
        &self.handle
    }
}
