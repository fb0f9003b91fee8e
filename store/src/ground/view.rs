//! A source with its files open, as its readers use it.

pub mod records;

use super::files::GroundFiles;
use super::statement::StoredStatement;
use crate::ground::files::facts_owner;
use crate::ground::places::{HELD_MAX, RunPlaces};
use crate::ground::statement::StatementRow;
use crate::ground::view::records::{RecordRow, RecordStatementsReader};
use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use domain_ground::ontology::Ontology;
use domain_ground::record::{ContentRow, ProvenanceRecord, RawRecordLocation, RecordContent};
use domain_ground::run::record_id;
use domain_ground::source_state::{CompletedRun, SourceState};
use domain_ground::timeline::{RecordStatement, RecordVersion, ReleaseScope, VersionEnd, VisibleReleases};
use jiff::Timestamp;
use std::borrow::Cow;
use std::ops::Bound;
use std::sync::OnceLock;
use store_base::error::StoreError;
use store_base::ordered_rows::MergedKeys;
use store_facts::sorted::{SortedFile, SortedRowRange};

/// The first byte of the key of a statement.
pub(super) const STATEMENT: u8 = b's';
/// The first byte of the key of an index entry.
pub(super) const INDEX: u8 = b'x';
/// The length of the run number at the end of a statement's key, in bytes.
const RUN_BYTES: usize = 4;

/// A source with its files open. It does not change when more data is ingested.
#[derive(Debug)]
pub struct SourceView {
    /// The source's state in the database.
    pub state: SourceState,
    /// The revision of the state.
    pub revision: u64,
    /// The ontology of its records.
    pub ontology: Ontology,
    /// All known releases.
    pub known: VisibleReleases,
    pub(super) open: Vec<SortedFile>,
    /// The runs that have a base, in the order of their numbers.
    based: Vec<BasedRun>,
    pub(super) files: GroundFiles,
}

/// All statements about one source record, in the order of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordStatements {
    /// The record key: the identity of the subject and the source's id of the record. Records are ordered by it.
    pub key: Vec<u8>,
    /// The statements of the runs.
    pub statements: Vec<StoredStatement>,
}

impl RecordStatements {
    /// Resets the record to an empty one.
    pub(super) fn clear(&mut self) {
        self.key.clear();
        self.statements.clear();
    }

    /// The statement of a run.
    #[must_use]
    pub fn of_run(&self, run: u32) -> Option<&StoredStatement> {
        // most often the last one
        let last = self.statements.last().filter(|last| last.time.run == run);
        last.or_else(|| {
            let found = self.statements.binary_search_by_key(&run, |statement| statement.time.run);
            found.ok().and_then(|found| self.statements.get(found))
        })
    }

    /// The statement at `index`. If its content was pruned, and another run states the same content, it has that content.
    #[must_use]
    pub fn statement(&self, index: usize) -> Option<StoredStatement> {
        let mut statement = self.statements.get(index)?.clone();
        if statement.is_pruned() {
            let has_same = |other: &&StoredStatement| other.time.content == statement.time.content;
            statement.row = self.statements.iter().filter(has_same).find_map(|same| same.row.clone());
        }
        Some(statement)
    }

    /// For each statement, the parts on which validity depends.
    pub fn times(&self) -> impl Iterator<Item = &RecordStatement> {
        self.statements.iter().map(|stored| &stored.time)
    }
}

/// A version of a record that a query found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundVersion {
    /// The record's key.
    pub key: Vec<u8>,
    /// The statement that represents the version.
    pub statement: StoredStatement,
    /// The statement of the latest release with the same content, without the bytes of the content.
    pub latest: StoredStatement,
    /// The version, with its interval of validity.
    pub version: RecordVersion,
    /// The run and the position of the record that replaced it.
    pub superseded_by: Option<(u32, u64)>,
}

/// The prefix of the index entries of all records that have had a certain value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexKey(pub(super) Vec<u8>);

