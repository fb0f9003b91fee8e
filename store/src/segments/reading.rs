//! Reading the groups of segments while the journal appends further ones.

use super::files::{SegmentEnd, SegmentFiles};
use super::group::{GroupEnd, StoredGroup};
use crate::base::error::StoreError;
use crate::base::row_batch::RowBatch;

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
        let mut previous: Option<SegmentEnd> = None;
        for number in first..=self.last {
            let (head, bytes) = self.files.read(number)?;
            if let Some(previous) = previous.filter(|previous| previous.group != head.previous) {
                let fault = format!("the group at byte {} is damaged", previous.len);
                return Err(self.files.damaged(number - 1, &fault));
            }
            let (mut goes_on, mut read) = (true, head.previous);
            let end = self.files.walk(head, &bytes, |group: StoredGroup<'_>| {
                // the journal may have appended further groups
                if number == self.last && read == self.end {
                    return Ok(());
                }
                read = group.end;
                if !goes_on || after.is_some_and(|after| group.end.entries <= after) {
                    return Ok(());
                }
                let malformed = || self.files.damaged(number, "the rows of a group are malformed");
                goes_on = apply(group.end.entries, group.rows().ok_or_else(malformed)?);
                Ok(())
            })?;
            if !goes_on {
                return Ok(());
            }
            previous = Some(SegmentEnd { group: read, ..end });
        }
        match previous.filter(|previous| previous.group != self.end) {
            Some(previous) => {
                let fault = format!("the group at byte {} is damaged", previous.len);
                Err(self.files.damaged(self.last, &fault))
            }
            None => Ok(()),
        }
    }
}
