//! Writes a payload to the archive.

use super::file::{ArchiveFile, ChunkTable, ListedChunk, UNFINISHED, create_unfinished, seal};
use super::path;
use super::reader::{ArchivedPayload, OtherFiles};
use super::remove_payloads;
use crate::archive::{CHUNK_MAX_BYTES, ChunkDigest, digest, first_chunk};
use crate::file_end::FileOwner;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store_base::disk::FreeSpace;
use store_base::error::StoreError;
use store_base::files::sync_dir;
use tempfile::NamedTempFile;
use zstd::bulk::Compressor;

/// The longest payload: 1 TiB. The list of its chunks takes about 100 MiB of memory.
pub const MAX_PAYLOAD_BYTES: u64 = 1 << 40;
/// The number of other files in which a payload can have chunks. Each is open while the payload is read.
const OTHERS_MAX: usize = 128;

/// Receives a payload in pieces. If it is dropped before [`ArchiveWriter::finish`], it leaves no file.
pub struct ArchiveWriter {
    dir: PathBuf,
    owner: FileOwner,
    file: NamedTempFile,
    compressor: Compressor<'static>,
    sha256: Sha256Stream,
    /// The bytes that are not cut into chunks yet.
    rest: Vec<u8>,
    compressed: Vec<u8>,
    table: ChunkTable,
    own: HashSet<ChunkDigest>,
    /// The chunks of earlier payloads.
    known: HashMap<ChunkDigest, KnownChunk>,
    /// The length of the chunks in the file.
    at: u64,
    /// The length of the payload up to the last chunk.
    cut_bytes: u64,
    size_bytes: u64,
    /// The minimum of free space, if it is checked.
    free: Option<FreeSpace>,
}

/// A chunk of an earlier payload, in a file that stays open.
#[derive(Debug, Clone)]
struct KnownChunk {
    /// The payload whose file it is.
    of: Sha256Hex,
    file: Arc<ArchiveFile>,
    number: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRef {
    /// The SHA-256 of the payload, which is also its name.
    pub sha256: Sha256Hex,
    /// The length of the uncompressed payload, in bytes.
    pub size_bytes: u64,
}

/// The path of a payload's mark. The mark exists until a commit names the payload. After a kill it separates
/// an uncommitted payload from one that only a newer copy of the database names.
pub fn mark_path(dir: &Path, sha256: &str) -> PathBuf {
    dir.join(format!("{UNFINISHED}{sha256}"))
}

/// Whether the file at `path` is an incomplete payload or a mark.
pub fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
}

impl ArchiveWriter {
    /// Begins a payload of `owner` in the archive directory `dir`.
    ///
    /// # Errors
    /// `Unavailable` if the disk is full, `Io` if the file cannot be created for another reason.
    pub fn create(dir: &Path, owner: FileOwner) -> Result<Self, StoreError> {
        let file = create_unfinished(dir)?;
        Self::with_file(dir, owner, file)
    }

