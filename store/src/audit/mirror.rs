//! `oracle_log.jsonl`: a copy of the log as a file that `tail`, `jq` and log shippers read.
//!
//! Entries are appended after their commit. The database is authoritative. The mirror lacks entries if the daemon was
//! killed between commit and append, or if the file could not be written. Missing entries are copied from the database,
//! beginning after the last complete line.

use crate::audit::log::LogQuery;
use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use serde::Deserialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FILE: &str = "oracle_log.jsonl";
/// The search for the last complete line reads the end of the file in steps of this many bytes, or more for a
/// longer line.
const SEARCH_BYTES: u64 = 64 * 1024;
/// The first bytes of each of our lines.
const LINE_START: &[u8] = b"{\"seq\":";

/// The mirror file and its state.
#[derive(Debug)]
pub(crate) struct LogMirror {
    path: PathBuf,
    file: File,
    /// The length up to the end of the last complete line, in bytes.
    len: u64,
    /// The number of the last entry in the file.
    pub(crate) last_seq: u64,
    dirty: bool,
    /// The error of the last append; `None` after a successful one.
    pub(crate) lag: Option<String>,
}

impl LogMirror {
    /// Opens the mirror in `dir`. A torn last line is cut off. An empty file continues after entry
    /// `mirrored`, since the previous file was rotated away. A file with lines of another program is moved
    /// aside, and a complete mirror replaces it.
    pub(crate) fn open(dir: &Path, mirrored: u64) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let foreign = move_aside_if_foreign(&path).map_err(io)?;
        let (file, len, last) = open_file(&path).map_err(io)?;
        let begin = if foreign { 0 } else { mirrored };
        Ok(Self { file, len, last_seq: last.unwrap_or(begin), path, dirty: false, lag: None })
    }

    /// The last line of the file, without its line end; `None` if the file is empty.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub(crate) fn last_line(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        let mut line = Vec::new();
        let mut end = self.len;
        while end > 0 && !line.contains(&b'\n') {
            let step = end.min(SEARCH_BYTES.max(line.len() as u64));
            end -= step;
            let mut bytes = vec![0; usize::try_from(step).unwrap_or_default()];
            self.file.read_exact_at(&mut bytes, end).map_err(io)?;
            // the line end of the last line separates no two lines
            if line.is_empty() {
                bytes.pop();
            }
            bytes.append(&mut line);
            line = bytes;
        }
        Ok(line.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::to_vec).filter(|line| !line.is_empty()))
    }

    /// Moves the file aside, since its lines belong to another store, and creates an empty one that will get
    /// all entries.
    ///
    /// # Errors
    /// `Io` if the file cannot be moved.
    pub(crate) fn move_aside(&mut self) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        move_aside(&self.path).map_err(io)?;
        let (file, len, _) = open_file(&self.path).map_err(io)?;
        (self.file, self.len, self.last_seq) = (file, len, 0);
        Ok(())
    }

    /// Appends `lines`, which end with entry `last_seq`. Missing entries before `first_seq` are copied from
    /// the database first.
    pub(crate) fn append(&mut self, store: &TableReader, lines: &[u8], first_seq: u64, last_seq: u64) {
        let appended = if first_seq == self.last_seq + 1 {
            self.write(lines, last_seq)
        } else {
            self.catch_up(store, last_seq)
        };
        self.note_append_result(appended);
    }

    /// Copies missing entries up to `last_seq` from the database.
    pub(crate) fn repair(&mut self, store: &TableReader, last_seq: u64) {
        if self.last_seq < last_seq {
            let repaired = self.catch_up(store, last_seq);
            self.note_append_result(repaired);
        }
    }

    /// Opens the file by its name again, for use after a rotation.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        move_aside_if_foreign(&self.path).map_err(io)?;
        let (file, len, last) = open_file(&self.path).map_err(io)?;
        if last.is_some_and(|last| last > self.last_seq) {
            let text = "its last entry has a higher number than the log's; move the file away";
            return Err(io(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "could not sync the previous oracle_log.jsonl");
        }
        self.file = file;
        self.len = len;
        self.last_seq = last.unwrap_or(self.last_seq);
        Ok(())
    }

    /// Syncs written entries to the disk and returns the number of the last one.
    pub(crate) fn sync(&mut self) -> io::Result<u64> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(self.last_seq)
    }

    fn note_append_result(&mut self, appended: io::Result<()>) {
        match appended {
            Ok(()) if self.lag.is_some() => {
                self.lag = None;
                tracing::info!(last_seq = self.last_seq, "oracle_log.jsonl is complete again");
            }
            Ok(()) => {}
            Err(error) => {
                if self.lag.is_none() {
                    tracing::error!(%error, last_seq = self.last_seq, "oracle_log.jsonl lags behind the log");
                }
                self.lag = Some(error.to_string());
            }
        }
    }

    fn write(&mut self, lines: &[u8], last_seq: u64) -> io::Result<()> {
        self.dirty = true;
        if let Err(error) = self.file.write_all(lines) {
            // remove the partial line: the next line would be appended to it
            self.file.set_len(self.len)?;
            return Err(error);
        }
        self.len += lines.len() as u64;
        self.last_seq = last_seq;
        Ok(())
    }

    fn catch_up(&mut self, store: &TableReader, last_seq: u64) -> io::Result<()> {
        while self.last_seq < last_seq {
            let query = LogQuery { after: self.last_seq, limit: usize::MAX, ..LogQuery::default() };
            let entries = store.log_page(&query).map_err(io::Error::other)?.lines;
            let Some(last) = entries.last() else {
                return Err(io::Error::other(format!("the log ends before entry {last_seq}")));
            };
            let lines: String = entries.iter().flat_map(|line| [line.json.as_str(), "\n"]).collect();
            self.write(lines.as_bytes(), last.seq)?;
        }
        Ok(())
    }
}

