//! Opens the database of a store, and brings it up to date with the segments.

use crate::audit::log::{self, LOG, first_seq_of, row, without_dropped};
use crate::base::engine::{NEW_DIR, StoreEngine, StoreOptions, TableReader, lock_state, remove_dir};
use crate::base::log_hashes::LogHashes;
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, StoredValue, stored_in};
use crate::base::schema::schema;
use crate::base::watermark::{SnapshotId, StoreCounts, Watermark};
use crate::journal::check::check_database;
use crate::segments::{PART_BYTES, ReadableGroup, SegmentFiles, Segments, SegmentsUpTo};
use domain_audit::log_tree::LogTree;
use domain_base::row::IndexEntry;
use oracled_domain::tables::tables;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, mem};
use store_base::disk::{DATABASE_DIR, DATABASE_FILE, boot_id};
use store_base::error::StoreError;
use store_base::sorter::{RowSorter, SorterOutput};

/// The remedy for a damaged store of an earlier schema version. Who wrote it knows all forms of its rows.
pub(super) const START_EARLIER: &str = "start the oracled that wrote it, and upgrade after that";
/// The keys of groups that are applied together.
const APPLIED_KEYS: usize = if cfg!(test) { 64 } else { 4096 };
/// The memory for the sorting of rows in a rebuild, in bytes.
const SORTED_BYTES: usize = if cfg!(test) { 4096 } else { 64 << 20 };
/// The number of entries between two reports of the progress of a rebuild.
const REPORTED_EVERY: u64 = 50_000;

/// The database after its opening.
#[derive(Debug)]
pub(super) struct OpenedDatabase {
    pub(super) counts: StoreCounts,
    /// Why the database was rebuilt, if it was.
    pub(super) rebuilt: Option<String>,
}

/// A file that a state directory has while a backup is being restored to it.
pub const RESTORING_FILE: &str = "restoring";

/// Opens the segments and the mark of the store in `dir`, or creates those of an empty store. The inner error is damage of the
/// segments: the database can have everything that they have lost. `find_existing` finds another file of an earlier store.
///
/// # Errors
/// Both are damaged or missing, or the disk cannot be read or written.
pub(super) fn open_segments(
    dir: &Path,
    files: &SegmentFiles,
    find_existing: fn(&Path) -> Result<Option<PathBuf>, StoreError>,
) -> Result<(Result<Segments, StoreError>, Watermark), StoreError> {
    let short = |detail: String| StoreError::Short { dir: dir.to_owned(), detail };
    if dir.join(RESTORING_FILE).exists() {
        return Err(short(format!("a restore was interrupted: {RESTORING_FILE} exists")));
    }
    let mark = match Watermark::open(dir) {
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!(%error, "the high-water mark is created again, and the database is rebuilt");
            None
        }
        mark => mark?,
    };
    match (Segments::open(files.clone()), mark) {
        (Ok(Some(segments)), Some(mark)) => Ok((Ok(segments), mark)),
        // with a mark that is lost, the database counts as one that may not be whole, and is rebuilt from the segments
        (Ok(Some(segments)), None) => {
            check_not_older(dir, segments.first_schema())?;
            let mark = Watermark::create(dir, segments.store_id(), StoreCounts::default())?;
            let (entries, mut later) = (segments.entries(), None);
            files.visit_groups_after(entries, |group| {
                later = Some(group.entries);
                Ok(true)
            })?;
            // without a mark, a damaged group looks like the end of the log
            let segments = later.map_or(Ok(segments), |later| {
                Err(short(format!("its log ends at entry {entries}, before a group with entry {later}")))
            });
            Ok((segments, mark))
        }
        (Ok(None), Some(mark)) => {
            Ok((Err(short("its first segment is missing or damaged".to_owned())), mark))
        }
        (Err(damage), Some(mark)) if damage.damage().is_some() => Ok((Err(damage), mark)),
        (Err(damage), None) if damage.damage().is_some() => {
            let mut heads =
                files.existing_numbers()?.into_iter().filter_map(|number| files.head(number).ok());
            let Some(head) = heads.next() else { return Err(damage) };
            check_not_older(dir, Ok(head.schema))?;
            let mark = Watermark::create(dir, head.store_id, StoreCounts::default())?;
            Ok((Err(damage), mark))
        }
        (Err(error), _) => Err(error),
        (Ok(None), None) => {
            let database = dir.join(DATABASE_DIR);
            let existing = database.exists().then_some(database);
            if let Some(existing) = existing.map_or_else(|| find_existing(dir), |path| Ok(Some(path)))? {
                return Err(short(format!("its segments are missing, and {} exists", existing.display())));
            }
            let (rows, store_id) = meta::first_rows()?;
            let segments = Segments::create(files.clone(), store_id, rows)?;
            let mark = Watermark::create(dir, store_id, StoreCounts::default())?;
            Ok((Ok(segments), mark))
        }
    }
}

