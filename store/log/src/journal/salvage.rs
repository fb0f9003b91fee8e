//! Building a new database if segments and database are damaged: from the groups that are readable, the database as far as it can be read,
//! and the lines of `oracle_log.jsonl`.
//!
//! Every entry must be found. Its line names the rows that were set with it, with their digests. A row that no copy has with its digest
//! is lost: an empty row takes its place, which is no JSON, and [`LOST`] has its name. It is no longer lost when it is set again.

use super::healing::write_snapshot;
use super::opening::begin_segments;
use super::opening::{adopt_database, create_database, index_and_count};
use crate::audit::log::{self, LOG, LogQuery, put_line};
use crate::audit::logged_rows::RecoveryMembers;
use crate::audit::mirror::erasure::lines_of;
use crate::audit::removal::{session_of_path, session_of_row};
use crate::base::bundle::Bundle;
use crate::base::engine::{StoreEngine, TableReader, remove_dir};
use crate::base::log_hashes::LogHashes;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, LOST, StoredValue, row_of_path, stored_in};
use crate::base::watermark::{StoreCounts, Watermark, WatermarkValues};
use crate::journal::opening::{lines_in, tree_after};
use crate::segments::{KEPT_DIR, ReadableGroup, SegmentFiles, Segments, heal_snapshot, visit_snapshot};
use domain_audit::event::LostRow;
use domain_audit::leaf::{LoggedRows, hidden_members};
use domain_audit::log_tree::LogTree;
use domain_base::digest::Sha256Hex;
use domain_base::event::event_in;
use domain_base::row::{Row, Table};
use domain_base::session_id::SessionId;
use oracled_domain::events::event_type;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use store_base::error::StoreError;

/// Continues a store with a segment that is damaged like its copy: with a new database, which has everything that is readable, and a
/// snapshot of it in place of all segments.
///
/// # Errors
/// `damage` if an entry is in no readable copy.
pub(super) fn continue_with_salvage(
    engine: &Arc<StoreEngine>,
    files: &SegmentFiles,
    mark: &mut Watermark,
    mirrored: u64,
    damage: StoreError,
) -> Result<Segments, StoreError> {
    tracing::error!(
        damage = damage.damage(),
        "a segment and its copy are damaged; a new database is built from what is readable"
    );
    match salvage(engine, files, mark, mirrored) {
        Err(error) => match error.damage() {
            Some(further) => {
                tracing::error!(%error, "the damaged segments cannot be replaced");
                Err(damage.with_detail(further))
            }
            // another remedy helps, such as more space
            None => Err(error),
        },
        Ok(segments) => {
            engine.note_segment_damage(&damage.with_detail(&format!("the files are kept in {KEPT_DIR}")));
            Ok(segments)
        }
    }
}

/// Replaces the database in the state directory, whose segments are damaged too, by a new one with everything that is readable. The
/// log of it must have all entries of the mark, and those of the mirror up to entry `mirrored`.
///
/// # Errors
/// `Corrupt` or `Short` if an entry is in no readable copy; nothing is changed then.
fn salvage(
    engine: &Arc<StoreEngine>,
    files: &SegmentFiles,
    mark: &mut Watermark,
    mirrored: u64,
) -> Result<Segments, StoreError> {
    engine.close_database();
    // the values of the new database are all in itself, until the snapshot has them
    let new = create_database(engine.options(), files, true)?;
    let salvaged = build(engine, files, &new, mark, mirrored).and_then(|()| {
        new.sync()?;
        let (counts, tree) = meta::read(&new)?.unwrap_or_default();
        let segments = begin_segments(files, &new, mark.now.store_id, counts.entries)?;
        let before = files.snapshot();
        let replaced = replace_segments(engine, &segments, &new, mark, (&counts, &tree));
        // a snapshot that is in place needs the segment after it
        if replaced.is_err() && files.snapshot() == before {
            segments.remove_begun()?;
        }
        replaced.map(|()| segments)
    });
    new.close_database();
    remove_dir(new.dir())?;
    salvaged
}

