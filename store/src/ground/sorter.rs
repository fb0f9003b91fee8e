//! Rows in any order, put in key order within a bound of memory.
//!
//! What does not fit is sorted and written out, a piece at a time, to files that have no name: they are gone when they are
//! closed, also when the process is killed. Pieces are merged so that there are never many.

mod piece;

use crate::base::error::StoreError;
use crate::ground::sorted::{Merge, Row, check_row};
use piece::{Piece, PieceRows, PieceWriter};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

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
/// takes a buffer and a block for each of at most 16 pieces that are merged, 2 MiB at most where rows are short, and a row
/// that is longer than the bound is held alone.
#[derive(Debug)]
pub struct Sorter {
    dir: PathBuf,
    memory_bytes: usize,
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// In the order of their rows; each with how many times its rows were merged.
    pieces: Vec<(u32, Piece)>,
}

impl Sorter {
    /// Sorts within `memory_bytes`, or within 1 GiB where that is more; what does not fit goes to the disk of `dir`, under no name.
    #[must_use]
    pub fn new(dir: &Path, memory_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.min(MAX_MEMORY_BYTES);
        // memory that is asked for and not touched costs nothing; growing would need it twice
        let bytes = Vec::with_capacity(memory_bytes);
        Self { dir: dir.to_owned(), memory_bytes, bytes, places: Vec::new(), pieces: Vec::new() }
    }

    /// Takes a row.
    ///
    /// # Errors
    /// `TooLarge` where it is longer than a sorted file takes: it is left out. `Unavailable` or `Io` where the disk does not
    /// take what does not fit into memory: rows are then lost, and the sort is to be given up.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_row(key, value)?;
        let row_bytes = key.len() + value.len();
        let held_bytes = self.bytes.len() + self.places.len() * PLACE_BYTES;
        if !self.places.is_empty() && held_bytes + row_bytes + PLACE_BYTES > self.memory_bytes {
            self.spill()?;
        }
        // both are short: the row was checked
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        self.places.push(Place { head: 0, at: self.bytes.len(), key_bytes, value_bytes });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// All rows in key order.
    ///
    /// # Errors
    /// `Unavailable` or `Io` where the disk does not take what does not fit into memory.
    pub fn finish(mut self) -> Result<Sorted, StoreError> {
        if self.pieces.is_empty() {
            self.sort();
            return Ok(Sorted(Rows::Held(self.bytes, self.places.into_iter())));
        }
        if !self.places.is_empty() {
            self.spill()?;
        }
        self.bytes = Vec::new();
        while self.pieces.len() > FAN_IN {
            self.merge_last(u32::MAX)?;
        }
        Ok(Sorted(Rows::Merged(merge(self.pieces)?)))
    }

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

    /// Writes what is in memory out as a piece.
    fn spill(&mut self) -> Result<(), StoreError> {
        self.sort();
        let mut piece = PieceWriter::create(&self.dir)?;
        for place in &self.places {
            piece.push(key(&self.bytes, place), value(&self.bytes, place))?;
        }
        self.pieces.push((0, piece.finish()?));
        self.bytes.clear();
        // a row that was longer than the bound has left its room
        self.bytes.shrink_to(self.memory_bytes);
        self.places.clear();
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
        let rest = self.pieces.len().saturating_sub(FAN_IN);
        let mut piece = PieceWriter::create(&self.dir)?;
        for row in merge(self.pieces.split_off(rest))? {
            let row = row?;
            piece.push(&row.key, &row.value)?;
        }
        self.pieces.push((level, piece.finish()?));
        Ok(())
    }
}

fn merge(pieces: Vec<(u32, Piece)>) -> Result<Merge<PieceRows>, StoreError> {
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

fn value<'b>(bytes: &'b [u8], place: &Place) -> &'b [u8] {
    let at = place.at + place.key_bytes as usize;
    bytes.get(at..at + place.value_bytes as usize).unwrap_or_default()
}

/// Rows in key order, of equal keys in the order in which they came. It ends with the first error.
#[derive(Debug)]
pub struct Sorted(Rows);

#[derive(Debug)]
enum Rows {
    Held(Vec<u8>, IntoIter<Place>),
    Merged(Merge<PieceRows>),
}

impl Iterator for Sorted {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Rows::Held(bytes, places) => {
                places.next().map(|place| Ok((key(bytes, &place).to_vec(), value(bytes, &place).to_vec())))
            }
            Rows::Merged(rows) => rows.next().map(|row| row.map(|row| (row.key, row.value))),
        }
    }
}

#[cfg(test)]
mod tests;
