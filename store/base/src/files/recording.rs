//! Records the changes of files below a folder, and makes the files that a power cut leaves.
//!
//! The disk of the model keeps only what POSIX requires. A sync of a file makes its bytes durable, and a sync of a folder the names in
//! it. Of everything else, any part can be there after a power cut, sector by sector and name by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// The part of a write that a disk writes completely or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// The recordings in progress, by their folders.
static RECORDINGS: Mutex<Vec<Recording>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a file: it stays the same when the file is renamed.
type FileNumber = usize;

/// A change of a file or a folder.
#[derive(Debug, Clone)]
pub enum Change {
    /// A file was created, or emptied.
    Create(PathBuf, FileNumber),
    /// Bytes were written at a position.
    Write(FileNumber, u64, Vec<u8>),
    /// The file has at least this length.
    Length(FileNumber, u64),
    Sync(FileNumber),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    CreateDir(PathBuf),
    RemoveDir(PathBuf),
    SyncDir(PathBuf),
}

#[derive(Debug, Default)]
struct Changes {
    list: Vec<Change>,
    /// The numbers of the files by their present paths.
    numbers: BTreeMap<PathBuf, FileNumber>,
    files: usize,
}

/// The changes below a folder since the recording began. Dropping the last clone ends nothing: the list is small, and tests are short.
#[derive(Debug, Clone)]
pub struct Recording {
    dir: PathBuf,
    changes: Arc<Mutex<Changes>>,
}

/// A file whose changes are recorded.
#[derive(Debug)]
pub struct RecordedFile {
    number: FileNumber,
    changes: Arc<Mutex<Changes>>,
}

impl RecordedFile {
    pub(super) fn note_write(&self, bytes: &[u8], at: u64) {
        locked(&self.changes).list.push(Change::Write(self.number, at, bytes.to_vec()));
    }

    pub(super) fn note_length(&self, len: u64) {
        locked(&self.changes).list.push(Change::Length(self.number, len));
    }

    pub(super) fn note_sync(&self) {
        locked(&self.changes).list.push(Change::Sync(self.number));
    }
}

fn recording_of(path: &Path) -> Option<Recording> {
    locked(&RECORDINGS).iter().find(|recording| path.starts_with(&recording.dir)).cloned()
}

/// Renames a file, or a folder with its files.
fn rename_in(numbers: &mut BTreeMap<PathBuf, FileNumber>, from: &Path, to: &Path) {
    let below: Vec<_> = numbers.keys().filter(|path| path.starts_with(from)).cloned().collect();
    for path in below {
        let rest = path.strip_prefix(from).unwrap_or(Path::new(""));
        let target = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
        let number = numbers.remove(&path);
        numbers.extend(number.map(|number| (target, number)));
    }
}

/// The recorded form of the file that was opened at `path`.
pub(super) fn opened(path: &Path, is_emptied: bool) -> Option<RecordedFile> {
    let changes = recording_of(path)?.changes;
    let number = {
        let mut recorded = locked(&changes);
        match recorded.numbers.get(path) {
            Some(number) if !is_emptied => *number,
            _ => {
                let number = recorded.files;
                recorded.files += 1;
                recorded.numbers.insert(path.to_owned(), number);
                recorded.list.push(Change::Create(path.to_owned(), number));
                number
            }
        }
    };
    Some(RecordedFile { number, changes })
}

/// Records a change at `path`.
pub(super) fn note(path: &Path, change: impl FnOnce() -> Change) {
    let Some(recording) = recording_of(path) else { return };
    let mut recorded = locked(&recording.changes);
    let change = change();
    match &change {
        Change::Rename(from, to) => {
            rename_in(&mut recorded.numbers, from, to);
        }
        Change::Remove(path) | Change::RemoveDir(path) => {
            recorded.numbers.retain(|file, _| !file.starts_with(path));
        }
        _ => {}
    }
    recorded.list.push(change);
}

impl Recording {
    /// Begins to record the changes below `dir`, which is empty.
    #[must_use]
    pub fn begin(dir: &Path) -> Self {
        let recording = Self { dir: dir.to_owned(), changes: Arc::default() };
        locked(&RECORDINGS).push(recording.clone());
        recording
    }

    /// Ends the recording.
    pub fn end(&self) {
        locked(&RECORDINGS).retain(|recording| !Arc::ptr_eq(&recording.changes, &self.changes));
    }

