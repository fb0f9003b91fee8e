//! sled: opening, closing, reopening and syncing; and [`TableReader`], through which all reads go.

mod database;

use crate::base::database::{Database, SegmentValues};
use crate::base::database_error::{catch_panic, database_error};
use crate::base::log_hashes::LogHashes;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{StoredValue, is_counts_key, is_first_chunk};
use crate::base::watermark::StoreCounts;
use crate::base::watermark::{SnapshotId, snapshot_in, snapshots};
use database::{OpenDatabase, spare_files, unavailable};
use domain_audit::log_tree::LogTree;
use domain_base::row::Table;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;
use std::{fs, thread};
use store_base::disk::{DATABASE_DIR, DATABASE_FILE, FileIdentity, FreeSpace, ReserveFile, ReservedSpace};
use store_base::error::StoreError;
use store_base::files::{remove_dir_all, sync_dir};
use store_base::ordered_rows::RowSource;

pub(crate) use database::lock_state;

/// The file of sled's settings, in the database's folder. It ends with its checksum.
const SETTINGS_FILE: &str = "conf";

/// The folder of a new database, until it replaces the present one.
pub(crate) const NEW_DIR: &str = "store.new";

/// The folder of a database that was replaced, until it is removed.
pub(crate) const PREVIOUS_DIR: &str = "store.previous";

/// Pauses for which a reader waits for a renewal of the database, at most.
const RENEWAL_ATTEMPTS: u32 = 5000;
/// Pauses for which a renewal waits for readers, at most.
const RENEWAL_LOCK_ATTEMPTS: u32 = 50;
const RENEWAL_PAUSE: Duration = Duration::from_millis(1);

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The state directory; created if it does not exist.
    pub dir: PathBuf,
    /// The size of sled's page cache, in bytes.
    pub cache_bytes: u64,
    /// The memory for cached blocks of the files of the ground-truth layer, in bytes.
    pub facts_cache_bytes: u64,
    /// The disk space that must stay free, in bytes. With less, new work is rejected.
    pub min_free_bytes: u64,
}

/// Rows that are read in place of the stored ones, by their keys.
pub(crate) type PreviewedRows = BTreeMap<Vec<u8>, Arc<StoredValue>>;

/// A handle for reading the tables. Cheap to clone; reads run concurrently with each other and with the journal.
#[derive(Debug, Clone)]
pub struct TableReader {
    engine: Arc<StoreEngine>,
    /// Rows that are read in place of the stored ones ([`TableReader::preview`]).
    preview: Arc<PreviewedRows>,
}

impl TableReader {
    pub(crate) fn new(engine: Arc<StoreEngine>) -> Self {
        Self { engine, preview: Arc::default() }
    }

    /// Reads these rows in place of the stored rows of the same names. Clones of the tables are not changed.
    pub(crate) fn add_preview(&mut self, rows: impl Iterator<Item = (Vec<u8>, StoredValue)>) {
        Arc::make_mut(&mut self.preview).extend(rows.map(|(key, row)| (key, Arc::new(row))));
    }

    /// The rows that are read in place of the stored ones.
    pub(crate) fn previewed(&self) -> &PreviewedRows {
        &self.preview
    }

    /// The number of the last entry that is durable; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.engine.durable_seq()
    }

    /// The state directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.engine.dir()
    }

    /// The damage of the segments that was found and not repaired yet: the segment, the byte and the fault.
    #[must_use]
    pub fn segment_damage(&self) -> Option<String> {
        self.engine.values.damage().text()
    }

    /// The segments whose copies could not be written, and why; `None` if all have one.
    #[must_use]
    pub fn missing_copies(&self) -> Option<String> {
        self.engine.values.damage().missing_copies()
    }

    /// Notes that a reader of the segments has returned `error`, if it is damage.
    pub fn note_segment_damage(&self, error: &StoreError) {
        self.engine.note_segment_damage(error);
    }

    pub(crate) fn engine(&self) -> &StoreEngine {
        &self.engine
    }

    /// The results of the checks in the background.
    #[must_use]
    pub fn checks(&self) -> &CheckResults {
        self.engine.checks()
    }

    /// The free space of the disk that the store is on.
    #[must_use]
    pub fn free_space(&self) -> &FreeSpace {
        self.engine.free()
    }

    /// The counts of the last opening, and of the rows replaced since.
    pub(crate) fn opened(&self) -> OpenedCounts {
        self.engine.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `read` on the open database and the number of the last durable entry.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(Database<'_>, u64) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read = self.engine.with(|db| {
            // checked under the lock: the database can be closed and reopened before this read has the lock
            if self.engine.is_up_to_date.load(Ordering::Acquire) {
                read(db, self.engine.durable_seq())
            } else {
                Err(reopening())
            }
        });
        read.inspect_err(|error| self.engine.note_damage(error))
    }
}

