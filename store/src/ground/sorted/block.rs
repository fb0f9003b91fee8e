//! Rows in key order as bytes: how a block is made and gone through.
//!
//! A block is the length of its keys, the keys, and the values: who looks for a key does not touch the values before
//! it. A key is three numbers and some bytes: how much of it is that of the key before it in the block, the length of
//! the rest, the length of its value, and the rest. The first one shares nothing. Numbers are in base 128
//! (`varint` of the domain).

use crate::base::error::StoreError;
use crate::ground::index::shared_bytes;
use bytes::Bytes;
use oracled_domain::base::varint::{put, take};
use std::ops::Range;

/// A block is full at so many bytes, about a page. A row that is longer has a block of its own.
pub(in crate::ground) const BLOCK_BYTES: usize = 4096;
/// A key is at most so long: the index holds one of each block.
pub const MAX_KEY_BYTES: usize = 16 * 1024;
/// A key and its value have together at most so many bytes.
pub const MAX_ROW_BYTES: usize = 4 << 20;
/// The most that three numbers of 32 bits take.
const ROW_HEAD_BYTES: usize = 15;
/// The most that one takes.
const BLOCK_HEAD_BYTES: usize = 5;

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
    keys: Vec<u8>,
    values: Vec<u8>,
    last_key: Vec<u8>,
    /// The last block that was finished.
    finished: Vec<u8>,
}

impl BlockBuilder {
    /// Whether a row fits: any fits into an empty block.
    pub(in crate::ground) fn fits(&self, key: &[u8], value: &[u8]) -> bool {
        let held_bytes = BLOCK_HEAD_BYTES + self.keys.len() + self.values.len();
        self.is_empty() || held_bytes + ROW_HEAD_BYTES + key.len() + value.len() <= BLOCK_BYTES
    }

    /// Appends a row; its key is not below the last one's.
    pub(in crate::ground) fn push(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.is_empty() { 0 } else { shared_bytes(&self.last_key, key) };
        let rest = key.get(shared..).unwrap_or_default();
        for number in [shared, rest.len(), value.len()] {
            put(&mut self.keys, number as u64);
        }
        self.keys.extend_from_slice(rest);
        self.values.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
    }

    pub(in crate::ground) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of the last row, also of one that is in an earlier block.
    pub(in crate::ground) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The block's bytes; then the next one begins.
    pub(in crate::ground) fn finish(&mut self) -> &[u8] {
        self.finished.clear();
        put(&mut self.finished, self.keys.len() as u64);
        self.finished.append(&mut self.keys);
        self.finished.append(&mut self.values);
        &self.finished
    }
}

/// A block that is gone through.
#[derive(Debug, Default)]
pub(in crate::ground) struct BlockRows {
    bytes: Bytes,
    /// Where the keys lie that are still to come.
    keys: Range<usize>,
    key: Vec<u8>,
    value: Range<usize>,
}

impl BlockRows {
    /// Begins with another block.
    pub(in crate::ground) fn begin(&mut self, bytes: Bytes) {
        // where they cannot be told apart there are none, at a place that is not there: the first step will find out
        let (keys_bytes, values_bytes) =
            split(&bytes).map_or((0, usize::MAX), |(keys, values)| (keys.len(), values.len()));
        let values_at = bytes.len().checked_sub(values_bytes).unwrap_or(usize::MAX);
        self.bytes = bytes;
        self.keys = values_at - keys_bytes..values_at;
        self.value = values_at..values_at;
        self.key.clear();
    }

    /// Goes to the next row; `false` behind the last one.
    pub(in crate::ground) fn advance(&mut self) -> Result<bool, Malformed> {
        let mut keys = self.bytes.get(self.keys.clone()).ok_or(Malformed)?;
        if keys.is_empty() {
            return Ok(false);
        }
        let row = take_row(&mut keys).filter(|row| row.shared <= self.key.len()).ok_or(Malformed)?;
        let value = self.value.end..self.value.end + row.value_bytes;
        self.bytes.get(value.clone()).ok_or(Malformed)?;
        self.key.truncate(row.shared);
        self.key.extend_from_slice(row.rest);
        self.keys.start = self.keys.end - keys.len();
        self.value = value;
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

    /// The same, which keeps the block in memory instead of being copied.
    pub(in crate::ground) fn shared_value(&self) -> Bytes {
        self.bytes.slice_ref(self.value())
    }
}

struct Row<'b> {
    shared: usize,
    rest: &'b [u8],
    value_bytes: usize,
}

fn take_row<'b>(keys: &mut &'b [u8]) -> Option<Row<'b>> {
    let [shared, rest_bytes, value_bytes] = [take_len(keys)?, take_len(keys)?, take_len(keys)?];
    Some(Row { shared, rest: keys.split_off(..rest_bytes)?, value_bytes })
}

/// The keys and the values of the block `bytes`.
fn split(mut bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let keys_bytes = take_len(&mut bytes)?;
    bytes.split_at_checked(keys_bytes)
}

/// Takes a length of at most 32 bits off the start; `None` if there is none.
fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    u32::try_from(take(bytes)?).ok()?.try_into().ok()
}
