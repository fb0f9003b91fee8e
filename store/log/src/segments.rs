//! The segments: files to which the journal appends each group of records, and the origin of the database.
//!
//! A group is committed when its segment is synced. The database is brought up to date afterwards, and can be rebuilt from the
//! segments at any time; it has the positions of long values in them. The space of a segment is written with zeros ahead: a sync of
//! overwritten bytes is 3 to 5 times as fast as one that also commits a new length of the file. A full segment is sealed, and compressed
//! in the background.
//!
//! Each segment has a copy in another folder. The copy of the last one is written with each group and synced about once a second: a
//! power cut can cost its last groups, which the segment then has.

mod files;
mod frames;
mod group;
mod open_segments;
mod reading;
mod snapshot;

use crate::base::meta::tree_in;
use crate::base::random::random_bytes;
use crate::base::row_batch::RowBatch;
use domain_audit::log_tree::LogTree;
#[cfg(test)]
pub(crate) use group::StoredGroup;
use group::{APPENDED_MAX_BYTES, GROUP_HEAD_BYTES, GroupEnd, decode, encode, place};
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::{fs, io, thread};
use store_base::error::StoreError;
use store_base::files::{StateFile, create_dir_all, remove_if_exists, rename, sync_dir};

use files::SegmentEnd;
pub(crate) use files::{KEPT_DIR, ReadSegment, ReadableGroup, SegmentFiles, SegmentHead, is_segment_name};
pub use reading::visit_rows;
pub(crate) use reading::{SegmentsUpTo, heal_snapshot, read_segments, visit_snapshot};
pub(crate) use snapshot::{PART_BYTES, WrittenSnapshot};

/// The size of the first segment, in bytes. Each next one is twice as large, up to [`SEGMENT_MAX_BYTES`].
const SEGMENT_MIN_BYTES: u64 = if cfg!(test) { 4 * 1024 } else { 64 * 1024 };
/// The size of a segment, in bytes. A start reads the last one. A larger group has a segment of its own.
const SEGMENT_MAX_BYTES: u64 = if cfg!(test) { 64 * 1024 } else { 8 * 1024 * 1024 };

/// All segments of a store, and the last one, to which groups are appended.
#[derive(Debug)]
pub(crate) struct Segments {
    files: SegmentFiles,
    store_id: u64,
    last: LastSegment,
    keeper: SegmentKeeper,
    /// Whether a group could not be written, and its remains may be in the file.
    has_failed: bool,
    /// The tree of the log after the last group that the opening has read; `None` if the last segment had none.
    opened_tree: Option<LogTree>,
}

#[derive(Debug)]
struct LastSegment {
    number: u64,
    file: StateFile,
    /// The length up to the end of the last group, in bytes.
    len: u64,
    /// The length at which the next segment begins, in bytes.
    limit: u64,
    end: GroupEnd,
    /// Whether the keeper prepares the next segment.
    is_next_prepared: bool,
    /// The file of its copy; `None` if it could not be written.
    copy: Option<Arc<StateFile>>,
    /// Whether the copy has groups that are not synced.
    is_copy_behind: bool,
}

/// A group that is encoded for the end of the last segment.
#[derive(Debug)]
pub(crate) struct PreparedGroup {
    bytes: Vec<u8>,
    end: GroupEnd,
}

impl PreparedGroup {
    /// Its rows, as a segment has them.
    pub(crate) fn rows(&self) -> &[u8] {
        self.bytes.get(GROUP_HEAD_BYTES..).unwrap_or_default()
    }
}

impl Segments {
    /// Creates the segments of a new store with its first rows, which belong to no log entry.
    pub(crate) fn create(files: SegmentFiles, store_id: u64, mut rows: RowBatch) -> Result<Self, StoreError> {
        // an interrupted creation has left nothing that a store could depend on
        files.remove_all()?;
        create_dir_all(files.dir()).map_err(|source| files.io(source))?;
        files.dir().parent().map_or(Ok(()), sync_dir)?;
        let keeper = SegmentKeeper::start(files.clone(), VecDeque::new());
        let head = SegmentHead::new(store_id, 1, GroupEnd::default());
        let last = begin(&files, head, &keeper, SEGMENT_MIN_BYTES)?;
        let mut segments = Self { files, store_id, last, keeper, has_failed: false, opened_tree: None };
        segments.append(0, &mut rows)?;
        Ok(segments)
    }

