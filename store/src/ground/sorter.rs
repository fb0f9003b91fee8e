//! Sorts rows by key with limited memory.
//!
//! Rows that do not fit into memory are sorted and written to unnamed files, called pieces. The system removes such a file
//! when it is closed, even if the process is killed. Pieces are merged, so that their number stays small.

mod piece;

use crate::base::error::StoreError;
use crate::ground::sorted::{LentRow, Merge, RowSource, check_row};
use piece::{Piece, PieceRows};
use std::path::{Path, PathBuf};

/// The number of pieces that are merged at a time.
const FAN_IN: usize = 16;
/// The upper limit of a sort's memory, regardless of the given limit.
const MAX_MEMORY_BYTES: usize = 1 << 30;

/// A row in memory: its key is at offset `at`, followed by its value.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The first 8 bytes of the key after the prefix that all keys share; set by the sort. They decide most comparisons.
    head: u64,
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// The memory of a `Place`, three times: while the list grows, it is copied to one of double the length.
const PLACE_BYTES: usize = 3 * size_of::<Place>();

/// Sorts rows by their keys. Rows with equal keys stay in the order of their insertion.
///
/// The memory limit covers the bytes of all keys and values in memory, and 72 bytes for each row. In addition, the sort
/// needs a buffer and a row for each of at most 16 pieces that are merged. A row that is longer than the limit is held
/// alone.
#[derive(Debug)]
pub struct Sorter {
    dir: PathBuf,
    memory_bytes: usize,
    held: Held,
    /// The pieces in the order of their rows, each with the number of times its rows were merged.
    pieces: Vec<(u32, Piece)>,
}

/// Rows in memory.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// The number of rows that were read.
    passed: usize,
}

impl Sorter {
    /// Sorts within `memory_bytes`, at most 1 GiB. Rows that do not fit are written to unnamed files in `dir`.
    #[must_use]
    pub fn new(dir: &Path, memory_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.min(MAX_MEMORY_BYTES);
        // reserved memory that is not touched costs nothing, and growing would need twice the memory
        let held = Held { bytes: Vec::with_capacity(memory_bytes), ..Held::default() };
        Self { dir: dir.to_owned(), memory_bytes, held, pieces: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `TooLarge` if the row exceeds the limits of sorted files; the row is not added. `Unavailable` or `Io` if rows cannot
    /// be written to the disk; rows are then lost, and the caller must drop the sorter.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_row(key, value)?;
        let row_bytes = key.len() + value.len();
        let held_bytes = self.held.bytes.len() + self.held.places.len() * PLACE_BYTES;
        if !self.held.places.is_empty() && held_bytes + row_bytes + PLACE_BYTES > self.memory_bytes {
            self.spill()?;
        }
        let Held { bytes, places, .. } = &mut self.held;
        // both fit: the row was checked
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        places.push(Place { head: 0, at: bytes.len(), key_bytes, value_bytes });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(())
    }

    /// The rows in key order.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if rows cannot be written to the disk.
    pub fn finish(mut self) -> Result<Sorted, StoreError> {
        if self.pieces.is_empty() {
            self.held.sort();
            return Ok(Sorted::Held(self.held));
        }
        if !self.held.places.is_empty() {
            self.spill()?;
        }
        self.held = Held::default();
        while self.pieces.len() > FAN_IN {
            self.merge_last(u32::MAX)?;
        }
        Ok(Sorted::Merged(merge(self.pieces)))
    }

    /// Writes the rows in memory to a piece.
    fn spill(&mut self) -> Result<(), StoreError> {
        self.held.sort();
        self.pieces.push((0, Piece::write(&self.dir, &mut self.held)?));
        let Held { bytes, places, passed } = &mut self.held;
        bytes.clear();
        // free the extra memory of a row that was longer than the limit
        bytes.shrink_to(self.memory_bytes);
        places.clear();
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
        self.pieces.push((level, Piece::write(&self.dir, &mut merge(last))?));
        Ok(())
    }
}

impl Held {
    fn sort(&mut self) {
        let bytes = self.bytes.as_slice();
        let first = self.places.first().map_or(&[][..], |first| key(bytes, first));
        let shared = self.places.iter().fold(first.len(), |shared, place| {
            let both = first.iter().zip(key(bytes, place)).take(shared);
            both.take_while(|(one, other)| one == other).count()
        });
        for place in &mut self.places {
            place.head = head(key(bytes, place).get(shared..).unwrap_or_default());
        }
        // rows with equal keys keep their order of insertion
        self.places.sort_unstable_by(|one, other| {
            one.head
                .cmp(&other.head)
                .then_with(|| (key(bytes, one), one.at).cmp(&(key(bytes, other), other.at)))
        });
    }
}

impl RowSource for Held {
    fn advance(&mut self) -> Result<(), StoreError> {
        self.passed = self.places.len().min(self.passed) + 1;
        Ok(())
    }

    fn current(&self) -> Option<LentRow<'_>> {
        let place = self.places.get(self.passed.checked_sub(1)?)?;
        let key = key(&self.bytes, place);
        let value_at = place.at + key.len();
        Some((key, self.bytes.get(value_at..value_at + place.value_bytes as usize)?))
    }
}

fn merge(pieces: Vec<(u32, Piece)>) -> Merge<PieceRows> {
    Merge::new(pieces.into_iter().map(|(_, piece)| piece.rows()).collect())
}

/// The first 8 bytes of a key as a number in key order, padded with zeros. Keys with equal numbers need a full comparison.
fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
    u64::from_be_bytes(head)
}

fn key<'b>(bytes: &'b [u8], place: &Place) -> &'b [u8] {
    bytes.get(place.at..place.at + place.key_bytes as usize).unwrap_or_default()
}

/// Rows in key order; rows with equal keys are in the order of their insertion.
#[derive(Debug)]
pub enum Sorted {
    /// All rows are in memory.
    Held(Held),
    /// The rows are in pieces.
    Merged(Merge<PieceRows>),
}

impl RowSource for Sorted {
    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Held(rows) => rows.advance(),
            Self::Merged(rows) => rows.advance(),
        }
    }

    fn current(&self) -> Option<LentRow<'_>> {
        match self {
            Self::Held(rows) => rows.current(),
            Self::Merged(rows) => rows.current(),
        }
    }
}

#[cfg(test)]
mod tests;
