//! What the file system has to be told beside the files themselves.

use crate::base::error::StoreError;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc::off_t;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The database's folder below the state directory.
pub(crate) const DATABASE_DIR: &str = "store";
/// The file in that folder that sled appends to, and that has to be synced.
pub(crate) const DATABASE_FILE: &str = "db";
/// Before a write, the database must be able to grow by this, beside what the write itself takes: sled may
/// rewrite old pages and begin a new segment with it.
const ROOM_BYTES: u64 = 4 << 20;
/// sled writes a row up to so many times: as it comes, and again when it puts its pages in order.
const ROOM_PER_BYTE: u64 = 4;

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|source| StoreError::Io { path: dir.to_owned(), source })
}

/// How far a file may grow on disk space that is set aside for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    /// How long the file was when it was last looked at; what is set aside goes if it is cut.
    len: u64,
    /// How long it may become.
    end: u64,
}

impl Room {
    /// Makes room for a write of so many bytes to `file`, or says what stands in the way.
    pub(crate) fn make(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        let wanted = ROOM_BYTES + ROOM_PER_BYTE * bytes;
        // twice that, so that it is not asked for at every write; else just enough
        self.set_aside(file, wanted, 2 * wanted).or_else(|_| self.set_aside(file, wanted, wanted))
    }

    fn set_aside(&mut self, file: &File, wanted: u64, taken: u64) -> io::Result<()> {
        let len = file.metadata()?.len();
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if len + wanted > limit {
            return Err(Errno::EFBIG.into());
        }
        let cut = len < self.len;
        self.len = len;
        if !cut && len + wanted <= self.end {
            return Ok(());
        }
        self.end = 0;
        let signed = |bytes: u64| off_t::try_from(bytes).map_err(|_| Errno::EFBIG);
        // the length stays: sled goes by it
        match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, signed(len)?, signed(taken)?) {
            Ok(()) => self.end = len + taken,
            // this file system sets nothing aside: sled will find out
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The free space of the disk that holds a directory, and how much of it must stay free.
#[derive(Debug, Clone)]
pub struct FreeSpace {
    dir: PathBuf,
    min_bytes: u64,
}

impl FreeSpace {
    pub(crate) fn new(dir: &Path, min_bytes: u64) -> Self {
        Self { dir: dir.to_owned(), min_bytes }
    }

    /// The free bytes that oracled may use.
    ///
    /// # Errors
    /// `Io` where the system does not tell.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let found = statvfs(&self.dir)
            .map_err(|errno| StoreError::Io { path: self.dir.clone(), source: errno.into() })?;
        Ok(found.blocks_available().saturating_mul(found.fragment_size()))
    }

    /// Checks that enough space is free to take new work.
    ///
    /// # Errors
    /// `Unavailable` where less is free, `Io` where the system does not tell.
    pub fn check(&self) -> Result<(), StoreError> {
        let free = self.bytes()?;
        if free >= self.min_bytes {
            return Ok(());
        }
        let (dir, min) = (self.dir.display(), self.min_bytes);
        let cause = format!(
            "{free} bytes are free on the disk of {dir}, fewer than {min} (storage.min_free_bytes); free some space"
        );
        Err(StoreError::Unavailable { cause })
    }
}

/// A file that takes up what opening a store needs, and is removed when the disk is full as one is opened.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("space_reserve") }
    }

    /// Makes the file large enough for two snapshots of this size.
    pub(crate) fn keep(&self, snapshot_bytes: u64) -> io::Result<()> {
        let wanted = 2 * (snapshot_bytes + ROOM_BYTES);
        if fs::metadata(&self.path).is_ok_and(|found| found.len() >= wanted) {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        let len = off_t::try_from(wanted).map_err(|_| Errno::EFBIG)?;
        fallocate(&file, FallocateFlags::empty(), 0, len).map_err(|errno| {
            // a part would be taken for the whole the next time
            self.release();
            errno.into()
        })
    }

    /// Frees the space; whether there was any.
    pub(crate) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
