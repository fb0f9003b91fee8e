//! The layout of a row in the database: its key, its revision, and its value in chunks.
//!
//! All tables share one sled tree, so that one batch can hold a whole group of records. sled recovers a batch
//! completely or not at all. A key begins with the name of its table and a slash.
//!
//! sled keeps up to 16 values in a leaf and moves a leaf of more than 128 KiB to a separate file, which it never syncs.
//! Therefore no value here is longer than [`CHUNK_BYTES`]. A longer row continues under the next chunk number.

use crate::base::database::{Database, START_BYTES, StoredForm};
use crate::base::row_batch::RowBatch;
use domain_base::row::{Row, Table};
use oracled_domain::tables;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;
use store_base::error::StoreError;

/// The longest value in the database: 17 of them, with their keys, stay below sled's 128 KiB.
pub const CHUNK_BYTES: usize = 6 * 1024;
/// The longest row: 384 MiB. The creators of records keep them well below that. The largest record is that of
/// a decision: it has the answers of all its oracles and their cached answers, 64 KiB each.
pub(crate) const ROW_MAX_BYTES: usize = u16::MAX as usize * CHUNK_BYTES - HEAD_BYTES;
/// Attempts to read a row that is replaced while it is read.
const READ_ATTEMPTS: usize = 100;
/// A first chunk begins with the revision (8 bytes) and the number of chunks (2 bytes), both big-endian. sled has these bytes of
/// each row.
const HEAD_BYTES: usize = START_BYTES;

/// The longest row of one chunk.
pub(crate) const ONE_CHUNK_BYTES: usize = CHUNK_BYTES - HEAD_BYTES;

/// The table of the metadata.
pub(crate) const META: &str = "meta";
/// The table of the rows that every copy has lost, by their paths.
pub(crate) const LOST: &str = "lost";
/// Ends the name of the table in a key. No table has it in its name.
const TABLE_END: u8 = b'/';

/// The name of a row in the entry that sets it: `sessions/cs_1`.
pub(crate) fn row_path(table: &Table, name: &str) -> String {
    format!("{}/{name}", table.name)
}

/// The table and the name in a path of [`row_path`].
pub(crate) fn row_of_path(path: &str) -> Option<(&'static Table, &str)> {
    let (table, name) = path.split_once('/')?;
    Some((tables::table(table)?, name))
}

/// The table of the database that has the rows of `table`.
#[must_use]
pub const fn stored_in(table: &'static Table) -> &'static str {
    match table.bundle {
        Some(bundle) => bundle,
        None => table.name,
    }
}

/// The tables whose rows are stored in `stored`, a table of the database.
pub(crate) fn tables_in(stored: &str) -> impl Iterator<Item = &'static Table> {
    tables::tables().filter(move |table| stored_in(table) == stored)
}

/// The tables of the database with rows that entries name, each once.
pub(crate) fn stored_tables() -> impl Iterator<Item = &'static str> {
    static STORED: LazyLock<BTreeSet<&str>> = LazyLock::new(|| tables::tables().map(stored_in).collect());
    STORED.iter().copied()
}

/// A key, and the start of the keys that begin with these parts.
#[must_use]
pub fn key(table: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = table.as_bytes().to_vec();
    key.push(TABLE_END);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// The key of the counts.
pub(crate) fn counts_key() -> Vec<u8> {
    key(META, &[b"counts"])
}

/// Whether `key` is that of the counts. They are in the last group of a snapshot, and applied last of each group.
pub(crate) fn is_counts_key(key: &[u8]) -> bool {
    is_of(key, META) && key == counts_key()
}

/// The keys of all rows of a table.
#[must_use]
pub fn all(table: &str) -> Range<Vec<u8>> {
    let (start, mut end) = (key(table, &[]), table.as_bytes().to_vec());
    end.push(TABLE_END + 1);
    start..end
}

/// The keys of `table` whose names begin with `prefix`.
#[must_use]
pub fn with_prefix(table: &str, prefix: &str) -> Range<Vec<u8>> {
    // no name has this byte
    key(table, &[prefix.as_bytes()])..key(table, &[prefix.as_bytes(), &[u8::MAX]])
}

/// The table of a key, and the rest of the key.
pub(crate) fn split_key(key: &[u8]) -> Option<(&str, &[u8])> {
    let end = key.iter().position(|byte| *byte == TABLE_END)?;
    let (table, rest) = key.split_at(end);
    Some((str::from_utf8(table).ok()?, rest.get(1..)?))
}

/// Whether `key` is one of `table`.
pub(crate) fn is_of(key: &[u8], table: &str) -> bool {
    key.strip_prefix(table.as_bytes()).is_some_and(|rest| rest.first() == Some(&TABLE_END))
}

/// The key of chunk number `chunk` of the row called `name`.
pub(crate) fn chunk_key(table: &str, name: &[u8], chunk: u16) -> Vec<u8> {
    // the 0 byte, which no name holds, keeps "ab" + chunk apart from the rows of longer names
    key(table, &[name, &[0], &chunk.to_be_bytes()])
}

/// The value of a row, with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    pub revision: u64,
    /// It is empty if no copy was left.
    pub value: Vec<u8>,
}

