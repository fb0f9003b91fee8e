//! Verdicts that the policy holds. Their texts are encrypted.

use crate::base::engine::TableReader;
use crate::base::rows;
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::held::HeldVerdict;
use store_base::error::StoreError;

impl TableReader {
    /// The verdict of a session that the policy holds, with its revision.
    ///
    /// # Errors
    /// The held verdict cannot be read.
    pub fn held_verdict(&self, session_id: &SessionId) -> Result<Option<(HeldVerdict, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The revision of the held verdict of a session, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn held_verdict_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let name = session_id.as_str().as_bytes();
        let head = self.read(|db, _| rows::head(db, self.dir(), HeldVerdict::TABLE.name, name))?;
        Ok(head.map(|(revision, _)| revision))
    }

    /// Whether the policy holds any verdict.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_held_verdicts(&self) -> Result<bool, StoreError> {
        Ok(!self.names_after(HeldVerdict::TABLE.name, None, 1)?.is_empty())
    }
}
