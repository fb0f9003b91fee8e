//! Reading the groups of segments while the journal appends further ones.

use super::files::{SegmentEnd, SegmentFiles};
use super::group::{GroupEnd, StoredGroup};
use crate::base::error::StoreError;
use crate::base::row_batch::RowBatch;
use std::ops::RangeInclusive;

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

    /// Passes each group after entry `after` to `apply`, with the number of its last entry, until `apply` returns false; all
    /// groups if `after` is `None`.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged, `Short` if one is missing.
    pub(crate) fn replay(
        &self,
        after: Option<u64>,
        mut apply: impl FnMut(u64, RowBatch) -> bool,
    ) -> Result<(), StoreError> {
        if after == Some(self.entries()) {
            return Ok(());
        }
        let mut first = self.last;
        while first > 1 {
            let before = self.files.head(first)?.previous.entries;
            if after.is_some_and(|after| before <= after) {
                break;
            }
            first -= 1;
        }
        let mut is_at_end = false;
        let end = read_groups(&self.files, first..=self.last, |number, group| {
            // the journal may have appended further groups
            if is_at_end {
                return Ok(false);
            }
            is_at_end = group.end == self.end;
            if after.is_some_and(|after| group.end.entries <= after) {
                return Ok(true);
            }
            let malformed = || self.files.damaged(number, "the rows of a group are malformed");
            Ok(apply(group.end.entries, group.rows().ok_or_else(malformed)?))
        })?;
        match end.filter(|_| !is_at_end) {
            Some(end) => Err(self.files.damaged_group(self.last, end)),
            None => Ok(()),
        }
    }
}

/// Passes each group of the segments `numbers` to `visit`, with the number of its segment, until `visit` returns false. Returns
/// the end of the last group; `None` if `visit` has stopped.
///
/// # Errors
/// `Corrupt` if a segment is damaged, `Short` if one is missing.
fn read_groups(
    files: &SegmentFiles,
    numbers: RangeInclusive<u64>,
    visit: impl FnMut(u64, StoredGroup<'_>) -> Result<bool, StoreError>,
) -> Result<Option<SegmentEnd>, StoreError> {
    read_segments(files, numbers, visit, |_, _, _| {})
}

/// Reads as [`read_groups`] does, and passes the number, the end, and the bytes after the last group of each segment to
/// `after_groups`.
///
/// # Errors
/// The errors of [`read_groups`].
pub(crate) fn read_segments(
    files: &SegmentFiles,
    numbers: RangeInclusive<u64>,
    mut visit: impl FnMut(u64, StoredGroup<'_>) -> Result<bool, StoreError>,
    mut after_groups: impl FnMut(u64, SegmentEnd, &[u8]),
) -> Result<Option<SegmentEnd>, StoreError> {
    let mut previous: Option<SegmentEnd> = None;
    for number in numbers {
        let (head, bytes) = files.read(number)?;
        if let Some(end) = previous.filter(|previous| previous.group != head.previous) {
            return Err(files.damaged_group(number - 1, end));
        }
        let mut goes_on = true;
        let end = files.walk(head, &bytes, |group| {
            if goes_on {
                goes_on = visit(number, group)?;
            }
            Ok(())
        })?;
        if !goes_on {
            return Ok(None);
        }
        let rest = usize::try_from(end.len).ok().and_then(|len| bytes.get(len..));
        after_groups(number, end, rest.unwrap_or_default());
        previous = Some(end);
    }
    Ok(previous)
}
