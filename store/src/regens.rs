//! The latest attempt to regenerate each session's verdict.

use crate::engine::Tables;
use crate::error::StoreError;
use crate::rows::Table;
use oracled_domain::{RegenAttempt, SessionId};

impl Tables {
    /// The latest attempt of a session with its revision.
    pub fn regen_attempt(&self, session_id: &SessionId) -> Result<Option<(RegenAttempt, u64)>, StoreError> {
        self.read_row(Table::Regens, session_id.as_str())
    }
}
