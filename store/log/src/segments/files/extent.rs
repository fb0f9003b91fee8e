//! The place of the snapshot among the files of the segments.

use super::{COMPRESSED, SEGMENTS_DIR, SegmentFiles};
use crate::base::engine::remove_dir;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::PoisonError;
use store_base::error::StoreError;
use store_base::files::{remove_if_exists, sync_dir};

/// The start of the name of the folder. The number of the last segment that the snapshot replaces follows.
const FOLDER_START: &str = "snapshot-";

/// The numbers of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SnapshotExtent {
    /// The last segment that it replaces.
    pub(crate) replaces: u64,
    /// The number of its files. It is at most that of the segments that it replaces.
    pub(crate) parts: u64,
}

/// Whether `name` is the path of a segment, or of a file of a snapshot, in a state directory.
pub(crate) fn is_segment_name(name: &str) -> bool {
    let is_number = |text: &str| text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(name) = name.strip_prefix(SEGMENTS_DIR).and_then(|name| name.strip_prefix('/')) else {
        return false;
    };
    let file = match name.split_once('/') {
        Some((folder, file)) => folder.strip_prefix(FOLDER_START).filter(|of| is_number(of)).map(|_| file),
        None => Some(name),
    };
    file.is_some_and(|file| {
        is_number(file.strip_suffix(COMPRESSED).and_then(|file| file.strip_suffix('.')).unwrap_or(file))
    })
}

impl SegmentFiles {
    /// The snapshot in place of the first segments, if there is one.
    pub(crate) fn snapshot(&self) -> Option<SnapshotExtent> {
        *self.snapshot.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::segments) fn set_snapshot(&self, extent: Option<SnapshotExtent>) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = extent;
    }

    /// The folder of the snapshot in place of the segments up to `replaces`.
    pub(in crate::segments) fn snapshot_dir(&self, replaces: u64) -> PathBuf {
        self.dir().join(format!("{FOLDER_START}{replaces:010}"))
    }

    /// Creates the folder of a snapshot with these numbers.
    pub(in crate::segments) fn create_snapshot_dir(
        &self,
        extent: Option<SnapshotExtent>,
    ) -> Result<(), StoreError> {
        self.set_snapshot(extent);
        let Some(SnapshotExtent { replaces, .. }) = extent else { return Ok(()) };
        fs::create_dir(self.snapshot_dir(replaces)).map_err(|source| self.io(source))
    }

    /// The number of the file after that with `number`.
    pub(in crate::segments) fn number_after(&self, number: u64) -> u64 {
        let is_last = |snapshot: &SnapshotExtent| snapshot.parts == number;
        self.snapshot().filter(is_last).map_or(number, |snapshot| snapshot.replaces) + 1
    }

    /// The number of the file before that with `number`; `None` before the first one.
    pub(in crate::segments) fn number_before(&self, number: u64) -> Option<u64> {
        let is_first = |snapshot: &SnapshotExtent| snapshot.replaces + 1 == number;
        let before = self.snapshot().filter(is_first).map_or(number - 1, |snapshot| snapshot.parts);
        (before > 0).then_some(before)
    }

    /// The numbers of the files of the snapshot, and of the segments after it up to `last`.
    pub(crate) fn numbers_up_to(&self, last: u64) -> impl Iterator<Item = u64> + use<> {
        let SnapshotExtent { replaces, parts } = self.snapshot().unwrap_or_default();
        (1..=parts).chain(replaces + 1..=last)
    }

    /// The number of the last log entry before the first segment that is not replaced by a snapshot.
    pub(crate) fn snapshot_entries(&self) -> Result<u64, StoreError> {
        let Some(SnapshotExtent { replaces, .. }) = self.snapshot() else { return Ok(0) };
        Ok(self.head(replaces + 1)?.previous.entries)
    }

    /// Finds the snapshot: that of the most segments, if an interrupted replacement has left two.
    pub(in crate::segments) fn find_snapshot(&self) -> Result<Option<SnapshotExtent>, StoreError> {
        let replaces = self.snapshot_folders()?.into_iter().map(|(replaces, _)| replaces).max();
        let extent = replaces.map(|replaces| {
            let [plain, compressed] = self.numbers_in(&self.snapshot_dir(replaces))?;
            let parts = plain.union(&compressed).copied().max().unwrap_or_default();
            Ok(SnapshotExtent { replaces, parts })
        });
        let extent = extent.transpose()?;
        self.set_snapshot(extent);
        match extent {
            Some(SnapshotExtent { parts: 0, .. }) => Err(self.missing(1)),
            _ => Ok(extent),
        }
    }

    /// The complete snapshots: the last segment that each replaces, and its folder.
    pub(super) fn snapshot_folders(&self) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        let entries = match fs::read_dir(self.dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| self.io(source))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            found.extend(
                name.strip_prefix(FOLDER_START)
                    .and_then(|number| number.parse().ok())
                    .map(|number| (number, path.clone())),
            );
        }
        Ok(found)
    }

    /// Removes the segments and the earlier snapshots that the snapshot replaces, with their copies.
    pub(in crate::segments) fn remove_replaced(&self) -> Result<(), StoreError> {
        let Some(SnapshotExtent { replaces, .. }) = self.snapshot() else { return Ok(()) };
        [self, &self.copy()].into_iter().try_for_each(|files| files.remove_up_to(replaces))
    }

    fn remove_up_to(&self, replaces: u64) -> Result<(), StoreError> {
        if !self.dir().exists() {
            return Ok(());
        }
        for (number, path) in self.snapshot_folders()? {
            if number < replaces {
                remove_dir(&path)?;
            }
        }
        let [plain, compressed] = self.numbers_in(self.dir())?;
        for number in plain.union(&compressed).take_while(|number| **number <= replaces) {
            let plain = self.dir().join(format!("{number:010}"));
            for path in [plain.with_extension(COMPRESSED), plain] {
                remove_if_exists(&path).map_err(|source| StoreError::Io { path, source })?;
            }
        }
        sync_dir(self.dir())
    }
}
