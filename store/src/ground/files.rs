//! The folders of the ground-truth layer, and the check of which of their files are still in use.

use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, SortedFileRef};
use domain_ground::source_state::SourceState;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store_base::disk::FreeSpace;
use store_base::error::{SourceFileKind, StoreError};
use store_base::files::sync_dir;
use store_facts::archive::{ArchiveWriter, ArchivedPayload, is_unfinished, mark_path, remove_payloads};
use store_facts::file_end::FileOwner;
use store_facts::sorted::{BlockCache, SortedFile, SortedFileSummary, SortedWriter};
use store_log::is_journal_file;
use tempfile::{NamedTempFile, TempDir};

/// The folder in the state directory.
pub(super) const DIR: &str = "ground";
/// Sorted files, by their digests.
pub(super) const FACTS_DIR: &str = "facts";
/// Raw payloads, by their digests.
pub(super) const RAW_DIR: &str = "raw";
/// Incomplete files; emptied at every start.
const WORK_DIR: &str = "work";
/// The key of the first row of a sorted file. Its value is the id of the run that created the file, and the
/// kind of the file. Therefore no two files have the same content, and a file can be removed without a search
/// for other references to it.
const CREATED_BY_KEY: &[u8] = b"!";

/// The files of the ground-truth layer.
#[derive(Debug, Clone)]
pub struct GroundFiles {
    dir: PathBuf,
    /// The folder of the sorted files.
    pub(super) facts_dir: PathBuf,
    /// Cached blocks of sorted files.
    pub(super) blocks: BlockCache,
    free: FreeSpace,
    /// Whether other hosts make files, too.
    is_shared: Arc<AtomicBool>,
}

/// The owner of the facts of a source.
pub(super) fn facts_owner(state: &SourceState) -> FileOwner {
    FileOwner::new(state.entry.oracle_id(), SourceFileKind::Facts)
}

/// New sorted files that no commit names yet. Dropping this removes them.
#[derive(Debug)]
pub(super) struct UncommittedFiles {
    files: GroundFiles,
    refs: Vec<SortedFileRef>,
}

impl UncommittedFiles {
    pub(super) fn new(files: &GroundFiles) -> Self {
        Self { files: files.clone(), refs: Vec::new() }
    }

    /// Keeps one of the files, for the commit that names it.
    pub(super) fn keep_file(&mut self, file: &SortedFileRef) {
        self.refs.retain(|new_file| new_file != file);
    }

    /// Removes one of the files.
    pub(super) fn remove_file(&mut self, file: &SortedFileRef) {
        self.keep_file(file);
        self.files.remove([file]);
    }

    /// Keeps all files, for the commit that names them.
    pub(super) fn keep_all_files(&mut self) {
        self.refs.clear();
    }
}

impl Drop for UncommittedFiles {
    fn drop(&mut self) {
        // another host may have committed equal files; the others are removed later
        if !self.files.is_shared() {
            self.files.remove(&self.refs);
        }
    }
}

