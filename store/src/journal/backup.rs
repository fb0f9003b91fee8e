//! A copy of the store at one commit, for a backup while the daemon serves.
//!
//! The files that the store needs are linked into a temporary folder, which has the layout of a state directory. A later commit
//! can remove or replace a file, but not change its bytes: it only appends to the last segment, after the length that is noted
//! here. The copy has no database and no `oracle_log.jsonl`, since a start recreates them.

use super::Journal;
use crate::base::error::StoreError;
use crate::base::watermark::Watermark;
use oracled_domain::audit::log_tree::TreeHash;
use std::fs::{self, File};
use std::io::{self, Read, Take};
use std::path::Path;
use tempfile::TempDir;

/// The start of the name of the folder with the links.
pub(super) const BACKUP_PREFIX: &str = "backup-";

/// The extension of the keys in the state directory.
const KEY: &str = "key";

/// The files of the store at one commit. Dropping this removes the links.
#[derive(Debug)]
pub struct StoreBackup {
    dir: TempDir,
    files: Vec<StoreBackupFile>,
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
    /// Links the files of the store as they are after the last commit.
    ///
    /// # Errors
    /// `Unavailable` while the journal accepts no writes, `SourceFile` if a file of a source is missing or damaged, `Io` if a file
    /// cannot be linked.
    pub fn begin_backup(&mut self) -> Result<StoreBackup, StoreError> {
        self.check_failure()?;
        // a backup without it could not answer for the source after a restore
        if let Some(fault) = self.store.file_faults()?.into_iter().next() {
            return Err(fault);
        }
        let ground = self.store.files();
        let dir = ground.temporary_dir(BACKUP_PREFIX)?;
        let last_segment = self.segments.link_to(dir.path())?;
        ground.link_to(dir.path(), &self.store.named_files()?)?;
        copy_keys(self.engine.dir(), dir.path())?;
        // a new mark: the first start writes `oracle_log.jsonl` from the first entry
        drop(Watermark::create(dir.path(), self.mark.now.store_id, self.mark.now.counts)?);
        let mut files = Vec::new();
        list_files(dir.path(), "", &mut files)
            .map_err(|source| StoreError::Io { path: dir.path().to_owned(), source })?;
        let (path, bytes) = last_segment;
        if let Some(last) = files.iter_mut().find(|file| dir.path().join(&file.name) == path) {
            last.bytes = bytes;
        }
        let (entries, root) = self.store.log_head();
        Ok(StoreBackup { dir, files, entries, root })
    }
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
    pub fn open(&self, file: &StoreBackupFile) -> Result<Take<File>, StoreError> {
        let path = self.dir.path().join(&file.name);
        let opened = File::open(&path).map_err(|source| StoreError::Io { path, source })?;
        Ok(opened.take(file.bytes))
    }
}

/// Copies the keys in `state_dir`: of checkpoints, and of verdicts that the policy holds. A key can be a symbolic link to another
/// disk, and cannot be linked then.
fn copy_keys(state_dir: &Path, copy: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { path: state_dir.to_owned(), source };
    for entry in fs::read_dir(state_dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let is_key = path.extension().is_some_and(|extension| extension == KEY) && path.is_file();
        if let Some(name) = path.file_name().filter(|_| is_key) {
            fs::copy(&path, copy.join(name))
                .map_err(|source| StoreError::Io { path: path.clone(), source })?;
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
