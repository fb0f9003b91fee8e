//! A run on its way into files: records in any order, sorted within a bound of memory, held against what there is.
//!
//! Nothing of it is visible before a commit names its files, and what is not finished is removed at the next start.

use super::files::{Files, Made};
use super::filter::{FILTER, Filter};
use super::sealed::Owner;
use super::sorted::{Merge, SortedFile, SortedWriter};
use super::sorter::Sorter;
use super::statement::StoredStatement;
use super::view::{INDEX, Record, SourceView, identity_in, key_of};
use crate::base::error::StoreError;
use crate::ground::view::records::Records;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::rejection::{Reject, Rejection};
use oracled_domain::ground::run::{AxisFill, FileRef, RunCounts, RunWarning};
use oracled_domain::ground::timeline::{Knowledge, Release, Scope, Statement, changes};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::path::Path;

mod changed;
mod effect;
mod fresh;
mod tiers;

pub use changed::ChangeEntry;
use effect::EffectGauge;
use fresh::{Fresh, Group};

/// The key of the first row of a file, which holds the id of the run that has made it, and which file it is: no two files
/// are the same, so that one can be removed without looking for others that name it.
const MADE_BY: &[u8] = b"!";
/// What begins the key of a reject in a run's own file.
pub(super) const REJECT: u8 = b'r';
/// What begins the key of a change.
pub(super) const CHANGE: u8 = b'c';
/// What begins the key of a record's place.
pub(super) const PLACE: u8 = b'p';

/// A run's memory, in bytes: for its statements, and once more for the rest.
const SORT_BYTES: usize = 64 << 20;
const SMALL_SORT_BYTES: usize = 16 << 20;
/// So many statements are walked in the time of one lookup.
const WALKED_IN_A_LOOKUP: u64 = 10;
/// After so many records it is asked whether to go on.
const ASKED_EVERY: u64 = 4096;

/// A run on its way into files.
#[derive(Debug)]
pub struct Staging {
    files: Files,
    name: String,
    run: u32,
    statements: Sorter,
    index: Sorter,
    rows: Sorter,
    counts: RunCounts,
}

/// A record that was taken.
#[derive(Debug)]
pub struct Accepted<'a> {
    /// What it speaks of, and what the source knows it by.
    pub key: &'a [u8],
    /// What it says.
    pub statement: &'a StoredStatement,
    /// The places of the axes that records are looked up by, each with the key bytes of the value.
    pub index: &'a [(u16, Vec<u8>)],
}

/// The id of the run that made the sorted file at `path`.
///
/// # Errors
/// As [`SortedFile::open`], and where the file does not name its run.
pub(super) fn made_by(path: &Path, owner: &Owner) -> Result<String, StoreError> {
    let name = SortedFile::open(path, owner)?.get(MADE_BY)?.and_then(|name| String::from_utf8(name).ok());
    let run_id = name.as_deref().and_then(|name| name.split('.').next());
    run_id.map(str::to_owned).ok_or_else(|| owner.ill(path, "does not name its run".into()))
}

/// The key of a row in a run's own file.
pub(super) fn row_key(kind: u8, number: u64) -> Vec<u8> {
    [&[kind], &number.to_be_bytes()[..]].concat()
}

/// A run in files that nothing names yet. Dropped before [`Staged::named`] it removes them.
#[derive(Debug)]
pub struct Staged {
    /// What came of it.
    pub counts: RunCounts,
    /// The file that holds its rejects, its changes, and where its records are.
    pub rows: FileRef,
    /// The files that hold the source's statements, the oldest first.
    pub statements: Vec<FileRef>,
    /// Of an undo: the records that it would bring back and whose content was pruned.
    pub pruned: u64,
    made: Made,
}

