//! The archive of raw payloads: each is stored completely, compressed, under its SHA-256 (RFC-0002, Ingestion
//! Invariants 1).
//!
//! A payload is split into frames of 256 KiB, which zstd compresses independently. Therefore a record can be
//! read without the data before it. The index follows the frames: the length and the checksum of each, in a
//! frame that zstd skips. Any zstd decompresses the file to the payload.

mod reader;
mod writer;

pub use reader::{ArchiveReader, ArchivedPayload, MAX_SLICE_BYTES};
pub use writer::{ArchiveWriter, MAX_PAYLOAD_BYTES, PayloadRef};
pub(super) use writer::{is_unfinished, mark_path};

use super::sealed::{FOOTER_BYTES, SealedFormat};
use oracled_domain::Sha256Hex;
use std::path::{Path, PathBuf};

const FORMAT: SealedFormat = SealedFormat { magic: *b"oracledR", version: 2 };
/// Bytes of the payload in a frame; the last frame has fewer.
const FRAME_BYTES: usize = 256 * 1024;
/// The magic number of a frame that zstd skips (RFC 8878, 3.1.2).
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

#[cfg(test)]
mod tests;
