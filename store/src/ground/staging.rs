//! A run on its way into files: records in any order, sorted within a bound of memory, held against what there is.
//!
//! Nothing of it is visible before a commit names its files, and what is not finished is removed at the next start.

use super::files::Files;
use super::sorted::Merge;
use super::sorted::{SortedFile, SortedWriter};
use super::sorter::{Sorted, Sorter};
use super::statement::StoredStatement;
use super::view::{INDEX, Record, SourceView, key_of};
use crate::error::StoreError;
use domain::Sha256Hex;
use domain::ground::rejection::{Reject, Rejection, Rule};
use domain::ground::run::{FileRef, RunCounts};
use domain::ground::timeline::{Knowledge, Release, Statement, changes};
use std::iter::Peekable;
use std::ops::Bound;

mod changed;
mod tiers;

pub use changed::ChangeEntry;

/// What begins the key of a reject in a run's own file.
pub(super) const REJECT: u8 = b'r';
/// What begins the key of a change.
pub(super) const CHANGE: u8 = b'c';
/// What begins the key of a record's place.
pub(super) const PLACE: u8 = b'p';

/// A run's memory, in bytes: for its statements, and once more for the rest.
const SORT_BYTES: usize = 64 << 20;
const SMALL_SORT_BYTES: usize = 16 << 20;
/// The most records of one key in one run: they are in memory together.
const GROUP_MAX: usize = 100_000;
/// So many of them are named in a reason.
const NAMED_MAX: usize = 10;

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

/// The records of one key in one run.
#[derive(Default)]
struct Group {
    first: Option<StoredStatement>,
    members: Vec<Member>,
    /// Whether they all say the same.
    same: bool,
}

struct Member {
    position: u64,
    offset: u64,
    len: u32,
    raw_hash: [u8; 32],
}

/// The run's own statements, in the order of their keys.
struct Fresh {
    rows: Peekable<Sorted>,
    run: u32,
}

impl Fresh {
    /// The key of the next record.
    fn key(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        peeked(&mut self.rows, |(key, _)| key.clone())
    }

    /// All records of this key.
    fn group(&mut self, key: &[u8], view: &SourceView) -> Result<Group, StoreError> {
        let mut group = Group { same: true, ..Group::default() };
        while let Some(row) = self.rows.next_if(|row| row.as_ref().is_ok_and(|(next, _)| next == key)) {
            let (_, value) = row?;
            let statement = StoredStatement::read(self.run, &value);
            let statement = statement.ok_or_else(|| view.corrupt("a statement cannot be read".into()))?;
            let StoredStatement { position, offset, len, raw_hash, .. } = statement;
            if group.members.len() == GROUP_MAX {
                let (what, size_bytes) = ("a group of records with one key", group.members.len() as u64 + 1);
                return Err(StoreError::TooLarge { what, size_bytes, max_bytes: GROUP_MAX as u64 });
            }
            group.members.push(Member { position, offset, len, raw_hash });
            match &group.first {
                Some(first) => group.same &= first.time == statement.time,
                None => group.first = Some(statement),
            }
        }
        Ok(group)
    }
}

/// A part of the next item, which stays; an error is taken.
fn peeked<T, P>(
    items: &mut Peekable<impl Iterator<Item = Result<T, StoreError>>>,
    part: impl Fn(&T) -> P,
) -> Result<Option<P>, StoreError> {
    match items.peek() {
        Some(Ok(item)) => Ok(Some(part(item))),
        None => Ok(None),
        Some(Err(_)) => items.next().transpose().map(|_| None),
    }
}

/// The key of a row in a run's own file.
fn row_key(kind: u8, number: u64) -> Vec<u8> {
    [&[kind], &number.to_be_bytes()[..]].concat()
}

/// A run in files that nothing names yet. Dropped before [`Staged::named`] it removes them.
#[derive(Debug)]
pub struct Staged {
    files: Files,
    /// What came of it.
    pub counts: RunCounts,
    /// The file that holds its rejects, its changes, and where its records are.
    pub rows: FileRef,
    /// The files that hold the source's statements, the oldest first.
    pub statements: Vec<FileRef>,
    /// Those of them that are new.
    made: Vec<FileRef>,
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

    /// Keeps a record that is not taken.
    ///
    /// # Errors
    /// As [`Staging::accept`].
    pub fn reject(&mut self, reject: &Reject) -> Result<(), StoreError> {
        self.counts.read += 1;
        self.keep_reject(reject)
    }

