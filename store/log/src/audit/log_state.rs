//! The state at the end of the log, as the segments have it, and its comparison with the high-water mark.

use super::logged_rows::RowComparison;
use super::segment_log::{EntryContent, SegmentEntry, SegmentLog, SegmentRemains};
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::watermark::Watermark;
use domain_audit::event::{RetentionStarted, log_key_in};
use domain_audit::log_tree::LogTree;
use domain_base::event::LoggedEvent;
use store_base::error::StoreError;

/// The state at the end of a log.
#[derive(Debug, PartialEq)]
pub struct LogState {
    /// The tree of all entries.
    pub tree: LogTree,
    /// The first entry that was not dropped.
    pub first_seq: u64,
    /// The last public key that the log names.
    pub log_key: Option<String>,
    /// The bytes after the groups of segments.
    pub remains: Vec<SegmentRemains>,
    /// Whether the high-water mark has the counts of one of the groups.
    is_mark_known: bool,
    /// The id of the store, of the first group.
    store_id: Option<u64>,
}

impl SegmentLog {
    /// Reads all entries as [`SegmentLog::read`] does, and with them the state at the end. `compared` and `on_rows` get the rows of
    /// each group.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read`].
    pub fn read_state(
        &self,
        compared: Option<&mut RowComparison>,
        mut visit: impl FnMut(SegmentEntry<'_>) -> bool,
        mut on_rows: impl FnMut(&RowBatch),
    ) -> Result<LogState, StoreError> {
        let mut log_key = None;
        let (mut is_mark_known, mut store_id) = (self.mark().is_none(), None);
        let (mut first_seq, mut is_drop_logged, mut is_stopped) = (1, true, false);
        let (tree, remains) = self.read_with_rows(
            compared,
            |entry| {
                match &entry.content {
                    EntryContent::Dropped(_) => (first_seq, is_drop_logged) = (entry.seq + 1, false),
                    EntryContent::Line { line, .. } => {
                        log_key = log_key_in(line).ok().flatten().or_else(|| log_key.take());
                        if let Ok(Some(started)) = LoggedEvent::<RetentionStarted>::read(line) {
                            is_drop_logged |= started.event.0.due.dropped_up_to() == Some(first_seq - 1);
                        }
                    }
                }
                let proceeds = visit(entry);
                is_stopped |= !proceeds;
                proceeds
            },
            |batch| {
                on_rows(batch);
                store_id = store_id.or_else(|| meta::store_id_in(batch));
                is_mark_known |= meta::counts_in(batch).as_ref() == self.mark().map(|mark| &mark.counts);
            },
        )?;
        if !is_drop_logged && !is_stopped {
            let detail =
                format!("entries 1 to {} are missing, and no later entry names their removal", first_seq - 1);
            return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
        }
        Ok(LogState { tree, first_seq, log_key, remains, is_mark_known, store_id })
    }

    /// Compares the high-water mark with the state at the end of the log. Returns the number of its entries, if it is less than the
    /// log has.
    ///
    /// # Errors
    /// `Corrupt` if the high-water mark is not that of the log, or one of its bytes was changed.
    pub fn verify_mark(&self, state: &LogState) -> Result<Option<u64>, StoreError> {
        let corrupt =
            |detail: &str| StoreError::Corrupt { dir: self.dir().to_owned(), detail: detail.to_owned() };
        Watermark::verify_file(self.dir())?;
        let Some(mark) = self.mark() else { return Ok(None) };
        if state.store_id != Some(mark.store_id) {
            return Err(corrupt("its high-water mark, the file watermark, is that of another store"));
        }
        if !state.is_mark_known {
            return Err(corrupt(
                "its high-water mark, the file watermark, has counts that the log never had",
            ));
        }
        Ok(Some(mark.counts.entries).filter(|marked| *marked < state.tree.size()))
    }
}
