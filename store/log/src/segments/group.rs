//! One group of records in a segment.
//!
//! A group begins with a head: a magic number, the checksum of all other bytes, the length of the rows, the checksum of the
//! previous group, and the numbers of log entries before and after the group. The rows follow. Because each group names the
//! checksum of the previous one, remains of an earlier write never count as a group.
//!
//! An erasure changes the rows of a group. The group then has another magic number, and its rows begin with its original
//! checksum, which the next group names.

use crate::base::row_batch::RowBatch;
use memchr::memmem;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter;
use std::ops::Range;

const MAGIC: &[u8; 4] = b"grp1";
/// The start of both magic numbers.
const MAGIC_START: &[u8; 3] = b"grp";
/// The magic number of a group whose rows were changed by an erasure.
const CHANGED_MAGIC: &[u8; 4] = b"grp2";
/// The length of a head, in bytes.
pub(crate) const GROUP_HEAD_BYTES: usize = 4 + 4 + 4 + 4 + 8 + 8;
/// The longest rows of a group, in bytes. A group is read as a whole, and its length is in a file that anyone can have written: without
/// a limit, a compressed segment of 200 KB takes 4 GiB of memory.
pub(crate) const GROUP_MAX_BYTES: usize = 128 * 1024 * 1024;
/// The longest group that is appended, in bytes: a full one, and one more record. An erasure can lengthen it, and a snapshot can add
/// other rows to it.
pub(crate) const APPENDED_MAX_BYTES: usize = GROUP_MAX_BYTES / 2;

/// Differing bytes of a group and its copy that are this far apart are two places.
const APART_BYTES: usize = 16;
/// The most places at which a group and its copy differ, of which all combinations are tried.
const PLACES_MAX: usize = 4;

/// The position after a group: what the next one must continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct GroupEnd {
    /// The checksum that the group had at first; 0 before the first one.
    pub(crate) checksum: u32,
    /// The number of log entries up to the end of the group.
    pub(crate) entries: u64,
}

/// A group that was read, with the changes of the database as bytes.
#[derive(Debug)]
pub(crate) struct StoredGroup<'b> {
    /// The end of the group before it.
    pub(crate) previous: GroupEnd,
    pub(crate) end: GroupEnd,
    /// The whole group.
    pub(crate) bytes: &'b [u8],
    /// The position of its first byte, in bytes from the start of the uncompressed segment.
    pub(super) at: u64,
    rows: &'b [u8],
}

impl StoredGroup<'_> {
    /// The changes of the database; `None` if they are malformed, although the checksum is right.
    pub(crate) fn rows(&self) -> Option<RowBatch> {
        RowBatch::read(self.rows)
    }

    /// Whether an erasure has changed its rows.
    pub(super) fn is_changed(&self) -> bool {
        self.bytes.starts_with(CHANGED_MAGIC)
    }

    /// The changes of the database, with their positions in segment `number`, to which the group belongs.
    pub(crate) fn rows_in(&self, number: u64) -> Option<RowBatch> {
        let mut rows = self.rows()?;
        rows.place(number, self.at + (self.bytes.len() - self.rows.len()) as u64);
        Some(rows)
    }
}

/// Notes in `rows` where the group of [`encode`] has them, which begins at byte `at` of segment `number`.
pub(crate) fn place(rows: &mut RowBatch, number: u64, at: u64) {
    rows.place(number, at + GROUP_HEAD_BYTES as u64);
}

/// The bytes of a group with `rows` that follows `previous`, and its end; the log has `entries` entries then.
///
/// # Errors
/// The length in bytes, if it is too large for a group.
pub(crate) fn encode(
    previous: GroupEnd,
    entries: u64,
    rows: &RowBatch,
) -> Result<(Vec<u8>, GroupEnd), usize> {
    let (bytes, checksum) = encode_as(MAGIC, previous, entries, |bytes| rows.write_to(bytes))?;
    Ok((bytes, GroupEnd { checksum, entries }))
}

/// The bytes of the group with the end `end` that follows `previous`, after an erasure has changed its rows to `rows`.
///
/// # Errors
/// The length in bytes, if it is too large for a group.
pub(crate) fn encode_changed(previous: GroupEnd, end: GroupEnd, rows: &RowBatch) -> Result<Vec<u8>, usize> {
    let encoded = encode_as(CHANGED_MAGIC, previous, end.entries, |bytes| {
        bytes.extend_from_slice(&end.checksum.to_be_bytes());
        rows.write_to(bytes);
    });
    encoded.map(|(bytes, _)| bytes)
}

