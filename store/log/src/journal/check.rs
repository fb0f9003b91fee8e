//! The checks of a store before it serves, and the check in the background.

use crate::audit::log::{self, LogLine, LogQuery};
use crate::audit::mirror::is_mirror_line;
use crate::base::bundle::Bundle;
use crate::base::database_error::catch_panic;
use crate::base::engine::{OpenedCounts, StoreEngine, TableReader};
use crate::base::meta;
use crate::base::rows::{self, stored_in};
use crate::base::watermark::{StoreCounts, WatermarkValues};
use crate::segments::Segments;
use domain_audit::log_tree::LogTree;
use oracled_domain::tables;
use std::ops::Range;
use std::path::Path;
use std::thread;
use store_base::error::StoreError;

/// The number of entries before the new ones that are walked again. A page of sled's holds 16 rows, and the
/// page in which the new entries begin was split since.
pub(super) const WALKED_AGAIN_ENTRIES: u64 = 1024;

/// The number of rows between two calls of `proceed`.
const AUDITED_AT_ONCE: u64 = 1024;

/// The maximum number of counts of one table, if rows are replaced during a count.
const COUNTS_MAX: usize = 3;

/// # Errors
/// `Unavailable` if `proceed` returns false, since the daemon is stopping.
pub(super) fn check_stop(proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
    let stopped = || StoreError::Unavailable { cause: "the daemon is stopping".to_owned() };
    proceed().then_some(()).ok_or_else(stopped)
}

/// Returns the segments if they have all entries that the mark and the mirror have.
pub(crate) fn check_segments(
    dir: &Path,
    segments: Segments,
    mark: &WatermarkValues,
    mirrored: u64,
) -> Result<Segments, StoreError> {
    let short = |detail: String| Err(StoreError::Short { dir: dir.to_owned(), detail });
    let (entries, expected) = (segments.entries(), mark.counts.entries);
    if segments.store_id() != mark.store_id {
        return short("its high-water mark belongs to another store".into());
    }
    if entries < expected {
        return short(format!("its log ends at entry {entries}, its high-water mark is at {expected}"));
    }
    if entries < mirrored {
        return short(format!("its log ends at entry {entries}, oracle_log.jsonl at entry {mirrored}"));
    }
    Ok(segments)
}

/// Compares the content of the database, which has all groups of the segments, with its own counts and the mark. Returns the
/// damage as an error.
///
/// sled can silently lose only what it reads back from the end of its file, after the snapshot of its page
/// table that it writes at each opening. Therefore an opening walks the log only from the last entry of the
/// previous opening on. The check in the background, [`TableReader::audit`], walks the whole log.
pub(crate) fn check_database(
    engine: &StoreEngine,
    counts: &StoreCounts,
    mark: &WatermarkValues,
) -> Result<(), StoreError> {
    let short = |detail: String| Err(StoreError::Short { dir: engine.dir().to_owned(), detail });
    let entries = counts.entries;
    if meta::store_id(engine)? != mark.store_id {
        return short("it belongs to another store".into());
    }
    if entries == mark.counts.entries && *counts != mark.counts {
        return short(format!("the database has {counts}, its high-water mark has {}", mark.counts));
    }
    if meta::read(engine)?.is_some_and(|(_, tree)| !mark.agrees_with(&tree)) {
        return short(format!(
            "its entries up to entry {entries} are others than those of its high-water mark"
        ));
    }
    let kept = engine.with(|db| meta::first_seq(db, engine.dir()))?;
    let from = mark.walked.saturating_sub(WALKED_AGAIN_ENTRIES).clamp(1, entries.max(1)).max(kept);
    let walked = walk_log(engine, from, entries)?;
    let whole = match walked {
        None => entries == 0,
        Some((first, last)) => first <= from && last == entries,
    };
    if !whole {
        let (first, last) = walked.unwrap_or_default();
        return short(format!("its log must have entries {from} to {entries}, and has {first} to {last}"));
    }
    Ok(())
}

