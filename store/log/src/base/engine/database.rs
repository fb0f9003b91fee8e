//! Opens sled's database, and keeps its file open.

use super::{DATABASE_DIR, DATABASE_FILE, SETTINGS_FILE, StoreOptions};
use crate::base::database_error::{catch_panic, database_error};
use crate::base::watermark::{SnapshotId, snapshot_in};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};
use store_base::error::StoreError;

/// The number of retries if the database is locked, with a pause before each.
const LOCK_ATTEMPTS: usize = 400;
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// File descriptors held in reserve for reopening the database.
const SPARE_FILES: usize = 16;

/// The database and its file. The file stays open, so that a commit does not fail when the process has no free
/// descriptor.
#[derive(Debug)]
pub(super) struct OpenDatabase {
    pub(super) db: sled::Db,
    file: File,
    path: PathBuf,
}

impl OpenDatabase {
    /// Opens the database. `Corrupt` if its snapshot is damaged, or not the `known` one.
    pub(super) fn open(options: &StoreOptions, known: Option<SnapshotId>) -> Result<Self, StoreError> {
        let db = open_sled(options, known)?;
        let path = database_file(&options.dir);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|source| StoreError::Io { path: path.clone(), source })?;
        Ok(Self { db, file, path })
    }

    /// The file. Fails if the path now names another file, since the next start would not find this one.
    pub(super) fn file(&self) -> io::Result<&File> {
        let (open, named) = (self.file.metadata()?, fs::metadata(&self.path)?);
        if (open.dev(), open.ino()) != (named.dev(), named.ino()) {
            return Err(io::Error::other(format!("{} was replaced by another file", self.path.display())));
        }
        Ok(&self.file)
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let synced = self.file().and_then(File::sync_all);
        synced.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

fn database_file(dir: &Path) -> PathBuf {
    dir.join(DATABASE_DIR).join(DATABASE_FILE)
}

/// Opens up to [`SPARE_FILES`] descriptors, fewer if the process has no more.
pub(super) fn spare_files() -> Vec<File> {
    (0..SPARE_FILES).map_while(|_| File::open("/dev/null").ok()).collect()
}

pub(super) fn unavailable(error: &io::Error) -> StoreError {
    StoreError::Unavailable { cause: error.to_string() }
}

/// Opens the database. Retries briefly if it is locked, since a thread of sled may still hold a database that was just
/// closed.
fn open_sled(options: &StoreOptions, known: Option<SnapshotId>) -> Result<sled::Db, StoreError> {
    retry_while_locked(|| try_open_sled(options, known))
}

/// Locks the state directory `dir`: only one process may use a store at a time, even while its database is reopened.
///
/// # Errors
/// `Locked` if another process still holds the lock after [`LOCK_ATTEMPTS`] attempts.
pub(crate) fn lock_state(dir: &Path) -> Result<File, StoreError> {
    let io = |source| StoreError::Io { path: dir.to_owned(), source };
    let file = File::open(dir).map_err(io)?;
    retry_while_locked(|| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io(error)),
    })?;
    Ok(file)
}

/// Runs `open` until it does not return `Locked`, up to [`LOCK_ATTEMPTS`] times.
fn retry_while_locked<T>(mut open: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..LOCK_ATTEMPTS {
        match open() {
            Err(StoreError::Locked { .. }) => thread::sleep(LOCK_PAUSE),
            opened => return opened,
        }
    }
    open()
}

fn try_open_sled(options: &StoreOptions, known: Option<SnapshotId>) -> Result<sled::Db, StoreError> {
    let path = options.dir.join(DATABASE_DIR);
    check_files(options, &path, known)?;
    // sled's own flushes also rewrite pages while nothing else happens, so that the file would change after its sync
    let config = sled::Config::new().path(&path).cache_capacity(options.cache_bytes).flush_every_ms(None);
    match catch_panic(|| config.open()) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(sled::Error::Io(error))) => Err(open_error(options, path, error)),
        Ok(Err(error)) => Err(database_error(&options.dir, &error)),
        Err(detail) => Err(StoreError::Corrupt { dir: options.dir.clone(), detail }),
    }
}

/// Removes torn files, which sled would read as complete. `Corrupt` if the snapshot is not the `known` one.
fn check_files(options: &StoreOptions, database: &Path, known: Option<SnapshotId>) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { path: database.to_owned(), source };
    let file = match File::open(database.join(DATABASE_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    // sled takes the same lock. It is held until `file` is closed, so that the files of a database that
    // another process has open are not touched.
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { dir: options.dir.clone() }),
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    remove_torn_files(database).map_err(io)?;
    if known.is_some_and(|known| known != snapshot_in(&options.dir)) {
        let detail = "the snapshot of its page table is not from its last opening".to_owned();
        return Err(StoreError::Corrupt { dir: options.dir.clone(), detail });
    }
    Ok(())
}

/// Removes partially written files that sled would otherwise read as complete ones.
///
/// As it opens, sled writes a snapshot of its page table, under a temporary name until it is complete. A kill or a full
/// disk can interrupt that. The next opening then reads the partial file as a complete one, and reports a corrupt
/// database. The same applies to sled's settings file; sled recreates a missing one with the defaults, which we use.
fn remove_torn_files(database: &Path) -> io::Result<()> {
    let settings = database.join(SETTINGS_FILE);
    let content = fs::read(&settings).unwrap_or_default();
    if let Some((content, sum)) = content.split_last_chunk::<4>()
        && crc32fast::hash(content).to_le_bytes() != *sum
    {
        fs::remove_file(&settings)?;
    }
    for entry in fs::read_dir(database)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b"snap.") && name.as_encoded_bytes().ends_with(b".generating")
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn open_error(options: &StoreOptions, path: PathBuf, error: io::Error) -> StoreError {
    let text = error.to_string();
    if text.contains("could not acquire lock") {
        StoreError::Locked { dir: options.dir.clone() }
    } else if StoreError::is_damage(&error) {
        StoreError::Corrupt { dir: options.dir.clone(), detail: text }
    } else {
        StoreError::Io { path, source: error }
    }
}
