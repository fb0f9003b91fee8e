//! The changes of a record: rows by their tables and names, with their stored forms.

use crate::base::rows::row_path;
use domain_base::row::{IndexEntry, KeyedRow, Row, Table};
use std::fmt;

/// A row that must be unchanged since it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowExpectation {
    pub row: RowName,
    /// Its revision: the number of the entry that wrote it; `None` if the row must not exist.
    pub revision: Option<u64>,
}

impl RowExpectation {
    /// The row with this key must have this revision.
    #[must_use]
    pub fn new<R: Row>(key: &R::Key, revision: Option<u64>) -> Self {
        Self { row: RowName::of::<R>(key), revision }
    }
}

/// The name of a row, with its table.
#[derive(Debug, Clone)]
pub struct RowName {
    pub table: &'static Table,
    pub name: String,
}

impl RowName {
    /// The name of the row with this key.
    #[must_use]
    pub fn of<R: Row>(key: &R::Key) -> Self {
        Self { table: R::TABLE, name: R::name(key) }
    }

    /// The key, if it is the name of a row of type `R` and has the form of a key.
    #[must_use]
    pub fn key<R: Row<Key: std::str::FromStr>>(&self) -> Option<R::Key> {
        (self.table.name == R::TABLE.name).then(|| self.name.parse().ok())?
    }
}

impl PartialEq for RowName {
    fn eq(&self, other: &Self) -> bool {
        self.table.name == other.table.name && self.name == other.name
    }
}

impl Eq for RowName {}

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&row_path(self.table, &self.name))
    }
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowWrite {
    pub row: RowName,
    /// The stored form of the row; `None` removes the row.
    pub(crate) value: Option<Vec<u8>>,
    /// The names of the row in the indexes of its table.
    pub(crate) index: Vec<IndexEntry>,
}

impl RowWrite {
    /// Stores a row. Replaces any other with its key.
    #[must_use]
    pub fn put<R: KeyedRow>(row: &R) -> Self {
        Self::put_at(&row.key(), row)
    }

    /// Stores a row under `key`. Replaces any other with this key.
    #[must_use]
    pub fn put_at<R: Row>(key: &R::Key, row: &R) -> Self {
        let value = serde_json::to_vec(row).expect("a row is plain data with string keys");
        Self { row: RowName::of::<R>(key), value: Some(value), index: row.index() }
    }

    /// Removes the row with this key.
    #[must_use]
    pub fn remove<R: Row>(key: &R::Key) -> Self {
        Self::remove_row(RowName::of::<R>(key))
    }

    /// A change that names no index: a removal, or one of a group that has the rows of its indexes.
    pub(crate) const fn of(row: RowName, value: Option<Vec<u8>>) -> Self {
        Self { row, value, index: Vec::new() }
    }

    /// Removes this row.
    #[must_use]
    pub const fn remove_row(row: RowName) -> Self {
        Self::of(row, None)
    }

    /// The row that it stores, if it is one of type `R`.
    #[must_use]
    pub fn read<R: Row>(&self) -> Option<R> {
        let value = self.value.as_deref().filter(|_| self.row.table.name == R::TABLE.name)?;
        serde_json::from_slice(value).ok()
    }

    /// The stored form of the row; `None` if it is removed.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }
}