impl GroundFiles {
    /// Opens the folders in the state directory `state_dir`, and removes incomplete files of an earlier
    /// process. Caches up to `cache_bytes` of sorted files.
    ///
    /// # Errors
    /// `Io` if the folders cannot be created or emptied.
    pub(crate) fn open(state_dir: &Path, cache_bytes: u64, free: FreeSpace) -> Result<Self, StoreError> {
        let dir = state_dir.join(DIR);
        let (facts_dir, blocks, is_shared) =
            (dir.join(FACTS_DIR), BlockCache::new(cache_bytes), Arc::default());
        let files = Self { facts_dir, dir, blocks, free, is_shared };
        let work = files.work_dir();
        // emptied, not recreated: a full disk may have no space for a new folder
        if let Ok(entries) = fs::read_dir(&work) {
            for path in entries.flatten().map(|entry| entry.path()) {
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|source| StoreError::Io { path, source })?;
            }
        }
        for path in [files.facts_dir.clone(), files.raw_dir(), files.work_dir()] {
            fs::create_dir_all(&path).map_err(|source| StoreError::Io { path, source })?;
        }
        sync_dir(&files.dir)?;
        sync_dir(state_dir)?;
        Ok(files)
    }

    /// The folders in `state_dir`, for reading without a cache. No folder is created.
    pub(super) fn read_only(state_dir: &Path) -> Self {
        let dir = state_dir.join(DIR);
        let free = FreeSpace::new(state_dir, 0);
        let (facts_dir, blocks, is_shared) = (dir.join(FACTS_DIR), BlockCache::new(0), Arc::default());
        Self { facts_dir, dir, blocks, free, is_shared }
    }

    /// The folder of incomplete files.
    #[must_use]
    pub fn work_dir(&self) -> PathBuf {
        self.dir.join(WORK_DIR)
    }

    pub(super) fn facts_path(&self, sha256: &Sha256Hex) -> PathBuf {
        self.facts_dir.join(format!("{sha256}.sorted"))
    }

    /// The same folders, with a temporary folder for sorted files. It is removed when the returned `TempDir`
    /// is dropped.
    pub(super) fn with_temporary_facts(&self) -> Result<(Self, TempDir), StoreError> {
        let work_dir = self.work_dir();
        let dir = TempDir::with_prefix_in("rebuilt-", &work_dir)
            .map_err(|source| StoreError::write_error(&work_dir, source))?;
        Ok((Self { facts_dir: dir.path().to_owned(), ..self.clone() }, dir))
    }

    /// Begins a payload of the source `oracle_id` in the archive. The chunks of its `earlier` payloads are not stored
    /// again.
    ///
    /// # Errors
    /// `Unavailable` if too little space is free, `Io` if the file cannot be created.
    pub(super) fn archive_writer(
        &self,
        oracle_id: &SourceId,
        earlier: &[Sha256Hex],
    ) -> Result<ArchiveWriter, StoreError> {
        self.free.check()?;
        let owner = FileOwner::new(oracle_id, SourceFileKind::Payload);
        let writer = ArchiveWriter::create(&self.raw_dir(), owner)?.with_free_space(self.free.clone());
        Ok(earlier.iter().fold(writer, ArchiveWriter::after))
    }

    /// Opens an archived payload that a run of the source `oracle_id` reads or has read.
    ///
    /// # Errors
    /// `SourceFile` if the payload is damaged or missing.
    pub fn archive(&self, oracle_id: &SourceId, sha256: &Sha256Hex) -> Result<ArchivedPayload, StoreError> {
        ArchivedPayload::open(&self.raw_dir(), sha256, &FileOwner::new(oracle_id, SourceFileKind::Payload))
    }

    /// Whether the archive has the payload with this digest.
    #[must_use]
    pub fn has_archived(&self, sha256: &Sha256Hex) -> bool {
        self.raw_path(sha256).exists()
    }

    /// The number of bytes that the removal of payloads would free.
    ///
    /// # Errors
    /// `Io` if the archive cannot be read.
    pub fn removable_bytes(&self, payloads: &[Sha256Hex]) -> Result<u64, StoreError> {
        remove_payloads(&self.raw_dir(), payloads, true)
    }

    /// Whether the file exists.
    pub(crate) fn has_sorted(&self, file: &SortedFileRef) -> bool {
        self.facts_path(&file.sha256).exists()
    }

    pub(super) fn raw_path(&self, sha256: &Sha256Hex) -> PathBuf {
        self.raw_dir().join(format!("{sha256}.raw"))
    }

    /// The folder of the archived payloads.
    pub(crate) fn raw_dir(&self) -> PathBuf {
        self.dir.join(RAW_DIR)
    }

    fn mark_path(&self, sha256: &str) -> PathBuf {
        mark_path(&self.raw_dir(), sha256)
    }

    /// Whether the payload `sha256` has a mark, so that no commit has named it yet.
    pub(crate) fn is_marked(&self, sha256: &str) -> bool {
        self.mark_path(sha256).exists()
    }

    /// Removes the mark of a payload. To be called once the commit that names the payload is durable.
    pub(crate) fn unmark(&self, sha256: &Sha256Hex) {
        let path = self.mark_path(sha256.as_str());
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            // the next start removes the mark
            tracing::warn!(%error, path = %path.display(), "could not remove the mark of a payload");
        }
    }

    /// Checks that enough space is free for further work.
    ///
    /// # Errors
    /// `Unavailable` if too little is free, `Io` if the system does not report it.
    pub fn check_free_space(&self) -> Result<(), StoreError> {
        self.free.check()
    }

    /// Removes payloads from the archive. Chunks that other payloads need stay. Returns the number of freed bytes.
    ///
    /// # Errors
    /// `Io` if a file cannot be removed.
    pub(super) fn remove_archived(&self, payloads: &[Sha256Hex]) -> Result<u64, StoreError> {
        if payloads.is_empty() {
            return Ok(0);
        }
        let freed_bytes = remove_payloads(&self.raw_dir(), payloads, false)?;
        payloads.iter().for_each(|sha256| self.unmark(sha256));
        Ok(freed_bytes)
    }

    /// Begins a sorted file. `name` starts with the id of the run that creates it and ends with the kind of the file.
    pub(super) fn writer(&self, name: &str) -> Result<SortedWriter, StoreError> {
        self.free.check()?;
        let mut writer = SortedWriter::create(&self.work_dir().join(name))?;
        writer.push(CREATED_BY_KEY, name.as_bytes())?;
        Ok(writer)
    }

    /// The id of the run that made the sorted file at `path`.
    ///
    /// # Errors
    /// The errors of [`SortedFile::open`]; `SourceFile` if the file does not name its run.
    pub(super) fn read_creating_run(path: &Path, owner: &FileOwner) -> Result<String, StoreError> {
        let name =
            SortedFile::open(path, owner)?.get(CREATED_BY_KEY)?.and_then(|name| String::from_utf8(name).ok());
        let run_id = name.as_deref().and_then(|name| name.split('.').next());
        run_id.map(str::to_owned).ok_or_else(|| owner.damage_error(path, "does not name its run".into()))
    }

    /// Moves a finished sorted file to its final path, and adds it to `new_files` unless the file existed.
    pub(super) fn adopt_sorted_file(
        &self,
        name: &str,
        summary: SortedFileSummary,
        statements: u64,
        new_files: &mut UncommittedFiles,
    ) -> Result<SortedFileRef, StoreError> {
        let SortedFileSummary { rows, size_bytes, sha256 } = summary;
        let path = self.facts_path(&sha256);
        let is_new = !path.exists();
        let moved = fs::rename(self.work_dir().join(name), &path);
        moved.map_err(|source| StoreError::write_error(&path, source))?;
        let file = SortedFileRef { sha256, size_bytes, rows, statements };
        if is_new {
            new_files.refs.push(file.clone());
        }
        sync_dir(&self.facts_dir)?;
        Ok(file)
    }

    /// Notes that other hosts make files, too.
    pub(super) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Whether other hosts make files, too: a missing file is not a fault then.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// The error of a source whose sorted files are not all on this host yet; `None` if they are, or if this is the only host.
    #[must_use]
    pub fn absence(&self, state: &SourceState) -> Option<StoreError> {
        if !self.is_shared() {
            return None;
        }
        let absent = state.sorted_files().filter(|file| !self.has_sorted(file));
        let (files, size_bytes) =
            absent.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.size_bytes));
        let oracle_id = state.entry.oracle_id().to_string();
        (files > 0).then_some(StoreError::FactsNotHere { oracle_id, files, size_bytes })
    }

    /// Writes a copy of a sorted file with `write`, compares all of it with what was committed, and syncs it. Returns the copy, and
    /// its final path.
    ///
    /// # Errors
    /// The error of `write`; `SourceFile` if the copy is not the committed file.
    pub(super) fn fetch_sorted(
        &self,
        file: &SortedFileRef,
        owner: &FileOwner,
        write: impl FnOnce(&mut File) -> Result<(), StoreError>,
    ) -> Result<(NamedTempFile, PathBuf), StoreError> {
        let work_dir = self.work_dir();
        let copy = NamedTempFile::with_prefix_in("fetched-", &work_dir);
        let mut copy = copy.map_err(|source| StoreError::write_error(&work_dir, source))?;
        write(copy.as_file_mut())?;
        let opened = SortedFile::open(copy.path(), owner)?;
        Self::compare(opened.summary(), file).map_err(|fault| owner.damage_error(copy.path(), fault))?;
        opened.verify(&mut |_| Ok(()))?;
        copy.as_file().sync_all().map_err(|source| StoreError::write_error(copy.path(), source))?;
        Ok((copy, self.facts_path(&file.sha256)))
    }

    /// Moves a copy to its final path, durably.
    pub(super) fn adopt_fetched(&self, copy: NamedTempFile, path: &Path) -> Result<(), StoreError> {
        copy.persist(path).map_err(|refused| StoreError::write_error(path, refused.error))?;
        sync_dir(&self.facts_dir)
    }

    /// Opens a sorted file. The digest covers the source, the run and all rows. Therefore an older file and a file of
    /// another source or run are rejected here.
    ///
    /// # Errors
    /// `SourceFile` if the file is not the committed one.
    pub(super) fn open_sorted(
        &self,
        file: &SortedFileRef,
        owner: &FileOwner,
    ) -> Result<SortedFile, StoreError> {
        let path = self.facts_path(&file.sha256);
        let opened = SortedFile::open(&path, owner)?;
        Self::compare(opened.summary(), file).map_err(|fault| owner.damage_error(&path, fault))?;
        Ok(opened)
    }

    /// Compares the summary in a file's footer with the committed one.
    fn compare(found: &SortedFileSummary, file: &SortedFileRef) -> Result<(), String> {
        let SortedFileRef { sha256, size_bytes, rows, .. } = file.clone();
        let committed = SortedFileSummary { rows, size_bytes, sha256 };
        if *found == committed {
            return Ok(());
        }
        Err(format!("is another file: it holds {found}, and {committed} were committed"))
    }

    /// Reads all of a sorted file and compares it with what was committed. `read` is called with the length
    /// of each block.
    ///
    /// # Errors
    /// `SourceFile` if they differ; the error of `read`.
    pub(super) fn verify_sorted(
        &self,
        file: &SortedFileRef,
        owner: &FileOwner,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.open_sorted(file, owner)?.verify(read).map(|_| ())
    }

    /// The error for sorted files whose checksums are valid and whose rows cannot be parsed.
    pub(super) fn unreadable(&self, owner: &FileOwner, detail: &str) -> StoreError {
        owner.damage_error(&self.facts_dir, format!("has rows that cannot be parsed: {detail}"))
    }

    /// The fault that the footer of a sorted file shows: the file is missing, was truncated, or is another file.
    pub(super) fn fault(&self, file: &SortedFileRef, owner: &FileOwner) -> Option<StoreError> {
        let path = self.facts_path(&file.sha256);
        let compared = SortedFile::summary_of(&path, owner)
            .and_then(|found| Self::compare(&found, file).map_err(|fault| owner.damage_error(&path, fault)));
        compared.err()
    }

    /// The sorted files of a source that are missing, truncated or replaced, as far as their footers show it.
    pub fn faults(&self, state: &SourceState) -> Vec<StoreError> {
        let owner = facts_owner(state);
        state.sorted_files().filter_map(|file| self.fault(file, &owner)).collect()
    }

    /// Moves sorted files from the folder of [`GroundFiles::with_temporary_facts`] to their final paths, durably.
    pub(super) fn adopt_temporary_files<'f>(
        &self,
        temporary: &Self,
        files: impl IntoIterator<Item = &'f SortedFileRef>,
    ) -> Result<(), StoreError> {
        // the cache may hold blocks of earlier files with these names
        self.blocks.clear();
        for file in files {
            let path = self.facts_path(&file.sha256);
            let moved = fs::rename(temporary.facts_path(&file.sha256), &path);
            moved.map_err(|source| StoreError::write_error(&path, source))?;
        }
        sync_dir(&self.facts_dir)
    }

    /// Removes sorted files that are no longer in use. Readers that have one open can still read it.
    pub(crate) fn remove<'f>(&self, files: impl IntoIterator<Item = &'f SortedFileRef>) {
        for file in files {
            let path = self.facts_path(&file.sha256);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "could not remove an unused file");
            }
        }
    }

    /// The first file in the state directory `state_dir` that belongs to an earlier store; `None` if there is none.
    ///
    /// # Errors
    /// `Io` if a folder cannot be read.
    pub(crate) fn find_existing_file(state_dir: &Path) -> Result<Option<PathBuf>, StoreError> {
        for folder in [FACTS_DIR, RAW_DIR] {
            for (path, kind) in list_files_in(&state_dir.join(DIR).join(folder))? {
                if matches!(kind, GroundFileKind::Sorted | GroundFileKind::Payload) {
                    return Ok(Some(path));
                }
            }
        }
        Ok(None)
    }

    /// The sorted files and payloads that are not in `named`, and incomplete payloads and marks. Other files belong to
    /// someone else: they are logged and not touched. Chunks stay until the next removal of a payload.
    pub(crate) fn list_unnamed_files(
        &self,
        named: &HashSet<String>,
    ) -> Result<Vec<(PathBuf, GroundFileKind)>, StoreError> {
        let mut unnamed = Vec::new();
        for dir in [self.facts_dir.clone(), self.raw_dir()] {
            for (path, kind) in list_files_in(&dir)? {
                let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
                if kind == GroundFileKind::Foreign {
                    tracing::warn!(path = %path.display(), "ignored a file that oracled did not create");
                } else if kind != GroundFileKind::Chunks && !named.contains(stem) {
                    unnamed.push((path, kind));
                }
            }
        }
        Ok(unnamed)
    }
}

