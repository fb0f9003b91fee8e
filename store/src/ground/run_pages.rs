//! Pages of the rows in a run's own file: its rejects, its changes, and the positions of its records.

use super::files::GroundFiles;
use super::places::base_position;
use super::staging::RunChangeEntry;
use super::statement::StoredStatement;
use super::view::{RecordStatements, SourceView};
use crate::ground::files::facts_owner;
use crate::ground::places::{CHANGE, POSITION_KEY, REJECT, row_key};
use crate::ground::tables::Store;
use domain_ground::id::SourceId;
use domain_ground::rejection::RejectedRecord;
use domain_ground::run::{IngestionRun, RunState, SortedFileRef};
use domain_ground::source_state::SourceCheck;
use domain_ground::timeline::VersionChangeKind;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;
use store_facts::slices::{PayloadSliceError, SliceLimits, slice_payload};

impl Store {
    /// The first `limit` rejects of a run after the position `after`, in the order of their positions in the
    /// payload. Empty if the run has not ended.
    ///
    /// # Errors
    /// The run's file cannot be read.
    pub fn rejects(
        &self,
        run: &IngestionRun,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RejectedRecord>, StoreError> {
        let read = |json: &[u8]| serde_json::from_slice(json).ok();
        let rejects = self.page_of_run(run, REJECT, after, limit, read)?;
        Ok(rejects.into_iter().map(|(_, reject)| reject).collect())
    }

    /// The first `limit` rows of one kind in the run's own file after the number `after`, each with its number.
    pub(super) fn page_of_run<T>(
        &self,
        run: &IngestionRun,
        kind: u8,
        after: Option<u64>,
        limit: usize,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<(u64, T)>, StoreError> {
        let Some(rows) = &run.rows else { return Ok(Vec::new()) };
        let file_kind =
            if run.state == RunState::Completed { SourceFileKind::Facts } else { SourceFileKind::Rejects };
        let own = (rows, &FileOwner::new(&run.oracle_id, file_kind));
        page(self.files(), own, kind, after, limit, read)
    }
}

impl SourceView {
    /// The first `limit` changes of run number `run` after the ordinal `after`, each with its ordinal. Empty if the run
    /// does not exist.
    ///
    /// # Errors
    /// The run's file cannot be read.
    pub fn changes(
        &self,
        run: u32,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, RunChangeEntry)>, StoreError> {
        let Some(completed) = self.state.run(run) else { return Ok(Vec::new()) };
        let own = (&completed.rows, &facts_owner(&self.state));
        page(&self.files, own, CHANGE, after, limit, RunChangeEntry::read)
    }

    /// The record that run number `run` read at `position` of its payload, with all its statements. `None` if the run
    /// accepted no record there. Of equal records that were merged, only the position of the first one has a result.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn record(&self, run: u32, position: u64) -> Result<Option<RecordStatements>, StoreError> {
        let Some(key) = self.record_key(run, position)? else { return Ok(None) };
        // the run has no such statement if the record was merged with an equal one, or rejected
        let is_of_run = |statement: &StoredStatement| {
            (statement.time.run, statement.position) == (run, position) && statement.time.content.is_some()
        };
        let record = self.records(&key, Bound::Unbounded)?.next().transpose()?;
        Ok(record.filter(|record| record.statements.iter().any(is_of_run)))
    }

    /// The key of the record that run number `run` read at `position`. The run that has its row is found through the
    /// bases of the runs that confirmed it.
    fn record_key(&self, mut run: u32, mut position: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let owner = facts_owner(&self.state);
        loop {
            let Some(completed) = self.state.run(run) else { return Ok(None) };
            let rows = self.files.open_sorted(&completed.rows, &owner)?;
            let key = rows.get(&row_key(POSITION_KEY, position))?;
            let Some(base) = completed.stated.base.filter(|base| key.is_none() && *base < run) else {
                return Ok(key);
            };
            let Some(at) = base_position(&rows, position)? else { return Ok(None) };
            (run, position) = (base, at);
        }
    }
}

/// The first `limit` rows of one kind after the number `after`, each with its number.
fn page<T>(
    files: &GroundFiles,
    (rows, owner): (&SortedFileRef, &FileOwner),
    kind: u8,
    after: Option<u64>,
    limit: usize,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<(u64, T)>, StoreError> {
    let file = files.open_sorted(rows, owner)?;
    let begin = row_key(kind, after.unwrap_or_default());
    let start =
        if after.is_some() { Bound::Excluded(begin.as_slice()) } else { Bound::Included(begin.as_slice()) };
    let page = file.with_prefix_from(&[kind], start).take(limit).map(|row| {
        let (key, value) = row?;
        let number = key.get(1..).and_then(|number| number.first_chunk()).map(|at| u64::from_be_bytes(*at));
        let unreadable = || files.unreadable(owner, &format!("a row of {}", rows.sha256));
        number.zip(read(&value)).ok_or_else(unreadable)
    });
    page.collect()
}

impl Store {
    /// The last completed check of a source.
    #[must_use]
    pub fn source_check(&self, oracle_id: &SourceId) -> Option<SourceCheck> {
        self.checks().source_check(oracle_id.as_str())
    }

    /// Stores the result of a check of a source.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn put_source_check(&self, oracle_id: &SourceId, check: SourceCheck) -> Result<(), StoreError> {
        self.checks().put_source_check(oracle_id.as_str(), &check)
    }

    /// The sources that were not checked between `since` and `now`. Sources that were never checked come
    /// first, the others in the order of their last check.
    ///
    /// # Errors
    /// The sources cannot be read.
    pub fn unchecked_sources(&self, since: Timestamp, now: Timestamp) -> Result<Vec<SourceId>, StoreError> {
        let mut unchecked = Vec::new();
        for source in self.sources()? {
            let oracle_id = source.entry.oracle_id();
            let checked_at = self.source_check(oracle_id).map(|check| check.checked_at);
            // a check after `now` was noted before the clock was set back
            if checked_at.is_none_or(|at| at < since || at > now) {
                unchecked.push((checked_at, oracle_id.clone()));
            }
        }
        unchecked.sort();
        Ok(unchecked.into_iter().map(|(_, oracle_id)| oracle_id).collect())
    }
}

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
        // the same record in another interval, unless another record with the same content is valid in its place
        VersionChangeKind::Moved if entry.valid_from.is_some() => [subject, subject],
        VersionChangeKind::Moved => [subject, entry.superseded_by],
        VersionChangeKind::Superseded
        | VersionChangeKind::Withdrawn
        | VersionChangeKind::Expired
        | VersionChangeKind::Replaced
        | VersionChangeKind::Undone => [subject, entry.superseded_by],
    }
}
