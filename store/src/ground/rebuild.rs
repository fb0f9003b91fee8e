//! Rebuilds a source's sorted files if one of them is damaged or missing.
//!
//! All steps that created the files are repeated in their order in a separate folder. Each run reads its
//! payload again, and each pruning between two runs is done again. A run depends only on its input, so the
//! steps give the same bytes and the same names. If they do not, the result is discarded.

use super::files::GroundFiles;
use super::staging::StagedRun;
use super::view::SourceView;
use crate::ground::files::facts_owner;
use crate::ground::tables::Store;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::run::SortedFileRef;
use domain_ground::source_state::{CompletedRun, SourceState};
use jiff::Timestamp;
use std::sync::Arc;
use store_base::error::StoreError;
use store_facts::file_end::FileOwner;
use tempfile::TempDir;

/// One step in the history of a source's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildStep {
    /// A run became visible.
    Run(Box<CompletedRun>),
    /// Content that ceased to hold before this time was pruned.
    Prune(Timestamp),
}

/// The reason why files were not rebuilt. The existing files are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// A repeated step gave another result than the original one.
    #[error(
        "{what} gives another file than the one that was committed: this oracled reads the payload differently from the \
         one that ingested it. Restore the damaged files from a backup"
    )]
    Differs {
        /// The step that gave another result.
        what: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The rebuild of a source's files. Dropping it removes its temporary folder.
#[derive(Debug)]
pub struct SourceRebuild {
    files: GroundFiles,
    temporary: GroundFiles,
    _dir: TempDir,
    /// The source's state in the database.
    committed: SourceState,
    revision: u64,
    ontology: Ontology,
    /// The source's state after the steps that were repeated so far.
    state: SourceState,
}

impl Store {
    /// The steps that created the files of the source `state`, in their order.
    ///
    /// # Errors
    /// The runs or the log cannot be read.
    pub fn rebuild_steps(&self, state: &SourceState) -> Result<Vec<RebuildStep>, StoreError> {
        let pruned = self.prunings(state.entry.oracle_id())?;
        let mut pruned = pruned.into_iter().peekable();
        let mut steps = Vec::new();
        for completed in &state.completed {
            let detail = || format!("run {} is missing", completed.run_id);
            let short = || StoreError::Short { dir: self.dir().to_owned(), detail: detail() };
            let (_, ended) = self.run(&completed.run_id)?.ok_or_else(short)?;
            while let Some((_, entry)) = pruned.next_if(|(seq, _)| *seq < ended) {
                steps.push(RebuildStep::Prune(entry.before));
            }
            steps.push(RebuildStep::Run(Box::new(completed.clone())));
        }
        steps.extend(pruned.map(|(_, entry)| RebuildStep::Prune(entry.before)));
        Ok(steps)
    }

    /// Begins to rebuild the files of a source; `None` if the source does not exist.
    ///
    /// # Errors
    /// The source cannot be read, or the folder cannot be created.
    pub fn start_rebuild(&self, oracle_id: &SourceId) -> Result<Option<SourceRebuild>, StoreError> {
        let Some((committed, revision)) = self.source(oracle_id)? else { return Ok(None) };
        let ontology = self.ontology_of(&committed)?;
        let (apart, dir) = self.files().with_temporary_facts()?;
        let state = SourceState { completed: Vec::new(), files: Vec::new(), ..committed.clone() };
        let files = self.files().clone();
        Ok(Some(SourceRebuild { files, temporary: apart, _dir: dir, committed, revision, ontology, state }))
    }
}

impl SourceRebuild {
    /// The source's state in the database.
    #[must_use]
    pub const fn committed(&self) -> &SourceState {
        &self.committed
    }

    /// Reads all sorted files of the source completely. Returns those that are not as committed.
    #[must_use]
    pub fn damaged(&self) -> Vec<SortedFileRef> {
        let owner: FileOwner = facts_owner(&self.committed);
        let is_damaged = |file: &&SortedFileRef| {
            let read = self.files.verify_sorted(file, &owner, &mut |_| Ok(()));
            read.inspect_err(|error| tracing::warn!(%error, "rebuilding a file")).is_err()
        };
        self.committed.sorted_files().filter(is_damaged).cloned().collect()
    }

    /// The folders in which the new files are created.
    #[must_use]
    pub const fn temporary_files(&self) -> &GroundFiles {
        &self.temporary
    }

    /// The source with the steps that were repeated so far.
    ///
    /// # Errors
    /// The rebuilt files cannot be read.
    pub fn view(&self) -> Result<Arc<SourceView>, StoreError> {
        let (state, ontology) = (self.state.clone(), self.ontology.clone());
        SourceView::new(state, self.revision, ontology, &self.temporary).map(Arc::new)
    }

    /// Adds the result of the next run, `completed`.
    ///
    /// # Errors
    /// `Differs` if the run's file is not the committed one.
    pub fn add(&mut self, completed: &CompletedRun, staged: StagedRun) -> Result<(), RebuildError> {
        let before = std::mem::take(&mut self.state.files);
        let (rows, stated, files) = (staged.rows.clone(), staged.stated, staged.statements.clone());
        staged.keep_files();
        if (&rows, stated) != (&completed.rows, completed.stated) {
            return Err(RebuildError::Differs { what: format!("run {}", completed.run_id) });
        }
        self.state.completed.push(completed.clone());
        self.state.files = files;
        self.temporary.remove(before.iter().filter(|file| !self.state.files.contains(file)));
        Ok(())
    }

    /// Repeats a pruning. Returns false if `proceed` returned false.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn prune(&mut self, before: Timestamp, proceed: impl FnMut(u64) -> bool) -> Result<bool, StoreError> {
        let Some(pruned) = self.view()?.prune(before, proceed)? else { return Ok(false) };
        let files = pruned.into_kept_files();
        self.temporary.remove(self.state.files.iter().filter(|file| !files.contains(file)));
        self.state.files = files;
        Ok(true)
    }

    /// Replaces the files in `damaged` by the rebuilt ones, which are the committed files.
    ///
    /// # Errors
    /// `Differs` if the result is not the committed state; then no file is replaced. If a file cannot be
    /// moved, some may have been replaced.
    pub fn finish(self, damaged: &[SortedFileRef]) -> Result<(), RebuildError> {
        if self.state.files != self.committed.files || self.state.completed != self.committed.completed {
            let what = format!("the rebuild of source {}", self.committed.entry.oracle_id());
            return Err(RebuildError::Differs { what });
        }
        Ok(self.files.adopt_temporary_files(&self.temporary, damaged)?)
    }
}

#[cfg(test)]
mod tests;
