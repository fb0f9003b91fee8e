//! The database as readers see it: sled's keys, with values that are in sled or in the segments.
//!
//! A long value is stored once, in the segment to which its group was appended. sled has its position there, with a checksum, and
//! its first bytes, which are the head of a row.

use crate::base::database_error::database_error;
use sled::IVec;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use std::ops::{Deref, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;

/// The bytes of the number at the end of the key of a chunk.
const CHUNK_NUMBER_BYTES: usize = 2;
/// The longest value that sled has itself, in bytes.
pub(crate) const INLINE_MAX_BYTES: usize = 128;
/// The number of first bytes that sled has of a value in a segment: those of a row's head.
pub(crate) const START_BYTES: usize = 10;

/// The first byte of a stored value: all its bytes follow, or its position and its first bytes.
const INLINE: u8 = 0;
const IN_SEGMENT: u8 = 1;
/// The only byte of the first chunk of a row while its other chunks are written.
const CHANGING: u8 = 2;
/// Pauses for which a reader waits for such a row, at most. A group is applied in milliseconds.
const CHANGING_ATTEMPTS: usize = 10_000;
const CHANGING_PAUSE: Duration = Duration::from_micros(100);
/// The keys that are loaded between two calls of `proceed`.
const LOADED_BETWEEN_CHECKS: usize = if cfg!(test) { 8 } else { 4096 };
/// The segment, the offset, the length and the checksum of a value, all big-endian.
const POSITION_BYTES: usize = 8 + 4 + 4 + 4;

/// A value that is to be stored, and its position if a segment has it.
#[derive(Debug, Clone)]
pub(crate) struct RowValue {
    bytes: Vec<u8>,
    /// `None` for a short value, and for one that is in no segment yet: sled has those themselves.
    pub(super) position: Option<ValuePosition>,
}

/// The place of a value in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValuePosition {
    pub(crate) segment: u64,
    /// In bytes from the start of the uncompressed segment.
    pub(crate) offset: u32,
    /// The length of the value, in bytes.
    pub(crate) length: u32,
    checksum: u32,
}

/// The segments, as far as readers of the database need them.
pub(crate) trait SegmentValues: Debug + Send + Sync {
    /// The value at `position`, from a segment or from its copy.
    ///
    /// # Errors
    /// `Corrupt` or `Short` if both are damaged or missing.
    fn read(&self, position: &ValuePosition) -> Result<Vec<u8>, StoreError>;

    /// Reads all sealed segments and their copies. Calls `proceed` after each; returns false if `proceed` stopped the check.
    ///
    /// # Errors
    /// `Corrupt` if a segment or a copy is damaged, `Short` if one is missing.
    fn check(&self, proceed: &mut dyn FnMut() -> bool) -> Result<bool, StoreError>;

    /// The damage that was found and not repaired yet.
    fn damage(&self) -> &Arc<SegmentDamage>;
}

/// The maximum number of noted damages.
const NOTED_MAX: usize = 20;

/// The damage of the segments and their copies that was found and not repaired yet.
#[derive(Debug, Default)]
pub(crate) struct SegmentDamage {
    noted: Mutex<BTreeSet<String>>,
    /// The segments whose copies cannot be written, and why.
    without_copy: Mutex<BTreeMap<u64, String>>,
}

impl SegmentDamage {
    /// Notes `error`, if it is damage.
    pub(crate) fn note(&self, error: &StoreError) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < NOTED_MAX {
            noted.extend(error.damage().map(str::to_owned));
        }
    }

    pub(crate) fn clear(&self) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The damage as a text; `None` if there is none.
    pub(crate) fn text(&self) -> Option<String> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        (!noted.is_empty()).then(|| noted.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
    }

    fn without_copy(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.without_copy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the copy of segment `number` was written. Returns what was written.
    pub(crate) fn note_copy<T>(&self, number: u64, written: Result<T, impl Display>) -> Option<T> {
        match written {
            Ok(written) => {
                if self.without_copy().remove(&number).is_some() {
                    tracing::info!(segment = number, "the segment has a copy again");
                }
                Some(written)
            }
            Err(error) => {
                if self.without_copy().insert(number, error.to_string()).is_none() {
                    tracing::warn!(%error, segment = number, reason = "copies_missing", "the copy of a segment cannot be written; it is tried again");
                }
                None
            }
        }
    }

    /// The segments whose copies could not be written.
    pub(crate) fn numbers_without_copy(&self) -> Vec<u64> {
        self.without_copy().keys().copied().collect()
    }

    /// The first segment whose copy cannot be written, and their number, as a text; `None` if there is none.
    pub(crate) fn missing_copies(&self) -> Option<String> {
        let without = self.without_copy();
        let (number, cause) = without.first_key_value()?;
        Some(format!("segments without a copy: {}; the first one, segment {number}: {cause}", without.len()))
    }
}