impl FoundVersion {
    /// The source's id of the record.
    #[must_use]
    pub fn source_record_id(&self) -> String {
        source_record_id_in(&self.key).unwrap_or_default()
    }
}

impl SourceView {
    pub(super) fn new(
        state: SourceState,
        revision: u64,
        ontology: Ontology,
        files: &GroundFiles,
    ) -> Result<Self, StoreError> {
        let known = VisibleReleases::new(&state.releases(), ReleaseScope::default());
        let owner = facts_owner(&state);
        let open = state.files.iter().map(|file| {
            let opened = files.open_sorted(file, &owner)?;
            Ok(opened.cached(&files.blocks, &file.sha256))
        });
        let open = open.collect::<Result<_, StoreError>>()?;
        let based = BasedRun::of(&state);
        Ok(Self { state, revision, ontology, known, open, based, files: files.clone() })
    }

    /// The releases that `scope` sees. The result for all releases is precomputed.
    #[must_use]
    pub fn knowledge(&self, scope: ReleaseScope) -> Cow<'_, VisibleReleases> {
        if self.state.completed.iter().all(|completed| scope.is_visible(&completed.release)) {
            return Cow::Borrowed(&self.known);
        }
        Cow::Owned(VisibleReleases::new(&self.state.releases(), scope))
    }

    /// Number of files that a lookup searches.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.open.len()
    }

    /// The records whose keys begin with `prefix`, from the record key `from` on, or after it if the bound is excluded.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn records(
        &self,
        prefix: &[u8],
        from: Bound<&[u8]>,
    ) -> Result<RecordStatementsReader<'_>, StoreError> {
        self.records_unread(prefix, from).begin()
    }

    /// The same records without having read any row, for a caller that seeks single records.
    pub(super) fn records_unread(&self, prefix: &[u8], from: Bound<&[u8]>) -> RecordStatementsReader<'_> {
        let whole = [&[STATEMENT], prefix].concat();
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) if key < prefix => Bound::Included(whole.clone()),
            Bound::Unbounded => Bound::Included(whole.clone()),
            Bound::Included(key) => Bound::Included(key_of(key, 0)),
            Bound::Excluded(key) => Bound::Excluded(key_of(key, u32::MAX)),
        };
        let start = start.as_ref().map(Vec::as_slice);
        RecordStatementsReader::new(self, self.open.iter().map(|file| file.with_prefix_from(&whole, start)))
    }

    /// All records, without having read any row. A run reads each once, so the blocks bypass the cache.
    pub(super) fn records_once(&self) -> RecordStatementsReader<'_> {
        let files = self.open.iter().map(|file| file.uncached().with_prefix(&[STATEMENT]));
        RecordStatementsReader::new(self, files)
    }

    /// The versions that are in force at `time`, by the releases in `known`, of the records of the subject with the key
    /// `identity`. They are read one by one, in the order of the records.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn lookup<'v>(
        &'v self,
        identity: &[u8],
        known: &'v VisibleReleases,
        time: Timestamp,
    ) -> Result<impl Iterator<Item = Result<FoundVersion, StoreError>> + use<'v>, StoreError> {
        let records = self.records(identity, Bound::Unbounded)?;
        Ok(records
            .filter_map(move |record| record.map(|record| Self::valid_at(&record, known, time)).transpose()))
    }

    /// The source version that rejected a record of this identity, if no later release contains or withdraws
    /// the record.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn rejected(&self, identity: &[u8], known: &VisibleReleases) -> Result<Option<String>, StoreError> {
        for record in self.records(identity, Bound::Unbounded)? {
            let run = known.rejected_by(record?.times()).and_then(|run| self.state.run(run));
            if let Some(run) = run {
                return Ok(Some(run.release.version.clone()));
            }
        }
        Ok(None)
    }

    /// The index entries that begin with `value` and `prefix`. After `value`, an entry has the key of a
    /// record that has had the value. The entries are in key order, from the record key `from` on, or after
    /// it if the bound is excluded.
    pub(super) fn indexed(
        &self,
        value: &IndexKey,
        prefix: &[u8],
        from: Bound<&[u8]>,
    ) -> MergedKeys<SortedRowRange> {
        let whole = [value.0.as_slice(), prefix].concat();
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) if key < prefix => Bound::Included(whole.clone()),
            Bound::Unbounded => Bound::Included(whole.clone()),
            Bound::Included(key) | Bound::Excluded(key) => from.map(|_| [value.0.as_slice(), key].concat()),
        };
        let start = start.as_ref().map(Vec::as_slice);
        MergedKeys::new(self.open.iter().map(|file| file.with_prefix_from(&whole, start)).collect())
    }

    /// The number of blocks that hold the keys that [`SourceView::records`] reads or, with `value`, the entries that
    /// [`SourceView::indexed`] reads.
    pub(super) fn blocks(&self, value: Option<&IndexKey>, prefix: &[u8]) -> usize {
        let begin = value.map_or(&[STATEMENT][..], |value| value.0.as_slice());
        let whole = [begin, prefix].concat();
        self.open.iter().map(|file| file.blocks_with_prefix(&whole)).sum()
    }

    /// The version of `record` that is in force at `time`, by the releases in `known`.
    #[must_use]
    pub fn valid_at(
        record: &RecordStatements,
        known: &VisibleReleases,
        time: Timestamp,
    ) -> Option<FoundVersion> {
        let version = known.valid_at(record.times(), time)?;
        FoundVersion::of(record, version)
    }

    /// All versions of `record`, by the releases in `known`.
    pub fn versions<'r>(
        record: &'r RecordStatements,
        known: &VisibleReleases,
    ) -> impl Iterator<Item = FoundVersion> + use<'r> {
        let versions = known.versions(record.times()).into_iter();
        versions.filter_map(move |version| FoundVersion::of(record, version))
    }

    /// The id of the record that run number `run` read at `position`.
    #[must_use]
    pub fn record_id(&self, run: u32, position: u64) -> Option<String> {
        self.state.run(run).map(|completed| record_id(&completed.run_id, position))
    }

    /// The content of a statement; `None` if it was pruned.
    ///
    /// # Errors
    /// `SourceFile` if the stored row is invalid.
    pub fn content(&self, statement: &StoredStatement) -> Result<Option<RecordContent>, StoreError> {
        self.row(statement)?.map(|row| self.decode(&row)).transpose()
    }

    /// The content in a row.
    pub(super) fn decode(&self, row: &ContentRow<'_>) -> Result<RecordContent, StoreError> {
        row.content(&self.ontology).ok_or_else(|| self.corrupt("a record's content cannot be read"))
    }

    /// The row of a statement.
    pub(super) fn row<'s>(
        &self,
        statement: &'s StoredStatement,
    ) -> Result<Option<ContentRow<'s>>, StoreError> {
        statement.row.as_ref().map(|bytes| self.content_row(bytes)).transpose()
    }

    /// The row in `bytes`.
    pub(super) fn content_row<'b>(&self, bytes: &'b [u8]) -> Result<ContentRow<'b>, StoreError> {
        ContentRow::read(bytes).ok_or_else(|| self.corrupt("a record's row cannot be read"))
    }

    /// The later source version that rejected the record of `version`, or a record that cannot be identified, and so
    /// does not confirm it.
    #[must_use]
    pub fn unconfirmed_by(&self, version: &RecordVersion) -> Option<String> {
        let completed = self.state.run(version.unconfirmed_by?)?;
        Some(completed.release.version.clone())
    }

    /// The provenance of a version.
    ///
    /// # Errors
    /// `SourceFile` if the version names an unknown run.
    pub fn provenance(&self, found: &FoundVersion) -> Result<ProvenanceRecord, StoreError> {
        let FoundVersion { key, statement, version, superseded_by, .. } = found;
        let run = statement.time.run;
        let completed =
            self.state.run(run).ok_or_else(|| self.corrupt(&format!("a statement of run {run}")))?;
        let CompletedRun { run_id, pipeline_id, pipeline_sha256, raw_sha256, source_url, release, .. } =
            completed;
        let transformations = self.state.transformations.get(pipeline_sha256);
        Ok(ProvenanceRecord {
            record_id: record_id(run_id, statement.position),
            oracle_id: self.state.entry.oracle_id().clone(),
            source_version: release.version.clone(),
            source_record_id: source_record_id_in(key).unwrap_or_default(),
            source_url: source_url.clone(),
            ingested_at: release.ingested_at,
            ingestion_pipeline_id: pipeline_id.clone(),
            ingestion_run_id: run_id.clone(),
            raw_hash: Sha256Hex::from_bytes(&statement.raw_hash),
            normalized_hash: statement.time.content.as_ref().map(Sha256Hex::from_bytes),
            transformations_applied: transformations.cloned().unwrap_or_default(),
            valid_from: version.valid_from,
            valid_until: version.valid_until,
            superseded_by: superseded_by.and_then(|(run, position)| self.record_id(run, position)),
            unconfirmed_by: self.unconfirmed_by(version),
            verification_status: statement.verification_status(),
            verified_by: statement.verified.then(|| pipeline_id.to_string()),
            verified_at: statement.verified.then_some(release.ingested_at),
            raw: RawRecordLocation {
                raw_sha256: raw_sha256.clone(),
                position: statement.position,
                offset: statement.offset,
                len: statement.len,
            },
            pruned: statement.is_pruned(),
        })
    }

    /// The error for an invalid row in the source's files whose checksum is valid.
    pub(super) fn corrupt(&self, detail: &str) -> StoreError {
        self.files.unreadable(&facts_owner(&self.state), detail)
    }
}

