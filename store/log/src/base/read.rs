//! Typed rows: one by its key, or rows of a table in the order of their names.

use crate::base::bundle::Bundle;
use crate::base::engine::TableReader;
use crate::base::row_write::{RowName, RowWrite};
use crate::base::rows::{self, StoredRowHead, StoredValue, chunk_key, key, row_path, stored_in, with_prefix};
use domain_base::document::{DOCUMENTS, Document, RegisteredDocument};
use domain_base::row::{Row, Table};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::{Range, RangeBounds};
use store_base::error::StoreError;

/// Number of rows whose names are read at a time.
const NAMES_AT_ONCE: usize = 512;

/// The revision of a previewed row. No stored row has it.
pub const PREVIEW_REVISION: u64 = u64::MAX;

impl TableReader {
    /// Reads from now on as if `writes` that put documents or sources had been committed. Nothing is stored. Clones of the tables
    /// are not changed.
    pub fn preview(&mut self, writes: &[RowWrite]) {
        self.add_preview(writes.iter().filter_map(
            |RowWrite { row: RowName { table, name }, value, .. }| {
                let value = StoredValue { revision: PREVIEW_REVISION, value: value.clone()? };
                Some((chunk_key(table.name, name.as_bytes(), 0), value))
            },
        ));
    }

    /// A durable row with its revision.
    ///
    /// # Errors
    /// The row cannot be read. `RowLost` if no copy of its value was left.
    pub fn get<R: Row>(&self, key: &R::Key) -> Result<Option<(R, u64)>, StoreError> {
        self.named(&R::name(key))
    }

    /// The row called `name`, as for [`Self::get`].
    pub fn named<R: Row>(&self, name: &str) -> Result<Option<(R, u64)>, StoreError> {
        self.parse(R::TABLE, name, self.value(R::TABLE, name)?)
    }

    /// The value of a row of `table`, read as `T`.
    pub fn parse<T: DeserializeOwned>(
        &self,
        table: &Table,
        name: &str,
        row: Option<StoredValue>,
    ) -> Result<Option<(T, u64)>, StoreError> {
        let Some(StoredValue { revision, value }) = row else { return Ok(None) };
        if value.is_empty() {
            return Err(StoreError::RowLost { row: row_path(table, name), entry: revision });
        }
        Ok(Some((self.parse_value(table.name, name, &value)?, revision)))
    }

