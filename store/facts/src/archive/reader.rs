//! Reads payloads of the archive, completely or in part.

use super::file::ArchiveFile;
use super::{chunks_path, path};
use crate::file_end::FileOwner;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use store_base::error::StoreError;

/// The longest result of [`ArchivedPayload::slice`], in bytes.
pub const MAX_SLICE_BYTES: u64 = 16 << 20;

/// A payload in the archive. Any number of threads can read it; a clone reads the same payload.
#[derive(Debug, Clone)]
pub struct ArchivedPayload {
    inner: Arc<SharedArchivedPayload>,
}

#[derive(Debug)]
struct SharedArchivedPayload {
    sha256: Sha256Hex,
    /// Its own file, and the other files that have chunks of it.
    own: Arc<ArchiveFile>,
    pieces: Vec<PayloadPiece>,
}

/// A chunk at its place in the payload.
#[derive(Debug, Clone)]
pub(super) struct PayloadPiece {
    pub(super) file: Arc<ArchiveFile>,
    /// The number of the chunk in its file.
    pub(super) chunk: u32,
    /// The payload whose file it is.
    pub(super) of: Option<Sha256Hex>,
    /// The offset of its end in the payload.
    end: u64,
}

/// The files with the chunks of another payload: the payload's own, and the one with the chunks that a removal kept.
pub(super) struct OtherFiles {
    files: Vec<Arc<ArchiveFile>>,
    /// Why a file cannot be used.
    fault: Option<StoreError>,
}