    /// Opens the segments; `None` if the store has none, or was not completely created. What only the copies have is written again.
    pub(crate) fn open(files: SegmentFiles) -> Result<Option<Self>, StoreError> {
        if files.restore_missing()? {
            files.segment_damage().note(&files.missing_files());
        }
        let Some(number) = files.check_names()? else { return Ok(None) };
        files.remove_incomplete()?;
        files.heal_lengths(number)?;
        if let Some(damage) = files.restore_last(number)? {
            files.segment_damage().note(&damage);
        }
        let path = files.path(number);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let file = StateFile::open(&path).map_err(io)?;
        // a kill may have left the file's name, or its last group, in memory only. After a failed sync, the page cache can differ
        // from the disk
        sync_dir(files.dir())?;
        file.sync_data().map_err(io)?;
        file.drop_cache().map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let groups = files.groups(number)?;
        let store_id = groups.head().store_id;
        let mut last_group = None;
        let walked = groups.walk(|group| {
            last_group = Some((group.at, group.previous));
            Ok(())
        });
        let end = walked?.end;
        let tree_at = |(at, previous)| {
            let mut bytes = vec![0; usize::try_from(end.len - at).ok()?];
            file.reader().read_exact_at(&mut bytes, at).ok()?;
            tree_in(&decode(&bytes, previous)?.0.rows()?)
        };
        let opened_tree = last_group.and_then(tree_at);
        if number == 1 && end.len == SegmentHead::BYTES {
            return Ok(None);
        }
        let last = LastSegment {
            number,
            file,
            len: end.len,
            limit: size.max(SEGMENT_MIN_BYTES),
            end: end.group,
            is_next_prepared: false,
            // written by `open_copy`, after it is known that the segment has all groups
            copy: None,
            is_copy_behind: true,
        };
        let keeper = SegmentKeeper::start(files.clone(), files.numbers_up_to(number - 1).collect());
        for sealed in files.uncompressed()?.into_iter().filter(|sealed| *sealed < number) {
            keeper.compress(sealed, None);
        }
        Ok(Some(Self { files, store_id, last, keeper, has_failed: false, opened_tree }))
    }

    /// Begins a segment after all others of a store whose segments are damaged. Its database has all entries up to `entries`, and
    /// is to replace them as a snapshot with `parts` files or more.
    pub(crate) fn begin_after_damage(
        files: SegmentFiles,
        store_id: u64,
        entries: u64,
        parts: u64,
    ) -> Result<Self, StoreError> {
        create_dir_all(files.dir()).map_err(|source| files.io(source))?;
        if let Err(error) = files.check_names() {
            tracing::warn!(%error, "a new segment begins after the damaged ones");
        }
        files.remove_incomplete()?;
        // a snapshot has at most as many files as the segments that it replaces
        let replaced = files.snapshot().map_or(0, |snapshot| snapshot.replaces);
        let existing = &files.existing_numbers()? | &files.copy().existing_numbers()?;
        let last = existing.last().copied().unwrap_or_default().max(replaced).max(parts).max(1);
        // the snapshot ends with the same checksum, whichever it is
        let previous = GroupEnd { checksum: u32::from_be_bytes(random_bytes()?), entries };
        let keeper = SegmentKeeper::start(files.clone(), VecDeque::new());
        let head = SegmentHead::new(store_id, last + 1, previous);
        let last = begin(&files, head, &keeper, SEGMENT_MIN_BYTES)?;
        Ok(Self { files, store_id, last, keeper, has_failed: false, opened_tree: None })
    }

    /// The folder of the segments.
    pub(crate) const fn files(&self) -> &SegmentFiles {
        &self.files
    }

    /// Checks that the last group which the opening has read is of the log whose trees `is_known` accepts.
    ///
    /// # Errors
    /// `Corrupt` if the segment has another history.
    pub(crate) fn check_history(&self, is_known: impl FnOnce(&LogTree) -> bool) -> Result<(), StoreError> {
        if self.opened_tree.as_ref().is_none_or(is_known) {
            return Ok(());
        }
        let fault = "its entries are others than those of the database and of the high-water mark";
        Err(self.files.damaged(self.last.number, fault))
    }

