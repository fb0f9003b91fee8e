//! Commits of events that have already happened outside. They are repeated until the journal accepts them.

use super::{CommitError, LoggerHandle};
use actors_platform::caller::add_current_caller;
use oracled_store::{CommitReceipt, JournalRecord, RowName};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The shortest pause before a rejected record is committed again.
const COMMIT_PAUSE: Duration = Duration::from_secs(1);

/// A record that is not committed yet, and why the journal rejected it. If this is dropped, the record falls
/// back to the service log.
struct UncommittedRecord<'l> {
    log: &'l LoggerHandle,
    record: Arc<JournalRecord>,
    cause: Option<String>,
}

impl Drop for UncommittedRecord<'_> {
    fn drop(&mut self) {
        if let Some(cause) = &self.cause {
            self.log.fall_back(&self.record, cause);
        }
    }
}

impl LoggerHandle {
    /// Makes `record` durable, and retries without a limit while the journal is unavailable. Its events go to
    /// the service log only if the future is dropped, as when the daemon ends.
    ///
    /// # Errors
    /// The stale row: read and decide again.
    pub async fn commit_with_retries(&self, record: JournalRecord) -> Result<CommitReceipt, RowName> {
        let mut untaken = UncommittedRecord {
            log: self,
            record: Arc::new(add_current_caller(self.outbox.add_webhooks(record))),
            cause: None,
        };
        loop {
            let outcome = self.try_commit(&untaken.record).await;
            untaken.cause = None;
            match outcome {
                Ok(receipt) => return Ok(receipt),
                Err(CommitError::Stale(row)) => return Err(row),
                Err(CommitError::Unavailable(cause)) => {
                    tracing::warn!(cause, "could not commit events that have happened; retrying");
                    untaken.cause = Some(cause);
                    self.wait_until_available().await;
                }
            }
        }
    }

    /// Waits for the pause, and then until the journal accepts entries.
    async fn wait_until_available(&self) {
        sleep(COMMIT_PAUSE).await;
        let back = self.report().wait_for(|report| report.failure.is_none()).await.map(drop);
        if back.is_err() {
            // the logger has stopped, and the daemon is about to stop
            std::future::pending::<()>().await;
        }
    }
}
