//! The rows of the ground-truth layer, and its sources with open files.

use super::files::GroundFiles;
use super::open_files::OpenGroundFiles;
use super::verify::CheckMeter;
use super::view::SourceView;
use domain_base::digest::Sha256Hex;
use domain_base::document::Document;
use domain_base::row::Row;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::pipeline::{PipelineDefinition, PipelineState};
use domain_ground::run::{IngestionRun, RunState, SortedFileRef};
use domain_ground::source_state::SourceState;
use domain_ground::version_name::{VersionName, VersionRef, VersionedId};
use std::ops::Deref;
use std::sync::Arc;
use store_base::error::{SourceFileKind, StoreError};
use store_facts::file_end::FileOwner;
use store_log::rows::{self, with_prefix};
use store_log::{Journal, RowWrite, StoreOptions, TableReader};

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

impl Store {
    /// Opens the store in `options.dir`, or creates an empty one, and checks that no committed data is missing.
    ///
    /// # Errors
    /// All [`StoreError`]s except `Unavailable`: a damaged store does not open.
    pub fn open(options: StoreOptions) -> Result<(Journal, Self), StoreError> {
        let (journal, tables, ground) = Journal::open(options)?;
        Ok((journal, Self { tables, ground }))
    }

    /// Reads from now on as if `writes` that put documents or sources had been committed. Nothing is stored,
    /// and the open files of sources stay as they are.
    pub fn preview(&mut self, writes: &[RowWrite]) {
        self.tables.preview(writes);
    }

    /// Removes the cached view of a source, so that the next reader opens its replaced files.
    pub fn reopen(&self, oracle_id: &SourceId) {
        self.ground.forget_view(oracle_id);
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

    /// The ids of all sources in their order, also of those whose rows are damaged.
    pub fn source_ids(&self) -> Result<Vec<SourceId>, StoreError> {
        let names = self.names(rows::all(SourceState::TABLE.name), .., usize::MAX)?;
        Ok(names.iter().filter_map(|name| name.parse::<SourceId>().ok()).collect())
    }

    /// A version of an ontology.
    pub fn ontology(&self, reference: &OntologyRef) -> Result<Option<Ontology>, StoreError> {
        Ok(self.registered(&reference.to_string())?.map(|(registered, _)| registered.document))
    }

    /// The registered version that `name` names.
    pub fn find_version<D: Document, I: VersionedId + PartialEq>(
        &self,
        name: &VersionName<I>,
    ) -> Result<Option<VersionRef<I>>, StoreError> {
        let versions =
            self.registered_ids::<D>()?.into_iter().filter_map(|id| id.parse::<VersionRef<I>>().ok());
        Ok(versions.filter(|version| name.matches(version)).max_by_key(|version| version.version))
    }

    /// The registered document that `name` names.
    pub fn find_document<D: Document, I: VersionedId + PartialEq>(
        &self,
        name: &VersionName<I>,
    ) -> Result<Option<D>, StoreError> {
        let Some(version) = self.find_version::<D, I>(name)? else { return Ok(None) };
        Ok(self.registered(&version.to_string())?.map(|(registered, _)| registered.document))
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
        let before = match self.ground.view(oracle_id) {
            Ok(view) => return Ok(Some(view)),
            Err(removals) => removals,
        };
        let Some(view) = self.open_view(oracle_id)? else { return Ok(None) };
        let view = Arc::new(view);
        self.ground.keep_view(oracle_id, &view, before);
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
            let opened = match self.files().absence(&state) {
                Some(error) => Err(error),
                None => SourceView::new(state, revision, ontology, self.files()),
            };
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

    /// The sorted files in use that are missing or have another length or footer. Only their footers are read. If other hosts make
    /// files, too, a missing one is not a fault.
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
        if self.files().is_shared() {
            faults.retain(|fault| !matches!(fault, StoreError::SourceFile { path, .. } if !path.exists()));
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
}
