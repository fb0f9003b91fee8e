//! The snapshot: the rows of the store after some first segments, in place of these segments.
//!
//! It is a folder of files in the format of segments, numbered from 1. The first segment after it continues its last group. Only
//! that group has the number of the last entry, and the counts of the store: a database to which a part of the snapshot was
//! applied has no counts, and is rebuilt.

use super::Segments;
use super::files::{COMPRESSED, INCOMPLETE, ReadSegment, SegmentFiles, SegmentHead, SnapshotExtent};
use super::frames::FramesWriter;
use super::group::{GroupEnd, encode, encode_changed, place};
use super::reading::{SegmentsUpTo, read_segments};
use crate::base::engine::remove_dir;
use crate::base::row_batch::RowBatch;
use crate::base::rows::chunk_stem;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use store_base::error::StoreError;
use store_base::files::{StateFile, create_dir_all, rename, sync_dir};

/// The size of a file before its compression, in bytes.
pub(crate) const PART_BYTES: u64 = if cfg!(test) { 16 * 1024 } else { 8 * 1024 * 1024 };
/// The size of the rows of a group, in bytes.
const GROUP_BYTES: usize = if cfg!(test) { 1024 } else { 256 * 1024 };

/// A snapshot that was written and does not replace segments yet. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct WrittenSnapshot {
    dir: PathBuf,
    copy_dir: PathBuf,
    extent: SnapshotExtent,
}

impl Drop for WrittenSnapshot {
    fn drop(&mut self) {
        if let Err(error) = remove_dir(&self.dir).and_then(|()| remove_dir(&self.copy_dir)) {
            tracing::warn!(%error, "could not remove a snapshot that was not used; the next start removes it");
        }
    }
}

impl SegmentsUpTo {
    /// Writes the snapshot in place of these segments: `rows`, and in its last group `last`. Passes the rows of each group to `on_group`
    /// with their positions in the snapshot. Reads it back, and copies it. A last segment with groups must be sealed before the snapshot
    /// replaces it.
    ///
    /// # Errors
    /// An error of `rows`, or the snapshot cannot be written.
    pub(crate) fn write_snapshot(
        &self,
        rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>>,
        last: RowBatch,
        on_group: &mut dyn FnMut(RowBatch) -> Result<(), StoreError>,
    ) -> Result<WrittenSnapshot, StoreError> {
        let head = self.files.head(self.last)?;
        // without a group, the last segment stays
        let replaces = if head.previous == self.end() { self.last - 1 } else { self.last };
        let dir = self.files.snapshot_dir(replaces).with_extension(INCOMPLETE);
        remove_dir(&dir)?;
        let copy_dir = self.files.copy().snapshot_dir(replaces).with_extension(INCOMPLETE);
        remove_dir(&copy_dir)?;
        let mut written = WrittenSnapshot { dir, copy_dir, extent: SnapshotExtent { replaces, parts: 0 } };
        let mut writer = SnapshotWriter {
            files: &self.files,
            store_id: head.store_id,
            snapshot: &mut written,
            end: GroupEnd::default(),
            part: None,
            on_group,
        };
        writer.write_all(rows, last, self.end())?;
        let files = self.files.in_folder(&written.dir, &written.copy_dir);
        let check_end = |read: &ReadSegment| {
            let damage = || self.files.damaged(replaces, "the snapshot in its place could not be read back");
            (read.end.group == self.end()).then_some(()).ok_or_else(damage)
        };
        read_segments(&files, 1..=written.extent.parts, check_end, |_, _| Ok(true), |_, _| {})?;
        files.put_copies(written.extent.parts)?;
        Ok(written)
    }
}

struct SnapshotWriter<'f> {
    files: &'f SegmentFiles,
    store_id: u64,
    snapshot: &'f mut WrittenSnapshot,
    /// The end of the last group.
    end: GroupEnd,
    /// The file that is written, and its size before the compression.
    part: Option<(FramesWriter, u64)>,
    on_group: &'f mut dyn FnMut(RowBatch) -> Result<(), StoreError>,
}