/// Replaces all segments before `segments`, which has no group yet, by a snapshot of `new`, and the database by `new`.
fn replace_segments(
    engine: &StoreEngine,
    segments: &Segments,
    new: &StoreEngine,
    mark: &mut Watermark,
    (counts, tree): (&StoreCounts, &LogTree),
) -> Result<(), StoreError> {
    let snapshot = write_snapshot(new, &segments.up_to_now(), counts, tree, &|| true)?;
    // after a kill, the next start must not use what is left of the previous database
    mark.now.walked = 0;
    mark.write_synced().map_err(|source| StoreError::Io { path: engine.dir().to_owned(), source })?;
    segments.files().keep_damaged()?;
    segments.replace_by(&snapshot)?;
    adopt_database(engine, new, mark, counts)
}

/// Opens the damaged database of `engine` apart from it, since readers of the store must not see it.
fn open_old(engine: &StoreEngine, files: &SegmentFiles) -> Result<Option<TableReader>, StoreError> {
    if !engine.has_database() {
        return Ok(None);
    }
    let dir = engine.dir();
    // the lock of the state directory is held by `engine`
    let handle = File::open(dir).map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
    let old = Arc::new(StoreEngine::new(engine.options().clone(), handle, Arc::new(files.clone())));
    Ok(match old.open_database(None) {
        Ok(()) => Some(TableReader::new(old)),
        Err(error) => {
            tracing::warn!(%error, "the damaged database cannot be opened");
            None
        }
    })
}

/// Writes everything that is readable to the database `new`.
fn build(
    engine: &Arc<StoreEngine>,
    files: &SegmentFiles,
    new: &Arc<StoreEngine>,
    mark: &mut Watermark,
    mirrored: u64,
) -> Result<(), StoreError> {
    let mut salvage = Salvage {
        dir: engine.dir(),
        old: open_old(engine, files)?,
        new,
        tree: LogTree::default(),
        old_tree: LogTree::default(),
        mark: mark.now.clone(),
        segment: 1,
        lost: BTreeMap::new(),
    };
    if let Some(old) = &salvage.old {
        // sled has written a snapshot of a database that must not be used
        (mark.now.snapshot, mark.now.walked) = (engine.snapshot(), 0);
        mark.write_synced().map_err(|source| StoreError::Io { path: engine.dir().to_owned(), source })?;
        salvage.old_tree = meta::read(old.engine()).ok().flatten().map(|(_, tree)| tree).unwrap_or_default();
        old.engine().set_durable_seq(salvage.old_tree.size());
        old.engine().set_up_to_date();
    }
    if let Err(error) = files.check_names() {
        tracing::warn!(%error, "a part of the segments is missing");
    }
    heal_snapshot(files)?;
    visit_snapshot(files, |rows| salvage.apply(rows))?;
    let first = salvage.tree.size();
    let (last_segment, has_remains) = files.visit_groups_after(first, |group| {
        salvage.add(group)?;
        Ok(true)
    })?;
    let (entries, expected) =
        (salvage.tree.size(), mark.now.counts.entries.max(mirrored).max(salvage.old_tree.size()));
    if entries < expected {
        salvage.segment = last_segment;
        salvage.fill(entries + 1..=expected, &RowBatch::default())?;
        // an older copy of the files ends with zeros: then the later ones, with these rows, may be elsewhere. Lines after the known
        // trees can be any
        let known = mark.now.counts.entries.max(salvage.old_tree.size());
        if !has_remains && (salvage.lost.values().any(|lost| lost.entry > entries) || expected > known) {
            return Err(salvage.short(format!("its log ends at entry {entries}, and must have {expected}")));
        }
    }
    salvage.finish()?;
    if meta::store_id(new)? != mark.now.store_id {
        let detail = "its high-water mark belongs to another store".to_owned();
        return Err(StoreError::Short { dir: engine.dir().to_owned(), detail });
    }
    Ok(())
}

