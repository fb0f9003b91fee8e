//! Where the records that a run confirms are in its payload, stored as series and not one by one.
//!
//! A record that a run states as its base does has no row of its own. A segment maps a series of such records from
//! their positions and offsets in the payload of the base to those in the payload of the run. A file with a few
//! changes has a few segments.

use domain_base::varint::{put, take};
use std::ops::Bound;
use std::path::Path;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;
use store_base::sorter::RowSorter;
use store_facts::sorted::{SortedFile, SortedWriter};

/// The number of segments of one source that are held in memory, over all its runs. Those of later runs are read from
/// their files.
pub(super) const HELD_MAX: u64 = 1 << 21;
/// The memory for each of the two sorts of segments, in bytes.
const SORT_BYTES: usize = 16 << 20;

/// The place of a record in a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordPlace {
    pub(super) position: u64,
    /// The offset of its raw bytes.
    pub(super) offset: u64,
}

/// A series of records in the payloads of a run and of its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// The position of the first record in the payload of the base.
    base: u64,
    /// The position of the first record in the payload of the run.
    first: u64,
    /// The number of records.
    count: u64,
    /// The distance from each offset in the payload of the base to that in the payload of the run.
    shift: i64,
}

impl Segment {
    /// The segment of both, if `next` continues this one in both payloads.
    fn joined(self, next: Self) -> Option<Self> {
        let continues = self.base.checked_add(self.count) == Some(next.base)
            && self.first.checked_add(self.count) == Some(next.first)
            && self.shift == next.shift;
        continues.then(|| Self { count: self.count + next.count, ..self })
    }

    fn last(start: u64, count: u64) -> u64 {
        start + count.saturating_sub(1)
    }

    /// Where the run has the record that its base has at `place`.
    fn place(&self, place: RecordPlace) -> Option<RecordPlace> {
        let at = place.position.checked_sub(self.base).filter(|at| *at < self.count)?;
        Some(RecordPlace { position: self.first + at, offset: place.offset.wrapping_add_signed(self.shift) })
    }

    /// The row of the table by run position (`start` and `other` are `first` and `base`), or by base position.
    fn value(&self, other: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.count);
        put(&mut bytes, other);
        put(&mut bytes, (self.shift.wrapping_shl(1) ^ (self.shift >> 63)).cast_unsigned());
        bytes
    }

    /// The first position, the count, the other position and the shift of a row; `None` if it is invalid.
    fn read(key: &[u8], mut value: &[u8]) -> Option<(u64, u64, u64, i64)> {
        let last = u64::from_be_bytes(*key.get(1..)?.first_chunk()?);
        let count = take(&mut value)?;
        let other = take(&mut value)?;
        let shift = take(&mut value)?;
        let shift = (shift >> 1).cast_signed() ^ -(shift & 1).cast_signed();
        let start = last.checked_sub(count.checked_sub(1)?)?;
        Some((start, count, other, shift))
    }

    fn read_by_position(key: &[u8], value: &[u8]) -> Option<Self> {
        let (first, count, base, shift) = Self::read(key, value)?;
        Some(Self { base, first, count, shift })
    }

    fn read_by_base(key: &[u8], value: &[u8]) -> Option<Self> {
        let (base, count, first, shift) = Self::read(key, value)?;
        Some(Self { base, first, count, shift })
    }
}

/// Collects the places of confirmed records while they are merged, in the order of their keys.
#[derive(Debug)]
pub(super) struct PlaceCollector {
    by_position: RowSorter,
    by_base: RowSorter,
    /// The segment that the next record may continue at either end.
    open: Option<Segment>,
}

impl PlaceCollector {
    pub(super) fn new(dir: &Path) -> Self {
        let sorter = || RowSorter::new(dir, SORT_BYTES);
        Self { by_position: sorter(), by_base: sorter(), open: None }
    }

