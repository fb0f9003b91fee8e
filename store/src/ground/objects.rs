//! The files of sources as objects that all hosts of a cluster share.
//!
//! A host uploads a file before the commit that names it. The other hosts fetch what they lack.

use super::files::{GroundFileKind, GroundFiles, facts_owner, list_files_in, name_files};
use super::payloads::is_pruned;
use crate::ground::tables::Store;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use domain_ground::event::PruneEntry;
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, RunState, SortedFileRef};
use domain_ground::source_state::SourceState;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use store_base::error::{SourceFileKind, StoreError};
use store_facts::archive::{ArchiveWriter, ArchivedPayload};
use store_facts::file_end::FileOwner;
use store_facts::objects::{ObjectName, SharedObjects};
use tempfile::NamedTempFile;

/// The compression of payloads, as in the archive.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// A file that a row names and this host lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    /// The source of the file.
    pub oracle_id: SourceId,
    /// The length of the file, or of the uncompressed payload.
    pub size_bytes: u64,
    content: MissingContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MissingContent {
    Sorted(SortedFileRef, SourceFileKind),
    Payload(Sha256Hex),
}

impl MissingFile {
    fn sorted(oracle_id: &SourceId, file: &SortedFileRef, kind: SourceFileKind) -> Self {
        let content = MissingContent::Sorted(file.clone(), kind);
        Self { oracle_id: oracle_id.clone(), size_bytes: file.size_bytes, content }
    }

    fn payload(run: &IngestionRun) -> Self {
        let content = MissingContent::Payload(run.input.raw_sha256.clone());
        Self { oracle_id: run.oracle_id.clone(), size_bytes: run.raw_bytes, content }
    }

    /// The name of its object.
    #[must_use]
    pub fn object(&self) -> ObjectName {
        match &self.content {
            MissingContent::Sorted(file, _) => ObjectName::Sorted(file.sha256.clone()),
            MissingContent::Payload(sha256) => ObjectName::Payload(sha256.clone()),
        }
    }
}

/// A file that was fetched and compared with its digest, and is not in its place yet. Dropping it removes it.
#[derive(Debug)]
pub struct FetchedFile {
    files: GroundFiles,
    content: FetchedContent,
}

#[derive(Debug)]
enum FetchedContent {
    Sorted(NamedTempFile, PathBuf),
    Payload(Box<ArchiveWriter>),
}

impl FetchedFile {
    /// Whether the file is a payload.
    #[must_use]
    pub const fn is_payload(&self) -> bool {
        matches!(self.content, FetchedContent::Payload(_))
    }

    /// Puts the file in its place, durably. If it is a payload, no payload may be removed meanwhile.
    ///
    /// # Errors
    /// `Unavailable` if the disk is full; `Io` if it cannot be written.
    pub fn put_in_place(self) -> Result<(), StoreError> {
        match self.content {
            FetchedContent::Sorted(file, path) => self.files.adopt_fetched(file, &path),
            FetchedContent::Payload(archive) => {
                let payload = archive.finish()?;
                // a row names it
                self.files.unmark(&payload.sha256);
                Ok(())
            }
        }
    }
}

fn object_error(name: &ObjectName, source: io::Error) -> StoreError {
    StoreError::Object { name: name.to_string(), source }
}

fn damaged(name: &ObjectName, fault: impl Into<String>) -> StoreError {
    StoreError::ObjectDamaged { name: name.to_string(), fault: fault.into() }
}

/// The pruned payloads of sources, read on demand.
struct Prunings<'s> {
    store: &'s Store,
    known: HashMap<SourceId, Vec<(u64, PruneEntry)>>,
}

impl Prunings<'_> {
    fn has(&mut self, run: &IngestionRun) -> Result<bool, StoreError> {
        if !self.known.contains_key(&run.oracle_id) {
            self.known.insert(run.oracle_id.clone(), self.store.prunings(&run.oracle_id)?);
        }
        let of_source = self.known.get(&run.oracle_id);
        Ok(of_source.is_some_and(|prunings| is_pruned(prunings, &run.input.raw_sha256)))
    }

    /// Whether a run needs its payload, which was not pruned.
    fn is_payload_needed_by(&mut self, run: &IngestionRun) -> Result<bool, StoreError> {
        Ok(run.state.needs_payload(self.store.keeps_payload(run)?) && !self.has(run)?)
    }
}

