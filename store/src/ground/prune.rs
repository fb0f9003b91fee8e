//! Pruning: removes the content of records that are no longer in force from a source's files, on request.

use super::files::UncommittedFiles;
use super::staging::{FactsWriter, index_of};
use super::statement::StoredStatement;
use super::view::{RecordStatements, SourceView};
use domain_base::digest::Sha256Hex;
use domain_ground::run::SortedFileRef;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::ops::Bound;
use store_base::error::StoreError;
use store_base::ordered_rows::MergedKeys;

/// The number of records between two calls of `proceed`.
const PROCEED_INTERVAL_RECORDS: u64 = 4096;

/// A source's pruned files, which no commit names yet. If this is dropped before [`PrunedFiles::into_kept_files`], it
/// removes them.
#[derive(Debug)]
pub struct PrunedFiles {
    /// The files with the source's statements after the pruning, the oldest first.
    pub files: Vec<SortedFileRef>,
    /// Number of statements whose content was removed.
    pub statements: u64,
    /// The reduction of the total size, in bytes.
    pub freed_bytes: u64,
    /// The digests of the payloads from which no statement with content remains.
    pub unneeded: Vec<Sha256Hex>,
    new_files: UncommittedFiles,
}

impl PrunedFiles {
    /// Keeps the files and returns them, for the commit that names them.
    #[must_use]
    pub fn into_kept_files(mut self) -> Vec<SortedFileRef> {
        self.new_files.keep_all_files();
        std::mem::take(&mut self.files)
    }
}

impl SourceView {
    /// Writes the source's statements to one file, without the content that ceased to hold by `before`. That
    /// is the content of versions whose `valid_until` is at or before `before`, and of earlier statements
    /// that never came into force or were corrected. The statements themselves stay, with their times and
    /// digests. A statement keeps its content if it is in force after `before`, or has the same content as
    /// one that is. `proceed` is called from time to time with the number of records so far. If it returns
    /// false, the result is `None`.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the disk cannot be written, and an error if a file cannot be read. No new file is left
    /// then.
    pub fn prune(
        &self,
        before: Timestamp,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<Option<PrunedFiles>, StoreError> {
        let last = self.state.completed.last().map_or("", |last| last.run_id.as_str());
        let mut facts = FactsWriter::create(&self.files, format!("{last}.pruned"))?;
        let (mut needed_runs, mut statements, mut checked_records) = (BTreeSet::new(), 0, 0_u64);
        let mut records = self.records(&[], Bound::Unbounded)?;
        while records.advance()? {
            let runs_with_rows: Vec<u32> = records.rows().iter().map(|row| row.run).collect();
            let mut record = records.decode()?.clone();
            checked_records += 1;
            if checked_records.is_multiple_of(PROCEED_INTERVAL_RECORDS) && !proceed(checked_records) {
                return Ok(None);
            }
            let keeps_content = self.statements_keeping_content(&record, before);
            for (statement, is_kept) in record.statements.iter_mut().zip(keeps_content) {
                if !is_kept && statement.row.take().is_some() {
                    statements += 1;
                }
                if statement.row.is_some() {
                    needed_runs.insert(statement.time.run);
                }
            }
            self.write_rows(&record, &runs_with_rows, &mut facts)?;
        }
        let mut new_files = UncommittedFiles::new(&self.files);
        let old = &self.state.files;
        let files = if statements == 0 {
            old.clone()
        } else {
            let index = MergedKeys::new(self.open.iter().map(index_of).collect());
            vec![facts.finish(&self.files, index, &mut new_files)?]
        };
        let size_bytes = |files: &[SortedFileRef]| files.iter().map(|file| file.size_bytes).sum::<u64>();
        let freed_bytes = size_bytes(old).saturating_sub(size_bytes(&files));
        let completed = || (1..).zip(&self.state.completed);
        let needed: BTreeSet<_> = completed()
            .filter(|(run, _)| needed_runs.contains(run))
            .map(|(_, completed)| completed.raw_sha256.as_str())
            .collect();
        let mut unneeded: Vec<_> = completed().map(|(_, completed)| completed.raw_sha256.clone()).collect();
        unneeded.retain(|sha256| !needed.contains(sha256.as_str()));
        unneeded.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        unneeded.dedup();
        Ok(Some(PrunedFiles { files, statements, freed_bytes, unneeded, new_files }))
    }

    /// Writes the rows of a pruned record: for the runs that had one, and for those that no longer state what their base
    /// does.
    fn write_rows(
        &self,
        record: &RecordStatements,
        runs_with_rows: &[u32],
        facts: &mut FactsWriter,
    ) -> Result<(), StoreError> {
        let states = record.statements.iter().map(|statement| statement.time.run);
        let runs: BTreeSet<u32> = states.chain(runs_with_rows.iter().copied()).collect();
        for run in runs {
            let Some(statement) = record.of_run(run) else {
                facts.push_absent(&record.key, run)?;
                continue;
            };
            let base = self.state.run(run).and_then(|run| record.of_run(run.stated.base?));
            let is_confirmed = base.is_some_and(|base| statement.confirms(base));
            if runs_with_rows.contains(&run) || !is_confirmed {
                facts.push(&record.key, statement, base)?;
            }
        }
        Ok(())
    }

    /// For each statement of a record, whether it keeps its content.
    fn statements_keeping_content(&self, record: &RecordStatements, before: Timestamp) -> Vec<bool> {
        let versions = self.known.versions(record.times());
        let is_kept = |statement: &StoredStatement| {
            let mut same =
                versions.iter().filter(|version| Some(version.content) == statement.time.content).peekable();
            if same.peek().is_some() {
                return same.any(|version| version.valid_until.is_none_or(|until| until > before));
            }
            let released_at = self.state.run(statement.time.run).map(|run| run.release.released_at);
            statement.time.valid_from.max(released_at).is_none_or(|begins| begins >= before)
        };
        record.statements.iter().map(is_kept).collect()
    }
}

#[cfg(test)]
mod tests;
