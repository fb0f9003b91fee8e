//! The sessions, which outlive their cached verdicts.

use crate::engine::Store;
use crate::error::StoreError;
use crate::meta;
use crate::rows::Table;
use domain::{Session, SessionId, Sha256Hex};

impl Store {
    /// A session with its revision.
    pub fn session(&self, session_id: &SessionId) -> Result<Option<(Session, u64)>, StoreError> {
        self.read_row(Table::Sessions, session_id.as_str())
    }

    /// The digest of `text` under the store's own key, for the audit log: equal texts have equal digests, and nobody
    /// without the store can test a guess.
    pub fn keyed_digest(&self, text: &str) -> Result<Sha256Hex, StoreError> {
        Ok(Sha256Hex::keyed(&meta::digest_key(self.engine())?, text.as_bytes()))
    }
}