/// Checks that a store without a high-water mark does not have an earlier `schema` version: an upgrade could not know whether its
/// segments are whole.
fn check_not_older(dir: &Path, found: Result<u32, StoreError>) -> Result<(), StoreError> {
    let detail = format!("its high-water mark is missing or damaged; {START_EARLIER}");
    match found {
        Ok(found) if found < schema() => Err(StoreError::Short { dir: dir.to_owned(), detail }),
        // a damaged first segment is found later
        _ => Ok(()),
    }
}

/// Begins a segment after the damaged ones, which the rows of the database `new` replace. The store has `entries` entries.
pub(super) fn begin_segments(
    files: &SegmentFiles,
    new: &StoreEngine,
    store_id: u64,
    entries: u64,
) -> Result<Segments, StoreError> {
    let path = new.dir().join(DATABASE_DIR).join(DATABASE_FILE);
    let bytes = fs::metadata(&path).map_err(|source| StoreError::Io { path, source })?.len();
    Segments::begin_after_damage(files.clone(), store_id, entries, bytes / PART_BYTES)
}

/// Opens the database, and applies the groups that it lacks. A database that is damaged, or not known to be whole, is removed
/// and rebuilt from the segments. `is_reopened` means that this process has closed the database.
///
/// # Errors
/// The segments are damaged, or the disk cannot be read or written.
pub(super) fn open_database(
    engine: &Arc<StoreEngine>,
    segments: &Segments,
    mark: &mut Watermark,
    is_reopened: bool,
) -> Result<OpenedDatabase, StoreError> {
    let io = |source: io::Error| StoreError::Io { path: engine.dir().to_owned(), source };
    let mut doubt = find_doubt(engine, segments.entries(), mark);
    let known = (!is_reopened).then_some(mark.now.snapshot);
    loop {
        let is_rebuilt = doubt.is_some();
        let has_entries = segments.entries() > 0;
        if let Some(cause) = doubt.as_ref().filter(|_| has_entries) {
            let entries = segments.entries();
            tracing::warn!(cause, entries, "the database is being rebuilt from the segments");
        }
        if is_rebuilt {
            // the database can have rows that a segment and its copy have lost
            segments.up_to_now().replay(None, |_, _| true)?;
            check_is_behind(engine, segments, mark)?;
            engine.remove_database()?;
        }
        // a power cut from now on leaves a database that is not known to be whole
        (mark.now.synced, mark.now.boot_id, mark.now.walked) = (0, boot_id(), mark.now.walked.max(1));
        mark.write_synced().map_err(io)?;
        let known = known.filter(|_| !is_rebuilt && has_entries);
        let applied = apply_segments(engine, segments, mark, known);
        let is_retried =
            |error: &StoreError| error.is_out_of_space() || matches!(error, StoreError::Unavailable { .. });
        if applied.as_ref().is_err_and(|error| !is_retried(error)) {
            // the database may hold half a group, or may differ from the disk after a failed sync
            mark.now.walked = 0;
            mark.write_synced().map_err(io)?;
        }
        match applied? {
            Ok(counts) => {
                if is_rebuilt && has_entries {
                    tracing::info!(entries = counts.entries, "the database was rebuilt");
                }
                note_whole(engine, mark, &counts)?;
                return Ok(OpenedDatabase { counts, rebuilt: doubt.filter(|_| has_entries) });
            }
            Err(damage) if is_rebuilt => {
                let detail = format!("{damage}, although the database was rebuilt from the segments");
                return Err(StoreError::Corrupt { dir: engine.dir().to_owned(), detail });
            }
            Err(damage) => {
                // after a kill, the next opening must not use what is left of the database
                mark.now.walked = 0;
                mark.write_synced().map_err(io)?;
                doubt = Some(damage);
            }
        }
    }
}

/// Checks that a database which is to be rebuilt has no entries that the segments lack. A mark that existed knows the last entry.
fn check_is_behind(
    engine: &Arc<StoreEngine>,
    segments: &Segments,
    mark: &Watermark,
) -> Result<(), StoreError> {
    if mark.now.counts.entries > 0 || !engine.has_database() {
        return Ok(());
    }
    let found = engine.open_database(None).and_then(|()| meta::read(engine));
    engine.close_database();
    match found {
        Ok(Some((counts, _))) if counts.entries > segments.entries() => {
            let (entries, found) = (segments.entries(), counts.entries);
            let detail = format!("its segments end at entry {entries}, its database at entry {found}");
            Err(StoreError::Short { dir: engine.dir().to_owned(), detail })
        }
        // a damaged database is rebuilt
        _ => Ok(()),
    }
}