    /// The id of the store that the segments belong to.
    pub(crate) const fn store_id(&self) -> u64 {
        self.store_id
    }

    /// The number of the last log entry in the segments.
    pub(crate) const fn entries(&self) -> u64 {
        self.last.end.entries
    }

    /// Appends a group, and syncs it; the log has `entries` entries then. The rows have their positions in the segment then.
    ///
    /// # Errors
    /// The segment cannot be written. The group is not committed, and [`Segments::discard_failed`] must succeed before the next
    /// group. This method calls it once, since the process can end before the caller does.
    pub(crate) fn append(&mut self, entries: u64, rows: &mut RowBatch) -> Result<(), StoreError> {
        let group = self.prepare(entries, rows)?;
        self.append_prepared(group, rows)
    }

    /// Encodes a group that follows the last one, and makes room for it. Nothing is written.
    ///
    /// # Errors
    /// The group is too large, or the next segment cannot be created.
    pub(crate) fn prepare(&mut self, entries: u64, rows: &RowBatch) -> Result<PreparedGroup, StoreError> {
        let too_large = |length| StoreError::Unavailable {
            cause: format!("a group of {length} bytes is too large for a segment"),
        };
        let (bytes, end) = encode(self.last.end, entries, rows).map_err(too_large)?;
        if bytes.len() > APPENDED_MAX_BYTES {
            return Err(too_large(bytes.len()));
        }
        self.make_room(bytes.len() as u64)?;
        Ok(PreparedGroup { bytes, end })
    }

    /// Appends the group that [`Segments::prepare`] has encoded last, of these rows.
    ///
    /// # Errors
    /// As for [`Segments::append`].
    pub(crate) fn append_prepared(
        &mut self,
        PreparedGroup { bytes, end }: PreparedGroup,
        rows: &mut RowBatch,
    ) -> Result<(), StoreError> {
        let len = bytes.len() as u64;
        let LastSegment { file, len: at, .. } = &self.last;
        let written = file.write_all_at(&bytes, *at).and_then(|()| file.sync_data());
        if let Err(source) = written {
            let error = StoreError::write_error(&self.files.path(self.last.number), source);
            self.has_failed = true;
            if let Err(error) = self.discard_failed() {
                tracing::warn!(%error, "could not remove the remains of a group that was not committed");
            }
            return Err(error);
        }
        place(rows, self.last.number, self.last.len);
        self.write_copy(&bytes);
        self.last.len += len;
        self.last.end = end;
        if !self.last.is_next_prepared && self.last.len > self.last.limit / 2 {
            self.last.is_next_prepared = true;
            self.keeper.prepare(next_limit(self.last.limit));
        }
        Ok(())
    }

    /// Writes a group that is committed to the copy, too. If that fails, [`Segments::retry_copies`] writes the copy again.
    fn write_copy(&mut self, bytes: &[u8]) {
        let Some(copy) = &self.last.copy else { return };
        if let Err(error) = copy.write_all_at(bytes, self.last.len) {
            self.files.segment_damage().note_copy(self.last.number, Err::<(), _>(error));
            self.last.copy = None;
        }
        self.last.is_copy_behind = true;
    }

    /// Opens the copy of the last segment. It is written again if it has other groups than the segment, which is whole.
    pub(crate) fn open_copy(&mut self) {
        if self.last.copy.is_none() {
            let end = SegmentEnd { group: self.last.end, len: self.last.len };
            self.last.copy = self.files.open_copy(self.last.number, end);
        }
    }

    /// Tries again to write the copies that could not be written.
    pub(crate) fn retry_copies(&mut self) {
        let (missing, number) = (self.files.segment_damage().numbers_without_copy(), self.last.number);
        if missing.contains(&number) {
            // the file may have what could not be synced
            self.last.copy = None;
            drop(remove_if_exists(&self.files.copy().path(number)));
            self.open_copy();
        }
        if missing.iter().any(|missing| *missing < number) {
            self.keeper.send(KeeperTask::Copies(number));
        }
    }

