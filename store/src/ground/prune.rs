//! What a source has said and does not say any more, taken out of its files when somebody asks for that.

use super::files::Made;
use super::sorted::SortedWriter;
use super::statement::StoredStatement;
use super::view::{Record, STATEMENT, SourceView, key_of};
use crate::base::error::StoreError;
use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::run::FileRef;
use std::collections::BTreeSet;
use std::ops::Bound;

/// After so many records it is asked whether to go on.
const ASKED_EVERY: u64 = 4096;

/// A source's files without what was to go, which nothing names yet. Dropped before [`Pruned::named`] it removes them.
#[derive(Debug)]
pub struct Pruned {
    /// The files that hold the source's statements from now on, the oldest first.
    pub files: Vec<FileRef>,
    /// How many statements have lost what they say.
    pub statements: u64,
    /// By how many bytes the files are shorter.
    pub freed_bytes: u64,
    /// The payloads, by their digests, that no statement of this source with content has come from.
    pub unneeded: Vec<Sha256Hex>,
    made: Made,
}

impl Pruned {
    /// The files, for the commit that names them: from now on they stay.
    #[must_use]
    pub fn named(mut self) -> Vec<FileRef> {
        self.made.named();
        std::mem::take(&mut self.files)
    }
}

impl SourceView {
    /// Writes the source's files without the content of what had ended by `before`: of versions whose `valid_until` lies
    /// there or earlier, and of statements from before that never came to hold or were corrected. The statements themselves
    /// stay, with their times and digests; so does every statement of what holds later than `before`, or says the same as
    /// that. `proceed` is asked now and then, with the number of records so far, whether to go on; nothing is handed back
    /// where it says no.
    ///
    /// # Errors
    /// `Unavailable` or `Io` where the disk does not take it, and where a file cannot be read; nothing is then left.
    pub fn prune(
        &self,
        before: Timestamp,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<Option<Pruned>, StoreError> {
        let mut rewriting = self.rewriting()?;
        let mut needed_runs = BTreeSet::new();
        let mut looked_at = 0_u64;
        for record in self.records(&[], Bound::Unbounded)? {
            let record = record?;
            looked_at += 1;
            if looked_at.is_multiple_of(ASKED_EVERY) && !proceed(looked_at) {
                return Ok(None);
            }
            let kept = self.kept(&record, before);
            let statements = record.statements.into_iter().zip(record.places).zip(kept);
            for ((mut statement, place), is_kept) in statements {
                let Some(file) = rewriting.get_mut(place) else { continue };
                if !is_kept && statement.content.take().is_some() {
                    file.pruned += 1;
                }
                if statement.content.is_some() {
                    needed_runs.insert(statement.time.run);
                }
                file.out.push(&key_of(&record.key, statement.time.run), &statement.to_bytes())?;
            }
        }
        let mut pruned = self.keep(rewriting)?;
        let completed = || (1..).zip(&self.state.completed);
        let needed: BTreeSet<_> = completed()
            .filter(|(run, _)| needed_runs.contains(run))
            .map(|(_, completed)| completed.raw_sha256.as_str())
            .collect();
        let mut unneeded: Vec<_> = completed().map(|(_, completed)| completed.raw_sha256.clone()).collect();
        unneeded.retain(|sha256| !needed.contains(sha256.as_str()));
        unneeded.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        unneeded.dedup();
        pruned.unneeded = unneeded;
        Ok(Some(pruned))
    }

    /// Which of a record's statements keep what they say.
    fn kept(&self, record: &Record, before: Timestamp) -> Vec<bool> {
        let versions = self.known.versions(record.times());
        let is_kept = |said: &StoredStatement| {
            let mut same =
                versions.iter().filter(|version| Some(version.content) == said.time.content).peekable();
            if same.peek().is_some() {
                return same.any(|version| version.valid_until.is_none_or(|until| until > before));
            }
            let released_at = self.state.run(said.time.run).map(|run| run.release.released_at);
            said.time.valid_from.max(released_at).is_none_or(|begins| begins >= before)
        };
        record.statements.iter().map(is_kept).collect()
    }

    /// A writer for each file, which has what stands before the statements.
    fn rewriting(&self) -> Result<Vec<Rewriting>, StoreError> {
        let begun = self.open.iter().zip(&self.state.files).map(|(file, named)| {
            let name = format!("{}.pruned", named.sha256);
            let mut out = self.files.writer(&name)?;
            let head: &[u8] = &[STATEMENT];
            for row in file.range(..head) {
                let (key, value) = row?;
                out.push(&key, &value)?;
            }
            Ok(Rewriting { name, out, pruned: 0 })
        });
        begun.collect()
    }

    /// Gives the files that have changed their places; the others stay as they are.
    fn keep(&self, rewriting: Vec<Rewriting>) -> Result<Pruned, StoreError> {
        let made = Made::new(&self.files);
        let mut pruned =
            Pruned { files: Vec::new(), statements: 0, freed_bytes: 0, unneeded: Vec::new(), made };
        for ((old, file), Rewriting { name, mut out, pruned: count }) in
            self.state.files.iter().zip(&self.open).zip(rewriting)
        {
            if count == 0 {
                pruned.files.push(old.clone());
                continue;
            }
            let behind: &[u8] = &[STATEMENT + 1];
            for row in file.range(behind..) {
                let (key, value) = row?;
                out.push(&key, &value)?;
            }
            let new = self.files.keep(&name, out.finish()?, old.statements, &mut pruned.made)?;
            pruned.statements += count;
            pruned.freed_bytes += old.size_bytes.saturating_sub(new.size_bytes);
            pruned.files.push(new);
        }
        Ok(pruned)
    }
}

/// A file that is written again.
struct Rewriting {
    name: String,
    out: SortedWriter,
    pruned: u64,
}

#[cfg(test)]
mod tests;
