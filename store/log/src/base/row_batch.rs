//! The changes of a group of records to the database: keys with their new values.

use crate::base::database::{RowValue, ValuePosition};
use std::collections::BTreeMap;
use std::ops::Range;

/// The stored length of the value if the key is removed.
const REMOVED: u32 = u32::MAX;
/// The bytes of the two lengths before each key.
const LENGTHS_BYTES: usize = 2 + 4;

/// Keys with their new values; `None` removes a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowBatch {
    rows: BTreeMap<Vec<u8>, Option<RowValue>>,
}

impl RowBatch {
    pub(crate) fn insert(&mut self, key: Vec<u8>, value: impl Into<Vec<u8>>) {
        self.set(key, Some(RowValue::new(value.into())));
    }

    pub(crate) fn remove(&mut self, key: Vec<u8>) {
        self.set(key, None);
    }

    /// Sets or removes a key, as another batch did.
    pub(crate) fn set(&mut self, key: Vec<u8>, value: Option<RowValue>) {
        self.rows.insert(key, value);
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds the changes of `later`, which replace earlier ones of the same keys.
    pub(crate) fn extend(&mut self, later: Self) {
        self.rows.extend(later.rows);
    }

    /// The keys with their new values, in the order of the keys.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = (Vec<u8>, Option<RowValue>)> {
        self.rows.into_iter()
    }

    /// Notes that the bytes of [`RowBatch::write_to`] are at byte `start` of the uncompressed segment `segment`: the database then
    /// has the positions of long values in place of them.
    pub(crate) fn place(&mut self, segment: u64, start: u64) {
        let mut at = start;
        for (key, value) in &mut self.rows {
            at += (LENGTHS_BYTES + key.len()) as u64;
            if let Some(value) = value {
                value.position = ValuePosition::of(value, segment, at);
                at += value.len() as u64;
            }
        }
    }

    /// The changes of the keys in `keys`, in key order.
    pub(crate) fn range(
        &self,
        keys: Range<Vec<u8>>,
    ) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + use<'_> {
        self.rows.range(keys).map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// Appends the changes to `bytes`: for each its key's length (2 bytes), its value's length (4 bytes), key and value.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) {
        for (key, value) in &self.rows {
            let key_bytes = u16::try_from(key.len()).expect("a key is shorter than 64 KiB");
            let value_bytes = value.as_ref().map_or(REMOVED, |value| {
                u32::try_from(value.len()).expect("a value is no longer than a chunk of a row")
            });
            bytes.extend_from_slice(&key_bytes.to_be_bytes());
            bytes.extend_from_slice(&value_bytes.to_be_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
    }

    /// Reads what [`RowBatch::write_to`] wrote; `None` if it is malformed.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut rows = BTreeMap::new();
        while !bytes.is_empty() {
            let (key_bytes, rest) = bytes.split_first_chunk()?;
            let (value_bytes, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*key_bytes)))?;
            let value_bytes = Some(u32::from_be_bytes(*value_bytes)).filter(|length| *length != REMOVED);
            let (value, rest) = rest.split_at_checked(value_bytes.unwrap_or_default() as usize)?;
            rows.insert(key.to_vec(), value_bytes.map(|_| RowValue::new(value.to_vec())));
            bytes = rest;
        }
        Some(Self { rows })
    }
}

#[cfg(test)]
impl From<RowBatch> for sled::Batch {
    fn from(batch: RowBatch) -> Self {
        let mut sled_batch = Self::default();
        for (key, value) in batch.rows {
            match value {
                Some(value) => sled_batch.insert(key, value.to_stored()),
                None => sled_batch.remove(key),
            }
        }
        sled_batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::database::INLINE_MAX_BYTES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batch_is_read_as_it_was_written(rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
            let rows = rows.into_iter().map(|(key, value)| (key, value.map(RowValue::new))).collect();
            let batch = RowBatch { rows };
            let mut bytes = Vec::new();
            batch.write_to(&mut bytes);
            prop_assert_eq!(RowBatch::read(&bytes), Some(batch));
        }

        #[test]
        fn long_values_are_where_their_positions_say(lengths in prop::collection::vec(0_usize..400, 1..20), start in 0_u32..100) {
            let mut batch = RowBatch::default();
            for (key, length) in (0_u8..).zip(&lengths) {
                batch.insert(vec![key; 1 + usize::from(key)], vec![key ^ 0x5a; *length]);
            }
            let mut bytes = vec![0; start as usize];
            batch.write_to(&mut bytes);
            batch.place(7, u64::from(start));
            for (_, value) in batch.into_rows() {
                let value = value.expect("none is removed");
                prop_assert_eq!(value.position.is_some(), value.len() > INLINE_MAX_BYTES);
                let Some(position) = value.position else { continue };
                prop_assert_eq!(position.segment, 7);
                prop_assert_eq!(bytes.get(position.range_in_memory()), Some(&*value));
            }
        }

        #[test]
        fn batch_of_any_bytes_does_not_panic(bytes: Vec<u8>) {
            drop(RowBatch::read(&bytes));
        }
    }
}
