//! A new database, which is built beside the present one and then replaces it.

use super::opening::note_whole;
use crate::base::engine::{NEW_DIR, StoreEngine, StoreOptions, TableReader, lock_state, remove_dir};
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, StoredValue, stored_in};
use crate::base::watermark::{StoreCounts, Watermark};
use domain_audit::log_tree::LogTree;
use domain_base::row::IndexEntry;
use oracled_domain::tables::tables;
use std::fs;
use std::sync::Arc;
use store_base::disk::{DATABASE_DIR, DATABASE_FILE};
use store_base::error::StoreError;

/// The page cache of a new database, in bytes.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Creates an empty database beside that of the store with these options. A snapshot of it `is_written` too.
///
/// # Errors
/// `Unavailable` if too little space is free, `Io` if the folder cannot be written.
pub(super) fn create_database(
    options: &StoreOptions,
    is_written: bool,
) -> Result<Arc<StoreEngine>, StoreError> {
    let dir = options.dir.join(NEW_DIR);
    remove_dir(&dir)?;
    fs::create_dir(&dir).map_err(|source| StoreError::write_error(&dir, source))?;
    let created = (|| {
        let lock = lock_state(&dir)?;
        let new_options = StoreOptions { dir: dir.clone(), cache_bytes: CACHE_BYTES, ..options.clone() };
        let new = StoreEngine::new(new_options, lock);
        // a damaged or restored store can lack it
        let present = fs::metadata(options.dir.join(DATABASE_DIR).join(DATABASE_FILE));
        let needed = present.map_or(0, |found| found.len());
        // a snapshot is compressed
        new.free().check_for(needed + if is_written { needed / 2 } else { 0 })?;
        new.open_database(None)?;
        Ok(Arc::new(new))
    })();
    if created.is_err() {
        remove_dir(&dir)?;
    }
    created
}

/// Replaces the database of `engine`, which is not served, by `new`, which is whole and has `counts`.
///
/// # Errors
/// The files cannot be written or renamed. The next start rebuilds the database then.
pub(super) fn adopt_database(
    engine: &StoreEngine,
    new: &StoreEngine,
    mark: &mut Watermark,
    counts: &StoreCounts,
) -> Result<(), StoreError> {
    // after a kill, the next start must not use what is left of the previous database
    mark.now.walked = 0;
    let io = |source| StoreError::Io { path: engine.dir().to_owned(), source };
    mark.write_synced().map_err(io)?;
    if !engine.replace_database(new)? {
        return Err(StoreError::Unavailable { cause: "the database is in use".to_owned() });
    }
    engine.close_database();
    // reads have found it in the previous database
    engine.take_damage();
    mark.now.snapshot = engine.snapshot();
    note_whole(engine, mark, counts)
}

/// Writes the indexes of all tables again, and counts all rows. The log ends with `tree`.
///
/// # Errors
/// The rows cannot be read or written.
pub(super) fn index_and_count(new: &Arc<StoreEngine>, tree: &LogTree) -> Result<StoreCounts, StoreError> {
    let reader = TableReader::new(Arc::clone(new));
    new.set_up_to_date();
    new.set_durable_seq(tree.size());
    for table in tables().filter(|table| !table.indexes.is_empty()) {
        for index in table.indexes {
            reader.visit_names(index.name, None, |names| {
                let mut batch = RowBatch::default();
                names.iter().for_each(|name| rows::remove(&mut batch, index.name, name.as_bytes(), 1));
                new.apply(batch).map(|()| true)
            })?;
        }
        reader.visit_names(stored_in(table), None, |names| {
            let mut batch = RowBatch::default();
            for name in &names {
                let Some(StoredValue { revision, value }) = reader.value(table, name)? else { continue };
                for IndexEntry { index, name } in (table.index)(&value) {
                    rows::put(&mut batch, index, name.as_bytes(), revision, &[], 0);
                }
            }
            new.apply(batch).map(|()| true)
        })?;
    }
    let mut counts = StoreCounts { entries: tree.size(), ..StoreCounts::default() };
    for table in StoreCounts::tables() {
        let count = reader.count_rows(table, u64::MAX, &mut |_| true)?.unwrap_or_default();
        counts.change(table, i64::try_from(count).unwrap_or(i64::MAX));
    }
    Ok(counts)
}
