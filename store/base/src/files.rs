//! Changes of files in a state directory: every write, sync and change of a name of the segments, their copies and the high-water mark
//! goes through here.
//!
//! A build with debug assertions, as tests have it, can record the changes below a folder. A test then makes the files that a power cut
//! leaves: those with everything that was synced, and with any part of the rest. A feature instead would build all crates twice, for
//! the first command and for the tests.

#[cfg(debug_assertions)]
pub mod recording;

use crate::error::StoreError;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file that is open for writes.
#[derive(Debug)]
pub struct StateFile {
    file: File,
    /// The position of the next write of [`Write::write`].
    at: u64,
    #[cfg(debug_assertions)]
    recorded: Option<recording::RecordedFile>,
}

impl StateFile {
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "only a recording needs it"))]
    fn new(file: File, path: &Path, is_emptied: bool) -> Self {
        Self {
            file,
            at: 0,
            #[cfg(debug_assertions)]
            recorded: recording::opened(path, is_emptied),
        }
    }

    /// Creates an empty file, or empties the one with this path.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self::new(file, path, true))
    }

    /// Creates an empty file, if none has this path.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Self::new(file, path, true))
    }

    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self::new(file, path, false))
    }

    /// The file, for reads.
    pub const fn reader(&self) -> &File {
        &self.file
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(debug_assertions)]
        if let Some(recorded) = &self.recorded {
            recorded.note_write(bytes, at);
        }
        self.file.write_all_at(bytes, at)
    }

    /// Allocates disk space for the first `len` bytes, if the file system can do that.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        crate::disk::allocate(&self.file, len)?;
        #[cfg(debug_assertions)]
        if let Some(recorded) = &self.recorded {
            recorded.note_length(len);
        }
        Ok(())
    }

    /// Makes all bytes durable, and the length as far as reads need it. The name is not.
    pub fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.note_sync();
        Ok(())
    }

    /// Makes all bytes and the metadata durable. The name is not.
    pub fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.note_sync();
        Ok(())
    }

    #[cfg_attr(not(debug_assertions), expect(clippy::unused_self, reason = "only a recording needs it"))]
    fn note_sync(&self) {
        #[cfg(debug_assertions)]
        if let Some(recorded) = &self.recorded {
            recorded.note_sync();
        }
    }

    /// Drops the page cache of the file: after a failed sync, it can differ from the disk.
    pub fn drop_cache(&self) -> io::Result<()> {
        Ok(posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
    }
}

impl Write for StateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all bytes of `content` to the file `to`, which is created or emptied, and syncs it.
pub fn write_synced(to: &Path, mut content: impl Read) -> io::Result<()> {
    let mut file = StateFile::create(to)?;
    io::copy(&mut content, &mut file)?;
    file.sync_all()
}

/// Renames a file or a folder.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    #[cfg(debug_assertions)]
    recording::note(from, || recording::Change::Rename(from.to_owned(), to.to_owned()));
    Ok(())
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    #[cfg(debug_assertions)]
    recording::note(path, || recording::Change::Remove(path.to_owned()));
    Ok(())
}

/// Removes a file, if it exists.
pub fn remove_if_exists(path: &Path) -> io::Result<()> {
    match remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Creates a folder, and those above it, if they do not exist.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    #[cfg(debug_assertions)]
    recording::note(path, || recording::Change::CreateDir(path.to_owned()));
    Ok(())
}

/// Removes a folder with its files, if it exists.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    #[cfg(debug_assertions)]
    recording::note(path, || recording::Change::RemoveDir(path.to_owned()));
    Ok(())
}

/// Syncs the folder `dir`, so that the names in it are durable.
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
    #[cfg(debug_assertions)]
    recording::note(dir, || recording::Change::SyncDir(dir.to_owned()));
    Ok(())
}