/// The bytes of a group, and their checksum.
fn encode_as(
    magic: &[u8; 4],
    previous: GroupEnd,
    entries: u64,
    write_rows: impl FnOnce(&mut Vec<u8>),
) -> Result<(Vec<u8>, u32), usize> {
    let mut bytes = vec![0; GROUP_HEAD_BYTES];
    write_rows(&mut bytes);
    let length = bytes.len() - GROUP_HEAD_BYTES;
    let length = u32::try_from(length).ok().filter(|_| length <= GROUP_MAX_BYTES).ok_or(bytes.len())?;
    let covered = [
        &length.to_be_bytes()[..],
        &previous.checksum.to_be_bytes(),
        &previous.entries.to_be_bytes(),
        &entries.to_be_bytes(),
    ]
    .concat();
    let (head, rows) = bytes.split_at_mut(GROUP_HEAD_BYTES);
    let checksum = checksum_of(magic, &covered, rows);
    head.copy_from_slice(&[&magic[..], &checksum.to_be_bytes(), &covered].concat());
    Ok((bytes, checksum))
}

/// The length of the rows after `head`, in bytes; `None` if it is no head of a group.
pub(crate) fn length_of_rows(head: &[u8]) -> Option<usize> {
    let (_, rest) = head.split_at_checked(4 + 4)?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    (head.len() >= GROUP_HEAD_BYTES && length <= GROUP_MAX_BYTES).then_some(length)
}

/// The group at the start of `bytes` and the bytes after it; `None` unless it is complete and follows `previous`.
pub(crate) fn decode(bytes: &[u8], previous: GroupEnd) -> Option<(StoredGroup<'_>, &[u8])> {
    decode_any(bytes).filter(|(group, _)| group.previous == previous)
}

/// The first complete group in `bytes` that begins after entry `entries` or later, and the bytes after it.
pub(crate) fn find_after(bytes: &[u8], entries: u64) -> Option<(StoredGroup<'_>, &[u8])> {
    let starts = memmem::find_iter(bytes, MAGIC_START).filter_map(|at| bytes.get(at..));
    // the first group of a store has no entries
    let is_after = |group: &StoredGroup<'_>| {
        group.previous.entries >= entries
            && (group.end.entries > group.previous.entries || group.end.entries == 0)
    };
    starts.filter_map(decode_any).find(|(group, _)| is_after(group))
}

/// The groups after `end`, each from one of `contents`, which can be damaged. Of two forms of a group, the one that an erasure has changed is
/// taken, and of two such ones that of the content with more of them.
/// Returns their bytes, and the end of the last one.
pub(crate) fn merge(contents: &[Vec<u8>], mut end: GroupEnd) -> (Vec<u8>, GroupEnd) {
    let groups_in = |mut rest| {
        iter::from_fn(move || {
            let (group, after) = find_after(rest, 0)?;
            rest = after;
            Some((group.previous, group))
        })
    };
    let mut indexes: Vec<HashMap<_, _>> =
        contents.iter().map(|content| groups_in(content).collect()).collect();
    indexes.sort_by_key(|groups| Reverse(groups.values().filter(|group| group.is_changed()).count()));
    let mut merged = Vec::new();
    loop {
        // a group is taken once, so that the loop ends
        let found: Vec<_> = indexes.iter_mut().filter_map(|groups| groups.remove(&end)).collect();
        let Some(group) = found.iter().find(|group| group.is_changed()).or(found.first()) else {
            return (merged, end);
        };
        merged.extend_from_slice(group.bytes);
        end = group.end;
    }
}

/// The group after `previous` that begins both contents and is damaged in both, at different bytes; and its end.
pub(crate) fn combine(own: &[u8], other: &[u8], previous: GroupEnd) -> Option<(Vec<u8>, GroupEnd)> {
    [own, other].into_iter().find_map(|head| {
        let length = GROUP_HEAD_BYTES + length_of_rows(head.get(..GROUP_HEAD_BYTES)?)?;
        combine_bytes(own.get(..length)?, other.get(..length)?, |bytes| Some(decode(bytes, previous)?.0.end))
    })
}

