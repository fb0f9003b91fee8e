//! Records out of a source's files, and keys out of its indexes.

use super::sorted::{Merge, Rows};
use super::statement::StoredStatement;
use super::view::{Record, SourceView, split_key};
use crate::error::StoreError;

/// Records in the order of their keys. They end with the first error.
#[derive(Debug)]
pub struct Records<'v> {
    view: &'v SourceView,
    /// The files by their places, the oldest first, each at its next statement.
    files: Vec<(usize, Rows)>,
}

impl<'v> Records<'v> {
    pub(super) fn new(
        view: &'v SourceView,
        files: impl Iterator<Item = (usize, Rows)>,
    ) -> Result<Self, StoreError> {
        let begun = files.map(|(place, mut rows)| {
            rows.advance()?;
            Ok((place, rows))
        });
        Ok(Self { view, files: begun.collect::<Result<_, StoreError>>()? })
    }

    fn record(&mut self) -> Result<Option<Record>, StoreError> {
        let ill = || self.view.corrupt("a statement cannot be read");
        // no record's key is the beginning of another's, so that the first row is of the first record
        let first = self.files.iter().filter_map(|(_, rows)| rows.current()).map(|(key, _)| key).min();
        let Some(first) = first else { return Ok(None) };
        let (key, _) = split_key(first).ok_or_else(ill)?;
        let mut record = Record { key: key.to_vec(), statements: Vec::new(), places: Vec::new() };
        // a file's runs all come behind those of the files before it
        for (place, rows) in &mut self.files {
            while let Some((key, value)) = rows.current() {
                let (key, run) = split_key(key).ok_or_else(ill)?;
                if key != record.key {
                    break;
                }
                record.statements.push(StoredStatement::read(run, value).ok_or_else(ill)?);
                record.places.push(*place);
                rows.advance()?;
            }
        }
        Ok(Some(record))
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.record();
        if record.is_err() {
            self.files.clear();
        }
        record.transpose()
    }
}

/// Keys of records out of an index, each once.
#[derive(Debug)]
pub struct Indexed {
    rows: Merge<Rows>,
    prefix_bytes: usize,
    last: Vec<u8>,
}

impl Indexed {
    /// The keys in `rows`, each behind so many bytes.
    pub(super) fn new(rows: Vec<Rows>, prefix_bytes: usize) -> Result<Self, StoreError> {
        Ok(Self { rows: Merge::new(rows)?, prefix_bytes, last: Vec::new() })
    }
}

impl Iterator for Indexed {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            let key = row.key.get(self.prefix_bytes..).unwrap_or_default();
            if key != self.last {
                self.last = key.to_vec();
                return Some(Ok(self.last.clone()));
            }
        }
    }
}
