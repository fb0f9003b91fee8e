//! The files of a state directory besides the segments, compared with the segments, without the database.

use crate::audit::log::kept_entries_in;
use crate::audit::logged_rows::RowComparison;
use crate::audit::segment_log::{EntryContent, SegmentEntry, SegmentLog, SegmentRemains};
use crate::base::row_batch::RowBatch;
use crate::base::watermark::Watermark;
use crate::base::{meta, rows};
use crate::ground::offline::{SourceRows, VerifiedSourceFiles};
use domain_audit::event::{RetentionStarted, log_key_in};
use domain_audit::log_tree::LogTree;
use domain_base::digest::Sha256Hex;
use domain_base::event::LoggedEvent;
use domain_base::row::Row;
use domain_ground::event::SourcePruned;
use domain_verdict::held::HeldVerdict;
use std::collections::{BTreeSet, HashSet};
use store_base::error::StoreError;

/// The state at the end of a log, as far as files depend on it.
#[derive(Debug, PartialEq)]
pub struct LoggedState {
    /// The tree of all entries.
    pub tree: LogTree,
    /// The first entry that was not dropped.
    pub first_seq: u64,
    /// The last public key that the log names.
    pub log_key: Option<String>,
    /// The sessions with a verdict that the policy holds, which is encrypted.
    pub held: BTreeSet<String>,
    rows: SourceRows,
    pruned: HashSet<Sha256Hex>,
    /// The bytes after the groups of segments.
    pub remains: Vec<SegmentRemains>,
    /// Whether the high-water mark has the counts of one of the groups.
    is_mark_known: bool,
    /// The id of the store, of the first group.
    store_id: Option<u64>,
}

/// The files that were compared with the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifiedStateFiles {
    /// The files of sources.
    pub sources: VerifiedSourceFiles,
    /// The number of entries of the high-water mark, if it is less than the log has.
    pub mark_behind: Option<u64>,
}

impl SegmentLog {
    /// Reads all entries as [`SegmentLog::read`] does, and with them the state that the other files depend on. `compared` gets the
    /// rows.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read`].
    pub fn read_state(
        &self,
        compared: Option<&mut RowComparison>,
        mut visit: impl FnMut(SegmentEntry<'_>) -> bool,
    ) -> Result<LoggedState, StoreError> {
        let (mut rows, mut held) = (SourceRows::default(), BTreeSet::new());
        let (mut pruned, mut log_key) = (HashSet::new(), None);
        let mut kept: Vec<Sha256Hex> = Vec::new();
        let (mut is_mark_known, mut store_id) = (self.mark().is_none(), None);
        let (mut first_seq, mut is_drop_logged, mut is_stopped) = (1, true, false);
        let (tree, remains) = self.read_with_rows(
            compared,
            |entry| {
                match &entry.content {
                    EntryContent::Dropped(_) => (first_seq, is_drop_logged) = (entry.seq + 1, false),
                    EntryContent::Line { line, .. } => {
                        pruned.extend(pruned_payloads(line));
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
            |batch: &RowBatch| {
                rows.apply(batch);
                note_held(batch, &mut held);
                for line in kept_entries_in(batch) {
                    kept.extend(pruned_payloads(&line));
                }
                store_id = store_id.or_else(|| meta::store_id_in(batch));
                is_mark_known |= meta::counts_in(batch).as_ref() == self.mark().map(|mark| &mark.counts);
            },
        )?;
        pruned.extend(kept);
        if !is_drop_logged && !is_stopped {
            let detail =
                format!("entries 1 to {} are missing, and no later entry names their removal", first_seq - 1);
            return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
        }
        Ok(LoggedState { tree, first_seq, log_key, held, rows, pruned, remains, is_mark_known, store_id })
    }

    /// Compares the files of sources and the high-water mark with the state at the end of the log.
    ///
    /// # Errors
    /// `SourceFile` with the first file of a source that is missing or differs; `Corrupt` if the high-water mark is not that of
    /// the log, or one of its bytes was changed.
    pub fn verify_files(&self, state: &LoggedState) -> Result<VerifiedStateFiles, StoreError> {
        let corrupt =
            |detail: &str| StoreError::Corrupt { dir: self.dir().to_owned(), detail: detail.to_owned() };
        Watermark::verify_file(self.dir())?;
        if let Some(mark) = self.mark() {
            if state.store_id != Some(mark.store_id) {
                return Err(corrupt("its high-water mark, the file watermark, is that of another store"));
            }
            if !state.is_mark_known {
                return Err(corrupt(
                    "its high-water mark, the file watermark, has counts that the log never had",
                ));
            }
        }
        let marked = self.mark().map(|mark| mark.counts.entries);
        let sources = match state.rows.verify_files(self.dir(), &state.pruned) {
            Err(error @ StoreError::SourceFile { .. }) => self.verify_again(state, error)?,
            verified => verified?,
        };
        let mark_behind = marked.filter(|marked| *marked < state.tree.size());
        Ok(VerifiedStateFiles { sources, mark_behind })
    }

    /// Compares the files of sources with the state at the end of the log, which no daemon changes.
    ///
    /// # Errors
    /// `SourceFile` with the first file of a source that is missing or differs.
    pub(crate) fn verify_sources(&self, state: &LoggedState) -> Result<VerifiedSourceFiles, StoreError> {
        state.rows.verify_files(self.dir(), &state.pruned)
    }

    /// Verifies the files of sources again if a daemon has replaced them meanwhile; otherwise returns `error`.
    fn verify_again(
        &self,
        state: &LoggedState,
        error: StoreError,
    ) -> Result<VerifiedSourceFiles, StoreError> {
        let now = Self::open(self.dir())?.read_state(None, |_| true)?;
        if now.rows == state.rows { Err(error) } else { now.rows.verify_files(self.dir(), &now.pruned) }
    }
}

/// Applies the changes of a group to the sessions with a held verdict.
fn note_held(batch: &RowBatch, held: &mut BTreeSet<String>) {
    let keys = rows::all(HeldVerdict::TABLE.name);
    for (key, value) in batch.range(keys).filter(|(key, _)| rows::is_first_chunk(key)) {
        let session_id = String::from_utf8_lossy(rows::name(key).unwrap_or_default()).into_owned();
        if value.is_some() {
            held.insert(session_id);
        } else {
            held.remove(&session_id);
        }
    }
}

/// The payloads that the entry with this line has pruned.
fn pruned_payloads(line: &str) -> Vec<Sha256Hex> {
    let pruned = LoggedEvent::<SourcePruned>::read(line).ok().flatten();
    pruned.map(|pruned| pruned.event.0.payloads).unwrap_or_default()
}