impl FoundVersion {
    fn of(record: &RecordStatements, version: RecordVersion) -> Option<Self> {
        let statements = &record.statements;
        let superseded_by = match version.ended_by {
            VersionEnd::Superseded(by) => statements.get(by).map(|by| (by.time.run, by.position)),
            VersionEnd::Open | VersionEnd::Withdrawn(_) | VersionEnd::Expired => None,
        };
        let statement = record.statement(version.statement)?;
        let latest = statements.iter().find(|candidate| candidate.time.run == version.last_seen);
        let mut latest = latest.unwrap_or(&statement).clone();
        latest.row = latest.row.map(|_| Bytes::new());
        Some(Self { key: record.key.clone(), statement, latest, version, superseded_by })
    }
}

impl IndexKey {
    /// The prefix for the value with the key bytes `value` on the axis at position `axis` of the ontology.
    #[must_use]
    pub fn new(axis: u16, value: &[u8]) -> Self {
        Self([&[INDEX], &axis.to_be_bytes()[..], value].concat())
    }
}

/// The key of the statement of `run` about the record with the key `record_key`.
pub(super) fn key_of(record_key: &[u8], run: u32) -> Vec<u8> {
    [&[STATEMENT], record_key, &run.to_be_bytes()[..]].concat()
}

/// The record key and the run number in the key of a statement.
pub(super) fn split_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (record_key, run) = key.strip_prefix(&[STATEMENT])?.split_last_chunk::<RUN_BYTES>()?;
    Some((record_key, u32::from_be_bytes(*run)))
}

