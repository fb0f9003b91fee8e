//! Opens the database of a store, and brings it up to date with the segments.

use crate::audit::log::without_dropped;
use crate::base::disk::{DATABASE_DIR, boot_id};
use crate::base::engine::{StoreEngine, TableReader};
use crate::base::error::StoreError;
use crate::base::log_hashes::LogHashes;
use crate::base::meta;
use crate::base::snapshot::SnapshotId;
use crate::base::watermark::{StoreCounts, Watermark};
use crate::ground::files::GroundFiles;
use crate::journal::check::check_database;
use crate::segments::{Segments, SegmentsUpTo};
use std::io;
use std::path::Path;
use std::sync::Arc;

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

/// Opens the segments and the mark of the store in `dir`, or creates those of an empty store.
pub(super) fn open_segments(dir: &Path) -> Result<(Segments, Watermark), StoreError> {
    let short = |detail: String| Err(StoreError::Short { dir: dir.to_owned(), detail });
    if dir.join(RESTORING_FILE).exists() {
        return short(format!("a restore was interrupted: {RESTORING_FILE} exists"));
    }
    let mark = Watermark::open(dir)?;
    let segments = Segments::open(dir)?;
    match (segments, mark) {
        (Some(segments), Some(mark)) => Ok((segments, mark)),
        (Some(segments), None) if segments.entries() == 0 => {
            let mark = Watermark::create(dir, segments.store_id(), StoreCounts::default())?;
            Ok((segments, mark))
        }
        (Some(_), None) => short("its high-water mark is missing, and the log has entries".to_owned()),
        (None, Some(_)) => short("its segments are missing".to_owned()),
        (None, None) => {
            let database = dir.join(DATABASE_DIR);
            let existing = database.exists().then_some(database);
            if let Some(existing) =
                existing.map_or_else(|| GroundFiles::find_existing_file(dir), |path| Ok(Some(path)))?
            {
                return short(format!("its segments are missing, and {} exists", existing.display()));
            }
            let (rows, store_id) = meta::first_rows()?;
            let segments = Segments::create(dir, store_id, &rows)?;
            let mark = Watermark::create(dir, store_id, StoreCounts::default())?;
            Ok((segments, mark))
        }
    }
}

/// Opens the database, and applies the groups that it lacks. A database that is damaged, or not known to be whole, is removed
/// and rebuilt from the segments. `is_reopened` says that this process has closed the database.
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
    let mut doubt = find_doubt(engine, segments, mark);
    let known = (!is_reopened).then_some(mark.now.snapshot);
    loop {
        let is_rebuilt = doubt.is_some();
        let has_entries = segments.entries() > 0;
        if let Some(cause) = doubt.as_ref().filter(|_| has_entries) {
            let entries = segments.entries();
            tracing::warn!(cause, entries, "the database is being rebuilt from the segments");
        }
        if is_rebuilt {
            // the database is the only copy of what a damaged segment has lost
            segments.up_to_now().replay(None, |_, _| true)?;
            engine.remove_database()?;
        }
        // a power cut from now on leaves a database that is not known to be whole
        (mark.now.synced, mark.now.boot_id, mark.now.walked) = (0, boot_id(), mark.now.walked.max(1));
        mark.write_synced().map_err(io)?;
        let known = known.filter(|_| !is_rebuilt && has_entries);
        let applied = apply_segments(engine, segments, mark, known);
        if applied.as_ref().is_err_and(|error| !error.is_out_of_space()) {
            // the database may hold half a group, or may differ from the disk after a failed sync
            mark.now.walked = 0;
            mark.write_synced().map_err(io)?;
        }
        match applied? {
            Ok(counts) => {
                if is_rebuilt && has_entries {
                    tracing::info!(entries = counts.entries, "the database was rebuilt");
                }
                (mark.now.counts, mark.now.walked) = (counts, counts.entries.max(1));
                mark.now.synced = counts.entries;
                mark.write_synced().map_err(io)?;
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

/// The reason why the database may not be whole, if there is one.
fn find_doubt(engine: &StoreEngine, segments: &Segments, mark: &Watermark) -> Option<String> {
    if segments.entries() == 0 {
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
    (!is_same_boot && mark.now.synced != segments.entries())
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
        Ok(found) => found.map(|(counts, _)| counts.entries),
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
        check_database(engine, counts, &mark.now)?;
        engine.sync()?;
        engine.set_opened_counts(counts, tree.clone());
        engine.set_up_to_date();
        engine.set_log_hashes(LogHashes::read(&TableReader::new(Arc::clone(engine)), tree)?);
        Ok(counts)
    }))
}

/// Applies the groups after entry `after` to the database while `proceed` returns true, and reports the progress. Leaves out the
/// entries of the log before `log_from`. The inner error is of the database.
pub(super) fn apply_groups(
    engine: &StoreEngine,
    segments: &SegmentsUpTo,
    after: Option<u64>,
    log_from: Option<u64>,
    proceed: &dyn Fn() -> bool,
) -> Result<Result<(), StoreError>, StoreError> {
    let entries = segments.entries();
    let mut reported = after.unwrap_or_default();
    let mut applied = Ok(());
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
        applied = rows.and_then(|rows| engine.apply(rows));
        applied.is_ok() && proceed()
    })?;
    Ok(applied)
}

/// Separates damage, which a rebuild repairs, from other errors.
fn damage_of<T>(result: Result<T, StoreError>) -> Result<Result<T, String>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(StoreError::Corrupt { detail, .. } | StoreError::Short { detail, .. }) => Ok(Err(detail)),
        Err(error) => Err(error),
    }
}