/// Walks the log from entry `from` on, in two halves at the same time. A panic of sled on a damaged page
/// gives `Corrupt`.
fn walk_log(engine: &StoreEngine, from: u64, entries: u64) -> Result<Option<(u64, u64)>, StoreError> {
    let middle = from.midpoint(entries) + 1;
    let corrupt = |detail| StoreError::Corrupt { dir: engine.dir().to_owned(), detail };
    engine.with(|db| {
        let walk = |range: Range<u64>| log::walk(db, engine.dir(), range);
        let begin = log::row_at(db, from)?.unwrap_or(from);
        let (lower, upper) = thread::scope(|scope| {
            let lower = scope.spawn(|| catch_panic(|| walk(begin..middle)));
            let upper = catch_panic(|| walk(middle..u64::MAX));
            (lower.join().expect("the thread catches panics"), upper)
        });
        match (lower.map_err(corrupt)??, upper.map_err(corrupt)??) {
            (Some((first, end)), Some((begin, last))) if end + 1 == begin => Ok(Some((first, last))),
            (Some((_, end)), Some((begin, _))) => Err(StoreError::Short {
                dir: engine.dir().to_owned(),
                detail: format!("the log has no entries between {end} and {begin}"),
            }),
            (lower, upper) => Ok(lower.or(upper)),
        }
    })
}

