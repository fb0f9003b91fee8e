//! Writes the records of a run to files: sorts them with limited memory, and compares them with the stored statements.
//!
//! The run is not visible before a commit names its files. Incomplete files are removed at the next start.

mod delta;
mod run_statements;

use super::files::{GroundFiles, UncommittedFiles};
use super::statement::StoredStatement;
use super::view::{INDEX, RecordStatements, SourceView};
use crate::ground::places::{CHANGE, REJECT, row_key};
use crate::ground::statement::{put_time, take_time};
use crate::ground::view::source_record_id_in;
use delta::{DeltaWriter, put_index_value};
use domain_base::digest::Sha256Hex;
use domain_base::varint::{put, put_part, take};
use domain_ground::axis_effect::{AxisEffectGauge, AxisEffects};
use domain_ground::rejection::{RecordRejection, RejectedRecord};
use domain_ground::run::{ReleaseEffect, RunCounts, SortedFileRef};
use domain_ground::source_state::StatedRecords;
use domain_ground::timeline::{
    RecordStatement, RecordVersion, ReleaseScope, TimelineRun, VersionChange, VersionChangeKind, VersionEnd,
    VisibleReleases, changes,
};
use jiff::Timestamp;
use run_statements::{RecordGroup, RunStatement, RunStatements};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;
use store_base::sorter::RowSorter;
use store_facts::sorted::{SortedFile, SortedWriter};

pub(super) use crate::ground::staging::delta::FactsWriter;

/// The memory of a run in bytes: for its statements, and for each of its other sorts.
const SORT_BYTES: usize = 64 << 20;
const SMALL_SORT_BYTES: usize = 16 << 20;
/// The number of records between two calls of `proceed`.
const PROCEED_INTERVAL_RECORDS: u64 = 4096;

/// A run whose files are being written.
#[derive(Debug)]
pub struct RunStaging {
    files: GroundFiles,
    name: String,
    run: u32,
    statements: RowSorter,
    sample: RecordSample,
    rejects: RowSorter,
    /// The run's own file.
    rows: SortedWriter,
    counts: RunCounts,
    /// Buffers for the bytes of a statement, and for them with the values of its indexed axes.
    bytes: Vec<u8>,
    row: Vec<u8>,
}

#[derive(Debug)]
pub struct AcceptedRecord<'a> {
    /// The record key: the identity of the subject and the source's id of the record.
    pub key: &'a [u8],
    pub statement: &'a StoredStatement,
    /// For each indexed axis with a value: the position of the axis in the ontology, and the key bytes of the value.
    pub index: &'a [(u16, Vec<u8>)],
}

/// The files of a run that no commit names yet. If this is dropped before
/// [`StagedRun::keep_files`], it removes them.
#[derive(Debug)]
pub struct StagedRun {
    pub counts: RunCounts,
    /// The file with its rejects, its changes, and the positions of its records.
    pub rows: SortedFileRef,
    /// How its statements are stored.
    pub stated: StatedRecords,
    /// The files with the source's statements, the oldest first.
    pub statements: Vec<SortedFileRef>,
    /// The number of records that it would bring back although their content was pruned.
    pub pruned: u64,
    /// The effect on the values of each axis.
    pub axis_effects: AxisEffects,
    new_files: UncommittedFiles,
}

