//! Typed rows: one by its name, or rows of a table in the order of their names.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::{self, StoredRow, StoredRowHead, TableId, key, row_path};
use std::ops::{Range, RangeBounds};

impl TableReader {
    /// A durable row, parsed as a `T`, with its revision.
    pub(crate) fn read_row<T: serde::de::DeserializeOwned>(
        &self,
        table: TableId,
        name: &str,
    ) -> Result<Option<(T, u64)>, StoreError> {
        self.read(|db, _| {
            let row = match self.preview().get(&(table, name.as_bytes().to_vec())) {
                Some(previewed) => Some(StoredRow::clone(previewed)),
                None => rows::get(db, self.dir(), table, name.as_bytes())?,
            };
            let Some(row) = row else { return Ok(None) };
            check_not_lost(table, name, row.revision, &row.value)?;
            let value = serde_json::from_slice(&row.value).map_err(|error| StoreError::Corrupt {
                dir: self.dir().to_owned(),
                detail: format!("the row {name} in table {table:?}: {error}"),
            })?;
            Ok(Some((value, row.revision)))
        })
    }

    /// All rows of a small table, in the order of their names.
    pub(crate) fn read_all<T: serde::de::DeserializeOwned>(
        &self,
        table: TableId,
    ) -> Result<Vec<T>, StoreError> {
        let names = self.names(table, rows::all(table), .., usize::MAX)?;
        let read = |name: String| skip_lost(self.read_row(table, &name)).transpose();
        names.into_iter().filter_map(read).map(|row| row.map(|(value, _)| value)).collect()
    }

    /// The names of the first `most` rows among `keys` whose revision is in `revisions`.
    pub(crate) fn names(
        &self,
        table: TableId,
        keys: Range<Vec<u8>>,
        revisions: impl RangeBounds<u64>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        debug_assert!(keys.start.first() == Some(&(table as u8)), "the keys are of the table");
        let mut names: Vec<_> = self.read(|db, _| {
            let among = |head: &Result<StoredRowHead, StoreError>| {
                head.as_ref().map_or(true, |head| revisions.contains(&head.revision))
            };
            rows::heads(db, self.dir(), keys.clone()).filter(among).map(name_of).take(most).collect()
        })?;
        let previewed =
            self.preview().keys().filter(|(of, name)| *of == table && keys.contains(&key(table, &[name])));
        let previewed: Vec<_> =
            previewed.map(|(_, name)| String::from_utf8_lossy(name).into_owned()).collect();
        if !previewed.is_empty() {
            names.extend(previewed);
            names.sort();
            names.dedup();
            names.truncate(most);
        }
        Ok(names)
    }

    /// The names of the first `most` rows after the row `after`.
    pub(crate) fn names_after(
        &self,
        table: TableId,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let Range { start, end } = rows::all(table);
        // a name is followed by a 0 byte, so this key follows all chunks of that row
        let from = after.map_or(start, |after| key(table, &[after.as_bytes(), &[1]]));
        self.names(table, from..end, .., most)
    }

    /// The names of the last `most` rows before the row `before`, the last one first.
    pub(crate) fn names_before(
        &self,
        table: TableId,
        before: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let Range { start, end } = rows::all(table);
        let to = before.map_or(end, |before| key(table, &[before.as_bytes()]));
        self.last_names(start..to, most)
    }

    /// The names of the last `most` rows among `keys`, the last one first.
    pub(crate) fn last_names(&self, keys: Range<Vec<u8>>, most: usize) -> Result<Vec<String>, StoreError> {
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
pub(crate) fn skip_lost<T>(row: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match row {
        Err(error @ StoreError::RowLost { .. }) => {
            tracing::error!(%error, "a lost row is left out of a list");
            Ok(None)
        }
        row => row,
    }
}

/// # Errors
/// `RowLost` if the value is that of a lost row.
pub(crate) fn check_not_lost(
    table: TableId,
    name: &str,
    revision: u64,
    value: &[u8],
) -> Result<(), StoreError> {
    if !value.is_empty() {
        return Ok(());
    }
    Err(StoreError::RowLost { row: row_path(table, name.as_bytes()).unwrap_or_default(), entry: revision })
}

fn name_of(head: Result<StoredRowHead, StoreError>) -> Result<String, StoreError> {
    Ok(String::from_utf8_lossy(rows::name(&head?.key).unwrap_or_default()).into_owned())
}