/// The new database, as far as it is written.
struct Salvage<'s> {
    dir: &'s Path,
    /// The damaged database, if it opens.
    old: Option<TableReader>,
    new: &'s Arc<StoreEngine>,
    /// The tree of the log up to the last entry.
    tree: LogTree,
    /// The tree of the damaged database; it is empty if it cannot be read.
    old_tree: LogTree,
    mark: WatermarkValues,
    /// The segment that was read last.
    segment: u64,
    /// The rows that no copy had, by their names.
    lost: BTreeMap<String, LostRow>,
}

impl Salvage<'_> {
    fn short(&self, detail: String) -> StoreError {
        StoreError::Short { dir: self.dir.to_owned(), detail }
    }

    fn reader(&self) -> TableReader {
        TableReader::new(Arc::clone(self.new))
    }

    fn apply(&mut self, rows: RowBatch) -> Result<(), StoreError> {
        if let Some(tree) = meta::tree_in(&rows) {
            self.tree = tree;
        }
        self.new.apply(rows)
    }

    /// Adds a group, and before it the entries between the last one and this one.
    fn add(&mut self, group: ReadableGroup) -> Result<(), StoreError> {
        let before = self.tree.size();
        if before < group.after_entry {
            self.fill(before + 1..=group.after_entry, &group.rows)?;
        }
        tree_after(self.dir, &self.tree, &group, |tree| self.check_tree(tree))?;
        self.segment = group.segment;
        self.apply(group.rows)
    }

    /// Checks that the tree is the one that the database and the mark had with as many entries.
    fn check_tree(&self, tree: &LogTree) -> Result<(), StoreError> {
        if self.mark.agrees_with(tree) && (tree.size() != self.old_tree.size() || *tree == self.old_tree) {
            return Ok(());
        }
        Err(self.short(format!(
            "the entries up to entry {} are others than those of the Merkle tree in the database or the high-water mark",
            tree.size()
        )))
    }

    /// Adds the entries `seqs`, whose groups are damaged. The rows of the log in `next`, the next group, can have some of them.
    fn fill(&mut self, seqs: RangeInclusive<u64>, next: &RowBatch) -> Result<(), StoreError> {
        let reader = self.reader();
        let before = *seqs.start() - 1;
        let (mut counts, _) = meta::read(self.new)?.ok_or_else(|| {
            self.short("the first group of its segments is damaged, and the database too".to_owned())
        })?;
        self.new.set_opened_counts(counts.clone(), self.tree.clone());
        self.new.set_up_to_date();
        let mut hashes = LogHashes::read(&reader, self.tree.clone())?;
        let mut time_us = reader.read(|db, _| log::latest_time_us(db, &reader, before))?;
        // the last row of the log continues in the next group, which has its earlier entries too
        let in_next = lines_in(next);
        let first_of_next = in_next.keys().next().copied().unwrap_or(u64::MAX);
        let copies = [in_next, self.old_lines(&seqs), lines_of(self.dir, |seq| seqs.contains(&seq))?];
        for seq in seqs {
            let line = self.line_of(seq, &copies)?;
            if has_lost_values(line) {
                let lost = LostRow { row: format!("{LOG}/{seq}"), entry: seq, segment: self.segment };
                self.lost.insert(lost.row.clone(), lost);
            }
            let mut batch = RowBatch::default();
            hashes.append(log::leaf(self.dir, line)?.as_bytes(), &mut batch);
            self.check_tree(&hashes.tree)?;
            time_us =
                put_line(&mut batch, seq, line, time_us, Some(first_of_next).filter(|first| seq >= *first));
            counts.entries = seq;
            meta::put_counts(&mut batch, &counts, &hashes.tree);
            self.new.apply(batch)?;
            let named = LoggedRows::read(line).map_err(|error| log::damaged_line(self.dir, &error))?;
            match named {
                LoggedRows::None => {}
                LoggedRows::Open(named) => {
                    for (path, sha256) in named {
                        self.set_row(&path, seq, sha256.as_ref())?;
                    }
                }
                LoggedRows::Hidden => {
                    return Err(self.short(format!(
                        "the group of entry {seq} is damaged, and the digests of its rows were erased; restore a backup"
                    )));
                }
            }
        }
        self.tree = hashes.tree;
        Ok(())
    }

    /// The line of entry `seq`, which all copies that have it must agree on, except for erased values.
    fn line_of<'c>(&self, seq: u64, copies: &'c [BTreeMap<u64, String>]) -> Result<&'c str, StoreError> {
        let mut found = copies.iter().filter_map(|copy| copy.get(&seq));
        let line = found.next().ok_or_else(|| {
            self.short(format!("entry {seq} is in no readable copy; restore a backup that has it"))
        })?;
        for other in found {
            if log::leaf(self.dir, other)? != log::leaf(self.dir, line)? {
                return Err(
                    self.short(format!("two copies of entry {seq} differ; restore a backup that has it"))
                );
            }
        }
        Ok(line)
    }

    /// The entries `seqs` in the damaged database, as far as they can be read.
    fn old_lines(&self, seqs: &RangeInclusive<u64>) -> BTreeMap<u64, String> {
        let (mut found, mut after) = (BTreeMap::new(), *seqs.start() - 1);
        while let Some(old) = &self.old
            && let Ok(page) = old.log_page(&LogQuery { after, limit: 256, ..LogQuery::default() })
            && let Some(last) = page.lines.last().map(|line| line.seq)
        {
            after = last;
            found.extend(page.lines.into_iter().map(|line| (line.seq, line.json)));
            if last >= *seqs.end() {
                break;
            }
        }
        found
    }

    /// Sets the row that entry `seq` has set: to its value if a copy has it, otherwise to an empty one; `None` removes it.
    fn set_row(&mut self, path: &str, seq: u64, sha256: Option<&Sha256Hex>) -> Result<(), StoreError> {
        let Some((table, name)) = row_of_path(path) else { return Ok(()) };
        let value = sha256.map(|sha256| self.old_value(table, name, sha256));
        if value.as_ref().is_some_and(Option::is_none) {
            let lost = LostRow { row: path.to_owned(), entry: seq, segment: self.segment };
            self.lost.insert(path.to_owned(), lost);
        } else {
            self.lost.remove(path);
        }
        let value = value.map(|value| StoredValue { revision: seq, value: value.unwrap_or_default() });
        let (dir, mut batch) = (self.new.dir(), RowBatch::default());
        let stored_in = stored_in(table);
        let before = self.new.with(|db| rows::get(db, dir, stored_in, name.as_bytes()))?;
        let chunks = before.as_ref().map_or(0, |row| row.chunks);
        let value = if table.bundle.is_some() {
            let bundle = before.map(|row| Bundle::from_bytes(dir, &row.value)).transpose()?;
            let mut bundle = bundle.unwrap_or_default();
            let before = bundle.set(table, value).filter(|_| table.finds_entries);
            if let Some(before) = before {
                log::index_session(&mut batch, name.as_bytes(), before.revision);
            }
            (bundle != Bundle::default()).then(|| bundle.to_bytes())
        } else {
            value.map(|row| row.value)
        };
        match value {
            Some(value) => drop(rows::put(&mut batch, stored_in, name.as_bytes(), seq, &value, chunks)),
            None => rows::remove(&mut batch, stored_in, name.as_bytes(), chunks),
        }
        self.new.apply(batch)
    }

    /// The value of a row in the damaged database, if it has this digest.
    fn old_value(&self, table: &'static Table, name: &str, sha256: &Sha256Hex) -> Option<Vec<u8>> {
        self.old
            .as_ref()?
            .value(table, name)
            .ok()
            .flatten()
            .map(|row| row.value)
            .filter(|value| Sha256Hex::of(value) == *sha256)
    }

    /// Writes the indexes and the counts again, and the names of the lost rows.
    fn finish(self) -> Result<(), StoreError> {
        let reader = self.reader();
        // the entries do not name the rows of indexes
        let counts = index_and_count(self.new, &self.tree)?;
        let mut batch = RowBatch::default();
        meta::put_counts(&mut batch, &counts, &self.tree);
        let is_lost = |table, name: &str| {
            reader.value(table, name).map(|row| row.is_some_and(|row| row.value.is_empty()))
        };
        // the group that has set or removed a row can be damaged: then its row was filled, and not its name here
        for earlier in reader.lost_rows()? {
            if let Some((table, name)) = row_of_path(&earlier.row)
                && !is_lost(table, name)?
            {
                rows::remove(&mut batch, LOST, earlier.row.as_bytes(), 1);
            }
        }
        for (path, lost) in self.lost {
            if let Some((table, name)) = row_of_path(&path) {
                // a later group can have set it again
                if !is_lost(table, name)? {
                    continue;
                }
                if table.names_files {
                    let detail = format!(
                        "the row {path}, which entry {} has set, is in no readable copy; restore a backup that has it",
                        lost.entry
                    );
                    return Err(StoreError::Short { dir: self.dir.to_owned(), detail });
                }
            }
            tracing::error!(row = path, lost.entry, lost.segment, "a row is lost");
            let value = serde_json::to_vec(&lost).expect("plain data with string keys");
            rows::put(&mut batch, LOST, path.as_bytes(), lost.entry, &value, 0);
        }
        self.new.apply(batch)
    }
}

