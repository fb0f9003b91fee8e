//! The sessions, which outlive their cached verdicts.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::Table;
use domain::{Session, SessionId};

impl Store {
    /// A session with its revision.
    pub fn session(&self, session_id: &SessionId) -> Result<Option<(Session, u64)>, StoreError> {
        self.read_row(Table::Sessions, session_id.as_str())
    }
}