impl Staging {
    /// Begins the run of this id and number.
    #[must_use]
    pub fn new(files: &Files, run_id: &Sha256Hex, run: u32) -> Self {
        let dir = files.work_dir();
        Self {
            files: files.clone(),
            name: run_id.as_str().to_owned(),
            run,
            statements: Sorter::new(&dir, SORT_BYTES),
            index: Sorter::new(&dir, SMALL_SORT_BYTES),
            rows: Sorter::new(&dir, SMALL_SORT_BYTES),
            counts: RunCounts::default(),
        }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// `Unavailable` or `Io` where the disk does not take it: the run is then to be given up.
    pub fn accept(&mut self, accepted: &Accepted<'_>) -> Result<(), StoreError> {
        let Accepted { key, statement, index } = accepted;
        self.counts.read += 1;
        self.statements.push(key, &statement.to_bytes())?;
        for (axis, value) in *index {
            let entry = [&[INDEX], &axis.to_be_bytes()[..], value, key].concat();
            self.index.push(&entry, &[])?;
        }
        Ok(())
    }

    /// Stores a rejected record, under its `key` if that could be read. The source's former statement about it stays in
    /// force.
    ///
    /// # Errors
    /// As [`Staging::accept`].
    pub fn reject(&mut self, reject: &Reject, key: Option<&[u8]>) -> Result<(), StoreError> {
        self.counts.read += 1;
        match key {
            Some(key) => self.statements.push(key, &self.rejected(reject.position).to_bytes())?,
            None => self.counts.unidentified += 1,
        }
        self.keep_reject(reject)
    }

    /// The statement that this run has a record, rejected at this position.
    const fn rejected(&self, position: u64) -> StoredStatement {
        StoredStatement {
            time: Statement { run: self.run, valid_from: None, valid_until: None, content: None },
            position,
            offset: 0,
            len: 0,
            raw_hash: [0; 32],
            verified: false,
            content: None,
        }
    }

    /// Notes what was noted of a record that is taken.
    pub fn warn(&mut self, warning: &Rejection) {
        *self.counts.warnings_by_rule.entry(warning.rule).or_default() += 1;
    }

    /// Stores the number of records that filled each axis, and the warnings of the run.
    pub fn describe(&mut self, axes: BTreeMap<String, AxisFill>, warnings: Vec<RunWarning>) {
        (self.counts.axes, self.counts.warnings) = (axes, warnings);
    }

    /// What has come of it so far.
    #[must_use]
    pub const fn counts(&self) -> &RunCounts {
        &self.counts
    }

    fn keep_reject(&mut self, reject: &Reject) -> Result<(), StoreError> {
        self.counts.rejected += 1;
        *self.counts.rejected_by_rule.entry(reject.rejection.rule).or_default() += 1;
        let json = serde_json::to_vec(reject).expect("a reject is plain data");
        self.rows.push(&row_key(REJECT, reject.position), &json)
    }

    /// Holds the run against what the source has said before, and writes its files. `proceed` is asked now and then, with
    /// the number of records that were looked at, whether to go on.
    ///
    /// # Errors
    /// `Unavailable` or `Io` where the disk does not take it; nothing is then left. Nothing is handed back where `proceed`
    /// says no.
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
        // what the run cannot change is left alone, where its own records are few enough to be looked up one by one
        let walked = if others_change || self.is_walk_shorter(view, kept) { 0 } else { kept };
        let work_dir = self.files.work_dir();
        let statements = std::mem::replace(&mut self.statements, Sorter::new(&work_dir, 0));
        let mut fresh = Fresh::new(statements.finish()?, self.run, &work_dir);
        let mut old = view.records_in(walked..view.open.len(), None, &[], Bound::Unbounded)?.peekable();
        let facts_name = format!("{}.facts", self.name);
        let mut facts = self.writer(&facts_name)?;
        let merged = view.state.files.iter().skip(kept).map(|file| file.statements).sum::<u64>();
        let mut filter = Filter::new(merged + self.counts.read);
        let (mut written, mut looked_at, mut ordinal, mut pruned) = (0, 0_u64, 0_u64, 0_u64);
        while let Some(key) = next_key(&mut old, &mut fresh)? {
            looked_at += 1;
            if looked_at.is_multiple_of(ASKED_EVERY) && !proceed(looked_at) {
                return Ok(None);
            }
            let record = old.next_if(|record| record.as_ref().is_ok_and(|record| record.key == key));
            let mut record = record.transpose()?.unwrap_or_else(|| Record::none(key));
            let said = match fresh.group(&record.key, view)? {
                Some(group) => Some(self.one_of(group, view)?),
                None => None,
            };
            let is_said = said.is_some();
            if let Some(statement) = said {
                if walked > 0 {
                    record = view.before(walked, record)?;
                }
                self.add(&mut record, statement)?;
            }
            if record.places.iter().any(|place| *place >= kept) {
                filter.add(identity_in(&record.key));
            }
            for (statement, place) in record.statements.iter().zip(&record.places) {
                if *place >= kept {
                    facts.push(&key_of(&record.key, statement.time.run), &statement.to_bytes())?;
                    written += 1;
                }
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
        drop(old);
        self.counts.effect = others_change.then_some(gauge.effect);
        let mut made = Made::new(&self.files);
        let statements = if release.undoes.is_some() {
            // an undo has no statements of its own, and the stored ones stay
            view.state.files.clone()
        } else {
            self.write_index(&mut facts, view.open.get(kept..).unwrap_or_default())?;
            facts.push(FILTER, filter.bytes())?;
            let facts = self.files.keep(&facts_name, facts.finish()?, written, &mut made)?;
            view.state.files.iter().take(kept).cloned().chain([facts]).collect()
        };
        let rows = self.write_rows(&mut made)?;
        Ok(Some(Staged { counts: self.counts, rows, statements, pruned, made }))
    }

    /// Adds the run's own statement to the stored statements of its record.
    fn add(&mut self, record: &mut Record, statement: StoredStatement) -> Result<(), StoreError> {
        if statement.time.content.is_some() {
            self.counts.records += 1;
            self.rows.push(&row_key(PLACE, statement.position), &record.key)?;
        }
        record.statements.push(statement);
        record.places.push(usize::MAX);
        Ok(())
    }

    /// Whether going through the oldest `kept` files takes less than looking up each record of the run in them.
    fn is_walk_shorter(&self, view: &SourceView, kept: usize) -> bool {
        let statements: u64 = view.state.files.iter().take(kept).map(|file| file.statements).sum();
        self.counts.read.saturating_mul(WALKED_IN_A_LOOKUP) > statements
    }

    /// Begins a file.
    fn writer(&self, name: &str) -> Result<SortedWriter, StoreError> {
        let mut writer = self.files.writer(name)?;
        writer.push(MADE_BY, name.as_bytes())?;
        Ok(writer)
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

    /// Keeps what the run changes of a record.
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

    /// Writes the index of a file that takes the place of `replaced`, behind its statements.
    fn write_index(&mut self, facts: &mut SortedWriter, replaced: &[SortedFile]) -> Result<(), StoreError> {
        let index = std::mem::replace(&mut self.index, Sorter::new(&self.files.work_dir(), 0));
        let mut sources: Vec<Box<dyn Iterator<Item = _>>> = vec![Box::new(index.finish()?)];
        for file in replaced {
            sources.push(Box::new(file.with_prefix(&[INDEX])));
        }
        let mut last = Vec::new();
        for row in Merge::new(sources)? {
            let row = row?;
            if row.key != last {
                facts.push(&row.key, &[])?;
                last = row.key;
            }
        }
        Ok(())
    }

    /// Writes the run's own file.
    fn write_rows(&mut self, made: &mut Made) -> Result<FileRef, StoreError> {
        let name = format!("{}.rows", self.name);
        let mut out = self.writer(&name)?;
        let rows = std::mem::replace(&mut self.rows, Sorter::new(&self.files.work_dir(), 0));
        for row in rows.finish()? {
            let (key, value) = row?;
            out.push(&key, &value)?;
        }
        self.files.keep(&name, out.finish()?, 0, made)
    }

    /// Only the rejects, for a run that comes to nothing.
    ///
    /// # Errors
    /// As [`Staging::accept`].
    pub fn rejects_only(mut self) -> Result<(RunCounts, FileRef), StoreError> {
        let mut made = Made::new(&self.files);
        let rows = self.write_rows(&mut made)?;
        made.named();
        Ok((self.counts, rows))
    }
}

impl Staged {
    /// Only the rejects, for a run of which nothing was taken in the end: its other files are removed.
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

    /// Leaves its files to the commit that names them: from now on they stay.
    pub fn named(mut self) {
        self.made.named();
    }
}

/// The key of the next record, among those that there are and those of the run.
fn next_key(old: &mut Peekable<Records<'_>>, fresh: &mut Fresh<'_>) -> Result<Option<Vec<u8>>, StoreError> {
    if let Some(failed) = old.next_if(Result::is_err) {
        failed?;
    }
    let old = old.peek().and_then(|record| record.as_ref().ok()).map(|record| record.key.as_slice());
    Ok(match (old, fresh.key()?) {
        (Some(old), Some(new)) => Some(old.min(new).to_vec()),
        (old, new) => old.or(new).map(<[u8]>::to_vec),
    })
}

/// Whether a record that is in force afterwards has lost its content, other than before.
fn restores_pruned(record: &Record, before: &Knowledge, after: &Knowledge) -> bool {
    let times: Vec<Statement> = record.times().copied().collect();
    let is_pruned = |known: &Knowledge| {
        let last = known.versions(&times).pop();
        let said = last.and_then(|version| record.statements.get(version.statement));
        said.is_some_and(StoredStatement::is_pruned)
    };
    is_pruned(after) && !is_pruned(before)
}

/// Whether a release can change records that it does not hold: a snapshot withdraws them, and an undo, or a version that is
/// read again, takes back what was said of them before.
fn changes_others(view: &SourceView, release: &Release) -> bool {
    let known = view.state.completed.iter();
    release.snapshot
        || release.undoes.is_some()
        || known.map(|known| &known.release).any(|known| known.version == release.version)
}
