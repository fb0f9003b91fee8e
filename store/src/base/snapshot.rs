//! sled's snapshots of its page table: which one the database was last opened with.

use crate::base::disk::DATABASE_DIR;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that sled keeps beside the database, by its length and checksum; 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SnapshotId(pub(crate) u64);

impl SnapshotId {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self((content.len() as u64) << 32 | u64::from(crc32fast::hash(content)))
    }
}

/// The snapshot that sled would begin with in the store below `state_dir`.
pub(crate) fn snapshot_in(state_dir: &Path) -> SnapshotId {
    let newest = snapshots(&state_dir.join(DATABASE_DIR)).ok().and_then(|mut found| found.pop());
    newest
        .and_then(|path| fs::read(path).ok())
        .map_or_else(SnapshotId::default, |content| SnapshotId::of(&content))
}

/// sled's snapshots of its page table, the newest last: that is the one it begins with.
pub(crate) fn snapshots(database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(database)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b"snap.") && !name.as_encoded_bytes().ends_with(b".generating")
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the snapshots that are damaged or not the `known` one; nothing is lost by that, since sled makes a new one out
/// of the database. Returns whether it removed any.
pub(crate) fn remove_wrong_snapshot(database: &Path, known: SnapshotId) -> io::Result<bool> {
    let found = snapshots(database)?;
    let Some(newest) = found.last() else { return Ok(known != SnapshotId::default()) };
    if SnapshotId::of(&fs::read(newest)?) == known {
        return Ok(false);
    }
    for path in found {
        tracing::warn!(
            path = %path.display(),
            "removed a snapshot of the database that is not the one of the last start; all of the database is read again"
        );
        fs::remove_file(path)?;
    }
    Ok(true)
}
