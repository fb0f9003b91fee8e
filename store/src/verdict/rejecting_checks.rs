//! Checks that rejected verdicts of unknown sessions.

use crate::base::engine::TableReader;
use crate::base::rows::{self, CHUNK_BYTES};
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::session::RejectingCheck;
use store_base::error::StoreError;

/// The size of a stored rejecting check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectingCheckSize {
    pub session_id: SessionId,
    /// The revision; a newer rejecting check has a higher one.
    pub revision: u64,
    /// The size on the disk, in bytes, rounded up to whole chunks.
    pub bytes: u64,
}

impl TableReader {
    /// A rejecting check with its revision.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check(
        &self,
        session_id: &SessionId,
    ) -> Result<Option<(RejectingCheck, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The size of a rejecting check; `None` if it does not exist.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check_size(
        &self,
        session_id: SessionId,
    ) -> Result<Option<RejectingCheckSize>, StoreError> {
        let name = session_id.as_str().as_bytes();
        let head = self.read(|db, _| rows::head(db, self.dir(), RejectingCheck::TABLE.name, name))?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RejectingCheckSize { session_id, revision, bytes }
        }))
    }

    /// The sizes of all rejecting checks.
    ///
    /// # Errors
    /// A rejecting check cannot be read.
    pub fn rejecting_check_sizes(&self) -> Result<Vec<RejectingCheckSize>, StoreError> {
        let names = self.names(rows::all(RejectingCheck::TABLE.name), .., usize::MAX)?;
        let size = |name: String| {
            name.parse().ok().and_then(|session_id| self.rejecting_check_size(session_id).transpose())
        };
        names.into_iter().filter_map(size).collect()
    }
}