/// The open database. `None` only during a reopening, and after a reopening that failed.
#[derive(Debug)]
pub(crate) struct StoreEngine {
    options: StoreOptions,
    db: RwLock<Option<OpenDatabase>>,
    /// The segments, which have the long values.
    values: Arc<dyn SegmentValues>,
    /// Whether the database has all groups of the segments. Until then, only the journal reads it.
    is_up_to_date: AtomicBool,
    /// Whether an undamaged database is being reopened. That is short, and readers wait for it.
    is_renewed: AtomicBool,
    /// Open descriptors in reserve. They are closed before the database is reopened.
    spare_files: Mutex<Vec<File>>,
    /// Whether new entries commit to session ids, so that an erasure also removes the ids.
    covers_session_ids: AtomicBool,
    /// Whether new entries are marked as those of a daemon in test mode.
    is_test: AtomicBool,
    durable_seq: AtomicU64,
    /// Held from the first visible row of a group until its entries are visible.
    applying: RwLock<()>,
    /// The numbers of durable rows; `None` until the database is open.
    counts: RwLock<Option<StoreCounts>>,
    checks: CheckResults,
    /// The damage that the last failed read has found.
    damage: Mutex<Option<String>>,
    /// Whether the database has rows that every copy had lost.
    has_lost_rows: AtomicBool,
    opened: Mutex<OpenedCounts>,
    log_hashes: Mutex<Arc<LogHashes>>,
    reserved_space: Mutex<ReservedSpace>,
    free: FreeSpace,
    reserve: ReserveFile,
    /// The last field, so that it is dropped after the database is closed.
    _state_lock: File,
}

/// Removes a directory with its files, if it exists.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    remove_dir_all(dir).map_err(|source| StoreError::Io { path: dir.to_owned(), source })
}

fn reopening() -> StoreError {
    StoreError::Unavailable { cause: "it is being reopened".into() }
}

/// The row counts when the database was opened, and the counts of those rows that were replaced since.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenedCounts {
    pub(crate) counts: StoreCounts,
    /// Rows that existed at the opening and were replaced since; `entries` stays 0.
    pub(crate) replaced: StoreCounts,
    /// The tree of the log at the opening.
    pub(crate) tree: LogTree,
}

impl StoreEngine {
    /// An engine without an open database.
    pub(crate) fn new(options: StoreOptions, state_lock: File, values: Arc<dyn SegmentValues>) -> Self {
        Self {
            values,
            spare_files: Mutex::new(spare_files()),
            db: RwLock::default(),
            is_up_to_date: AtomicBool::new(false),
            is_renewed: AtomicBool::new(false),
            covers_session_ids: AtomicBool::new(false),
            is_test: AtomicBool::new(false),
            durable_seq: AtomicU64::new(0),
            applying: RwLock::default(),
            counts: RwLock::default(),
            checks: CheckResults::open(&options.dir),
            damage: Mutex::default(),
            has_lost_rows: AtomicBool::default(),
            opened: Mutex::default(),
            log_hashes: Mutex::default(),
            reserved_space: Mutex::default(),
            free: FreeSpace::new(&options.dir, options.min_free_bytes),
            reserve: ReserveFile::new(&options.dir),
            options,
            _state_lock: state_lock,
        }
    }