impl RowValue {
    pub(crate) const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, position: None }
    }

    /// The form in which sled has the value.
    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let Some(position) = self.position else { return [&[INLINE], &self.bytes[..]].concat() };
        let mut stored = Vec::with_capacity(1 + POSITION_BYTES + START_BYTES);
        stored.push(IN_SEGMENT);
        stored.extend_from_slice(&position.to_bytes());
        stored.extend(self.bytes.iter().take(START_BYTES));
        stored
    }
}

impl Deref for RowValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

// where a value is stored does not change it
impl PartialEq for RowValue {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for RowValue {}

impl ValuePosition {
    /// The position of `value` at byte `at` of a segment; `None` if it is short, or too far from the start of the segment.
    pub(super) fn of(value: &[u8], segment: u64, at: u64) -> Option<Self> {
        if value.len() <= INLINE_MAX_BYTES {
            return None;
        }
        let (offset, length) = (u32::try_from(at).ok()?, u32::try_from(value.len()).ok()?);
        Some(Self { segment, offset, length, checksum: crc32fast::hash(value) })
    }

    /// Whether `value` is the one that was stored here.
    pub(crate) fn is_of(&self, value: &[u8]) -> bool {
        value.len() == self.length as usize && crc32fast::hash(value) == self.checksum
    }

    #[cfg(test)]
    pub(super) fn range_in_memory(&self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.length) as usize
    }

    fn to_bytes(self) -> [u8; POSITION_BYTES] {
        let mut bytes = [0; POSITION_BYTES];
        let (segment, numbers) = bytes.split_at_mut(8);
        segment.copy_from_slice(&self.segment.to_be_bytes());
        let fields = [self.offset, self.length, self.checksum].map(u32::to_be_bytes);
        numbers.copy_from_slice(fields.as_flattened());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (segment, numbers) = bytes.split_first_chunk()?;
        let [offset, length, checksum] = *numbers.as_chunks().0.first_chunk()?;
        let [offset, length, checksum] = [offset, length, checksum].map(u32::from_be_bytes);
        Some(Self { segment: u64::from_be_bytes(*segment), offset, length, checksum })
    }
}

/// A value in the form that sled has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredForm(IVec);

impl StoredForm {
    fn is_changing(&self) -> bool {
        *self.0 == [CHANGING]
    }

    /// The first [`START_BYTES`] bytes of the value, or all of them if sled has it.
    pub(crate) fn start(&self) -> &[u8] {
        let skipped = if self.0.first() == Some(&IN_SEGMENT) { 1 + POSITION_BYTES } else { 1 };
        self.0.get(skipped..).unwrap_or_default()
    }
}

/// A value that was read.
#[derive(Debug)]
pub(crate) enum ReadValue {
    Inline(StoredForm),
    FromSegment(Vec<u8>),
}

impl Deref for ReadValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(form) => form.start(),
            Self::FromSegment(bytes) => bytes,
        }
    }
}

/// The open database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Database<'d> {
    pub(super) sled: &'d sled::Db,
    pub(super) values: &'d dyn SegmentValues,
    pub(super) dir: &'d Path,
}

impl<'d> Database<'d> {
    /// A database that a test has opened itself.
    #[cfg(test)]
    pub(crate) const fn of(sled: &'d sled::Db, values: &'d dyn SegmentValues, dir: &'d Path) -> Self {
        Self { sled, values, dir }
    }

    /// The value of `key`.
    pub(crate) fn get(self, key: impl AsRef<[u8]>) -> Result<Option<ReadValue>, StoreError> {
        self.form(key)?.map(|form| self.read(form)).transpose()
    }

    /// The stored form of the value of `key`.
    pub(crate) fn form(self, key: impl AsRef<[u8]>) -> Result<Option<StoredForm>, StoreError> {
        for _ in 0..CHANGING_ATTEMPTS {
            let form = self.sled.get(&key).map_err(|error| database_error(self.dir, &error))?;
            match form.map(StoredForm) {
                Some(form) if form.is_changing() => thread::sleep(CHANGING_PAUSE),
                form => return Ok(form),
            }
        }
        Err(StoreError::Unavailable { cause: "a row is being changed for too long".to_owned() })
    }

