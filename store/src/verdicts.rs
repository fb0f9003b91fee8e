//! The cached verdicts: one document a session.

use crate::engine::Store;
use crate::error::StoreError;
use crate::rows::{self, Table};
use domain::{Delivery, SessionId};

impl Store {
    /// The cached verdict of a session with its revision, judged anew on its way out of the store.
    pub fn verdict(&self, session_id: &SessionId) -> Result<Option<(Delivery, u64)>, StoreError> {
        self.read_row(Table::Verdicts, session_id.as_str())
    }

    /// A typed row that is durable, with its revision.
    pub(crate) fn read_row<T: serde::de::DeserializeOwned>(
        &self,
        table: Table,
        name: &str,
    ) -> Result<Option<(T, u64)>, StoreError> {
        self.read(|db, _| {
            let row = rows::get(db, self.dir(), table, name.as_bytes())?;
            let Some(row) = row.and_then(|row| self.durable(table, name.as_bytes(), row)) else {
                return Ok(None);
            };
            let value = serde_json::from_slice(&row.value).map_err(|error| StoreError::Corrupt {
                dir: self.dir().to_owned(),
                detail: format!("the row {name} in table {table:?}: {error}"),
            })?;
            Ok(Some((value, row.revision)))
        })
    }
}