impl SnapshotWriter<'_> {
    fn write_all(
        &mut self,
        rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>>,
        last: RowBatch,
        end: GroupEnd,
    ) -> Result<(), StoreError> {
        let dir = self.snapshot.dir.clone();
        create_dir_all(&dir).map_err(|source| StoreError::write_error(&dir, source))?;
        let (mut batch, mut bytes) = (RowBatch::default(), 0);
        let mut stem = Vec::new();
        for row in rows {
            let (key, value) = row?;
            // all chunks of a row are in one group
            let is_begin = chunk_stem(&key) != stem;
            if is_begin && bytes >= GROUP_BYTES {
                self.put_group(std::mem::take(&mut batch))?;
                bytes = 0;
            }
            if is_begin {
                stem = chunk_stem(&key);
            }
            bytes += key.len() + value.len();
            batch.insert(key, value);
        }
        self.put_group(batch)?;
        let group = encode_changed(self.end, end, &last).map_err(|length| self.too_large(length))?;
        self.put(&group)?;
        // the database has the counts itself: they are read before the snapshot is in place
        (self.on_group)(last)?;
        self.end_part()?;
        sync_dir(&dir)?;
        sync_dir(self.files.dir())
    }

    fn put_group(&mut self, mut rows: RowBatch) -> Result<(), StoreError> {
        let (group, end) = encode(self.end, 0, &rows).map_err(|length| self.too_large(length))?;
        let at = self.put(&group)?;
        place(&mut rows, self.snapshot.extent.parts, at);
        (self.on_group)(rows)?;
        self.end = end;
        // a part has the number of a replaced segment
        let SnapshotExtent { replaces, parts } = self.snapshot.extent;
        let is_full = self.part.as_ref().is_some_and(|(_, bytes)| *bytes >= PART_BYTES);
        if is_full && parts < replaces { self.end_part() } else { Ok(()) }
    }

    fn too_large(&self, length: usize) -> StoreError {
        let fault = format!("a group of {length} bytes is too large for a snapshot");
        self.files.damaged(self.snapshot.extent.replaces, &fault)
    }

    /// Writes a group. Returns the position of its first byte in its file, uncompressed.
    fn put(&mut self, bytes: &[u8]) -> Result<u64, StoreError> {
        let path = self.part_path();
        let write_error = |source| StoreError::write_error(&path, source);
        let (part, written) = match &mut self.part {
            Some(part) => part,
            None => {
                self.snapshot.extent.parts += 1;
                let head = SegmentHead::new(self.store_id, self.snapshot.extent.parts, self.end);
                let path = self.part_path();
                let begin = || {
                    let mut part = FramesWriter::new(StateFile::create(&path)?)?;
                    part.write_all(&head.to_bytes())?;
                    Ok(part)
                };
                let part = begin().map_err(|source: io::Error| StoreError::write_error(&path, source))?;
                self.part.insert((part, SegmentHead::BYTES))
            }
        };
        part.write_all(bytes).map_err(write_error)?;
        let at = *written;
        *written += bytes.len() as u64;
        Ok(at)
    }

    fn part_path(&self) -> PathBuf {
        let number = self.snapshot.extent.parts;
        self.snapshot.dir.join(format!("{number:010}.{COMPRESSED}"))
    }

    fn end_part(&mut self) -> Result<(), StoreError> {
        let path = self.part_path();
        let Some((part, _)) = self.part.take() else { return Ok(()) };
        let ended = part.finish().and_then(|file| file.sync_all());
        ended.map_err(|source| StoreError::write_error(&path, source))
    }
}

impl Segments {
    /// Replaces the first segments by `snapshot`, which has the same groups, but for the entries that were dropped.
    ///
    /// # Errors
    /// The snapshot cannot be renamed, or a replaced segment cannot be removed; the next start removes it.
    pub(crate) fn replace_by(&self, snapshot: &WrittenSnapshot) -> Result<(), StoreError> {
        let files = &self.files;
        let _replacing = files.lock_replacing();
        let dir = files.snapshot_dir(snapshot.extent.replaces);
        let copy = files.copy();
        let copy_dir = copy.snapshot_dir(snapshot.extent.replaces);
        let put =
            |from: &Path, to: &Path| rename(from, to).map_err(|source| StoreError::write_error(to, source));
        put(&snapshot.dir, &dir)?;
        files.set_snapshot(Some(snapshot.extent));
        files.open_segments().clear();
        sync_dir(files.dir())?;
        put(&snapshot.copy_dir, &copy_dir)?;
        sync_dir(copy.dir())?;
        files.remove_replaced()
    }
}