    pub(crate) fn cover_session_ids(&self) {
        self.covers_session_ids.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mark_test_mode(&self) {
        self.is_test.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_test(&self) -> bool {
        self.is_test.load(Ordering::Relaxed)
    }

    pub(crate) fn covers_session_ids(&self) -> bool {
        self.covers_session_ids.load(Ordering::Relaxed)
    }

    pub(crate) fn has_lost_rows(&self) -> bool {
        self.has_lost_rows.load(Ordering::Relaxed)
    }

    pub(crate) fn note_lost_rows(&self, has_lost_rows: bool) {
        self.has_lost_rows.store(has_lost_rows, Ordering::Relaxed);
    }

    /// Whether the state directory has a database.
    pub(crate) fn has_database(&self) -> bool {
        self.dir().join(DATABASE_DIR).exists()
    }

    /// Opens or creates the database. If sled reports damage, by an error or by a panic, the result is `Corrupt`.
    ///
    /// sled begins with the page table in its snapshot, and writes to the file as it opens. A snapshot that is damaged or not
    /// `known` would thus determine the database's content, so it counts as damage.
    pub(crate) fn open_database(&self, known: Option<SnapshotId>) -> Result<(), StoreError> {
        let database = self.dir().join(DATABASE_DIR);
        let is_new = !self.has_database();
        fs::create_dir_all(&database).map_err(|source| StoreError::Io { path: database.clone(), source })?;
        let mut opened = OpenDatabase::open(&self.options, known);
        // sled writes a snapshot of its page table as it opens
        if opened.as_ref().is_err_and(StoreError::is_out_of_space) && self.reserve.release() {
            tracing::warn!("the disk is full; released the space reserve to open the store");
            opened = OpenDatabase::open(&self.options, known);
        }
        let opened = opened?;
        if is_new {
            let settings = database.join(SETTINGS_FILE);
            let synced = File::open(&settings).and_then(|file| file.sync_all());
            synced.map_err(|source| StoreError::Io { path: settings, source })?;
            for dir in [database.as_path(), self.dir()] {
                sync_dir(dir)?;
            }
        }
        *self.db.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    /// Lets readers use the database, since it has all groups of the segments.
    pub(crate) fn set_up_to_date(&self) {
        self.is_up_to_date.store(true, Ordering::Release);
    }

    /// Closes the database. Readers fail until [`StoreEngine::set_up_to_date`].
    pub(crate) fn close_database(&self) {
        self.is_up_to_date.store(false, Ordering::Release);
        let open = self.db.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(detail) = catch_panic(|| drop(open)) {
            tracing::error!(detail, "sled failed while the database was closed");
        }
    }

    /// Closes the database and removes its files.
    pub(crate) fn remove_database(&self) -> Result<(), StoreError> {
        self.close_database();
        remove_dir(&self.dir().join(DATABASE_DIR))?;
        *self.reserved_space.lock().unwrap_or_else(PoisonError::into_inner) = ReservedSpace::default();
        sync_dir(self.dir())
    }

    /// Notes damage that a read has found, so that the journal rebuilds the database.
    pub(crate) fn note_damage(&self, error: &StoreError) {
        if let StoreError::Corrupt { detail, .. } = error {
            *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(detail.clone());
        }
    }

    /// The damage that a read has found since the last call.
    pub(crate) fn take_damage(&self) -> Option<String> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes damage of the segments, which are then written again from their copies.
    pub(crate) fn note_segment_damage(&self, error: &StoreError) {
        self.values.damage().note(error);
    }

    /// Notes that the segments are whole.
    pub(crate) fn clear_segment_damage(&self) {
        self.values.damage().clear();
    }

    /// The segments, which have the long values.
    pub(crate) fn values(&self) -> &dyn SegmentValues {
        &*self.values
    }

    /// The results of the checks in the background.
    pub(crate) const fn checks(&self) -> &CheckResults {
        &self.checks
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.options.dir
    }

    pub(crate) const fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Runs `use_db` on the open database, or fails at once if the database is not open. Reopening after a failure may
    /// take long, and a waiting reader would block a thread that others need.
    pub(crate) fn with<T>(
        &self,
        use_db: impl FnOnce(Database<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_open(|open| use_db(Database { sled: &open.db, values: &*self.values, dir: self.dir() }))
    }

    fn with_open<T>(
        &self,
        use_open: impl FnOnce(&OpenDatabase) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let guard = self.read_guard().ok_or_else(reopening)?;
        let open = guard.as_ref().ok_or_else(reopening)?;
        let used = catch_panic(|| use_open(open));
        used.unwrap_or_else(|detail| Err(StoreError::Corrupt { dir: self.dir().to_owned(), detail }))
    }

    /// Waits for a renewal in progress and takes the read lock. Returns `None` while the database is reopened
    /// after a failure, or if the wait takes too long.
    fn read_guard(&self) -> Option<RwLockReadGuard<'_, Option<OpenDatabase>>> {
        let mut was_locked = false;
        // the wait is limited: a read within a read keeps the renewal from taking its lock
        for _ in 0..RENEWAL_ATTEMPTS {
            if !self.is_renewed.load(Ordering::Acquire) {
                match self.db.try_read() {
                    Ok(guard) => return Some(guard),
                    // readers change nothing, so a poisoned lock does not mean a damaged database
                    Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) if was_locked => return None,
                    // a renewal may have begun after the check above
                    Err(TryLockError::WouldBlock) => was_locked = true,
                }
            }
            thread::sleep(RENEWAL_PAUSE);
        }
        None
    }

    /// Reopens an undamaged database: sled writes a snapshot of its page table as it opens, and the next opening begins
    /// with it. Waits up to 50 ms for readers. Returns whether the database was reopened.
    pub(crate) fn renew(&self) -> Result<bool, StoreError> {
        self.reopen_with(|| Ok(()))
    }

    /// Calls `change_segments`, replaces the database by that of `other`, which has the positions in the changed segments, and removes
    /// the previous one. Readers wait, as for [`StoreEngine::renew`].
    pub(crate) fn replace_database(
        &self,
        other: &Self,
        change_segments: impl Fn() -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let (database, previous) = (self.dir().join(DATABASE_DIR), self.dir().join(PREVIOUS_DIR));
        remove_dir(&previous)?;
        let is_replaced = self.reopen_with(|| {
            let io = |source| StoreError::Io { path: database.clone(), source };
            other.close_database();
            change_segments()?;
            if self.has_database() {
                fs::rename(&database, &previous).map_err(io)?;
            }
            fs::rename(other.dir().join(DATABASE_DIR), &database).map_err(io)?;
            *self.reserved_space.lock().unwrap_or_else(PoisonError::into_inner) = ReservedSpace::default();
            sync_dir(self.dir())
        })?;
        remove_dir(&previous)?;
        Ok(is_replaced)
    }

    /// Closes the database, calls `change_files`, and opens it again.
    fn reopen_with(&self, change_files: impl Fn() -> Result<(), StoreError>) -> Result<bool, StoreError> {
        // from now on new readers wait, and the lock is free after the current readers finish
        self.is_renewed.store(true, Ordering::Release);
        let mut renewed = Ok(false);
        for _ in 0..RENEWAL_LOCK_ATTEMPTS {
            let guard = match self.db.try_write() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(RENEWAL_PAUSE);
                    continue;
                }
            };
            renewed = self.open_again(guard, &change_files).map(|()| true);
            break;
        }
        self.is_renewed.store(false, Ordering::Release);
        renewed
    }