    /// Adds a record by its places in the payloads of the base and of the run.
    pub(super) fn push(&mut self, base: RecordPlace, run: RecordPlace) -> Result<(), StoreError> {
        let shift = run.offset.wrapping_sub(base.offset).cast_signed();
        let next = Segment { base: base.position, first: run.position, count: 1, shift };
        let joined = self.open.map(|open| open.joined(next).or_else(|| next.joined(open)));
        if let Some(Some(joined)) = joined {
            self.open = Some(joined);
            return Ok(());
        }
        self.flush()?;
        self.open = Some(next);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(Segment { base, first, count, .. }) = self.open else { return Ok(()) };
        let Some(segment) = self.open.take() else { return Ok(()) };
        let by_position = row_key(SEGMENT, Segment::last(first, count));
        self.by_position.push(&by_position, &segment.value(base))?;
        let by_base = row_key(BASE_SEGMENT, Segment::last(base, count));
        self.by_base.push(&by_base, &segment.value(first))
    }

    /// Writes the segments to the run's own file. Returns their number. The table by the positions of the base is
    /// written only if the segments are not `held` in memory by readers.
    pub(super) fn write(
        mut self,
        out: &mut SortedWriter,
        held: impl FnOnce(u64) -> bool,
    ) -> Result<u64, StoreError> {
        self.flush()?;
        let rows = write_joined(self.by_position, out, Segment::read_by_position, |segment| {
            let Segment { base, first, count, .. } = *segment;
            (row_key(SEGMENT, Segment::last(first, count)), segment.value(base))
        })?;
        if !held(rows) {
            write_joined(self.by_base, out, Segment::read_by_base, |segment| {
                let Segment { base, first, count, .. } = *segment;
                (row_key(BASE_SEGMENT, Segment::last(base, count)), segment.value(first))
            })?;
        }
        Ok(rows)
    }
}

/// Writes the sorted segments, each joined with those that continue it. Returns the number of rows.
fn write_joined(
    sorter: RowSorter,
    out: &mut SortedWriter,
    read: impl Fn(&[u8], &[u8]) -> Option<Segment>,
    row: impl Fn(&Segment) -> ([u8; 9], Vec<u8>),
) -> Result<u64, StoreError> {
    let (mut segments, mut rows, mut open) = (sorter.finish()?, 0, None::<Segment>);
    let mut write = |segment: Option<Segment>| {
        let Some(segment) = segment else { return Ok(()) };
        rows += 1;
        let (key, value) = row(&segment);
        out.push(&key, &value)
    };
    segments.advance()?;
    while let Some((key, value)) = segments.current() {
        let next = read(key, value).expect("the collector wrote it");
        match open.and_then(|open| open.joined(next)) {
            Some(joined) => open = Some(joined),
            None => write(open.replace(next))?,
        }
        segments.advance()?;
    }
    write(open)?;
    Ok(rows)
}

/// The segments of one run.
#[derive(Debug)]
pub(super) enum RunPlaces {
    /// In the order of the positions of the base.
    Held(Vec<Segment>),
    Stored(SortedFile),
}

/// An invalid row of segments.
#[derive(Debug)]
pub(super) struct InvalidSegment;

impl RunPlaces {
    /// Reads the segments of a run's own file.
    pub(super) fn read(rows: SortedFile, is_held: bool) -> Result<Result<Self, InvalidSegment>, StoreError> {
        if !is_held {
            return Ok(Ok(Self::Stored(rows)));
        }
        let mut segments = Vec::new();
        let mut range = rows.uncached().with_prefix(&[SEGMENT]);
        range.advance()?;
        while let Some((key, value)) = range.current() {
            let Some(segment) = Segment::read_by_position(key, value) else { return Ok(Err(InvalidSegment)) };
            segments.push(segment);
            range.advance()?;
        }
        segments.sort_unstable_by_key(|segment: &Segment| segment.base);
        segments.shrink_to_fit();
        Ok(Ok(Self::Held(segments)))
    }

    /// Where the run has the record that its base has at `place`; `None` if it has no such record.
    pub(super) fn place(&self, place: RecordPlace) -> Result<Option<RecordPlace>, StoreError> {
        let segment = match self {
            Self::Held(segments) => {
                let begun = segments.partition_point(|segment| segment.base <= place.position);
                begun.checked_sub(1).and_then(|last| segments.get(last)).copied()
            }
            Self::Stored(rows) => first_from(rows, BASE_SEGMENT, place.position, Segment::read_by_base)?,
        };
        Ok(segment.and_then(|segment| segment.place(place)))
    }
}

