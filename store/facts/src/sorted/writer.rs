//! Writes a sorted file.

use super::block::{BlockBuilder, check_row};
use super::{FORMAT, SortedFileSummary};
use crate::index::put_piece;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use store_base::disk::sync_dir;
use store_base::error::StoreError;
use tempfile::TempPath;

/// The size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a sorted file row by row. If it is dropped before [`SortedWriter::finish`], it removes the file.
#[derive(Debug)]
pub struct SortedWriter {
    path: TempPath,
    out: BufWriter<File>,
    sha256: Sha256Stream,
    block: BlockBuilder,
    first_key: Vec<u8>,
    index: Vec<u8>,
    rows: u64,
    size_bytes: u64,
}

impl SortedWriter {
    /// Creates the file at `path`, which must not exist.
    ///
    /// # Errors
    /// `Io` if the file exists or cannot be created.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let open = || {
            let file = OpenOptions::new().write(true).create_new(true).open(path)?;
            Ok((TempPath::try_from_path(path)?, file))
        };
        let (path, file) = open().map_err(|source| StoreError::write_error(path, source))?;
        Ok(Self::with_file(path, file))
    }

    pub(super) fn with_file(path: TempPath, file: File) -> Self {
        Self {
            path,
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            sha256: Sha256Stream::default(),
            block: BlockBuilder::default(),
            first_key: Vec::new(),
            index: Vec::new(),
            rows: 0,
            size_bytes: 0,
        }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// `OutOfOrder` if `key` is not greater than the key of the previous row. `TooLarge` if the key exceeds
    /// [`super::MAX_KEY_BYTES`] or the row exceeds [`super::MAX_ROW_BYTES`]. After these errors the file is unchanged.
    /// `Unavailable` or `Io` if the file cannot be written; the caller must then drop the writer.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_row(key, value)?;
        if self.rows > 0 && key <= self.block.last_key() {
            return Err(StoreError::OutOfOrder { path: self.path.to_path_buf(), row: self.rows + 1 });
        }
        if !self.block.fits(key, value) {
            self.write_block()?;
        }
        if self.block.is_empty() {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
        }
        self.block.push(key, value);
        self.rows += 1;
        Ok(())
    }

    /// Writes the last block, the index and the footer, and syncs the file and its name.
    ///
    /// # Errors
    /// `Unavailable` if the disk is full, `Io` for other write errors. The file is then removed.
    pub fn finish(mut self) -> Result<SortedFileSummary, StoreError> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let index = std::mem::take(&mut self.index);
        self.write(&index)?;
        let sha256 = std::mem::take(&mut self.sha256).finish_bytes();
        self.write(&FORMAT.footer(self.rows, &sha256, &index))?;
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|source| StoreError::write_error(&self.path, source))?;
        if let Some(dir) = self.path.parent() {
            sync_dir(dir)?;
        }
        self.path.disable_cleanup(true);
        Ok(SortedFileSummary {
            rows: self.rows,
            size_bytes: self.size_bytes,
            sha256: Sha256Hex::from_bytes(&sha256),
        })
    }

    fn write_block(&mut self) -> Result<(), StoreError> {
        let mut block = std::mem::take(&mut self.block);
        let bytes = block.finish();
        put_piece(&mut self.index, &self.first_key, bytes)?;
        self.write(bytes)?;
        self.block = block;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.out.write_all(bytes).map_err(|source| StoreError::write_error(&self.path, source))?;
        self.sha256.push(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }
}
