//! Erasing values from `oracle_log.jsonl`, and from the files that it was renamed to.

use super::{FILE, LogMirror, MirrorSnapshot};
use crate::audit::erasure::SessionEraser;
use crate::base::disk::sync_dir;
use crate::base::error::StoreError;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The start of the names of the mirror and of the files that it was renamed to.
const NAME_START: &str = "oracle_log";
/// Ends the names of copies that are being written.
const COPY_END: &str = ".erasing";
/// The first bytes of files in the formats gzip, zstd, xz and bzip2.
const COMPRESSED_STARTS: [&[u8]; 4] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ", b"BZh"];

/// A copy of the mirror without the erased values.
#[derive(Debug)]
pub(crate) struct MirrorCopy {
    copy: File,
    path: PathBuf,
    /// The mirror that was copied, and how much of it.
    of: MirrorSnapshot,
}

impl MirrorCopy {
    /// Copies the mirror in `dir`.
    pub(crate) fn write(
        dir: &Path,
        of: MirrorSnapshot,
        eraser: &mut SessionEraser,
    ) -> Result<Self, StoreError> {
        let path = dir.join(format!("{FILE}{COPY_END}"));
        let mut write = || {
            let copy = File::options().read(true).append(true).create(true).open(&path)?;
            copy.set_len(0)?;
            copy.set_permissions(of.file.metadata()?.permissions())?;
            let mut content = &of.file;
            content.seek(SeekFrom::Start(0))?;
            copy_lines(eraser, BufReader::new(content.take(of.len)), &copy)?;
            copy.sync_all()?;
            Ok(copy)
        };
        let copy = write().map_err(|source| StoreError::write_error(&path, source))?;
        Ok(Self { copy, path, of })
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
        eraser: &mut SessionEraser,
    ) -> Result<(), StoreError> {
        let MirrorCopy { copy, path, of } = copied;
        let mut replace = || {
            let mut added = File::open(&self.path)?;
            added.seek(SeekFrom::Start(of.len))?;
            let copied_bytes = copy.metadata()?.len();
            let copy = copy.try_clone()?;
            let new_lines = self.len - of.len;
            copy_lines(eraser, BufReader::new(added.take(new_lines)), &copy).inspect_err(|_| {
                // the next attempt adds the lines again
                if let Err(error) = copy.set_len(copied_bytes) {
                    tracing::warn!(%error, "could not cut off the copy of oracle_log.jsonl");
                }
            })?;
            copy.sync_all()?;
            fs::rename(path, &self.path)?;
            Ok((copy.metadata()?.len(), copy))
        };
        let replaced = replace().map_err(|source| StoreError::write_error(&self.path, source));
        (self.len, self.file) = replaced?;
        self.generation += 1;
        self.path.parent().map_or(Ok(()), sync_dir)
    }
}

/// Erases the values from the files in `dir` that the mirror was renamed to. Returns the compressed ones, which are not read.
pub(crate) fn erase_from_renamed(dir: &Path, eraser: &mut SessionEraser) -> Result<Vec<PathBuf>, StoreError> {
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
        } else if is_compressed(&path).map_err(error)? {
            unread.push(path);
        } else {
            erase_from_file(&path, eraser).map_err(error)?;
        }
    }
    sync_dir(dir)?;
    Ok(unread)
}

fn is_compressed(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(8).read_to_end(&mut start)?;
    Ok(COMPRESSED_STARTS.iter().any(|of_format| start.starts_with(of_format)))
}

fn erase_from_file(path: &Path, eraser: &mut SessionEraser) -> io::Result<()> {
    let mut has_data = false;
    each_line(BufReader::new(File::open(path)?), |line| {
        has_data |= eraser.may_have_data(line);
        Ok(())
    })?;
    if !has_data {
        return Ok(());
    }
    let mut copy_name = path.as_os_str().to_owned();
    copy_name.push(COPY_END);
    let copy = File::create(&copy_name)?;
    let of = File::open(path)?;
    copy.set_permissions(of.metadata()?.permissions())?;
    copy_lines(eraser, BufReader::new(of), &copy)?;
    copy.sync_all()?;
    fs::rename(copy_name, path)
}

/// Copies lines without the erased values.
fn copy_lines(eraser: &mut SessionEraser, from: impl BufRead, to: &File) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    each_line(from, |line| {
        let text = str::from_utf8(line).unwrap_or_default();
        let (entry, end) = text.strip_suffix('\n').map_or((text, ""), |entry| (entry, "\n"));
        match eraser.erase_from_line(entry) {
            Ok(erased) if !text.is_empty() => to.write_all(&[erased.as_bytes(), end.as_bytes()].concat()),
            // the text of another program: it stays as it is
            _ => to.write_all(line),
        }
    })?;
    to.flush()
}

fn each_line(mut from: impl BufRead, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        visit(&line)?;
        line.clear();
    }
    Ok(())
}