/// The position in the payload of the base of the record that the run with the own file `rows` confirms at `position`;
/// `None` if it confirms none there.
pub(super) fn base_position(rows: &SortedFile, position: u64) -> Result<Option<u64>, StoreError> {
    let segment = first_from(rows, SEGMENT, position, Segment::read_by_position)?;
    Ok(segment.and_then(|segment| Some(segment.base + position.checked_sub(segment.first)?)))
}

/// The segment that ends at or after `position`.
fn first_from(
    rows: &SortedFile,
    table: u8,
    position: u64,
    read: impl Fn(&[u8], &[u8]) -> Option<Segment>,
) -> Result<Option<Segment>, StoreError> {
    let start = row_key(table, position);
    let mut range = rows.with_prefix_from(&[table], Bound::Included(&start));
    range.advance()?;
    Ok(range.current().and_then(|(key, value)| read(key, value)))
}

/// A change. The rows are written in the order of the kinds: changes while records are merged, the others at the end.
pub(super) const CHANGE: u8 = b'c';
/// A series of confirmed records, by its last position.
pub(super) const SEGMENT: u8 = b'd';
/// Such a series, by its last position in the payload of the base.
pub(super) const BASE_SEGMENT: u8 = b'e';
/// The position of a record that has a row.
pub(super) const POSITION_KEY: u8 = b'p';
/// A reject, by its position.
pub(super) const REJECT: u8 = b'r';

pub(super) fn row_key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use store_base::error::SourceFileKind;
    use store_facts::file_end::FileOwner;

    #[test]
    fn places_are_mapped_in_memory_and_from_the_file() {
        let dir = tempfile::tempdir().expect("a folder");
        // each record of the base is moved: a block first, then single ones in reverse, then the rest with a gap
        let order: Vec<u64> = (0..400).chain((400..500).rev()).chain(510..900).collect();
        let place = |position: u64, offset: u64| RecordPlace { position, offset };
        let places: Vec<_> =
            (7..).zip(&order).map(|(at, base)| (place(*base, base * 10), place(at, at * 11))).collect();
        // pushed in another order
        let mut pushed = places.clone();
        pushed.sort_by_key(|(base, _)| base.position.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for (pushed, is_held) in [(&places, true), (&pushed, true), (&pushed, false)] {
            let mut collector = PlaceCollector::new(dir.path());
            pushed.iter().for_each(|(base, run)| collector.push(*base, *run).expect("the write succeeds"));
            let path = dir.path().join("rows");
            let mut out = SortedWriter::create(&path).expect("a file");
            let rows = collector.write(&mut out, |_| is_held).expect("the write succeeds");
            assert_eq!(rows, 890, "each offset is shifted by another distance");
            out.finish().expect("the write succeeds");
            let owner = FileOwner::new(&"places".parse().expect("an id"), SourceFileKind::Facts);
            let file = SortedFile::open(&path, &owner).expect("the file opens");
            let read = RunPlaces::read(file.clone(), is_held).expect("readable").expect("valid");
            for (base, run) in &places {
                assert_eq!(read.place(*base).expect("readable"), Some(*run));
                assert_eq!(base_position(&file, run.position).expect("readable"), Some(base.position));
            }
            for gap in [500, 509, 900, u64::MAX] {
                assert_eq!(read.place(place(gap, 0)).expect("readable"), None, "{gap}");
            }
            for outside in [0, 6, 897, u64::MAX] {
                assert_eq!(base_position(&file, outside).expect("readable"), None, "{outside}");
            }
            std::fs::remove_file(path).expect("the file exists");
        }
    }

    #[test]
    fn records_at_the_same_distance_are_one_segment() {
        let dir = tempfile::tempdir().expect("a folder");
        for order in [(0..1000).collect::<Vec<u64>>(), (0..1000).rev().collect()] {
            let mut collector = PlaceCollector::new(dir.path());
            for position in order {
                let base = RecordPlace { position, offset: position * 10 };
                let run = RecordPlace { position: position + 1, offset: position * 10 + 12 };
                collector.push(base, run).expect("the write succeeds");
            }
            let path = dir.path().join("rows");
            let mut out = SortedWriter::create(&path).expect("a file");
            assert_eq!(collector.write(&mut out, |_| true).expect("the write succeeds"), 1);
        }
    }
}
