//! The latest attempt to regenerate each session's verdict.

use crate::base::engine::TableReader;
use domain_base::session_id::SessionId;
use domain_verdict::regen::RegenAttempt;
use store_base::error::StoreError;

impl TableReader {
    /// The latest attempt of a session, with its revision.
    pub fn regen_attempt(&self, session_id: &SessionId) -> Result<Option<(RegenAttempt, u64)>, StoreError> {
        self.get(session_id)
    }
}