    pub(super) fn with_file(dir: &Path, owner: FileOwner, file: NamedTempFile) -> Result<Self, StoreError> {
        let compressor = Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL);
        Ok(Self {
            dir: dir.to_owned(),
            owner,
            file,
            compressor: compressor.map_err(|source| StoreError::write_error(dir, source))?,
            sha256: Sha256Stream::default(),
            rest: Vec::new(),
            compressed: Vec::new(),
            table: ChunkTable::default(),
            own: HashSet::new(),
            known: HashMap::new(),
            at: 0,
            cut_bytes: 0,
            size_bytes: 0,
            free: None,
        })
    }

    /// The same writer, which does not store the chunks of an earlier payload again. A damaged one is ignored.
    #[must_use]
    pub fn after(mut self, earlier: &Sha256Hex) -> Self {
        match ArchivedPayload::open(&self.dir, earlier, &self.owner) {
            Ok(payload) => {
                for piece in payload.pieces() {
                    let Some(chunk) = piece.file.chunk(piece.chunk) else { continue };
                    let of = piece.of.clone().unwrap_or_else(|| earlier.clone());
                    let known = KnownChunk { of, file: Arc::clone(&piece.file), number: piece.chunk };
                    self.known.entry(chunk.digest).or_insert(known);
                }
            }
            Err(error) => tracing::debug!(%error, "an earlier payload cannot be reused"),
        }
        self
    }

    /// Appends the next bytes of the payload.
    ///
    /// # Errors
    /// `TooLarge` if the payload exceeds [`MAX_PAYLOAD_BYTES`], `Unavailable` if space is short, `Io` for other write
    /// errors. After an error, the caller must drop the writer.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let size_bytes = self.size_bytes + bytes.len() as u64;
        if size_bytes > MAX_PAYLOAD_BYTES {
            return Err(StoreError::TooLarge { what: "a payload", size_bytes, max_bytes: MAX_PAYLOAD_BYTES });
        }
        self.size_bytes = size_bytes;
        self.sha256.push(bytes);
        for piece in bytes.chunks(CHUNK_MAX_BYTES) {
            self.rest.extend_from_slice(piece);
            self.cut(false)?;
        }
        Ok(())
    }

    /// Stores the complete chunks in `rest`.
    fn cut(&mut self, is_end: bool) -> Result<(), StoreError> {
        let (rest, mut begin) = (std::mem::take(&mut self.rest), 0);
        while let Some(len) = first_chunk(rest.get(begin..).unwrap_or_default(), self.cut_bytes, is_end) {
            self.add_chunk(rest.get(begin..begin + len).unwrap_or_default())?;
            begin += len;
        }
        self.rest = rest;
        self.rest.drain(..begin);
        Ok(())
    }

    fn add_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        let digest = digest(chunk);
        self.cut_bytes += chunk.len() as u64;
        let file = self.file_with(digest, chunk);
        if file.is_none() && !self.own.contains(&digest) {
            self.free.as_ref().map_or(Ok(()), FreeSpace::check)?;
            self.write_chunk(digest, chunk)?;
        }
        self.table.list.push(ListedChunk { file: file.unwrap_or_default(), digest });
        Ok(())
    }

    /// The number of the other file that has the chunk. Its bytes are compared, so that a damaged chunk is stored again.
    fn file_with(&mut self, digest: ChunkDigest, chunk: &[u8]) -> Option<u32> {
        let KnownChunk { of, file, number } = self.known.get(&digest)?;
        let others = &mut self.table.others;
        let listed = others.iter().position(|other| other == of);
        if listed.is_none() && others.len() == OTHERS_MAX {
            return None;
        }
        let is_same = file.read_chunk(*number, &mut self.compressed).is_ok_and(|known| known == chunk);
        let listed = is_same.then(|| {
            listed.unwrap_or_else(|| {
                others.push(of.clone());
                others.len() - 1
            })
        })?;
        u32::try_from(listed + 1).ok()
    }

    fn write_chunk(&mut self, digest: ChunkDigest, chunk: &[u8]) -> Result<(), StoreError> {
        let error = |source: io::Error, file: &NamedTempFile| StoreError::write_error(file.path(), source);
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(chunk.len()));
        let compressed = self.compressor.compress_to_buffer(chunk, &mut self.compressed);
        compressed.map_err(|source| error(source, &self.file))?;
        self.file.write_all(&self.compressed).map_err(|source| error(source, &self.file))?;
        self.table.add(digest, chunk.len(), &self.compressed, self.at);
        self.at += self.compressed.len() as u64;
        self.own.insert(digest);
        Ok(())
    }

    /// Writes the remaining bytes, syncs the file, and gives it its name. An undamaged payload that exists already is
    /// kept. A new payload has a [`mark_path`] until a commit names it. No payload may be removed meanwhile.
    ///
    /// # Errors
    /// `Unavailable` if space is short, `Io` for other write errors. Afterwards the archive has either no new
    /// file, or the complete payload if only the sync of its name failed.
    pub fn finish(mut self) -> Result<PayloadRef, StoreError> {
        self.cut(true)?;
        let sha256 = std::mem::take(&mut self.sha256).finish();
        let archived = PayloadRef { sha256: sha256.clone(), size_bytes: self.size_bytes };
        let path = path(&self.dir, &sha256);
        let exists = path.exists();
        if exists
            && ArchivedPayload::open(&self.dir, &sha256, &self.owner).is_ok_and(|kept| kept.verify().is_ok())
        {
            return Ok(archived);
        }
        self.keep_removed_chunks(exists)?;
        seal(&mut self.file, &self.table, self.size_bytes, &sha256)?;
        if exists {
            // other payloads may need chunks that only the damaged file has
            remove_payloads(&self.dir, std::slice::from_ref(&sha256), false)?;
        } else {
            let mark = mark_path(&self.dir, sha256.as_str());
            File::create(&mark).map_err(|source| StoreError::write_error(&mark, source))?;
        }
        self.file.persist(&path).map_err(|refused| StoreError::write_error(&path, refused.error))?;
        sync_dir(&self.dir)?;
        Ok(archived)
    }

    /// Stores the chunks of other files that were removed meanwhile. Their files are still open. A payload that replaces
    /// its damaged file stores all of its chunks, because the removal of that file can remove chunks that no other payload
    /// needs.
    fn keep_removed_chunks(&mut self, is_repair: bool) -> Result<(), StoreError> {
        let others = self.table.others.clone();
        let found: Vec<_> = others
            .iter()
            .map(|other| (!is_repair).then(|| OtherFiles::open(&self.dir, other, &self.owner)))
            .collect();
        for at in 0..self.table.list.len() {
            let Some(ListedChunk { file, digest }) = self.table.list.get(at).copied() else { break };
            let Some(other) = (file as usize).checked_sub(1) else { continue };
            let there =
                found.get(other).and_then(Option::as_ref).is_some_and(|files| files.find(&digest).is_some());
            if there {
                continue;
            }
            if !self.own.contains(&digest) {
                let known = self.known.get(&digest).cloned();
                let known = known.ok_or_else(|| self.owner.damage_error(&self.dir, "lost a chunk".into()))?;
                let chunk = known.file.read_chunk(known.number, &mut self.compressed)?;
                self.write_chunk(digest, &chunk)?;
            }
            if let Some(listed) = self.table.list.get_mut(at) {
                listed.file = 0;
            }
        }
        if is_repair {
            self.table.others.clear();
        }
        Ok(())
    }

    /// The same writer, with a check of free space: it stops if less than the minimum is free.
    pub fn with_free_space(self, free: FreeSpace) -> Self {
        Self { free: Some(free), ..self }
    }
}

impl fmt::Debug for ArchiveWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveWriter").field("file", &self.file).finish_non_exhaustive()
    }
}
