//! Writes what a run states, relative to its base.

use super::run_statements::RunStatement;
use crate::ground::files::{GroundFiles, UncommittedFiles, facts_owner};
use crate::ground::places::{POSITION_KEY, PlaceCollector, row_key};
use crate::ground::staging::{PROCEED_INTERVAL_RECORDS, index_of};
use crate::ground::statement::{ABSENT_ROW, StoredStatement};
use crate::ground::view::{INDEX, RecordStatements, STATEMENT, SourceView};
use domain_base::varint::{put_part, take_part};
use domain_ground::run::SortedFileRef;
use domain_ground::source_state::StatedRecords;
use store_base::error::StoreError;
use store_base::ordered_rows::{MergedKeys, RowMerge, RowSource};
use store_base::sorter::RowSorter;
use store_facts::sorted::{SortedFile, SortedWriter};

/// The memory of each sort, in bytes.
const SORT_BYTES: usize = 16 << 20;

/// Writes the statements of a run in the order of their records. A record that the run states as its base does gets no
/// row, only a place in the payload.
pub(super) struct DeltaWriter {
    run: u32,
    base: Option<u32>,
    facts: FactsWriter,
    index: RowSorter,
    /// The keys of the records that have a row, by their positions.
    positions: RowSorter,
    places: PlaceCollector,
    /// The number of records that the run states.
    records: u64,
}

impl DeltaWriter {
    pub(super) fn create(
        files: &GroundFiles,
        name: &str,
        run: u32,
        base: Option<u32>,
    ) -> Result<Self, StoreError> {
        let dir = files.work_dir();
        let sorter = || RowSorter::new(&dir, SORT_BYTES);
        Ok(Self {
            run,
            base,
            facts: FactsWriter::create(files, format!("{name}.facts"))?,
            index: sorter(),
            positions: sorter(),
            places: PlaceCollector::new(&dir),
            records: 0,
        })
    }

    pub(super) const fn has_base(&self) -> bool {
        self.base.is_some()
    }

    /// Writes what the run says about `record`, which has the statements of the earlier runs.
    pub(super) fn push(
        &mut self,
        record: &RecordStatements,
        stated: Option<&RunStatement>,
    ) -> Result<(), StoreError> {
        let base = self.base.and_then(|base| record.of_run(base));
        let Some(RunStatement { statement, index }) = stated else {
            // a rejected record of the base is not repeated without a row
            let is_repeated = base.is_some_and(|base| base.time.content.is_some());
            return if is_repeated { self.facts.push_absent(&record.key, self.run) } else { Ok(()) };
        };
        self.records += 1;
        if let Some(base) = base.filter(|base| statement.confirms(base)) {
            return self.places.push(base.place(), statement.place());
        }
        if statement.time.content.is_some() {
            self.positions.push(&row_key(POSITION_KEY, statement.position), &record.key)?;
        }
        if base.is_none_or(|base| !statement.has_content_of(base)) {
            self.push_index(&record.key, index)?;
        }
        self.facts.push(&record.key, statement, base)
    }

    fn push_index(&mut self, record_key: &[u8], mut index: &[u8]) -> Result<(), StoreError> {
        while let Some((axis, value)) = take_index_value(&mut index) {
            self.index.push(&[&[INDEX], axis, value, record_key].concat(), &[])?;
        }
        Ok(())
    }

    /// Completes the files: the tables of places go to the run's own file `rows`. Returns the statements of the run,
    /// and the files of the source; `None` if `proceed` returned false.
    pub(super) fn finish(
        self,
        (files, view, name): (&GroundFiles, &SourceView, &str),
        rows: &mut SortedWriter,
        new_files: &mut UncommittedFiles,
        proceed: &mut dyn FnMut() -> bool,
    ) -> Result<Option<(StatedRecords, Vec<SortedFileRef>)>, StoreError> {
        let Self { base, facts, index, positions, places, records, .. } = self;
        let segments = places.write(rows, |segments| view.holds_segments(segments))?;
        let mut positions = positions.finish()?;
        positions.advance()?;
        while let Some((position, record_key)) = positions.current() {
            rows.push(position, record_key)?;
            positions.advance()?;
        }
        let stated = StatedRecords { records, base, segments };
        if facts.is_empty() {
            return Ok(Some((stated, view.state.files.clone())));
        }
        let index: Box<dyn RowSource> = Box::new(index.finish()?);
        let fresh = facts.finish(files, MergedKeys::new(vec![index]), new_files)?;
        let files = add_file((files, view, name), fresh, new_files, proceed)?;
        Ok(files.map(|files| (stated, files)))
    }
}

/// Appends the key bytes of the value of an indexed axis to `index`.
pub(super) fn put_index_value(index: &mut Vec<u8>, axis: u16, value: &[u8]) {
    index.extend_from_slice(&axis.to_be_bytes());
    put_part(index, value);
}

/// Removes the next axis and its value from the start of `index`.
fn take_index_value<'b>(index: &mut &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
    Some((index.split_off(..2)?, take_part(index)?))
}

/// Writes statements in the order of their records and runs, followed by the index.
pub(in crate::ground) struct FactsWriter {
    name: String,
    out: SortedWriter,
    statements: u64,
    /// The key and the bytes of the last statement.
    key: Vec<u8>,
    bytes: Vec<u8>,
}

