//! Reads payloads of the archive, completely or in part.

use super::{FORMAT, FRAME_BYTES, SKIPPABLE_HEAD_BYTES, path, skippable_head};
use crate::base::error::StoreError;
use crate::ground::index::FileIndex;
use crate::ground::sealed::{FileOwner, SealedFile, SealedFooter};
use oracled_domain::{Sha256Hex, Sha256Stream};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// The longest result of [`ArchivedPayload::slice`], in bytes.
pub const MAX_SLICE_BYTES: u64 = 16 << 20;

/// A payload in the archive. Any number of threads can read it; a clone reads the same payload.
#[derive(Debug, Clone)]
pub struct ArchivedPayload {
    inner: Arc<SharedArchivedPayload>,
}

#[derive(Debug)]
struct SharedArchivedPayload {
    file: SealedFile,
    sha256: Sha256Hex,
    /// The positions of its frames.
    index: FileIndex,
    size_bytes: u64,
}

impl ArchivedPayload {
    /// Opens the payload with the digest `sha256` in the archive directory `dir` of `owner`. Reads and checks
    /// its index.
    ///
    /// # Errors
    /// `SourceFile` if the file is missing or truncated, or its index or footer is damaged; `Io` if it cannot be read;
    /// `Newer` if another version wrote it.
    pub fn open(dir: &Path, sha256: &Sha256Hex, owner: &FileOwner) -> Result<Self, StoreError> {
        let file = SealedFile::open(&path(dir, sha256), owner)?;
        let (SealedFooter { count: size_bytes, sha256: found, index_at, .. }, index) =
            file.read_index_and_footer(&FORMAT)?;
        if found != *sha256 {
            return Err(file.digest_mismatch_error(&found));
        }
        let damaged = |what| file.damage_error_at(index_at, what);
        let end = index_at.saturating_sub(SKIPPABLE_HEAD_BYTES);
        let expected_head = skippable_head(index.len());
        let index =
            FileIndex::read(index, end).ok_or_else(|| damaged("its index does not fit its frames"))?;
        if index.piece_positions().len() as u64 != size_bytes.div_ceil(FRAME_BYTES as u64) {
            return Err(damaged("its index does not fit its length"));
        }
        let mut head = Vec::new();
        file.read(end, SKIPPABLE_HEAD_BYTES, &mut head)?;
        if head != expected_head {
            return Err(file.damage_error_at(end, "the bytes before its index are wrong"));
        }
        Ok(Self {
            inner: Arc::new(SharedArchivedPayload { file, sha256: sha256.clone(), index, size_bytes }),
        })
    }

    /// The length of the uncompressed payload, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inner.size_bytes
    }

    /// A reader of the whole payload.
    #[must_use]
    pub fn reader(&self) -> ArchiveReader {
        let archive = self.clone();
        ArchiveReader { archive, next_frame: 0, compressed: Vec::new(), frame: Vec::new(), at: 0 }
    }

    /// A raw record: `len_bytes` bytes of the uncompressed payload, from offset `at`.
    ///
    /// # Errors
    /// `TooLarge` if `len_bytes` exceeds [`MAX_SLICE_BYTES`]; `SourceFile` if a frame is damaged, or the payload is
    /// shorter; `Io` if it cannot be read.
    pub fn slice(&self, at: u64, len_bytes: u64) -> Result<Vec<u8>, StoreError> {
        if len_bytes > MAX_SLICE_BYTES {
            let (what, max_bytes) = ("a piece of a payload", MAX_SLICE_BYTES);
            return Err(StoreError::TooLarge { what, size_bytes: len_bytes, max_bytes });
        }
        if at.checked_add(len_bytes).is_none_or(|end| end > self.inner.size_bytes) {
            let what = format!(
                "the payload has {} bytes, and {len_bytes} from byte {at} on are requested",
                self.inner.size_bytes
            );
            return Err(self.inner.file.damage_error_at(0, &what));
        }
        let mut slice = Vec::new();
        let mut compressed = Vec::new();
        let (mut number, mut from) = frame_of(at);
        while (slice.len() as u64) < len_bytes {
            let frame = self.read_frame(number, &mut compressed)?;
            let missing = usize::try_from(len_bytes).unwrap_or(usize::MAX) - slice.len();
            let found = frame.get(from..).unwrap_or_default();
            slice.extend_from_slice(found.get(..missing).unwrap_or(found));
            (number, from) = (number + 1, 0);
        }
        Ok(slice)
    }

    /// Reads the whole file again and checks it against the SHA-256 in its name.
    ///
    /// # Errors
    /// `SourceFile` with the file and the offset of the first damaged frame; `Io` if it cannot be read.
    pub fn verify(&self) -> Result<(), StoreError> {
        let SharedArchivedPayload { file, sha256, .. } = self.inner.as_ref();
        let dir = file.path().parent().unwrap_or(Path::new(""));
        let archive = Self::open(dir, sha256, file.owner())?;
        let mut found = Sha256Stream::default();
        let mut compressed = Vec::new();
        for number in 0..archive.inner.index.piece_positions().len() {
            found.push(&archive.read_frame(number, &mut compressed)?);
        }
        let found = found.finish();
        if found != *sha256 {
            return Err(
                file.damage_error_at(0, &format!("the payload's SHA-256 is {found}, which is not its name"))
            );
        }
        Ok(())
    }

    /// Reads the frame `number`, counted from 0; `compressed` is a reused buffer.
    fn read_frame(&self, number: usize, compressed: &mut Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let SharedArchivedPayload { file, index, size_bytes, .. } = self.inner.as_ref();
        let position = index
            .piece_position(number)
            .ok_or_else(|| file.damage_error_at(0, &format!("there is no frame {number}")))?;
        file.read_checked(position.at, position.len_bytes.into(), position.crc, compressed)?;
        let before_bytes = number as u64 * FRAME_BYTES as u64;
        let len_bytes = size_bytes.saturating_sub(before_bytes).min(FRAME_BYTES as u64);
        // the limit bounds the memory, even if a damaged frame declares another size
        match zstd::bulk::decompress(compressed, FRAME_BYTES) {
            Ok(frame) if frame.len() as u64 == len_bytes => Ok(frame),
            Ok(frame) => {
                let what = format!("a frame holds {} bytes, and should hold {len_bytes}", frame.len());
                Err(file.damage_error_at(position.at, &what))
            }
            Err(error) => {
                Err(file.damage_error_at(position.at, &format!("a frame does not decompress: {error}")))
            }
        }
    }
}

/// Reads a payload from start to end, with one frame in memory. A damaged frame is an error of the kind
/// `InvalidData` that contains the [`StoreError`].
#[derive(Debug)]
pub struct ArchiveReader {
    archive: ArchivedPayload,
    next_frame: usize,
    compressed: Vec<u8>,
    frame: Vec<u8>,
    /// The offset in the frame up to which bytes were returned.
    at: usize,
}

impl Read for ArchiveReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.frame.len() && self.next_frame < self.archive.inner.index.piece_positions().len() {
            let frame = self.archive.read_frame(self.next_frame, &mut self.compressed);
            self.frame = frame.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.next_frame += 1;
            self.at = 0;
        }
        let read = self.frame.get(self.at..).unwrap_or_default().read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// The number of the frame that contains byte `at` of the payload, and the offset in that frame.
fn frame_of(at: u64) -> (usize, usize) {
    let frame_bytes = FRAME_BYTES as u64;
    ((at / frame_bytes) as usize, (at % frame_bytes) as usize)
}