impl Store {
    /// From now on, other hosts make files of sources, too, and upload them. Queries of a source whose files are missing get
    /// `FactsNotHere`.
    pub fn share_files(&self) {
        self.files().share();
    }

    /// The sorted files that rows name and this host lacks: those that queries need come first.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn missing_sorted(&self) -> Result<Vec<MissingFile>, StoreError> {
        let (sources, runs) = (self.sources()?, self.runs()?);
        let (mut missing, mut seen) = (Vec::new(), HashSet::new());
        for state in &sources {
            let absent = state.sorted_files().filter(|file| !self.files().has_sorted(file));
            let absent = absent.filter(|file| seen.insert(file.sha256.clone()));
            let oracle_id = state.entry.oracle_id();
            missing.extend(absent.map(|file| MissingFile::sorted(oracle_id, file, SourceFileKind::Facts)));
        }
        for run in runs.iter().filter(|run| run.state != RunState::Completed) {
            let absent = run.rows.as_ref().filter(|file| !self.files().has_sorted(file));
            missing.extend(
                absent.map(|file| MissingFile::sorted(&run.oracle_id, file, SourceFileKind::Rejects)),
            );
        }
        Ok(missing)
    }

    /// The archived payloads that runs need and this host lacks.
    ///
    /// # Errors
    /// The rows or the log cannot be read.
    pub fn missing_payloads(&self) -> Result<Vec<MissingFile>, StoreError> {
        let (mut missing, mut seen) = (Vec::new(), HashSet::new());
        let mut prunings = Prunings { store: self, known: HashMap::new() };
        for run in &self.runs()? {
            let sha256 = &run.input.raw_sha256;
            if self.files().has_archived(sha256) || seen.contains(sha256) {
                continue;
            }
            if prunings.is_payload_needed_by(run)? {
                seen.insert(sha256.clone());
                missing.push(MissingFile::payload(run));
            }
        }
        Ok(missing)
    }

    /// Whether the pipeline of a run keeps its payloads.
    pub(super) fn keeps_payload(&self, run: &IngestionRun) -> Result<bool, StoreError> {
        let definition = self.definition(&run.input.pipeline_sha256)?;
        Ok(definition.is_none_or(|definition| definition.pipeline.audit.log_raw_input))
    }

    /// The payload of a run, if this host lacks it.
    #[must_use]
    pub fn missing_payload(&self, run: &IngestionRun) -> Option<MissingFile> {
        (!self.files().has_archived(&run.input.raw_sha256)).then(|| MissingFile::payload(run))
    }

    /// Fetches a missing file, and compares it with its digest.
    ///
    /// # Errors
    /// `Object` if the object is missing, or cannot be read now; `ObjectDamaged`; `Unavailable` if the disk is full; `Io` if it cannot be
    /// written.
    pub fn fetch_file(
        &self,
        objects: &dyn SharedObjects,
        missing: &MissingFile,
    ) -> Result<FetchedFile, StoreError> {
        self.files().check_free_space()?;
        let name = missing.object();
        let content = match &missing.content {
            MissingContent::Sorted(file, kind) => {
                let owner = FileOwner::new(&missing.oracle_id, *kind);
                let fetched = self.files().fetch_sorted(file, &owner, |into| {
                    let mut into = BoundedWriter { into, left: file.size_bytes, is_exceeded: false };
                    objects.get(&name, &mut into).map_err(|source| {
                        if into.is_exceeded { damaged(&name, TOO_LONG) } else { object_error(&name, source) }
                    })
                });
                let (fetched, path) = fetched.map_err(|error| match error {
                    StoreError::SourceFile { fault, .. } => damaged(&name, fault),
                    error => error,
                })?;
                FetchedContent::Sorted(fetched, path)
            }
            MissingContent::Payload(sha256) => {
                FetchedContent::Payload(Box::new(self.fetch_payload(objects, missing, sha256)?))
            }
        };
        Ok(FetchedFile { files: self.files().clone(), content })
    }

    fn fetch_payload(
        &self,
        objects: &dyn SharedObjects,
        missing: &MissingFile,
        sha256: &Sha256Hex,
    ) -> Result<ArchiveWriter, StoreError> {
        let name = missing.object();
        let into = FetchedPayload {
            archive: self.archive_writer(&missing.oracle_id)?,
            sha256: Sha256Stream::default(),
            fault: None,
        };
        let into = BoundedWriter { into, left: missing.size_bytes, is_exceeded: false };
        let decoder =
            zstd::stream::write::Decoder::new(into).map_err(|source| object_error(&name, source))?;
        let mut decoder = NotedWriter { into: decoder, fault: None };
        let read = objects.get(&name, &mut decoder).and_then(|()| decoder.flush());
        let NotedWriter { into: decoder, fault: undecodable } = decoder;
        let BoundedWriter { into: FetchedPayload { archive, sha256: mut found, fault }, .. } =
            decoder.into_inner();
        if let Some(fault) = fault {
            return Err(fault);
        }
        if let Some(fault) = undecodable {
            return Err(damaged(&name, fault));
        }
        read.map_err(|source| object_error(&name, source))?;
        let found = std::mem::take(&mut found).finish();
        if found != *sha256 {
            return Err(damaged(&name, format!("its content has SHA-256 {found}")));
        }
        Ok(archive)
    }

    /// Uploads sorted files. Those that exist as objects are not sent again, unless the files `replace` damaged objects.
    ///
    /// # Errors
    /// `Object` if an object cannot be written now; `SourceFile` or `Io` if a file cannot be read.
    pub fn upload_sorted<'f>(
        &self,
        objects: &dyn SharedObjects,
        oracle_id: &SourceId,
        files: impl IntoIterator<Item = &'f SortedFileRef>,
        replace: bool,
    ) -> Result<(), StoreError> {
        let owner = FileOwner::new(oracle_id, SourceFileKind::Facts);
        for file in files {
            let name = ObjectName::Sorted(file.sha256.clone());
            let failed = |source| object_error(&name, source);
            if !replace && objects.find(&name).map_err(failed)? == Some(file.size_bytes) {
                continue;
            }
            // its footer is compared
            self.files().open_sorted(file, &owner)?;
            let path = self.files().facts_path(&file.sha256);
            let mut content = File::open(&path).map_err(|source| StoreError::Io { path, source })?;
            objects.put(&name, &mut content).map_err(failed)?;
        }
        Ok(())
    }

    /// Uploads an archived payload, unless it exists as an object. The length of an existing object is not compared: it is compressed, so the
    /// expected length is unknown. A host that fetches a damaged object reports that.
    ///
    /// # Errors
    /// `Object` if the object cannot be written now, or the payload is damaged; `SourceFile` if the payload is missing.
    pub fn upload_payload(
        &self,
        objects: &dyn SharedObjects,
        oracle_id: &SourceId,
        sha256: &Sha256Hex,
    ) -> Result<(), StoreError> {
        let name = ObjectName::Payload(sha256.clone());
        let failed = |source| object_error(&name, source);
        if objects.find(&name).map_err(failed)?.is_some() {
            return Ok(());
        }
        let payload: ArchivedPayload = self.files().archive(oracle_id, sha256)?;
        let content = zstd::stream::read::Encoder::new(payload.reader(), LEVEL);
        objects.put(&name, &mut content.map_err(failed)?).map_err(failed)
    }

    /// Uploads again what was lost of the objects of a source, if this host has the files.
    ///
    /// # Errors
    /// As [`Self::upload_sorted`] and [`Self::upload_payload`]; or the rows or the log cannot be read.
    pub fn upload_lost(&self, objects: &dyn SharedObjects, oracle_id: &SourceId) -> Result<(), StoreError> {
        let (source, runs) = (self.source(oracle_id)?.map(|(source, _)| source), self.runs()?);
        let runs: Vec<_> = runs.into_iter().filter(|run| run.oracle_id == *oracle_id).collect();
        let rejects = runs.iter().filter(|run| run.state != RunState::Completed);
        let rejects = rejects.filter_map(|run| run.rows.as_ref());
        let files = source.iter().flat_map(SourceState::sorted_files).chain(rejects);
        self.upload_sorted(objects, oracle_id, files.filter(|file| self.files().has_sorted(file)), false)?;
        let mut prunings = Prunings { store: self, known: HashMap::new() };
        for run in &runs {
            let sha256 = &run.input.raw_sha256;
            if self.files().has_archived(sha256) && prunings.is_payload_needed_by(run)? {
                self.upload_payload(objects, oracle_id, sha256)?;
            }
        }
        Ok(())
    }

    /// The sorted files that no row names, of runs that the store knows. Other hosts have replaced them, or a run of this host that is
    /// in progress has just made them.
    ///
    /// # Errors
    /// The rows or the folder cannot be read.
    pub fn list_replaced_files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let (sources, runs) = (self.sources()?, self.runs()?);
        let Some(owner) = sources.first().map(facts_owner) else { return Ok(Vec::new()) };
        let known: HashSet<_> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let named = name_files(&sources, &runs);
        let mut replaced = Vec::new();
        for (path, kind) in list_files_in(&self.files().facts_dir)? {
            let is_named = stem(&path).is_some_and(|stem| named.contains(stem));
            if kind != GroundFileKind::Sorted || is_named {
                continue;
            }
            let by = GroundFiles::read_creating_run(&path, &owner);
            if by.is_ok_and(|run_id| known.contains(run_id.as_str())) {
                replaced.push(path);
            }
        }
        Ok(replaced)
    }

    /// Removes those of these files that no row names now. No run or upkeep may be in progress.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn remove_replaced_files(&self, replaced: &[PathBuf]) -> Result<(), StoreError> {
        let named = name_files(&self.sources()?, &self.runs()?);
        for path in replaced.iter().filter(|path| stem(path).is_some_and(|stem| !named.contains(stem))) {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(%error, path = %path.display(), "could not remove an unused file");
            }
        }
        Ok(())
    }

    /// Removes the archived payloads that no run needs any longer, since another host has ended, pruned or discarded their runs. No
    /// payload may be archived meanwhile.
    ///
    /// # Errors
    /// The rows or the log cannot be read, or a file cannot be removed.
    pub fn remove_replaced_payloads(&self) -> Result<(), StoreError> {
        let mut prunings = Prunings { store: self, known: HashMap::new() };
        let (mut needed, mut archived) = (HashSet::new(), HashSet::new());
        for run in self.runs()? {
            let sha256 = &run.input.raw_sha256;
            if !self.files().has_archived(sha256) || self.files().is_marked(sha256.as_str()) {
                continue;
            }
            let is_open = matches!(run.state, RunState::Running | RunState::Held);
            if is_open || self.keeps_payload(&run)? && !prunings.has(&run)? {
                needed.insert(sha256.clone());
            }
            archived.insert(sha256.clone());
        }
        let unneeded: Vec<_> = archived.difference(&needed).cloned().collect();
        self.files().remove_archived(&unneeded).map(drop)
    }
}

