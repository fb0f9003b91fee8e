//! A file of the archive: its chunks, and the list of the chunks of its payload.
//!
//! The index has the chunks in the file, the names of the other files, and the list:
//!
//! ```text
//! count of chunks | digest (16), length, compressed length, CRC-32 (4) of each
//! | count of other files | SHA-256 of each, as text
//! | number of the file (0: this one), count of chunks, digest (16) of each | …
//! ```
//!
//! Numbers are in base 128 (`varint` of the domain).

use super::{FORMAT, SKIPPABLE_HEAD_BYTES, skippable_head};
use crate::archive::{CHUNK_MAX_BYTES, ChunkDigest};
use crate::file_end::{FileOwner, MAX_INDEX_BYTES, SealedFile, SealedFooter};
use domain_base::digest::Sha256Hex;
use domain_base::varint::{put, put_part, take, take_part};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use store_base::error::StoreError;
use tempfile::NamedTempFile;

/// The prefix of the names of incomplete payloads and of marks.
pub(super) const UNFINISHED: &str = "payload-";

/// A chunk in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredChunk {
    pub(super) digest: ChunkDigest,
    /// Its uncompressed length.
    pub(super) len_bytes: u32,
    pub(super) compressed_bytes: u32,
    crc: u32,
    /// The offset in the file.
    at: u64,
}

/// A chunk of a payload, and the number of the file that has it: 0 for the payload's own, or one more than the index
/// among the other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListedChunk {
    pub(super) file: u32,
    pub(super) digest: ChunkDigest,
}

/// The index of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChunkTable {
    /// The chunks in the file, in their order.
    pub(super) chunks: Vec<StoredChunk>,
    /// The other files that have chunks of the payload.
    pub(super) others: Vec<Sha256Hex>,
    /// The chunks of the payload, in their order.
    pub(super) list: Vec<ListedChunk>,
}

impl ChunkTable {
    /// Adds a chunk that is written at the end of the file.
    pub(super) fn add(&mut self, digest: ChunkDigest, len_bytes: usize, compressed: &[u8], at: u64) {
        // a chunk is far below 4 GiB
        let (len_bytes, compressed_bytes) = (len_bytes as u32, compressed.len() as u32);
        let crc = crc32fast::hash(compressed);
        self.chunks.push(StoredChunk { digest, len_bytes, compressed_bytes, crc, at });
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.chunks.len() as u64);
        for chunk in &self.chunks {
            bytes.extend_from_slice(&chunk.digest);
            put(&mut bytes, chunk.len_bytes.into());
            put(&mut bytes, chunk.compressed_bytes.into());
            bytes.extend_from_slice(&chunk.crc.to_be_bytes());
        }
        put(&mut bytes, self.others.len() as u64);
        self.others.iter().for_each(|other| put_part(&mut bytes, other.as_str().as_bytes()));
        for series in self.list.chunk_by(|one, next| one.file == next.file) {
            put(&mut bytes, series.first().map_or(0, |first| first.file.into()));
            put(&mut bytes, series.len() as u64);
            series.iter().for_each(|chunk| bytes.extend_from_slice(&chunk.digest));
        }
        let (size_bytes, max_bytes) = (bytes.len() as u64, MAX_INDEX_BYTES);
        if size_bytes > max_bytes {
            return Err(StoreError::TooLarge { what: "the list of a payload", size_bytes, max_bytes });
        }
        Ok(bytes)
    }

    /// Parses the index of a file whose chunks have a total length of `data_bytes`; `None` if it is invalid.
    fn read(mut bytes: &[u8], data_bytes: u64) -> Option<Self> {
        let (bytes, mut table, mut at) = (&mut bytes, Self::default(), 0_u64);
        for _ in 0..take(bytes)? {
            let digest = *bytes.split_off(..16)?.first_chunk()?;
            let [len_bytes, compressed_bytes] = [take_len(bytes)?, take_len(bytes)?];
            let crc = u32::from_be_bytes(*bytes.split_off(..4)?.first_chunk()?);
            table.chunks.push(StoredChunk { digest, len_bytes, compressed_bytes, crc, at });
            at += u64::from(compressed_bytes);
        }
        for _ in 0..take(bytes)? {
            table.others.push(str::from_utf8(take_part(bytes)?).ok()?.parse().ok()?);
        }
        while !bytes.is_empty() {
            let file = u32::try_from(take(bytes)?).ok()?;
            for _ in 0..take(bytes)? {
                table.list.push(ListedChunk { file, digest: *bytes.split_off(..16)?.first_chunk()? });
            }
        }
        let names_others = |chunk: &ListedChunk| chunk.file as usize <= table.others.len();
        (at == data_bytes && table.list.iter().all(names_others)).then_some(table)
    }
}

