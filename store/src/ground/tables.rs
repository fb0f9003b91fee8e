//! The rows of the ground-truth layer, and its sources with open files.

use super::files::{GroundFileKind, GroundFiles};
use super::verify::CheckMeter;
use super::view::SourceView;
use crate::base::engine::TableReader;
use crate::base::row_write::RowWrite;
use crate::base::rows::{self, StoredValue, with_prefix};
use crate::base::watermark::StoreCounts;
use crate::ground::files::facts_owner;
use domain_base::digest::Sha256Hex;
use domain_base::row::Row;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::pipeline::{PipelineDefinition, PipelineState};
use domain_ground::run::{IngestionRun, RunState, SortedFileRef};
use domain_ground::source_state::SourceState;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;

/// A read handle for all stored data: the tables, and the files of the ground-truth layer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    tables: TableReader,
    ground: Arc<OpenGroundFiles>,
}

impl Deref for Store {
    type Target = TableReader;

    fn deref(&self) -> &TableReader {
        &self.tables
    }
}

/// The open files of the ground-truth layer.
#[derive(Debug)]
struct OpenGroundFiles {
    files: GroundFiles,
    views: RwLock<SourceViews>,
}

/// The sources that were opened so far, with their open files.
#[derive(Debug, Default)]
struct SourceViews {
    open: HashMap<SourceId, Arc<SourceView>>,
    /// The number of removals so far. A source that was read before a removal may be outdated, and is not cached.
    removals: u64,
}

impl Store {
    pub(crate) fn new(tables: TableReader, files: GroundFiles) -> Self {
        Self { tables, ground: Arc::new(OpenGroundFiles { files, views: RwLock::default() }) }
    }

    /// Reads these rows in place of the stored rows of the same names.
    pub(crate) fn add_preview(&mut self, rows: impl Iterator<Item = (Vec<u8>, StoredValue)>) {
        self.tables.add_preview(rows);
    }

    /// Removes the cached views of the sources that `writes` change. No view is opened while the lock exists: a reader that already
    /// sees the changed rows must not get a view of the earlier ones. `None` if no source is changed.
    pub(crate) fn lock_views<'w, W: Iterator<Item = &'w RowWrite>>(
        &self,
        writes: W,
    ) -> Option<impl Sized + use<'_, 'w, W>> {
        let mut changed = writes.filter_map(|write| write.row.key::<SourceState>()).peekable();
        changed.peek()?;
        let mut views = self.ground.views.write().unwrap_or_else(PoisonError::into_inner);
        views.removals += 1;
        for oracle_id in changed {
            views.open.remove(&oracle_id);
        }
        Some(views)
    }

