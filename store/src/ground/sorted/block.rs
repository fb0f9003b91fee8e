//! Rows in key order as bytes: how a block is made, searched and gone through.
//!
//! A row is three numbers and two pieces of bytes: how much of the key is that of the row before it in the block, the
//! length of the rest, the length of the value, the key's rest, the value. The first row shares nothing. Numbers are in
//! base 128, the lowest digit first, with the high bit set where more follow.

use crate::error::StoreError;
use std::cmp::Ordering;
use std::ops::Range;

/// A block is full at so many bytes, about a page. A row that is longer has a block of its own.
pub(in crate::ground) const BLOCK_BYTES: usize = 4096;
/// A key is at most so long: the index holds one of each block.
pub const MAX_KEY_BYTES: usize = 16 * 1024;
/// A key and its value have together at most so many bytes.
pub const MAX_ROW_BYTES: usize = 4 << 20;
/// The most that three numbers of 32 bits take.
const ROW_HEAD_BYTES: usize = 15;
/// No block is longer.
pub(in crate::ground) const MAX_BLOCK_BYTES: u64 = (MAX_ROW_BYTES + ROW_HEAD_BYTES) as u64;

/// Bytes that are no rows.
#[derive(Debug)]
pub(in crate::ground) struct Malformed;

/// Refuses a row that is longer than any file takes.
pub(in crate::ground) fn check_row(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    let row_bytes = key.len() + value.len();
    for (what, size, max) in [("a key", key.len(), MAX_KEY_BYTES), ("a row", row_bytes, MAX_ROW_BYTES)] {
        if size > max {
            return Err(StoreError::TooLarge { what, size_bytes: size as u64, max_bytes: max as u64 });
        }
    }
    Ok(())
}

/// A block in the making.
#[derive(Debug, Default)]
pub(in crate::ground) struct BlockBuilder {
    bytes: Vec<u8>,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Whether a row fits: any fits into an empty block.
    pub(in crate::ground) fn fits(&self, key: &[u8], value: &[u8]) -> bool {
        self.is_empty() || self.bytes.len() + ROW_HEAD_BYTES + key.len() + value.len() <= BLOCK_BYTES
    }

    /// Appends a row; its key is not below the last one's.
    pub(in crate::ground) fn push(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.is_empty() { 0 } else { shared_bytes(&self.last_key, key) };
        let rest = key.get(shared..).unwrap_or_default();
        for number in [shared, rest.len(), value.len()] {
            put_number(&mut self.bytes, number);
        }
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
    }

    pub(in crate::ground) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(in crate::ground) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key of the last row, also of one that is in an earlier block.
    pub(in crate::ground) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Begins the next block.
    pub(in crate::ground) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// A block that is gone through.
#[derive(Debug, Default)]
pub(in crate::ground) struct BlockRows {
    bytes: Vec<u8>,
    next: usize,
    key: Vec<u8>,
    value: Range<usize>,
}

impl BlockRows {
    /// Begins with another block, which `fill` puts into what is handed to it.
    pub(in crate::ground) fn refill<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.key.clear();
        self.next = 0;
        fill(&mut self.bytes).inspect_err(|_| self.bytes.clear())
    }

    /// Goes to the next row; `false` behind the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<bool, Malformed> {
        let mut rest = self.bytes.get(self.next..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let row = take_row(&mut rest).filter(|row| row.shared <= self.key.len()).ok_or(Malformed)?;
        self.key.truncate(row.shared);
        self.key.extend_from_slice(row.rest);
        self.next = self.bytes.len() - rest.len();
        self.value = self.next - row.value.len()..self.next;
        Ok(true)
    }

    /// The key of the row that it is at.
    pub(in crate::ground) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the row that it is at.
    pub(in crate::ground) fn value(&self) -> &[u8] {
        self.bytes.get(self.value.clone()).unwrap_or_default()
    }
}

/// The value under `wanted` in the block `bytes`.
///
/// No key is put together: `common` is how much of `wanted` the row before had, which was below it. A row that shares more
/// with that one differs from `wanted` where that one does, and is below it, too; a row that shares less is beyond it.
pub(in crate::ground) fn find<'b>(bytes: &'b [u8], wanted: &[u8]) -> Result<Option<&'b [u8]>, Malformed> {
    let mut rest = bytes;
    let mut common = 0;
    while !rest.is_empty() {
        let row = take_row(&mut rest).ok_or(Malformed)?;
        match row.shared.cmp(&common) {
            Ordering::Greater => continue,
            Ordering::Less => return Ok(None),
            Ordering::Equal => {}
        }
        let open = wanted.get(common..).unwrap_or_default();
        match row.rest.cmp(open) {
            Ordering::Equal => return Ok(Some(row.value)),
            Ordering::Greater => return Ok(None),
            Ordering::Less => common += shared_bytes(row.rest, open),
        }
    }
    Ok(None)
}

struct Row<'b> {
    shared: usize,
    rest: &'b [u8],
    value: &'b [u8],
}

fn take_row<'b>(bytes: &mut &'b [u8]) -> Option<Row<'b>> {
    let (shared, rest_bytes, value_bytes) = (take_number(bytes)?, take_number(bytes)?, take_number(bytes)?);
    let rest = bytes.split_off(..rest_bytes)?;
    let value = bytes.split_off(..value_bytes)?;
    Some(Row { shared, rest, value })
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Appends a number of at most 32 bits.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number of at most 32 bits off the start; nothing if none stands there.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0_u64;
    for shift in [0, 7, 14, 21, 28] {
        let digit = *bytes.split_off_first()?;
        number |= u64::from(digit & 0x7f) << shift;
        if digit & 0x80 == 0 {
            return u32::try_from(number).ok()?.try_into().ok();
        }
    }
    None
}
