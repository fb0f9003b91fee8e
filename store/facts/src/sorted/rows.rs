//! Reads a range of a sorted file row by row.

use super::SortedFile;
use super::block::{BLOCK_BYTES, BlockRows};
use bytes::Bytes;
use std::ops::Bound;
use store_base::error::StoreError;
use store_base::ordered_rows::{BorrowedRow, RowSource, SortedRow};

/// The maximum length of a read of several blocks. A read costs about as much as the check and the parsing of one
/// block.
const READ_AHEAD_MAX_BYTES: u64 = 64 * 1024;

/// The rows of a file between two keys, in key order. It keeps the file open, and the blocks of one read in memory.
///
/// As a [`RowSource`] it lends each row; as an iterator it returns copies.
#[derive(Debug)]
pub struct SortedRowRange {
    file: SortedFile,
    block: BlockRows,
    next_block: usize,
    /// Whether the next block begins within the range. If not, rows of `block` may be after the end of the range.
    has_next_block: bool,
    /// The blocks from `next_block` on that were read together with an earlier one. They are checked one by one.
    ahead: Bytes,
    /// The maximum length of the next read. It doubles with each read, so that a short range reads little.
    read_bytes: u64,
    /// The start of the range; unbounded once the first row was found.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    at: RangePosition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangePosition {
    /// Before the first row.
    Start,
    Row,
    /// After the last row or an error.
    End,
}

impl SortedRowRange {
    pub(super) fn new(file: SortedFile, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Self {
        let first = match &start {
            Bound::Included(key) | Bound::Excluded(key) => file.block_of(key),
            Bound::Unbounded => None,
        };
        let next_block = first.unwrap_or_default();
        let (block, ahead, at) = (BlockRows::default(), Bytes::new(), RangePosition::Start);
        let read_bytes = BLOCK_BYTES as u64;
        let has_next_block = begins_before(&file, next_block, &end);
        Self { file, block, next_block, has_next_block, ahead, read_bytes, start, end, at }
    }

    /// Moves forward to the first row at or after `key`. Does nothing if the current row is already there.
    /// `key` must not be before the start of the range.
    ///
    /// # Errors
    /// The errors of [`SortedRowRange::advance`].
    pub fn seek(&mut self, key: &[u8]) -> Result<(), StoreError> {
        if self.at == RangePosition::End || self.current().is_some_and(|(current, _)| current >= key) {
            return Ok(());
        }
        if self.file.first_key(self.next_block).is_some_and(|first| first <= key) {
            self.next_block = self.file.block_of(key).unwrap_or_default();
            self.has_next_block = begins_before(&self.file, self.next_block, &self.end);
            self.block = BlockRows::default();
            (self.ahead, self.read_bytes) = (Bytes::new(), BLOCK_BYTES as u64);
        }
        self.start = Bound::Included(key.to_vec());
        self.advance()
    }

    /// The value of [`SortedRowRange::current`]. It is not copied, so it keeps the blocks that were read with it
    /// in memory.
    pub fn shared_value(&self) -> Bytes {
        self.block.shared_value()
    }

    /// Moves to the next row within the bounds. Returns `false` if there is none.
    fn step(&mut self) -> Result<bool, StoreError> {
        loop {
            let block = self.next_block.checked_sub(1);
            if !self.block.advance().map_err(|_| self.file.malformed(block.unwrap_or_default()))? {
                if !self.next_block()? {
                    return Ok(false);
                }
                continue;
            }
            let key = self.block.key();
            let before = match &self.start {
                Bound::Included(start) => key < start.as_slice(),
                Bound::Excluded(start) => key <= start.as_slice(),
                Bound::Unbounded => false,
            };
            if before {
                continue;
            }
            self.start = Bound::Unbounded;
            return Ok(self.has_next_block || is_before(key, &self.end));
        }
    }

    /// Moves to the next block. Returns `false` if it begins after the end of the range.
    fn next_block(&mut self) -> Result<bool, StoreError> {
        if !self.has_next_block {
            return Ok(false);
        }
        let (file, next) = (&self.file, self.next_block);
        // only the first block of a range is a lookup; further blocks are read once and bypass the cache
        let is_looked_up = self.start != Bound::Unbounded;
        let block = if is_looked_up && self.ahead.is_empty() {
            file.look_up(next)?
        } else {
            if self.ahead.is_empty() {
                let is_within = |first: &[u8]| is_before(first, &self.end);
                self.ahead = file.read_blocks(next, self.read_bytes, is_within)?;
                self.read_bytes = READ_AHEAD_MAX_BYTES.min(2 * self.read_bytes);
            }
            file.take_block(next, &mut self.ahead)?
        };
        self.has_next_block = begins_before(file, next + 1, &self.end);
        self.block.begin(block);
        self.next_block += 1;
        Ok(true)
    }
}

/// Whether block number `block` exists and begins before `end`.
fn begins_before(file: &SortedFile, block: usize, end: &Bound<Vec<u8>>) -> bool {
    file.first_key(block).is_some_and(|first| is_before(first, end))
}

fn is_before(key: &[u8], end: &Bound<Vec<u8>>) -> bool {
    match end {
        Bound::Included(end) => key <= end.as_slice(),
        Bound::Excluded(end) => key < end.as_slice(),
        Bound::Unbounded => true,
    }
}

impl RowSource for SortedRowRange {
    fn advance(&mut self) -> Result<(), StoreError> {
        if self.at != RangePosition::End {
            self.at = RangePosition::End;
            if self.step()? {
                self.at = RangePosition::Row;
            }
        }
        Ok(())
    }

    fn current(&self) -> Option<BorrowedRow<'_>> {
        (self.at == RangePosition::Row).then(|| (self.block.key(), self.block.value()))
    }
}

impl Iterator for SortedRowRange {
    type Item = Result<SortedRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.advance() {
            return Some(Err(error));
        }
        self.current().map(|(key, value)| Ok((key.to_vec(), value.to_vec())))
    }
}
