//! The state directory at a start.

use crate::config::DaemonConfig;
use crate::platform::config::StorageSection;
use anyhow::bail;
use oracled_store::{Journal, Store, StoreError, StoreOptions};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens the store as configured.
pub(super) fn open_store(config: &DaemonConfig) -> Result<(Journal, Store), StoreError> {
    let StorageSection { cache_bytes, facts_cache_bytes, min_free_bytes, erase_session_ids, .. } =
        config.storage;
    let dir = config.state_dir.clone();
    let (journal, store) =
        Journal::open(StoreOptions { dir, cache_bytes, facts_cache_bytes, min_free_bytes })?;
    if erase_session_ids {
        journal.cover_session_ids();
    }
    Ok((journal, store))
}

/// Checks that other users cannot write to the state directory, if it exists.
pub(super) fn check_mode(dir: &Path) -> anyhow::Result<()> {
    // the store reports all other faults of the directory
    let mode = fs::metadata(dir).map_or(0, |found| found.mode() & 0o7777);
    if mode & 0o022 != 0 {
        bail!(
            "the state directory {} has mode {mode:04o}: other users can replace its files (allowed: 0700, 0750 or 0755); run: \
             chmod go-w {0}",
            dir.display()
        );
    }
    Ok(())
}
