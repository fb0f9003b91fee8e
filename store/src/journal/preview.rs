//! A preview of the store after some writes, for decisions that depend on each other before any is committed.

use crate::base::row_write::{RowName, RowWrite};
use crate::base::rows::{StoredValue, chunk_key};
use crate::ground::Store;

/// The revision of a previewed row. No stored row has it.
pub const PREVIEW_REVISION: u64 = u64::MAX;

impl Store {
    /// Reads from now on as if `writes` that put documents or sources had been committed. Nothing is stored,
    /// and the open files of sources stay as they are.
    pub fn preview(&mut self, writes: &[RowWrite]) {
        let rows = writes.iter().filter_map(|RowWrite { row: RowName { table, name }, value, .. }| {
            let value = StoredValue { revision: PREVIEW_REVISION, value: value.clone()? };
            Some((chunk_key(table.name, name.as_bytes(), 0), value))
        });
        self.add_preview(rows);
    }
}