    /// Notes what was noted of a record that is taken.
    pub fn warn(&mut self, warning: &Rejection) {
        *self.counts.warnings_by_rule.entry(warning.rule).or_default() += 1;
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
        let after = {
            let mut releases = view.state.releases();
            releases.push(release.clone());
            Knowledge::new(&releases, None)
        };
        let kept = tiers::kept(&view.state.files, self.counts.read);
        let statements = std::mem::replace(&mut self.statements, Sorter::new(&self.files.work_dir(), 0));
        let mut fresh = Fresh { rows: statements.finish()?.peekable(), run: self.run };
        let mut old = view.records(&[], Bound::Unbounded)?.peekable();
        let facts_name = format!("{}.facts", self.name);
        let mut facts = self.files.writer(&facts_name)?;
        let (mut written, mut looked_at, mut ordinal) = (0, 0_u64, 0_u64);
        loop {
            let key = match (peeked(&mut old, |record: &Record| record.key.clone())?, fresh.key()?) {
                (None, None) => break,
                (Some(old), Some(new)) => old.min(new),
                (old, new) => old.or(new).unwrap_or_default(),
            };
            looked_at += 1;
            if looked_at % 4096 == 0 && !proceed(looked_at) {
                return Ok(None);
            }
            let mut record = match old.next_if(|record| record.as_ref().is_ok_and(|record| record.key == key))
            {
                Some(record) => record?,
                None => Record { key: key.clone(), statements: Vec::new(), places: Vec::new() },
            };
            if let Some(statement) = self.one_of(fresh.group(&key, view)?)? {
                self.counts.records += 1;
                self.rows.push(&row_key(PLACE, statement.position), &key)?;
                record.statements.push(statement);
                record.places.push(usize::MAX);
            }
            for (statement, place) in record.statements.iter().zip(&record.places) {
                if *place >= kept {
                    facts.push(&key_of(&key, statement.time.run), &statement.to_bytes())?;
                    written += 1;
                }
            }
            self.tell_changes(view, &record, &after, &mut ordinal)?;
        }
        drop(old);
        self.write_index(&mut facts, view.files.get(kept..).unwrap_or_default())?;
        let facts = self.files.keep(&facts_name, facts.finish()?, written)?;
        let mut made = vec![facts.clone()];
        let rows = self.write_rows(&mut made)?;
        let mut statements = view.state.files.get(..kept).unwrap_or_default().to_vec();
        statements.push(facts);
        Ok(Some(Staged { files: self.files, counts: self.counts, rows, statements, made }))
    }

    /// The one statement that all of one key come to: themselves, where they say the same; else none, and all are rejected.
    fn one_of(&mut self, group: Group) -> Result<Option<StoredStatement>, StoreError> {
        let Group { first, members, same } = group;
        if same {
            self.counts.collapsed += members.len().saturating_sub(1) as u64;
            return Ok(first);
        }
        let named = members.iter().take(NAMED_MAX).map(|member| member.position.to_string());
        let named = named.collect::<Vec<_>>().join(", ");
        let reason = format!("{} records bear one key and do not all say the same: {named}", members.len());
        for Member { position, offset, len, raw_hash } in members {
            let (raw_hash, rejection) =
                (Sha256Hex::from_bytes(&raw_hash), Rejection::new(Rule::DuplicateKey, None, &reason));
            self.keep_reject(&Reject { position, offset, len, raw_hash, rejection })?;
        }
        Ok(None)
    }

    /// Keeps what the run changes of a record.
    fn tell_changes(
        &mut self,
        view: &SourceView,
        record: &Record,
        after: &Knowledge,
        ordinal: &mut u64,
    ) -> Result<(), StoreError> {
        let times: Vec<Statement> = record.statements.iter().map(|stored| stored.time).collect();
        for change in changes(&times, &view.known, after) {
            let entry = ChangeEntry::of(&change, record);
            *self.counts.changes.entry(entry.kind.as_str().to_owned()).or_default() += 1;
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
    fn write_rows(&mut self, made: &mut Vec<FileRef>) -> Result<FileRef, StoreError> {
        let name = format!("{}.rows", self.name);
        let mut out = self.files.writer(&name)?;
        let rows = std::mem::replace(&mut self.rows, Sorter::new(&self.files.work_dir(), 0));
        for row in rows.finish()? {
            let (key, value) = row?;
            out.push(&key, &value)?;
        }
        let rows = self.files.keep(&name, out.finish()?, 0)?;
        made.push(rows.clone());
        Ok(rows)
    }

    /// Only the rejects, for a run that comes to nothing.
    ///
    /// # Errors
    /// As [`Staging::accept`].
    pub fn rejects_only(mut self) -> Result<(RunCounts, FileRef), StoreError> {
        let rows = self.write_rows(&mut Vec::new())?;
        Ok((self.counts, rows))
    }
}

impl Staged {
    /// The files that are made, for the commit that names them: from now on they stay.
    #[must_use]
    pub fn named(mut self) -> (RunCounts, FileRef, Vec<FileRef>) {
        self.made.clear();
        (std::mem::take(&mut self.counts), self.rows.clone(), std::mem::take(&mut self.statements))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.files.remove(&self.made);
    }
}
