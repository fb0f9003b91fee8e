//! Records out of a source's files.

use crate::base::error::StoreError;
use crate::ground::sorted::{RowSource, Rows};
use crate::ground::statement::StoredStatement;
use crate::ground::view::{Record, SourceView, key_of, split_key};

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
        Self { view, files: files.collect(), record: Record::default() }
    }

    /// Goes to the first record.
    pub(in crate::ground) fn begin(mut self) -> Result<Self, StoreError> {
        self.files.iter_mut().try_for_each(|(_, rows)| rows.advance())?;
        Ok(self)
    }

    /// The key of the next record; `None` after the last one.
    pub(in crate::ground) fn next_key(&self) -> Result<Option<&[u8]>, StoreError> {
        // no record's key is the beginning of another's, so that the first row is of the first record
        let first = self.files.iter().filter_map(|(_, rows)| rows.current()).map(|(key, _)| key).min();
        first.map(|key| split_key(key).map(|(key, _)| key).ok_or_else(|| ill(self.view))).transpose()
    }

    /// The next record; nothing behind the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<Option<&Record>, StoreError> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let Some(key) = self.next_key()? else { return Ok(None) };
        key.clone_into(&mut record.key);
        self.gather(&mut record)?;
        self.record = record;
        Ok(Some(&self.record))
    }

    /// The record with this key, if there is one. Whoever asks for several asks in the order of their keys.
    pub(in crate::ground) fn at(&mut self, key: &[u8]) -> Result<Option<&Record>, StoreError> {
        self.record.clear();
        let mut record = std::mem::take(&mut self.record);
        key.clone_into(&mut record.key);
        self.seek(key)?;
        self.gather(&mut record)?;
        self.record = record;
        Ok(Some(&self.record).filter(|record| !record.statements.is_empty()))
    }

    /// Goes forward to the record with this key, or to the next one if there is none.
    pub(in crate::ground) fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let begin = key_of(key, 0);
        self.files.iter_mut().try_for_each(|(_, rows)| rows.seek(&begin))
    }

    /// Adds to `record` all that the files say of it, where they are at it.
    pub(in crate::ground) fn gather(&mut self, record: &mut Record) -> Result<(), StoreError> {
        // a file's runs all come behind those of the files before it
        for (place, rows) in &mut self.files {
            while let Some((key, _)) = rows.current() {
                let (key, run) = split_key(key).ok_or_else(|| ill(self.view))?;
                if key != record.key {
                    break;
                }
                let statement = StoredStatement::read(run, rows.shared_value());
                record.statements.push(statement.ok_or_else(|| ill(self.view))?);
                record.places.push(*place);
                rows.advance()?;
            }
        }
        Ok(())
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
        Some(Ok(std::mem::take(&mut self.record)))
    }
}
