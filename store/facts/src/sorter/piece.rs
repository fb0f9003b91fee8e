//! A sorted piece in an unnamed file. Each row is stored after the lengths of its key and its value.

use crate::sorted::{BorrowedRow, MAX_ROW_BYTES, RowSource};
use crc32fast::Hasher;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use store_base::error::StoreError;

/// The size of the buffers for reading and writing, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// A complete piece.
#[derive(Debug)]
pub(super) struct SortPiece {
    dir: PathBuf,
    file: File,
    rows: u64,
    crc: u32,
}

/// The rows of a piece in their order. If the file was changed on the disk, an error follows the last row.
#[derive(Debug)]
pub struct SortPieceRows {
    dir: PathBuf,
    input: BufReader<File>,
    rows_left: u64,
    crc: u32,
    hasher: Hasher,
    row: Vec<u8>,
    /// The length of the key at the start of the row; `None` before the first row and after the last one.
    key_bytes: Option<usize>,
}

impl SortPiece {
    /// Writes `rows` to an unnamed file in `dir`.
    pub(super) fn write(dir: &Path, rows: &mut impl RowSource) -> Result<Self, StoreError> {
        let file = tempfile::tempfile_in(dir).map_err(|source| StoreError::write_error(dir, source))?;
        Self::write_to(dir, file, rows)
    }

    pub(super) fn write_to(dir: &Path, file: File, rows: &mut impl RowSource) -> Result<Self, StoreError> {
        let unwritten = |source| StoreError::write_error(dir, source);
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let (mut hasher, mut count) = (Hasher::new(), 0);
        loop {
            rows.advance()?;
            let Some((key, value)) = rows.current() else { break };
            // both fit: the row was checked
            let lens = [key.len() as u32, value.len() as u32].map(u32::to_be_bytes);
            for part in [lens.as_flattened(), key, value] {
                hasher.update(part);
                out.write_all(part).map_err(unwritten)?;
            }
            count += 1;
        }
        let mut file = out.into_inner().map_err(|error| unwritten(error.into_error()))?;
        file.rewind().map_err(unwritten)?;
        Ok(Self { dir: dir.to_owned(), file, rows: count, crc: hasher.finalize() })
    }

    /// Reads the rows.
    pub(super) fn rows(self) -> SortPieceRows {
        let Self { dir, file, rows: rows_left, crc } = self;
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        SortPieceRows { dir, input, rows_left, crc, hasher: Hasher::new(), row: Vec::new(), key_bytes: None }
    }
}

impl SortPieceRows {
    fn step(&mut self) -> io::Result<()> {
        let changed = || {
            let text = "a temporary file of a sort has changed on the disk";
            io::Error::new(ErrorKind::InvalidData, text)
        };
        self.key_bytes = None;
        if self.rows_left == 0 {
            let is_whole = self.hasher.clone().finalize() == self.crc;
            return if is_whole { Ok(()) } else { Err(changed()) };
        }
        let mut lens = [[0; 4]; 2];
        self.input.read_exact(lens.as_flattened_mut())?;
        let [key_bytes, value_bytes] = lens.map(|len| u32::from_be_bytes(len) as usize);
        if key_bytes + value_bytes > MAX_ROW_BYTES {
            return Err(changed());
        }
        self.row.resize(key_bytes + value_bytes, 0);
        self.input.read_exact(&mut self.row)?;
        self.hasher.update(lens.as_flattened());
        self.hasher.update(&self.row);
        self.rows_left -= 1;
        self.key_bytes = Some(key_bytes);
        Ok(())
    }
}

impl RowSource for SortPieceRows {
    fn advance(&mut self) -> Result<(), StoreError> {
        self.step().map_err(|source| StoreError::Io { path: self.dir.clone(), source })
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        self.row.split_at_checked(self.key_bytes?)
    }
}
