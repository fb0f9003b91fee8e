//! The start of a backup, between two commits.

use super::{Logger, LoggerHandle, stopping, unavailable};
use actix::{Context, Handler, Message};
use oracled_store::{StoreBackup, StoreError};

/// Links the files of the store as they are after the last commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<StoreBackup, StoreError>")]
struct BeginBackup;

impl Handler<BeginBackup> for Logger {
    type Result = Result<StoreBackup, StoreError>;

    fn handle(&mut self, _: BeginBackup, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_backup()
    }
}

impl LoggerHandle {
    /// Links the files of the store as they are after the last commit. Commits wait meanwhile.
    ///
    /// # Errors
    /// `Unavailable` while the journal accepts no writes, `Io` if a file cannot be linked.
    pub async fn begin_backup(&self) -> Result<StoreBackup, StoreError> {
        let begun = self.handle.ask(BeginBackup).await;
        begun.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}
