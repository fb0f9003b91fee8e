//! Erasing values from `oracle_log.jsonl`, and from the files that it was renamed to.

use super::{FILE, LogMirror, MirrorSnapshot};
use crate::audit::erasure::DataEraser;
use crate::audit::log::seq_of_line;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::iter;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use store_base::error::StoreError;
use store_base::files::sync_dir;

/// The start of the names of the mirror and of the files that it was renamed to.
const NAME_START: &str = "oracle_log";
/// The end of the names of copies that are being written.
const COPY_END: &str = ".erasing";
/// Number of bytes at the start of a file that must be text. No format of compressed files begins with 512 bytes of text.
const START_BYTES: u64 = 512;

/// Maximum number of rotations during which the files are read again.
const ROTATIONS_MAX: u32 = 5;

/// A copy of the mirror without the erased values.
#[derive(Debug)]
pub(crate) struct MirrorCopy {
    copy: File,
    path: PathBuf,
    /// The path of the mirror, without links: a link is not replaced.
    original: PathBuf,
    /// The mirror that was copied, and how much of it.
    of: MirrorSnapshot,
    /// Whether no line can still have erased values.
    is_read: bool,
}

impl MirrorCopy {
    /// Copies the mirror in `dir`.
    pub(crate) fn write(dir: &Path, of: MirrorSnapshot, eraser: &mut DataEraser) -> Result<Self, StoreError> {
        let original = dir.join(FILE);
        let original =
            fs::canonicalize(&original).map_err(|source| StoreError::Io { path: original, source })?;
        let path = copy_path(&original);
        let mut write = || {
            let copy = create_copy(&path, &of.file)?;
            let mut content = &of.file;
            content.seek(SeekFrom::Start(0))?;
            let is_read = copy_lines(eraser, BufReader::new(content.take(of.len)), &copy)?;
            copy.sync_all()?;
            Ok((copy, is_read))
        };
        let (copy, is_read) = write().map_err(|source| StoreError::write_error(&path, source))?;
        Ok(Self { copy, path, original, of, is_read })
    }

    /// The path of the mirror, without links.
    pub(crate) fn original(&self) -> &Path {
        &self.original
    }

    /// Whether the copy is of the file that is written now.
    pub(crate) const fn is_of(&self, mirror: &LogMirror) -> bool {
        mirror.is_current(&self.of)
    }
}

