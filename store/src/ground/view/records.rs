//! Records out of a source's files, and keys out of its indexes.

use crate::base::error::StoreError;
use crate::ground::sorted::{Merge, Rows};
use crate::ground::statement::StoredStatement;
use crate::ground::view::{Record, SourceView, identity_in, key_of, split_key};

/// Records in the order of their keys. They end with the first error.
///
/// [`Records::advance`] lends each; as an iterator it hands them out.
#[derive(Debug)]
pub struct Records<'v> {
    view: &'v SourceView,
    /// The files by their places, the oldest first, each at its next statement.
    files: Vec<(usize, Rows)>,
    /// The one that was lent last.
    record: Record,
}

impl<'v> Records<'v> {
    /// Those in the rows of `files`, which have not begun.
    pub(super) fn new(view: &'v SourceView, files: impl Iterator<Item = (usize, Rows)>) -> Self {
        Self { view, files: files.collect(), record: Record::none(Vec::new()) }
    }

    /// Goes to the first record.
    pub(super) fn begin(mut self) -> Result<Self, StoreError> {
        self.files.iter_mut().try_for_each(|(_, rows)| rows.advance().map(drop))?;
        Ok(self)
    }

    /// The next record; nothing behind the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<Option<&Record>, StoreError> {
        // no record's key is the beginning of another's, so that the first row is of the first record
        let first = self.files.iter().filter_map(|(_, rows)| rows.current()).map(|(key, _)| key).min();
        let Some(first) = first else { return Ok(None) };
        let (key, _) = split_key(first).ok_or_else(|| ill(self.view))?;
        key.clone_into(&mut self.record.key);
        self.gather().map(Some)
    }

    /// The record with this key, if there is one. Whoever asks for several asks in the order of their keys.
    pub(in crate::ground) fn at(&mut self, key: &[u8]) -> Result<Option<&Record>, StoreError> {
        let (identity, begin) = (identity_in(key), key_of(key, 0));
        for (place, rows) in &mut self.files {
            if self.view.may_tell(*place, identity) {
                rows.seek(&begin)?;
            }
        }
        key.clone_into(&mut self.record.key);
        self.gather().map(|record| Some(record).filter(|record| !record.statements.is_empty()))
    }

    /// All that the files say of the record with the key that stands there already, where they are at it.
    fn gather(&mut self) -> Result<&Record, StoreError> {
        let Self { view, files, record } = self;
        record.statements.clear();
        record.places.clear();
        // a file's runs all come behind those of the files before it
        for (place, rows) in files {
            while let Some((key, _)) = rows.current() {
                let (key, run) = split_key(key).ok_or_else(|| ill(view))?;
                if key != record.key {
                    break;
                }
                let statement = StoredStatement::read(run, rows.shared_value());
                record.statements.push(statement.ok_or_else(|| ill(view))?);
                record.places.push(*place);
                rows.advance()?;
            }
        }
        Ok(record)
    }
}

fn ill(view: &SourceView) -> StoreError {
    view.corrupt("a statement cannot be read")
}

impl Iterator for Records<'_> {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(record) => record?,
            Err(error) => {
                self.files.clear();
                return Some(Err(error));
            }
        };
        Some(Ok(std::mem::replace(&mut self.record, Record::none(Vec::new()))))
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