/// Notes in the mark that the database is whole, synced, and has `counts`.
pub(super) fn note_whole(
    engine: &StoreEngine,
    mark: &mut Watermark,
    counts: &StoreCounts,
) -> Result<(), StoreError> {
    if mark.now.counts.entries != counts.entries {
        mark.now.tree_check = 0;
    }
    (mark.now.counts, mark.now.walked) = (counts.clone(), counts.entries.max(1));
    (mark.now.synced, mark.now.boot_id) = (counts.entries, boot_id());
    mark.write_synced().map_err(|source| StoreError::Io { path: engine.dir().to_owned(), source })
}

/// The reason why the database may not be whole, if there is one. The log has `entries` entries.
fn find_doubt(engine: &StoreEngine, entries: u64, mark: &Watermark) -> Option<String> {
    if entries == 0 {
        // an empty database is created again
        return engine.has_database().then(|| "the store is empty".to_owned());
    }
    if !engine.has_database() {
        return Some("the database is missing".to_owned());
    }
    if mark.now.walked == 0 {
        return Some("damage was found".to_owned());
    }
    let is_same_boot = mark.now.boot_id != 0 && mark.now.boot_id == boot_id();
    (!is_same_boot && mark.now.synced != entries)
        .then(|| "the system has stopped since the database was last synced".to_owned())
}

/// Opens the database, applies the groups that it lacks, and checks it. The inner error is its damage.
fn apply_segments(
    engine: &Arc<StoreEngine>,
    segments: &Segments,
    mark: &mut Watermark,
    known: Option<SnapshotId>,
) -> Result<Result<StoreCounts, String>, StoreError> {
    if let Err(damage) = damage_of(engine.open_database(known))? {
        return Ok(Err(damage));
    }
    // at once: after a kill, the next start would reject the snapshot that sled has just written
    mark.now.snapshot = engine.snapshot();
    let io = |source: io::Error| StoreError::Io { path: engine.dir().to_owned(), source };
    mark.write_synced().map_err(io)?;
    let found = match damage_of(meta::read(engine))? {
        Ok(Some((counts, tree))) => {
            if mark.now.agrees_with(&tree) {
                // a rebuild would take another history for the store's own
                segments.check_history(|opened| mark.now.agrees_with(opened))?;
            }
            Some(counts.entries)
        }
        Ok(None) => None,
        Err(damage) => return Ok(Err(damage)),
    };
    let (entries, in_snapshot) = (segments.entries(), segments.snapshot_entries()?);
    if let Some(found) = found.filter(|found| *found > entries) {
        let detail = format!("its segments end at entry {entries}, its database at entry {found}");
        return Err(StoreError::Short { dir: engine.dir().to_owned(), detail });
    }
    if found.is_some_and(|found| found < in_snapshot) {
        return Ok(Err("the database is older than the snapshot in the segments".to_owned()));
    }
    let applied = apply_groups(engine, &segments.up_to_now(), found, None, &|| true)?;
    damage_of(applied.and_then(|()| {
        let missing = || StoreError::Corrupt {
            dir: engine.dir().to_owned(),
            detail: "its counts are missing".to_owned(),
        };
        let (counts, tree) = meta::read(engine)?.ok_or_else(missing)?;
        check_database(engine, &counts, &mark.now)?;
        engine.sync()?;
        engine.set_opened_counts(counts.clone(), tree.clone());
        engine.set_up_to_date();
        engine.set_log_hashes(LogHashes::read(&TableReader::new(Arc::clone(engine)), tree)?);
        Ok(counts)
    }))
}