impl RunStaging {
    /// Begins the run with this id and number.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the files cannot be created.
    pub fn new(files: &GroundFiles, run_id: &Sha256Hex, run: u32) -> Result<Self, StoreError> {
        let (dir, name) = (files.work_dir(), run_id.as_str().to_owned());
        Ok(Self {
            rows: begin_rows(files, &name)?,
            files: files.clone(),
            name,
            run,
            statements: RowSorter::new(&dir, SORT_BYTES),
            sample: RecordSample::default(),
            rejects: RowSorter::new(&dir, SMALL_SORT_BYTES),
            counts: RunCounts::default(),
            bytes: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Adds an accepted record. Records are added in the order of their positions.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the disk cannot be written; the caller must then drop the run.
    pub fn accept(&mut self, accepted: &AcceptedRecord<'_>) -> Result<(), StoreError> {
        let AcceptedRecord { key, statement, index } = accepted;
        self.counts.read += 1;
        self.sample.add(key, statement);
        self.push_statement(key, statement, index)
    }

    fn push_statement(
        &mut self,
        key: &[u8],
        statement: &StoredStatement,
        index: &[(u16, Vec<u8>)],
    ) -> Result<(), StoreError> {
        statement.write_to(None, &mut self.bytes);
        self.row.clear();
        put_part(&mut self.row, &self.bytes);
        index.iter().for_each(|(axis, value)| put_index_value(&mut self.row, *axis, value));
        self.statements.push(key, &self.row)
    }

    /// Stores a rejected record, under its `key` if that could be read. The source's former statement about it stays in
    /// force.
    ///
    /// # Errors
    /// The errors of [`RunStaging::accept`].
    pub fn reject(&mut self, reject: &RejectedRecord, key: Option<&[u8]>) -> Result<(), StoreError> {
        self.counts.read += 1;
        match key {
            Some(key) => self.push_statement(key, &self.rejected(reject.position), &[])?,
            None => self.counts.unidentified += 1,
        }
        self.write_reject(reject)
    }

    /// The statement that represents a rejected record at this position.
    const fn rejected(&self, position: u64) -> StoredStatement {
        StoredStatement {
            time: RecordStatement { run: self.run, valid_from: None, valid_until: None, content: None },
            position,
            offset: 0,
            len: 0,
            raw_hash: [0; 32],
            verified: false,
            row: None,
        }
    }

    /// Counts a warning about an accepted record.
    pub fn count_warning(&mut self, warning: &RecordRejection) {
        *self.counts.warnings_by_rule.entry(warning.rule).or_default() += 1;
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> &RunCounts {
        &self.counts
    }

    /// The counts so far, to add those that only the reader of the payload knows.
    #[must_use]
    pub const fn counts_mut(&mut self) -> &mut RunCounts {
        &mut self.counts
    }

    fn write_reject(&mut self, reject: &RejectedRecord) -> Result<(), StoreError> {
        self.counts.rejected += 1;
        *self.counts.rejected_by_rule.entry(reject.rejection.rule).or_default() += 1;
        let json = serde_json::to_vec(reject).expect("a reject is plain data");
        self.rejects.push(&row_key(REJECT, reject.position), &json)
    }

    /// Compares the run with the source's earlier statements, and writes its files. `proceed` is called from
    /// time to time with the number of records so far. If it returns false, the result is `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the disk cannot be written; no file is then left.
    pub fn finish(
        mut self,
        view: &SourceView,
        release: &TimelineRun,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<Option<StagedRun>, StoreError> {
        let release = TimelineRun { has_unidentified: self.counts.unidentified > 0, ..release.clone() };
        let sample = std::mem::take(&mut self.sample);
        let base = sample.choose_base(view, changes_others(view, &release))?;
        let mut delta = DeltaWriter::create(&self.files, &self.name, self.run, base)?;
        let Some((pruned, axis_effects)) = self.merge_records(view, &release, &mut delta, &mut proceed)?
        else {
            return Ok(None);
        };
        let mut new_files = UncommittedFiles::new(&self.files);
        let checked_records = self.counts.records;
        let mut proceed = || proceed(checked_records);
        let target = (&self.files, view, self.name.as_str());
        let finished = delta.finish(target, &mut self.rows, &mut new_files, &mut proceed)?;
        let Some((stated, statements)) = finished else { return Ok(None) };
        let (counts, rows) = self.finish_rows(&mut new_files)?;
        Ok(Some(StagedRun { counts, rows, stated, statements, pruned, axis_effects, new_files }))
    }

    /// Compares the records of the run with the source's earlier statements. The earlier statements about other records
    /// are read only if the run can change them, or has a base. Returns the number of records that it would bring back
    /// although their content was pruned, and the effect on values; `None` if `proceed` returned false.
    fn merge_records(
        &mut self,
        view: &SourceView,
        release: &TimelineRun,
        delta: &mut DeltaWriter,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<(u64, AxisEffects)>, StoreError> {
        let releases: Vec<_> = view.state.releases().into_iter().chain([release.clone()]).collect();
        let after = VisibleReleases::new(&releases, ReleaseScope::default());
        let mut gauge = ReleaseEffectGauge::new(view, &releases, release);
        let others_change = changes_others(view, release);
        let reads_all = others_change || delta.has_base();
        let mut old = view.records_once();
        if reads_all {
            old = old.begin()?;
        }
        let work_dir = self.files.work_dir();
        let statements = std::mem::replace(&mut self.statements, RowSorter::new(&work_dir, 0));
        let mut fresh = RunStatements::new(statements, self.run, &work_dir)?;
        let (mut record, mut checked_records, mut ordinal, mut pruned) =
            (RecordStatements::default(), 0_u64, 0_u64, 0_u64);
        loop {
            let old_key = if reads_all { old.next_key()? } else { None };
            let Some(key) = [old_key, fresh.key()].into_iter().flatten().min() else { break };
            checked_records += 1;
            if checked_records.is_multiple_of(PROCEED_INTERVAL_RECORDS) {
                self.files.check_free_space()?;
                if !proceed(checked_records) {
                    return Ok(None);
                }
            }
            record.clear();
            key.clone_into(&mut record.key);
            if !reads_all {
                old.seek(&record.key)?;
            }
            old.gather(&mut record)?;
            let stated = match fresh.group(&record.key, view)? {
                Some(group) => Some(self.merge_record_group(group, view)?),
                None => None,
            };
            delta.push(&record, stated.as_ref())?;
            let is_stated = stated.is_some();
            if let Some(RunStatement { statement, .. }) = stated {
                self.counts.records += u64::from(statement.time.content.is_some());
                gauge.compare_values(view, &record, &statement)?;
                record.statements.push(statement);
            }
            if others_change {
                gauge.count(&record);
            }
            if others_change && restores_pruned(&record, &view.known, &after) {
                pruned += 1;
            }
            if is_stated || others_change {
                self.write_record_changes(view, &record, &after, &mut ordinal)?;
            }
        }
        Ok(Some((pruned, gauge.store_in(&mut self.counts, others_change))))
    }

    /// The single statement for all records of one key: any of them if they are equal; otherwise all are rejected.
    fn merge_record_group(
        &mut self,
        group: RecordGroup,
        view: &SourceView,
    ) -> Result<RunStatement, StoreError> {
        if group.same {
            self.counts.collapsed += group.members.saturating_sub(1);
            return Ok(group.first);
        }
        let statement = self.rejected(group.first.statement.position);
        group.reject(view, |reject| self.write_reject(&reject))?;
        Ok(RunStatement { statement, index: Vec::new() })
    }

    /// Stores and counts the changes of the run to a record.
    fn write_record_changes(
        &mut self,
        view: &SourceView,
        record: &RecordStatements,
        after: &VisibleReleases,
        ordinal: &mut u64,
    ) -> Result<(), StoreError> {
        let times: Vec<RecordStatement> = record.times().copied().collect();
        for change in changes(&times, &view.known, after) {
            let entry = RunChangeEntry::of(&change, record);
            *self.counts.changes.entry(entry.kind.into_str().to_owned()).or_default() += 1;
            self.rows.push(&row_key(CHANGE, *ordinal), &entry.to_bytes())?;
            *ordinal += 1;
        }
        Ok(())
    }

    /// Completes the run's own file.
    fn finish_rows(
        mut self,
        new_files: &mut UncommittedFiles,
    ) -> Result<(RunCounts, SortedFileRef), StoreError> {
        let mut rejects = self.rejects.finish()?;
        rejects.advance()?;
        while let Some((key, value)) = rejects.current() {
            self.rows.push(key, value)?;
            rejects.advance()?;
        }
        let rows = self.files.adopt_sorted_file(&rows_name(&self.name), self.rows.finish()?, 0, new_files)?;
        Ok((self.counts, rows))
    }

    /// Stores only the rejects, for a failed run.
    ///
    /// # Errors
    /// The errors of [`RunStaging::accept`].
    pub fn rejects_only(self) -> Result<(RunCounts, SortedFileRef), StoreError> {
        drop(self.rows);
        let rows = begin_rows(&self.files, &self.name)?;
        let mut new_files = UncommittedFiles::new(&self.files);
        let rejects_file = Self { rows, ..self }.finish_rows(&mut new_files)?;
        new_files.keep_all_files();
        Ok(rejects_file)
    }
}

fn rows_name(name: &str) -> String {
    format!("{name}.rows")
}

/// Begins the own file of a run.
fn begin_rows(files: &GroundFiles, name: &str) -> Result<SortedWriter, StoreError> {
    files.writer(&rows_name(name))
}

/// The entries of a file's index.
pub(super) fn index_of(file: &SortedFile) -> Box<dyn RowSource> {
    Box::new(file.with_prefix(&[INDEX]))
}

impl StagedRun {
    /// Keeps only the rejects, for a run that changes nothing in the end. Its other files are removed.
    #[must_use]
    pub fn rejects_only(mut self) -> (RunCounts, SortedFileRef) {
        self.new_files.keep_file(&self.rows);
        let counts = RunCounts { changes: BTreeMap::new(), ..std::mem::take(&mut self.counts) };
        (counts, self.rows.clone())
    }

    /// Keeps the rejects and the planned changes of a held run, and removes its other files.
    #[must_use]
    pub fn keep_for_held_run(mut self) -> (RunCounts, SortedFileRef) {
        self.new_files.keep_file(&self.rows);
        (std::mem::take(&mut self.counts), self.rows.clone())
    }

    /// Keeps the files, for the commit that names them.
    pub fn keep_files(mut self) {
        self.new_files.keep_all_files();
    }
}

/// Whether the release brings back content that was pruned: in a version that has no end, or in one that holds at a time at
/// which a version with content held before.
fn restores_pruned(record: &RecordStatements, before: &VisibleReleases, after: &VisibleReleases) -> bool {
    if !record.statements.iter().any(StoredStatement::is_pruned) {
        return false;
    }
    let is_pruned = |version: &RecordVersion| {
        record.statement(version.statement).is_some_and(|statement| statement.is_pruned())
    };
    let is_open = |version: &RecordVersion| version.valid_until.is_none();
    let (lost, stored): (Vec<_>, Vec<_>) = before.versions(record.times()).into_iter().partition(is_pruned);
    after.versions(record.times()).into_iter().filter(is_pruned).any(|restored| {
        let begins_before_end = |one: &RecordVersion, other: &RecordVersion| {
            other.valid_until.is_none_or(|until| one.valid_from < until)
        };
        let overlaps = |version: &RecordVersion| {
            begins_before_end(version, &restored) && begins_before_end(&restored, version)
        };
        is_open(&restored) && !lost.iter().any(is_open) || stored.iter().any(overlaps)
    })
}

/// Whether a release can change records that it does not contain. A snapshot withdraws them. An undo, or a
/// new reading of the same version, revokes earlier statements about them.
fn changes_others(view: &SourceView, release: &TimelineRun) -> bool {
    let known = view.state.completed.iter();
    release.snapshot
        || release.undoes.is_some()
        || known.map(|known| &known.release).any(|known| known.version == release.version)
}

/// The kinds of changes, by their codes.
const KINDS: [VersionChangeKind; 7] = [
    VersionChangeKind::BecameValid,
    VersionChangeKind::Superseded,
    VersionChangeKind::Withdrawn,
    VersionChangeKind::Expired,
    VersionChangeKind::Moved,
    VersionChangeKind::Replaced,
    VersionChangeKind::Undone,
];
const UNTIL: u8 = 1;
const SUPERSEDED: u8 = 2;
/// The record no longer has an interval.
const GONE: u8 = 4;
/// The interval is the record's own. Rows without this flag are older: see [`has_interval_in_older_row`].
const OWN_INTERVAL: u8 = 8;

/// A change of a version of a record. A record is identified by run and position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChangeEntry {
    pub kind: VersionChangeKind,
    /// The run that read the record.
    pub run: u32,
    /// The record's position in that run's payload.
    pub position: u64,
    /// The source's id of the record.
    pub source_record_id: String,
    /// The start of its interval after the change; `None` if it no longer has one.
    pub valid_from: Option<Timestamp>,
    /// The end of that interval; `None` if it is open.
    pub valid_until: Option<Timestamp>,
    /// The run and the position of the record that follows it or, if it no longer has an interval, is valid in its place.
    pub superseded_by: Option<(u32, u64)>,
}

impl RunChangeEntry {
    fn of(change: &VersionChange, record: &RecordStatements) -> Self {
        let at = |statement: usize| {
            record.statements.get(statement).map(|stored| (stored.time.run, stored.position))
        };
        let by = |version: &RecordVersion| match version.ended_by {
            VersionEnd::Superseded(by) => at(by),
            VersionEnd::Open | VersionEnd::Withdrawn(_) | VersionEnd::Expired => None,
        };
        let subject = change.before.or(change.after);
        let (run, position) = subject.and_then(|version| at(version.statement)).unwrap_or_default();
        let remaining = change.remaining();
        let other = change.after.filter(|_| remaining.is_none()).and_then(|after| at(after.statement));
        Self {
            kind: change.kind,
            run,
            position,
            source_record_id: source_record_id_in(&record.key).unwrap_or_default(),
            valid_from: remaining.map(|version| version.valid_from),
            valid_until: remaining.and_then(|version| version.valid_until),
            superseded_by: remaining.as_ref().and_then(by).or(other),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.source_record_id.len());
        let flags = [
            (self.valid_until.is_some(), UNTIL),
            (self.superseded_by.is_some(), SUPERSEDED),
            (self.valid_from.is_none(), GONE),
            (true, OWN_INTERVAL),
        ];
        let code = KINDS.iter().position(|kind| *kind == self.kind);
        bytes.push(code.and_then(|code| u8::try_from(code).ok()).expect("each kind is listed"));
        bytes.push(flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        for (run, position) in [Some((self.run, self.position)), self.superseded_by].into_iter().flatten() {
            put(&mut bytes, run.into());
            put(&mut bytes, position);
        }
        for time in [&self.valid_from, &self.valid_until].into_iter().flatten() {
            put_time(&mut bytes, time);
        }
        bytes.extend_from_slice(self.source_record_id.as_bytes());
        bytes
    }

    /// Parses a change; `None` if `bytes` is invalid.
    pub(in crate::ground) fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (kind, flags) = (*bytes.split_off_first()?, *bytes.split_off_first()?);
        let (run, position) = take_record(bytes)?;
        let superseded_by = if flags & SUPERSEDED == 0 { None } else { Some(take_record(bytes)?) };
        let valid_from = if flags & GONE != 0 { None } else { Some(take_time(bytes)?) };
        let valid_until = if flags & UNTIL == 0 { None } else { Some(take_time(bytes)?) };
        let (kind, source_record_id) =
            (*KINDS.get(usize::from(kind))?, String::from_utf8(bytes.to_vec()).ok()?);
        let has_interval = flags & OWN_INTERVAL != 0 || has_interval_in_older_row(kind, flags);
        let (valid_from, valid_until) = if has_interval { (valid_from, valid_until) } else { (None, None) };
        Some(Self { kind, run, position, source_record_id, valid_from, valid_until, superseded_by })
    }
}

/// Whether an older row has the interval of its own record. Older rows have the former interval of a record without an
/// interval or, for `moved`, that of its successor. A record that ended and still has an interval has its end.
const fn has_interval_in_older_row(kind: VersionChangeKind, flags: u8) -> bool {
    match kind {
        VersionChangeKind::BecameValid => true,
        VersionChangeKind::Superseded | VersionChangeKind::Withdrawn | VersionChangeKind::Expired => {
            flags & UNTIL != 0
        }
        VersionChangeKind::Moved => flags & SUPERSEDED == 0,
        VersionChangeKind::Replaced | VersionChangeKind::Undone => false,
    }
}

/// A run's number and a position in its payload.
fn take_record(bytes: &mut &[u8]) -> Option<(u32, u64)> {
    Some((u32::try_from(take(bytes)?).ok()?, take(bytes)?))
}

/// Counts the effect of a release on the records in force at its date or later. If the release replaces
/// another reading of its version with another date, the records in force at that date count too.
struct ReleaseEffectGauge<'v> {
    times: Vec<EffectAtTime>,
    effect: ReleaseEffect,
    values: AxisEffectGauge<'v>,
}

/// The known statements at a time, without the release and with it.
struct EffectAtTime {
    at: Timestamp,
    before: VisibleReleases,
    after: VisibleReleases,
    /// As `after`, if the identities of all rejected records could be read; `None` if they could.
    after_readable: Option<VisibleReleases>,
}

impl<'v> ReleaseEffectGauge<'v> {
    fn new(view: &'v SourceView, releases: &[TimelineRun], release: &TimelineRun) -> Self {
        let replaced =
            view.state.run_of_version(&release.version).map(|completed| completed.release.released_at);
        let replaced = replaced.filter(|at| *at != release.released_at);
        let readable = release.has_unidentified.then(|| {
            let readable = TimelineRun { has_unidentified: false, ..release.clone() };
            view.state.releases().into_iter().chain([readable]).collect::<Vec<_>>()
        });
        let times = [Some(release.released_at), replaced].into_iter().flatten().map(|at| {
            let scope = ReleaseScope { released_by: Some(at), ..ReleaseScope::default() };
            EffectAtTime {
                at,
                before: VisibleReleases::new(&view.state.releases(), scope),
                after: VisibleReleases::new(releases, scope),
                after_readable: readable.as_ref().map(|releases| VisibleReleases::new(releases, scope)),
            }
        });
        Self {
            times: times.collect(),
            effect: ReleaseEffect::default(),
            values: AxisEffectGauge::new(&view.ontology),
        }
    }

    fn count(&mut self, record: &RecordStatements) {
        let changes: Vec<_> = self.times.iter().filter_map(|time| time.change(record, &time.after)).collect();
        let is_withdrawn = changes.contains(&RecordEffect::Withdrawn);
        self.effect.in_force += u64::from(!changes.is_empty());
        self.effect.withdrawn += u64::from(is_withdrawn);
        let would_be_withdrawn = self.times.iter().any(|time| {
            let after = time.after_readable.as_ref();
            after.is_some_and(|after| time.change(record, after) == Some(RecordEffect::Withdrawn))
        });
        self.effect.unconfirmed += u64::from(would_be_withdrawn && !is_withdrawn);
        let is_changed =
            changes.contains(&RecordEffect::Changed) && !changes.contains(&RecordEffect::Withdrawn);
        self.effect.changed += u64::from(is_changed);
    }

    /// Compares the values of the release's own `statement` with those of the earlier version that it replaces or
    /// confirms, if there is one and its content was not pruned.
    fn compare_values(
        &mut self,
        view: &SourceView,
        earlier: &RecordStatements,
        statement: &StoredStatement,
    ) -> Result<(), StoreError> {
        let Some(row) = statement.row.as_deref().filter(|_| !earlier.statements.is_empty()) else {
            return Ok(());
        };
        let replaced = self.times.iter().find_map(|time| time.replaced_by(earlier, statement));
        let replaced = replaced.and_then(|replaced| earlier.statement(replaced)?.row);
        if let Some(replaced) = &replaced {
            self.values.compare(&view.content_row(replaced)?, &view.content_row(row)?);
        }
        Ok(())
    }

    /// Stores the effects in the counts of the run. The effect on records is left out unless `others_change`: the run
    /// can then only add records. Returns the effects on values, with those of single keys.
    fn store_in(self, counts: &mut RunCounts, others_change: bool) -> AxisEffects {
        let axis_effects = self.values.into_effects();
        counts.effect = others_change.then_some(self.effect);
        counts.axis_effects = axis_effects.axes.clone();
        axis_effects
    }
}

/// The effect on a record that was in force.
#[derive(Debug, PartialEq, Eq)]
enum RecordEffect {
    None,
    Changed,
    Withdrawn,
}

impl EffectAtTime {
    /// The index of the statement that represents the version which `statement` replaces or confirms: the one in force
    /// when the statement becomes valid, or at the release. A version that expired by itself counts as in force until
    /// the next one, because a feed of short-lived records would otherwise be compared with nothing.
    fn replaced_by(&self, earlier: &RecordStatements, statement: &StoredStatement) -> Option<usize> {
        let versions = self.before.versions(earlier.times());
        let in_force = |time: Timestamp| {
            let last = versions.iter().rev().find(|version| version.valid_from <= time)?;
            let counts = last.is_valid_at(time) || last.ended_by == VersionEnd::Expired;
            counts.then_some(last.statement)
        };
        in_force(statement.time.valid_from.unwrap_or(self.at)).or_else(|| in_force(self.at))
    }

    /// The effect of `after` on the record; `None` if it is not in force at the time or later.
    fn change(&self, record: &RecordStatements, after: &VisibleReleases) -> Option<RecordEffect> {
        let (before, at) = match self.before.valid_at(record.times(), self.at) {
            Some(before) => (before, self.at),
            None => {
                let versions = self.before.versions(record.times());
                let next = versions.into_iter().find(|version| version.valid_from > self.at)?;
                (next, next.valid_from)
            }
        };
        Some(match after.valid_at(record.times(), at) {
            None => RecordEffect::Withdrawn,
            Some(after) if after.content != before.content => RecordEffect::Changed,
            Some(_) => RecordEffect::None,
        })
    }
}

/// The number of records that are compared with the earlier runs, at most.
const SAMPLE_MAX: usize = 1024;
/// A run is a small patch if the largest earlier run states more than this many times as many records.
const PATCH_FACTOR: u64 = 16;

/// Some of a run's accepted records, evenly spread over its payload.
#[derive(Debug)]
struct RecordSample {
    records: Vec<SampledRecord>,
    /// One of this many records is in the sample.
    spacing: u64,
    /// The number of accepted records.
    accepted: u64,
}

#[derive(Debug)]
struct SampledRecord {
    ordinal: u64,
    key: Vec<u8>,
    time: RecordStatement,
}

/// The sampled records that an earlier run states.
#[derive(Debug, Default)]
struct SharedRecords {
    stated: u64,
    same: u64,
}

impl Default for RecordSample {
    fn default() -> Self {
        Self { records: Vec::new(), spacing: 1, accepted: 0 }
    }
}

impl RecordSample {
    /// Adds the next accepted record.
    fn add(&mut self, key: &[u8], statement: &StoredStatement) {
        let ordinal = self.accepted;
        self.accepted += 1;
        if self.records.len() == SAMPLE_MAX && ordinal.is_multiple_of(self.spacing) {
            self.spacing *= 2;
            self.records.retain(|record| record.ordinal.is_multiple_of(self.spacing));
        }
        if ordinal.is_multiple_of(self.spacing) {
            self.records.push(SampledRecord { ordinal, key: key.to_vec(), time: statement.time });
        }
    }

    /// The earlier run that shares most with this one; the latest of several. `None` if the records that only the
    /// earlier run has would outnumber those that both state equally. `None` also for a small patch, unless it changes
    /// others: with a base, it would read the statements about all records of the source to save a few rows.
    fn choose_base(mut self, view: &SourceView, others_change: bool) -> Result<Option<u32>, StoreError> {
        let largest = view.state.completed.iter().map(|completed| completed.stated.records).max();
        if !others_change && self.accepted.saturating_mul(PATCH_FACTOR) < largest.unwrap_or_default() {
            return Ok(None);
        }
        self.records.sort_by(|one, other| one.key.cmp(&other.key));
        self.records.dedup_by(|one, other| one.key == other.key);
        let mut shared: BTreeMap<u32, SharedRecords> = BTreeMap::new();
        let (mut old, mut record) = (view.records_once(), RecordStatements::default());
        for SampledRecord { key, time, .. } in &self.records {
            record.clear();
            key.clone_into(&mut record.key);
            old.seek(key)?;
            old.gather(&mut record)?;
            for statement in &record.statements {
                let shared = shared.entry(statement.time.run).or_default();
                let is_same = statement.time == RecordStatement { run: statement.time.run, ..*time };
                shared.stated += 1;
                shared.same += u64::from(is_same && !statement.is_pruned());
            }
        }
        // whole records of the sample: a finer figure would be below its error, and choose an older run by chance
        let sampled = self.records.len() as u64;
        let in_sample =
            |records: u64| u128::from(records) * u128::from(sampled) / u128::from(self.accepted.max(1));
        let candidates = view.state.completed.iter().filter_map(|completed| {
            let SharedRecords { stated, same } = shared.get(&completed.release.run)?;
            let others = in_sample(completed.stated.records).saturating_sub(u128::from(*stated));
            let gain = u128::from(*same).checked_sub(others)?;
            Some((gain, completed.release.run))
        });
        Ok(candidates.max().filter(|(gain, _)| *gain > 0).map(|(_, run)| run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_entry_survives_encoding_and_decoding() {
        for (code, kind) in (0..).zip(KINDS) {
            let change = RunChangeEntry {
                kind,
                run: u32::MAX,
                position: 7,
                source_record_id: "ABW/1960".into(),
                valid_from: (code % 4 != 3).then_some(Timestamp::MIN),
                valid_until: (code % 2 == 0).then_some(Timestamp::MAX),
                superseded_by: (code % 3 == 0).then_some((3, u64::MAX)),
            };
            let bytes = change.to_bytes();
            assert_eq!(RunChangeEntry::read(&bytes), Some(change));
            assert_eq!(RunChangeEntry::read(&bytes[..16]), None);
        }
        assert_eq!(RunChangeEntry::read(&[u8::MAX; 64]), None);
    }

    #[test]
    fn older_change_row_has_no_interval_of_another_record() {
        use VersionChangeKind::{BecameValid, Expired, Moved, Replaced, Superseded, Undone, Withdrawn};
        let from = Timestamp::UNIX_EPOCH;
        let (until, by) = (Some(Timestamp::MAX), Some((3, 9)));
        for (kind, valid_until, superseded_by, has_interval) in [
            (BecameValid, None, None, true),
            (BecameValid, until, by, true),
            (Superseded, until, by, true),
            (Superseded, None, by, false),
            (Withdrawn, until, None, true),
            (Withdrawn, None, None, false),
            (Expired, until, None, true),
            (Expired, None, None, false),
            (Moved, until, None, true),
            (Moved, None, None, true),
            (Moved, None, by, false),
            (Moved, until, by, false),
            (Replaced, until, by, false),
            (Undone, None, None, false),
        ] {
            let source_record_id = "ABW/1960".to_owned();
            let (run, position, valid_from) = (1, 7, Some(from));
            let stored = RunChangeEntry {
                kind,
                run,
                position,
                source_record_id,
                valid_from,
                valid_until,
                superseded_by,
            };
            let mut older = stored.to_bytes();
            older[1] &= !OWN_INTERVAL;
            let expected = if has_interval {
                stored
            } else {
                RunChangeEntry { valid_from: None, valid_until: None, ..stored }
            };
            assert_eq!(RunChangeEntry::read(&older), Some(expected), "{kind:?} {valid_until:?}");
        }
    }

    mod sample {
        use crate::ground::staging::*;
        use crate::ground::testing::*;

        #[test]
        fn sample_is_spread_evenly_over_any_number_of_records() {
            let statement = StoredStatement {
                time: test_statement("ABW", 1, 1).statement(1),
                position: 0,
                offset: 0,
                len: 0,
                raw_hash: [0; 32],
                verified: true,
                row: None,
            };
            for count in [0, 1, 1000, 1024, 1025, 50_000] {
                let mut sample = RecordSample::default();
                (0..count).for_each(|_| sample.add(b"key", &statement));
                let ordinals: Vec<_> = sample.records.iter().map(|record| record.ordinal).collect();
                let expected: Vec<_> = (0..count).step_by(sample.spacing as usize).collect();
                assert_eq!(ordinals, expected);
                assert!(ordinals.len() as u64 >= count.min(SAMPLE_MAX as u64 / 2), "{count}");
            }
        }

        #[test]
        fn base_is_the_run_that_shares_most() {
            let mut world = TestStore::new();
            let years =
                |people: u64, count: u32| (0..count).map(move |year| test_statement("ABW", year, people));
            let base = |world: &TestStore| {
                let state = world.view().state.clone();
                state.completed.last().expect("a run").stated.base
            };
            let mut ingest = |version: &str, second, statements: Vec<TestStatement>| {
                world.ingest(&test_run(version, second, false, statements));
                base(&world)
            };
            assert_eq!(ingest("1", 100, years(1, 100).collect()), None);
            // a patch shares too little with the file
            assert_eq!(ingest("2", 200, years(1, 10).collect()), None);
            // the next file shares more with the first one
            assert_eq!(ingest("3", 300, years(1, 99).collect()), Some(1));
            assert_eq!(ingest("4", 400, years(1, 99).collect()), Some(3));
            assert_eq!(ingest("5", 500, years(2, 99).collect()), None);
            // two thirds are other records
            assert_eq!(ingest("6", 600, years(2, 33).collect()), None);
        }

        #[test]
        fn base_of_a_daily_file_is_the_day_before_although_the_sample_has_few_new_records() {
            let mut world = TestStore::new();
            for release in 0..5_u32 {
                // the newest day is at the beginning of the file
                let days =
                    (0..4 * SAMPLE_MAX as u32 + release).rev().map(|day| test_statement("USD", day, 1));
                world.ingest(&test_run(
                    &format!("{release:03}"),
                    100 + i64::from(release),
                    true,
                    days.collect(),
                ));
            }
            let runs = world.view().state.completed.clone();
            let bases: Vec<_> = runs.iter().skip(1).map(|run| run.stated.base).collect();
            assert_eq!(bases, runs.iter().map(|run| Some(run.release.run)).take(4).collect::<Vec<_>>());
        }

        #[test]
        fn small_patch_has_no_base_unless_it_changes_others() {
            let mut world = TestStore::new();
            let mut ingest = |version: &str, second, is_snapshot, people: u64, count: u32| {
                let statements = (0..count).map(|year| test_statement("ABW", year, people)).collect();
                world.ingest(&test_run(version, second, is_snapshot, statements));
                let state = world.view().state.clone();
                state.completed.last().expect("a run").stated.base
            };
            assert_eq!(ingest("1", 100, false, 1, 320), None);
            assert_eq!(ingest("2", 200, false, 2, 19), None);
            assert_eq!(ingest("3", 300, false, 2, 19), None, "it repeats the patch before");
            assert_eq!(ingest("4", 400, false, 2, 20), Some(3));
            assert_eq!(ingest("5", 500, true, 2, 19), Some(3));
        }
    }
}