    /// Applies the changes of a group, in the order of the keys. Readers never see a row of which some chunks are changed. The counts
    /// are changed last: after a kill, the database has the counts of a group only with all its changes.
    ///
    /// sled's own batches are not used: it writes its buffer to the file before and after each one.
    pub(super) fn apply(
        self,
        rows: impl Iterator<Item = (Vec<u8>, Option<RowValue>)>,
        is_last: fn(&[u8]) -> bool,
        is_first_chunk: fn(&[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let set = |key: &[u8], value: Option<RowValue>| {
            let set = match value {
                Some(value) => self.sled.insert(key, value.to_stored()),
                None => self.sled.remove(key),
            };
            set.map(drop).map_err(|error| database_error(self.dir, &error))
        };
        let mut rows = rows.peekable();
        let mut last = Vec::new();
        while let Some((key, value)) = rows.next() {
            if is_last(&key) {
                last.push((key, value));
                continue;
            }
            let is_chunk = |next: &(Vec<u8>, _)| {
                let stem_bytes = key.len().saturating_sub(CHUNK_NUMBER_BYTES);
                next.0.len() == key.len() && next.0.get(..stem_bytes) == key.get(..stem_bytes)
            };
            if is_first_chunk(&key) && rows.peek().is_some_and(is_chunk) {
                let changing = self.sled.insert(&key, &[CHANGING]);
                changing.map_err(|error| database_error(self.dir, &error))?;
                while let Some((key, value)) = rows.next_if(is_chunk) {
                    set(&key, value)?;
                }
            }
            set(&key, value)?;
        }
        last.into_iter().try_for_each(|(key, value)| set(&key, value))
    }

    /// Sets the keys of `rows`, which are in key order, to their stored forms; an empty one removes its key. Of equal keys the last one
    /// counts. Calls `proceed` after every [`LOADED_BETWEEN_CHECKS`] keys; returns false if `proceed` stopped the loading.
    pub(super) fn load(
        self,
        mut rows: impl RowSource,
        proceed: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let (mut key, mut stored, mut loaded) = (Vec::new(), Vec::new(), 0_usize);
        loop {
            rows.advance()?;
            let next = rows.current();
            if !key.is_empty() && next.is_none_or(|(next, _)| next != key) {
                let set = if stored.is_empty() {
                    self.sled.remove(&key)
                } else {
                    self.sled.insert(&key, stored.as_slice())
                };
                set.map_err(|error| database_error(self.dir, &error))?;
                loaded += 1;
                if loaded.is_multiple_of(LOADED_BETWEEN_CHECKS) && !proceed() {
                    return Ok(false);
                }
            }
            let Some((next, form)) = next else { return Ok(true) };
            next.clone_into(&mut key);
            form.clone_into(&mut stored);
        }
    }

    /// The value with this stored form.
    pub(crate) fn read(self, form: StoredForm) -> Result<ReadValue, StoreError> {
        match form.0.first() {
            Some(&INLINE) => Ok(ReadValue::Inline(form)),
            Some(&IN_SEGMENT) => {
                let position = form.0.get(1..).and_then(ValuePosition::from_bytes);
                let position = position.ok_or_else(|| self.malformed())?;
                Ok(ReadValue::FromSegment(self.values.read(&position)?))
            }
            _ => Err(self.malformed()),
        }
    }

    fn malformed(self) -> StoreError {
        StoreError::Corrupt { dir: self.dir.to_owned(), detail: "a stored value is malformed".to_owned() }
    }

    /// The keys in `keys` with the stored forms of their values, in key order.
    pub(crate) fn range<K: RangeBounds<Vec<u8>>>(
        self,
        keys: K,
    ) -> impl DoubleEndedIterator<Item = Result<(IVec, StoredForm), StoreError>> + use<'d, K> {
        let dir = self.dir;
        self.sled
            .range(keys)
            .map(move |entry| {
                let (key, form) = entry.map_err(|error| database_error(dir, &error))?;
                let form = StoredForm(form);
                if !form.is_changing() {
                    return Ok(Some((key, form)));
                }
                Ok(self.form(&key)?.map(|form| (key, form)))
            })
            .filter_map(Result::transpose)
    }
}
