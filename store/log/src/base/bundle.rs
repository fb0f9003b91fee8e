//! The stored row of a bundle: the rows of several tables with the same name.
//!
//! These rows are read and written together, so sled has one row for them, and fewer keys. Each part keeps its own revision.

use crate::base::database::Database;
use crate::base::engine::TableReader;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, StoredValue, stored_in, tables_in};
use crate::base::schema::{changes, check_readable, passed_upgrades, schema, was_dropped};
use domain_base::row::Table;
use std::collections::BTreeMap;
use std::path::Path;
use store_base::error::StoreError;

/// The rows of a bundle, by the names of their tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle(pub(crate) BTreeMap<&'static str, StoredValue>);

/// The head of a row: the name of its table, or `None` if a schema has dropped the table; its revision; and the length of its value.
type RowHead = (Option<&'static str>, u64, usize);

impl Bundle {
    /// The row of `table`.
    #[must_use]
    pub fn row(&self, table: &Table) -> Option<&StoredValue> {
        self.0.get(table.name)
    }

    /// Replaces or removes the row of `table`. Returns the one before.
    pub fn set(&mut self, table: &'static Table, row: Option<StoredValue>) -> Option<StoredValue> {
        match row {
            Some(row) => self.0.insert(table.name, row),
            None => self.0.remove(table.name),
        }
    }

    /// The stored form: the number of rows, their heads, then their values.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let byte = |length: usize| u8::try_from(length).expect("a bundle has few tables, with short names");
        let mut bytes = vec![byte(self.0.len())];
        for (table, StoredValue { revision, value }) in &self.0 {
            bytes.push(byte(table.len()));
            bytes.extend_from_slice(table.as_bytes());
            bytes.extend_from_slice(&revision.to_be_bytes());
            let length = u32::try_from(value.len()).expect("a row has at most ROW_MAX_BYTES bytes");
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        self.0.values().for_each(|row| bytes.extend_from_slice(&row.value));
        bytes
    }

    /// Reads the stored form. The end of the last value can be missing.
    ///
    /// # Errors
    /// `Corrupt` if the heads are truncated, or name an unknown table.
    pub fn from_bytes(dir: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let (heads, mut rest) = split_heads(bytes).ok_or_else(|| truncated(dir))?;
        let mut rows = BTreeMap::new();
        for (table, revision, length) in heads {
            let (value, after) = rest.split_at(rest.len().min(length));
            rows.extend(table.map(|table| (table, StoredValue { revision, value: value.to_vec() })));
            rest = after;
        }
        Ok(Self(rows))
    }

    /// The revision of the row of `table` in the start of a stored bundle; `None` if the bundle has no such row.
    ///
    /// # Errors
    /// `Corrupt` if the heads are truncated, or name an unknown table.
    pub(crate) fn revision_in(dir: &Path, table: &Table, start: &[u8]) -> Result<Option<u64>, StoreError> {
        let (heads, _) = split_heads(start).ok_or_else(|| truncated(dir))?;
        Ok(heads.into_iter().find(|(of, ..)| *of == Some(table.name)).map(|(_, revision, _)| revision))
    }
}

fn split_heads(bytes: &[u8]) -> Option<(Vec<RowHead>, &[u8])> {
    let (count, mut rest) = bytes.split_first()?;
    let mut heads = Vec::new();
    for _ in 0..*count {
        let (length, after) = rest.split_first()?;
        let (table, after) = after.split_at_checked(usize::from(*length))?;
        let (revision, after) = after.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let name = str::from_utf8(table).ok()?;
        let table = oracled_domain::tables::table(name).map(|table| table.name);
        if table.is_none() && !was_dropped(name) {
            return None;
        }
        heads.push((table, u64::from_be_bytes(*revision), u32::from_be_bytes(*length) as usize));
        rest = after;
    }
    Some((heads, rest))
}

fn truncated(dir: &Path) -> StoreError {
    StoreError::Corrupt {
        dir: dir.to_owned(),
        detail: "the stored row of a bundle is truncated, or names an unknown table".into(),
    }
}

impl TableReader {
    /// The bundle of `table` called `name`; it is empty if it is not stored. If a chunk is missing, the last value ends before it.
    ///
    /// # Errors
    /// The database cannot be read, or the heads of the bundle are damaged.
    pub fn bundle(&self, table: &'static Table, name: &str) -> Result<Bundle, StoreError> {
        self.read(|db, _| self.bundle_in(db, table, name))
    }

    pub(crate) fn bundle_in(
        &self,
        db: Database<'_>,
        table: &'static Table,
        name: &str,
    ) -> Result<Bundle, StoreError> {
        let row = rows::get_readable(db, self.dir(), stored_in(table), name.as_bytes())?;
        row.map_or_else(|| Ok(Bundle::default()), |row| Bundle::from_bytes(self.dir(), &row.value))
    }
}

/// The present form of the stored row of `stored_in` called `name`, which has the form of version `from`; `None` if its rows were
/// all of dropped tables.
///
/// # Errors
/// `NotUpgraded` if the row cannot be converted, or this program cannot read the result; `Corrupt` if a bundle cannot be read.
pub(crate) fn upgrade_stored(
    dir: &Path,
    from: u32,
    (stored_in, name): (&str, &[u8]),
    value: Vec<u8>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let upgrade = |table: &Table, value: Vec<u8>| {
        // an empty one is that of a lost row
        if value.is_empty() {
            return Ok(value);
        }
        let mut passed = passed_upgrades(from, table);
        let upgraded = passed.try_fold(value, |value, upgrade| (upgrade.convert)(&value));
        let checked = upgraded
            .and_then(|value| check_readable(table, &String::from_utf8_lossy(name), &value).map(|()| value));
        checked.map_err(|fault| StoreError::NotUpgraded {
            dir: dir.to_owned(),
            found: from,
            known: schema(),
            fault: format!("{}: {fault}", rows::row_path(table, &String::from_utf8_lossy(name))),
        })
    };
    if tables_in(stored_in).all(|table| table.bundle.is_none()) {
        return tables_in(stored_in).try_fold(value, |value, table| upgrade(table, value)).map(Some);
    }
    let mut bundle = Bundle::from_bytes(dir, &value)?;
    for table in tables_in(stored_in) {
        if let Some(mut row) = bundle.set(table, None) {
            row.value = upgrade(table, row.value)?;
            bundle.set(table, Some(row));
        }
    }
    Ok((bundle != Bundle::default()).then(|| bundle.to_bytes()))
}

/// The rows that a group of version `from` sets, in their present form.
///
/// # Errors
/// As for [`upgrade_stored`].
pub(crate) fn upgrade_group(dir: &Path, from: u32, group: &RowBatch) -> Result<RowBatch, StoreError> {
    let mut upgraded = group.clone();
    for stored_in in rows::stored_tables() {
        if !tables_in(stored_in).any(|table| changes(from, table)) {
            continue;
        }
        for (key, first) in group.range(rows::all(stored_in)).filter(|(key, _)| rows::is_first_chunk(key)) {
            let (Some(first), Some(name)) = (first, rows::name(key)) else { continue };
            let (revision, chunks, _) = rows::split_head(dir, first)?;
            if let Some(value) = rows::get_from(group, stored_in, name).flatten() {
                match upgrade_stored(dir, from, (stored_in, name), value)? {
                    Some(value) => {
                        rows::put(&mut upgraded, stored_in, name, revision, &value, chunks);
                    }
                    None => rows::remove(&mut upgraded, stored_in, name, chunks),
                }
            }
        }
    }
    Ok(upgraded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::bundle::upgrade_stored;
    use crate::base::schema::SCHEMA;
    use domain_base::row::Row;
    use domain_verdict::session::SessionRecord;

    #[test]
    fn bundle_omits_rows_of_dropped_tables_and_rejects_unknown_tables() {
        let row = |value: &[u8]| StoredValue { revision: 7, value: value.to_vec() };
        let session = SessionRecord::TABLE.name;
        let read = |dropped| {
            let stored = Bundle([(dropped, row(b"gone")), (session, row(b"kept"))].into());
            Bundle::from_bytes(Path::new("state"), &stored.to_bytes())
        };
        assert_eq!(read("made_up").expect("it is whole"), Bundle([(session, row(b"kept"))].into()));
        assert!(matches!(read("unknown"), Err(StoreError::Corrupt { .. })));
        // an upgrade leaves nothing of a bundle without other rows
        let stored = Bundle([("made_up", row(b"gone"))].into()).to_bytes();
        let stored_in = stored_in(SessionRecord::TABLE);
        let upgraded = upgrade_stored(Path::new("state"), SCHEMA - 1, (stored_in, b"cs_1"), stored);
        assert_eq!(upgraded.expect("it is whole"), None);
    }
}