/// A row that was read.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    pub(crate) revision: u64,
    /// The number of chunks, including missing ones.
    pub(crate) chunks: u16,
    pub(crate) value: Vec<u8>,
}

/// Adds the row called `name` to `batch`, removes the remaining chunks of a longer earlier row, and returns
/// the new number of chunks.
pub(crate) fn put(
    batch: &mut RowBatch,
    table: &str,
    name: &[u8],
    revision: u64,
    value: &[u8],
    chunks_before: u16,
) -> u16 {
    debug_assert!(value.len() <= ROW_MAX_BYTES, "a row of {} bytes", value.len());
    let (first, rest) = value.split_at(value.len().min(ONE_CHUNK_BYTES));
    let chunks =
        u16::try_from(1 + rest.len().div_ceil(CHUNK_BYTES)).expect("a row has at most ROW_MAX_BYTES bytes");
    let head = [&revision.to_be_bytes()[..], &chunks.to_be_bytes(), first].concat();
    batch.insert(chunk_key(table, name, 0), head);
    for (chunk, value) in (1..).zip(rest.chunks(CHUNK_BYTES)) {
        batch.insert(chunk_key(table, name, chunk), value);
    }
    remove_from(batch, table, name, chunks, chunks_before);
    chunks
}

/// Removes the row called `name`, which has `chunks_before` chunks.
pub(crate) fn remove(batch: &mut RowBatch, table: &str, name: &[u8], chunks_before: u16) {
    remove_from(batch, table, name, 0, chunks_before);
}

fn remove_from(batch: &mut RowBatch, table: &str, name: &[u8], from: u16, chunks_before: u16) {
    for chunk in from..chunks_before {
        batch.remove(chunk_key(table, name, chunk));
    }
}

/// The revision and the number of chunks of the row called `name`.
pub(crate) fn head(
    db: Database<'_>,
    dir: &Path,
    table: &str,
    name: &[u8],
) -> Result<Option<(u64, u16)>, StoreError> {
    let first = db.form(chunk_key(table, name, 0))?;
    first
        .map(|first| split_head(dir, first.start()).map(|(revision, chunks, _)| (revision, chunks)))
        .transpose()
}

/// The row called `name` with all its chunks.
///
/// The chunks are read one by one, and a commit may replace them meanwhile. The head is therefore read again
/// after the last chunk. If it has changed, the whole row is read again.
pub(crate) fn get(
    db: Database<'_>,
    dir: &Path,
    table: &str,
    name: &[u8],
) -> Result<Option<StoredRow>, StoreError> {
    match read(db, dir, table, name)? {
        Some((_, Some(chunk))) => {
            let detail = format!("chunk {chunk} of a row in table {table} is missing");
            Err(StoreError::Corrupt { dir: dir.to_owned(), detail })
        }
        row => Ok(row.map(|(row, _)| row)),
    }
}

/// The row called `name` that `batch` writes, with all its chunks. The inner value is `None` if a chunk is missing.
#[must_use]
pub fn get_from(batch: &RowBatch, table: &str, name: &[u8]) -> Option<Option<Vec<u8>>> {
    let chunks = chunk_key(table, name, 0)..chunk_key(table, name, u16::MAX);
    let numbered =
        |(number, (key, value)): (u16, (&[u8], _))| key.ends_with(&number.to_be_bytes()).then_some(value);
    let mut chunks = (0..).zip(batch.range(chunks)).map_while(numbered).map_while(|value: Option<_>| value);
    let (_, count, start) = split_head(Path::new(""), chunks.next()?).ok()?;
    let rest: Vec<_> = chunks.take(usize::from(count).saturating_sub(1)).collect();
    let is_whole = rest.len() + 1 == usize::from(count);
    Some(is_whole.then(|| [start, &rest.concat()].concat()))
}

