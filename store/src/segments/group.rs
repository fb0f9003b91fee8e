//! One group of records in a segment.
//!
//! A group begins with a head: a magic number, the checksum of all bytes after it, the length of the rows, the checksum of the
//! previous group, and the numbers of log entries before and after the group. The rows follow. Because each group names the
//! checksum of the previous one, remains of an earlier write never count as a group.

use crate::base::row_batch::RowBatch;

const MAGIC: &[u8; 4] = b"grp1";
/// Magic number and checksum, which the checksum does not cover.
const UNCOVERED_BYTES: usize = 4 + 4;
/// The length of a head, in bytes.
pub(crate) const GROUP_HEAD_BYTES: usize = UNCOVERED_BYTES + 4 + 4 + 8 + 8;

/// The position after a group: what the next one must continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupEnd {
    /// The checksum of the group; 0 before the first one.
    pub(crate) checksum: u32,
    /// The number of log entries up to the end of the group.
    pub(crate) entries: u64,
}

/// A group that was read, with the changes of the database as bytes.
#[derive(Debug)]
pub(crate) struct StoredGroup<'b> {
    pub(crate) end: GroupEnd,
    rows: &'b [u8],
}

impl StoredGroup<'_> {
    /// The changes of the database; `None` if they are malformed, although the checksum is right.
    pub(crate) fn rows(&self) -> Option<RowBatch> {
        RowBatch::read(self.rows)
    }
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
    let mut bytes = vec![0; GROUP_HEAD_BYTES];
    rows.write_to(&mut bytes);
    let length = u32::try_from(bytes.len() - GROUP_HEAD_BYTES).map_err(|_| bytes.len())?;
    let covered = [
        &length.to_be_bytes()[..],
        &previous.checksum.to_be_bytes(),
        &previous.entries.to_be_bytes(),
        &entries.to_be_bytes(),
    ]
    .concat();
    let (head, rows) = bytes.split_at_mut(GROUP_HEAD_BYTES);
    let checksum = checksum_of(&covered, rows);
    head.copy_from_slice(&[&MAGIC[..], &checksum.to_be_bytes(), &covered].concat());
    Ok((bytes, GroupEnd { checksum, entries }))
}

/// The group at the start of `bytes` and the bytes after it; `None` unless it is complete and follows `previous`.
pub(crate) fn decode(bytes: &[u8], previous: GroupEnd) -> Option<(StoredGroup<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(GROUP_HEAD_BYTES)?;
    let (checksum, covered) = head.strip_prefix(MAGIC)?.split_first_chunk()?;
    let (length, fields) = covered.split_first_chunk()?;
    let (previous_checksum, fields) = fields.split_first_chunk()?;
    let (before, after) = fields.split_first_chunk()?;
    let follows =
        GroupEnd { checksum: u32::from_be_bytes(*previous_checksum), entries: u64::from_be_bytes(*before) };
    let (rows, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let end = GroupEnd {
        checksum: u32::from_be_bytes(*checksum),
        entries: u64::from_be_bytes(after.try_into().ok()?),
    };
    (follows == previous && checksum_of(covered, rows) == end.checksum)
        .then_some((StoredGroup { end, rows }, rest))
}

fn checksum_of(covered: &[u8], rows: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
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
        fn bytes_of_any_kind_do_not_panic(bytes: Vec<u8>) {
            let bytes = [&MAGIC[..], &bytes].concat();
            prop_assert!(decode(&bytes, GroupEnd::default()).is_none_or(|(_, rest)| rest.len() < bytes.len()));
        }
    }
}
