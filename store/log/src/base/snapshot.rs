//! sled's snapshots of its page table, and the identity of the one with which the database was last opened.

use std::path::{Path, PathBuf};
use std::{fs, io};
use store_base::disk::DATABASE_DIR;

/// The identity of a snapshot file: its length and checksum; 0 if there is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SnapshotId(pub(crate) u64);

impl SnapshotId {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self((content.len() as u64) << 32 | u64::from(crc32fast::hash(content)))
    }
}

/// The snapshot with which sled would begin in the store in `state_dir`.
pub(crate) fn snapshot_in(state_dir: &Path) -> SnapshotId {
    let newest = snapshots(&state_dir.join(DATABASE_DIR)).ok().and_then(|mut found| found.pop());
    newest
        .and_then(|path| fs::read(path).ok())
        .map_or_else(SnapshotId::default, |content| SnapshotId::of(&content))
}

/// sled's snapshots of its page table, the newest one last. sled begins with the newest.
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
