//! Writes a payload to the archive.

use super::{FORMAT, FRAME_BYTES, path, skippable_head};
use crate::base::disk::{FreeSpace, sync_dir};
use crate::base::error::StoreError;
use crate::ground::index::put_piece;
use oracled_domain::{Sha256Hex, Sha256Stream};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use zstd::bulk::Compressor;

/// The prefix of the names of incomplete payloads and of marks ([`mark`]).
const UNFINISHED: &str = "payload-";
/// The longest payload: 1 TiB. Its index takes 32 MiB of memory.
pub const MAX_PAYLOAD_BYTES: u64 = 1 << 40;

/// Receives a payload in pieces. If it is dropped before [`ArchiveWriter::finish`], it leaves no file.
pub struct ArchiveWriter {
    dir: PathBuf,
    file: NamedTempFile,
    compressor: Compressor<'static>,
    sha256: Sha256Stream,
    /// The bytes since the last complete frame.
    frame: Vec<u8>,
    compressed: Vec<u8>,
    index: Vec<u8>,
    size_bytes: u64,
    /// The minimum of free space, if it is checked.
    free: Option<FreeSpace>,
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
pub(in crate::ground) fn mark_path(dir: &Path, sha256: &str) -> PathBuf {
    dir.join(format!("{UNFINISHED}{sha256}"))
}

/// Whether the file at `path` is an incomplete payload or a mark.
pub(in crate::ground) fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
}

impl ArchiveWriter {
    /// Begins a payload in the archive directory `dir`.
    ///
    /// # Errors
    /// `Unavailable` if the disk is full, `Io` if the file cannot be created for another reason.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        let open = || {
            Ok((
                NamedTempFile::with_prefix_in(UNFINISHED, dir)?,
                Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?,
            ))
        };
        let (file, compressor) = open().map_err(|source| StoreError::write_error(dir, source))?;
        Ok(Self::with_file(dir, file, compressor))
    }

    pub(super) fn with_file(dir: &Path, file: NamedTempFile, compressor: Compressor<'static>) -> Self {
        Self {
            dir: dir.to_owned(),
            file,
            compressor,
            sha256: Sha256Stream::default(),
            frame: Vec::with_capacity(FRAME_BYTES),
            compressed: Vec::with_capacity(zstd::zstd_safe::compress_bound(FRAME_BYTES)),
            index: Vec::new(),
            size_bytes: 0,
            free: None,
        }
    }

    /// Appends the next bytes of the payload.
    ///
    /// # Errors
    /// `TooLarge` if the payload exceeds [`MAX_PAYLOAD_BYTES`], `Unavailable` if space is short, `Io` for other write
    /// errors. After an error, the caller must drop the writer.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        let size_bytes = self.size_bytes + bytes.len() as u64;
        if size_bytes > MAX_PAYLOAD_BYTES {
            return Err(StoreError::TooLarge { what: "a payload", size_bytes, max_bytes: MAX_PAYLOAD_BYTES });
        }
        self.size_bytes = size_bytes;
        self.sha256.push(bytes);
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(FRAME_BYTES - self.frame.len()));
            self.frame.extend_from_slice(head);
            bytes = rest;
            if self.frame.len() == FRAME_BYTES {
                self.free.as_ref().map_or(Ok(()), FreeSpace::check)?;
                self.write_frame().map_err(|source| StoreError::write_error(self.file.path(), source))?;
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes, syncs the file, and gives it its name. If the same payload exists already,
    /// the new file replaces it. A new payload has a [`mark`] until a commit names it.
    ///
    /// # Errors
    /// `Unavailable` if space is short, `Io` for other write errors. Afterwards the archive has either no new
    /// file, or the complete payload if only the sync of its name failed.
    pub fn finish(mut self) -> Result<PayloadRef, StoreError> {
        let sha256 = std::mem::take(&mut self.sha256).finish_bytes();
        self.seal(&sha256).map_err(|source| StoreError::write_error(self.file.path(), source))?;
        let archived = PayloadRef { sha256: Sha256Hex::from_bytes(&sha256), size_bytes: self.size_bytes };
        let path = path(&self.dir, &archived.sha256);
        if !path.exists() {
            let mark = mark_path(&self.dir, archived.sha256.as_str());
            File::create(&mark).map_err(|source| StoreError::write_error(&mark, source))?;
        }
        self.file.persist(&path).map_err(|refused| StoreError::write_error(&path, refused.error))?;
        sync_dir(&self.dir)?;
        Ok(archived)
    }

    /// The same writer, with a check of free space: it stops if less than the minimum is free.
    pub(in crate::ground) fn with_free_space(self, free: FreeSpace) -> Self {
        Self { free: Some(free), ..self }
    }

    fn write_frame(&mut self) -> io::Result<()> {
        self.compressed.clear();
        self.compressor.compress_to_buffer(&self.frame, &mut self.compressed)?;
        self.file.write_all(&self.compressed)?;
        self.frame.clear();
        put_piece(&mut self.index, b"", &self.compressed).map_err(io::Error::other)
    }

    fn seal(&mut self, sha256: &[u8; 32]) -> io::Result<()> {
        if !self.frame.is_empty() {
            self.write_frame()?;
        }
        self.file.write_all(&skippable_head(self.index.len()))?;
        self.file.write_all(&self.index)?;
        self.file.write_all(&FORMAT.footer(self.size_bytes, sha256, &self.index))?;
        self.file.as_file().sync_all()
    }
}
