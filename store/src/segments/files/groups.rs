//! Reading the groups of a segment one after another: the content of a compressed segment has no limit, and the last file of a snapshot
//! can be as large as the database. Only one group is in memory, of at most [`GROUP_MAX_BYTES`].

use super::{SegmentEnd, SegmentFiles, SegmentHead};
use crate::segments::group::{GROUP_HEAD_BYTES, GROUP_MAX_BYTES, StoredGroup, decode, length_of_rows};
use std::io::Read;
use store_base::error::StoreError;

/// The bytes after the groups are read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// The most bytes after the groups: more than the space for a group of any length. Without a limit, a compressed segment of 1 MB keeps a
/// start busy for minutes.
const REST_MAX_BYTES: u64 = 2 * GROUP_MAX_BYTES as u64;

/// A segment whose groups are read.
pub(crate) struct SegmentGroups<'f> {
    files: &'f SegmentFiles,
    number: u64,
    input: Box<dyn Read>,
    head: SegmentHead,
}

/// The end of a segment that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadSegment {
    pub(crate) end: SegmentEnd,
    /// The position of the first byte after the last group that is not 0, in bytes from the start of the uncompressed segment.
    pub(crate) remains: Option<u64>,
}

impl<'f> SegmentGroups<'f> {
    /// The groups of segment `number`, which `input` reads uncompressed.
    ///
    /// # Errors
    /// `Corrupt` if its head is damaged.
    pub(super) fn new(
        files: &'f SegmentFiles,
        number: u64,
        mut input: Box<dyn Read>,
    ) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        let read = input.by_ref().take(SegmentHead::BYTES).read_to_end(&mut bytes);
        read.map_err(|source| files.read_error(number, source))?;
        Ok(Self { files, number, head: files.parse_head(number, &bytes)?, input })
    }

    pub(crate) const fn head(&self) -> SegmentHead {
        self.head
    }

    /// Passes the groups to `visit`, and reads the segment to its end.
    ///
    /// # Errors
    /// An error of `visit`, or the segment cannot be decompressed, or has too many bytes after its groups.
    pub(crate) fn walk(
        mut self,
        mut visit: impl FnMut(StoredGroup<'_>) -> Result<(), StoreError>,
    ) -> Result<ReadSegment, StoreError> {
        let mut end = SegmentEnd { group: self.head.previous, len: SegmentHead::BYTES };
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.fill(GROUP_HEAD_BYTES, &mut bytes)?;
            if let Some(length) = length_of_rows(&bytes) {
                self.fill(length, &mut bytes)?;
            }
            let Some((group, _)) = decode(&bytes, end.group) else { break };
            end = SegmentEnd { group: group.end, len: end.len + bytes.len() as u64 };
            visit(group)?;
        }
        let remains = self.find_remains(end.len, bytes)?;
        Ok(ReadSegment { end, remains })
    }

    /// Appends the next `count` bytes, or fewer at the end. The memory grows with the bytes that are there.
    fn fill(&mut self, count: usize, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
        let read = self.input.by_ref().take(count as u64).read_to_end(bytes);
        read.map(drop).map_err(|source| self.files.read_error(self.number, source))
    }

    /// The position of the first byte that is not 0, from `bytes` on, which begin at position `at`. Reads to the end.
    fn find_remains(mut self, mut at: u64, mut bytes: Vec<u8>) -> Result<Option<u64>, StoreError> {
        let (mut found, max) = (None, at + REST_MAX_BYTES);
        while !bytes.is_empty() {
            if at > max {
                let fault = format!("more than {REST_MAX_BYTES} bytes follow its last group");
                return Err(self.files.damaged(self.number, &fault));
            }
            let first = bytes.iter().position(|byte| *byte != 0);
            found = found.or(first.map(|first| at + first as u64));
            at += bytes.len() as u64;
            bytes.clear();
            self.fill(PIECE_BYTES, &mut bytes)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::row_batch::RowBatch;
    use crate::segments::group::{GroupEnd, encode};
    use std::cell::Cell;
    use std::io;
    use std::path::Path;
    use std::rc::Rc;

    fn head() -> SegmentHead {
        SegmentHead::new(7, 1, GroupEnd::default())
    }

    /// Notes the most bytes that one read was given space for.
    struct Measured<R>(R, Rc<Cell<usize>>);

    impl<R: Read> Read for Measured<R> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get().max(into.len()));
            self.0.read(into)
        }
    }

    /// Reads a segment with these groups. Returns the lengths of the groups, the remains or an error, and the largest buffer.
    fn read(groups: impl Read + 'static) -> (Vec<usize>, Result<Option<u64>, StoreError>, usize) {
        let (files, largest) = (SegmentFiles::new(Path::new("state")), Rc::new(Cell::new(0)));
        let input = Measured(io::Cursor::new(head().to_bytes()).chain(groups), Rc::clone(&largest));
        let mut lengths = Vec::new();
        let groups = SegmentGroups::new(&files, 1, Box::new(input)).expect("the head is whole");
        let read = groups.walk(|group| {
            lengths.push(group.bytes.len());
            Ok(())
        });
        (lengths, read.map(|read| read.remains), largest.get())
    }

    fn walk(groups: impl Read + 'static) -> (Vec<usize>, Option<u64>, usize) {
        let (lengths, remains, largest) = read(groups);
        (lengths, remains.expect("it is readable"), largest)
    }

    fn group(previous: GroupEnd, value_bytes: usize) -> (Vec<u8>, GroupEnd) {
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), vec![1; value_bytes]);
        encode(previous, previous.entries + 1, &rows).expect("it is not too large")
    }

    #[test]
    fn memory_for_a_segment_is_that_of_its_largest_group() {
        // as a compressed segment of a few bytes has them
        let (lengths, remains, largest) = read(io::repeat(0));
        assert!(lengths.is_empty() && matches!(remains, Err(StoreError::Corrupt { .. })), "{remains:?}");
        assert!(largest <= 1 << 20, "{largest}");
        let bytes = GROUP_MAX_BYTES as u64;
        let head = |length: u32| {
            let (mut head, _) = group(GroupEnd::default(), 1);
            head.truncate(GROUP_HEAD_BYTES);
            head[8..12].copy_from_slice(&length.to_be_bytes());
            io::Cursor::new(head)
        };
        let (lengths, remains, largest) = walk(head(u32::MAX).chain(io::repeat(1).take(bytes)));
        assert_eq!((lengths, remains), (Vec::new(), Some(SegmentHead::BYTES)));
        assert!(largest <= 1 << 20, "{largest}");
        // no memory is taken for bytes that are not there
        let (_, _, largest) = walk(head(GROUP_MAX_BYTES as u32).chain(io::repeat(1).take(1000)));
        assert!(largest <= 1 << 20, "{largest}");
        let many = (0..64).scan(GroupEnd::default(), |end, _| {
            let (bytes, next) = group(*end, 1 << 20);
            *end = next;
            Some(bytes)
        });
        let many: Vec<u8> = many.flatten().collect();
        let (lengths, remains, largest) = walk(io::Cursor::new(many));
        assert_eq!((lengths.len(), remains), (64, None));
        assert!(largest <= 4 << 20, "{largest}");
    }

    #[test]
    fn group_of_the_largest_length_is_written_and_read() {
        let head_of_row = 2 + 4 + b"key".len();
        let (bytes, _) = group(GroupEnd::default(), GROUP_MAX_BYTES - head_of_row);
        let expected = bytes.len();
        assert_eq!(walk(io::Cursor::new(bytes)).0, [expected]);
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), vec![1; GROUP_MAX_BYTES]);
        encode(GroupEnd::default(), 1, &rows).expect_err("it could not be read");
    }

    #[test]
    fn first_byte_after_the_groups_that_is_not_zero_is_found() {
        let (bytes, _) = group(GroupEnd::default(), 100);
        let end = SegmentHead::BYTES + bytes.len() as u64;
        for zeros in [0, 1, 31, 32, 33, 200_000] {
            let rest = [vec![0; zeros], vec![9], vec![0; 50]].concat();
            let (lengths, remains, _) = walk(io::Cursor::new([bytes.clone(), rest].concat()));
            assert_eq!((lengths.len(), remains), (1, Some(end + zeros as u64)), "{zeros} zeros");
        }
    }
}