impl OtherFiles {
    pub(super) fn open(dir: &Path, sha256: &Sha256Hex, owner: &FileOwner) -> Self {
        let (mut files, mut fault) = (Vec::new(), None);
        // a removal writes the second file before it removes the first one
        for path in [path(dir, sha256), chunks_path(dir, sha256)] {
            match ArchiveFile::open(&path, sha256, owner) {
                Ok(file) => files.push(Arc::new(file)),
                Err(error) if path.exists() => fault = Some(error),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        Self { files, fault }
    }

    /// The file that has a chunk, and the number of the chunk in it.
    pub(super) fn find(&self, digest: &crate::archive::ChunkDigest) -> Option<(&Arc<ArchiveFile>, u32)> {
        self.files.iter().find_map(|file| Some((file, file.find(digest)?)))
    }
}

impl ArchivedPayload {
    /// Opens the payload with the digest `sha256` in the archive directory `dir` of `owner`. Reads and checks the indexes
    /// of its file and of the other files that have chunks of it.
    ///
    /// # Errors
    /// `SourceFile` if the file is missing or truncated, its index or footer is damaged, or a chunk is missing; `Io` if
    /// it cannot be read; `Newer` if another version wrote it.
    pub fn open(dir: &Path, sha256: &Sha256Hex, owner: &FileOwner) -> Result<Self, StoreError> {
        let own = Arc::new(ArchiveFile::open(&path(dir, sha256), sha256, owner)?);
        let others: Vec<_> =
            own.table.others.iter().map(|other| OtherFiles::open(dir, other, owner)).collect();
        let (mut pieces, mut end) = (Vec::with_capacity(own.table.list.len()), 0_u64);
        for listed in &own.table.list {
            let other = (listed.file as usize).checked_sub(1);
            let files = other.and_then(|other| others.get(other));
            let found = match other {
                None => own.find(&listed.digest).map(|chunk| (&own, chunk)),
                Some(_) => files.and_then(|files| files.find(&listed.digest)),
            };
            let found = found.and_then(|(file, chunk)| Some((file, chunk, file.chunk(chunk)?)));
            let Some((file, chunk, stored)) = found else {
                let fault = files.and_then(|files| files.fault.as_ref());
                let why = match fault {
                    // the error itself has the remedy
                    Some(StoreError::SourceFile { path, fault, .. }) => format!("{} {fault}", path.display()),
                    Some(other) => other.to_string(),
                    None => "it is not in its file".to_owned(),
                };
                return Err(own.file.damage_error_at(0, &format!("a chunk of it is missing: {why}")));
            };
            end += u64::from(stored.len_bytes);
            let of = other.and_then(|other| own.table.others.get(other).cloned());
            pieces.push(PayloadPiece { file: Arc::clone(file), chunk, of, end });
        }
        if end != own.payload_bytes {
            return Err(own.file.damage_error_at(0, "its list does not fit its length"));
        }
        Ok(Self { inner: Arc::new(SharedArchivedPayload { sha256: sha256.clone(), own, pieces }) })
    }

    /// The length of the uncompressed payload, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inner.own.payload_bytes
    }

    /// A reader of the whole payload.
    #[must_use]
    pub fn reader(&self) -> ArchiveReader {
        let archive = self.clone();
        ArchiveReader { archive, next_piece: 0, compressed: Vec::new(), piece: Vec::new(), at: 0 }
    }

    pub(super) fn pieces(&self) -> &[PayloadPiece] {
        &self.inner.pieces
    }

    /// A raw record: `len_bytes` bytes of the uncompressed payload, from offset `at`.
    ///
    /// # Errors
    /// `TooLarge` if `len_bytes` exceeds [`MAX_SLICE_BYTES`]; `SourceFile` if a chunk is damaged, or the payload is
    /// shorter; `Io` if it cannot be read.
    pub fn slice(&self, at: u64, len_bytes: u64) -> Result<Vec<u8>, StoreError> {
        if len_bytes > MAX_SLICE_BYTES {
            let (what, max_bytes) = ("a piece of a payload", MAX_SLICE_BYTES);
            return Err(StoreError::TooLarge { what, size_bytes: len_bytes, max_bytes });
        }
        let size_bytes = self.size_bytes();
        if at.checked_add(len_bytes).is_none_or(|end| end > size_bytes) {
            let what = format!(
                "the payload has {size_bytes} bytes, and {len_bytes} from byte {at} on are requested"
            );
            return Err(self.inner.own.file.damage_error_at(0, &what));
        }
        let (mut slice, mut compressed) = (Vec::new(), Vec::new());
        let mut number = self.inner.pieces.partition_point(|piece| piece.end <= at);
        let before = number.checked_sub(1).and_then(|before| self.inner.pieces.get(before));
        let mut from = usize::try_from(at - before.map_or(0, |before| before.end)).unwrap_or(usize::MAX);
        while (slice.len() as u64) < len_bytes {
            let piece = self.read_piece(number, &mut compressed)?;
            let missing = usize::try_from(len_bytes).unwrap_or(usize::MAX) - slice.len();
            let found = piece.get(from..).unwrap_or_default();
            slice.extend_from_slice(found.get(..missing).unwrap_or(found));
            (number, from) = (number + 1, 0);
        }
        Ok(slice)
    }

    /// Reads the whole payload again and checks it against the SHA-256 in its name.
    ///
    /// # Errors
    /// `SourceFile` with the file and the offset of the first damaged chunk; `Io` if it cannot be read.
    pub fn verify(&self) -> Result<(), StoreError> {
        let SharedArchivedPayload { own, sha256, .. } = self.inner.as_ref();
        let dir = own.file.path().parent().unwrap_or(Path::new(""));
        let archive = Self::open(dir, sha256, own.file.owner())?;
        let mut found = Sha256Stream::default();
        let mut compressed = Vec::new();
        for number in 0..archive.inner.pieces.len() {
            found.push(&archive.read_piece(number, &mut compressed)?);
        }
        let found = found.finish();
        if found != *sha256 {
            let what = format!("the payload's SHA-256 is {found}, which is not its name");
            return Err(own.file.damage_error_at(0, &what));
        }
        Ok(())
    }

    /// Reads the chunk at place `number`, counted from 0; `compressed` is a reused buffer.
    fn read_piece(&self, number: usize, compressed: &mut Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let own = &self.inner.own.file;
        let piece = self.inner.pieces.get(number);
        let piece = piece.ok_or_else(|| own.damage_error_at(0, &format!("there is no chunk {number}")))?;
        let read = piece.file.read_chunk(piece.chunk, compressed);
        read.map_err(|error| match error {
            // the error names the payload that is damaged, and the file
            error @ StoreError::SourceFile { .. } if piece.of.is_some() => {
                own.damage_error_at(0, &format!("a chunk of it is in another file: {error}"))
            }
            error => error,
        })
    }
}

/// Reads a payload from start to end, with one chunk in memory. A damaged chunk is an error of the kind
/// `InvalidData` that contains the [`StoreError`].
#[derive(Debug)]
pub struct ArchiveReader {
    archive: ArchivedPayload,
    next_piece: usize,
    compressed: Vec<u8>,
    piece: Vec<u8>,
    /// The offset in the chunk up to which bytes were returned.
    at: usize,
}

impl Read for ArchiveReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() && self.next_piece < self.archive.inner.pieces.len() {
            let piece = self.archive.read_piece(self.next_piece, &mut self.compressed);
            self.piece = piece.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.next_piece += 1;
            self.at = 0;
        }
        let read = self.piece.get(self.at..).unwrap_or_default().read(into)?;
        self.at += read;
        Ok(read)
    }
}