impl Drop for MirrorCopy {
    /// Frees the space of a copy that has not replaced the mirror.
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

impl LogMirror {
    /// Replaces the file by its copy, and adds the lines that were appended meanwhile. Returns false if a line may still have
    /// erased values.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written. The mirror stays as it was.
    pub(crate) fn replace_by(
        &mut self,
        copied: &MirrorCopy,
        eraser: &mut DataEraser,
    ) -> Result<bool, StoreError> {
        let MirrorCopy { copy, path, original, of, is_read } = copied;
        let mut replace = || {
            let mut added = File::open(original)?;
            added.seek(SeekFrom::Start(of.len))?;
            let copied_bytes = copy.metadata()?.len();
            let copy = copy.try_clone()?;
            let is_added_read = copy_lines(eraser, BufReader::new(added), &copy).inspect_err(|_| {
                // the next attempt adds the lines again
                if let Err(error) = copy.set_len(copied_bytes) {
                    tracing::warn!(%error, "could not cut off the copy of oracle_log.jsonl");
                }
            })?;
            copy.sync_all()?;
            fs::rename(path, original)?;
            Ok((copy.metadata()?.len(), copy, *is_read && is_added_read))
        };
        let replaced = replace().map_err(|source| StoreError::write_error(&self.path, source))?;
        let is_read;
        (self.len, self.file, is_read) = replaced;
        self.generation += 1;
        original.parent().map_or(Ok(()), sync_dir)?;
        Ok(is_read)
    }
}

/// Erases the values from the files that the mirror in `dir` was renamed to: those in `dir`, and those beside the file to which the
/// mirror is a link. Returns those that may still have values: files that are no texts, cannot be opened or change all the time,
/// and those with a line about a session that is not an entry, or has no salts, or with a part of a line.
pub(crate) fn erase_from_renamed(dir: &Path, eraser: &mut DataEraser) -> Result<Vec<PathBuf>, StoreError> {
    let places = renamed_places(dir).map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
    let mut unread = Vec::new();
    for _ in 0..ROTATIONS_MAX {
        unread.clear();
        let mut files = list_renamed(&places)?;
        let mut is_changed = false;
        let mut removed = Vec::new();
        for (path, id) in &mut files {
            match erase_from_renamed_file(path, eraser)? {
                RenamedFile::Unchanged => {}
                RenamedFile::Replaced(by) => *id = by,
                RenamedFile::Removed => removed.push(path.clone()),
                RenamedFile::Unread => unread.push(path.clone()),
                // it may be under another name now
                RenamedFile::InUse => {
                    is_changed = true;
                    unread.push(path.clone());
                }
            }
        }
        files.retain(|path, _| !removed.contains(path));
        places.iter().try_for_each(|place| sync_dir(&place.dir))?;
        if !is_changed && list_renamed(&places)? == files {
            break;
        }
    }
    Ok(unread)
}

/// A folder with files that the mirror was renamed to.
struct RenamedPlace {
    dir: PathBuf,
    /// The name of the mirror there.
    mirror: OsString,
    /// The start of the names of such files.
    start: String,
}

/// The device and the number of a file.
type FileId = (u64, u64);

/// The effect of an erasure on a file.
enum RenamedFile {
    /// It has no erased values, or no longer exists.
    Unchanged,
    Replaced(FileId),
    /// All of its entries were dropped.
    Removed,
    /// It may still have values.
    Unread,
    /// It was written, renamed or replaced meanwhile, and stays as it is.
    InUse,
}

/// The lines of the entries that `is_wanted` accepts in the mirror in `dir`, and in the uncompressed files that it was renamed to. Lines
/// that are missing, or cannot be read, are absent.
pub(crate) fn lines_of(
    dir: &Path,
    is_wanted: impl Fn(u64) -> bool,
) -> Result<BTreeMap<u64, String>, StoreError> {
    let places = renamed_places(dir).map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
    let mut lines = BTreeMap::new();
    for path in iter::once(dir.join(FILE)).chain(list_renamed(&places)?.into_keys()) {
        // lines of another program
        if path.to_string_lossy().contains(".foreign-") {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = line.strip_suffix(b"\n").and_then(|line| str::from_utf8(line).ok());
            if let Some((text, seq)) = text.zip(seq_of_line(&line)).filter(|(_, seq)| is_wanted(*seq)) {
                lines.entry(seq).or_insert_with(|| text.to_owned());
            }
            line.clear();
        }
    }
    Ok(lines)
}

/// The folders with files that the mirror in `dir` was renamed to.
fn renamed_places(dir: &Path) -> io::Result<Vec<RenamedPlace>> {
    let here = RenamedPlace { dir: dir.to_owned(), mirror: FILE.into(), start: NAME_START.to_owned() };
    let mirror = dir.join(FILE);
    if !mirror.is_symlink() {
        return Ok(vec![here]);
    }
    let mirror = fs::canonicalize(mirror)?;
    let (Some(dir), Some(name)) = (mirror.parent(), mirror.file_name()) else { return Ok(vec![here]) };
    let text = name.to_string_lossy();
    let start = text.split('.').next().filter(|start| !start.is_empty()).unwrap_or(&text).to_owned();
    Ok(vec![here, RenamedPlace { dir: dir.to_owned(), mirror: name.to_owned(), start }])
}

/// The files that the mirror was renamed to. Copies that an interrupted erasure has left are removed.
fn list_renamed(places: &[RenamedPlace]) -> Result<BTreeMap<PathBuf, FileId>, StoreError> {
    let mut files = BTreeMap::new();
    for RenamedPlace { dir, mirror, start } in places {
        let io = |source| StoreError::Io { path: dir.clone(), source };
        for entry in fs::read_dir(dir).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_name().unwrap_or_default();
            if name == mirror || !name.to_string_lossy().starts_with(start) {
                continue;
            }
            let Ok(found) = fs::metadata(&path) else { continue };
            if !found.is_file() {
                continue;
            }
            if name.to_string_lossy().ends_with(COPY_END) {
                fs::remove_file(&path).map_err(|source| StoreError::write_error(&path, source))?;
                continue;
            }
            files.insert(path, (found.dev(), found.ino()));
        }
    }
    Ok(files)
}

fn erase_from_renamed_file(path: &Path, eraser: &mut DataEraser) -> Result<RenamedFile, StoreError> {
    let error = |source| StoreError::write_error(path, source);
    match File::open(path) {
        Ok(of) if is_text(&of).map_err(error)? => erase_from_file(path, &of, eraser).map_err(error),
        Ok(_) => Ok(RenamedFile::Unread),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(RenamedFile::Unchanged),
        Err(cause) => {
            tracing::warn!(%cause, path = %path.display(), "an erasure could not read a file of the log");
            Ok(RenamedFile::Unread)
        }
    }
}

fn is_text(mut file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(START_BYTES).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    // the last character can be cut off
    Ok(str::from_utf8(&start).map_or_else(|error| error.error_len().is_none(), |_| true))
}

