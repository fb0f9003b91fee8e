//! The open files of the ground-truth layer, and the changes that the journal reports to them.

use super::files::{
    DIR, FACTS_DIR, GroundFileKind, GroundFiles, RAW_DIR, facts_owner, list_files_in, name_files,
};
use super::offline::LoggedSources;
use super::view::SourceView;
use domain_base::row::Row;
use domain_ground::id::SourceId;
use domain_ground::run::IngestionRun;
use domain_ground::source_state::SourceState;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use store_base::cluster_marker::ClusterMarker;
use store_base::disk::{FreeSpace, link_if_exists};
use store_base::error::StoreError;
use store_log::{LogState, RowWrite, SegmentLog, StateFiles, StoreCounts, StoreOptions, TableReader};

/// The open files of the ground-truth layer.
#[derive(Debug)]
pub(super) struct OpenGroundFiles {
    pub(super) files: GroundFiles,
    views: RwLock<SourceViews>,
}

/// The sources that were opened so far, with their open files.
#[derive(Debug, Default)]
struct SourceViews {
    open: HashMap<SourceId, Arc<SourceView>>,
    /// The number of removals so far. A source that was read before a removal may be outdated, and is not cached.
    removals: u64,
}

impl OpenGroundFiles {
    /// The cached view of a source, or the number of removals so far, for [`Self::keep_view`].
    pub(super) fn view(&self, oracle_id: &SourceId) -> Result<Arc<SourceView>, u64> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.open.get(oracle_id).cloned().ok_or(views.removals)
    }

    /// Caches a view that was opened after `removals` removals, unless there was another one since.
    pub(super) fn keep_view(&self, oracle_id: &SourceId, view: &Arc<SourceView>, removals: u64) {
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        if views.removals == removals {
            views.open.insert(oracle_id.clone(), Arc::clone(view));
        }
    }

    /// Removes the cached view of a source.
    pub(super) fn forget_view(&self, oracle_id: &SourceId) {
        self.lock_removed().open.remove(oracle_id);
    }

    /// The views, to remove some of them.
    fn lock_removed(&self) -> RwLockWriteGuard<'_, SourceViews> {
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        views.removals += 1;
        views
    }
}

impl StateFiles for OpenGroundFiles {
    fn find_existing(dir: &Path) -> Result<Option<PathBuf>, StoreError> {
        GroundFiles::find_existing_file(dir)
    }

    fn open(options: &StoreOptions, free: &FreeSpace) -> Result<Self, StoreError> {
        let files = GroundFiles::open(&options.dir, options.facts_cache_bytes, free.clone())?;
        Ok(Self { files, views: RwLock::default() })
    }

    /// Removes the files of runs that a kill interrupted.
    ///
    /// A new or older store names none of them either, and their loss would be final. A file is removed only
    /// if the store knows the run that made it, or if a mark shows that no commit named it. Other payloads
    /// are kept and logged.
    ///
    /// # Errors
    /// `Short` if rows are missing, or if a run that the store does not know wrote a file. No file is removed then.
    fn remove_unnamed(&self, tables: &TableReader, expected: &StoreCounts) -> Result<(), StoreError> {
        let (sources, runs): (Vec<SourceState>, Vec<IngestionRun>) = (tables.all()?, tables.all()?);
        let short = |detail| StoreError::Short { dir: tables.dir().to_owned(), detail };
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
            sources.iter().flat_map(SourceState::sorted_files).any(|file| !self.files.has_sorted(file));
        // this host may lack entries of its cluster, which name these files
        let is_shared = matches!(ClusterMarker::read(tables.dir())?, Some(ClusterMarker::Member { .. }));
        let (mut unneeded, mut unfinished, mut unknown_payloads) = (Vec::new(), Vec::new(), 0_u64);
        for (path, kind) in self.files.list_unnamed_files(&named)? {
            let unknown = |by| short(format!("{} was written by {by}", path.display()));
            match (kind, &owner) {
                (GroundFileKind::Foreign | GroundFileKind::Chunks, _) => continue,
                (GroundFileKind::Sorted | GroundFileKind::Payload, None) if is_shared => continue,
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
                    Ok(_) if is_shared => continue,
                    Ok(run_id) => return Err(unknown(&format!("run {run_id}, which is not in the store"))),
                    Err(error) => {
                        tracing::warn!(%error, "kept a file that no run names");
                        continue;
                    }
                },
                (GroundFileKind::Payload, Some(_)) => {
                    let sha256 = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
                    if !self.files.is_marked(sha256) {
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
            tracing::warn!(payloads = unknown_payloads, folder = %self.files.raw_dir().display(),
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

    fn lock_views<'f>(&'f self, writes: &[&RowWrite]) -> Option<Box<dyn Debug + 'f>> {
        let mut changed = writes.iter().filter_map(|write| write.row.key::<SourceState>()).peekable();
        changed.peek()?;
        let mut views = self.lock_removed();
        for oracle_id in changed {
            views.open.remove(&oracle_id);
        }
        Some(Box::new(views))
    }

    fn forget_views(&self) {
        self.lock_removed().open.clear();
    }

    /// The archived payloads of committed runs are named now.
    fn note_committed(&self, writes: &[&RowWrite]) {
        for run in writes.iter().filter_map(|write| write.read::<IngestionRun>()) {
            self.files.unmark(&run.input.raw_sha256);
        }
    }

    fn work_dir(&self) -> PathBuf {
        self.files.work_dir()
    }

    /// Links the sorted files and the payloads that rows name, and the chunks of removed payloads. Files that no commit names yet
    /// are not linked, since a start rejects them. Pruned payloads do not exist.
    fn link_to(&self, tables: &TableReader, dir: &Path) -> Result<(), StoreError> {
        let sources: Vec<SourceState> = tables.all()?;
        // a backup has all files, so that another host can begin with it
        let absent = sources.iter().find_map(|state| self.files.absence(state));
        if let Some(absent) = absent {
            return Err(absent);
        }
        let named = name_files(&sources, &tables.all()?);
        for (from, folder, extension) in
            [(self.files.facts_dir.clone(), FACTS_DIR, "sorted"), (self.files.raw_dir(), RAW_DIR, "raw")]
        {
            let to = dir.join(DIR).join(folder);
            fs::create_dir_all(&to).map_err(|source| StoreError::Io { path: to.clone(), source })?;
            for name in named.iter().map(|digest| format!("{digest}.{extension}")) {
                link_if_exists(&from.join(&name), &to.join(&name))?;
            }
        }
        // last: a removal writes the chunks that other payloads need before it removes the payload
        for (path, kind) in list_files_in(&self.files.raw_dir())? {
            if let (GroundFileKind::Chunks, Some(name)) = (kind, path.file_name()) {
                link_if_exists(&path, &dir.join(DIR).join(RAW_DIR).join(name))?;
            }
        }
        Ok(())
    }

    fn verify_copy(
        &self,
        log: &SegmentLog,
        check_end: &dyn Fn(&LogState) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (state, sources) = LoggedSources::read(log, None, |_| true, |_| {})?;
        check_end(&state)?;
        sources.verify_files(log.dir()).map(drop)
    }
}
