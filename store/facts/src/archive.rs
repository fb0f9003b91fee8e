//! The archive of raw payloads: each is stored under its SHA-256 and read back byte for byte (RFC-0002, Ingestion
//! Invariants 1).
//!
//! A payload is cut into chunks at places that its content decides ([`cutting`]), so that equal parts of two releases
//! are equal chunks. A chunk is found by its digest. A payload's file has the chunks that no recent payload of its source
//! has, each compressed by zstd on its own, and the list of all its chunks: its own, and those in the files of other
//! payloads. Therefore a release costs what it changed, and a record can be read without the data before it.
//!
//! If a payload is removed whose chunks others need, these chunks stay in a file with the extension `chunks`
//! ([`remove_payloads`]).

mod file;
mod reader;
mod writer;

use self::file::{ArchiveFile, ChunkTable, StoredChunk, create_unfinished, seal};
use super::file_end::{FOOTER_BYTES, SealedFormat};
use crate::file_end::FileOwner;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use fastcdc::v2020::FastCDC;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use store_base::error::{SourceFileKind, StoreError};
use store_base::files::sync_dir;

pub use reader::{ArchiveReader, ArchivedPayload, MAX_SLICE_BYTES};
pub use writer::{ArchiveWriter, MAX_PAYLOAD_BYTES, PayloadRef, is_unfinished, mark_path};

const FORMAT: SealedFormat = SealedFormat { magic: *b"oracledR", version: 3 };
/// The magic number of a frame that zstd skips (RFC 8878, 3.1.2). With it, any zstd decompresses a file that has all
/// chunks of its payload in their order.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// The magic number and the length of the skipped frame.
const SKIPPABLE_HEAD_BYTES: u64 = 8;

/// The first bytes of the skipped frame, for an index of `index_bytes` bytes.
fn skippable_head(index_bytes: usize) -> [u8; 8] {
    // an index is far below 4 GiB
    let skipped = index_bytes as u64 + FOOTER_BYTES;
    let mut head = [0; 8];
    let parts = [SKIPPABLE_MAGIC.to_le_bytes(), (skipped as u32).to_le_bytes()];
    head.copy_from_slice(parts.as_flattened());
    head
}

/// The path of the payload with the digest `sha256` in `dir`.
fn path(dir: &Path, sha256: &Sha256Hex) -> PathBuf {
    dir.join(format!("{sha256}.raw"))
}

/// The path of the chunks of a removed payload that other payloads need.
fn chunks_path(dir: &Path, sha256: &Sha256Hex) -> PathBuf {
    dir.join(format!("{sha256}.chunks"))
}

/// The longest chunk, in bytes.
pub const CHUNK_MAX_BYTES: usize = 4 << 20;

/// The digest of a chunk: the first half of its SHA-256. Chunks with equal digests are compared.
type ChunkDigest = [u8; 16];

/// The lengths of chunks, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct ChunkLengths {
    min: usize,
    average: usize,
    max: usize,
}

/// The lengths of chunks from offset `at` on. Short chunks make small changes cheap; longer ones further on bound the
/// list of the chunks of a huge payload.
const fn lengths(at: u64) -> ChunkLengths {
    match at {
        0..0x400_0000 => ChunkLengths { min: 4 << 10, average: 16 << 10, max: 64 << 10 },
        0x400_0000..0x1_0000_0000 => ChunkLengths { min: 16 << 10, average: 64 << 10, max: 256 << 10 },
        _ => ChunkLengths { min: 256 << 10, average: 1 << 20, max: CHUNK_MAX_BYTES },
    }
}

/// The length of the first chunk of `bytes`, which begin at offset `at` of the payload. `None` if more bytes are needed
/// and `bytes` is not the end of the payload.
fn first_chunk(bytes: &[u8], at: u64, is_end: bool) -> Option<usize> {
    let ChunkLengths { min, average, max } = lengths(at);
    if bytes.is_empty() || bytes.len() < max && !is_end {
        return None;
    }
    let (_, end) = FastCDC::new(bytes, min, average, max).cut(0, bytes.len());
    Some(end)
}

fn digest(chunk: &[u8]) -> ChunkDigest {
    let mut sha256 = Sha256Stream::default();
    sha256.push(chunk);
    sha256.finish_bytes().first_chunk().copied().unwrap_or_default()
}

/// The chunks that the payloads in the archive need from the files of others.
#[derive(Debug, Default)]
struct NeededChunks {
    of: HashMap<Sha256Hex, HashSet<ChunkDigest>>,
    /// Whether a list could not be read. Then all chunks may be needed.
    has_unreadable: bool,
}

impl NeededChunks {
    fn is_needed(&self, of: &Sha256Hex, chunk: &StoredChunk) -> bool {
        self.has_unreadable || self.of.get(of).is_some_and(|needed| needed.contains(&chunk.digest))
    }

