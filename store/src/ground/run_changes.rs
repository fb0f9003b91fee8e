//! The changes of one run with the raw records before and after them, also those that a held run would make.

use super::staging::RunChangeEntry;
use super::statement::StoredStatement;
use super::tables::Store;
use super::view::SourceView;
use crate::ground::places::CHANGE;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::timeline::VersionChangeKind;
use std::collections::{BTreeMap, BTreeSet};
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;
use store_facts::slices::{PayloadSliceError, SliceLimits, slice_payload};

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
    /// end of its reading. Empty for a run without a file of its own (`rows`).
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn run_changes(
        &self,
        run: &IngestionRun,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunChange>, StoreError> {
        let entries = self.page_of_run(run, CHANGE, after, limit, RunChangeEntry::read)?;
        let Some(view) = self.view(&run.oracle_id)? else { return Ok(Vec::new()) };
        // a run that is not completed has no statements, so its records are found in its payload
        let is_unstated =
            |(number, _): &(u32, u64)| run.state != RunState::Completed && *number == run.number;
        let places = entries.iter().flat_map(|(_, entry)| {
            [Some((entry.run, entry.position)), entry.superseded_by].into_iter().flatten()
        });
        let unstated = places.filter(is_unstated).map(|(_, position)| position).collect();
        let unstated = self.raw_texts_at(run, unstated)?;
        let text = |place: (u32, u64)| {
            if is_unstated(&place) {
                return Ok(unstated.get(&place.1).cloned());
            }
            self.raw_text_of(&view, place)
        };
        let change = |(ordinal, entry): (u64, RunChangeEntry)| {
            let [before, after] = sides(&entry);
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
        let is_it =
            |statement: &&StoredStatement| (statement.time.run, statement.position) == (run, position);
        let Some(statement) = record.statements.iter().find(is_it) else { return Ok(None) };
        let place = [(statement.offset, statement.len)];
        Ok(self.raw_texts(view.state.entry.oracle_id(), &completed.raw_sha256, place)?.pop())
    }

    /// The raw records of a run at these positions, which are read from the beginning of its payload. Empty if the payload was
    /// pruned or not kept.
    fn raw_texts_at(
        &self,
        run: &IngestionRun,
        mut positions: BTreeSet<u64>,
    ) -> Result<BTreeMap<u64, String>, StoreError> {
        if positions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (oracle_id, raw_sha256) = (&run.oracle_id, &run.input.raw_sha256);
        let payload = self.archived_payload(oracle_id, raw_sha256)?;
        let Some((payload, definition)) = payload.zip(self.definition(&run.input.pipeline_sha256)?) else {
            return Ok(BTreeMap::new());
        };
        let format = &definition.pipeline.retrieval.format;
        let owner = FileOwner::new(oracle_id, SourceFileKind::Payload);
        let unreadable = |error: PayloadSliceError| self.files().unreadable(&owner, &error.to_string());
        let reader = payload.reader();
        let mut slices = slice_payload(format, reader, SliceLimits::default()).map_err(unreadable)?;
        let mut places = BTreeMap::new();
        while !positions.is_empty() {
            let Some(slice) = slices.next().transpose().map_err(unreadable)? else { break };
            if positions.remove(&slice.position) {
                places.insert(slice.position, (slice.offset, slice.len_bytes()));
            }
        }
        let texts = self.raw_texts(oracle_id, raw_sha256, places.values().copied())?;
        Ok(places.into_keys().zip(texts).collect())
    }
}

/// The run and the position of the record before a change, and of the record after it.
fn sides(entry: &RunChangeEntry) -> [Option<(u32, u64)>; 2] {
    let subject = Some((entry.run, entry.position));
    match entry.kind {
        VersionChangeKind::BecameValid => [None, subject],
        // the same record in another interval, unless another record with the same content continues it
        VersionChangeKind::Moved => [subject, entry.superseded_by.or(subject)],
        VersionChangeKind::Superseded
        | VersionChangeKind::Withdrawn
        | VersionChangeKind::Expired
        | VersionChangeKind::Replaced
        | VersionChangeKind::Undone => [subject, entry.superseded_by],
    }
}