/// The source's id of the record, at the end of the record key.
pub(super) fn source_record_id_in(key: &[u8]) -> Option<String> {
    // no id contains a 0 byte: control characters are escaped in it
    let id = key.strip_suffix(&[0, 0])?.get(identity_in(key).len() + 1..)?;
    String::from_utf8(id.to_vec()).ok()
}

/// The identity of the subject at the start of a record key: up to the last 0 byte that is not part of the
/// source's id. A 0 byte within an id would be followed by byte 255, which occurs in no text.
pub(super) fn identity_in(key: &[u8]) -> &[u8] {
    let rest = key.strip_suffix(&[0, 0]).unwrap_or(key);
    let ends = |at: &usize| rest.get(*at) == Some(&0) && rest.get(at + 1) != Some(&u8::MAX);
    let end = (0..rest.len()).rev().find(ends).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// A run that has a base.
#[derive(Debug)]
struct BasedRun {
    run: u32,
    base: u32,
    /// Whether its segments are held in memory.
    is_held: bool,
    /// Read when the first record without a row is read.
    places: OnceLock<RunPlaces>,
}

impl BasedRun {
    /// The runs of a source that have a base, in the order of their numbers.
    fn of(state: &SourceState) -> Vec<Self> {
        let mut segments = 0_u64;
        let based = state.completed.iter().filter_map(|completed| {
            segments += completed.stated.segments;
            let (run, base) = (completed.release.run, completed.stated.base?);
            Some(Self { run, base, is_held: segments <= HELD_MAX, places: OnceLock::new() })
        });
        based.collect()
    }
}

impl SourceView {
    /// Whether readers hold the segments of the next run in memory, if it has this number of them.
    pub(in crate::ground) fn holds_segments(&self, segments: u64) -> bool {
        let known: u64 = self.state.completed.iter().map(|completed| completed.stated.segments).sum();
        known + segments <= HELD_MAX
    }

    /// Adds the statements of all runs to a record, from its `rows` in the order of the runs.
    fn state_record(
        &self,
        rows: &mut Vec<RecordRow>,
        record: &mut RecordStatements,
    ) -> Result<(), StoreError> {
        let first = rows.first().map_or(u32::MAX, |row| row.run);
        let mut rows = rows.drain(..).peekable();
        let begin = self.based.partition_point(|based| based.run < first);
        for based in self.based.get(begin..).unwrap_or_default() {
            while let Some(row) = rows.next_if(|row| row.run < based.run) {
                self.add_row(&row, None, record)?;
            }
            match rows.next_if(|row| row.run == based.run) {
                Some(row) => self.add_row(&row, Some(based.base), record)?,
                None => self.add_confirmed(based, record)?,
            }
        }
        rows.try_for_each(|row| self.add_row(&row, None, record))
    }

    fn add_row(
        &self,
        row: &RecordRow,
        base: Option<u32>,
        record: &mut RecordStatements,
    ) -> Result<(), StoreError> {
        let base = base.and_then(|base| record.of_run(base));
        let read = StoredStatement::read(row.run, &row.bytes, base);
        match read.ok_or_else(|| self.corrupt("a statement cannot be read"))? {
            StatementRow::Absent => {}
            StatementRow::Stated(statement) => record.statements.push(statement),
        }
        Ok(())
    }

    /// Adds the statement of a run that has no row for the record.
    fn add_confirmed(&self, based: &BasedRun, record: &mut RecordStatements) -> Result<(), StoreError> {
        // a run has a row for each record that it rejected
        let base = record.of_run(based.base).filter(|base| base.time.content.is_some());
        let Some(base) = base else { return Ok(()) };
        let place = self.places(based)?.place(base.place())?;
        let place = place.ok_or_else(|| self.corrupt("the place of a confirmed record is missing"))?;
        let statement = StoredStatement {
            time: RecordStatement { run: based.run, ..base.time },
            position: place.position,
            offset: place.offset,
            ..base.clone()
        };
        record.statements.push(statement);
        Ok(())
    }

    fn places<'b>(&self, based: &'b BasedRun) -> Result<&'b RunPlaces, StoreError> {
        if let Some(places) = based.places.get() {
            return Ok(places);
        }
        let unknown = || self.corrupt("a run with a base is unknown");
        let completed = self.state.run(based.run).ok_or_else(unknown)?;
        let rows = self.files.open_sorted(&completed.rows, &facts_owner(&self.state))?;
        let rows = rows.cached(&self.files.blocks, &completed.rows.sha256);
        let places = RunPlaces::read(rows, based.is_held)?;
        let places = places.map_err(|_| self.corrupt("the places of a run cannot be read"))?;
        Ok(based.places.get_or_init(|| places))
    }
}