/// Moves the file aside if complete lines of another program follow our last line: they must not be cut off.
fn move_aside_if_foreign(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        // opening a named pipe would wait for a process at its other end
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    let (ours, _) = last_line(&file)?;
    let mut rest = BufReader::new(file);
    rest.seek(SeekFrom::Start(ours))?;
    let (mut foreign, mut torn) = (false, false);
    let mut piece = Vec::new();
    while !foreign && rest.by_ref().take(SEARCH_BYTES).read_until(b'\n', &mut piece)? > 0 {
        let ended = piece.ends_with(b"\n");
        // text that begins like one of our lines and has no line end is a torn line of any length; other text
        // is foreign if it has a line end or fills a piece
        torn = torn || piece.starts_with(LINE_START);
        let whole = ended || (piece.len() as u64 == SEARCH_BYTES && !torn);
        // a block that never reached the disk reads as zeros
        foreign = whole && piece.iter().any(|byte| *byte != 0 && !byte.is_ascii_whitespace());
        torn = torn && !ended;
        piece.clear();
    }
    if foreign {
        move_aside(path)?;
    }
    Ok(foreign)
}

fn move_aside(path: &Path) -> io::Result<()> {
    let aside = (1..).map(|n| path.with_extension(format!("jsonl.foreign-{n}"))).find(|name| !name.exists());
    let aside = aside.expect("there are more numbers than files");
    fs::rename(path, &aside)?;
    tracing::warn!(aside = %aside.display(), "moved oracle_log.jsonl aside: it has lines that the log did not write");
    Ok(())
}

/// Opens the file for appending, cuts off the bytes after its last complete line, and reads that line's number.
fn open_file(path: &Path) -> io::Result<(File, u64, Option<u64>)> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let (len, last_seq) = last_line(&file)?;
    if len < file.metadata()?.len() {
        tracing::warn!(path = %path.display(), kept_bytes = len, "cut off a torn last line");
        file.set_len(len)?;
    }
    Ok((file, len, last_seq))
}

/// The length up to the end of the last complete line, and that line's number.
fn last_line(file: &File) -> io::Result<(u64, Option<u64>)> {
    #[derive(Deserialize)]
    struct NumberedLogLine {
        seq: u64,
    }
    let mut start = file.metadata()?.len();
    let mut tail = Vec::new();
    loop {
        // each step is as long as all previous ones together, so that a line of megabytes is not copied for each step
        let step = start.min(SEARCH_BYTES.max(tail.len() as u64));
        start -= step;
        let mut bytes = vec![0; usize::try_from(step).expect("a line fits into memory")];
        file.read_exact_at(&mut bytes, start)?;
        bytes.append(&mut tail);
        tail = bytes;
        // complete lines, the last one first; the first piece is complete only at the start of the file
        let mut end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        while end > 0 {
            let line_end = end - 1;
            let begin = tail.get(..line_end).and_then(|head| head.iter().rposition(|byte| *byte == b'\n'));
            if begin.is_none() && start > 0 {
                break;
            }
            let begin = begin.map_or(0, |at| at + 1);
            let line = tail.get(begin..line_end).unwrap_or_default();
            if let Ok(NumberedLogLine { seq }) = serde_json::from_slice(line) {
                return Ok((start + end as u64, Some(seq)));
            }
            end = begin;
        }
        if start == 0 {
            return Ok((0, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_of(content: &[u8]) -> (u64, Option<u64>) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("the write succeeds");
        last_line(&file).expect("the read succeeds")
    }

    #[test]
    fn last_line_ignores_a_torn_end() {
        assert_eq!(last_of(b""), (0, None));
        assert_eq!(last_of(b"{\"seq\":1}\n"), (10, Some(1)));
        assert_eq!(last_of(b"{\"seq\":1}\n{\"seq\":2"), (10, Some(1)));
        assert_eq!(last_of(b"{\"seq\":1}\n{\"seq\":2}"), (10, Some(1)), "a line without its end is torn");
        assert_eq!(
            last_of(b"{\"seq\":1}\n\0\0\0\0\0\n"),
            (10, Some(1)),
            "a block that never reached the disk"
        );
        assert_eq!(last_of(b"{\"seq\":"), (0, None));
    }

    #[test]
    fn last_line_finds_lines_longer_than_a_search_step() {
        let long = format!("{{\"seq\":1}}\n{{\"seq\":2,\"x\":\"{}\"}}\n{{\"seq\":3,", "x".repeat(200_000));
        let whole = long.rfind('\n').expect("a line end") as u64 + 1;
        assert_eq!(last_of(long.as_bytes()), (whole, Some(2)));
    }
}
