//! The cached verdicts: one document a session.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::Table;
use domain::{Delivery, SessionId};

impl Store {
    /// The cached verdict of a session with its revision, judged anew on its way out of the store.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(Delivery, u64)>, StoreError> {
        self.read_row(Table::Verdicts, session_id.as_str())
    }
}