/// The path of the copy of a file.
fn copy_path(path: &Path) -> PathBuf {
    let mut copy = path.as_os_str().to_owned();
    copy.push(COPY_END);
    copy.into()
}

/// Creates an empty file that the same users may read as `of`.
fn create_copy(path: &Path, of: &File) -> io::Result<File> {
    let copy = File::options().read(true).append(true).create(true).open(path)?;
    copy.set_len(0)?;
    let of = of.metadata()?;
    copy.set_permissions(of.permissions())?;
    if let Err(error) = fchown(&copy, Some(of.uid()), Some(of.gid())) {
        tracing::warn!(%error, path = %path.display(), "the copy of a file has another owner");
    }
    Ok(copy)
}

fn erase_from_file(path: &Path, of: &File, eraser: &mut DataEraser) -> io::Result<RenamedFile> {
    let before = of.metadata()?;
    let (mut has_data, mut has_part) = (false, false);
    each_line(BufReader::new(of), |line| {
        has_data |= eraser.drops(line) || eraser.may_have_data(line);
        has_part |= is_part(line);
        Ok(())
    })?;
    if !has_data {
        return Ok(if has_part { RenamedFile::Unread } else { RenamedFile::Unchanged });
    }
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RenamedFile::InUse),
        path => path?,
    };
    let copy_path = copy_path(&path);
    let copy = create_copy(&copy_path, of)?;
    let mut of = of;
    of.seek(SeekFrom::Start(0))?;
    let is_read = copy_lines(eraser, BufReader::new(of), &copy)?;
    copy.sync_all()?;
    // a rotation can write or rename the file meanwhile
    let version =
        |found: &Metadata| (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec());
    if fs::metadata(&path).is_ok_and(|found| version(&found) == version(&before)) {
        if copy.metadata()?.len() == 0 {
            // all of its entries were dropped
            fs::remove_file(path)?;
            fs::remove_file(copy_path)?;
            return Ok(RenamedFile::Removed);
        }
        fs::rename(copy_path, path)?;
        let by = copy.metadata()?;
        return Ok(if is_read { RenamedFile::Replaced((by.dev(), by.ino())) } else { RenamedFile::Unread });
    }
    fs::remove_file(copy_path)?;
    Ok(RenamedFile::InUse)
}

/// Copies lines without the erased values, and without those of dropped entries. Returns false if a line may still have values. It is not an entry, since the text of
/// another program stays as it is, or it has no salts.
fn copy_lines(eraser: &mut DataEraser, from: impl BufRead, to: &File) -> io::Result<bool> {
    let mut to = BufWriter::new(to);
    let mut is_read = true;
    each_line(from, |line| {
        if eraser.drops(line) {
            return Ok(());
        }
        is_read &= !is_part(line);
        let entry = str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line)).ok();
        let erased = entry.and_then(|entry| eraser.erase_from_line(entry).ok());
        if let Some(erased) = erased {
            is_read &= !eraser.has_values(&erased);
            to.write_all(erased.as_bytes())?;
            return to.write_all(if line.ends_with(b"\n") { b"\n" } else { b"" });
        }
        is_read &= !eraser.may_have_data(line);
        to.write_all(line)
    })?;
    to.flush()?;
    Ok(is_read)
}

/// Whether the line is no JSON. It can be a part of an entry, such as a torn last line, without the member that names the session.
fn is_part(line: &[u8]) -> bool {
    // a power cut can leave zeros
    let is_empty = line.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace());
    !is_empty && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

fn each_line(mut from: impl BufRead, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        visit(&line)?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::removal::RemovalPlan;

    #[test]
    fn file_that_replaced_a_renamed_one_during_its_copy_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("oracle_log-1.jsonl");
        let sessions = [("cs_1".parse().expect("an id"), 9)].into();
        let plan = RemovalPlan { sessions, ..RemovalPlan::default() };
        let mut eraser = DataEraser::new(dir.path(), plan, false);
        fs::write(&path, "{\"seq\":1,\"session_id\":\"cs_1\"}\n").expect("the write succeeds");
        let of = File::open(&path).expect("the file opens");
        fs::rename(&path, dir.path().join("oracle_log-2.jsonl")).expect("the rename succeeds");
        for replaced in [false, true] {
            if replaced {
                fs::write(&path, "another file\n").expect("the write succeeds");
            }
            (&of).seek(SeekFrom::Start(0)).expect("the seek succeeds");
            let erased = erase_from_file(&path, &of, &mut eraser).expect("the disk is writable");
            assert!(matches!(erased, RenamedFile::InUse));
        }
        assert_eq!(fs::read_to_string(&path).expect("the file is readable"), "another file\n");
        let names = fs::read_dir(dir.path()).expect("the folder is readable").count();
        assert_eq!(names, 2, "no copy is left");
    }
}