    /// Reads the lists of all payloads except those in `removed`. Also returns the removed payloads that have a file of
    /// kept chunks.
    fn read(dir: &Path, removed: &[Sha256Hex]) -> Result<(Self, BTreeSet<Sha256Hex>), StoreError> {
        let io = |source| StoreError::Io { path: dir.to_owned(), source };
        let (mut needed, mut kept) = (Self::default(), BTreeSet::new());
        for entry in fs::read_dir(dir).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let stem = path.file_stem().and_then(OsStr::to_str).and_then(|stem| stem.parse().ok());
            let Some(sha256): Option<Sha256Hex> = stem else { continue };
            match path.extension().and_then(OsStr::to_str) {
                Some("chunks") => drop(kept.insert(sha256)),
                Some("raw") if !removed.contains(&sha256) => {
                    match ArchiveFile::open(&path, &sha256, &owner()) {
                        Ok(file) => needed.add(&file.table),
                        Err(_) => {
                            tracing::warn!(path = %path.display(), "kept the chunks of removed payloads, because a payload is damaged that may need them");
                            needed.has_unreadable = true;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok((needed, kept))
    }

    fn add(&mut self, table: &ChunkTable) {
        for listed in &table.list {
            let other = (listed.file as usize).checked_sub(1).and_then(|other| table.others.get(other));
            if let Some(other) = other {
                self.of.entry(other.clone()).or_default().insert(listed.digest);
            }
        }
    }
}

/// Removes payloads from the archive directory `dir`, and chunks of earlier removed payloads that no payload needs any
/// more. Returns the number of freed bytes. A dry run only returns the number. No payload may be added meanwhile.
///
/// # Errors
/// `Io` if a file cannot be read or removed; `Newer` if another version wrote it; `Unavailable` if the remaining chunks
/// cannot be written. A missing or damaged file is not an error: it has no chunks that can be kept.
pub fn remove_payloads(dir: &Path, payloads: &[Sha256Hex], is_dry_run: bool) -> Result<u64, StoreError> {
    let (needed, kept) = NeededChunks::read(dir, payloads)?;
    let with_chunks = kept.iter().filter(|kept| !payloads.contains(kept));
    let mut freed_bytes = 0_u64;
    for (sha256, is_removed) in
        payloads.iter().map(|payload| (payload, true)).chain(with_chunks.map(|kept| (kept, false)))
    {
        let raw = is_removed.then(|| path(dir, sha256));
        let paths: Vec<PathBuf> = raw.clone().into_iter().chain([chunks_path(dir, sha256)]).collect();
        let size_bytes = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let before_bytes: u64 = paths.iter().map(size_bytes).sum();
        let mut files = Vec::new();
        for path in &paths {
            files.extend(unless_damaged(ArchiveFile::open(path, sha256, &owner()))?);
        }
        let mut chunks = HashMap::<ChunkDigest, (&ArchiveFile, &StoredChunk)>::new();
        let mut all = 0;
        for (file, chunk) in
            files.iter().flat_map(|file| file.table.chunks.iter().map(move |chunk| (file, chunk)))
        {
            all += 1;
            if needed.is_needed(sha256, chunk) {
                chunks.entry(chunk.digest).or_insert((file, chunk));
            }
        }
        let kept_bytes: u64 = chunks.values().map(|(_, chunk)| u64::from(chunk.compressed_bytes)).sum();
        freed_bytes += before_bytes.saturating_sub(kept_bytes);
        let is_unchanged = !is_removed && chunks.len() == all;
        if is_dry_run || is_unchanged {
            continue;
        }
        if !chunks.is_empty() {
            keep_chunks(dir, sha256, chunks.into_values().collect())?;
        }
        let removed = raw.into_iter().chain((kept_bytes == 0).then(|| chunks_path(dir, sha256)));
        removed.into_iter().try_for_each(|path| remove_if_exists(&path))?;
    }
    Ok(freed_bytes)
}

/// Writes the file with the remaining chunks of a payload.
fn keep_chunks(
    dir: &Path,
    sha256: &Sha256Hex,
    mut chunks: Vec<(&ArchiveFile, &StoredChunk)>,
) -> Result<(), StoreError> {
    chunks.sort_unstable_by_key(|(_, chunk)| chunk.digest);
    let (mut out, mut table, mut at, mut bytes) =
        (create_unfinished(dir)?, ChunkTable::default(), 0, Vec::new());
    for (file, chunk) in chunks {
        if unless_damaged(file.read_compressed(chunk, &mut bytes))?.is_none() {
            // the payloads that need it are damaged already
            continue;
        }
        out.write_all(&bytes).map_err(|source| StoreError::write_error(out.path(), source))?;
        table.chunks.push(chunk.moved_to(at));
        at += bytes.len() as u64;
    }
    seal(&mut out, &table, 0, sha256)?;
    let path = chunks_path(dir, sha256);
    out.persist(&path).map_err(|refused| StoreError::write_error(&path, refused.error))?;
    sync_dir(dir)
}

/// The result of a read; `None` if the file is missing or damaged. Other errors are returned, since the file may be
/// readable later.
fn unless_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(StoreError::SourceFile { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// The owner of the files of all sources. Errors that would name it are not reported.
fn owner() -> FileOwner {
    FileOwner::new(&"archive".parse().expect("a valid id"), SourceFileKind::Payload)
}

fn remove_if_exists(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(StoreError::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
