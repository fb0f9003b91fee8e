//! A preview of the store after some writes, for decisions that depend on each other before any is committed.

use crate::base::rows::StoredRow;
use crate::ground::Store;
use crate::journal::record::TableWrite;
use crate::journal::staged::row_location;

/// The revision of a previewed row. No stored row has it.
pub const PREVIEW_REVISION: u64 = u64::MAX;

impl Store {
    /// Reads from now on as if `writes` that put documents or sources had been committed. Nothing is stored,
    /// and the open files of sources stay as they are.
    pub fn preview(&mut self, writes: &[TableWrite]) {
        let rows = writes.iter().filter_map(|write| {
            let key = write.row();
            let (table, name) = row_location(&key);
            let row = StoredRow { revision: PREVIEW_REVISION, chunks: 0, value: write.value()? };
            Some(((table, name.into_owned()), row))
        });
        self.add_preview(rows);
    }
}
