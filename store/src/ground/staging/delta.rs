//! Writes what a run states, relative to its base.

use super::facts::FactsWriter;
use super::run_statements::RunStatement;
use super::tiers::add_file;
use crate::ground::files::{GroundFiles, UncommittedFiles};
use crate::ground::places::PlaceCollector;
use crate::ground::run_keys::{POSITION_KEY, row_key};
use crate::ground::view::{INDEX, RecordStatements, SourceView};
use domain_base::varint::{put_part, take_part};
use domain_ground::run::SortedFileRef;
use domain_ground::source_state::StatedRecords;
use store_base::error::StoreError;
use store_facts::sorted::{MergedKeys, RowSource, SortedWriter};
use store_facts::sorter::RowSorter;

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
