//! Reads records from a source's files.

use crate::ground::statement::EncodedStatement;
use crate::ground::view::{RecordStatements, SourceView, key_of, split_key};
use bytes::Bytes;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;
use store_facts::sorted::SortedRowRange;

/// Records in key order. They end with the first error.
///
/// [`RecordStatementsReader::advance`] finds the rows of a record, and [`RecordStatementsReader::decode`] parses them.
/// The iterator does both.
#[derive(Debug)]
pub struct RecordStatementsReader<'v> {
    view: &'v SourceView,
    /// The files, the oldest first, each at its next row.
    files: Vec<SortedRowRange>,
    /// The rows of the current record, in the order of the runs.
    rows: Vec<RecordRow>,
    /// The current record: its key, and its statements after [`RecordStatementsReader::decode`].
    record: RecordStatements,
}

/// The row of a run about a record that is not decoded yet.
#[derive(Debug)]
pub(in crate::ground) struct RecordRow {
    pub(in crate::ground) run: u32,
    pub(super) bytes: Bytes,
}

impl RecordRow {
    /// The parts of the statement; `None` if the row is too short.
    pub(in crate::ground) fn encoded(&self) -> Option<EncodedStatement<'_>> {
        EncodedStatement::read(&self.bytes)
    }
}

impl<'v> RecordStatementsReader<'v> {
    /// The records in the rows of `files`, of which none has been advanced yet.
    pub(super) fn new(view: &'v SourceView, files: impl Iterator<Item = SortedRowRange>) -> Self {
        Self { view, files: files.collect(), rows: Vec::new(), record: RecordStatements::default() }
    }

    /// Reads the first row of each file.
    pub(in crate::ground) fn begin(mut self) -> Result<Self, StoreError> {
        self.files.iter_mut().try_for_each(SortedRowRange::advance)?;
        Ok(self)
    }

    /// The key of the next record; `None` after the last one.
    pub(in crate::ground) fn next_key(&self) -> Result<Option<&[u8]>, StoreError> {
        // no record key is a prefix of another one, so the first row belongs to the first record
        let first = self.files.iter().filter_map(SortedRowRange::current).map(|(key, _)| key).min();
        first
            .map(|key| split_key(key).map(|(key, _)| key).ok_or_else(|| invalid_row_error(self.view)))
            .transpose()
    }

    /// Moves to the next record. Returns `false` after the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<bool, StoreError> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let found = self.next_key()?.map(|key| key.clone_into(&mut record.key)).is_some();
        self.record = record;
        self.find_rows()?;
        Ok(found)
    }

    /// Moves to the record with this key. There are no rows if the record does not exist. Several calls must pass keys
    /// in ascending order.
    pub(in crate::ground) fn advance_to(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.record.clear();
        key.clone_into(&mut self.record.key);
        self.seek(key)?;
        self.find_rows()
    }

    /// The key of the current record.
    pub(in crate::ground) fn key(&self) -> &[u8] {
        &self.record.key
    }

    /// The rows of the current record, in the order of the runs.
    pub(in crate::ground) fn rows(&self) -> &[RecordRow] {
        &self.rows
    }

    /// The current record with its statements.
    pub(in crate::ground) fn decode(&mut self) -> Result<&RecordStatements, StoreError> {
        self.view.state_record(&mut self.rows, &mut self.record)?;
        Ok(&self.record)
    }

    /// Moves forward to the record with this key, or to the next one if it does not exist.
    pub(in crate::ground) fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let begin = key_of(key, 0);
        self.files.iter_mut().try_for_each(|rows| rows.seek(&begin))
    }

    /// Adds all statements about `record`, for a reader that is positioned at it.
    pub(in crate::ground) fn gather(&mut self, record: &mut RecordStatements) -> Result<(), StoreError> {
        find_rows(self.view, &mut self.files, &record.key, &mut self.rows)?;
        self.view.state_record(&mut self.rows, record)
    }

    fn find_rows(&mut self) -> Result<(), StoreError> {
        self.rows.clear();
        find_rows(self.view, &mut self.files, &self.record.key, &mut self.rows)
    }
}

/// Appends the rows of the record with the key `record_key` from the files that are positioned at it.
fn find_rows(
    view: &SourceView,
    files: &mut [SortedRowRange],
    record_key: &[u8],
    found: &mut Vec<RecordRow>,
) -> Result<(), StoreError> {
    // the runs of a file are all later than those of the files before it
    for rows in files {
        while let Some((key, _)) = rows.current() {
            let (key, run) = split_key(key).ok_or_else(|| invalid_row_error(view))?;
            if key != record_key {
                break;
            }
            found.push(RecordRow { run, bytes: rows.shared_value() });
            rows.advance()?;
        }
    }
    Ok(())
}

fn invalid_row_error(view: &SourceView) -> StoreError {
    view.corrupt("a statement cannot be read")
}

impl Iterator for RecordStatementsReader<'_> {
    type Item = Result<RecordStatements, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.advance().and_then(|found| self.decode().map(|_| found));
        match found {
            Ok(found) => found.then(|| Ok(std::mem::take(&mut self.record))),
            Err(error) => {
                self.files.clear();
                Some(Err(error))
            }
        }
    }
}
