//! A copy of the store at one commit, for a backup while the daemon serves.
//!
//! The files that the store needs are linked into a temporary folder, which has the layout of a state directory. A later commit
//! can remove or replace a file, but not change its bytes: it only appends to the last segment, after the length that is noted
//! here. The copy has no database and no `oracle_log.jsonl`, since a start recreates them, and no private key. Before it is sent,
//! [`StoreBackup::verify`] reads every byte of it.

use super::Journal;
use super::StateFiles;
use crate::audit::segment_log::SegmentLog;
use crate::base::engine::remove_dir;
use crate::base::watermark::{WATERMARK_FILE, Watermark};
use crate::segments::is_segment_name;
use domain_audit::log_tree::TreeHash;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store_base::error::StoreError;
use tempfile::TempDir;

/// The start of the name of the folder with the links.
const BACKUP_PREFIX: &str = "backup-";

/// The files of the store at one commit. Dropping this removes the links.
#[derive(Debug)]
pub struct StoreBackup {
    dir: TempDir,
    state_dir: PathBuf,
    state_files: Arc<dyn StateFiles>,
    files: Vec<StoreBackupFile>,
    /// The content of the high-water mark. A full disk has no space for its file.
    watermark: Vec<u8>,
    /// The number of log entries.
    pub entries: u64,
    /// The root of the Merkle tree of these entries.
    pub root: TreeHash,
}

/// One file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBackupFile {
    /// The path below the state directory, with `/` between folders.
    pub name: String,
    /// The length, in bytes.
    pub bytes: u64,
}

impl Journal {
    /// Links the files of the store as they are after the last commit. A full disk prevents no backup, since a backup is for
    /// another disk.
    ///
    /// # Errors
    /// `Unavailable` while the journal accepts no writes for another reason than a full disk, `Short` if a segment is missing,
    /// `SourceFile` if a file of a source is missing or damaged, `Io` if a file cannot be linked.
    pub fn begin_backup(&mut self) -> Result<StoreBackup, StoreError> {
        self.check_readable()?;
        let work_dir = self.files.work_dir();
        let dir = TempDir::with_prefix_in(BACKUP_PREFIX, &work_dir)
            .map_err(|source| StoreError::write_error(&work_dir, source))?;
        let linked = self.segments.link_to(dir.path());
        let last_segment = linked.inspect_err(|error| self.engine.note_segment_damage(error))?;
        self.files.link_to(&self.tables, dir.path())?;
        let mut files = Vec::new();
        list_files(dir.path(), "", &mut files)
            .map_err(|source| StoreError::Io { path: dir.path().to_owned(), source })?;
        let (path, bytes) = last_segment;
        if let Some(last) = files.iter_mut().find(|file| dir.path().join(&file.name) == path) {
            last.bytes = bytes;
        }
        // a new mark: the first start writes `oracle_log.jsonl` from the first entry
        let watermark = Watermark::new_file(self.mark.now.store_id, self.mark.now.counts.clone());
        files.push(StoreBackupFile { name: WATERMARK_FILE.to_owned(), bytes: watermark.len() as u64 });
        let (entries, root) = self.tables.log_head();
        let state_dir = self.engine.dir().to_owned();
        Ok(StoreBackup {
            dir,
            state_dir,
            state_files: Arc::clone(&self.files),
            files,
            watermark,
            entries,
            root,
        })
    }
}

/// Whether `name` is the path of the high-water mark, or of a segment, in a state directory.
#[must_use]
pub fn is_journal_file(name: &str) -> bool {
    name == WATERMARK_FILE || is_segment_name(name)
}

impl StoreBackup {
    /// The files, by name.
    #[must_use]
    pub fn files(&self) -> &[StoreBackupFile] {
        &self.files
    }

    /// Opens a file up to its length.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub fn open(&self, file: &StoreBackupFile) -> Result<Box<dyn Read + '_>, StoreError> {
        if file.name == WATERMARK_FILE {
            return Ok(Box::new(Cursor::new(&self.watermark)));
        }
        let path = self.dir.path().join(&file.name);
        let opened = File::open(&path).map_err(|source| StoreError::Io { path, source })?;
        Ok(Box::new(opened.take(file.bytes)))
    }

    /// Reads every file to its end, and compares it with its checksums and digests, as a restore does. This is the only place that
    /// decides whether a backup is damaged.
    ///
    /// # Errors
    /// `Corrupt` or `Short` if a segment is damaged or missing, `SourceFile` if a file of a source is.
    pub fn verify(&self) -> Result<(), StoreError> {
        let verify = || {
            let log = SegmentLog::open_up_to(self.dir.path(), self.entries)?;
            self.state_files.verify_copy(&log, &|state| {
                if state.tree.size() != self.entries {
                    return Err(log.end_error(state.tree.size(), &state.remains, self.entries));
                }
                if state.tree.root() != self.root {
                    return Err(log.tree_error());
                }
                Ok(())
            })
        };
        verify().map_err(|error| error.moved(self.dir.path(), &self.state_dir))
    }
}

/// Removes the links of backups that an earlier process did not remove.
pub(super) fn remove_links(work_dir: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { path: work_dir.to_owned(), source };
    for entry in fs::read_dir(work_dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.file_name().to_string_lossy().starts_with(BACKUP_PREFIX) {
            remove_dir(&entry.path())?;
        }
    }
    Ok(())
}

/// Adds the files below `dir` to `files`, in the order of their names.
fn list_files(dir: &Path, prefix: &str, files: &mut Vec<StoreBackupFile>) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let found = entry.metadata()?;
        if found.is_dir() {
            list_files(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push(StoreBackupFile { name, bytes: found.len() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
