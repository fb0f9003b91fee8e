//! File system operations besides reads and writes: directory syncs, the identity of files, reserved space and free space.

use crate::error::StoreError;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc::off_t;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The database's folder in the state directory.
pub const DATABASE_DIR: &str = "store";
/// The file in that folder to which sled appends.
pub const DATABASE_FILE: &str = "db";
/// Space for the database to grow before each write, in bytes, in addition to the write's own size. sled may use it to
/// rewrite old pages and to begin a new segment.
const GROWTH_BYTES: u64 = 4 << 20;
/// sled writes a row up to this many times: at first, and again when it reorganizes its pages.
const GROWTH_PER_BYTE: u64 = 4;

/// Identifies a file: another one with the same name, even with the same inode, differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970; 0 on a file system that does not know it.
    pub created_ns: u64,
}

impl FileIdentity {
    pub fn of(found: &fs::Metadata) -> Self {
        let created = found.created().ok().and_then(|created| created.duration_since(UNIX_EPOCH).ok());
        let created_ns = created.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or_default();
        Self { inode: found.ino(), created_ns }
    }
}

/// Gives the file `from` the second name `to`, or the file to which it is a symbolic link. Returns whether `from` exists.
pub fn link_if_exists(from: &Path, to: &Path) -> Result<bool, StoreError> {
    match fs::canonicalize(from).and_then(|from| fs::hard_link(from, to)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::Io { path: from.to_owned(), source }),
    }
}

/// A number that identifies the present start of the system; 0 if it is unknown.
pub fn boot_id() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}

/// Allocates disk space for the first `len` bytes of `file`, if its file system can do that.
pub fn allocate(file: &File, len: u64) -> io::Result<()> {
    let len = off_t::try_from(len).map_err(|_| Errno::EFBIG)?;
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The disk space that is reserved for the growth of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReservedSpace {
    /// The file's length at the last check. If the file is shortened, its reserved space is lost.
    len: u64,
    /// The length up to which space is reserved.
    end: u64,
}

impl ReservedSpace {
    /// Reserves space for a write of `bytes` bytes to `file`.
    ///
    /// # Errors
    /// The disk or the file size limit leaves too little space.
    pub fn reserve_for_write(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        let needed = GROWTH_BYTES + GROWTH_PER_BYTE * bytes;
        // reserve twice that, so that not every write has to reserve; on a full disk, reserve just enough
        self.extend_reservation(file, needed, 2 * needed)
            .or_else(|_| self.extend_reservation(file, needed, needed))
    }

    fn extend_reservation(&mut self, file: &File, needed: u64, allocated: u64) -> io::Result<()> {
        let len = file.metadata()?.len();
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        if len + needed > limit {
            return Err(Errno::EFBIG.into());
        }
        let cut = len < self.len;
        self.len = len;
        if !cut && len + needed <= self.end {
            return Ok(());
        }
        self.end = 0;
        let signed = |bytes: u64| off_t::try_from(bytes).map_err(|_| Errno::EFBIG);
        // the length must not change: sled uses it
        match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, signed(len)?, signed(allocated)?) {
            Ok(()) => self.end = len + allocated,
            // this file system cannot reserve space; sled reports a full disk itself
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
    pub fn new(dir: &Path, min_bytes: u64) -> Self {
        Self { dir: dir.to_owned(), min_bytes }
    }

    /// The free bytes that oracled may use.
    ///
    /// # Errors
    /// `Io` if the system does not report the free space.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let found = statvfs(&self.dir)
            .map_err(|errno| StoreError::Io { path: self.dir.clone(), source: errno.into() })?;
        Ok(found.blocks_available().saturating_mul(found.fragment_size()))
    }

    /// Checks that enough space is free to accept new work.
    ///
    /// # Errors
    /// `Unavailable` if less is free, `Io` if the system does not report the free space.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_for(0)
    }

    /// Checks that enough space is free to write `bytes` bytes and then to accept new work.
    ///
    /// # Errors
    /// As for [`FreeSpace::check`].
    pub fn check_for(&self, bytes: u64) -> Result<(), StoreError> {
        let free = self.bytes()?;
        if free >= self.min_bytes.saturating_add(bytes) {
            return Ok(());
        }
        let (dir, min) = (self.dir.display(), self.min_bytes);
        let work = if bytes == 0 { String::new() } else { format!("{bytes} and ") };
        let cause = format!(
            "{free} bytes are free on the disk of {dir}, fewer than {work}{min} (storage.min_free_bytes); free some space"
        );
        Err(StoreError::Unavailable { cause })
    }
}

/// A file that reserves the space for opening a store. It is removed if the disk is full when the store is opened.
#[derive(Debug)]
pub struct ReserveFile {
    path: PathBuf,
}

impl ReserveFile {
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("space_reserve") }
    }

    /// Makes the file large enough for two snapshots of `snapshot_bytes`.
    pub fn ensure_size(&self, snapshot_bytes: u64) -> io::Result<()> {
        let needed = 2 * (snapshot_bytes + GROWTH_BYTES);
        if fs::metadata(&self.path).is_ok_and(|found| found.len() >= needed) {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        allocate(&file, needed).inspect_err(|_| {
            // the next call would take a partial file for a complete one
            self.release();
        })
    }

    /// Removes the file. Returns whether it existed.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
