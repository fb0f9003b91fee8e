//! Erasing values from `oracle_log.jsonl`, and from the files that it was renamed to.

use super::{FILE, LogMirror, MirrorSnapshot};
use crate::audit::erasure::DataEraser;
use crate::base::disk::sync_dir;
use crate::base::error::StoreError;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// The start of the names of the mirror and of the files that it was renamed to.
const NAME_START: &str = "oracle_log";
/// The end of the names of copies that are being written.
const COPY_END: &str = ".erasing";
/// Number of bytes at the start of a file that must be text. No format of compressed files begins with 512 bytes of text.
const START_BYTES: u64 = 512;

/// A copy of the mirror without the erased values.
#[derive(Debug)]
pub(crate) struct MirrorCopy {
    copy: File,
    path: PathBuf,
    /// The path of the mirror, without links: a link is not replaced.
    original: PathBuf,
    /// The mirror that was copied, and how much of it.
    of: MirrorSnapshot,
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
            copy_lines(eraser, BufReader::new(content.take(of.len)), &copy)?;
            copy.sync_all()?;
            Ok(copy)
        };
        let copy = write().map_err(|source| StoreError::write_error(&path, source))?;
        Ok(Self { copy, path, original, of })
    }

    /// Whether the copy is of the file that is written now.
    pub(crate) const fn is_of(&self, mirror: &LogMirror) -> bool {
        mirror.is_current(&self.of)
    }
}

impl LogMirror {
    /// Replaces the file by its copy, and adds the lines that were appended meanwhile.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written. The mirror stays as it was.
    pub(crate) fn replace_by(
        &mut self,
        copied: &MirrorCopy,
        eraser: &mut DataEraser,
    ) -> Result<(), StoreError> {
        let MirrorCopy { copy, path, original, of } = copied;
        let mut replace = || {
            let mut added = File::open(original)?;
            added.seek(SeekFrom::Start(of.len))?;
            let copied_bytes = copy.metadata()?.len();
            let copy = copy.try_clone()?;
            copy_lines(eraser, BufReader::new(added), &copy).inspect_err(|_| {
                // the next attempt adds the lines again
                if let Err(error) = copy.set_len(copied_bytes) {
                    tracing::warn!(%error, "could not cut off the copy of oracle_log.jsonl");
                }
            })?;
            copy.sync_all()?;
            fs::rename(path, original)?;
            Ok((copy.metadata()?.len(), copy))
        };
        let replaced = replace().map_err(|source| StoreError::write_error(&self.path, source));
        (self.len, self.file) = replaced?;
        self.generation += 1;
        original.parent().map_or(Ok(()), sync_dir)
    }
}

/// Erases the values from the files in `dir` that the mirror was renamed to. Returns those that may still have values: files that
/// are no texts or cannot be opened, and those with a line about a session that is not an entry.
pub(crate) fn erase_from_renamed(dir: &Path, eraser: &mut DataEraser) -> Result<Vec<PathBuf>, StoreError> {
    let io = |source| StoreError::Io { path: dir.to_owned(), source };
    let mut unread = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(NAME_START) || name == FILE || !path.is_file() {
            continue;
        }
        let error = |source| StoreError::write_error(&path, source);
        if name.ends_with(COPY_END) {
            fs::remove_file(&path).map_err(error)?;
            continue;
        }
        let is_read = match File::open(&path) {
            Ok(of) => is_text(&of).map_err(error)? && erase_from_file(&path, &of, eraser).map_err(error)?,
            // it was renamed or removed meanwhile
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => true,
            Err(cause) => {
                tracing::warn!(%cause, path = %path.display(), "an erasure could not read a file of the log");
                false
            }
        };
        if !is_read {
            unread.push(path);
        }
    }
    sync_dir(dir)?;
    Ok(unread)
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

/// Returns false if a line that may have values is not an entry.
fn erase_from_file(path: &Path, of: &File, eraser: &mut DataEraser) -> io::Result<bool> {
    let mut has_data = false;
    each_line(BufReader::new(of), |line| {
        has_data |= eraser.may_have_data(line);
        Ok(())
    })?;
    if !has_data {
        return Ok(true);
    }
    let path = fs::canonicalize(path)?;
    let copy_path = copy_path(&path);
    let copy = create_copy(&copy_path, of)?;
    let mut of = of;
    of.seek(SeekFrom::Start(0))?;
    let is_read = copy_lines(eraser, BufReader::new(of), &copy)?;
    copy.sync_all()?;
    fs::rename(copy_path, path)?;
    Ok(is_read)
}

/// Copies lines without the erased values. Returns false if a line that may have values is not an entry: the text of another
/// program stays as it is.
fn copy_lines(eraser: &mut DataEraser, from: impl BufRead, to: &File) -> io::Result<bool> {
    let mut to = BufWriter::new(to);
    let mut is_read = true;
    each_line(from, |line| {
        let entry = str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line)).ok();
        let erased = entry.and_then(|entry| eraser.erase_from_line(entry).ok());
        if let Some(erased) = erased {
            to.write_all(erased.as_bytes())?;
            return to.write_all(if line.ends_with(b"\n") { b"\n" } else { b"" });
        }
        is_read &= !eraser.may_have_data(line);
        to.write_all(line)
    })?;
    to.flush()?;
    Ok(is_read)
}

fn each_line(mut from: impl BufRead, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        visit(&line)?;
        line.clear();
    }
    Ok(())
}
