//! Checks that refused verdicts of sessions that are not known.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::{self, CHUNK_BYTES, Table};
use domain::SessionId;
use domain::session::Refusal;

/// The size of a stored refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalSize {
    /// Its session.
    pub session_id: SessionId,
    /// Its revision; a newer refusal has a higher one.
    pub revision: u64,
    /// Its bytes on the disk, rounded up.
    pub bytes: u64,
}

impl Store {
    /// The refusal of a session with its revision.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn refusal(&self, session_id: &SessionId) -> Result<Option<(Refusal, u64)>, StoreError> {
        self.read_row(Table::Refusals, session_id.as_str())
    }

    /// The size of the refusal of a session, if there is one.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn refusal_size(&self, session_id: SessionId) -> Result<Option<RefusalSize>, StoreError> {
        let name = session_id.as_str().as_bytes();
        let head = self.read(|db, _| rows::head(db, self.dir(), Table::Refusals, name))?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RefusalSize { session_id, revision, bytes }
        }))
    }

    /// The sizes of all refusals.
    ///
    /// # Errors
    /// Where one cannot be read.
    pub fn refusal_sizes(&self) -> Result<Vec<RefusalSize>, StoreError> {
        let names = self.names(Table::Refusals, rows::all(Table::Refusals), .., usize::MAX)?;
        let size = |name: String| name.parse().ok().and_then(|id| self.refusal_size(id).transpose());
        names.into_iter().filter_map(size).collect()
    }
}
