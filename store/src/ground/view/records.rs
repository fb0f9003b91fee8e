//! Reads records from a source's files.

use crate::base::error::StoreError;
use crate::ground::sorted::{RowSource, SortedRowRange};
use crate::ground::statement::StoredStatement;
use crate::ground::view::{RecordStatements, SourceView, key_of, split_key};

/// Records in key order. They end with the first error.
///
/// [`RecordStatementsReader::advance`] lends each record; as an iterator it returns owned ones.
#[derive(Debug)]
pub struct RecordStatementsReader<'v> {
    view: &'v SourceView,
    /// The files with their numbers, the oldest first, each at its next statement.
    files: Vec<(usize, SortedRowRange)>,
    /// The record that was lent last.
    record: RecordStatements,
}

impl<'v> RecordStatementsReader<'v> {
    /// The records in the rows of `files`, of which none has been advanced yet.
    pub(super) fn new(view: &'v SourceView, files: impl Iterator<Item = (usize, SortedRowRange)>) -> Self {
        Self { view, files: files.collect(), record: RecordStatements::default() }
    }

    /// Reads the first row of each file.
    pub(in crate::ground) fn begin(mut self) -> Result<Self, StoreError> {
        self.files.iter_mut().try_for_each(|(_, rows)| rows.advance())?;
        Ok(self)
    }

    /// The key of the next record; `None` after the last one.
    pub(in crate::ground) fn next_key(&self) -> Result<Option<&[u8]>, StoreError> {
        // no record key is a prefix of another one, so the first row belongs to the first record
        let first = self.files.iter().filter_map(|(_, rows)| rows.current()).map(|(key, _)| key).min();
        first
            .map(|key| split_key(key).map(|(key, _)| key).ok_or_else(|| invalid_row_error(self.view)))
            .transpose()
    }

    /// The next record; `None` after the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<Option<&RecordStatements>, StoreError> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let Some(key) = self.next_key()? else { return Ok(None) };
        key.clone_into(&mut record.key);
        self.gather(&mut record)?;
        self.record = record;
        Ok(Some(&self.record))
    }

    /// The record with this key, if it exists. Several calls must pass keys in ascending order.
    pub(in crate::ground) fn at(&mut self, key: &[u8]) -> Result<Option<&RecordStatements>, StoreError> {
        self.record.clear();
        let mut record = std::mem::take(&mut self.record);
        key.clone_into(&mut record.key);
        self.seek(key)?;
        self.gather(&mut record)?;
        self.record = record;
        Ok(Some(&self.record).filter(|record| !record.statements.is_empty()))
    }

    /// Moves forward to the record with this key, or to the next one if it does not exist.
    pub(in crate::ground) fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let begin = key_of(key, 0);
        self.files.iter_mut().try_for_each(|(_, rows)| rows.seek(&begin))
    }

    /// Adds all statements about `record` from the files that are positioned at it.
    pub(in crate::ground) fn gather(&mut self, record: &mut RecordStatements) -> Result<(), StoreError> {
        // the runs of a file are all later than those of the files before it
        for (number, rows) in &mut self.files {
            while let Some((key, _)) = rows.current() {
                let (key, run) = split_key(key).ok_or_else(|| invalid_row_error(self.view))?;
                if key != record.key {
                    break;
                }
                let statement = StoredStatement::read(run, rows.shared_value());
                record.statements.push(statement.ok_or_else(|| invalid_row_error(self.view))?);
                record.file_numbers.push(*number);
                rows.advance()?;
            }
        }
        Ok(())
    }
}

fn invalid_row_error(view: &SourceView) -> StoreError {
    view.corrupt("a statement cannot be read")
}

impl Iterator for RecordStatementsReader<'_> {
    type Item = Result<RecordStatements, StoreError>;

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