/// Applies the groups after entry `after` to the database while `proceed` returns true, and reports the progress. Leaves out the
/// entries of the log before `log_from`. The inner error is of the database.
///
/// Without `after`, the database is new. The rows of all groups are sorted then, if there is space for it: in another order, loading
/// takes several times as long once the database is larger than its cache.
pub(super) fn apply_groups(
    engine: &StoreEngine,
    segments: &SegmentsUpTo,
    after: Option<u64>,
    log_from: Option<u64>,
    proceed: &dyn Fn() -> bool,
) -> Result<Result<(), StoreError>, StoreError> {
    let mut batch = RowBatch::default();
    if after.is_none() {
        // the database and the sorted files, which together took less than this
        let space = engine.free().check_for(2 * segments.files().bytes()?);
        let Err(error) = space else {
            let mut sorter = RowSorter::new(engine.dir(), SORTED_BYTES);
            let sort = |rows: RowBatch| sort_rows(rows, &mut sorter, &mut batch);
            let sorted = replay_rows(engine, segments, None, log_from, proceed, sort)?;
            let sorted = sorted.and_then(|()| sorter.finish());
            return Ok(sorted.and_then(|rows| load_sorted(engine, rows, batch, proceed)));
        };
        tracing::warn!(%error, "the rows are loaded in the order of the log, which takes longer than to sort them");
    }
    let apply = |rows| {
        // the last row of the log, and the counts, are in each group
        batch.extend(rows);
        if batch.len() < APPLIED_KEYS { Ok(()) } else { engine.apply(mem::take(&mut batch)) }
    };
    let applied = replay_rows(engine, segments, after, log_from, proceed, apply)?;
    Ok(applied.and_then(|()| engine.apply(batch)))
}

/// Passes the rows of the groups after entry `after` to `take`, without the entries of the log before `log_from`, and reports the
/// progress. The inner error is of `take`, or of a row.
fn replay_rows(
    engine: &StoreEngine,
    segments: &SegmentsUpTo,
    after: Option<u64>,
    log_from: Option<u64>,
    proceed: &dyn Fn() -> bool,
    mut take: impl FnMut(RowBatch) -> Result<(), StoreError>,
) -> Result<Result<(), StoreError>, StoreError> {
    let (entries, mut reported) = (segments.entries(), after.unwrap_or_default());
    let mut taken = Ok(());
    segments.replay(after, |seq, rows| {
        if seq >= reported + REPORTED_EVERY {
            reported = seq;
            let percent = 100 * seq / entries.max(1);
            tracing::info!(percent, entry = seq, of = entries, "the database is brought up to date");
        }
        let rows = match log_from {
            Some(first) => without_dropped(rows, first, engine.dir()),
            None => Ok(rows),
        };
        taken = rows.and_then(&mut take);
        taken.is_ok() && proceed()
    })?;
    Ok(taken)
}

