//! The files of the segments and of their copies: their names, their heads, and reading them whole.

mod copies;
mod extent;
mod values;

use super::frames::{FRAME_BYTES, Frames, FramesReader, FramesWriter, readable_frames};
use super::group::{GROUP_MAX_BYTES, GroupEnd, StoredGroup, find_after};
use super::open_segments::{OpenSegment, OpenSegments};
use crate::base::database::SegmentDamage;
use crate::base::engine::{TableReader, remove_dir};
use crate::base::row_batch::RowBatch;
use crate::base::schema::{self, schema};
use crate::base::watermark::Watermark;
use crate::segments::group::{GROUP_HEAD_BYTES, decode, length_of_rows};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::{fs, io};
use store_base::disk::link_if_exists;
use store_base::error::StoreError;
use store_base::files::{StateFile, remove_file, remove_if_exists, rename, sync_dir, write_synced};

pub(crate) use copies::KEPT_DIR;
pub(crate) use extent::{SnapshotExtent, is_segment_name};

/// The folder of the segments in the state directory.
const SEGMENTS_DIR: &str = "segments";
/// The folder of their copies, with the same names.
const COPIES_DIR: &str = "segments.copy";
/// The file in that folder that becomes the next segment.
const SPARE_FILE: &str = "spare";
pub(super) const COMPRESSED: &str = "zst";
/// Ends the names of files that are not complete.
pub(super) const INCOMPLETE: &str = "new";
/// Ends the names of compressed segments that an erasure has rewritten, until they replace the segments.
const ERASED: &str = "erased";

const MAGIC: &[u8; 8] = b"oracledS";

/// The start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// The schema version of its rows.
    pub(crate) schema: u32,
    pub(crate) store_id: u64,
    pub(crate) number: u64,
    /// The end of the segment before it.
    pub(crate) previous: GroupEnd,
}

/// The end of the groups of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentEnd {
    pub(crate) group: GroupEnd,
    /// In bytes from the start of the uncompressed segment.
    pub(crate) len: u64,
}

/// A complete group that was found among damaged ones.
#[derive(Debug)]
pub(crate) struct ReadableGroup {
    /// The number of its segment.
    pub(crate) segment: u64,
    /// The number of log entries before it.
    pub(crate) after_entry: u64,
    /// The number of log entries up to its end.
    pub(crate) entries: u64,
    pub(crate) rows: RowBatch,
}

/// The folder of the segments, or of their copies.
#[derive(Debug, Clone)]
pub(crate) struct SegmentFiles {
    state_dir: PathBuf,
    dir: PathBuf,
    /// The folder of the copies, or of the segments.
    other_dir: PathBuf,
    /// Whether the files that an erasure has rewritten are read in place of the segments.
    reads_erased: bool,
    /// The content of a segment that is read in place of its file, with its number.
    merged: Option<(u64, Arc<[u8]>)>,
    open: Arc<OpenSegments>,
    damage: Arc<SegmentDamage>,
    /// Held while the file of a sealed segment is replaced.
    replacing: Arc<Mutex<()>>,
    /// The snapshot in place of the first segments, if [`SegmentFiles::check_names`] or
    /// [`SegmentFiles::replace_by_snapshot`] has found one.
    pub(super) snapshot: Arc<RwLock<Option<SnapshotExtent>>>,
}

impl SegmentHead {
    /// The length of a head: magic number, schema version, store, number, checksum and entries of the previous segment's last
    /// group, and a checksum.
    pub(crate) const BYTES: u64 = 8 + 4 + 8 + 8 + 4 + 8 + 4;

