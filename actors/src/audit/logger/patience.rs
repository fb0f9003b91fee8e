//! Commits of what has happened outside and cannot be taken back: they are tried until the journal takes them.

use super::{CommitError, Log};
use crate::platform::caller::of_caller;
use oracled_store::{Receipt, Record, RowKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long whoever waits for the journal to take a record waits at least.
const COMMIT_PAUSE: Duration = Duration::from_secs(1);

/// A record that is tried to be committed, and why the journal did not take it. Dropped then, it is given up.
struct Untaken<'l> {
    log: &'l Log,
    record: Arc<Record>,
    cause: Option<String>,
}

impl Drop for Untaken<'_> {
    fn drop(&mut self) {
        if let Some(cause) = &self.cause {
            self.log.fall_back(&self.record, cause);
        }
    }
}

impl Log {
    /// Makes `record` durable however long that takes: where the journal does not take it, it is tried again. Its events
    /// go to the service log only if it is given up, which is by dropping this, as the end of the daemon does.
    ///
    /// # Errors
    /// The row that was stale, after which to read and decide again.
    pub(crate) async fn commit_patiently(&self, record: Record) -> Result<Receipt, RowKey> {
        let mut untaken = Untaken { log: self, record: Arc::new(of_caller(record)), cause: None };
        loop {
            let outcome = self.ask(&untaken.record).await;
            untaken.cause = None;
            match outcome {
                Ok(receipt) => return Ok(receipt),
                Err(CommitError::Stale(row)) => return Err(row),
                Err(CommitError::Unavailable(cause)) => {
                    tracing::warn!(cause, "what has happened cannot be logged; it will be tried again");
                    untaken.cause = Some(cause);
                    self.is_back().await;
                }
            }
        }
    }

    /// Waits a moment, and until the journal takes entries.
    async fn is_back(&self) {
        sleep(COMMIT_PAUSE).await;
        let back = self.report().wait_for(|report| report.failure.is_none()).await.map(drop);
        if back.is_err() {
            // the logger is gone, and the daemon with it in a moment
            std::future::pending::<()>().await;
        }
    }
}