#[cfg(test)]
mod tests {
    use crate::ground::statement::StoredStatement;
    use crate::ground::testing::*;
    use domain_ground::rejection::{RecordRejection, RecordRule, RejectedRecord};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    /// A change of a file before its next release.
    #[derive(Debug, Clone)]
    enum FileChange {
        Add(u32),
        Drop(u32),
        Change(u32, u64),
        /// Other raw bytes with the same content.
        Comment(u32),
        Move(u32, u32),
        Reverse,
        /// A file of few records, which is not a snapshot.
        Patch(u32),
    }

    fn change() -> impl Strategy<Value = FileChange> {
        let place = 0..40_u32;
        prop_oneof![
            place.clone().prop_map(FileChange::Add),
            place.clone().prop_map(FileChange::Drop),
            (place.clone(), 0..3_u64).prop_map(|(at, people)| FileChange::Change(at, people)),
            place.clone().prop_map(FileChange::Comment),
            (place.clone(), place.clone()).prop_map(|(from, to)| FileChange::Move(from, to)),
            Just(FileChange::Reverse),
            place.prop_map(FileChange::Patch),
        ]
    }

    /// Changes `file` to the next one, or returns a patch, after which the previous file continues.
    fn changed(
        file: &mut Vec<TestStatement>,
        change: &FileChange,
        next_year: &mut u32,
    ) -> Option<TestStatement> {
        let at = |place: u32| place as usize % file.len();
        match *change {
            FileChange::Add(place) => {
                *next_year += 1;
                file.insert(at(place), test_statement("USD", *next_year, 7));
            }
            FileChange::Drop(place) if file.len() > 1 => drop(file.remove(at(place))),
            FileChange::Drop(_) => {}
            FileChange::Change(place, people) => {
                let at = at(place);
                file[at].people = people;
            }
            FileChange::Comment(place) => {
                let at = at(place);
                file[at].comment.push('!');
            }
            FileChange::Move(from, to) => {
                let (from, to) = (at(from), at(to));
                let moved = file.remove(from);
                file.insert(to.min(file.len()), moved);
            }
            FileChange::Reverse => file.reverse(),
            FileChange::Patch(place) => {
                let mut patch = file[at(place)].clone();
                patch.people += 1;
                return Some(patch);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(
            std::env::var("ORACLED_HISTORIES").map_or(16, |cases| cases.parse().expect("a number"))
        ))]

        #[test]
        fn statements_are_read_as_the_runs_made_them(
            releases in vec(vec(change(), 0..4), 1..14),
            prune in proptest::option::of(0..14_usize),
        ) {
            let mut world = TestStore::new();
            let mut file: Vec<_> = (0..25).map(|year| test_statement("USD", year, 1)).collect();
            let (mut next_year, mut expected) = (100, BTreeMap::<Vec<u8>, Vec<StoredStatement>>::new());
            let mut readings = Vec::new();
            for (number, changes) in (1..).zip(&releases) {
                let patches: Vec<_> =
                    changes.iter().filter_map(|change| changed(&mut file, change, &mut next_year)).collect();
                let statements = patches.last().map_or_else(|| file.clone(), |patch| vec![patch.clone()]);
                let reading = test_run(&format!("{number:03}"), 100 * i64::from(number), patches.is_empty(), statements);
                world.archive(&reading);
                world.ingest(&reading);
                for (stated, stored) in reading.statements.iter().zip(reading.stored(number)) {
                    expected.entry(stated.key()).or_default().push(stored);
                }
                readings.push(reading);
                if prune == Some(number as usize) {
                    // pruned statements keep all but their rows
                    world.prune(100 * i64::from(number));
                }
            }
            let view = world.view();
            let is_pruned = prune.is_some_and(|prune| prune <= releases.len());
            let mut found = BTreeMap::new();
            for record in view.records(&[], Bound::Unbounded).expect("readable") {
                let mut record = record.expect("readable");
                for (statement, expected) in record.statements.iter_mut().zip(&expected[&record.key]) {
                    if is_pruned && statement.row.is_none() {
                        statement.row = expected.row.clone();
                    }
                }
                found.insert(record.key, record.statements);
            }
            prop_assert_eq!(&found, &expected);
            for statement in expected.values().flatten() {
                let run = statement.time.run;
                let record = view.record(run, statement.position).expect("readable").expect("it is stated");
                let of_run = record.of_run(run).expect("it is stated");
                prop_assert_eq!((of_run.position, of_run.raw_hash), (statement.position, statement.raw_hash));
            }
            for (run, reading) in (1..).zip(&readings) {
                let verified = view.verify_run(run, |_| true).expect("readable").expect("the run exists");
                prop_assert_eq!((verified.fault_count, verified.records), (0, reading.statements.len() as u64));
                let beyond = reading.statements.len() as u64;
                prop_assert_eq!(view.record(run, beyond).expect("readable"), None);
            }
        }
    }

