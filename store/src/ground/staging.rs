//! Writes the records of a run to files: sorts them with limited memory, and compares them with the stored statements.
//!
//! The run is not visible before a commit names its files. Incomplete files are removed at the next start.

use super::files::{Files, Made};
use super::sorted::{Keys, RowSource, SortedFile, SortedWriter};
use super::sorter::Sorter;
use super::statement::StoredStatement;
use super::view::{INDEX, Record, SourceView};
use crate::base::error::StoreError;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::rejection::{Reject, Rejection};
use oracled_domain::ground::run::{AxisFill, FileRef, RunCounts, RunWarning};
use oracled_domain::ground::timeline::{Knowledge, Release, Scope, Statement, changes};
use std::collections::BTreeMap;

mod changed;
mod effect;
mod facts;
mod fresh;
mod tiers;

pub use changed::ChangeEntry;
use effect::EffectGauge;
pub(super) use facts::FactsWriter;
use fresh::{Fresh, Group};

/// The first byte of the key of a record's position in a run's own file. The rows are written in the order of these three
/// kinds: positions while records are read, changes while they are merged, rejects at the end.
pub(super) const PLACE: u8 = b'a';
/// The first byte of the key of a change.
pub(super) const CHANGE: u8 = b'c';
/// The first byte of the key of a reject.
pub(super) const REJECT: u8 = b'r';

/// The memory of a run in bytes: for its statements, and for each of its other sorts.
const SORT_BYTES: usize = 64 << 20;
const SMALL_SORT_BYTES: usize = 16 << 20;
/// The number of records between two calls of `proceed`.
const ASKED_EVERY: u64 = 4096;

/// A run whose files are being written.
#[derive(Debug)]
pub struct Staging {
    files: Files,
    name: String,
    run: u32,
    statements: Sorter,
    index: Sorter,
    rejects: Sorter,
    /// The run's own file.
    rows: SortedWriter,
    counts: RunCounts,
    /// A buffer for the bytes of a statement.
    bytes: Vec<u8>,
}

/// An accepted record.
#[derive(Debug)]
pub struct Accepted<'a> {
    /// The record key: the identity of the entity and the source's id of the record.
    pub key: &'a [u8],
    /// The statement.
    pub statement: &'a StoredStatement,
    /// For each indexed axis with a value: the position of the axis in the ontology, and the key bytes of the value.
    pub index: &'a [(u16, Vec<u8>)],
}

/// The key of a row in a run's own file.
pub(super) fn row_key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The files of a run that no commit names yet. If this is dropped before [`Staged::named`], it removes them.
#[derive(Debug)]
pub struct Staged {
    /// The counts of the run.
    pub counts: RunCounts,
    /// The file with its rejects, its changes, and the positions of its records.
    pub rows: FileRef,
    /// The files with the source's statements, the oldest first.
    pub statements: Vec<FileRef>,
    /// For an undo: the number of records that it would restore and whose content was pruned.
    pub pruned: u64,
    made: Made,
}

impl Staging {
    /// Begins the run with this id and number.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the files cannot be created.
    pub fn new(files: &Files, run_id: &Sha256Hex, run: u32) -> Result<Self, StoreError> {
        let (dir, name) = (files.work_dir(), run_id.as_str().to_owned());
        Ok(Self {
            rows: begin_rows(files, &name)?,
            files: files.clone(),
            name,
            run,
            statements: Sorter::new(&dir, SORT_BYTES),
            index: Sorter::new(&dir, SMALL_SORT_BYTES),
            rejects: Sorter::new(&dir, SMALL_SORT_BYTES),
            counts: RunCounts::default(),
            bytes: Vec::new(),
        })
    }

    /// Adds an accepted record. Records are added in the order of their positions.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the disk cannot be written; the caller must then drop the run.
    pub fn accept(&mut self, accepted: &Accepted<'_>) -> Result<(), StoreError> {
        let Accepted { key, statement, index } = accepted;
        self.counts.read += 1;
        self.push_statement(key, statement)?;
        self.rows.push(&row_key(PLACE, statement.position), key)?;
        for (axis, value) in *index {
            let entry = [&[INDEX], &axis.to_be_bytes()[..], value, key].concat();
            self.index.push(&entry, &[])?;
        }
        Ok(())
    }

    fn push_statement(&mut self, key: &[u8], statement: &StoredStatement) -> Result<(), StoreError> {
        statement.write_to(&mut self.bytes);
        self.statements.push(key, &self.bytes)
    }

