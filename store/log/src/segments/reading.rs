//! Reading the groups of segments while the journal appends further ones.

use super::files::{ReadSegment, SegmentEnd, SegmentFiles, SnapshotExtent, no_damage};
use super::group::{GroupEnd, StoredGroup};
use crate::base::engine::TableReader;
use crate::base::row_batch::RowBatch;
use crate::segments::group::encode_changed;
use std::cell::Cell;
use store_base::error::StoreError;

/// The segments up to a group. Later groups are not read.
#[derive(Debug, Clone)]
pub(crate) struct SegmentsUpTo {
    pub(super) files: SegmentFiles,
    /// The number of the segment with the last group.
    pub(super) last: u64,
    end: GroupEnd,
}

impl SegmentsUpTo {
    pub(super) const fn new(files: SegmentFiles, last: u64, end: GroupEnd) -> Self {
        Self { files, last, end }
    }

    /// The number of the last log entry.
    pub(crate) const fn entries(&self) -> u64 {
        self.end.entries
    }

    pub(super) const fn end(&self) -> GroupEnd {
        self.end
    }

    /// Passes each group after entry `after` to `apply`, with the number of its last entry, until `apply` returns false; all
    /// groups, with those of the snapshot, if `after` is `None`. The groups of the snapshot have the number 0, except the last one.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged, `Short` if one is missing or if a snapshot replaces groups after entry `after`.
    pub(crate) fn replay(
        &self,
        after: Option<u64>,
        mut apply: impl FnMut(u64, RowBatch) -> bool,
    ) -> Result<(), StoreError> {
        if after == Some(self.entries()) {
            return Ok(());
        }
        if let Some(after) = after
            && after < self.files.snapshot_entries()?
        {
            return Err(self.files.missing(self.files.snapshot().map_or(1, |snapshot| snapshot.replaces)));
        }
        let mut first = self.last;
        while let Some(before) = self.files.number_before(first) {
            let entries = self.files.head(first)?.previous.entries;
            if after.is_some_and(|after| entries <= after) {
                break;
            }
            first = before;
        }
        let is_at_end = Cell::new(false);
        let numbers = self.files.numbers_up_to(self.last).skip_while(move |number| *number != first);
        let check_end = |read: &ReadSegment| {
            is_at_end.get().then_some(()).ok_or_else(|| self.files.damaged_group(self.last, read.end))
        };
        read_groups(&self.files, numbers, check_end, |number, group| {
            // the journal may have appended further groups
            if is_at_end.get() {
                return Ok(false);
            }
            is_at_end.set(group.end == self.end);
            if after.is_some_and(|after| group.end.entries <= after) {
                return Ok(true);
            }
            let malformed = || self.files.damaged(number, "the rows of a group are malformed");
            Ok(apply(group.end.entries, group.rows_in(number).ok_or_else(malformed)?))
        })
        .map(drop)
    }
}

/// Passes the rows of each group of `store` to `visit`. The journal may append groups meanwhile.
///
/// # Errors
/// An error of `visit`, `Corrupt` if a segment and its copy are damaged, `Short` if they are missing.
pub fn visit_rows(
    store: &TableReader,
    mut visit: impl FnMut(&RowBatch) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (files, up_to) = (SegmentFiles::of(store), store.last_seq());
    let last = files.check_names()?.ok_or_else(|| files.missing(1))?;
    let check_end = |read: &ReadSegment| files.check_reaches(last, read, up_to);
    read_groups(&files, files.numbers_up_to(last), check_end, |number, group| {
        let malformed = || files.damaged(number, "the rows of a group are malformed");
        visit(&group.rows().ok_or_else(malformed)?)?;
        Ok(true)
    })?;
    Ok(())
}

/// Writes the files of the snapshot that are damaged again from their copies.
///
/// # Errors
/// A file cannot be read or written. A file that is damaged like its copy stays.
pub(crate) fn heal_snapshot(files: &SegmentFiles) -> Result<(), StoreError> {
    let replaces = files.snapshot().map_or(0, |snapshot| snapshot.replaces);
    files.numbers_up_to(replaces).try_for_each(|number| no_damage(files.heal(number)).map(drop))
}

/// Passes the rows of each group of the snapshot in `files`, if there is one, to `visit`.
///
/// # Errors
/// An error of `visit`, `Corrupt` if a file of the snapshot is damaged, `Short` if one is missing.
pub(crate) fn visit_snapshot(
    files: &SegmentFiles,
    mut visit: impl FnMut(RowBatch) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let SnapshotExtent { replaces, parts } = files.snapshot().unwrap_or_default();
    // only the last group has entries
    let check_end = |read: &ReadSegment| files.check_reaches(parts, read, 1);
    read_groups(files, files.numbers_up_to(replaces), check_end, |number, group| {
        let malformed = || files.damaged(number, "the rows of a group are malformed");
        visit(group.rows().ok_or_else(malformed)?)?;
        Ok(true)
    })?;
    Ok(())
}

