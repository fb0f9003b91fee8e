//! The index of a file: the length and the checksum of each piece and, for a block of rows, its first key.

use super::file_end::MAX_INDEX_BYTES;
use domain_base::varint::{put, put_part, take, take_part};
use std::cmp::Ordering;
use store_base::error::StoreError;

/// The longest piece, in bytes.
const MAX_PIECE_BYTES: u64 = 5 << 20;

/// The position of a piece in its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct PiecePosition {
    /// The offset in the file, in bytes.
    pub(super) at: u64,
    pub(super) crc: u32,
    pub(super) len_bytes: u32,
    /// The offset of its first key in the index.
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

/// An index in memory: its bytes as in the file, and the parsed positions of the blocks.
#[derive(Debug)]
pub(super) struct FileIndex {
    bytes: Vec<u8>,
    positions: Vec<PiecePosition>,
    /// The length of the prefix that all first keys share.
    shared_bytes: usize,
    /// The bytes of each first key after that prefix, as [`head`] returns them. A search in this list touches little
    /// memory.
    heads: Vec<u128>,
}

impl FileIndex {
    /// Parses the index of blocks with a total length of `data_bytes`; `None` if it is invalid.
    pub(super) fn read(bytes: Vec<u8>, data_bytes: u64) -> Option<Self> {
        let mut positions = Vec::new();
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
            positions.push(PiecePosition {
                at,
                crc,
                len_bytes,
                key_at,
                key_bytes: u32::try_from(key_bytes).ok()?,
            });
            at += u64::from(len_bytes);
        }
        positions.shrink_to_fit();
        let mut index = Self { bytes, positions, shared_bytes: 0, heads: Vec::new() };
        let ascends = index.positions.is_sorted_by(|one, next| index.first_key(one) <= index.first_key(next));
        if let [first, .., last] = index.positions.as_slice() {
            index.shared_bytes = shared_bytes(index.first_key(first), index.first_key(last));
        }
        let heads =
            index.positions.iter().map(|position| head(index.first_key(position), index.shared_bytes));
        index.heads = heads.collect();
        (at == data_bytes && ascends).then_some(index)
    }

    /// The number of the only block that can hold `key`; `None` if `key` is before all blocks.
    pub(super) fn block_of(&self, key: &[u8]) -> Option<usize> {
        let shared =
            self.positions.first().and_then(|position| self.first_key(position).get(..self.shared_bytes))?;
        let upper = match key.get(..self.shared_bytes).unwrap_or(key).cmp(shared) {
            Ordering::Less => 0,
            Ordering::Greater => self.positions.len(),
            Ordering::Equal => {
                let key_head = head(key, self.shared_bytes);
                let begin = self.heads.partition_point(|head| *head < key_head);
                let alike = self.heads.get(begin..)?.partition_point(|head| *head == key_head);
                let alike = self.positions.get(begin..begin + alike)?;
                begin + alike.partition_point(|position| self.first_key(position) <= key)
            }
        };
        upper.checked_sub(1)
    }

    /// The position of the block with this number, counted from 0.
    pub(super) fn piece_position(&self, block: usize) -> Option<&PiecePosition> {
        self.positions.get(block)
    }

    pub(super) fn piece_positions(&self) -> &[PiecePosition] {
        &self.positions
    }

    /// The index as it is stored in the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn first_key(&self, position: &PiecePosition) -> &[u8] {
        // the parser found both within the bytes
        let at = position.key_at as usize;
        self.bytes.get(at..at + position.key_bytes as usize).unwrap_or_default()
    }
}

/// Sixteen bytes of `key` from offset `at`, padded with zeros, as a number. Of two keys with the same first
/// `at` bytes, the one with the lower number is lower.
fn head(key: &[u8], at: usize) -> u128 {
    let mut head = [0; 16];
    for (slot, byte) in head.iter_mut().zip(key.get(at..).unwrap_or_default()) {
        *slot = *byte;
    }
    u128::from_be_bytes(head)
}

/// The length of the common prefix of two keys.
pub(super) fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
