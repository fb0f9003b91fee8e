//! Writes the records of a run to files: sorts them with limited memory, and compares them with the stored statements.
//!
//! The run is not visible before a commit names its files. Incomplete files are removed at the next start.

use super::files::{GroundFiles, UncommittedFiles};
use super::run_keys::{CHANGE, REJECT, row_key};
use super::statement::StoredStatement;
use super::view::{INDEX, RecordStatements, SourceView};
use domain_base::digest::Sha256Hex;
use domain_base::varint::put_part;
use domain_ground::axis_effect::AxisEffects;
use domain_ground::rejection::{RecordRejection, RejectedRecord};
use domain_ground::run::{RunCounts, SortedFileRef};
use domain_ground::source_state::StatedRecords;
use domain_ground::timeline::{
    RecordStatement, RecordVersion, ReleaseScope, TimelineRun, VisibleReleases, changes,
};
use std::collections::BTreeMap;
use store_base::error::StoreError;
use store_facts::sorted::{RowSource, SortedFile, SortedWriter};
use store_facts::sorter::RowSorter;

mod changed;
mod delta;
mod effect;
mod facts;
mod run_statements;
mod sample;
mod tiers;

pub use changed::RunChangeEntry;
use delta::{DeltaWriter, put_index_value};
use effect::ReleaseEffectGauge;
pub(super) use facts::FactsWriter;
use run_statements::{RecordGroup, RunStatement, RunStatements};
use sample::RecordSample;

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