    /// Stores a rejected record, under its `key` if that could be read. The source's former statement about it stays in
    /// force.
    ///
    /// # Errors
    /// The errors of [`Staging::accept`].
    pub fn reject(&mut self, reject: &Reject, key: Option<&[u8]>) -> Result<(), StoreError> {
        self.counts.read += 1;
        match key {
            Some(key) => self.push_statement(key, &self.rejected(reject.position))?,
            None => self.counts.unidentified += 1,
        }
        self.keep_reject(reject)
    }

    /// The statement that represents a rejected record at this position.
    const fn rejected(&self, position: u64) -> StoredStatement {
        StoredStatement {
            time: Statement { run: self.run, valid_from: None, valid_until: None, content: None },
            position,
            offset: 0,
            len: 0,
            raw_hash: [0; 32],
            verified: false,
            row: None,
        }
    }

    /// Counts a warning about an accepted record.
    pub fn warn(&mut self, warning: &Rejection) {
        *self.counts.warnings_by_rule.entry(warning.rule).or_default() += 1;
    }

    /// Stores the number of records that filled each axis, and the warnings of the run.
    pub fn describe(&mut self, axes: BTreeMap<String, AxisFill>, warnings: Vec<RunWarning>) {
        (self.counts.axes, self.counts.warnings) = (axes, warnings);
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> &RunCounts {
        &self.counts
    }

    fn keep_reject(&mut self, reject: &Reject) -> Result<(), StoreError> {
        self.counts.rejected += 1;
        *self.counts.rejected_by_rule.entry(reject.rejection.rule).or_default() += 1;
        let json = serde_json::to_vec(reject).expect("a reject is plain data");
        self.rejects.push(&row_key(REJECT, reject.position), &json)
    }

    /// Compares the run with the source's earlier statements, and writes its files. `proceed` is called from time to time
    /// with the number of records so far. If it returns false, the result is `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the disk cannot be written; no file is then left.
    pub fn finish(
        mut self,
        view: &SourceView,
        release: &Release,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<Option<Staged>, StoreError> {
        let release = Release { has_unidentified: self.counts.unidentified > 0, ..release.clone() };
        let release = &release;
        let releases: Vec<_> = view.state.releases().into_iter().chain([release.clone()]).collect();
        let after = Knowledge::new(&releases, Scope::default());
        let mut gauge = EffectGauge::new(view, &releases, release);
        let kept = tiers::kept(&view.state.files, self.counts.read);
        let others_change = changes_others(view, release);
        // in files that stay, only the run's own records are looked up, unless the run can change other records
        let looked_up = if others_change { 0 } else { kept };
        let mut older = view.records_once(0..looked_up);
        let mut old = view.records_once(looked_up..view.open.len()).begin()?;
        let work_dir = self.files.work_dir();
        let statements = std::mem::replace(&mut self.statements, Sorter::new(&work_dir, 0));
        let mut fresh = Fresh::new(statements, self.run, &work_dir)?;
        let mut facts = FactsWriter::create(&self.files, format!("{}.facts", self.name))?;
        let (mut record, mut looked_at, mut ordinal, mut pruned) = (Record::default(), 0_u64, 0_u64, 0_u64);
        while let Some(key) = [old.next_key()?, fresh.key()].into_iter().flatten().min() {
            looked_at += 1;
            if looked_at.is_multiple_of(ASKED_EVERY) && !proceed(looked_at) {
                return Ok(None);
            }
            record.clear();
            key.clone_into(&mut record.key);
            let said = match fresh.group(&record.key, view)? {
                Some(group) => {
                    older.seek(&record.key)?;
                    older.gather(&mut record)?;
                    Some(self.one_of(group, view)?)
                }
                None => None,
            };
            old.gather(&mut record)?;
            let is_said = said.is_some();
            if let Some(statement) = said {
                self.counts.records += u64::from(statement.time.content.is_some());
                record.statements.push(statement);
                record.places.push(usize::MAX);
            }
            for (statement, _) in record.statements.iter().zip(&record.places).filter(|(_, at)| **at >= kept)
            {
                facts.push(&record.key, statement)?;
            }
            if others_change {
                gauge.count(&record);
            }
            if release.undoes.is_some() && restores_pruned(&record, &view.known, &after) {
                pruned += 1;
            }
            if is_said || others_change {
                self.tell_changes(view, &record, &after, &mut ordinal)?;
            }
        }
        drop((old, older));
        self.counts.effect = others_change.then_some(gauge.effect);
        let mut made = Made::new(&self.files);
        let statements = if release.undoes.is_some() {
            // an undo has no statements of its own, and the stored ones stay
            view.state.files.clone()
        } else {
            let index = std::mem::replace(&mut self.index, Sorter::new(&work_dir, 0)).finish()?;
            let replaced = view.open.iter().skip(kept);
            let index = replaced.map(index_of).chain([Box::new(index) as Box<dyn RowSource>]);
            let facts = facts.finish(&self.files, Keys::new(index.collect()), &mut made)?;
            view.state.files.iter().take(kept).cloned().chain([facts]).collect()
        };
        let (counts, rows) = self.finish_rows(&mut made)?;
        Ok(Some(Staged { counts, rows, statements, pruned, made }))
    }

    /// The single statement for all records of one key: any of them if they are equal; otherwise all are rejected.
    fn one_of(&mut self, group: Group, view: &SourceView) -> Result<StoredStatement, StoreError> {
        if group.same {
            self.counts.collapsed += group.members.saturating_sub(1);
            return Ok(group.first);
        }
        let rejected = self.rejected(group.first.position);
        group.reject(view, |reject| self.keep_reject(&reject))?;
        Ok(rejected)
    }

    /// Stores and counts the changes of the run to a record.
    fn tell_changes(
        &mut self,
        view: &SourceView,
        record: &Record,
        after: &Knowledge,
        ordinal: &mut u64,
    ) -> Result<(), StoreError> {
        let times: Vec<Statement> = record.times().copied().collect();
        for change in changes(&times, &view.known, after) {
            let entry = ChangeEntry::of(&change, record);
            *self.counts.changes.entry(entry.kind.into_str().to_owned()).or_default() += 1;
            self.rows.push(&row_key(CHANGE, *ordinal), &entry.to_bytes())?;
            *ordinal += 1;
        }
        Ok(())
    }

    /// Completes the run's own file.
    fn finish_rows(mut self, made: &mut Made) -> Result<(RunCounts, FileRef), StoreError> {
        let mut rejects = self.rejects.finish()?;
        rejects.advance()?;
        while let Some((key, value)) = rejects.current() {
            self.rows.push(key, value)?;
            rejects.advance()?;
        }
        let rows = self.files.keep(&rows_name(&self.name), self.rows.finish()?, 0, made)?;
        Ok((self.counts, rows))
    }

    /// Stores only the rejects, for a failed run.
    ///
    /// # Errors
    /// The errors of [`Staging::accept`].
    pub fn rejects_only(self) -> Result<(RunCounts, FileRef), StoreError> {
        drop(self.rows);
        let rows = begin_rows(&self.files, &self.name)?;
        let mut made = Made::new(&self.files);
        let kept = Self { rows, ..self }.finish_rows(&mut made)?;
        made.named();
        Ok(kept)
    }
}

fn rows_name(name: &str) -> String {
    format!("{name}.rows")
}

/// Begins the own file of a run.
fn begin_rows(files: &Files, name: &str) -> Result<SortedWriter, StoreError> {
    files.writer(&rows_name(name))
}

/// The entries of a file's index.
pub(super) fn index_of(file: &SortedFile) -> Box<dyn RowSource> {
    Box::new(file.with_prefix(&[INDEX]))
}

impl Staged {
    /// Keeps only the rejects, for a run that changes nothing in the end. Its other files are removed.
    #[must_use]
    pub fn rejects_only(mut self) -> (RunCounts, FileRef) {
        self.made.kept(&self.rows);
        let counts = RunCounts { changes: BTreeMap::new(), ..std::mem::take(&mut self.counts) };
        (counts, self.rows.clone())
    }

    /// Keeps the rejects and the planned changes of a held run, and removes its other files.
    #[must_use]
    pub fn held(mut self) -> (RunCounts, FileRef) {
        self.made.kept(&self.rows);
        (std::mem::take(&mut self.counts), self.rows.clone())
    }

    /// Keeps the files, for the commit that names them.
    pub fn named(mut self) {
        self.made.named();
    }
}

/// Whether a record in force after the release has no content, and was not such a record before.
fn restores_pruned(record: &Record, before: &Knowledge, after: &Knowledge) -> bool {
    let times: Vec<Statement> = record.times().copied().collect();
    let is_pruned = |known: &Knowledge| {
        let last = known.versions(&times).pop();
        let said = last.and_then(|version| record.statements.get(version.statement));
        said.is_some_and(StoredStatement::is_pruned)
    };
    is_pruned(after) && !is_pruned(before)
}

/// Whether a release can change records that it does not contain. A snapshot withdraws them. An undo, or a new reading of
/// the same version, revokes earlier statements about them.
fn changes_others(view: &SourceView, release: &Release) -> bool {
    let known = view.state.completed.iter();
    release.snapshot
        || release.undoes.is_some()
        || known.map(|known| &known.release).any(|known| known.version == release.version)
}