    /// Notes committed writes: the archived payloads of runs are named now.
    pub(crate) fn note_committed<'w>(&self, writes: impl Iterator<Item = &'w RowWrite>) {
        for run in writes.filter_map(RowWrite::read::<IngestionRun>) {
            self.files().unmark(&run.input.raw_sha256);
        }
    }

    /// Removes the cached views of all sources.
    pub(crate) fn forget_all(&self) {
        let mut views = self.ground.views.write().unwrap_or_else(PoisonError::into_inner);
        views.removals += 1;
        views.open.clear();
    }

    /// Removes the cached view of a source, so that the next reader opens its replaced files.
    pub fn reopen(&self, oracle_id: &SourceId) {
        let mut views = self.ground.views.write().unwrap_or_else(PoisonError::into_inner);
        views.removals += 1;
        views.open.remove(oracle_id);
    }

    /// The files of the ground-truth layer.
    #[must_use]
    pub fn files(&self) -> &GroundFiles {
        &self.ground.files
    }

    /// A source, with its revision.
    pub fn source(&self, oracle_id: &SourceId) -> Result<Option<(SourceState, u64)>, StoreError> {
        self.get(oracle_id)
    }

    /// All sources, in the order of their ids.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        self.all()
    }

    /// A version of an ontology.
    pub fn ontology(&self, reference: &OntologyRef) -> Result<Option<Ontology>, StoreError> {
        Ok(self.registered(&reference.to_string())?.map(|(registered, _)| registered.document))
    }

    /// The state of a pipeline, with its revision.
    pub fn pipeline(&self, pipeline_id: &PipelineId) -> Result<Option<(PipelineState, u64)>, StoreError> {
        self.get(pipeline_id)
    }

    /// The states of all pipelines, in the order of their ids.
    pub fn pipelines(&self) -> Result<Vec<PipelineState>, StoreError> {
        self.all()
    }

    /// The definition with which a pipeline is registered.
    pub fn registered_definition(
        &self,
        pipeline_id: &PipelineId,
    ) -> Result<Option<PipelineDefinition>, StoreError> {
        Ok(self.registered(pipeline_id.as_str())?.map(|(registered, _)| registered.document))
    }

    /// The definition of runs, by its digest.
    pub fn definition(&self, sha256: &Sha256Hex) -> Result<Option<PipelineDefinition>, StoreError> {
        Ok(self.get(sha256)?.map(|(definition, _)| definition))
    }

    /// A run, with its revision.
    pub fn run(&self, run_id: &Sha256Hex) -> Result<Option<(IngestionRun, u64)>, StoreError> {
        self.get(run_id)
    }

    /// All runs, in the order of their ids.
    pub fn runs(&self) -> Result<Vec<IngestionRun>, StoreError> {
        self.all()
    }

    /// The ids of the runs that begin with these digits, at most two.
    pub fn runs_with_prefix(&self, digits: &str) -> Result<Vec<String>, StoreError> {
        self.names(with_prefix(IngestionRun::TABLE.name, digits), .., 2)
    }

    /// The completed runs whose rows were last written by entry `seq` or later, ordered by entry number. Each has the
    /// number of its entry.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn completed_since(&self, seq: u64) -> Result<Vec<(u64, IngestionRun)>, StoreError> {
        let mut runs = Vec::new();
        let keys = rows::all(IngestionRun::TABLE.name);
        for name in self.names(keys, seq..=self.last_seq(), usize::MAX)? {
            let run_id = name.parse::<Sha256Hex>().ok();
            let run = run_id.map(|run_id| self.run(&run_id)).transpose()?.flatten();
            runs.extend(
                run.filter(|(run, _)| run.state == RunState::Completed)
                    .map(|(run, revision)| (revision, run)),
            );
        }
        runs.sort_by_key(|(revision, _)| *revision);
        Ok(runs)
    }

    /// The current state of a source, with its files open.
    pub fn view(&self, oracle_id: &SourceId) -> Result<Option<Arc<SourceView>>, StoreError> {
        let ground = &self.ground;
        let before = {
            let views = ground.views.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(view) = views.open.get(oracle_id) {
                return Ok(Some(Arc::clone(view)));
            }
            views.removals
        };
        let Some(view) = self.open_view(oracle_id)? else { return Ok(None) };
        let view = Arc::new(view);
        let mut views = ground.views.write().unwrap_or_else(PoisonError::into_inner);
        if views.removals == before {
            views.open.insert(oracle_id.clone(), Arc::clone(&view));
        }
        Ok(Some(view))
    }

    /// Opens the current files of a source for a check. Dropping the view closes them.
    ///
    /// # Errors
    /// The errors of [`Store::view`].
    pub fn view_for_check(&self, oracle_id: &SourceId) -> Result<Option<Arc<SourceView>>, StoreError> {
        Ok(self.open_view(oracle_id)?.map(Arc::new))
    }

    /// Opens the files of a source. Tries again if they were replaced meanwhile.
    fn open_view(&self, oracle_id: &SourceId) -> Result<Option<SourceView>, StoreError> {
        let mut found = self.source(oracle_id)?;
        loop {
            let Some((state, revision)) = found else { return Ok(None) };
            let ontology = self.ontology_of(&state)?;
            let opened = SourceView::new(state, revision, ontology, self.files());
            let Err(error) = opened else { return opened.map(Some) };
            found = self.source(oracle_id)?.filter(|(_, now)| *now != revision);
            if found.is_none() {
                return Err(error);
            }
        }
    }

    pub(super) fn ontology_of(&self, state: &SourceState) -> Result<Ontology, StoreError> {
        let reference = &state.entry.registration.ontology;
        let found = self.ontology(reference)?;
        let oracle_id = state.entry.oracle_id();
        let detail = || format!("source {oracle_id} uses ontology {reference}, which is missing");
        found.ok_or_else(|| StoreError::Short { dir: self.dir().to_owned(), detail: detail() })
    }

    /// Removes the files that `before` names and the source no longer does. Call it after the commit that
    /// replaced them is durable. Readers that have one open can still read it.
    ///
    /// # Errors
    /// The source cannot be read; no file is removed then.
    pub fn remove_replaced(&self, before: &SourceState) -> Result<(), StoreError> {
        let Some((now, _)) = self.source(before.entry.oracle_id())? else { return Ok(()) };
        let replaced: Vec<_> = before.files.iter().filter(|file| !now.files.contains(file)).collect();
        self.files().remove(replaced);
        Ok(())
    }

    /// Removes the own file of a run, unless it is `kept`.
    pub fn remove_run_rows(&self, rows: Option<&SortedFileRef>, kept: Option<&SortedFileRef>) {
        self.files().remove(rows.filter(|rows| kept != Some(*rows)));
    }

    /// The sorted files in use that are missing or have another length or footer. Only their footers are read.
    ///
    /// # Errors
    /// The rows that name the files cannot be read.
    pub fn file_faults(&self) -> Result<Vec<StoreError>, StoreError> {
        let mut faults: Vec<_> =
            self.sources()?.iter().flat_map(|state| self.files().faults(state)).collect();
        for run in self.runs()?.iter().filter(|run| run.state != RunState::Completed) {
            let owner = FileOwner::new(&run.oracle_id, SourceFileKind::Rejects);
            faults.extend(run.rows.as_ref().and_then(|rows| self.files().fault(rows, &owner)));
        }
        Ok(faults)
    }

    /// Compares the files of rejects with their digests, for all runs of a source that did not complete, or
    /// for one of them. Returns the number of rows.
    ///
    /// # Errors
    /// `SourceFile` with the first file that does not match its digest; `Stopped` if `meter` stopped the check.
    pub fn verify_rejects(
        &self,
        oracle_id: &SourceId,
        run_id: Option<&Sha256Hex>,
        meter: &mut CheckMeter<'_>,
    ) -> Result<u64, StoreError> {
        let owner = FileOwner::new(oracle_id, SourceFileKind::Rejects);
        let is_affected = |run: &&IngestionRun| {
            run.oracle_id == *oracle_id
                && run.state != RunState::Completed
                && run_id.is_none_or(|run_id| run.run_id == *run_id)
        };
        let mut verified = 0;
        for run in self.runs()?.iter().filter(is_affected) {
            let Some(rows) = &run.rows else { continue };
            match self.files().verify_sorted(rows, &owner, &mut |_| meter.step(0)) {
                Ok(()) => verified += rows.rows,
                Err(error @ StoreError::SourceFile { .. }) => {
                    // the run was approved or discarded meanwhile, and has other files
                    let now = self.run(&run.run_id)?;
                    if now.is_some_and(|(now, _)| now.rows.as_ref() == Some(rows)) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(verified)
    }

    /// The digests of the files that rows name: of sources, and of runs with their payloads.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub(crate) fn named_files(&self) -> Result<HashSet<String>, StoreError> {
        Ok(name_files(&self.sources()?, &self.runs()?))
    }

    /// Removes the files of runs that a kill interrupted.
    ///
    /// A new or older store names none of them either, and their loss would be final. A file is removed only
    /// if the store knows the run that made it, or if a mark shows that no commit named it. Other payloads
    /// are kept and logged.
    ///
    /// # Errors
    /// `Short` if rows are missing, or if a run that the store does not know wrote a file. No file is removed then.
    pub(crate) fn remove_unnamed_files(&self, expected: &StoreCounts) -> Result<(), StoreError> {
        let (sources, runs) = (self.sources()?, self.runs()?);
        let short = |detail| StoreError::Short { dir: self.dir().to_owned(), detail };
        for (there, table) in
            [(sources.len(), SourceState::TABLE.name), (runs.len(), IngestionRun::TABLE.name)]
        {
            let expected = expected.of(table);
            if (there as u64) < expected {
                return Err(short(format!("expected {expected} rows in the table {table}, found {there}")));
            }
        }
        let owner = sources.first().map(facts_owner);
        let known: HashSet<_> = runs.iter().map(|run| run.run_id.as_str().to_owned()).collect();
        let named = name_files(&sources, &runs);
        // an older copy of the database names files that a prune or a merge has replaced since
        let is_older =
            sources.iter().flat_map(SourceState::sorted_files).any(|file| !self.files().has_sorted(file));
        let (mut unneeded, mut unfinished, mut unknown_payloads) = (Vec::new(), Vec::new(), 0_u64);
        for (path, kind) in self.files().list_unnamed_files(&named)? {
            let unknown = |by| short(format!("{} was written by {by}", path.display()));
            match (kind, &owner) {
                (GroundFileKind::Foreign | GroundFileKind::Chunks, _) => continue,
                (GroundFileKind::Sorted | GroundFileKind::Payload, None) => {
                    return Err(unknown("a store that has sources"));
                }
                (GroundFileKind::Sorted, Some(owner)) => match GroundFiles::read_creating_run(&path, owner) {
                    Ok(run_id) if known.contains(&run_id) && is_older => {
                        tracing::warn!(path = %path.display(),
                            "kept a file that no run names, because named files are missing; restore the newer copy of \
                             the whole state directory, or run `oraclectl source rebuild`");
                        continue;
                    }
                    Ok(run_id) if known.contains(&run_id) => {}
                    Ok(run_id) => return Err(unknown(&format!("run {run_id}, which is not in the store"))),
                    Err(error) => {
                        tracing::warn!(%error, "kept a file that no run names");
                        continue;
                    }
                },
                (GroundFileKind::Payload, Some(_)) => {
                    let sha256 = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
                    if !self.files().is_marked(sha256) {
                        unknown_payloads += 1;
                        continue;
                    }
                }
                (GroundFileKind::Unfinished, _) => {
                    unfinished.push(path);
                    continue;
                }
            }
            unneeded.push(path);
        }
        if unknown_payloads > 0 {
            tracing::warn!(payloads = unknown_payloads, folder = %self.files().raw_dir().display(),
                "kept archived payloads that no run names; restore the newer copy of the whole state directory, or move \
                 these payloads away");
        }
        // the mark is removed last: without it an interrupted removal would keep the payload
        for path in unneeded.into_iter().chain(unfinished) {
            tracing::info!(path = %path.display(), "removed an unneeded file");
            fs::remove_file(&path).map_err(|source| StoreError::Io { path, source })?;
        }
        Ok(())
    }
}

/// The digests of the files that the rows of these sources and runs name.
pub(super) fn name_files(sources: &[SourceState], runs: &[IngestionRun]) -> HashSet<String> {
    let name = |file: &SortedFileRef| file.sha256.as_str().to_owned();
    let mut named: HashSet<_> = sources.iter().flat_map(SourceState::sorted_files).map(name).collect();
    for run in runs {
        named.insert(run.input.raw_sha256.as_str().to_owned());
        named.extend(run.rows.as_ref().map(name));
    }
    named
}
