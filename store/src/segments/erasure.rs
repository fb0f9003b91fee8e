//! Erasing values from the groups of sealed segments.

use super::group::{StoredGroup, encode_changed};
use super::reading::SegmentsUpTo;
use crate::base::row_batch::RowBatch;
use store_base::error::StoreError;

impl SegmentsUpTo {
    /// Replaces the rows of each group by those that `change` returns; `None` leaves the group as it is. `change` gets the number
    /// of log entries after the group, and its rows. The last segment stays.
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
    ) -> Result<u64, StoreError> {
        let mut rewritten = 0;
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
            rewritten += u64::from(is_rewritten);
        }
        Ok(rewritten)
    }
}
