//! The archive of raw payloads: each is stored under its SHA-256 and read back byte for byte (RFC-0002, Ingestion
//! Invariants 1).
//!
//! A payload is cut into chunks at places that its content decides ([`cutting`]), so that equal parts of two releases
//! are equal chunks. A chunk is found by its digest. A payload's file has the chunks that no recent payload of its source
//! has, each compressed by zstd on its own, and the list of all its chunks: its own, and those in the files of other
//! payloads. Therefore a release costs what it changed, and a record can be read without the data before it.
//!
//! If a payload is removed whose chunks others need, these chunks stay in a file with the extension `chunks`
//! ([`removal`]).

mod file;
mod reader;
mod removal;
mod writer;

use super::file_end::{FOOTER_BYTES, SealedFormat};
use domain_base::digest::{Sha256Hex, Sha256Stream};
use fastcdc::v2020::FastCDC;
use std::path::{Path, PathBuf};

pub use reader::{ArchiveReader, ArchivedPayload, MAX_SLICE_BYTES};
pub use removal::remove_payloads;
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

#[cfg(test)]
mod tests;
