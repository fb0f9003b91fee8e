//! Dropping the first entries of the log. The hashes of their leaves stay.

use super::{
    BLOCK_ENTRIES, BY_EVENT, BY_EXECUTION, BY_SESSION, KEPT_ENTRIES, LOG, LogLine, damaged_line,
    first_seq_of, row, row_at, seq_of_line,
};
use crate::base::engine::TableReader;
use crate::base::row_batch::RowBatch;
use crate::base::{meta, rows};
use domain_audit::leaf::{hide_values, is_addition};
use domain_audit::log_tiles::TILE_HASHES;
use domain_base::event::{EventClass, event_in};
use oracled_domain::events::event_type;
use std::path::Path;
use store_base::error::StoreError;

impl TableReader {
    /// The entries that were dropped from the log and kept apart, in the order of their numbers.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn kept_entries(&self) -> Result<Vec<LogLine>, StoreError> {
        self.read(|db, _| {
            let mut lines = Vec::new();
            for head in rows::heads(db, self.dir(), rows::all(KEPT_ENTRIES)) {
                let rows::StoredRowHead { key, revision: seq, .. } = head?;
                let name = rows::name(&key).unwrap_or_default();
                let row = rows::get(db, self.dir(), KEPT_ENTRIES, name)?;
                let json = row.and_then(|row| String::from_utf8(row.value).ok());
                let json = json.ok_or_else(|| StoreError::Corrupt {
                    dir: self.dir().to_owned(),
                    detail: format!("entry {seq}, which was dropped from the log, cannot be read"),
                })?;
                lines.push(LogLine { seq, json });
            }
            Ok(lines)
        })
    }

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

/// The changes in `rows` without those of entries before `first` and of their index. Entries of prunings are kept apart from the
/// log, without their callers and rows, since a rebuild of a source repeats its prunings.
pub(crate) fn without_dropped(rows: RowBatch, first: u64, dir: &Path) -> Result<RowBatch, StoreError> {
    let mut kept = RowBatch::default();
    for (key, _) in rows.range(rows::all(LOG)).filter(|(key, _)| rows::is_first_chunk(key)) {
        let name = rows::name(key).unwrap_or_default();
        if !is_dropped(key, first) {
            continue;
        }
        let Some(value) = rows::get_from(&rows, LOG, name).flatten() else { continue };
        let lines = row::decode(&value).ok_or_else(|| StoreError::Corrupt {
            dir: dir.to_owned(),
            detail: format!("a row of the log before entry {first} is damaged"),
        })?;
        for line in lines.lines().filter(|line| is_kept(line)) {
            let seq = seq_of_line(line.as_bytes()).unwrap_or_default();
            let line = hide_values(line, is_addition).map_err(|error| damaged_line(dir, &error))?;
            rows::put(&mut kept, KEPT_ENTRIES, &seq.to_be_bytes(), seq, line.as_bytes(), 0);
        }
    }
    for (key, value) in rows.into_rows() {
        match value {
            _ if is_dropped(&key, first) => {}
            Some(value) => kept.insert(key, value),
            None => kept.remove(key),
        }
    }
    Ok(kept)
}

/// The entries that were dropped from the log and kept apart, in the rows of a group.
pub(crate) fn kept_entries_in(rows: &RowBatch) -> impl Iterator<Item = String> + use<'_> {
    let firsts = rows.range(rows::all(KEPT_ENTRIES)).filter(|(key, _)| rows::is_first_chunk(key));
    firsts.filter_map(|(key, _)| {
        let line = rows::get_from(rows, KEPT_ENTRIES, rows::name(key)?)??;
        String::from_utf8(line).ok()
    })
}

/// Whether the entry with this line is kept apart.
fn is_kept(line: &str) -> bool {
    event_in(line).and_then(event_type).is_some_and(|kind| kind.class == EventClass::Kept)
}

/// Whether `key` is that of a row of entries before `first`, or of their index.
fn is_dropped(key: &[u8], first: u64) -> bool {
    let of = |table| rows::is_of(key, table);
    if of(LOG) {
        first_seq_of(key).is_some_and(|row| row < first)
    } else if of(BY_EVENT) {
        // the key has the first entry of a block
        last_number(key).is_some_and(|block| block + BLOCK_ENTRIES <= first)
    } else {
        let is_indexed = of(BY_SESSION) || of(BY_EXECUTION);
        is_indexed && last_number(key).is_some_and(|seq| seq < first)
    }
}

/// The number at the end of a key of an index.
fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().copied().map(u64::from_be_bytes)
}
