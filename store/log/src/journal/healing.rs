//! Writing damaged or missing segments again from the database.
//!
//! The database has the latest version of each row. It is checked against the Merkle tree and the counts, and its rows become a
//! snapshot in place of all segments before. Commits continue meanwhile: their groups are in later segments, which a rebuild applies
//! after the snapshot, so a row that changed while it was read does no harm.

use super::Journal;
use crate::audit::log::{LOG, first_seq_of};
use crate::base::database_error::database_error;
use crate::base::engine::{StoreEngine, TableReader};
use crate::base::log_hashes::TILES;
use crate::base::meta::{self, META};
use crate::base::row_batch::RowBatch;
use crate::base::rows;
use crate::base::watermark::StoreCounts;
use crate::journal::check::check_stop;
use crate::segments::{SegmentsUpTo, WrittenSnapshot};
use domain_audit::log_tree::LogTree;
use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use store_base::error::StoreError;

/// The number of keys that are read from the database at a time.
const KEYS_AT_ONCE: usize = if cfg!(test) { 7 } else { 512 };

/// A key and its value.
type StoredKey = (Vec<u8>, Vec<u8>);

/// The repair of damaged segments in progress.
#[derive(Debug)]
pub struct SegmentHealing {
    engine: Arc<StoreEngine>,
    /// The segments that the snapshot replaces.
    segments: SegmentsUpTo,
    counts: StoreCounts,
    tree: LogTree,
    snapshot: Option<WrittenSnapshot>,
}

impl Journal {
    /// Begins to write the segments again from the database. An erasure and a backup must not be in progress until it is finished.
    ///
    /// # Errors
    /// `Unavailable` if the journal accepts no writes, or the next segment cannot be created.
    pub fn begin_healing(&mut self) -> Result<SegmentHealing, StoreError> {
        self.check_failure()?;
        // otherwise the next entry would write the last row again, with entries after the snapshot
        self.tip.end_row();
        self.segments.seal()?;
        Ok(SegmentHealing {
            engine: Arc::clone(&self.engine),
            segments: self.segments.up_to_now(),
            counts: self.mark.now.counts.clone(),
            tree: self.engine.log_hashes().tree.clone(),
            snapshot: None,
        })
    }

    /// The damage of the segments that was found and not repaired yet.
    #[must_use]
    pub fn segment_damage(&self) -> Option<String> {
        self.tables.segment_damage()
    }

    /// Replaces the damaged segments by the snapshot of `healing`, if it is written.
    ///
    /// # Errors
    /// The snapshot cannot be put in place.
    pub fn finish_healing(&mut self, healing: SegmentHealing) -> Result<(), StoreError> {
        if let Some(snapshot) = healing.snapshot {
            self.segments.replace_by(&snapshot)?;
            self.engine.clear_segment_damage();
        }
        Ok(())
    }
}

impl SegmentHealing {
    /// Checks the database, and writes its rows as a snapshot. Commits can continue.
    ///
    /// # Errors
    /// `Corrupt` or `Short` if the database is damaged too; the snapshot cannot be written; `Stopped` or `Unavailable` if `proceed`
    /// returned false.
    pub fn write(&mut self, proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let tables = TableReader::new(Arc::clone(&self.engine));
        if !tables.audit_up_to(&self.tree, |_| proceed())? {
            return Err(StoreError::Stopped);
        }
        let snapshot = write_snapshot(&self.engine, &self.segments, &self.counts, &self.tree, proceed)?;
        self.snapshot = Some(snapshot);
        Ok(())
    }
}

/// Writes the rows of the database as the snapshot in place of `segments`, after which the store has `counts` and its log `tree`.
pub(super) fn write_snapshot(
    engine: &StoreEngine,
    segments: &SegmentsUpTo,
    counts: &StoreCounts,
    tree: &LogTree,
    proceed: &dyn Fn() -> bool,
) -> Result<WrittenSnapshot, StoreError> {
    let mut last = RowBatch::default();
    meta::put_counts(&mut last, counts, tree);
    segments.write_snapshot(snapshot_rows(engine, segments.entries(), proceed), &last)
}

/// The keys of the database with their values, except its counts and the log after entry `up_to`. A reader needs the metadata and
/// the hashes of dropped entries before the others.
fn snapshot_rows<'e>(
    engine: &'e StoreEngine,
    up_to: u64,
    proceed: &'e dyn Fn() -> bool,
) -> impl Iterator<Item = Result<StoredKey, StoreError>> + use<'e> {
    let (meta, tiles) = (rows::all(META), rows::all(TILES));
    let others = [
        Vec::new()..meta.start.clone(),
        meta.end.clone()..tiles.start.clone(),
        tiles.end.clone()..vec![u8::MAX],
    ];
    let mut ranges: VecDeque<_> = [meta, tiles].into_iter().chain(others).collect();
    let is_left_out = move |key: &[u8]| {
        let is_later = rows::is_of(key, LOG) && first_seq_of(key).is_some_and(|seq| seq > up_to);
        meta::is_counts_key(key) || is_later
    };
    let mut read = VecDeque::new();
    iter::from_fn(move || {
        while read.is_empty() {
            let keys = ranges.front_mut()?;
            let page = check_stop(proceed).and_then(|()| read_page(engine, keys));
            match page {
                Ok(Some(page)) => read.extend(page.into_iter().filter(|(key, _)| !is_left_out(key))),
                Ok(None) => drop(ranges.pop_front()),
                Err(error) => {
                    ranges.clear();
                    return Some(Err(error));
                }
            }
        }
        read.pop_front().map(Ok)
    })
}

/// The next keys of the range, which then begins after them; `None` if there are none.
fn read_page(engine: &StoreEngine, keys: &mut Range<Vec<u8>>) -> Result<Option<Vec<StoredKey>>, StoreError> {
    let page = engine.with(|db| {
        let found = db.range(keys.clone()).take(KEYS_AT_ONCE);
        let read = found.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
        read.collect::<Result<Vec<_>, _>>().map_err(|error| database_error(engine.dir(), &error))
    })?;
    let Some((last, _)) = page.last() else { return Ok(None) };
    keys.start = [last.as_slice(), &[0]].concat();
    Ok(Some(page))
}

#[cfg(test)]
mod tests;