    fn open_again(
        &self,
        mut guard: RwLockWriteGuard<'_, Option<OpenDatabase>>,
        change_files: &impl Fn() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // sled panics if its file cannot be synced
        let open = guard.take();
        let closed = catch_panic(|| drop(open));
        closed.map_err(|detail| StoreError::Corrupt { dir: self.dir().to_owned(), detail })?;
        change_files()?;
        let mut spare = self.spare_files.lock().unwrap_or_else(PoisonError::into_inner);
        spare.clear();
        // the snapshot needs no comparison: this process has just closed the database
        *guard = Some(OpenDatabase::open(&self.options, None)?);
        *spare = spare_files();
        Ok(())
    }

    /// Writes all changes of the database to its file, and syncs it. sled's own flush does not sync the file on Linux.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.with_open(|open| {
            open.db.flush().map_err(|error| database_error(self.dir(), &error))?;
            open.sync()
        })
    }

    /// Stores the counts and the log's tree of an opening, and makes its entries visible to readers.
    pub(crate) fn set_opened_counts(&self, counts: StoreCounts, tree: LogTree) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_committed(&counts);
        *opened = OpenedCounts { counts, tree, ..OpenedCounts::default() };
    }

    /// The hashes of the durable log.
    pub(crate) fn log_hashes(&self) -> Arc<LogHashes> {
        Arc::clone(&self.log_hashes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the hashes of the durable log.
    pub(crate) fn set_log_hashes(&self, hashes: LogHashes) {
        *self.log_hashes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(hashes);
    }

    /// Counts rows of these tables and revisions that are about to be replaced.
    pub(crate) fn note_replaced(&self, rows: &[(&'static str, u64)]) {
        if rows.is_empty() {
            return;
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = opened.counts.entries;
        for (table, _) in rows.iter().filter(|(_, revision)| *revision <= entries) {
            opened.replaced.change(table, 1);
        }
    }

    /// The number of the last durable entry. It counts the entries of each group of which a row is visible.
    pub(crate) fn durable_seq(&self) -> u64 {
        let _applied = self.applying.read().unwrap_or_else(PoisonError::into_inner);
        self.durable_seq.load(Ordering::Acquire)
    }

    /// Makes the entries and the rows of `counts` visible to readers.
    pub(crate) fn set_committed(&self, counts: &StoreCounts) {
        *self.counts.write().unwrap_or_else(PoisonError::into_inner) = Some(counts.clone());
        self.set_durable_seq(counts.entries);
    }

    /// Whether a table has no durable row, so that its rows need not be looked up.
    pub(crate) fn is_empty_table(&self, table: &Table) -> bool {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        counts.as_ref().is_some_and(|counts| counts.is_empty(table.name))
    }

    /// Makes all entries up to `seq` visible to readers.
    pub(crate) fn set_durable_seq(&self, seq: u64) {
        self.durable_seq.store(seq, Ordering::Release);
    }

    /// Reserves disk space for a write of `bytes` bytes, so that sled never meets a full disk. After a failed
    /// write of its own, sled reads nothing from the disk until it is reopened, and reopening needs disk
    /// space.
    pub(crate) fn reserve_write_space(&self, bytes: u64) -> Result<(), StoreError> {
        let mut room = self.reserved_space.lock().unwrap_or_else(PoisonError::into_inner);
        self.with_open(|open| {
            open.file()
                .and_then(|file| room.reserve_for_write(file, bytes))
                .map_err(|error| unavailable(&error))
        })
    }

    /// The free space of the disk that the store is on.
    pub(crate) const fn free(&self) -> &FreeSpace {
        &self.free
    }

    /// Reserves the disk space that the next opening needs on a full disk. Does nothing if it is reserved
    /// already, or if little space is free.
    pub(crate) fn reserve_space(&self) {
        if self.free.check().is_ok()
            && let Err(error) = self.reserve.ensure_size(self.snapshot_bytes())
        {
            tracing::debug!(%error, "could not reserve space for the next opening");
        }
    }

    /// The snapshot with which sled would begin if it opened the database now.
    pub(crate) fn snapshot(&self) -> SnapshotId {
        snapshot_in(&self.options.dir)
    }

    /// The size of sled's snapshot of its page table; 0 if it has none.
    fn snapshot_bytes(&self) -> u64 {
        let found = snapshots(&self.options.dir.join(DATABASE_DIR)).unwrap_or_default();
        found.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).max().unwrap_or(0)
    }

    /// Applies the changes of a committed group, after which the log has `entries` entries, and makes these visible. If that fails, the
    /// database is closed: no reader may see rows without their entries.
    pub(crate) fn apply_group(&self, rows: RowBatch, entries: u64) -> Result<(), StoreError> {
        let applied = self.with(|db| {
            let _applying = self.applying.write().unwrap_or_else(PoisonError::into_inner);
            db.apply(rows.into_rows(), is_counts_key, is_first_chunk)?;
            self.set_durable_seq(entries);
            Ok(())
        });
        applied.inspect_err(|_| self.close_database())
    }

    /// Applies changes that no reader sees yet. If that fails, the database is closed.
    pub(crate) fn apply(&self, rows: RowBatch) -> Result<(), StoreError> {
        let applied = self.with(|db| db.apply(rows.into_rows(), is_counts_key, is_first_chunk));
        applied.inspect_err(|_| self.close_database())
    }

    /// Loads sorted rows into a database that has no readers yet (`Database::load`).
    pub(crate) fn load(&self, rows: impl RowSource, proceed: &dyn Fn() -> bool) -> Result<bool, StoreError> {
        self.with(|db| db.load(rows, proceed)).inspect_err(|_| self.close_database())
    }
}

const FILE: &str = "checks.json";

/// The file and its content.
#[derive(Debug)]
pub struct CheckResults {
    path: PathBuf,
    content: Mutex<CheckResultsContent>,
    /// Held while the file is written, so that readers of the content do not wait for the disk.
    writing: Mutex<()>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct CheckResultsContent {
    /// The Merkle tree of the entries that the check of the log has read.
    audited: Vec<u8>,
    /// The last check of each source.
    sources: BTreeMap<String, Value>,
    /// The file that was written last as `oracle_log.jsonl`.
    #[serde(default)]
    mirror: Option<FileIdentity>,
}

impl CheckResults {
    /// Reads the file in `state_dir`. An unreadable file counts as missing.
    pub(crate) fn open(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let content = match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "unreadable; the checks begin again");
                CheckResultsContent::default()
            }),
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(%error, path = %path.display(), "unreadable; the checks begin again");
                }
                CheckResultsContent::default()
            }
        };
        Self { path, content: Mutex::new(content), writing: Mutex::default() }
    }

    /// The tree of the entries that the check of the log has read; empty before the first check.
    pub(crate) fn audited(&self) -> LogTree {
        self.with(|content| LogTree::from_bytes(&content.audited).unwrap_or_default())
    }

    /// Stores the tree of the entries that the check of the log has read.
    pub(crate) fn put_audited(&self, tree: &LogTree) -> Result<(), StoreError> {
        self.change(|content| content.audited = tree.to_bytes())
    }

    /// The last completed check of a source.
    pub fn source_check<C: DeserializeOwned>(&self, oracle_id: &str) -> Option<C> {
        let check = self.with(|content| content.sources.get(oracle_id).cloned())?;
        let unreadable =
            |error: &serde_json::Error| tracing::warn!(oracle_id, %error, "the last check is unreadable");
        C::deserialize(check).inspect_err(unreadable).ok()
    }

    /// Stores the result of a check of a source.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn put_source_check(&self, oracle_id: &str, check: &impl Serialize) -> Result<(), StoreError> {
        let check = serde_json::to_value(check).expect("a check is plain data with string keys");
        self.change(|content| {
            content.sources.insert(oracle_id.to_owned(), check);
        })
    }

    /// The file that was written last as `oracle_log.jsonl`.
    pub(crate) fn mirror(&self) -> Option<FileIdentity> {
        self.with(|content| content.mirror)
    }

    /// Stores the file that is written as `oracle_log.jsonl`.
    pub(crate) fn put_mirror(&self, identity: FileIdentity) -> Result<(), StoreError> {
        self.change(|content| content.mirror = Some(identity))
    }

    fn with<T>(&self, use_content: impl FnOnce(&mut CheckResultsContent) -> T) -> T {
        use_content(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut CheckResultsContent)) -> Result<(), StoreError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let json = self.with(|content| {
            change(content);
            serde_json::to_vec(content).expect("the results are plain data with string keys")
        });
        let incomplete = self.path.with_extension("json.new");
        let written = File::create(&incomplete).and_then(|mut file| {
            file.write_all(&json)?;
            file.sync_data()?;
            fs::rename(&incomplete, &self.path)
        });
        written.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}