    /// The head of segment `number`, after the group `previous`.
    pub(crate) fn new(store_id: u64, number: u64, previous: GroupEnd) -> Self {
        Self { schema: schema(), store_id, number, previous }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.schema.to_be_bytes());
        bytes.extend_from_slice(&self.store_id.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.previous.checksum.to_be_bytes());
        bytes.extend_from_slice(&self.previous.entries.to_be_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    /// Reads a head of any schema version with this layout; `None` if it is damaged.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.get(..Self::BYTES as usize)?.split_last_chunk::<4>()?;
        let (schema, rest) = content.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (store_id, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (checksum_before, entries) = rest.split_first_chunk()?;
        let head = Self {
            schema: u32::from_be_bytes(*schema),
            store_id: u64::from_be_bytes(*store_id),
            number: u64::from_be_bytes(*number),
            previous: GroupEnd {
                checksum: u32::from_be_bytes(*checksum_before),
                entries: u64::from_be_bytes(entries.try_into().ok()?),
            },
        };
        (crc32fast::hash(content) == u32::from_be_bytes(*checksum)).then_some(head)
    }
}

impl SegmentFiles {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            dir: state_dir.join(SEGMENTS_DIR),
            other_dir: state_dir.join(COPIES_DIR),
            reads_erased: false,
            merged: None,
            open: Arc::default(),
            damage: Arc::default(),
            replacing: Arc::default(),
            snapshot: Arc::default(),
        }
    }

    /// The files of an open store, as they are found now. Damage of them is noted for the store.
    pub(super) fn of(store: &TableReader) -> Self {
        let damage = Arc::clone(store.engine().values().damage());
        Self { damage, ..Self::new(store.dir()) }
    }

    /// The copies of these files. Their own damage is not noted: a segment that is whole is not read from them.
    pub(super) fn copy(&self) -> Self {
        Self {
            dir: self.other_dir.clone(),
            other_dir: self.dir.clone(),
            open: Arc::default(),
            damage: Arc::default(),
            ..self.clone()
        }
    }

    /// These files as they are after the erasure that is prepared.
    pub(super) fn after_erasure(&self) -> Self {
        Self { reads_erased: true, open: Arc::default(), ..self.clone() }
    }

    pub(super) fn open_segments(&self) -> &OpenSegments {
        &self.open
    }

    pub(crate) fn segment_damage(&self) -> &SegmentDamage {
        &self.damage
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The length of all segments, in bytes.
    pub(crate) fn bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for number in self.numbers_up_to(self.existing_numbers()?.last().copied().unwrap_or_default()) {
            let opened = self.open_file(number).and_then(|(file, _)| file.metadata());
            bytes += opened.map_or(0, |found| found.len());
        }
        Ok(bytes)
    }

    /// Files with the same format in another folder, with their copies in `other_dir`. Damage of them is noted for these files.
    pub(super) fn in_folder(&self, dir: &Path, other_dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            other_dir: other_dir.to_owned(),
            snapshot: Arc::default(),
            open: Arc::default(),
            ..self.clone()
        }
    }

    /// Until the result is dropped, the file of no sealed segment is replaced.
    pub(super) fn lock_replacing(&self) -> MutexGuard<'_, ()> {
        self.replacing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spare(&self) -> PathBuf {
        self.dir.join(SPARE_FILE)
    }

    /// The path of segment `number`, or of this part of the snapshot, before it is compressed.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        let replaced = self.snapshot().filter(|snapshot| number <= snapshot.replaces);
        let dir = replaced.map_or_else(|| self.dir.clone(), |snapshot| self.snapshot_dir(snapshot.replaces));
        dir.join(format!("{number:010}"))
    }

    fn compressed_path(&self, number: u64) -> PathBuf {
        self.path(number).with_extension(COMPRESSED)
    }

    fn erased_path(&self, number: u64) -> PathBuf {
        self.path(number).with_extension(ERASED)
    }

    pub(crate) fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.dir.clone(), source }
    }

    pub(crate) fn damaged(&self, number: u64, fault: &str) -> StoreError {
        let detail = format!("{}: {fault}", self.name_of(number));
        StoreError::Corrupt { dir: self.state_dir.clone(), detail }
    }

    /// The error for segment `number`, whose next group after `end` is damaged.
    pub(crate) fn damaged_group(&self, number: u64, end: SegmentEnd) -> StoreError {
        self.damaged(number, &format!("the group at byte {} is damaged", end.len))
    }

    /// Checks that segment `number`, the last one that was read, has all groups up to entry `entries`.
    pub(super) fn check_reaches(
        &self,
        number: u64,
        read: &ReadSegment,
        entries: u64,
    ) -> Result<(), StoreError> {
        if read.end.group.entries >= entries { Ok(()) } else { Err(self.damaged_group(number, read.end)) }
    }

    /// The numbers of the plain and of the compressed segments in `dir`. A segment whose compressed form is new has both.
    pub(super) fn numbers_in(&self, dir: &Path) -> Result<[BTreeSet<u64>; 2], StoreError> {
        let (mut plain, mut compressed) = (BTreeSet::new(), BTreeSet::new());
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok([plain, compressed]),
            Err(error) => return Err(self.io(error)),
        };
        for entry in entries {
            let name = PathBuf::from(entry.map_err(|source| self.io(source))?.file_name());
            let numbers = match name.extension() {
                None => &mut plain,
                Some(extension) if extension == COMPRESSED => &mut compressed,
                Some(_) => continue,
            };
            numbers.extend(name.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()));
        }
        Ok([plain, compressed])
    }

    /// The number of the last segment; `None` if there is none. Finds the snapshot.
    ///
    /// # Errors
    /// `Short` if a segment is missing.
    pub(crate) fn check_names(&self) -> Result<Option<u64>, StoreError> {
        self.find_snapshot()?;
        self.last_number()
    }

    /// The number of the last segment, as for [`SegmentFiles::check_names`], with the snapshot that is known. A segment of which only the
    /// copy exists is not missing.
    pub(super) fn last_number(&self) -> Result<Option<u64>, StoreError> {
        let first = self.snapshot().map_or(1, |snapshot| snapshot.replaces + 1);
        let ([plain, compressed], copy) = (self.numbers_in(&self.dir)?, self.copy());
        let Some(mut last) = plain.iter().chain(&compressed).copied().max() else {
            return if first > 1 { Err(self.missing(first)) } else { Ok(None) };
        };
        // a segment can be begun or compressed while the folder is read
        let exists = |number| {
            [self, &copy].into_iter().any(|files| {
                let (plain, compressed) = (files.path(number), files.compressed_path(number));
                compressed.exists() || plain.exists() || compressed.exists()
            })
        };
        while exists(last + 1) {
            last += 1;
        }
        let is_there = |number| plain.contains(&number) || compressed.contains(&number) || exists(number);
        // only a segment before the last one is compressed
        let next = (!self.path(last).exists() && !copy.path(last).exists()).then_some(last + 1);
        match (first..last).find(|number| !is_there(*number)).or(next) {
            Some(missing) => Err(self.missing(missing)),
            None => Ok(Some(last)),
        }
    }

    pub(crate) fn missing(&self, number: u64) -> StoreError {
        let detail = format!("{} is missing", self.name_of(number));
        StoreError::Short { dir: self.state_dir.clone(), detail }
    }

    /// The name of a segment in errors.
    fn name_of(&self, number: u64) -> String {
        let is_in_snapshot = self.snapshot().is_some_and(|snapshot| number <= snapshot.replaces);
        let copy = if self.dir.ends_with(COPIES_DIR) { "the copy of " } else { "" };
        format!("{copy}segment {number}{}", if is_in_snapshot { " of the snapshot" } else { "" })
    }

    /// The numbers of the segments that are not compressed.
    pub(crate) fn uncompressed(&self) -> Result<BTreeSet<u64>, StoreError> {
        self.numbers_in(&self.dir).map(|[plain, _]| plain)
    }

    /// Removes files that an earlier process did not complete, and segments that the snapshot replaces, with their copies.
    pub(crate) fn remove_incomplete(&self) -> Result<(), StoreError> {
        let incomplete = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == INCOMPLETE || extension == ERASED)
                || *path == self.spare()
        };
        let copy = self.copy();
        let folders = [self, &copy].into_iter().flat_map(|files| {
            let snapshot = files.snapshot().map(|snapshot| files.snapshot_dir(snapshot.replaces));
            [Some(files.dir.clone()), snapshot].into_iter().flatten()
        });
        for dir in folders.filter(|dir| dir.exists()) {
            let entries = fs::read_dir(&dir).map_err(|source| self.io(source))?;
            for path in entries.flatten().map(|entry| entry.path()).filter(incomplete) {
                if path.is_dir() {
                    remove_dir(&path)?;
                } else {
                    remove_file(&path).map_err(|source| self.io(source))?;
                }
            }
        }
        self.remove_replaced()
    }

    /// Removes the files of an interrupted creation.
    pub(crate) fn remove_all(&self) -> Result<(), StoreError> {
        [&self.other_dir, &self.dir].into_iter().try_for_each(|dir| remove_dir(dir))
    }

    /// Opens the file of segment `number`. Returns also whether it is compressed.
    fn open_file(&self, number: u64) -> io::Result<(File, bool)> {
        let (plain, compressed) = ((self.path(number), false), (self.compressed_path(number), true));
        let erased = self.reads_erased.then(|| (self.erased_path(number), true));
        // a segment that is compressed now has first both forms, and then the compressed one
        for (path, is_compressed) in erased.into_iter().chain([compressed.clone(), plain, compressed]) {
            match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => return opened.map(|file| (file, is_compressed)),
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Opens segment `number` for reads of parts of it.
    pub(super) fn open_to_read(&self, number: u64) -> io::Result<OpenSegment> {
        if let Some((_, content)) = self.merged.as_ref().filter(|(merged, _)| *merged == number) {
            return Ok(OpenSegment::Merged(Arc::clone(content)));
        }
        let (file, is_compressed) = self.open_file(number)?;
        if is_compressed {
            Frames::open(file).map(OpenSegment::Compressed)
        } else {
            Ok(OpenSegment::Plain(file))
        }
    }

    /// Opens segment `number`, and reads its content uncompressed.
    fn open(&self, number: u64) -> Result<Box<dyn Read>, StoreError> {
        let opened = self.open_to_read(number).map_err(|source| self.read_error(number, source));
        opened.map(OpenSegment::into_read)
    }

    /// Links segment `number` into the folder `copy`, compressed if it is.
    ///
    /// # Errors
    /// `Short` if the segment is missing.
    pub(crate) fn link(&self, number: u64, copy: &Self) -> Result<(), StoreError> {
        let compressed = || link_if_exists(&self.compressed_path(number), &copy.compressed_path(number));
        let plain = || link_if_exists(&self.path(number), &copy.path(number));
        // a segment that is compressed now has first both forms, and then the compressed one
        let is_linked = compressed()? || plain()? || compressed()?;
        if is_linked { Ok(()) } else { Err(self.missing(number)) }
    }

    pub(super) fn read_error(&self, number: u64, source: io::Error) -> StoreError {
        match source.kind() {
            ErrorKind::NotFound => self.missing(number),
            // something else has the name of the file
            ErrorKind::IsADirectory | ErrorKind::NotADirectory => self.damaged(number, &source.to_string()),
            // the disk cannot read the block
            _ if source.raw_os_error() == Some(Errno::EIO as i32) => {
                self.damaged(number, &source.to_string())
            }
            // zstd reports damage as an error of another kind
            ErrorKind::Other | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
                self.damaged(number, &source.to_string())
            }
            _ => self.io(source),
        }
    }

    /// The head of segment `number`, or of its copy if the segment is damaged.
    pub(crate) fn head(&self, number: u64) -> Result<SegmentHead, StoreError> {
        self.or_copy(number, |files| {
            let mut bytes = Vec::new();
            let read = files.open(number)?.take(SegmentHead::BYTES).read_to_end(&mut bytes);
            read.map_err(|source| files.read_error(number, source))?;
            files.parse_head(number, &bytes)
        })
    }

    /// The groups in the file of segment `number` alone. Readers use [`SegmentFiles::walk`].
    pub(crate) fn groups(&self, number: u64) -> Result<SegmentGroups<'_>, StoreError> {
        let opened = self.open_to_read(number).map_err(|source| self.read_error(number, source))?;
        SegmentGroups::new(self, number, opened.into_read())
    }

    /// Passes each complete group after entry `entries` to `visit` until it returns false. Segments and groups between them may be
    /// damaged or missing. Returns the number of the last segment with a group, and whether other bytes than zeros follow that group.
    ///
    /// # Errors
    /// An error of `visit`, or the folder cannot be read.
    pub(crate) fn visit_groups_after(
        &self,
        mut entries: u64,
        mut visit: impl FnMut(ReadableGroup) -> Result<bool, StoreError>,
    ) -> Result<(u64, bool), StoreError> {
        let mut last = (0, false);
        // files can have been swapped: the head says which segment a file is
        let mut by_segment: BTreeMap<u64, Vec<(Self, u64)>> = BTreeMap::new();
        for files in [self.clone(), self.copy()] {
            for number in files.existing_numbers()? {
                let segment = files.number_in_head(number)?.unwrap_or(number);
                by_segment.entry(segment).or_default().push((files.clone(), number));
            }
        }
        for (segment, copies) in by_segment {
            let read = copies.iter().map(|(files, number)| files.read_readable(*number));
            let read: Vec<_> = read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            let is_damaged = read.iter().any(ReadableContent::is_damaged);
            let read: Vec<_> = read.iter().map(ReadableContent::bytes).collect();
            let mut rests: Vec<&[u8]> = read
                .iter()
                .map(|bytes| bytes.get(SegmentHead::BYTES as usize..).unwrap_or_default())
                .collect();
            let mut visited = None;
            while let Some(group) = next_group(&mut rests, entries, visited) {
                let after_entry = group.previous.entries;
                let Some(rows) = group.rows() else { break };
                (entries, visited) = (group.end.entries, Some(group.end));
                if !visit(ReadableGroup { segment, after_entry, entries, rows })? {
                    return Ok((segment, false));
                }
            }
            let has_remains = rests.iter().any(|rest| rest.iter().any(|byte| *byte != 0));
            last = (segment, has_remains || is_damaged);
        }
        Ok(last)
    }

    /// The content of segment `number` as far as it can be read; `None` if it is missing. The table of its frames is not needed.
    ///
    /// # Errors
    /// The file cannot be read now, for another reason than damage.
    fn read_readable(&self, number: u64) -> Result<Option<ReadableContent>, StoreError> {
        let read_error = |source| self.read_error(number, source);
        let opened = self.open_file(number).and_then(|(file, form)| Ok((file.metadata()?.len(), file, form)));
        let Some((length, file, is_compressed)) = no_damage(opened.map_err(read_error))? else {
            return Ok(None);
        };
        let mut pieces = Vec::new();
        for at in (0..length.min(REST_MAX_BYTES)).step_by(FRAME_BYTES) {
            let mut bytes = vec![0; FRAME_BYTES.min(usize::try_from(length - at).unwrap_or(FRAME_BYTES))];
            let read = file.read_exact_at(&mut bytes, at).map_err(read_error);
            pieces.push(no_damage(read)?.map(|()| bytes));
        }
        let mut content = ReadableContent(pieces);
        if is_compressed {
            content =
                ReadableContent(readable_frames(&content.bytes(), REST_MAX_BYTES as usize / FRAME_BYTES));
        }
        if content.is_damaged() {
            tracing::warn!(file = self.name_of(number), "a segment can be read only in part");
        }
        Ok(Some(content))
    }

    /// The number in the head of the file with this number; `None` if the head is damaged.
    fn number_in_head(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let mut bytes = Vec::new();
        let Some(segment) = no_damage(self.open(number))? else { return Ok(None) };
        let read = segment.take(SegmentHead::BYTES).read_to_end(&mut bytes);
        no_damage(read.map_err(|source| self.read_error(number, source)))?;
        Ok(SegmentHead::from_bytes(&bytes).map(|head| head.number))
    }

    /// The numbers of the segments that exist, with those that a snapshot replaces.
    pub(crate) fn existing_numbers(&self) -> Result<BTreeSet<u64>, StoreError> {
        let [plain, compressed] = self.numbers_in(&self.dir)?;
        Ok(&plain | &compressed)
    }

    fn parse_head(&self, number: u64, bytes: &[u8]) -> Result<SegmentHead, StoreError> {
        let found = bytes.strip_prefix(MAGIC).and_then(<[u8]>::first_chunk);
        let head = SegmentHead::from_bytes(bytes);
        // a head with another version can have another layout, and so no checksum here: then the high-water mark has the version of the
        // store, unless it is lost too
        if let Some(found) = found
            && (head.is_some() || !matches!(Watermark::values_in(&self.state_dir), Ok(Some(_))))
        {
            schema::check(&self.state_dir, u32::from_be_bytes(*found))?;
        }
        head.filter(|head| head.number == number)
            .ok_or_else(|| self.damaged(number, "its head is damaged, or it is another segment"))
    }

    /// Prepares the file of the next segment with `size` zeros; `None` if there is one already.
    pub(crate) fn prepare(&self, size: u64) -> io::Result<Option<StateFile>> {
        let path = self.spare();
        let mut file = match StateFile::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        // the space is allocated first, so that a disk without it is not filled
        let prepared = file.allocate(size).and_then(|()| {
            io::copy(&mut io::repeat(0).take(size), &mut file)?;
            file.sync_all()
        });
        prepared.inspect_err(|_| self.remove_unused(&path))?;
        Ok(Some(file))
    }

    /// Creates the file of segment `number` with space for `size` bytes, which is allocated but not written. Its name is not
    /// yet that of the segment.
    pub(crate) fn create(&self, number: u64, size: u64) -> io::Result<(StateFile, PathBuf)> {
        let path = self.path(number).with_extension(INCOMPLETE);
        let file = StateFile::create(&path)?;
        // the incomplete file would take the space that a smaller group needs
        file.allocate(size).inspect_err(|_| self.remove_unused(&path))?;
        Ok((file, path))
    }

    /// Removes a file that did not become a segment.
    pub(crate) fn remove_unused(&self, path: &Path) {
        if let Err(error) = remove_file(path) {
            tracing::warn!(%error, path = %path.display(), "could not remove an unused file");
        }
    }

    /// Checks that segment `number`, whose groups are these, has all groups up to the next segment.
    fn check_end(&self, number: u64, groups: SegmentGroups<'_>) -> Result<SegmentEnd, StoreError> {
        let end = groups.walk(|_| Ok(()))?.end;
        if self.head(self.number_after(number))?.previous == end.group {
            return Ok(end);
        }
        Err(self.damaged_group(number, end))
    }

    /// Checks that segment `number`, which is sealed, has all groups up to the next segment.
    pub(super) fn check(&self, number: u64) -> Result<(), StoreError> {
        self.check_end(number, self.groups(number)?).map(drop)
    }

    /// Replaces segment `number`, which is sealed, by its compressed form. Its groups end at byte `len`, if that is known.
    pub(crate) fn compress(&self, number: u64, len: Option<u64>) -> Result<(), StoreError> {
        let _replacing = self.lock_replacing();
        // a snapshot replaced the segment while it waited for its compression
        if self.snapshot().is_some_and(|snapshot| number <= snapshot.replaces) {
            return Ok(());
        }
        self.compress_locked(number, len)
    }

    /// As [`SegmentFiles::compress`], while the files cannot be replaced.
    fn compress_locked(&self, number: u64, len: Option<u64>) -> Result<(), StoreError> {
        if !self.path(number).exists() {
            return Ok(());
        }
        // a kill can have left a compressed file that was damaged since
        if !self.compressed_path(number).exists() || self.check(number).is_err() {
            let len = match len {
                Some(len) => len,
                None => self.plain_groups(number)?.walk(|_| Ok(()))?.end.len,
            };
            self.compress_plain(number, len)?;
        }
        self.put_copy(number)?;
        self.remove_plain(number)
    }

    /// The groups in the file of segment `number` that is not compressed.
    fn plain_groups(&self, number: u64) -> Result<SegmentGroups<'_>, StoreError> {
        let plain = File::open(self.path(number)).map_err(|source| self.read_error(number, source))?;
        SegmentGroups::new(self, number, Box::new(plain))
    }

    /// Writes the compressed form of segment `number`, whose groups end at byte `len`: a plain file can have remains of another group
    /// after them.
    fn compress_plain(&self, number: u64, len: u64) -> Result<(), StoreError> {
        let plain = File::open(self.path(number)).map_err(|source| self.read_error(number, source))?;
        let compressed = self.compressed_path(number);
        self.write_compressed(number, &compressed, |file| {
            let written = io::copy(&mut plain.take(len), file);
            written.map(|_| true).map_err(|source| StoreError::write_error(&compressed, source))
        })
    }

    /// Writes segment `number`, which is sealed, with the groups that `change` returns; `None` leaves a group as it is. The file and its
    /// copy replace the segment with [`SegmentFiles::put_erased`]. If no group `may_change`, which is asked first, the segment is only
    /// compressed. Both get the head of the segment. `change` also gets the end of the group before. Returns whether a group has changed.
    pub(crate) fn change(
        &self,
        number: u64,
        may_change: impl Fn(SegmentHead, &StoredGroup<'_>) -> bool,
        mut change: impl FnMut(GroupEnd, &StoredGroup<'_>) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<bool, StoreError> {
        let _replacing = self.lock_replacing();
        // no damage may be copied
        match self.check(number) {
            Err(damage) if damage.damage().is_some() => {
                self.damage.note(&damage);
                self.heal_locked(number)?;
            }
            checked => checked?,
        }
        let groups = self.groups(number)?;
        let (head, mut is_concerned) = (groups.head(), false);
        groups.walk(|group| {
            is_concerned = is_concerned || may_change(head, &group);
            Ok(())
        })?;
        let mut is_changed = false;
        if is_concerned {
            let erased = self.erased_path(number);
            let write_error = |source| StoreError::write_error(&erased, source);
            self.write_compressed(number, &erased, |file| {
                let groups = self.groups(number)?;
                file.write_all(&head.to_bytes()).map_err(write_error)?;
                let mut previous = head.previous;
                groups.walk(|group| {
                    let changed = change(previous, &group)?;
                    previous = group.end;
                    is_changed |= changed.is_some();
                    file.write_all(changed.as_deref().unwrap_or(group.bytes)).map_err(write_error)
                })?;
                Ok(is_changed)
            })?;
        }
        if is_changed {
            copy_file(&self.erased_path(number), &self.copy().erased_path(number))?;
            return Ok(true);
        }
        // a plain file can have remains of other groups
        self.compress_locked(number, None)?;
        if self.differs_from(&self.copy(), number)? {
            // from before another erasure
            self.put_copy(number)?;
        }
        Ok(false)
    }

    /// Writes segment `number` to the file `compressed` with the content that `write` writes, and reads it back. It is discarded if
    /// `write` returns false.
    fn write_compressed(
        &self,
        number: u64,
        compressed: &Path,
        write: impl FnOnce(&mut FramesWriter) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let incomplete = compressed.with_extension(INCOMPLETE);
        let write_error = |source| StoreError::write_error(&incomplete, source);
        let written = (|| {
            let file = StateFile::create(&incomplete).map_err(write_error)?;
            let mut file = FramesWriter::new(file).map_err(write_error)?;
            let is_kept = write(&mut file)?;
            file.finish().and_then(|file| file.sync_all()).map_err(write_error)?;
            if is_kept {
                let opened = File::open(&incomplete).and_then(Frames::open);
                let frames = opened.map_err(|source| self.read_error(number, source))?;
                let groups = SegmentGroups::new(self, number, Box::new(FramesReader::new(frames)))?;
                self.check_end(number, groups)?;
            }
            Ok(is_kept)
        })();
        // the incomplete file would take space on a full disk
        if !matches!(written, Ok(true)) {
            self.remove_unused(&incomplete);
            return written.map(drop);
        }
        rename(&incomplete, compressed).map_err(|source| StoreError::write_error(compressed, source))?;
        compressed.parent().map_or(Ok(()), sync_dir)
    }

    /// Removes the form of segment `number` that is not compressed, if there is one.
    fn remove_plain(&self, number: u64) -> Result<(), StoreError> {
        let plain = self.path(number);
        remove_if_exists(&plain).map_err(|source| StoreError::Io { path: plain.clone(), source })?;
        // an open file keeps its space
        self.open.close(number);
        plain.parent().map_or(Ok(()), sync_dir)
    }
}

/// The next group after entry `entries` in copies of a segment, or the earliest one after a gap; of two forms the one that an erasure has
/// changed. Cuts the groups before it off, and the one that was `visited`.
fn next_group<'b>(
    rests: &mut [&'b [u8]],
    entries: u64,
    visited: Option<GroupEnd>,
) -> Option<StoredGroup<'b>> {
    let is_before = |group: &StoredGroup<'_>| group.previous.entries < entries || visited == Some(group.end);
    let mut next: Option<StoredGroup<'_>> = None;
    for rest in rests {
        while let Some((_, after)) = find_after(rest, 0).filter(|(group, _)| is_before(group)) {
            *rest = after;
        }
        if let Some((group, _)) = find_after(rest, entries)
            && next.as_ref().is_none_or(|next| {
                (group.previous.entries, next.is_changed()) < (next.previous.entries, group.is_changed())
            })
        {
            next = Some(group);
        }
    }
    next
}

