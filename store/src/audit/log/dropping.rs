//! Dropping the first entries of the log. The hashes of their leaves stay.

use super::{BLOCK_ENTRIES, first_seq_of, row_at};
use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows::TableId;
use oracled_domain::audit::log_tiles::TILE_HASHES;

impl TableReader {
    /// The last entry that can be dropped with the entries up to `last`. Rows are dropped as a whole, and only those whose hashes are
    /// in full tiles: the hashes of the last tiles are computed from the entries.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn droppable_up_to(&self, last: u64) -> Result<u64, StoreError> {
        self.read(|db, durable_seq| {
            let in_full_tiles = durable_seq - durable_seq % TILE_HASHES as u64;
            let first = meta::first_seq(db, self.dir())?;
            let kept = row_at(db, self.dir(), last.min(in_full_tiles) + 1)?.unwrap_or(first);
            Ok(kept.max(first) - 1)
        })
    }
}

/// The changes in `rows` without those of entries before `first` and of their index.
pub(crate) fn without_dropped(rows: RowBatch, first: u64) -> RowBatch {
    let mut kept = RowBatch::default();
    for (key, value) in rows.into_rows() {
        match value {
            _ if is_dropped(&key, first) => {}
            Some(value) => kept.insert(key, value),
            None => kept.remove(key),
        }
    }
    kept
}

/// Whether `key` is that of a row of entries before `first`, or of their index.
fn is_dropped(key: &[u8], first: u64) -> bool {
    let of = |table: TableId| key.first() == Some(&(table as u8));
    if of(TableId::Log) {
        first_seq_of(key).is_some_and(|row| row < first)
    } else if of(TableId::ByEvent) {
        // the key has the first entry of a block
        last_number(key).is_some_and(|block| block + BLOCK_ENTRIES <= first)
    } else {
        let is_indexed = of(TableId::BySession) || of(TableId::ByExecution);
        is_indexed && last_number(key).is_some_and(|seq| seq < first)
    }
}

/// The number at the end of a key of an index.
fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().copied().map(u64::from_be_bytes)
}