/// The names of the rows of `table`, a table of the database, that `batch` changes. Each has whether the row is stored, not removed.
pub fn changed<'b>(batch: &'b RowBatch, table: &str) -> impl Iterator<Item = (&'b [u8], bool)> + use<'b> {
    let firsts = batch.range(all(table)).filter(|(key, _)| is_first_chunk(key));
    firsts.map(|(key, value)| (name(key).unwrap_or_default(), value.is_some()))
}

/// The row called `name`. If a chunk is missing, the value ends before it.
pub(crate) fn get_readable(
    db: Database<'_>,
    dir: &Path,
    table: &str,
    name: &[u8],
) -> Result<Option<StoredRow>, StoreError> {
    Ok(read(db, dir, table, name)?.map(|(row, missing)| {
        if let Some(chunk) = missing {
            tracing::error!(table, name = %String::from_utf8_lossy(name), chunk, "a chunk of a row is missing");
        }
        row
    }))
}

/// The row called `name`, and the number of its first missing chunk.
fn read(
    db: Database<'_>,
    dir: &Path,
    table: &str,
    name: &[u8],
) -> Result<Option<(StoredRow, Option<u16>)>, StoreError> {
    let first_form = || db.form(chunk_key(table, name, 0));
    for _ in 0..READ_ATTEMPTS {
        let Some(form) = first_form()? else { return Ok(None) };
        let first = db.read(form.clone())?;
        let (revision, chunks, start) = split_head(dir, &first)?;
        let mut value = start.to_vec();
        let mut missing = None;
        for chunk in 1..chunks {
            match db.get(chunk_key(table, name, chunk))? {
                Some(next) => value.extend_from_slice(&next),
                None => {
                    missing = Some(chunk);
                    break;
                }
            }
        }
        if chunks > 1 && first_form()?.as_ref() != Some(&form) {
            continue;
        }
        return Ok(Some((StoredRow { revision, chunks, value }, missing)));
    }
    Err(StoreError::Unavailable { cause: "a row was replaced faster than it could be read".into() })
}

/// The first chunk of a row, for scans of many rows.
pub(crate) struct StoredRowHead {
    pub(crate) key: sled::IVec,
    pub(crate) revision: u64,
    /// The stored form of the first chunk.
    pub(crate) first: StoredForm,
}

/// The first chunk of each row among `keys`, in key order, for scans of large parts of the database.
///
/// sled counts read pages against its cache only when one of 256 queues has 64 of them. A scan of a table
/// reads each page once, so 16,000 pages (150 MB) would be in memory before sled evicts any. Each row is
/// therefore looked up a few more times, which fills the queues while there are few pages to evict.
pub(crate) fn heads<'d>(
    db: Database<'d>,
    dir: &'d Path,
    keys: Range<Vec<u8>>,
) -> impl DoubleEndedIterator<Item = Result<StoredRowHead, StoreError>> + use<'d> {
    const LOOKUPS: usize = 4;
    db.range(keys).filter_map(move |entry| {
        let head = || {
            let (key, first) = entry?;
            if !is_first_chunk(&key) {
                return Ok(None);
            }
            for _ in 0..LOOKUPS {
                db.form(&key)?;
            }
            let (revision, _, _) = split_head(dir, first.start())?;
            Ok(Some(StoredRowHead { key, revision, first }))
        };
        head().transpose()
    })
}

/// Whether `key` is the key of a row's first chunk.
pub(crate) fn is_first_chunk(key: &[u8]) -> bool {
    key.ends_with(&[0, 0, 0])
}

/// The key of a chunk without the chunk's number: the same for all chunks of a row.
pub(crate) fn chunk_stem(key: &[u8]) -> Vec<u8> {
    key.get(..key.len().saturating_sub(2)).unwrap_or_default().to_vec()
}

