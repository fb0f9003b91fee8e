//! The changes of one run with the raw records before and after them, also those that a held run would make.

use super::pages::page;
use super::sealed::FileOwner;
use super::slices::{SliceLimits, slice_payload};
use super::staging::{CHANGE, RunChangeEntry};
use super::tables::Store;
use super::view::SourceView;
use crate::base::error::{SourceFileKind, StoreError};
use oracled_domain::ground::run::{IngestionRun, RunState};
use std::collections::{BTreeMap, BTreeSet};

/// A change of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The number of the change in its run.
    pub ordinal: u64,
    pub entry: RunChangeEntry,
    /// The id of the record that the run changes; `None` for a record of the run itself.
    pub record_id: Option<String>,
    /// The raw record that it changes; `None` for a new record, or if its payload was removed.
    pub before: Option<String>,
    /// The raw record that is in force instead; `None` if there is none, or if its payload was removed.
    pub after: Option<String>,
}

impl Store {
    /// The first `limit` changes of a run after the number `after`. A held run has the changes that it would make to the records at the
    /// end of its reading. Empty for a run that has none of its own yet, or failed.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn run_changes(
        &self,
        run: &IngestionRun,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunChange>, StoreError> {
        let Some(rows) = &run.rows else { return Ok(Vec::new()) };
        let kind =
            if run.state == RunState::Completed { SourceFileKind::Facts } else { SourceFileKind::Rejects };
        let own = (rows, &FileOwner::new(&run.oracle_id, kind));
        let entries = page(self.files(), own, CHANGE, after, limit, RunChangeEntry::read)?;
        let Some(view) = self.view(&run.oracle_id)? else { return Ok(Vec::new()) };
        let is_own = |(number, _): &(u32, u64)| *number == run.number;
        let places = entries.iter().flat_map(|(_, entry)| {
            [Some((entry.run, entry.position)), entry.superseded_by].into_iter().flatten()
        });
        let own_positions = places.filter(is_own).map(|(_, position)| position).collect();
        let own_texts = self.raw_texts_at(run, own_positions)?;
        let text = |place: (u32, u64)| match own_texts.get(&place.1) {
            own if is_own(&place) => Ok(own.cloned()),
            _ => self.raw_text_of(&view, place),
        };
        let change = |(ordinal, entry): (u64, RunChangeEntry)| {
            let subject = (entry.run, entry.position);
            let (before, after) =
                if is_own(&subject) { (None, Some(subject)) } else { (Some(subject), entry.superseded_by) };
            let [before_text, after] = [before, after].map(|place| place.map(text).transpose());
            let record_id = before.and_then(|(run, position)| view.record_id(run, position));
            Ok(RunChange {
                ordinal,
                entry,
                record_id,
                before: before_text?.flatten(),
                after: after?.flatten(),
            })
        };
        entries.into_iter().map(change).collect()
    }

    /// The raw record that a completed run read at a position.
    fn raw_text_of(
        &self,
        view: &SourceView,
        (run, position): (u32, u64),
    ) -> Result<Option<String>, StoreError> {
        let (Some(completed), Some(record)) = (view.state.run(run), view.record(run, position)?) else {
            return Ok(None);
        };
        let is_it = |time: (u32, u64)| time == (run, position);
        let statement =
            record.statements.iter().find(|statement| is_it((statement.time.run, statement.position)));
        let Some(statement) = statement else { return Ok(None) };
        let place = [(statement.offset, statement.len)];
        Ok(self.raw_texts(view.state.entry.oracle_id(), &completed.raw_sha256, place)?.pop())
    }

    /// The raw records of a run at these positions, which are read from the beginning of its payload: a held run has no statements.
    /// Empty if the archive does not have the payload.
    fn raw_texts_at(
        &self,
        run: &IngestionRun,
        mut positions: BTreeSet<u64>,
    ) -> Result<BTreeMap<u64, String>, StoreError> {
        let (oracle_id, raw_sha256) = (&run.oracle_id, &run.input.raw_sha256);
        let definition = self.definition(&run.input.pipeline_sha256)?;
        let Some(definition) = definition.filter(|_| self.files().has_archived(raw_sha256)) else {
            return Ok(BTreeMap::new());
        };
        let payload = self.files().archive(oracle_id, raw_sha256)?;
        let format = &definition.pipeline.retrieval.format;
        let slices = slice_payload(format, payload.reader(), SliceLimits { max_record_bytes: u32::MAX });
        let mut places = BTreeMap::new();
        // the run has read the payload with these faults
        for slice in slices.into_iter().flatten().flatten() {
            if positions.remove(&slice.position) {
                places.insert(slice.position, (slice.offset, slice.len_bytes()));
            }
            if positions.is_empty() {
                break;
            }
        }
        let texts = self.raw_texts(oracle_id, raw_sha256, places.values().copied())?;
        Ok(places.into_keys().zip(texts).collect())
    }
}