    /// Removes the last segment, which has no groups, and its copy.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn remove_begun(&self) -> Result<(), StoreError> {
        let number = self.last.number;
        for path in [self.files.copy().path(number), self.files.path(number)] {
            remove_if_exists(&path).map_err(|source| StoreError::Io { path, source })?;
        }
        Ok(())
    }

    /// Has the copy of the last segment synced, if it has new groups.
    pub(crate) fn sync_copy(&mut self) {
        if let Some(copy) = self.last.copy.as_ref().filter(|_| self.last.is_copy_behind) {
            self.keeper.send(KeeperTask::Sync(self.last.number, Arc::clone(copy)));
            self.last.is_copy_behind = false;
        }
    }

    /// Begins the next segment if the last one has no room for `len` bytes.
    ///
    /// # Errors
    /// The segment cannot be created. All groups stay where they are.
    pub(crate) fn make_room(&mut self, len: u64) -> Result<(), StoreError> {
        let LastSegment { len: used, limit, .. } = self.last;
        if used + len <= limit || used <= SegmentHead::BYTES { Ok(()) } else { self.begin_next(len) }
    }

    /// Removes the remains of a group that could not be written, so that no start finds it.
    pub(crate) fn discard_failed(&mut self) -> Result<(), StoreError> {
        if !self.has_failed {
            return Ok(());
        }
        let LastSegment { file, len, .. } = &self.last;
        let discarded = (|| {
            if *len < file.metadata()?.len() {
                file.write_all_at(&[0; GROUP_HEAD_BYTES], *len)?;
            }
            file.sync_all()?;
            // after a failed sync, the page cache can differ from the disk
            file.drop_cache()
        })();
        discarded.map_err(|source: io::Error| {
            StoreError::write_error(&self.files.path(self.last.number), source)
        })?;
        self.has_failed = false;
        Ok(())
    }

    /// Links all segments into the new state directory `state_dir`. Returns the path of the last one, and its length up to the
    /// end of the last group, in bytes: further groups are appended to the same file.
    pub(crate) fn link_to(&self, state_dir: &Path) -> Result<(PathBuf, u64), StoreError> {
        let copy = SegmentFiles::new(state_dir);
        fs::create_dir(copy.dir()).map_err(|source| copy.io(source))?;
        copy.create_snapshot_dir(self.files.snapshot())?;
        for number in self.files.numbers_up_to(self.last.number) {
            self.files.link(number, &copy)?;
        }
        Ok((copy.path(self.last.number), self.last.len))
    }

    /// The number of the last log entry that is only in a snapshot; 0 without one.
    pub(crate) fn snapshot_entries(&self) -> Result<u64, StoreError> {
        self.files.snapshot_entries()
    }

    /// The segments up to their present end.
    pub(crate) fn up_to_now(&self) -> SegmentsUpTo {
        SegmentsUpTo::new(self.files.clone(), self.last.number, self.last.end)
    }

    /// Begins the next segment, so that all groups are in sealed ones.
    ///
    /// # Errors
    /// The segment cannot be created. All groups stay where they are.
    pub(crate) fn seal(&mut self) -> Result<(), StoreError> {
        if self.last.len <= SegmentHead::BYTES { Ok(()) } else { self.begin_next(0) }
    }

    /// The schema version of the first segment, or of the snapshot in its place. No later one has an earlier version.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub(crate) fn first_schema(&self) -> Result<u32, StoreError> {
        let first = self.files.numbers_up_to(self.last.number).next().unwrap_or(self.last.number);
        self.files.head(first).map(|head| head.schema)
    }

    /// Begins the next segment, with room for a group of `len` bytes.
    ///
    /// # Errors
    /// The segment cannot be created. All groups stay where they are.
    pub(crate) fn begin_next(&mut self, len: u64) -> Result<(), StoreError> {
        let LastSegment { number, len: used, limit, end, .. } = self.last;
        let head = SegmentHead::new(self.store_id, number + 1, end);
        // if this fails, the file of the next segment may exist already, and no group may follow in this one
        self.last.limit = used;
        let limit = next_limit(limit).max(SegmentHead::BYTES + len);
        self.last = begin(&self.files, head, &self.keeper, limit)?;
        self.keeper.compress(number, Some(used));
        Ok(())
    }
}