impl TableReader {
    /// Whether `line` is that of entry `seq` in `oracle_log.jsonl`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn has_line(&self, seq: u64, line: &[u8]) -> Result<bool, StoreError> {
        let query = LogQuery { after: seq.saturating_sub(1), limit: 1, ..LogQuery::default() };
        let page = self.log_page(&query)?;
        Ok(page.lines.first().is_some_and(|found| found.seq == seq && is_mirror_line(&found.json, line)))
    }

    /// Reads the segments and their copies, except the one that is written. Calls `proceed` after each; it returns whether to continue.
    /// Returns false if `proceed` stopped the check.
    ///
    /// # Errors
    /// `Corrupt` if one is damaged, `Short` if one is missing.
    pub fn check_segments(&self, mut proceed: impl FnMut() -> bool) -> Result<bool, StoreError> {
        let checked = self.engine().values().check(&mut proceed);
        checked.inspect_err(|error| self.engine().note_segment_damage(error))
    }

    /// Checks the whole store as it was at the opening, without pauses.
    ///
    /// # Errors
    /// The errors of [`TableReader::audit`].
    pub fn audit_all(&self) -> Result<(), StoreError> {
        self.audit_up_to(&self.opened().tree, |_| true).map(|_| ())
    }

    /// Checks the log, whose tree is `tree`, and the rows as they were at the opening. Returns false if `proceed` stopped the check.
    pub(crate) fn audit_up_to(
        &self,
        tree: &LogTree,
        proceed: impl FnMut(u64) -> bool,
    ) -> Result<bool, StoreError> {
        self.audit_from(LogTree::default(), tree, proceed)
    }

    /// Checks the store as it was at the opening: walks the log and counts the rows of the tables. If the
    /// last check was stopped, the walk continues where it ended. The check takes a while and can run while
    /// the store serves. It calls `proceed` every few rows with the number of rows read so far; `proceed`
    /// returns whether to continue. Returns false if `proceed` stopped the check.
    ///
    /// # Errors
    /// `Short` if an entry or a row is missing, `Corrupt` if one cannot be read.
    pub fn audit(&self, proceed: impl FnMut(u64) -> bool) -> Result<bool, StoreError> {
        let audited = self.audit_from(self.engine().checks().audited(), &self.opened().tree, proceed);
        if audited.as_ref().map_or_else(|error| error.damage().is_some(), |is_complete| *is_complete) {
            // the position is only for a check that was stopped; a new check reads all entries again, to find later damage. After
            // damage, the tree at the position can include a changed entry, and the repaired log would differ from it
            self.note_audited(&LogTree::default());
        }
        audited
    }

    fn audit_from(
        &self,
        position: LogTree,
        log: &LogTree,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<bool, StoreError> {
        let opened = self.opened();
        let mut read = 0;
        let mut next = |rows: u64| {
            read += rows;
            proceed(read)
        };
        if !self.audit_log(position, log, &mut next)? {
            return Ok(false);
        }
        for table in StoreCounts::tables() {
            if !self.audit_table(table, opened.clone(), &mut next)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the log after the entries of `tree`, and compares its Merkle tree with `opened`, that of the opening. Stores the
    /// position that it reached.
    fn audit_log(
        &self,
        mut tree: LogTree,
        opened: &LogTree,
        next: &mut impl FnMut(u64) -> bool,
    ) -> Result<bool, StoreError> {
        let dropped = self.first_seq()? - 1;
        if tree.size() < dropped {
            tree = self.tree_of(dropped)?;
        }
        let mut pages = 0u64;
        while tree.size() < opened.size() {
            let (after, limit) = (tree.size(), AUDITED_AT_ONCE as usize);
            let lines = self.log_page(&LogQuery { after, limit, ..LogQuery::default() })?.lines;
            for LogLine { seq, json } in lines.iter().take_while(|line| line.seq <= opened.size()) {
                if *seq != tree.size() + 1 {
                    let detail = format!("the log has no entries between {} and {seq}", tree.size());
                    return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
                }
                tree.append(log::leaf(self.dir(), json)?.as_bytes());
            }
            if tree.size() == after {
                let detail = format!("its log must have {} entries, and has {after}", opened.size());
                return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
            }
            pages += 1;
            let goes_on = next(tree.size() - after);
            if pages.is_multiple_of(64) || !goes_on {
                self.note_audited(&tree);
            }
            if !goes_on {
                return Ok(false);
            }
        }
        if tree.size() == opened.size() && tree != *opened {
            let detail = "an entry of its log was changed: the log differs from its Merkle tree".to_owned();
            return Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail });
        }
        self.note_audited(&tree);
        Ok(true)
    }

    fn note_audited(&self, tree: &LogTree) {
        if let Err(error) = self.engine().checks().put_audited(tree) {
            tracing::debug!(%error, "could not store the position of the check");
        }
    }

    /// Counts the rows of a table. If rows are replaced during the count and the result is uncertain, it
    /// counts again, up to [`COUNTS_MAX`] times in total.
    fn audit_table(
        &self,
        table: &'static str,
        opened: OpenedCounts,
        next: &mut impl FnMut(u64) -> bool,
    ) -> Result<bool, StoreError> {
        let replaced = || self.opened().replaced.of(table);
        let counted = opened.counts.of(table);
        for _ in 0..COUNTS_MAX {
            let before = replaced();
            let Some(there) = self.count_rows(table, opened.counts.entries, next)? else { return Ok(false) };
            let is_same_opening = self.opened().counts == opened.counts;
            // a row that was replaced during the count may be in it already, so only earlier replacements are added
            if !is_same_opening || there + before >= counted {
                return Ok(true);
            }
            if there + replaced() < counted {
                let detail = format!("expected {counted} rows in the table {table}, found {there}");
                return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
            }
        }
        tracing::warn!(
            table,
            "could not count the rows of a table exactly: rows were replaced during each count"
        );
        Ok(true)
    }

    /// Counts the rows of a table that are not newer than entry `entries`, a few at a time. The database can
    /// be reopened in between. Returns `None` if `next` stopped the count.
    pub(super) fn count_rows(
        &self,
        table: &'static str,
        entries: u64,
        next: &mut impl FnMut(u64) -> bool,
    ) -> Result<Option<u64>, StoreError> {
        let bundled = tables::table(table).filter(|table| table.bundle.is_some());
        let (mut there, mut keys) = (0, rows::all(bundled.map_or(table, stored_in)));
        loop {
            let counted = self.read(|db, _| {
                let mut counted = (0, 0, None);
                for head in rows::heads(db, self.dir(), keys.clone()).take(AUDITED_AT_ONCE as usize) {
                    let head = head?;
                    let revision = match bundled {
                        Some(table) => {
                            let first = db.read(head.first)?;
                            let (_, _, start) = rows::split_head(self.dir(), &first)?;
                            Bundle::revision_in(self.dir(), table, start)?.unwrap_or(0)
                        }
                        None => head.revision,
                    };
                    let is_of_opening = (1..=entries).contains(&revision);
                    counted = (counted.0 + 1, counted.1 + u64::from(is_of_opening), Some(head.key));
                }
                Ok(counted)
            })?;
            let (read, of_opening, last) = counted;
            there += of_opening;
            if let Some(last) = last {
                keys.start = [last.as_ref(), &[0]].concat();
            }
            if read < AUDITED_AT_ONCE {
                return Ok(Some(there));
            }
            if !next(read) {
                return Ok(None);
            }
        }
    }
}
