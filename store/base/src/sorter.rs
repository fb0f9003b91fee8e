//! Sorts rows by key with limited memory.
//!
//! Rows that do not fit into memory are sorted and written to unnamed files, called pieces. The system
//! removes such a file when it is closed, even if the process is killed. Pieces are merged, so that their
//! number stays small.

use crate::error::StoreError;
use crate::ordered_rows::{BorrowedRow, MAX_ROW_BYTES, RowMerge, RowSource, check_row};
use crc32fast::Hasher;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The number of pieces that are merged at a time.
const FAN_IN: usize = 16;
/// The upper limit of a sort's memory, regardless of the given limit.
const MAX_MEMORY_BYTES: usize = 1 << 30;

/// A row in memory: its key is at offset `at`, followed by its value.
#[derive(Debug, Clone, Copy)]
struct RowPosition {
    /// The first 8 bytes of the key after the prefix that all keys share; set by the sort. They decide most
    /// comparisons.
    head: u64,
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// The memory of a `RowPosition`, three times: while the list grows, it is copied to one of double the length.
const ROW_POSITION_BYTES: usize = 3 * size_of::<RowPosition>();

/// Sorts rows by their keys. Rows with equal keys stay in the order of their insertion.
///
/// The memory limit covers the bytes of all keys and values in memory, and 72 bytes for each row. In addition, the sort
/// needs a buffer and a row for each of at most 16 pieces that are merged. A row that is longer than the limit is held
/// alone.
#[derive(Debug)]
pub struct RowSorter {
    dir: PathBuf,
    memory_bytes: usize,
    held: MemoryRows,
    /// The pieces in the order of their rows, each with the number of times its rows were merged.
    pieces: Vec<(u32, SortPiece)>,
}

#[derive(Debug, Default)]
pub struct MemoryRows {
    bytes: Vec<u8>,
    positions: Vec<RowPosition>,
    /// The number of rows that were read.
    read_rows: usize,
}

impl RowSorter {
    /// Sorts within `memory_bytes`, at most 1 GiB. Rows that do not fit are written to unnamed files in `dir`.
    #[must_use]
    pub fn new(dir: &Path, memory_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.min(MAX_MEMORY_BYTES);
        // reserved memory that is not touched costs nothing, and growing would need twice the memory
        let held = MemoryRows { bytes: Vec::with_capacity(memory_bytes), ..MemoryRows::default() };
        Self { dir: dir.to_owned(), memory_bytes, held, pieces: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `TooLarge` if the row exceeds [`MAX_ROW_BYTES`]; the row is not added. `Unavailable` or `Io`
    /// if rows cannot be written to the disk; rows are then lost, and the caller must drop the sorter.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_row(key, value)?;
        let row_bytes = key.len() + value.len();
        let held_bytes = self.held.bytes.len() + self.held.positions.len() * ROW_POSITION_BYTES;
        if !self.held.positions.is_empty() && held_bytes + row_bytes + ROW_POSITION_BYTES > self.memory_bytes
        {
            self.spill()?;
        }
        let MemoryRows { bytes, positions, .. } = &mut self.held;
        // both fit: the row was checked
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        positions.push(RowPosition { head: 0, at: bytes.len(), key_bytes, value_bytes });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(())
    }

    /// The rows in key order.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if rows cannot be written to the disk.
    pub fn finish(mut self) -> Result<SorterOutput, StoreError> {
        if self.pieces.is_empty() {
            self.held.sort();
            return Ok(SorterOutput::Held(self.held));
        }
        if !self.held.positions.is_empty() {
            self.spill()?;
        }
        self.held = MemoryRows::default();
        while self.pieces.len() > FAN_IN {
            self.merge_last(u32::MAX)?;
        }
        Ok(SorterOutput::Merged(merge(self.pieces)))
    }

    /// Writes the rows in memory to a piece.
    fn spill(&mut self) -> Result<(), StoreError> {
        self.held.sort();
        self.pieces.push((0, SortPiece::write(&self.dir, &mut self.held)?));
        let MemoryRows { bytes, positions, read_rows: passed } = &mut self.held;
        bytes.clear();
        // free the extra memory of a row that was longer than the limit
        bytes.shrink_to(self.memory_bytes);
        positions.clear();
        *passed = 0;
        while let Some(level) = self.full_level() {
            self.merge_last(level + 1)?;
        }
        Ok(())
    }

    /// The level of the last pieces if enough of them have the same level to be merged.
    fn full_level(&self) -> Option<u32> {
        let (last, _) = self.pieces.last()?;
        let of_level = self.pieces.iter().rev().take_while(|(level, _)| level == last).count();
        (of_level >= FAN_IN).then_some(*last)
    }

    /// Merges the last pieces into one piece of `level`.
    fn merge_last(&mut self, level: u32) -> Result<(), StoreError> {
        let last = self.pieces.split_off(self.pieces.len().saturating_sub(FAN_IN));
        self.pieces.push((level, SortPiece::write(&self.dir, &mut merge(last))?));
        Ok(())
    }
}

impl MemoryRows {
    fn sort(&mut self) {
        let bytes = self.bytes.as_slice();
        let first = self.positions.first().map_or(&[][..], |first| key(bytes, first));
        let shared = self.positions.iter().fold(first.len(), |shared, position| {
            let both = first.iter().zip(key(bytes, position)).take(shared);
            both.take_while(|(one, other)| one == other).count()
        });
        for position in &mut self.positions {
            position.head = head(key(bytes, position).get(shared..).unwrap_or_default());
        }
        // rows with equal keys keep their order of insertion
        self.positions.sort_unstable_by(|one, other| {
            one.head
                .cmp(&other.head)
                .then_with(|| (key(bytes, one), one.at).cmp(&(key(bytes, other), other.at)))
        });
    }
}

impl RowSource for MemoryRows {
    fn advance(&mut self) -> Result<(), StoreError> {
        self.read_rows = self.positions.len().min(self.read_rows) + 1;
        Ok(())
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        let position = self.positions.get(self.read_rows.checked_sub(1)?)?;
        let key = key(&self.bytes, position);
        let value_at = position.at + key.len();
        Some((key, self.bytes.get(value_at..value_at + position.value_bytes as usize)?))
    }
}

fn merge(pieces: Vec<(u32, SortPiece)>) -> RowMerge<SortPieceRows> {
    RowMerge::new(pieces.into_iter().map(|(_, piece)| piece.rows()).collect())
}

/// The first 8 bytes of a key as a number in key order, padded with zeros. Keys with equal numbers need a
/// full comparison.
fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
    u64::from_be_bytes(head)
}

fn key<'b>(bytes: &'b [u8], position: &RowPosition) -> &'b [u8] {
    bytes.get(position.at..position.at + position.key_bytes as usize).unwrap_or_default()
}

/// Rows in key order; rows with equal keys are in the order of their insertion.
#[derive(Debug)]
pub enum SorterOutput {
    /// All rows are in memory.
    Held(MemoryRows),
    /// The rows are in pieces.
    Merged(RowMerge<SortPieceRows>),
}

impl RowSource for SorterOutput {
    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Held(rows) => rows.advance(),
            Self::Merged(rows) => rows.advance(),
        }
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        match self {
            Self::Held(rows) => rows.current(),
            Self::Merged(rows) => rows.current(),
        }
    }
}

/// The size of the buffers for reading and writing, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// A complete piece.
#[derive(Debug)]
struct SortPiece {
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
    fn write(dir: &Path, rows: &mut impl RowSource) -> Result<Self, StoreError> {
        let file = tempfile::tempfile_in(dir).map_err(|source| StoreError::write_error(dir, source))?;
        Self::write_to(dir, file, rows)
    }

    fn write_to(dir: &Path, file: File, rows: &mut impl RowSource) -> Result<Self, StoreError> {
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
    fn rows(self) -> SortPieceRows {
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

#[cfg(test)]
mod tests;
