//! Rows of some tables as the groups of the segments leave them, without the database.

use crate::base::row_batch::RowBatch;
use crate::base::rows;
use domain_base::row::{Row, Table};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use store_base::error::StoreError;

/// The rows of some tables after the groups that were applied so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedRows {
    /// Chunks by their keys.
    chunks: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CollectedRows {
    /// Applies the changes of a group to the rows of `tables`.
    pub fn apply<'t>(&mut self, batch: &RowBatch, tables: impl Iterator<Item = &'t Table>) {
        for (key, value) in tables.flat_map(|table| batch.range(rows::all(table.name))) {
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
        let names = self.chunks.range(rows::all(R::TABLE.name)).filter_map(|(key, _)| rows::name(key));
        names.filter_map(|name| self.row(state_dir, name).transpose()).collect()
    }

    /// The row called `name`. Errors name `state_dir`.
    ///
    /// # Errors
    /// `Corrupt` if the row cannot be read.
    pub fn row<R: Row>(&self, state_dir: &Path, name: &[u8]) -> Result<Option<R>, StoreError> {
        let chunk = |number| self.chunks.get(&rows::chunk_key(R::TABLE.name, name, number));
        let Some(first) = chunk(0) else { return Ok(None) };
        let (_, chunks, start) = rows::split_head(state_dir, first)?;
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
