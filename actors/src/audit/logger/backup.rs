//! The start of a backup, between two commits.

use super::{Logger, LoggerHandle};
use actix::{Context, Handler, Message};
use oracled_store::{Journal, StoreBackup, StoreError};

/// Links the files of the store as they are after the last commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<StoreBackup, StoreError>")]
struct BeginBackup;

impl Handler<BeginBackup> for Logger {
    type Result = Result<StoreBackup, StoreError>;

    fn handle(&mut self, _: BeginBackup, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().map_or(Err(StoreError::Stopped), Journal::begin_backup)
    }
}

impl LoggerHandle {
    /// Links the files of the store as they are after the last commit. Commits wait meanwhile.
    ///
    /// # Errors
    /// `Stopped` while the daemon stops, `Unavailable` while the journal accepts no writes, `Io` if a file cannot be linked.
    pub async fn begin_backup(&self) -> Result<StoreBackup, StoreError> {
        let begun = self.actor_handle().ask(BeginBackup).await;
        begun.unwrap_or_else(|error| Err(StoreError::Unavailable { cause: error.to_string() }))
    }
}