    /// The number of changes so far.
    #[must_use]
    pub fn count(&self) -> usize {
        locked(&self.changes).list.len()
    }

    /// Writes the files to `to` that a power cut after the first `count` changes can leave. `choose` returns a random number below its
    /// argument. Without `syncs`, the disk has forgotten that anything was synced.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_remains(
        &self,
        count: usize,
        to: &Path,
        syncs: bool,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> io::Result<()> {
        let changes = locked(&self.changes);
        let mut disk = Disk::default();
        for change in changes
            .list
            .iter()
            .take(count)
            .filter(|change| syncs || !matches!(change, Change::Sync(_) | Change::SyncDir(_)))
        {
            disk.apply(change);
        }
        disk.cut(choose);
        for dir in &disk.dirs {
            fs::create_dir_all(to.join(dir.strip_prefix(&self.dir).unwrap_or(dir)))?;
        }
        for (path, number) in &disk.names {
            let target = to.join(path.strip_prefix(&self.dir).unwrap_or(path));
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(target, disk.contents.get(number).map_or(&[][..], Vec::as_slice))?;
        }
        Ok(())
    }
}

/// The durable part of a disk, and the changes that are not.
#[derive(Default)]
struct Disk {
    names: BTreeMap<PathBuf, FileNumber>,
    dirs: Vec<PathBuf>,
    contents: BTreeMap<FileNumber, Vec<u8>>,
    /// Changes of contents and of names since their last sync, in order.
    pending: Vec<Change>,
}

/// The folder whose sync makes a change of a name durable.
fn folder_of(change: &Change) -> Option<&Path> {
    match change {
        Change::Create(path, _) | Change::Rename(_, path) | Change::Remove(path) => path.parent(),
        Change::CreateDir(path) | Change::RemoveDir(path) => path.parent(),
        _ => None,
    }
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        let is_synced: Box<dyn Fn(&Change) -> bool> = match change {
            Change::Sync(number) => {
                let number = *number;
                Box::new(
                    move |pending| matches!(pending, Change::Write(of, ..) | Change::Length(of, _) if *of == number),
                )
            }
            Change::SyncDir(dir) => {
                let dir = dir.clone();
                Box::new(move |pending| folder_of(pending) == Some(&dir))
            }
            other => {
                self.pending.push(other.clone());
                return;
            }
        };
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if is_synced(&change) {
                self.make_durable(&change, &mut |_| 0);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Any part of the pending changes reaches the disk.
    fn cut(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        for change in std::mem::take(&mut self.pending) {
            if choose(2) == 0 {
                self.make_durable(&change, choose);
            }
        }
    }

    /// Applies a change. Of a write, the sectors reach the disk for which `lost` returns 0.
    fn make_durable(&mut self, change: &Change, lost: &mut dyn FnMut(usize) -> usize) {
        match change {
            Change::Create(path, number) => {
                self.names.insert(path.clone(), *number);
            }
            Change::Write(number, at, bytes) => {
                let content = self.contents.entry(*number).or_default();
                let start = usize::try_from(*at).expect("a test has small files");
                content.resize(content.len().max(start + bytes.len()), 0);
                let mut position = start;
                while position < start + bytes.len() {
                    let end = (position / SECTOR_BYTES + 1) * SECTOR_BYTES;
                    let end = end.min(start + bytes.len());
                    if lost(3) == 0 {
                        let part = bytes.get(position - start..end - start).unwrap_or_default();
                        if let Some(target) = content.get_mut(position..end) {
                            target.copy_from_slice(part);
                        }
                    }
                    position = end;
                }
            }
            Change::Length(number, len) => {
                let content = self.contents.entry(*number).or_default();
                let len = usize::try_from(*len).expect("a test has small files");
                content.resize(content.len().max(len), 0);
            }
            Change::Rename(from, to) => {
                rename_in(&mut self.names, from, to);
            }
            Change::Remove(path) | Change::RemoveDir(path) => {
                self.names.retain(|file, _| !file.starts_with(path));
                self.dirs.retain(|dir| !dir.starts_with(path));
            }
            Change::CreateDir(path) => self.dirs.push(path.clone()),
            Change::Sync(_) | Change::SyncDir(_) => {}
        }
    }
}