    #[test]
    fn release_that_only_confirms_writes_no_statement() {
        let mut world = TestStore::new();
        let file = |people| (0..2000).map(|year| test_statement("USD", year, people)).collect::<Vec<_>>();
        world.ingest(&test_run("1", 100, true, file(1)));
        let before = world.view().state.files.clone();
        for release in 2..6_i64 {
            world.ingest(&test_run(&release.to_string(), 100 * release, true, file(1)));
        }
        let state = world.view().state.clone();
        assert_eq!(state.files, before);
        for completed in &state.completed[1..] {
            assert!(completed.rows.size_bytes < 300, "{} bytes", completed.rows.size_bytes);
            assert_eq!(
                (completed.stated.base, completed.stated.segments),
                (Some(completed.release.run - 1), 1)
            );
        }
    }

    #[test]
    fn rejected_record_is_not_confirmed_by_the_next_release() {
        let mut world = TestStore::new();
        let file: Vec<_> = (0..20).map(|year| test_statement("USD", year, 1)).collect();
        world.ingest(&test_run("1", 100, true, file.clone()));
        // the second release rejects the first record, the third one lacks it
        let second = test_run("2", 200, true, file[1..].to_vec());
        let mut staging = world.staging(&second);
        let rejection = RecordRejection::new(RecordRule::RequiredField, None, "no value");
        let reject = RejectedRecord {
            position: 19,
            offset: 0,
            len: 1,
            raw_hash: domain_base::digest::Sha256Hex::of(b""),
            rejection,
        };
        staging.reject(&reject, Some(&file[0].key())).expect("the write succeeds");
        let release = world.release(&second);
        let staged = staging.finish(&world.view(), &release, |_| true).expect("the write succeeds");
        world.complete_staged(&second, release, staged.expect("the caller does not stop it"));
        world.ingest(&test_run("3", 300, true, file[1..].to_vec()));
        world.ingest(&test_run("4", 400, true, file.clone()));
        let view = world.view();
        let bases: Vec<_> = view.state.completed.iter().map(|completed| completed.stated.base).collect();
        assert_eq!(bases[..3], [None, Some(1), Some(2)]);
        let record = view.records(&file[0].key(), Bound::Unbounded).expect("readable").next();
        let record = record.expect("it exists").expect("readable");
        let runs: Vec<_> =
            record.statements.iter().map(|stated| (stated.time.run, stated.time.content.is_some())).collect();
        assert_eq!(runs, [(1, true), (2, false), (4, true)]);
    }
}