/// Passes the rows of a group to `sorter` in their stored forms, and the counts to `counts`.
fn sort_rows(rows: RowBatch, sorter: &mut RowSorter, counts: &mut RowBatch) -> Result<(), StoreError> {
    for (key, value) in rows.into_rows() {
        if rows::is_counts_key(&key) {
            counts.set(key, value);
        } else {
            sorter.push(&key, &value.map(|value| value.to_stored()).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Loads all rows into a new database, and the counts last: a database without them is built again.
fn load_sorted(
    engine: &StoreEngine,
    rows: SorterOutput,
    counts: RowBatch,
    proceed: &dyn Fn() -> bool,
) -> Result<(), StoreError> {
    if matches!(rows, SorterOutput::Merged(_)) {
        tracing::info!("the rows of all entries are sorted, and are loaded into the database");
    }
    if proceed() && engine.load(rows, proceed)? { engine.apply(counts) } else { Ok(()) }
}

/// Separates damage, which a rebuild repairs, from other errors.
fn damage_of<T>(result: Result<T, StoreError>) -> Result<Result<T, String>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => error.damage().map(str::to_owned).map(Err).ok_or(error),
    }
}

/// The tree after `group`, which follows `tree`. Passes the tree after each of its entries to `check`.
///
/// # Errors
/// `Short` if the tree of the group is another; the error of `check`.
pub(super) fn tree_after(
    dir: &Path,
    tree: &LogTree,
    group: &ReadableGroup,
    mut check: impl FnMut(&LogTree) -> Result<(), StoreError>,
) -> Result<LogTree, StoreError> {
    let mut tree = tree.clone();
    for (_, line) in lines_in(&group.rows).range(group.after_entry + 1..) {
        tree.append(log::leaf(dir, line)?.as_bytes());
        check(&tree)?;
    }
    if meta::tree_in(&group.rows).as_ref() == Some(&tree) && tree.size() == group.entries {
        return Ok(tree);
    }
    let detail = format!(
        "the entries before entry {} are others than those of the Merkle tree in segment {}",
        group.after_entry + 1,
        group.segment
    );
    Err(StoreError::Short { dir: dir.to_owned(), detail })
}

/// The entries in the rows of the log of a group. Damaged rows are left out.
pub(super) fn lines_in(rows: &RowBatch) -> BTreeMap<u64, String> {
    let firsts = rows.range(rows::all(LOG)).filter(|(key, _)| rows::is_first_chunk(key));
    let mut lines = BTreeMap::new();
    for (key, _) in firsts {
        let value = rows::get_from(rows, LOG, rows::name(key).unwrap_or_default()).flatten();
        let text = value.as_deref().and_then(row::decode);
        if let Some((first, text)) = first_seq_of(key).zip(text) {
            lines.extend((first..).zip(text.lines().map(str::to_owned)));
        }
    }
    lines
}

/// The page cache of a new database, in bytes.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Creates an empty database beside that of the store with these options, with positions in `files`. A snapshot of it `is_written`, with
/// its copy.
///
/// # Errors
/// `Unavailable` if too little space is free, `Io` if the folder cannot be written.
pub(super) fn create_database(
    options: &StoreOptions,
    files: &SegmentFiles,
    is_written: bool,
) -> Result<Arc<StoreEngine>, StoreError> {
    let dir = options.dir.join(NEW_DIR);
    if dir.exists() {
        // an erasure, or a repair after damage
        let cause = "another new database is being built".to_owned();
        return Err(StoreError::Unavailable { cause });
    }
    fs::create_dir(&dir).map_err(|source| StoreError::write_error(&dir, source))?;
    let created = (|| {
        let lock = lock_state(&dir)?;
        let new_options = StoreOptions { dir: dir.clone(), cache_bytes: CACHE_BYTES, ..options.clone() };
        let new = StoreEngine::new(new_options, lock, Arc::new(files.clone()));
        // a damaged or restored store can lack it
        let present = fs::metadata(options.dir.join(DATABASE_DIR).join(DATABASE_FILE));
        // the sorted rows need about the space of the database
        let needed = 2 * present.map_or(0, |found| found.len());
        new.free().check_for(needed + if is_written { 2 * files.bytes()? } else { 0 })?;
        new.open_database(None)?;
        Ok(Arc::new(new))
    })();
    if created.is_err() {
        remove_dir(&dir)?;
    }
    created
}

/// Replaces the database of `engine`, which is not served, by `new`, which is whole and has `counts`.
///
/// # Errors
/// The files cannot be written or renamed. The next start rebuilds the database then.
pub(super) fn adopt_database(
    engine: &StoreEngine,
    new: &StoreEngine,
    mark: &mut Watermark,
    counts: &StoreCounts,
) -> Result<(), StoreError> {
    // after a kill, the next start must not use what is left of the previous database
    mark.now.walked = 0;
    let io = |source| StoreError::Io { path: engine.dir().to_owned(), source };
    mark.write_synced().map_err(io)?;
    if !engine.replace_database(new, || Ok(()))? {
        return Err(StoreError::Unavailable { cause: "the database is in use".to_owned() });
    }
    engine.close_database();
    // reads have found it in the previous database
    engine.take_damage();
    mark.now.snapshot = engine.snapshot();
    note_whole(engine, mark, counts)
}

/// Writes the indexes of all tables again, and counts all rows. The log ends with `tree`.
///
/// # Errors
/// The rows cannot be read or written.
pub(super) fn index_and_count(new: &Arc<StoreEngine>, tree: &LogTree) -> Result<StoreCounts, StoreError> {
    let reader = TableReader::new(Arc::clone(new));
    new.set_up_to_date();
    new.set_durable_seq(tree.size());
    for table in tables().filter(|table| !table.indexes.is_empty()) {
        for index in table.indexes {
            reader.visit_names(index.name, None, |names| {
                let mut batch = RowBatch::default();
                names.iter().for_each(|name| rows::remove(&mut batch, index.name, name.as_bytes(), 1));
                new.apply(batch).map(|()| true)
            })?;
        }
        reader.visit_names(stored_in(table), None, |names| {
            let mut batch = RowBatch::default();
            for name in &names {
                let Some(StoredValue { revision, value }) = reader.value(table, name)? else { continue };
                for IndexEntry { index, name } in (table.index)(&value) {
                    rows::put(&mut batch, index, name.as_bytes(), revision, &[], 0);
                }
            }
            new.apply(batch).map(|()| true)
        })?;
    }
    let mut counts = StoreCounts { entries: tree.size(), ..StoreCounts::default() };
    for table in StoreCounts::tables() {
        let count = reader.count_rows(table, u64::MAX, &mut |_| true)?.unwrap_or_default();
        counts.change(table, i64::try_from(count).unwrap_or(i64::MAX));
    }
    Ok(counts)
}
