//! Writing damaged or missing segments again from their copies, and snapshots of a database.
//!
//! Commits continue while segments are repaired: the repair concerns only sealed ones.

use super::Journal;
use crate::audit::log::{LOG, first_seq_of};
use crate::base::engine::StoreEngine;
use crate::base::log_hashes::TILES;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows;
use crate::base::watermark::StoreCounts;
use crate::journal::check::check_stop;
use crate::segments::{SegmentsUpTo, WrittenSnapshot};
use domain_audit::log_tree::LogTree;
use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use store_base::error::StoreError;

/// The number of keys that are read from the database at a time.
const KEYS_AT_ONCE: usize = if cfg!(test) { 7 } else { 512 };

/// A key and its value.
type StoredKey = (Vec<u8>, Vec<u8>);

/// The repair of damaged segments in progress.
#[derive(Debug)]
pub struct SegmentHealing {
    segments: SegmentsUpTo,
}

impl Journal {
    /// Begins to repair the segments. An erasure and a backup must not be in progress until it is finished.
    ///
    /// # Errors
    /// `Unavailable` if the journal accepts no writes, or the next segment cannot be created.
    pub fn begin_healing(&mut self) -> Result<SegmentHealing, StoreError> {
        self.check_failure()?;
        // only sealed segments are repaired
        self.tip.end_row();
        self.segments.seal()?;
        Ok(SegmentHealing { segments: self.segments.up_to_now() })
    }

    /// The damage of the segments that was found and not repaired yet.
    #[must_use]
    pub fn segment_damage(&self) -> Option<String> {
        self.tables.segment_damage()
    }

    /// The segments whose copies could not be written; `None` if all have one. It is tried again once a second.
    #[must_use]
    pub fn missing_copies(&self) -> Option<String> {
        self.tables.missing_copies()
    }

    /// Notes that the segments of `healing` are whole.
    pub fn finish_healing(&mut self, healing: SegmentHealing) {
        drop(healing);
        self.engine.clear_segment_damage();
    }
}

impl SegmentHealing {
    /// Writes each segment that is damaged again from its copy, and each damaged copy from its segment. Commits can continue.
    ///
    /// # Errors
    /// `Corrupt` or `Short` if a segment and its copy are damaged; a file cannot be written; `Unavailable` if `proceed` returned false.
    pub fn write(&mut self, proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
        self.segments.heal(proceed)?;
        check_stop(proceed)
    }
}

/// Writes the rows of the database as the snapshot in place of `segments`, after which the store has `counts` and its log `tree`. The
/// database, which is not served yet, then has the positions of its values in the snapshot.
pub(super) fn write_snapshot(
    engine: &StoreEngine,
    segments: &SegmentsUpTo,
    counts: &StoreCounts,
    tree: &LogTree,
    proceed: &dyn Fn() -> bool,
) -> Result<WrittenSnapshot, StoreError> {
    let mut last = RowBatch::default();
    meta::put_counts(&mut last, counts, tree);
    let rows = snapshot_rows(engine, segments.entries(), proceed);
    segments.write_snapshot(rows, last, &mut |rows| engine.apply(rows))
}

/// The keys of the database with their values, except its counts and the log after entry `up_to`. A reader needs the metadata and
/// the hashes of dropped entries before the others.
fn snapshot_rows<'e>(
    engine: &'e StoreEngine,
    up_to: u64,
    proceed: &'e dyn Fn() -> bool,
) -> impl Iterator<Item = Result<StoredKey, StoreError>> + use<'e> {
    let (meta, tiles) = (rows::all(rows::META), rows::all(TILES));
    let others = [
        Vec::new()..meta.start.clone(),
        meta.end.clone()..tiles.start.clone(),
        tiles.end.clone()..vec![u8::MAX],
    ];
    let mut ranges: VecDeque<_> = [meta, tiles].into_iter().chain(others).collect();
    let is_left_out = move |key: &[u8]| {
        let is_later = rows::is_of(key, LOG) && first_seq_of(key).is_some_and(|seq| seq > up_to);
        rows::is_counts_key(key) || is_later
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
        let read = db.range(keys.clone()).take(KEYS_AT_ONCE).map(|entry| {
            let (key, form) = entry?;
            Ok((key.to_vec(), db.read(form)?.to_vec()))
        });
        read.collect::<Result<Vec<_>, StoreError>>()
    })?;
    let Some((last, _)) = page.last() else { return Ok(None) };
    keys.start = [last.as_slice(), &[0]].concat();
    Ok(Some(page))
}

#[cfg(test)]
mod tests;