/// Begins the segment `head`, with the space that the keeper has prepared if there is some.
fn begin(
    files: &SegmentFiles,
    head: SegmentHead,
    keeper: &SegmentKeeper,
    limit: u64,
) -> Result<LastSegment, StoreError> {
    let prepared = keeper.take_prepared().map(|file| Ok((file, files.spare())));
    let created = prepared.unwrap_or_else(|| files.create(head.number, limit));
    let (file, path) = created.map_err(|source| StoreError::write_error(files.dir(), source))?;
    let error = |source| StoreError::write_error(&path, source);
    let written = file.write_all_at(&head.to_bytes(), 0).and_then(|()| file.sync_all());
    if let Err(source) = written.and_then(|()| rename(&path, &files.path(head.number))) {
        files.remove_unused(&path);
        return Err(error(source));
    }
    sync_dir(files.dir())?;
    let SegmentHead { number, previous: end, .. } = head;
    Ok(LastSegment {
        number,
        file,
        len: SegmentHead::BYTES,
        limit,
        end,
        is_next_prepared: false,
        copy: files.begin_copy(head).map(Arc::new),
        is_copy_behind: true,
    })
}

fn next_limit(limit: u64) -> u64 {
    (2 * limit).min(SEGMENT_MAX_BYTES)
}

#[derive(Debug)]
enum KeeperTask {
    /// Prepares the next segment with a size in bytes.
    Prepare(u64),
    /// Compresses the segment with this number, whose groups end at this byte, if that is known.
    Compress(u64, Option<u64>),
    /// Syncs the copy of the last segment, which has this number.
    Sync(u64, Arc<StateFile>),
    /// Writes the copies of segments before this one that could not be written.
    Copies(u64),
}

/// The handle of the thread. When it is dropped, the thread ends after the tasks that wait.
#[derive(Debug)]
pub(crate) struct SegmentKeeper {
    tasks: Option<mpsc::Sender<KeeperTask>>,
    prepared: Arc<Mutex<Option<StateFile>>>,
    thread: Option<JoinHandle<()>>,
}

impl SegmentKeeper {
    /// Starts the thread. When no other task waits, it looks at the next of the segments `unchecked`, whose copies may be missing.
    pub(crate) fn start(files: SegmentFiles, mut unchecked: VecDeque<u64>) -> Self {
        let (tasks, queue) = mpsc::channel();
        let prepared = Arc::<Mutex<Option<StateFile>>>::default();
        let slot = Arc::clone(&prepared);
        let thread = thread::spawn(move || {
            loop {
                let task = match unchecked.pop_front() {
                    None => match queue.recv() {
                        Ok(task) => task,
                        Err(mpsc::RecvError) => return,
                    },
                    Some(number) => match queue.try_recv() {
                        Ok(task) => {
                            unchecked.push_front(number);
                            task
                        }
                        Err(mpsc::TryRecvError::Empty) => {
                            put_missing_copy(&files, number);
                            continue;
                        }
                        Err(mpsc::TryRecvError::Disconnected) => return,
                    },
                };
                run(&files, task, &slot);
            }
        });
        Self { tasks: Some(tasks), prepared, thread: Some(thread) }
    }

    pub(crate) fn prepare(&self, size: u64) {
        self.send(KeeperTask::Prepare(size));
    }

    pub(crate) fn compress(&self, number: u64, len: Option<u64>) {
        self.send(KeeperTask::Compress(number, len));
    }

    /// The file of the next segment, if it is prepared.
    pub(crate) fn take_prepared(&self) -> Option<StateFile> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn send(&self, task: KeeperTask) {
        // the thread ends early only by a panic; then segments are neither prepared nor compressed until the next start
        if let Some(tasks) = &self.tasks
            && tasks.send(task).is_err()
        {
            tracing::warn!("segments are not compressed until the next start");
        }
    }
}

fn run(files: &SegmentFiles, task: KeeperTask, slot: &Mutex<Option<StateFile>>) {
    match task {
        KeeperTask::Prepare(size) => match files.prepare(size) {
            Ok(Some(file)) => *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(file),
            // the journal has not needed it yet, or has just taken it
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "could not prepare the next segment; commits are slower"),
        },
        KeeperTask::Sync(number, copy) => {
            // only a new file is known to be complete then
            if let Err(error) = copy.sync_data() {
                files.segment_damage().note_copy(number, Err::<(), _>(error));
            }
        }
        KeeperTask::Copies(last) => {
            for number in
                files.segment_damage().numbers_without_copy().into_iter().filter(|number| *number < last)
            {
                note_copy(files, number, files.heal(number));
            }
        }
        KeeperTask::Compress(number, len) => {
            compress(files, number, len);
            // segments that could not be compressed before, for example because the disk was full
            for earlier in files.uncompressed().unwrap_or_default().range(..number) {
                compress(files, *earlier, None);
            }
        }
    }
}