/// The kind of a file of the ground-truth layer, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroundFileKind {
    Sorted,
    Payload,
    /// Chunks of a removed payload that others need.
    Chunks,
    /// An incomplete payload, or a mark.
    Unfinished,
    Foreign,
}

/// The files in a folder, each with its kind; empty if the folder does not exist.
pub(super) fn list_files_in(dir: &Path) -> Result<Vec<(PathBuf, GroundFileKind)>, StoreError> {
    let io = |source| StoreError::Io { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        let path = entry.path();
        let is_file = entry.file_type().map_err(io)?.is_file();
        let kind = if is_file { GroundFileKind::of(&path) } else { GroundFileKind::Foreign };
        files.push((path, kind));
    }
    Ok(files)
}

impl GroundFileKind {
    /// The kind of the file with this path.
    fn of(path: &Path) -> Self {
        let has_digest =
            path.file_stem().and_then(OsStr::to_str).is_some_and(|stem| stem.parse::<Sha256Hex>().is_ok());
        match path.extension().and_then(OsStr::to_str) {
            Some("sorted") if has_digest => Self::Sorted,
            Some("raw") if has_digest => Self::Payload,
            Some("chunks") if has_digest => Self::Chunks,
            None if is_unfinished(path) => Self::Unfinished,
            _ => Self::Foreign,
        }
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

/// Whether a backup has files of this name, besides its checkpoint and its manifest.
#[must_use]
pub fn is_backed_up(name: &str) -> bool {
    is_journal_file(name) || is_ground_file(name)
}

/// Whether `name` is the path of a file of the ground-truth layer in a backup.
fn is_ground_file(name: &str) -> bool {
    let Some((folder, file)) =
        name.strip_prefix(DIR).and_then(|name| name.strip_prefix('/')?.split_once('/'))
    else {
        return false;
    };
    let is_plain = !file.contains('/');
    match GroundFileKind::of(Path::new(file)) {
        GroundFileKind::Sorted => is_plain && folder == FACTS_DIR,
        GroundFileKind::Payload | GroundFileKind::Chunks => is_plain && folder == RAW_DIR,
        GroundFileKind::Unfinished | GroundFileKind::Foreign => false,
    }
}
