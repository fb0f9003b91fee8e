//! The snapshot: the rows of the store after some first segments, in place of these segments.
//!
//! It is a folder of files in the format of segments, numbered from 1. The first segment after it continues its last group. Only
//! that group has the number of the last entry, and the counts of the store: a database to which a part of the snapshot was
//! applied has no counts, and is rebuilt.

use super::Segments;
use super::files::{COMPRESSED, COMPRESSION_LEVEL, INCOMPLETE, SegmentFiles, SegmentHead, SnapshotExtent};
use super::group::{GroupEnd, encode, encode_changed};
use super::reading::{SegmentsUpTo, read_segments};
use crate::base::engine::remove_dir;
use crate::base::row_batch::RowBatch;
use crate::base::rows::chunk_stem;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use store_base::disk::sync_dir;
use store_base::error::StoreError;

/// The size of a file before its compression, in bytes.
pub(crate) const PART_BYTES: u64 = if cfg!(test) { 16 * 1024 } else { 8 * 1024 * 1024 };
/// The size of the rows of a group, in bytes.
const GROUP_BYTES: usize = if cfg!(test) { 1024 } else { 256 * 1024 };

/// A snapshot that was written and does not replace segments yet. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct WrittenSnapshot {
    dir: PathBuf,
    extent: SnapshotExtent,
}

impl Drop for WrittenSnapshot {
    fn drop(&mut self) {
        if let Err(error) = remove_dir(&self.dir) {
            tracing::warn!(%error, "could not remove a snapshot that was not used; the next start removes it");
        }
    }
}

impl SegmentsUpTo {
    /// Writes the snapshot in place of these segments: `rows`, and in its last group `last`. Reads it back. A last segment with groups
    /// must be sealed before the snapshot replaces it.
    ///
    /// # Errors
    /// An error of `rows`, or the snapshot cannot be written.
    pub(crate) fn write_snapshot(
        &self,
        rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>>,
        last: &RowBatch,
    ) -> Result<WrittenSnapshot, StoreError> {
        let head = self.files.head(self.last)?;
        // without a group, the last segment stays
        let replaces = if head.previous == self.end() { self.last - 1 } else { self.last };
        let dir = self.files.snapshot_dir(replaces).with_extension(INCOMPLETE);
        remove_dir(&dir)?;
        let mut written = WrittenSnapshot { dir, extent: SnapshotExtent { replaces, parts: 0 } };
        let mut writer = SnapshotWriter {
            files: &self.files,
            store_id: head.store_id,
            snapshot: &mut written,
            end: GroupEnd::default(),
            part: None,
        };
        writer.write_all(rows, last, self.end())?;
        let copy = self.files.in_folder(&written.dir);
        let end = read_segments(&copy, 1..=written.extent.parts, |_, _| Ok(true), |_, _| {})?;
        if end.map(|end| end.group) != Some(self.end()) {
            return Err(self.files.damaged(replaces, "the snapshot in its place could not be read back"));
        }
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
    part: Option<(zstd::Encoder<'static, File>, u64)>,
}

impl SnapshotWriter<'_> {
    fn write_all(
        &mut self,
        rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>>,
        last: &RowBatch,
        end: GroupEnd,
    ) -> Result<(), StoreError> {
        let dir = self.snapshot.dir.clone();
        fs::create_dir(&dir).map_err(|source| StoreError::write_error(&dir, source))?;
        let (mut batch, mut bytes) = (RowBatch::default(), 0);
        let mut stem = Vec::new();
        for row in rows {
            let (key, value) = row?;
            // all chunks of a row are in one group
            let is_begin = chunk_stem(&key) != stem;
            if is_begin && bytes >= GROUP_BYTES {
                self.put_group(&batch)?;
                (batch, bytes) = (RowBatch::default(), 0);
            }
            if is_begin {
                stem = chunk_stem(&key);
            }
            bytes += key.len() + value.len();
            batch.insert(key, value);
        }
        self.put_group(&batch)?;
        let group = encode_changed(self.end, end, last).map_err(|length| self.too_large(length))?;
        self.put(&group)?;
        self.end_part()?;
        sync_dir(&dir)?;
        sync_dir(self.files.dir())
    }

    fn put_group(&mut self, rows: &RowBatch) -> Result<(), StoreError> {
        let (group, end) = encode(self.end, 0, rows).map_err(|length| self.too_large(length))?;
        self.put(&group)?;
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

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.part_path();
        let write_error = |source| StoreError::write_error(&path, source);
        let (part, written) = match &mut self.part {
            Some(part) => part,
            None => {
                self.snapshot.extent.parts += 1;
                let head = SegmentHead::new(self.store_id, self.snapshot.extent.parts, self.end);
                let path = self.part_path();
                let begin = || {
                    let mut part = zstd::Encoder::new(File::create(&path)?, COMPRESSION_LEVEL)?;
                    part.write_all(&head.to_bytes())?;
                    Ok(part)
                };
                let part = begin().map_err(|source: io::Error| StoreError::write_error(&path, source))?;
                self.part.insert((part, 0))
            }
        };
        part.write_all(bytes).map_err(write_error)?;
        *written += bytes.len() as u64;
        Ok(())
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
    pub(crate) fn replace_by(&mut self, snapshot: &WrittenSnapshot) -> Result<(), StoreError> {
        let files = &self.files;
        let _replacing = files.lock_replacing();
        let dir = files.snapshot_dir(snapshot.extent.replaces);
        fs::rename(&snapshot.dir, &dir).map_err(|source| StoreError::write_error(&dir, source))?;
        sync_dir(files.dir())?;
        files.set_snapshot(Some(snapshot.extent));
        files.remove_replaced()
    }
}