/// The result, or `None` if a file is damaged or missing.
///
/// # Errors
/// Any other error: the file may be whole.
pub(super) fn no_damage<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Err(error) if error.damage().is_some() => Ok(None),
        result => result.map(Some),
    }
}

/// Writes the content of the file `from` to the file `to`, durably.
fn copy_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    let incomplete = to.with_extension(INCOMPLETE);
    if to.is_dir() {
        remove_dir(to)?;
    }
    let copied = File::open(from)
        .and_then(|from| write_synced(&incomplete, from))
        .and_then(|()| rename(&incomplete, to));
    if copied.is_err() {
        // the incomplete file would take space on a full disk
        drop(remove_if_exists(&incomplete));
    }
    copied.map_err(|source| StoreError::write_error(to, source))?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// The bytes after the groups are read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;
/// The most bytes after the groups: more than the space for a group of any length. Without a limit, a compressed segment of 1 MB keeps a
/// start busy for minutes.
const REST_MAX_BYTES: u64 = 2 * GROUP_MAX_BYTES as u64;

/// The content of a segment in pieces of the length of a frame; `None` for each that is damaged or cannot be read.
#[derive(Debug, Clone)]
struct ReadableContent(Vec<Option<Vec<u8>>>);

impl ReadableContent {
    fn is_damaged(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    /// The content, with zeros for what is damaged.
    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|piece| piece.as_deref().unwrap_or(&[0; FRAME_BYTES])).copied().collect()
    }

    /// This content with the pieces of `other` for what is damaged.
    fn or(mut self, other: &Self) -> Self {
        let pieces = self.0.iter_mut().zip(&other.0).filter(|(piece, _)| piece.is_none());
        pieces.for_each(|(piece, other)| piece.clone_from(other));
        self
    }
}