fn put_missing_copy(files: &SegmentFiles, number: u64) {
    note_copy(files, number, files.put_missing_copy(number));
}

/// Notes whether the copy of segment `number` was written, or the damage of the segment.
fn note_copy<T>(files: &SegmentFiles, number: u64, written: Result<T, StoreError>) {
    match written {
        Err(damage) if damage.damage().is_some() => files.segment_damage().note(&damage),
        written => drop(files.segment_damage().note_copy(number, written)),
    }
}

fn compress(files: &SegmentFiles, number: u64, len: Option<u64>) {
    match files.compress(number, len) {
        Ok(()) => note_copy(files, number, Ok(())),
        // its copy is as it was
        Err(error) => {
            tracing::warn!(%error, segment = number, "could not compress a segment");
            files.segment_damage().note(&error);
        }
    }
}

impl Drop for SegmentKeeper {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the thread of the segments panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn rows(value: &[u8]) -> RowBatch {
        let mut rows = RowBatch::default();
        rows.insert(b"key".to_vec(), value);
        rows
    }

    fn entries_of(segments: &Segments, after: Option<u64>) -> Vec<u64> {
        let mut entries = Vec::new();
        let add = |seq, _| {
            entries.push(seq);
            true
        };
        segments.up_to_now().replay(after, add).expect("the segments are whole");
        entries
    }

    fn created(dir: &Path) -> Segments {
        Segments::create(SegmentFiles::new(dir), 7, rows(b"first")).expect("the segments are created")
    }

    fn opened(dir: &Path) -> Segments {
        Segments::open(SegmentFiles::new(dir)).expect("the segments are readable").expect("they exist")
    }

