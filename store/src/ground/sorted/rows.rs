//! A stretch of a sorted file, row by row.

use super::block::BlockRows;
use super::{LentRow, Row, SortedFile};
use crate::error::StoreError;
use std::ops::Bound;

/// The rows of a file between two keys, in key order. It holds the file open, and one block of it in memory.
///
/// [`Rows::advance`] lends each row; as an iterator it hands out copies. Behind an error it ends.
#[derive(Debug)]
pub struct Rows {
    file: SortedFile,
    block: BlockRows,
    next_block: usize,
    /// Where it begins, until it is there.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    ended: bool,
}

impl Rows {
    pub(super) fn new(file: SortedFile, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Self {
        let first = match &start {
            Bound::Included(key) | Bound::Excluded(key) => file.block_of(key).unwrap_or_default(),
            Bound::Unbounded => 0,
        };
        Self { file, block: BlockRows::default(), next_block: first, start, end, ended: false }
    }

    /// The next row's key and value; nothing behind the last one.
    ///
    /// # Errors
    /// `SourceFile` where the file is damaged, `Io` where it cannot be read.
    pub fn advance(&mut self) -> Result<Option<LentRow<'_>>, StoreError> {
        if !self.ended {
            // behind an error, too
            self.ended = true;
            self.ended = !self.step()?;
        }
        Ok(self.current())
    }

    /// The row that [`Rows::advance`] has lent last; nothing behind the last one.
    #[must_use]
    pub fn current(&self) -> Option<LentRow<'_>> {
        (!self.ended).then(|| (self.block.key(), self.block.value()))
    }

    /// Goes to the next row within the bounds; `false` if there is none.
    fn step(&mut self) -> Result<bool, StoreError> {
        loop {
            let block = self.next_block.checked_sub(1);
            if !self.block.advance().map_err(|_| self.file.malformed(block.unwrap_or_default()))? {
                let (file, next) = (&self.file, self.next_block);
                if !file.first_key(next).is_some_and(|first| is_before(first, &self.end)) {
                    return Ok(false);
                }
                // whoever goes on from there reads much, and once
                let is_looked_up = self.start != Bound::Unbounded;
                self.block.refill(|bytes| match is_looked_up {
                    true => file.look_up(next, |block| block.clone_into(bytes)),
                    false => file.read_block(next, bytes),
                })?;
                self.next_block += 1;
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
            return Ok(is_before(key, &self.end));
        }
    }
}

fn is_before(key: &[u8], end: &Bound<Vec<u8>>) -> bool {
    match end {
        Bound::Included(end) => key <= end.as_slice(),
        Bound::Excluded(end) => key < end.as_slice(),
        Bound::Unbounded => true,
    }
}

impl Iterator for Rows {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.advance().transpose()?;
        Some(row.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}
