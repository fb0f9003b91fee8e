//! `oracle_log.jsonl` and the files that it was renamed to, compared with the log.

use super::log_keys::refused;
use crate::base::error::CtlError;
use domain_audit::leaf::{is_erased_form, leaf_of};
use domain_audit::log_tree::leaf_hash;
use oracled_store::{EntryContent, SegmentEntry};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Take};
use std::path::{Path, PathBuf};

const MIRROR_FILE: &str = "oracle_log.jsonl";
/// The start of the names of the mirror and of the files that it was renamed to.
const NAME_START: &str = "oracle_log";
/// A part of the names of files with lines of another log, which the daemon has moved aside.
const FOREIGN: &str = ".foreign-";

/// A difference that can have another cause than a change of the file.
#[derive(Debug, Serialize)]
pub(super) struct FileNote {
    /// The path in the directory.
    pub(super) file: String,
    pub(super) note: String,
}

impl FileNote {
    pub(super) fn new(file: impl Into<String>, note: impl Into<String>) -> Self {
        Self { file: file.into(), note: note.into() }
    }
}

/// The lines of `oracle_log.jsonl`, or of a file that it was renamed to. The file can begin after the first entry, and end
/// before the last one.
#[derive(Debug)]
pub(super) struct MirrorLines {
    file: PathBuf,
    name: String,
    input: Take<BufReader<File>>,
    /// The next line, with its line end.
    next: Vec<u8>,
    /// Whether the file ends within a line.
    is_torn: bool,
    /// The number of the first entry in the file.
    first: u64,
    /// The number of lines that were compared.
    lines: u64,
}

impl MirrorLines {
    /// Whether a file of the state directory has this name because it is the mirror, or was renamed from it.
    pub(super) fn is_mirror(name: &str) -> bool {
        name.starts_with(NAME_START)
    }

    /// Opens the mirror in `dir`, and the files that it was renamed to.
    pub(super) fn open_all(dir: &Path) -> Result<Vec<Self>, CtlError> {
        let read = |cause| CtlError::Read { file: dir.display().to_string(), cause };
        let mut mirrors = Vec::new();
        for entry in fs::read_dir(dir).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if Self::is_mirror(&name) && entry.path().is_file() {
                mirrors.extend(Self::open(&entry.path(), name)?);
            }
        }
        mirrors.sort_by(|one, other| (one.first, &one.name).cmp(&(other.first, &other.name)));
        Ok(mirrors)
    }

    /// Opens the file, and reads its first line; `None` if the file does not exist.
    fn open(file: &Path, name: String) -> Result<Option<Self>, CtlError> {
        let read = |cause: io::Error| CtlError::Read { file: file.display().to_string(), cause };
        let opened = match File::open(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(read)?,
        };
        let len = opened.metadata().map_err(read)?.len();
        let input = BufReader::new(opened).take(len);
        let (file, next) = (file.to_owned(), Vec::new());
        let mut lines = Self { file, name, input, next, is_torn: false, first: 1, lines: 0 };
        if lines.is_comparable() {
            lines.read_next()?;
        }
        let number =
            lines.next.strip_prefix(b"{\"seq\":").and_then(|rest| rest.split(|byte| *byte == b',').next());
        let number = number.and_then(|number| str::from_utf8(number).ok()?.parse().ok());
        // if the first line has no number, the comparison with entry 1 reports it
        lines.first = number.unwrap_or(1);
        Ok(Some(lines))
    }

    /// Whether the file has lines of this log: not if it was moved aside, or compressed after its renaming.
    fn is_comparable(&self) -> bool {
        !self.name.contains(FOREIGN)
            && ![".gz", ".zst", ".xz", ".bz2", ".lz4"].iter().any(|end| self.name.ends_with(end))
    }

    /// Reads the next line. A line without its end, which the daemon has not completed, counts as none.
    fn read_next(&mut self) -> Result<(), CtlError> {
        self.next.clear();
        let read = self.input.read_until(b'\n', &mut self.next);
        read.map_err(|cause| CtlError::Read { file: self.file.display().to_string(), cause })?;
        if !self.next.ends_with(b"\n") {
            self.is_torn = !self.next.is_empty();
            self.next.clear();
        }
        Ok(())
    }

    /// Compares the line of this entry, if the file has it.
    pub(super) fn compare(&mut self, entry: &SegmentEntry<'_>) -> Result<(), CtlError> {
        if entry.seq < self.first || self.next.is_empty() {
            return Ok(());
        }
        let line = self.next.strip_suffix(b"\n").unwrap_or_default();
        let is_same = match &entry.content {
            // an erasure in progress rewrites the segments first
            EntryContent::Line { line: logged, .. } => {
                line == logged.as_bytes() || is_erased_form(logged, line)
            }
            EntryContent::Dropped(hash) => {
                let leaf = str::from_utf8(line).ok().and_then(|line| leaf_of(line).ok());
                leaf.is_some_and(|leaf| leaf_hash(leaf.as_bytes()) == *hash)
            }
        };
        if !is_same {
            let (file, line, segment, seq) = (self.file.display(), self.lines + 1, entry.segment, entry.seq);
            let remedy = if self.is_current() {
                "the daemon writes the file again at its next start"
            } else {
                "restore the file"
            };
            return Err(refused(format!(
                "{file}, line {line}: the line is not that of entry {seq} (segment {segment}); {remedy}"
            )));
        }
        self.lines += 1;
        self.read_next()
    }

    /// Whether the daemon writes to this file.
    fn is_current(&self) -> bool {
        self.name == MIRROR_FILE
    }

    /// Checks that no line follows those of the log's `size` entries. Returns the number of lines of `oracle_log.jsonl`; `None`
    /// without the file.
    pub(super) fn finish(mirrors: &[Self], size: u64) -> Result<Option<u64>, CtlError> {
        if let Some(longer) = mirrors.iter().find(|mirror| !mirror.next.is_empty()) {
            let (file, line) = (longer.file.display(), longer.lines + 1);
            return Err(refused(format!(
                "{file}, line {line}: the log in the segments has only {size} entries"
            )));
        }
        Ok(mirrors.iter().find(|mirror| mirror.is_current()).map(|mirror| mirror.lines))
    }

    /// The entries from `first` on that no file has, and the files that were not compared.
    pub(super) fn notes(mirrors: Vec<Self>, first: u64, size: u64) -> Vec<FileNote> {
        let mut notes = Vec::new();
        let (mut next, mut has_current) = (first, false);
        for mirror in mirrors {
            has_current |= mirror.is_current();
            if !mirror.is_comparable() {
                notes.push(FileNote::new(mirror.name, "this copy of the log was not compared"));
                continue;
            }
            if mirror.is_torn {
                notes.push(FileNote::new(mirror.name.clone(), "the file ends within a line"));
            }
            if mirror.lines == 0 {
                // a file that was just renamed leaves an empty one
                continue;
            }
            if mirror.first > next {
                let missing = format!(
                    "no file before this one has the lines of the entries {next} to {}",
                    mirror.first - 1
                );
                notes.push(FileNote::new(mirror.name, missing));
            }
            next = next.max(mirror.first + mirror.lines);
        }
        let fault = if !has_current {
            "the file is missing; the daemon creates it at its next start".to_owned()
        } else if next <= size {
            format!(
                "the lines of the entries {next} to {size} are missing; the daemon adds them at its next start"
            )
        } else {
            return notes;
        };
        notes.push(FileNote::new(MIRROR_FILE, fault));
        notes
    }
}