/// The row's name in the key of its first chunk.
pub(crate) fn name(key: &[u8]) -> Option<&[u8]> {
    split_key(key)?.1.strip_suffix(&[0, 0, 0])
}

/// Splits a first chunk into revision, number of chunks, and the value's start.
pub(crate) fn split_head<'v>(dir: &Path, first: &'v [u8]) -> Result<(u64, u16, &'v [u8]), StoreError> {
    let split = || {
        let (revision, rest) = first.split_first_chunk()?;
        let (chunks, start) = rest.split_first_chunk()?;
        Some((u64::from_be_bytes(*revision), u16::from_be_bytes(*chunks), start))
    };
    split().ok_or_else(|| StoreError::Corrupt {
        dir: dir.to_owned(),
        detail: "a row is shorter than its head".into(),
    })
}

/// The rows of some tables after the groups that were applied so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedRows {
    /// Chunks by their keys.
    chunks: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CollectedRows {
    /// Applies the changes of a group to the rows of `tables`.
    pub fn apply<'t>(&mut self, batch: &RowBatch, tables: impl Iterator<Item = &'t Table>) {
        for (key, value) in tables.flat_map(|table| batch.range(all(table.name))) {
            match value {
                Some(value) => drop(self.chunks.insert(key.to_vec(), value.to_vec())),
                None => drop(self.chunks.remove(key)),
            }
        }
    }

    /// All rows of a table. Errors name `state_dir`.
    ///
    /// # Errors
    /// `Corrupt` if a row cannot be read.
    pub fn all<R: Row>(&self, state_dir: &Path) -> Result<Vec<R>, StoreError> {
        let names = self.chunks.range(all(R::TABLE.name)).filter_map(|(key, _)| name(key));
        names.filter_map(|name| self.row(state_dir, name).transpose()).collect()
    }

    /// The row called `name`. Errors name `state_dir`.
    ///
    /// # Errors
    /// `Corrupt` if the row cannot be read.
    pub fn row<R: Row>(&self, state_dir: &Path, name: &[u8]) -> Result<Option<R>, StoreError> {
        let chunk = |number| self.chunks.get(&chunk_key(R::TABLE.name, name, number));
        let Some(first) = chunk(0) else { return Ok(None) };
        let (_, chunks, start) = split_head(state_dir, first)?;
        let rest: Option<Vec<_>> = (1..chunks).map(|number| chunk(number).map(Vec::as_slice)).collect();
        let corrupt = |fault: &dyn Display| StoreError::Corrupt {
            dir: state_dir.to_owned(),
            detail: format!("the row {} in table {}: {fault}", String::from_utf8_lossy(name), R::TABLE.name),
        };
        let rest = rest.ok_or_else(|| corrupt(&"a chunk is missing"))?;
        let value = [start, &rest.concat()].concat();
        serde_json::from_slice(&value).map(Some).map_err(|error| corrupt(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::log::{BY_EVENT, BY_EXECUTION, BY_SESSION, KEPT_ENTRIES, LOG};
    use crate::base::log_hashes::TILES;
    use crate::base::watermark::{COUNTS_BYTES, StoreCounts};

    #[test]
    fn tables_have_distinct_names_without_a_slash() {
        let own = [LOG, BY_SESSION, BY_EXECUTION, BY_EVENT, KEPT_ENTRIES, TILES, META, LOST];
        let bundles: BTreeSet<_> = tables::tables().filter_map(|table| table.bundle).collect();
        let mut names = BTreeSet::new();
        for name in StoreCounts::tables().chain(own) {
            assert!(!name.is_empty() && !name.contains('/') && names.insert(name), "{name}");
        }
        for bundle in bundles {
            // a bundle can have the name of one of its tables
            let own = tables::table(bundle).filter(|table| table.bundle != Some(bundle));
            assert!(own.is_none() && !bundle.contains('/'), "{bundle}");
        }
    }

    #[test]
    fn counts_of_all_tables_are_read_as_they_were_written() {
        let rows = StoreCounts::tables().map(|table| (table, u64::MAX)).collect();
        let counts = StoreCounts { entries: u64::MAX, rows };
        let bytes = [counts.to_bytes(), vec![1, 2]].concat();
        assert!(bytes.len() < COUNTS_BYTES);
        assert_eq!(StoreCounts::from_bytes(&bytes), Some((counts, &[1, 2][..])));
    }
}