/// Whether the line is that of the mirror, which lacks values that only the log had. After an erasure of these values, another one is
/// erased with them.
fn has_lost_values(line: &str) -> bool {
    let Some(kind) = event_in(line).and_then(event_type) else { return false };
    let Ok(hidden) = hidden_members(line) else { return false };
    let is_hidden = |member: &&str| hidden.iter().any(|hidden| hidden == member);
    let mut mirrored = kind.erasable.iter().filter(|member| !kind.not_mirrored.contains(member));
    kind.not_mirrored.iter().any(&is_hidden) && !mirrored.any(is_hidden)
}

impl TableReader {
    /// The rows that every copy has lost, and that were not set again. `log/7` means the values of entry 7 that only the log had; it
    /// is lost until the entry is dropped.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn lost_rows(&self) -> Result<Vec<LostRow>, StoreError> {
        let names = self.names(rows::all(LOST), .., usize::MAX)?;
        let first = self.first_seq()?;
        let lost = names.iter().filter_map(|name| self.own_row(LOST, name).transpose());
        let is_there = |lost: &LostRow| row_of_path(&lost.row).is_some() || lost.entry >= first;
        lost.filter(|lost| lost.as_ref().map_or(true, is_there)).collect()
    }

    /// The lost rows that no entry of the log names, by their sessions.
    ///
    /// # Errors
    /// The rows or the log cannot be read.
    pub(crate) fn unreported_losses(&self) -> Result<BTreeMap<Option<SessionId>, Vec<LostRow>>, StoreError> {
        let mut lost = self.lost_rows()?;
        if !lost.is_empty() {
            let query = LogQuery {
                events: vec!["storage_recovered".to_owned()],
                limit: usize::MAX,
                ..LogQuery::default()
            };
            for line in self.log(&query)? {
                let RecoveryMembers { lost_rows } = self.parse_entry(&line)?;
                lost.retain(|lost| !lost_rows.iter().flatten().any(|reported| reported == lost));
            }
        }
        let mut by_session: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for lost in lost {
            by_session.entry(session_of_path(&lost.row)).or_default().push(lost);
        }
        Ok(by_session)
    }

    /// The lost rows of type `R` with data of a session.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn lost_rows_of<R: Row<Key: FromStr>>(
        &self,
        session_id: &SessionId,
    ) -> Result<Vec<R::Key>, StoreError> {
        let lost = self.lost_rows()?.into_iter().filter_map(|lost| {
            let (table, name) = row_of_path(&lost.row)?;
            let is_of = session_of_row(table, name).as_ref() == Some(session_id);
            (is_of && table.name == R::TABLE.name).then(|| name.parse().ok())?
        });
        Ok(lost.collect())
    }
}

#[cfg(test)]
mod tests;