/// Takes the length of a chunk off the start.
fn take_len(bytes: &mut &[u8]) -> Option<u32> {
    let len = take(bytes)?;
    let max = zstd::zstd_safe::compress_bound(CHUNK_MAX_BYTES) as u64;
    u32::try_from(len).ok().filter(|_| len <= max)
}

/// An open file of the archive.
#[derive(Debug)]
pub(super) struct ArchiveFile {
    pub(super) file: SealedFile,
    pub(super) table: ChunkTable,
    /// The length and the SHA-256 of the payload.
    pub(super) payload_bytes: u64,
    by_digest: HashMap<ChunkDigest, u32>,
}

impl ArchiveFile {
    /// Opens the file at `path` of the payload `sha256`. Reads and checks its index.
    pub(super) fn open(path: &Path, sha256: &Sha256Hex, owner: &FileOwner) -> Result<Self, StoreError> {
        let file = SealedFile::open(path, owner)?;
        let (SealedFooter { count: payload_bytes, sha256: found, index_at, .. }, index) =
            file.read_index_and_footer(&FORMAT)?;
        if found != *sha256 {
            return Err(file.digest_mismatch_error(&found));
        }
        let end = index_at.saturating_sub(SKIPPABLE_HEAD_BYTES);
        let table = ChunkTable::read(&index, end)
            .ok_or_else(|| file.damage_error_at(index_at, "its index does not fit its chunks"))?;
        let mut head = Vec::new();
        file.read(end, SKIPPABLE_HEAD_BYTES, &mut head)?;
        if head != skippable_head(index.len()) {
            return Err(file.damage_error_at(end, "the bytes before its index are wrong"));
        }
        let by_digest = (0..).zip(&table.chunks).map(|(number, chunk)| (chunk.digest, number)).collect();
        Ok(Self { file, table, payload_bytes, by_digest })
    }

    /// The number of the chunk with this digest.
    pub(super) fn find(&self, digest: &ChunkDigest) -> Option<u32> {
        self.by_digest.get(digest).copied()
    }

    pub(super) fn chunk(&self, number: u32) -> Option<&StoredChunk> {
        self.table.chunks.get(number as usize)
    }

    /// Reads a chunk. `compressed` is a reused buffer.
    pub(super) fn read_chunk(&self, number: u32, compressed: &mut Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let file = &self.file;
        let chunk = self.chunk(number);
        let chunk = chunk.ok_or_else(|| file.damage_error_at(0, &format!("there is no chunk {number}")))?;
        file.read_checked(chunk.at, chunk.compressed_bytes.into(), chunk.crc, compressed)?;
        // the limit bounds the memory, even if a damaged chunk declares another size
        let max_bytes = (chunk.len_bytes as usize).min(CHUNK_MAX_BYTES);
        match zstd::bulk::decompress(compressed, max_bytes) {
            Ok(bytes) if bytes.len() == chunk.len_bytes as usize => Ok(bytes),
            Ok(bytes) => {
                let what =
                    format!("a chunk holds {} bytes, and should hold {}", bytes.len(), chunk.len_bytes);
                Err(file.damage_error_at(chunk.at, &what))
            }
            Err(error) => {
                Err(file.damage_error_at(chunk.at, &format!("a chunk does not decompress: {error}")))
            }
        }
    }

    /// The compressed bytes of a chunk, without a check: damage stays visible, since the checksum is kept.
    pub(super) fn read_compressed(&self, chunk: &StoredChunk, into: &mut Vec<u8>) -> Result<(), StoreError> {
        self.file.read(chunk.at, chunk.compressed_bytes.into(), into)
    }
}

impl StoredChunk {
    /// The same chunk at another offset.
    pub(super) const fn moved_to(self, at: u64) -> Self {
        Self { at, ..self }
    }
}

/// Creates an incomplete file in the archive directory.
pub(super) fn create_unfinished(dir: &Path) -> Result<NamedTempFile, StoreError> {
    NamedTempFile::with_prefix_in(UNFINISHED, dir).map_err(|source| StoreError::write_error(dir, source))
}

/// Writes the end of a file, and syncs it.
pub(super) fn seal(
    file: &mut NamedTempFile,
    table: &ChunkTable,
    payload_bytes: u64,
    sha256: &Sha256Hex,
) -> Result<(), StoreError> {
    let index = table.to_bytes()?;
    let mut write = || {
        file.write_all(&skippable_head(index.len()))?;
        file.write_all(&index)?;
        file.write_all(&FORMAT.footer(payload_bytes, &sha256.to_bytes(), &index))?;
        file.as_file().sync_all()
    };
    let written = write();
    written.map_err(|source| StoreError::write_error(file.path(), source))
}