/// The bytes that `check` accepts, with its result: at each place where the two differ, those of one of them.
pub(crate) fn combine_bytes<T>(
    own: &[u8],
    other: &[u8],
    check: impl Fn(&[u8]) -> Option<T>,
) -> Option<(Vec<u8>, T)> {
    let mut places: Vec<Range<usize>> = Vec::new();
    let differing = own.iter().zip(other).enumerate().filter(|(_, (own, other))| own != other);
    for (at, _) in differing {
        if let Some(place) = places.last_mut().filter(|place| at < place.end + APART_BYTES) {
            place.end = at + 1;
            continue;
        }
        // an erasure has changed one of them
        if places.len() == PLACES_MAX {
            return None;
        }
        places.push(at..at + 1);
    }
    (0..1_u32 << places.len()).find_map(|choice| {
        let mut bytes = own.to_vec();
        for (_, place) in places.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1) {
            bytes.get_mut(place.clone())?.copy_from_slice(other.get(place.clone())?);
        }
        check(&bytes).map(|checked| (bytes, checked))
    })
}

/// The group at the start of `bytes` and the bytes after it; `None` unless it is complete.
fn decode_any(bytes: &[u8]) -> Option<(StoredGroup<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(GROUP_HEAD_BYTES)?;
    let (magic, head) = head.split_first_chunk()?;
    let (checksum, covered) = head.split_first_chunk()?;
    let (length, fields) = covered.split_first_chunk()?;
    let (previous_checksum, fields) = fields.split_first_chunk()?;
    let (before, after) = fields.split_first_chunk()?;
    let previous =
        GroupEnd { checksum: u32::from_be_bytes(*previous_checksum), entries: u64::from_be_bytes(*before) };
    let (rows, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let checksum = u32::from_be_bytes(*checksum);
    if ![MAGIC, CHANGED_MAGIC].contains(&magic) || checksum_of(magic, covered, rows) != checksum {
        return None;
    }
    let (first_checksum, rows) = match magic {
        MAGIC => (checksum, rows),
        _ => {
            let (first_checksum, rows) = rows.split_first_chunk()?;
            (u32::from_be_bytes(*first_checksum), rows)
        }
    };
    let end = GroupEnd { checksum: first_checksum, entries: u64::from_be_bytes(after.try_into().ok()?) };
    let bytes = bytes.get(..bytes.len() - rest.len())?;
    Some((StoredGroup { previous, end, bytes, at: 0, rows }, rest))
}

fn checksum_of(magic: &[u8; 4], covered: &[u8], rows: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(magic);
    hasher.update(covered);
    hasher.update(rows);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(previous: GroupEnd, value: &[u8]) -> (Vec<u8>, GroupEnd) {
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), value);
        encode(previous, previous.entries + 1, &rows).expect("a small group")
    }

    proptest! {
        #[test]
        fn group_with_a_changed_byte_is_not_read(at: prop::sample::Index, change in 1u8.., value: Vec<u8>) {
            let (mut bytes, end) = group(GroupEnd::default(), &value);
            let read = decode(&bytes, GroupEnd::default()).expect("the group is whole").0;
            prop_assert_eq!(read.end, end);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert!(decode(&bytes, GroupEnd::default()).is_none());
        }

        #[test]
        fn group_is_read_only_after_its_previous_one(value: Vec<u8>) {
            let (first, end) = group(GroupEnd::default(), &value);
            let (second, _) = group(end, &value);
            prop_assert!(decode(&second, end).is_some());
            prop_assert!(decode(&second, GroupEnd::default()).is_none());
            prop_assert!(decode(&first, end).is_none());
        }

        #[test]
        fn changed_group_keeps_its_place(at: prop::sample::Index, change in 1u8.., value: Vec<u8>) {
            let (first, end) = group(GroupEnd::default(), &value);
            let (second, second_end) = group(end, &value);
            let empty = RowBatch::default();
            let mut changed = encode_changed(GroupEnd::default(), end, &empty).expect("a small group");
            let read = decode(&changed, GroupEnd::default()).expect("the group is whole").0;
            prop_assert_eq!((read.end, read.rows()), (end, Some(empty)));
            prop_assert_eq!(decode(&second, end).expect("it follows").0.end, second_end);
            prop_assert!(first != changed);
            let at = at.index(changed.len());
            changed[at] ^= change;
            prop_assert!(decode(&changed, GroupEnd::default()).is_none());
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(bytes: Vec<u8>) {
            let bytes = [&MAGIC[..], &bytes].concat();
            prop_assert!(decode(&bytes, GroupEnd::default()).is_none_or(|(_, rest)| rest.len() < bytes.len()));
        }
    }
}
