//! Where the pieces of a file lie: for each its length and its checksum, and the first key of a block of rows.

use super::sealed::MAX_INDEX_BYTES;
use crate::base::error::StoreError;
use oracled_domain::base::varint::{put, put_part, take, take_part};
use std::cmp::Ordering;

/// No piece is longer.
const MAX_PIECE_BYTES: u64 = 5 << 20;

/// A piece's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// In bytes from the file's start.
    pub(super) at: u64,
    pub(super) crc: u32,
    pub(super) len_bytes: u32,
    /// Where its first key stands in the index.
    key_at: u32,
    key_bytes: u32,
}

/// Appends a piece to the index `bytes`.
pub(super) fn put_piece(bytes: &mut Vec<u8>, first_key: &[u8], piece: &[u8]) -> Result<(), StoreError> {
    put_part(bytes, first_key);
    put(bytes, piece.len() as u64);
    bytes.extend_from_slice(&crc32fast::hash(piece).to_be_bytes());
    let (size_bytes, max_bytes) = (bytes.len() as u64, MAX_INDEX_BYTES);
    if size_bytes > max_bytes {
        return Err(StoreError::TooLarge { what: "the index of a file", size_bytes, max_bytes });
    }
    Ok(())
}

/// An index in memory: its bytes as they stand in the file, and the blocks' places.
#[derive(Debug)]
pub(super) struct Index {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// How much all first keys have in common.
    shared_bytes: usize,
    /// Of each first key what follows that, as [`head`] has it: a search among these touches little memory.
    heads: Vec<u128>,
}

impl Index {
    /// Reads the index of blocks that take `data_bytes`; nothing if it is none.
    pub(super) fn read(bytes: Vec<u8>, data_bytes: u64) -> Option<Self> {
        let mut places = Vec::new();
        let mut rest = bytes.as_slice();
        let mut at = 0;
        while !rest.is_empty() {
            let key_bytes = take_part(&mut rest)?.len();
            let key_at = u32::try_from(bytes.len() - rest.len() - key_bytes).ok()?;
            let len_bytes = u32::try_from(take(&mut rest)?).ok()?;
            let crc = u32::from_be_bytes(*rest.split_off(..4)?.first_chunk()?);
            if !(1..=MAX_PIECE_BYTES).contains(&u64::from(len_bytes)) {
                return None;
            }
            places.push(Place { at, crc, len_bytes, key_at, key_bytes: u32::try_from(key_bytes).ok()? });
            at += u64::from(len_bytes);
        }
        places.shrink_to_fit();
        let mut index = Self { bytes, places, shared_bytes: 0, heads: Vec::new() };
        let ascends = index.places.is_sorted_by(|one, next| index.first_key(one) <= index.first_key(next));
        if let [first, .., last] = index.places.as_slice() {
            index.shared_bytes = shared_bytes(index.first_key(first), index.first_key(last));
        }
        let heads = index.places.iter().map(|place| head(index.first_key(place), index.shared_bytes));
        index.heads = heads.collect();
        (at == data_bytes && ascends).then_some(index)
    }

    /// The number of the block that holds `key` if any does; nothing if `key` lies before all.
    pub(super) fn block_of(&self, key: &[u8]) -> Option<usize> {
        let shared = self.places.first().and_then(|place| self.first_key(place).get(..self.shared_bytes))?;
        let behind = match key.get(..self.shared_bytes).unwrap_or(key).cmp(shared) {
            Ordering::Less => 0,
            Ordering::Greater => self.places.len(),
            Ordering::Equal => {
                let wanted = head(key, self.shared_bytes);
                let begin = self.heads.partition_point(|head| *head < wanted);
                let alike = self.heads.get(begin..)?.partition_point(|head| *head == wanted);
                let alike = self.places.get(begin..begin + alike)?;
                begin + alike.partition_point(|place| self.first_key(place) <= key)
            }
        };
        behind.checked_sub(1)
    }

    /// The place of a block by its number, from 0.
    pub(super) fn place(&self, block: usize) -> Option<&Place> {
        self.places.get(block)
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The index as it stands in the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn first_key(&self, place: &Place) -> &[u8] {
        // both were found within the bytes
        let at = place.key_at as usize;
        self.bytes.get(at..at + place.key_bytes as usize).unwrap_or_default()
    }
}

/// Sixteen bytes of `key` from `at` on, filled up with zeros, as a number: of two keys that begin alike, the one with the
/// lesser number is less.
fn head(key: &[u8], at: usize) -> u128 {
    let mut head = [0; 16];
    for (place, byte) in head.iter_mut().zip(key.get(at..).unwrap_or_default()) {
        *place = *byte;
    }
    u128::from_be_bytes(head)
}

/// How many bytes two keys have in common at their start.
pub(super) fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