/// Passes each group of the segments `numbers` to `visit`, with the number of its segment, until `visit` returns false. `check_end` must
/// accept the end of the last segment. Groups that a segment lacks are those of its copy. Returns the end of the last group; `None` if
/// `visit` has stopped.
///
/// # Errors
/// An error of `visit`, `Corrupt` if a segment and its copy are damaged, `Short` if they are missing.
fn read_groups(
    files: &SegmentFiles,
    numbers: impl Iterator<Item = u64>,
    check_end: impl Fn(&ReadSegment) -> Result<(), StoreError>,
    visit: impl FnMut(u64, StoredGroup<'_>) -> Result<bool, StoreError>,
) -> Result<Option<SegmentEnd>, StoreError> {
    read_segments(files, numbers, check_end, visit, |_, _| {})
}

/// Reads as [`read_groups`] does, and passes the number of each segment that has bytes other than 0 after its last group to
/// `on_remains`, with the position of the first one.
///
/// # Errors
/// The errors of [`read_groups`].
pub(crate) fn read_segments(
    files: &SegmentFiles,
    numbers: impl Iterator<Item = u64>,
    check_end: impl Fn(&ReadSegment) -> Result<(), StoreError>,
    mut visit: impl FnMut(u64, StoredGroup<'_>) -> Result<bool, StoreError>,
    mut on_remains: impl FnMut(u64, u64),
) -> Result<Option<SegmentEnd>, StoreError> {
    let (mut numbers, mut last) = (numbers.peekable(), None);
    while let Some(number) = numbers.next() {
        let next = numbers.peek().map(|next| files.head(*next)).transpose()?;
        let mut goes_on = true;
        let end_of = |read: &ReadSegment| match next {
            Some(head) if head.previous != read.end.group => Err(files.damaged_group(number, read.end)),
            Some(_) => Ok(()),
            None => check_end(read),
        };
        let read = files.walk(number, end_of, &mut |group| {
            if goes_on {
                goes_on = visit(number, group)?;
            }
            Ok(())
        })?;
        if !goes_on {
            return Ok(None);
        }
        if let Some(at) = read.remains {
            on_remains(number, at);
        }
        last = Some(read.end);
    }
    Ok(last)
}

impl SegmentsUpTo {
    /// Writes the segments with the rows of each group that `change` returns; `None` leaves the group as it is. `change` gets the number
    /// of log entries after the group, and its rows. The last segment stays. The new files are read by
    /// [`SegmentsUpTo::after_erasure`] until [`SegmentsUpTo::put_erased`].
    /// `may_change` returns, from the last entry before a segment and the content of one of its groups, whether any of its rows may
    /// change. Calls `proceed` before each segment, and stops if it returns false. Returns the number of segments that were rewritten.
    ///
    /// # Errors
    /// A segment is damaged, or cannot be written. Each segment is rewritten as a whole or not at all.
    pub(crate) fn change_rows(
        &self,
        may_change: impl Fn(u64, &[u8]) -> bool,
        mut change: impl FnMut(u64, RowBatch) -> Result<Option<RowBatch>, StoreError>,
        mut proceed: impl FnMut() -> bool,
    ) -> Result<Vec<u64>, StoreError> {
        let mut rewritten = Vec::new();
        for number in self.files.numbers_up_to(self.last - 1).take_while(|_| proceed()) {
            let is_rewritten = self.files.change(
                number,
                |head, group| may_change(head.previous.entries, group.bytes),
                |previous, group: &StoredGroup<'_>| {
                    let malformed = || self.files.damaged(number, "the rows of a group are malformed");
                    let rows = change(group.end.entries, group.rows().ok_or_else(malformed)?)?;
                    let too_large = |length| {
                        self.files.damaged(number, &format!("a group of {length} bytes cannot be rewritten"))
                    };
                    rows.map(|rows| encode_changed(previous, group.end, &rows).map_err(too_large)).transpose()
                },
            )?;
            rewritten.extend(is_rewritten.then_some(number));
        }
        Ok(rewritten)
    }

    /// These segments as they are after [`SegmentsUpTo::change_rows`].
    pub(crate) fn after_erasure(&self) -> Self {
        Self { files: self.files.after_erasure(), ..self.clone() }
    }

    /// The same view up to the end of `other`.
    pub(crate) fn up_to(&self, other: &Self) -> Self {
        Self { files: self.files.clone(), ..other.clone() }
    }

    /// Puts the rewritten segments `numbers` in the place of the others.
    ///
    /// # Errors
    /// A file is missing or cannot be renamed; some are in place then.
    pub(crate) fn put_erased(&self, numbers: &[u64]) -> Result<(), StoreError> {
        self.files.put_erased(numbers)
    }

    /// Removes rewritten segments that are not in place.
    pub(crate) fn remove_erased(&self) {
        self.files.remove_erased(self.last);
    }

    /// The files of these segments.
    pub(crate) const fn files(&self) -> &SegmentFiles {
        &self.files
    }

    /// Writes sealed segments that are damaged again from their copies, and the copies from them. Calls `proceed` before each.
    ///
    /// # Errors
    /// A segment and its copy are both damaged.
    pub(crate) fn heal(&self, proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let mut numbers = self.files.numbers_up_to(self.last - 1).take_while(|_| proceed());
        numbers.try_for_each(|number| self.files.heal(number))
    }
}