impl FactsWriter {
    /// Begins the file `name`.
    pub(in crate::ground) fn create(files: &GroundFiles, name: String) -> Result<Self, StoreError> {
        Ok(Self { out: files.writer(&name)?, name, statements: 0, key: Vec::new(), bytes: Vec::new() })
    }

    /// Whether it has no rows yet.
    pub(in crate::ground) const fn is_empty(&self) -> bool {
        self.statements == 0
    }

    /// Appends a statement about the record with the key `record_key`. `base` is the statement of the base of its run.
    pub(in crate::ground) fn push(
        &mut self,
        record_key: &[u8],
        statement: &StoredStatement,
        base: Option<&StoredStatement>,
    ) -> Result<(), StoreError> {
        statement.write_to(base, &mut self.bytes);
        self.set_key(record_key, statement.time.run);
        self.statements += 1;
        self.out.push(&self.key, &self.bytes)
    }

    /// Appends that `run` does not have a record of its base.
    pub(in crate::ground) fn push_absent(&mut self, record_key: &[u8], run: u32) -> Result<(), StoreError> {
        self.set_key(record_key, run);
        self.push_row(&self.key.clone(), ABSENT_ROW)
    }

    /// Appends a row of another file.
    pub(in crate::ground) fn push_row(&mut self, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        self.statements += 1;
        self.out.push(key, row)
    }

    fn set_key(&mut self, record_key: &[u8], run: u32) {
        self.key.clear();
        self.key.push(STATEMENT);
        self.key.extend_from_slice(record_key);
        self.key.extend_from_slice(&run.to_be_bytes());
    }

    /// Completes the file with the entries of its index.
    pub(in crate::ground) fn finish(
        mut self,
        files: &GroundFiles,
        mut index: MergedKeys<Box<dyn RowSource>>,
        new_files: &mut UncommittedFiles,
    ) -> Result<SortedFileRef, StoreError> {
        while let Some(entry) = index.advance()? {
            self.out.push(entry, &[])?;
        }
        files.adopt_sorted_file(&self.name, self.out.finish()?, self.statements, new_files)
    }
}

/// A file is merged with newer rows unless it has more than this many times as many.
const FACTOR: u64 = 4;

/// Adds the new file `fresh` to the files of the source, and merges it with the last of them if they are not much
/// larger. Only these files are read and written again. Returns `None` if `proceed` returned false.
pub(super) fn add_file(
    (files, view, name): (&GroundFiles, &SourceView, &str),
    fresh: SortedFileRef,
    new_files: &mut UncommittedFiles,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Option<Vec<SortedFileRef>>, StoreError> {
    let mut result = view.state.files.clone();
    let unchanged = count_unchanged_files(&result, fresh.statements);
    result.truncate(unchanged);
    if unchanged == view.state.files.len() {
        result.push(fresh);
        return Ok(Some(result));
    }
    let opened = files.open_sorted(&fresh, &facts_owner(&view.state))?;
    let merged = view.open.iter().skip(unchanged).map(SortedFile::uncached);
    let merged: Vec<_> = merged.chain([opened]).collect();
    let mut rows = RowMerge::new(merged.iter().map(|file| file.with_prefix(&[STATEMENT])).collect());
    let mut facts = FactsWriter::create(files, format!("{name}.merged"))?;
    let mut written = 0_u64;
    rows.advance()?;
    while let Some((key, row)) = rows.current() {
        facts.push_row(key, row)?;
        rows.advance()?;
        written += 1;
        if written.is_multiple_of(PROCEED_INTERVAL_RECORDS) {
            files.check_free_space()?;
            if !proceed() {
                return Ok(None);
            }
        }
    }
    let index = MergedKeys::new(merged.iter().map(index_of).collect());
    result.push(facts.finish(files, index, new_files)?);
    new_files.remove_file(&fresh);
    Ok(Some(result))
}

/// The number of the oldest of `files` that stay unchanged when `fresh` rows are added. Each of the resulting
/// files has fewer rows than a quarter of the file before it.
fn count_unchanged_files(files: &[SortedFileRef], fresh: u64) -> usize {
    let mut merged = fresh;
    let mut unchanged = files.len();
    for file in files.iter().rev() {
        if file.statements > merged.saturating_mul(FACTOR) {
            break;
        }
        merged += file.statements;
        unchanged -= 1;
    }
    unchanged
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::digest::Sha256Hex;

    #[test]
    fn tiers_limit_files_and_rewrites_over_many_runs() {
        const RUNS: u64 = 2000;
        let mut files: Vec<SortedFileRef> = Vec::new();
        let (mut most, mut rewritten) = (0, 0);
        for _ in 0..RUNS {
            let unchanged = count_unchanged_files(&files, 10);
            let statements = 10 + files.drain(unchanged..).map(|file| file.statements).sum::<u64>();
            rewritten += statements;
            files.push(SortedFileRef { sha256: Sha256Hex::of(b""), size_bytes: 0, rows: 0, statements });
            most = most.max(files.len());
        }
        assert_eq!(files.iter().map(|file| file.statements).sum::<u64>(), RUNS * 10);
        assert!(most <= 6, "{most} files");
        assert!(rewritten < RUNS * 10 * 25, "each statement was written {} times", rewritten / (RUNS * 10));
    }
}
