//! Rows in any order, put in key order within a bound of memory.
//!
//! Rows that do not fit are sorted and written out, a piece at a time, to files that have no name: they are gone when they
//! are closed, also when the process is killed. Pieces are merged so that there are never many.

mod piece;

use crate::base::error::StoreError;
use crate::ground::sorted::{LentRow, Merge, RowSource, check_row};
use piece::{Piece, PieceRows};
use std::path::{Path, PathBuf};

/// So many pieces are merged at a time.
const FAN_IN: usize = 16;
/// No sort takes more memory, whatever it is allowed.
const MAX_MEMORY_BYTES: usize = 1 << 30;

/// A row in memory: its key at `at`, and its value behind it.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The key's first bytes behind those that all keys share, once that is known: most rows are told apart by them.
    head: u64,
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// What a place takes, and as much again twice: the list of them grows by being copied to one of double the length.
const PLACE_BYTES: usize = 3 * size_of::<Place>();

/// Sorts rows by their keys; rows of equal keys stay in the order in which they came.
///
/// Of the memory it is given it counts the bytes of all keys and values that it holds, and 72 for each row. Beside that it
/// takes a buffer and a row for each of at most 16 pieces that are merged, and a row that is longer than the bound is held
/// alone.
#[derive(Debug)]
pub struct Sorter {
    dir: PathBuf,
    memory_bytes: usize,
    held: Held,
    /// In the order of their rows; each with how many times its rows were merged.
    pieces: Vec<(u32, Piece)>,
}

/// Rows in memory.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// The number of rows that were gone through.
    passed: usize,
}

impl Sorter {
    /// Sorts within `memory_bytes`, or within 1 GiB where that is more; what does not fit goes to the disk of `dir`, under no name.
    #[must_use]
    pub fn new(dir: &Path, memory_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.min(MAX_MEMORY_BYTES);
        // memory that is asked for and not touched costs nothing; growing would need it twice
        let held = Held { bytes: Vec::with_capacity(memory_bytes), ..Held::default() };
        Self { dir: dir.to_owned(), memory_bytes, held, pieces: Vec::new() }
    }

    /// Takes a row.
    ///
    /// # Errors
    /// `TooLarge` where it is longer than a sorted file takes: it is left out. `Unavailable` or `Io` where the disk does not
    /// take what does not fit into memory: rows are then lost, and the sort is to be given up.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_row(key, value)?;
        let row_bytes = key.len() + value.len();
        let held_bytes = self.held.bytes.len() + self.held.places.len() * PLACE_BYTES;
        if !self.held.places.is_empty() && held_bytes + row_bytes + PLACE_BYTES > self.memory_bytes {
            self.spill()?;
        }
        let Held { bytes, places, .. } = &mut self.held;
        // both are short: the row was checked
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        places.push(Place { head: 0, at: bytes.len(), key_bytes, value_bytes });
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(())
    }

    /// All rows in key order.
    ///
    /// # Errors
    /// `Unavailable` or `Io` where the disk does not take what does not fit into memory.
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

    /// Writes the rows in memory out as a piece.
    fn spill(&mut self) -> Result<(), StoreError> {
        self.held.sort();
        self.pieces.push((0, Piece::write(&self.dir, &mut self.held)?));
        let Held { bytes, places, passed } = &mut self.held;
        bytes.clear();
        // a row that was longer than the bound has left its room
        bytes.shrink_to(self.memory_bytes);
        places.clear();
        *passed = 0;
        while let Some(level) = self.full_level() {
            self.merge_last(level + 1)?;
        }
        Ok(())
    }

    /// The level of the last pieces if there are as many of it as are merged at a time.
    fn full_level(&self) -> Option<u32> {
        let (last, _) = self.pieces.last()?;
        let of_level = self.pieces.iter().rev().take_while(|(level, _)| level == last).count();
        (of_level >= FAN_IN).then_some(*last)
    }

    /// Makes one piece of `level` of the last ones.
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
        // of equal keys the one that came first lies first
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

/// The first bytes of a key as a number, in the order of keys: what is not there counts as 0, so that equal numbers say
/// nothing.
fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
    u64::from_be_bytes(head)
}

fn key<'b>(bytes: &'b [u8], place: &Place) -> &'b [u8] {
    bytes.get(place.at..place.at + place.key_bytes as usize).unwrap_or_default()
}

/// Rows in key order, of equal keys in the order in which they came.
#[derive(Debug)]
pub enum Sorted {
    /// All of them are in memory.
    Held(Held),
    /// They are in pieces.
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