/// A segment whose groups are read.
pub(crate) struct SegmentGroups<'f> {
    files: &'f SegmentFiles,
    number: u64,
    input: Box<dyn Read>,
    head: SegmentHead,
}

/// The end of a segment that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadSegment {
    pub(crate) end: SegmentEnd,
    /// The position of the first byte after the last group that is not 0, in bytes from the start of the uncompressed segment.
    pub(crate) remains: Option<u64>,
}

impl<'f> SegmentGroups<'f> {
    /// The groups of segment `number`, which `input` reads uncompressed.
    ///
    /// # Errors
    /// `Corrupt` if its head is damaged.
    fn new(files: &'f SegmentFiles, number: u64, mut input: Box<dyn Read>) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        let read = input.by_ref().take(SegmentHead::BYTES).read_to_end(&mut bytes);
        read.map_err(|source| files.read_error(number, source))?;
        Ok(Self { files, number, head: files.parse_head(number, &bytes)?, input })
    }

    pub(crate) const fn head(&self) -> SegmentHead {
        self.head
    }

    /// Passes the groups to `visit`, and reads the segment to its end.
    ///
    /// # Errors
    /// An error of `visit`, or the segment cannot be decompressed, or has too many bytes after its groups.
    pub(crate) fn walk(
        mut self,
        mut visit: impl FnMut(StoredGroup<'_>) -> Result<(), StoreError>,
    ) -> Result<ReadSegment, StoreError> {
        let mut end = SegmentEnd { group: self.head.previous, len: SegmentHead::BYTES };
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.fill(GROUP_HEAD_BYTES, &mut bytes)?;
            if let Some(length) = length_of_rows(&bytes) {
                self.fill(length, &mut bytes)?;
            }
            let Some((mut group, _)) = decode(&bytes, end.group) else { break };
            group.at = end.len;
            end = SegmentEnd { group: group.end, len: end.len + bytes.len() as u64 };
            visit(group)?;
        }
        let remains = self.find_remains(end.len, bytes)?;
        Ok(ReadSegment { end, remains })
    }

