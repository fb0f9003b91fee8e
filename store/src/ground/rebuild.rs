//! A source's sorted files made anew, where one of them is damaged or gone.
//!
//! All that has made them is done once more, in the order in which it was done, in a folder apart: each run reads its
//! payload again, and what was pruned between two runs is pruned there again. Since a run depends on its input alone, that
//! comes to the same bytes, and so to the same names; where it does not, nothing is taken.

use super::files::Files;
use super::sealed::Owner;
use super::staging::Staged;
use super::state::{Completed, SourceState};
use super::view::SourceView;
use crate::base::error::{FileKind, StoreError};
use crate::ground::tables::Store;
use jiff::Timestamp;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::run::FileRef;
use std::sync::Arc;
use tempfile::TempDir;

/// One of the things that have made a source's files what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A run became visible.
    Run(Box<Completed>),
    /// What had ceased to hold before then was pruned.
    Prune(Timestamp),
}

/// Why files were not made anew. Those that there are stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// What was read again is not what was read then.
    #[error(
        "{what} comes to another file than the one that was committed: this oracled reads its payload otherwise than the \
         one that has ingested it. Restore the damaged files from a backup"
    )]
    Differs {
        /// What was done again.
        what: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A source's files on their way to be made anew. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Rebuilding {
    files: Files,
    apart: Files,
    _dir: TempDir,
    /// The source as it stands in the database.
    committed: SourceState,
    revision: u64,
    ontology: Ontology,
    /// The source as far as its steps were taken again.
    state: SourceState,
}

impl Store {
    /// What has made the files of the source `state`, in the order in which it happened.
    ///
    /// # Errors
    /// Where its runs or the log cannot be read.
    pub fn steps(&self, state: &SourceState) -> Result<Vec<Step>, StoreError> {
        let pruned = self.prunings(state.entry.oracle_id())?;
        let mut pruned = pruned.into_iter().peekable();
        let mut steps = Vec::new();
        for completed in &state.completed {
            let detail = || format!("run {} is missing", completed.run_id);
            let short = || StoreError::Short { dir: self.dir().to_owned(), detail: detail() };
            let (_, ended) = self.run(&completed.run_id)?.ok_or_else(short)?;
            while let Some((_, entry)) = pruned.next_if(|(seq, _)| *seq < ended) {
                steps.push(Step::Prune(entry.before));
            }
            steps.push(Step::Run(Box::new(completed.clone())));
        }
        steps.extend(pruned.map(|(_, entry)| Step::Prune(entry.before)));
        Ok(steps)
    }

    /// Begins to make the files of a source anew; nothing where there is no such source.
    ///
    /// # Errors
    /// Where the source cannot be read, or there is no room for a folder.
    pub fn rebuilding(&self, oracle_id: &SourceId) -> Result<Option<Rebuilding>, StoreError> {
        let Some((committed, revision)) = self.source(oracle_id)? else { return Ok(None) };
        let ontology = self.ontology_of(&committed)?;
        let (apart, dir) = self.files().apart()?;
        let state = SourceState { completed: Vec::new(), files: Vec::new(), ..committed.clone() };
        let files = self.files().clone();
        Ok(Some(Rebuilding { files, apart, _dir: dir, committed, revision, ontology, state }))
    }
}

impl Rebuilding {
    /// The source as it stands in the database.
    #[must_use]
    pub const fn committed(&self) -> &SourceState {
        &self.committed
    }

    /// The sorted files of the source that are not what was committed; all bytes of them are read.
    #[must_use]
    pub fn damaged(&self) -> Vec<FileRef> {
        let owner: Owner = self.committed.owner(FileKind::Facts);
        let is_damaged = |file: &&FileRef| {
            let read = self.files.verify_sorted(file, &owner, &mut |_| Ok(()));
            read.inspect_err(|error| tracing::warn!(%error, "a file is to be made anew")).is_err()
        };
        self.committed.sorted_files().filter(is_damaged).cloned().collect()
    }

    /// Where the files are made.
    #[must_use]
    pub const fn apart(&self) -> &Files {
        &self.apart
    }

    /// The source with what was made so far.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn view(&self) -> Result<Arc<SourceView>, StoreError> {
        let (state, ontology) = (self.state.clone(), self.ontology.clone());
        SourceView::new(state, self.revision, ontology, &self.apart).map(Arc::new)
    }

    /// Takes what the next run, `completed`, has come to.
    ///
    /// # Errors
    /// `Differs` where it once came to something else.
    pub fn add(&mut self, completed: &Completed, staged: Staged) -> Result<(), RebuildError> {
        let before = std::mem::take(&mut self.state.files);
        let (rows, files) = (staged.rows.clone(), staged.statements.clone());
        staged.named();
        if rows != completed.rows {
            return Err(RebuildError::Differs { what: format!("run {}", completed.run_id) });
        }
        self.state.completed.push(completed.clone());
        self.state.files = files;
        self.apart.remove(before.iter().filter(|file| !self.state.files.contains(file)));
        Ok(())
    }

    /// Prunes what was pruned then; says whether `proceed`, which is asked now and then, has let it.
    ///
    /// # Errors
    /// Where the files cannot be read or written.
    pub fn prune(&mut self, before: Timestamp, proceed: impl FnMut(u64) -> bool) -> Result<bool, StoreError> {
        let Some(pruned) = self.view()?.prune(before, proceed)? else { return Ok(false) };
        let files = pruned.named();
        self.apart.remove(self.state.files.iter().filter(|file| !files.contains(file)));
        self.state.files = files;
        Ok(true)
    }

    /// Puts what was made in the place of the files that are `damaged`: what there is then is what was committed.
    ///
    /// # Errors
    /// `Differs` where the whole has not come to that; nothing is taken then. Where a file cannot be moved some may have been.
    pub fn finish(self, damaged: &[FileRef]) -> Result<(), RebuildError> {
        if self.state.files != self.committed.files || self.state.completed != self.committed.completed {
            let what = format!("what source {} has ingested", self.committed.entry.oracle_id());
            return Err(RebuildError::Differs { what });
        }
        Ok(self.files.take(&self.apart, damaged)?)
    }
}

#[cfg(test)]
mod tests;
