//! Links to the files of the ground-truth layer, for a backup.

use super::files::{DIR, FACTS_DIR, GroundFileKind, GroundFiles, RAW_DIR, list_files_in};
use crate::base::engine::remove_dir;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use store_base::disk::link_if_exists;
use store_base::error::StoreError;
use tempfile::TempDir;

impl GroundFiles {
    /// Creates a folder on the disk of the state. It is removed when the returned `TempDir` is dropped, or by the next start.
    pub(crate) fn temporary_dir(&self, prefix: &str) -> Result<TempDir, StoreError> {
        let work_dir = self.work_dir();
        let dir = TempDir::with_prefix_in(prefix, &work_dir);
        dir.map_err(|source| StoreError::write_error(&work_dir, source))
    }

    /// Removes the folders of [`GroundFiles::temporary_dir`] with this prefix that an earlier process did not remove.
    pub(crate) fn remove_temporary(&self, prefix: &str) -> Result<(), StoreError> {
        let work_dir = self.work_dir();
        let io = |source| StoreError::Io { path: work_dir.clone(), source };
        for entry in fs::read_dir(&work_dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                remove_dir(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Links the sorted files and the payloads with the digests in `named` into `state_dir`, and the chunks of removed
    /// payloads. Files that no commit names yet are not linked, since a start rejects them. Pruned payloads do not exist.
    pub(crate) fn link_to(&self, state_dir: &Path, named: &HashSet<String>) -> Result<(), StoreError> {
        for (from, folder, extension) in
            [(self.facts_dir.clone(), FACTS_DIR, "sorted"), (self.raw_dir(), RAW_DIR, "raw")]
        {
            let to = state_dir.join(DIR).join(folder);
            fs::create_dir_all(&to).map_err(|source| StoreError::Io { path: to.clone(), source })?;
            for name in named.iter().map(|digest| format!("{digest}.{extension}")) {
                link_if_exists(&from.join(&name), &to.join(&name))?;
            }
        }
        // last: a removal writes the chunks that other payloads need before it removes the payload
        for (path, kind) in list_files_in(&self.raw_dir())? {
            if let (GroundFileKind::Chunks, Some(name)) = (kind, path.file_name()) {
                link_if_exists(&path, &state_dir.join(DIR).join(RAW_DIR).join(name))?;
            }
        }
        Ok(())
    }
}