    /// Appends the next `count` bytes, or fewer at the end. The memory grows with the bytes that are there.
    fn fill(&mut self, count: usize, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
        let read = self.input.by_ref().take(count as u64).read_to_end(bytes);
        read.map(drop).map_err(|source| self.files.read_error(self.number, source))
    }

    /// The position of the first byte that is not 0, from `bytes` on, which begin at position `at`. Reads to the end.
    fn find_remains(mut self, mut at: u64, mut bytes: Vec<u8>) -> Result<Option<u64>, StoreError> {
        let (mut found, max) = (None, at + REST_MAX_BYTES);
        while !bytes.is_empty() {
            if at > max {
                let fault = format!("more than {REST_MAX_BYTES} bytes follow its last group");
                return Err(self.files.damaged(self.number, &fault));
            }
            let first = bytes.iter().position(|byte| *byte != 0);
            found = found.or(first.map(|first| at + first as u64));
            at += bytes.len() as u64;
            bytes.clear();
            self.fill(PIECE_BYTES, &mut bytes)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::row_batch::RowBatch;
    use crate::segments::group::{GroupEnd, encode};
    use std::cell::Cell;
    use std::io;
    use std::path::Path;
    use std::rc::Rc;

    fn head() -> SegmentHead {
        SegmentHead::new(7, 1, GroupEnd::default())
    }

    /// Notes the most bytes that one read was given space for.
    struct Measured<R>(R, Rc<Cell<usize>>);

    impl<R: Read> Read for Measured<R> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get().max(into.len()));
            self.0.read(into)
        }
    }

    /// Reads a segment with these groups. Returns the lengths of the groups, the remains or an error, and the largest buffer.
    fn read(groups: impl Read + 'static) -> (Vec<usize>, Result<Option<u64>, StoreError>, usize) {
        let (files, largest) = (SegmentFiles::new(Path::new("state")), Rc::new(Cell::new(0)));
        let input = Measured(io::Cursor::new(head().to_bytes()).chain(groups), Rc::clone(&largest));
        let mut lengths = Vec::new();
        let groups = SegmentGroups::new(&files, 1, Box::new(input)).expect("the head is whole");
        let read = groups.walk(|group| {
            lengths.push(group.bytes.len());
            Ok(())
        });
        (lengths, read.map(|read| read.remains), largest.get())
    }

    fn walk(groups: impl Read + 'static) -> (Vec<usize>, Option<u64>, usize) {
        let (lengths, remains, largest) = read(groups);
        (lengths, remains.expect("it is readable"), largest)
    }

    fn group(previous: GroupEnd, value_bytes: usize) -> (Vec<u8>, GroupEnd) {
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), vec![1; value_bytes]);
        encode(previous, previous.entries + 1, &rows).expect("it is not too large")
    }

    #[test]
    fn memory_for_a_segment_is_that_of_its_largest_group() {
        // as a compressed segment of a few bytes has them
        let (lengths, remains, largest) = read(io::repeat(0));
        assert!(lengths.is_empty() && matches!(remains, Err(StoreError::Corrupt { .. })), "{remains:?}");
        assert!(largest <= 1 << 20, "{largest}");
        let bytes = GROUP_MAX_BYTES as u64;
        let head = |length: u32| {
            let (mut head, _) = group(GroupEnd::default(), 1);
            head.truncate(GROUP_HEAD_BYTES);
            head[8..12].copy_from_slice(&length.to_be_bytes());
            io::Cursor::new(head)
        };
        let (lengths, remains, largest) = walk(head(u32::MAX).chain(io::repeat(1).take(bytes)));
        assert_eq!((lengths, remains), (Vec::new(), Some(SegmentHead::BYTES)));
        assert!(largest <= 1 << 20, "{largest}");
        // no memory is taken for bytes that are not there
        let (_, _, largest) = walk(head(GROUP_MAX_BYTES as u32).chain(io::repeat(1).take(1000)));
        assert!(largest <= 1 << 20, "{largest}");
        let many = (0..64).scan(GroupEnd::default(), |end, _| {
            let (bytes, next) = group(*end, 1 << 20);
            *end = next;
            Some(bytes)
        });
        let many: Vec<u8> = many.flatten().collect();
        let (lengths, remains, largest) = walk(io::Cursor::new(many));
        assert_eq!((lengths.len(), remains), (64, None));
        assert!(largest <= 4 << 20, "{largest}");
    }

    #[test]
    fn group_of_the_largest_length_is_written_and_read() {
        let head_of_row = 2 + 4 + b"key".len();
        let (bytes, _) = group(GroupEnd::default(), GROUP_MAX_BYTES - head_of_row);
        let expected = bytes.len();
        assert_eq!(walk(io::Cursor::new(bytes)).0, [expected]);
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), vec![1; GROUP_MAX_BYTES]);
        encode(GroupEnd::default(), 1, &rows).expect_err("it could not be read");
    }

    #[test]
    fn first_byte_after_the_groups_that_is_not_zero_is_found() {
        let (bytes, _) = group(GroupEnd::default(), 100);
        let end = SegmentHead::BYTES + bytes.len() as u64;
        for zeros in [0, 1, 31, 32, 33, 200_000] {
            let rest = [vec![0; zeros], vec![9], vec![0; 50]].concat();
            let (lengths, remains, _) = walk(io::Cursor::new([bytes.clone(), rest].concat()));
            assert_eq!((lengths.len(), remains), (1, Some(end + zeros as u64)), "{zeros} zeros");
        }
    }
}