fn stem(path: &std::path::Path) -> Option<&str> {
    path.file_stem().and_then(OsStr::to_str)
}

/// Accepts at most `left` further bytes, so that a damaged object cannot fill the disk.
struct BoundedWriter<W> {
    into: W,
    left: u64,
    /// Whether there were more bytes.
    is_exceeded: bool,
}

/// The fault of an object with more bytes than the content has.
const TOO_LONG: &str = "it is too long";

/// Notes the first error of the content, apart from errors of its source.
struct NotedWriter<W> {
    into: W,
    fault: Option<String>,
}

impl<W> NotedWriter<W> {
    fn note<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        written.inspect_err(|error| {
            self.fault.get_or_insert_with(|| error.to_string());
        })
    }
}

impl<W: Write> Write for NotedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.into.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.into.flush();
        self.note(flushed)
    }
}

impl<W: Write> Write for BoundedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.is_exceeded = true;
            return Err(io::Error::new(ErrorKind::InvalidData, TOO_LONG));
        };
        self.left = left;
        self.into.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// A payload that is written to the archive and digested.
struct FetchedPayload {
    archive: ArchiveWriter,
    sha256: Sha256Stream,
    /// The error after which the archive accepts no data.
    fault: Option<StoreError>,
}

impl Write for FetchedPayload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sha256.push(bytes);
        if let Err(error) = self.archive.push(bytes) {
            let text = error.to_string();
            self.fault = Some(error);
            return Err(io::Error::other(text));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