    fn parse_value<T: DeserializeOwned>(
        &self,
        table: &str,
        name: &str,
        value: &[u8],
    ) -> Result<T, StoreError> {
        serde_json::from_slice(value).map_err(|error| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("the row {table}/{name}: {error}"),
        })
    }

    /// The value of a row with its revision; it is empty if the row is lost.
    pub fn value(&self, table: &'static Table, name: &str) -> Result<Option<StoredValue>, StoreError> {
        if let Some(previewed) = self.previewed().get(&chunk_key(table.name, name.as_bytes(), 0)) {
            return Ok(Some(StoredValue::clone(previewed)));
        }
        self.read(|db, _| {
            if self.engine().is_empty_table(table) {
                return Ok(None);
            }
            if table.bundle.is_some() {
                return Ok(self.bundle_in(db, table, name)?.set(table, None));
            }
            let row = rows::get(db, self.dir(), table.name, name.as_bytes())?;
            Ok(row.map(|row| StoredValue { revision: row.revision, value: row.value }))
        })
    }

    /// The revision of a row that is in no bundle, and the number of its chunks, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn head(&self, table: &'static Table, name: &str) -> Result<Option<(u64, u16)>, StoreError> {
        self.read(|db, _| rows::head(db, self.dir(), table.name, name.as_bytes()))
    }

    /// The rows called `name` of these tables, each with its revision; `None` if it does not exist.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn revisions(
        &self,
        tables: impl Iterator<Item = &'static Table>,
        name: &str,
    ) -> Result<Vec<(RowName, Option<u64>)>, StoreError> {
        self.read(|db, _| {
            let mut bundles: BTreeMap<&str, Bundle> = BTreeMap::new();
            let mut row = |table: &'static Table| {
                let revision = match table.bundle {
                    Some(of) => {
                        if !bundles.contains_key(of) {
                            bundles.insert(of, self.bundle_in(db, table, name)?);
                        }
                        bundles.get(of).and_then(|bundle| bundle.row(table)).map(|row| row.revision)
                    }
                    None => rows::head(db, self.dir(), table.name, name.as_bytes())?.map(|head| head.0),
                };
                Ok((RowName { table, name: name.to_owned() }, revision))
            };
            tables.map(&mut row).collect()
        })
    }

    /// A row of one of the journal's own tables, or of sums.
    pub fn own_row<T: DeserializeOwned>(&self, table: &str, name: &str) -> Result<Option<T>, StoreError> {
        let row = self.read(|db, _| rows::get(db, self.dir(), table, name.as_bytes()))?;
        row.map(|row| self.parse_value(table, name, &row.value)).transpose()
    }

    /// All rows of a small table, in the order of their names. Lost ones are left out.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn all<R: Row>(&self) -> Result<Vec<R>, StoreError> {
        self.among(rows::all(stored_in(R::TABLE)))
    }

    /// The rows with these keys.
    pub(crate) fn among<R: Row>(&self, keys: Range<Vec<u8>>) -> Result<Vec<R>, StoreError> {
        let read = |name: String| skip_lost(self.named::<R>(&name)).transpose();
        let names = self.names(keys, .., usize::MAX)?;
        names.into_iter().filter_map(read).map(|row| row.map(|(row, _)| row)).collect()
    }

    /// The names of the first `most` rows among `keys` whose revision is in `revisions`.
    pub fn names(
        &self,
        keys: Range<Vec<u8>>,
        revisions: impl RangeBounds<u64>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut names: Vec<_> = self.read(|db, _| {
            let among = |head: &Result<StoredRowHead, StoreError>| {
                head.as_ref().map_or(true, |head| revisions.contains(&head.revision))
            };
            rows::heads(db, self.dir(), keys.clone()).filter(among).map(name_of).take(most).collect()
        })?;
        let previewed: Vec<_> = self.previewed().range(keys).map(|(key, _)| name_in(key)).collect();
        if !previewed.is_empty() {
            names.extend(previewed);
            names.sort();
            names.dedup();
            names.truncate(most);
        }
        Ok(names)
    }

    /// The names of the first `most` rows after the row `after`.
    pub fn names_after(
        &self,
        table: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let Range { start, end } = rows::all(table);
        // a name is followed by a 0 byte, so this key follows all chunks of that row
        let from = after.map_or(start, |after| key(table, &[after.as_bytes(), &[1]]));
        self.names(from..end, .., most)
    }

    /// Passes the names of the rows after the row `after` to `visit`, in parts. Stops if `visit` returns false.
    pub fn visit_names(
        &self,
        table: &str,
        mut after: Option<String>,
        mut visit: impl FnMut(Vec<String>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let names = self.names_after(table, after.as_deref(), NAMES_AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(()) };
            after = Some(last.clone());
            if !visit(names)? {
                return Ok(());
            }
        }
    }

    /// The names of the last `most` rows before the row `before`, the last one first.
    pub fn names_before(
        &self,
        table: &str,
        before: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let Range { start, end } = rows::all(table);
        let to = before.map_or(end, |before| key(table, &[before.as_bytes()]));
        self.last_names(start..to, most)
    }

    /// The names of the last `most` rows among `keys`, the last one first.
    pub fn last_names(&self, keys: Range<Vec<u8>>, most: usize) -> Result<Vec<String>, StoreError> {
        self.read(|db, _| {
            let heads = rows::heads(db, self.dir(), keys);
            heads.rev().map(name_of).take(most).collect()
        })
    }
}

/// The row, for a list: a lost one must not keep the others from being read.
///
/// # Errors
/// Any other error.
pub fn skip_lost<T>(row: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match row {
        Err(error @ StoreError::RowLost { .. }) => {
            tracing::error!(%error, "a lost row is left out of a list");
            Ok(None)
        }
        row => row,
    }
}

fn name_of(head: Result<StoredRowHead, StoreError>) -> Result<String, StoreError> {
    Ok(name_in(&head?.key))
}

fn name_in(key: &[u8]) -> String {
    String::from_utf8_lossy(rows::name(key).unwrap_or_default()).into_owned()
}

impl TableReader {
    /// A registered document, with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn registered<D: Document>(
        &self,
        document_id: &str,
    ) -> Result<Option<(RegisteredDocument<D>, u64)>, StoreError> {
        self.get(&document_id.to_owned())
    }

    /// The ids of all registered documents of a kind.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn registered_ids<D: Document>(&self) -> Result<Vec<String>, StoreError> {
        let prefix = prefix_of::<D>();
        let names = self.names(with_prefix(DOCUMENTS.name, &prefix), .., usize::MAX)?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    /// All registered documents of a kind, in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn all_registered<D: Document>(&self) -> Result<Vec<RegisteredDocument<D>>, StoreError> {
        self.among(with_prefix(DOCUMENTS.name, &prefix_of::<D>()))
    }
}

/// The beginning of the names of the rows of all documents of a kind.
fn prefix_of<D: Document>() -> String {
    RegisteredDocument::<D>::name(&String::new())
}