    #[test]
    fn groups_are_replayed_from_any_entry_after_each_opening() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = created(dir.path());
        for n in 1..=300 {
            segments.append(2 * n, &mut rows(&vec![n as u8; 500])).expect("the append succeeds");
            if n % 50 == 0 {
                drop(segments);
                segments = opened(dir.path());
                assert_eq!((segments.store_id(), segments.entries()), (7, 2 * n));
            }
        }
        assert!(segments.last.number > 5, "{}", segments.last.number);
        let all: Vec<u64> = (0..=300).map(|n| 2 * n).collect();
        assert_eq!(entries_of(&segments, None), all);
        for after in [0, 2, 300, 598, 600] {
            let expected: Vec<u64> = all.iter().copied().filter(|seq| *seq > after).collect();
            assert_eq!(entries_of(&segments, Some(after)), expected, "after {after}");
        }
    }

    #[test]
    fn group_whose_sync_failed_is_not_found_later() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = created(dir.path());
        segments.append(1, &mut rows(b"one")).expect("the append succeeds");
        // the sync fails after the whole group was written
        let (bytes, _) = encode(segments.last.end, 2, &rows(b"two")).expect("a small group");
        segments.last.file.write_all_at(&bytes, segments.last.len).expect("the write succeeds");
        segments.has_failed = true;
        segments.discard_failed().expect("the segment is writable");
        drop(segments);
        let mut segments = opened(dir.path());
        assert_eq!(entries_of(&segments, None), [0, 1]);
        segments.append(5, &mut rows(b"another")).expect("the append succeeds");
        drop(segments);
        assert_eq!(entries_of(&opened(dir.path()), None), [0, 1, 5]);
    }

    #[test]
    fn torn_group_is_overwritten_by_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = created(dir.path());
        for part in [0.01, 0.03, 0.5, 0.99] {
            let before = segments.entries();
            let (bytes, _) = encode(segments.last.end, before + 1, &rows(&[1; 900])).expect("a small group");
            let cut = (bytes.len() as f64 * part) as usize;
            segments.last.file.write_all_at(&bytes[..cut], segments.last.len).expect("the write succeeds");
            drop(segments);
            segments = opened(dir.path());
            assert_eq!(segments.entries(), before);
            segments.append(before + 1, &mut rows(b"x")).expect("the append succeeds");
        }
        assert_eq!(entries_of(&segments, None), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn damaged_segment_is_not_replaced_by_its_compressed_form() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = created(dir.path());
        segments.append(1, &mut rows(&[1; 3000])).expect("the append succeeds");
        segments.append(2, &mut rows(&[2; 3000])).expect("the append succeeds");
        let files = segments.files.clone();
        // ends the thread that compresses the first segment
        drop(segments);
        let plain = files.path(1);
        let whole = zstd::decode_all(File::open(plain.with_extension("zst")).expect("it was compressed"))
            .expect("zstd");
        let mut damaged = whole.clone();
        damaged[1000] ^= 1;
        fs::remove_file(plain.with_extension("zst")).expect("it was compressed");
        fs::write(&plain, damaged).expect("the write succeeds");
        files.compress(1, None).expect_err("a group is damaged");
        assert!(plain.exists() && !plain.with_extension("zst").exists());
        assert!(!plain.with_extension("new").exists(), "the incomplete file takes no space");
        fs::write(&plain, whole).expect("the write succeeds");
        files.compress(1, None).expect("it is whole");
        assert!(!plain.exists());
    }

    #[test]
    fn failed_roll_over_is_repeated_before_any_further_group() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut segments = created(dir.path());
        segments.append(1, &mut rows(&[1; 3000])).expect("the append succeeds");
        // a folder with the name of the next segment
        let blocked = dir.path().join("segments/0000000002");
        fs::create_dir(&blocked).expect("the directory is created");
        segments.append(2, &mut rows(&[2; 3000])).expect_err("the next segment cannot be created");
        assert!(!segments.files.path(2).with_extension("new").exists());
        segments.discard_failed().expect("the segment is writable");
        segments.append(2, &mut rows(b"small")).expect_err("the group has room only in the next segment");
        fs::remove_dir(&blocked).expect("the removal succeeds");
        segments.discard_failed().expect("the segment is writable");
        segments.append(2, &mut rows(b"small")).expect("the append succeeds");
        drop(segments);
        let segments = opened(dir.path());
        assert_eq!((segments.last.number, entries_of(&segments, None)), (2, vec![0, 1, 2]));
    }

    #[test]
    fn segment_that_the_disk_has_no_space_for_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let segments = created(dir.path());
        segments.files.create(2, 1 << 62).expect_err("no disk is that large");
        assert!(!segments.files.path(2).with_extension("new").exists());
    }

    #[test]
    fn interrupted_creation_counts_as_none() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(created(dir.path()));
        let first = dir.path().join("segments/0000000001");
        let bytes = fs::read(&first).expect("the file is readable");
        fs::write(&first, &bytes[..SegmentHead::BYTES as usize + 3]).expect("the write succeeds");
        // the copy is written after the segment
        fs::remove_dir_all(dir.path().join("segments.copy")).expect("the removal succeeds");
        assert!(Segments::open(SegmentFiles::new(dir.path())).expect("the segments are readable").is_none());
        assert_eq!(created(dir.path()).entries(), 0);
    }

    mod keeper {
        use crate::base::row_batch::RowBatch;
        use crate::segments::{Segments, *};
        use std::fs;

        #[test]
        fn segment_whose_compression_failed_is_compressed_with_a_later_one() {
            let dir = tempfile::tempdir().expect("a directory");
            let mut segments = Segments::create(SegmentFiles::new(dir.path()), 7, RowBatch::default())
                .expect("they are created");
            // a folder with the name of the incomplete file
            let blocked = dir.path().join("segments/0000000001.new");
            fs::create_dir(&blocked).expect("the directory is created");
            for entry in 1..=6 {
                let mut rows = RowBatch::default();
                rows.insert(b"key".to_vec(), vec![1; 3000].as_slice());
                segments.append(entry, &mut rows).expect("the append succeeds");
            }
            // ends the thread that compresses sealed segments
            drop(segments);
            let files = SegmentFiles::new(dir.path());
            let plain = || files.uncompressed().expect("the folder is readable");
            assert!(plain().contains(&1) && !plain().contains(&2), "{:?}", plain());
            fs::remove_dir(&blocked).expect("the removal succeeds");
            run(&files, KeeperTask::Compress(2, None), &Mutex::default());
            assert!(!plain().contains(&1), "{:?}", plain());
        }
    }
}
