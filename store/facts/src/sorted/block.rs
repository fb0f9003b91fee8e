//! The encoding of rows in key order as a block.
//!
//! A block has the total length of its keys, the keys, and the values, so that a search for a key does not
//! touch values. A key is encoded as three numbers and some bytes: the length of the prefix that it shares
//! with the key before it in the block, the length of the rest, the length of its value, and the rest. The
//! first key of a block shares nothing. Numbers are in base 128 (`varint` of the domain).

use crate::index::shared_bytes;
use bytes::Bytes;
use domain_base::varint::{put, take};
use std::ops::Range;

/// The size of a full block, in bytes. A longer row gets a block of its own.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// The longest key, in bytes. The index has one key of each block.
pub const MAX_KEY_BYTES: usize = 16 * 1024;
/// The longest encoding of three numbers of 32 bits, in bytes.
const ROW_HEAD_BYTES: usize = 15;
/// The longest encoding of one such number, in bytes.
const BLOCK_HEAD_BYTES: usize = 5;

/// The error for bytes that are not valid rows.
#[derive(Debug)]
pub(crate) struct Malformed;

/// A block that is being built.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    last_key: Vec<u8>,
    /// The bytes of the last finished block.
    finished: Vec<u8>,
}

impl BlockBuilder {
    /// Whether a row fits. An empty block accepts any row.
    pub(crate) fn fits(&self, key: &[u8], value: &[u8]) -> bool {
        let held_bytes = BLOCK_HEAD_BYTES + self.keys.len() + self.values.len();
        self.is_empty() || held_bytes + ROW_HEAD_BYTES + key.len() + value.len() <= BLOCK_BYTES
    }

    /// Appends a row. Its key must not be lower than the last one.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of the last row, even if that row is in an earlier block.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Returns the block's bytes and begins the next block.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.finished.clear();
        put(&mut self.finished, self.keys.len() as u64);
        self.finished.append(&mut self.keys);
        self.finished.append(&mut self.values);
        &self.finished
    }
}

/// Reads the rows of a block.
#[derive(Debug, Default)]
pub(crate) struct BlockRows {
    bytes: Bytes,
    /// The range of the remaining keys.
    keys: Range<usize>,
    key: Vec<u8>,
    value: Range<usize>,
}

impl BlockRows {
    /// Begins to read another block.
    pub(crate) fn begin(&mut self, bytes: Bytes) {
        // a block that cannot be split gets an invalid range, for which the first `advance` returns the error
        let (keys_bytes, values_bytes) =
            split(&bytes).map_or((0, usize::MAX), |(keys, values)| (keys.len(), values.len()));
        let values_at = bytes.len().checked_sub(values_bytes).unwrap_or(usize::MAX);
        self.bytes = bytes;
        self.keys = values_at - keys_bytes..values_at;
        self.value = values_at..values_at;
        self.key.clear();
    }

    /// Moves to the next row. Returns `false` after the last one.
    pub(crate) fn advance(&mut self) -> Result<bool, Malformed> {
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

    /// The key of the current row.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the current row.
    pub(crate) fn value(&self) -> &[u8] {
        self.bytes.get(self.value.clone()).unwrap_or_default()
    }

    /// The value of the current row. It is not copied, so it keeps the bytes of the read in memory.
    pub(crate) fn shared_value(&self) -> Bytes {
        self.bytes.slice_ref(self.value())
    }
}

struct EncodedRow<'b> {
    shared: usize,
    rest: &'b [u8],
    value_bytes: usize,
}

fn take_row<'b>(keys: &mut &'b [u8]) -> Option<EncodedRow<'b>> {
    let [shared, rest_bytes, value_bytes] = [take_len(keys)?, take_len(keys)?, take_len(keys)?];
    Some(EncodedRow { shared, rest: keys.split_off(..rest_bytes)?, value_bytes })
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
