//! `oracle_log.jsonl`: a copy of the log as a file that `tail`, `jq` and log shippers read.
//!
//! Entries are appended after their commit. The database is authoritative. The mirror lacks entries if the daemon was
//! killed between commit and append, or if the file could not be written. Missing entries are copied from the database,
//! beginning after the last complete line.
//!
//! A line is that of the log, but for the values that only the log has, with hashes in their place: so its leaf is the same.
//!
//! The file is compared with the log, line by line. A file with another line is moved aside, and written again.

pub(crate) mod erasure;

use crate::audit::log::{LINE_START, LogQuery, seq_of_line};
use crate::base::engine::TableReader;
use domain_audit::leaf::is_erased_form;
use oracled_domain::events::mirrored_line;
use serde::Deserialize;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use store_base::disk::FileIdentity;
use store_base::error::StoreError;

const FILE: &str = "oracle_log.jsonl";
/// The search for the last complete line reads the end of the file in steps of this many bytes, or more for a
/// longer line.
const SEARCH_BYTES: u64 = 64 * 1024;
/// A power cut can leave zeros between written lines. They are searched in this many bytes at the end of the file.
const HOLES_WITHIN_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of files that are kept aside. A program that changes the mirror every day would otherwise fill the disk.
const ASIDE_MAX: u32 = 10;
/// Entries that are compared at a time.
const COMPARED_AT_ONCE: usize = if cfg!(test) { 3 } else { 256 };
/// Entries of a page that [`LogMirror::repair`] copies at most. The limit is low in tests, so that they reach it.
const COPIED_AT_ONCE: usize = if cfg!(test) { 8 } else { usize::MAX };
/// Pages of missing entries that [`LogMirror::repair`] copies at most, since commits wait meanwhile. A page has up to 4 MiB.
const PAGES_AT_ONCE: usize = 4;

/// A difference between the mirror and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorFault {
    /// The number of the first entry whose line is missing or different; one more than the last entry for a line that follows
    /// all entries.
    pub seq: u64,
    /// Where its line is expected, in bytes from the start of the file.
    pub offset: u64,
}

/// The mirror at one time, to compare it with the log while the daemon serves.
#[derive(Debug)]
pub struct MirrorSnapshot {
    file: File,
    entries: RangeInclusive<u64>,
    /// The length of the file, in bytes.
    len: u64,
    /// Identifies the file among those that the mirror had.
    generation: u64,
}

/// The mirror file and its state.
#[derive(Debug)]
pub(crate) struct LogMirror {
    path: PathBuf,
    file: File,
    /// The length up to the end of the last complete line, in bytes.
    len: u64,
    /// The number of the first entry in the file.
    pub(crate) first_seq: u64,
    /// The number of the last entry in the file.
    pub(crate) last_seq: u64,
    /// Counts the files that the mirror had.
    generation: u64,
    pub(crate) identity: FileIdentity,
    /// The fault that the opening found and repaired.
    pub(crate) found: Option<MirrorFault>,
    dirty: bool,
    /// The error of the last append; `None` after a successful one.
    pub(crate) lag: Option<String>,
}

impl LogMirror {
    /// Opens the mirror in `dir`, which begins with entry `first_seq` and had entry `mirrored` at its last sync. A torn last
    /// line is cut off. An empty file continues after entry `mirrored`, since the previous file was rotated away, unless it is `known`, the
    /// file that had these entries. If it is that one, or has lines of another program and is moved aside, its entries are written again.
    pub(crate) fn open(
        dir: &Path,
        mirrored: u64,
        first_seq: u64,
        known: Option<FileIdentity>,
    ) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let foreign = move_aside_if_foreign(&path, mirrored).map_err(io)?;
        let OpenedMirror { file, len, last, identity } = open_file(&path, mirrored).map_err(io)?;
        let is_emptied = first_seq <= mirrored && known == Some(identity);
        let (first_seq, last_seq) = match last {
            Some(last) => (first_seq, last),
            None if foreign || is_emptied => (first_seq, first_seq.saturating_sub(1)),
            None => {
                if mirrored > 0 {
                    tracing::warn!(
                        last_seq = mirrored,
                        "oracle_log.jsonl is missing or empty, and continues after this entry, as after a rotation; if it was not rotated, \
                         `oraclectl log --json --after 0` prints the entries"
                    );
                }
                (mirrored + 1, mirrored)
            }
        };
        let is_short = foreign || last_seq < mirrored;
        let found = is_short.then_some(MirrorFault { seq: last_seq + 1, offset: len });
        let (generation, dirty, lag) = (0, false, None);
        Ok(Self { file, len, first_seq, last_seq, generation, identity, found, path, dirty, lag })
    }

    /// The number of the last entry, if it is at most `known` or agrees with the number of lines. Otherwise the last line does not
    /// count: its number can be damaged, or another program has written it.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub(crate) fn last_plausible(&self, known: u64) -> Result<u64, StoreError> {
        if self.last_seq <= known {
            return Ok(self.last_seq);
        }
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        let mut lines = BufReader::new(File::open(&self.path).map_err(io)?).take(self.len);
        let mut counted = self.first_seq - 1;
        loop {
            let bytes = lines.fill_buf().map_err(io)?;
            if bytes.is_empty() {
                return Ok(if self.last_seq == counted { counted } else { counted.saturating_sub(1) });
            }
            counted += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let read = bytes.len();
            lines.consume(read);
        }
    }

    /// Moves the file aside if its last line is not the log's: it belongs to another store, or was edited.
    ///
    /// # Errors
    /// `Io` if the file cannot be read or moved.
    pub(crate) fn check_last_line(&mut self, store: &TableReader) -> Result<(), StoreError> {
        if let Some(line) = self.last_line()?
            && !store.has_line(self.last_seq, &line)?
        {
            let offset = self.len - line.len() as u64 - 1;
            self.found = Some(MirrorFault { seq: self.last_seq, offset });
            self.move_aside()?;
        }
        Ok(())
    }

    /// The last line of the file, without its line end; `None` if the file is empty.
    fn last_line(&self) -> Result<Option<Vec<u8>>, StoreError> {
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

    /// Moves the file aside, since it has lines that the log did not write, and creates an empty one that will get the same
    /// entries again.
    ///
    /// # Errors
    /// `Io` if the file cannot be moved.
    pub(crate) fn move_aside(&mut self) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        move_aside(&self.path).map_err(io)?;
        let OpenedMirror { file, len, identity, .. } = open_file(&self.path, self.last_seq).map_err(io)?;
        (self.file, self.len, self.identity) = (file, len, identity);
        self.last_seq = self.first_seq.saturating_sub(1);
        self.generation += 1;
        Ok(())
    }

    /// The mirror as it is now. If another file has its name, or none, the mirror continues there, as after a rotation.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub(crate) fn snapshot(&mut self) -> Result<MirrorSnapshot, StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        let id = |found: &fs::Metadata| (found.dev(), found.ino());
        let written = self.file.metadata().map_err(io)?;
        if fs::metadata(&self.path).ok().is_none_or(|named| id(&named) != id(&written)) {
            self.reopen()?;
        }
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        let file = File::open(&self.path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        let entries = self.first_seq..=self.last_seq;
        Ok(MirrorSnapshot { file, entries, len, generation: self.generation })
    }

    /// Whether `snapshot` is of the file that is written now.
    pub(crate) const fn is_current(&self, snapshot: &MirrorSnapshot) -> bool {
        self.generation == snapshot.generation
    }

    /// Appends `lines`, which end with entry `last_seq`. Missing entries before `first_seq` are copied from
    /// the database first.
    pub(crate) fn append(&mut self, store: &TableReader, lines: &[u8], first_seq: u64, last_seq: u64) {
        let appended = if first_seq == self.last_seq + 1 {
            self.write(&mirrored(lines), last_seq).map(|()| true)
        } else {
            self.catch_up(store, last_seq, 1)
        };
        self.note_append_result(appended);
    }

    /// Copies missing entries up to `last_seq` from the database. Of many entries only the first ones are copied, and a later
    /// call continues.
    pub(crate) fn repair(&mut self, store: &TableReader, last_seq: u64) {
        if self.last_seq < last_seq {
            let repaired = self.catch_up(store, last_seq, PAGES_AT_ONCE);
            self.note_append_result(repaired);
        }
    }

    /// Opens the file by its name again, for use after a rotation.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        move_aside_if_foreign(&self.path, self.last_seq).map_err(io)?;
        let OpenedMirror { file, len, last, identity } = open_file(&self.path, self.last_seq).map_err(io)?;
        if last.is_some_and(|last| last > self.last_seq) {
            let text = "its last entry has a higher number than the log's; move the file away";
            return Err(io(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "could not sync the previous oracle_log.jsonl");
        }
        (self.file, self.len, self.identity) = (file, len, identity);
        // an empty file is a new one; another file must have the same lines as the previous one
        if last.is_none() {
            self.first_seq = self.last_seq + 1;
        }
        self.last_seq = last.unwrap_or(self.last_seq);
        self.generation += 1;
        Ok(())
    }

    /// Continues with entry `first`, the first one of the log, if the file ends before it.
    pub(crate) fn skip_to(&mut self, first: u64) {
        if self.last_seq + 1 < first {
            (self.first_seq, self.last_seq) = (first, first - 1);
        }
    }

    /// Syncs written entries to the disk and returns the number of the last one.
    pub(crate) fn sync(&mut self) -> io::Result<u64> {
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(self.last_seq)
    }

    /// Notes the result of an append: whether the file is complete.
    fn note_append_result(&mut self, appended: io::Result<bool>) {
        match appended {
            Ok(true) if self.lag.is_some() => {
                self.lag = None;
                tracing::info!(last_seq = self.last_seq, "oracle_log.jsonl is complete again");
            }
            Ok(true) => {}
            Ok(false) => self.lag = Some("missing entries are being copied".to_owned()),
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

    /// Copies up to `pages` pages of missing entries. Returns whether the file has all entries up to `last_seq` then.
    fn catch_up(&mut self, store: &TableReader, last_seq: u64, pages: usize) -> io::Result<bool> {
        for _ in 0..pages {
            if self.last_seq >= last_seq {
                break;
            }
            let query = LogQuery { after: self.last_seq, limit: COPIED_AT_ONCE, ..LogQuery::default() };
            let entries = store.log_page(&query).map_err(io::Error::other)?.lines;
            let Some(last) = entries.last() else {
                return Err(io::Error::other(format!("the log ends before entry {last_seq}")));
            };
            let lines: String =
                entries.iter().flat_map(|line| [mirrored_line(&line.json), Cow::Borrowed("\n")]).collect();
            self.write(lines.as_bytes(), last.seq)?;
        }
        Ok(self.last_seq >= last_seq)
    }
}

/// These lines of the log as the file has them.
fn mirrored(lines: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = str::from_utf8(lines) else { return Cow::Borrowed(lines) };
    let shown: Vec<_> = text.lines().map(mirrored_line).collect();
    if shown.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(lines);
    }
    Cow::Owned(shown.iter().flat_map(|line| [line.as_bytes(), b"\n"]).collect::<Vec<_>>().concat())
}

/// Whether `line` of the file is that of the log's entry `logged`. It can have values that the file need not have, as in a file that was
/// made from the log, and values that an erasure has not removed from the file yet.
#[must_use]
pub fn is_mirror_line(logged: &str, line: &[u8]) -> bool {
    let expected = mirrored_line(logged);
    expected.as_bytes() == line || is_erased_form(&expected, line)
}

/// The line of `file` that begins at byte `offset`, with its end.
fn read_line_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(offset))?;
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line)?;
    Ok(line)
}

impl TableReader {
    /// Compares the mirror with the log. Returns the first difference. Calls `proceed` every few entries; `None` without a
    /// difference, or if `proceed` returned false.
    ///
    /// # Errors
    /// The log cannot be read, or lacks an entry of the mirror.
    pub fn check_mirror(
        &self,
        MirrorSnapshot { file, entries, len, .. }: &MirrorSnapshot,
        mut proceed: impl FnMut() -> bool,
    ) -> Result<Option<MirrorFault>, StoreError> {
        let first = self.first_seq()?;
        let (mut after, mut offset) = ((*entries.start()).max(first) - 1, 0);
        if *entries.start() < first {
            offset = length_before(file, first).map_err(|source| self.mirror_error(source))?;
        }
        while after < *entries.end() && proceed() {
            let query = LogQuery { after, limit: COMPARED_AT_ONCE, ..LogQuery::default() };
            let lines = self.log_page(&query)?.lines;
            if lines.first().is_none_or(|line| line.seq > *entries.end()) {
                let detail = format!("the log has no entry between {after} and {}", entries.end() + 1);
                return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
            }
            for line in lines.into_iter().take_while(|line| line.seq <= *entries.end()) {
                let expected = [mirrored_line(&line.json).as_bytes(), b"\n"].concat();
                let end = offset + expected.len() as u64;
                let mut found = vec![0; expected.len()];
                if end <= *len && file.read_exact_at(&mut found, offset).is_ok() && found == expected {
                    (after, offset) = (line.seq, end);
                    continue;
                }
                // an erasure that was interrupted has not replaced the file yet
                let found = read_line_at(file, offset).unwrap_or_default();
                let Some(found) = found.strip_suffix(b"\n").filter(|found| is_mirror_line(&line.json, found))
                else {
                    return Ok(Some(MirrorFault { seq: line.seq, offset }));
                };
                (after, offset) = (line.seq, offset + found.len() as u64 + 1);
            }
        }
        let is_longer = after == *entries.end() && offset < *len;
        Ok(is_longer.then_some(MirrorFault { seq: after + 1, offset }))
    }

    fn mirror_error(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.dir().join(FILE), source }
    }
}

/// The length of the lines at the start of `file` that are of entries before `first`: a retention that was interrupted has not
/// removed them yet.
fn length_before(file: &File, first: u64) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let line = read_line_at(file, length)?;
        if seq_of_line(&line).is_none_or(|seq| seq >= first) {
            return Ok(length);
        }
        length += line.len() as u64;
    }
}

/// Moves the file aside if complete lines of another program follow our last line: they must not be cut off. Entry `synced` and those
/// before it are on the disk.
fn move_aside_if_foreign(path: &Path, synced: u64) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        // opening a named pipe would wait for a process at its other end
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    let (ours, _) = last_line(&file, synced)?;
    let mut rest = BufReader::new(file);
    rest.seek(SeekFrom::Start(ours))?;
    let (mut foreign, mut torn, mut has_hole) = (false, false, false);
    let mut piece = Vec::new();
    while !foreign && rest.by_ref().take(SEARCH_BYTES).read_until(b'\n', &mut piece)? > 0 {
        let ended = piece.ends_with(b"\n");
        // a block that did not reach the disk before a power cut reads as zeros; later blocks, with further lines, may be there
        let is_holed = piece.contains(&0);
        has_hole = has_hole || is_holed;
        let is_ours = piece.starts_with(LINE_START);
        // text that begins like one of our lines and has no line end is a torn line of any length; other text
        // is foreign if it has a line end or fills a piece
        torn = torn || is_ours || is_holed;
        let is_remains = is_holed || (torn && (has_hole || !ended));
        let whole = ended || piece.len() as u64 == SEARCH_BYTES;
        foreign = whole && !is_remains && piece.iter().any(|byte| !byte.is_ascii_whitespace());
        torn = torn && !ended;
        piece.clear();
    }
    if foreign {
        move_aside(path)?;
    }
    Ok(foreign)
}

fn move_aside(path: &Path) -> io::Result<()> {
    let name = |n: u32| path.with_extension(format!("jsonl.foreign-{n}"));
    let aside = (1..ASIDE_MAX).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(ASIDE_MAX));
    fs::rename(path, &aside)?;
    tracing::warn!(aside = %aside.display(), "moved oracle_log.jsonl aside: it has lines that the log did not write");
    Ok(())
}

/// The file, which is open for appending.
struct OpenedMirror {
    file: File,
    /// The length up to the end of the last complete line, in bytes.
    len: u64,
    /// The number of that line.
    last: Option<u64>,
    identity: FileIdentity,
}

/// Opens the file for appending, cuts off the bytes after its last complete line, and reads that line's number.
fn open_file(path: &Path, synced: u64) -> io::Result<OpenedMirror> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let (len, last) = last_line(&file, synced)?;
    let found = file.metadata()?;
    if len < found.len() {
        tracing::warn!(path = %path.display(), kept_bytes = len, "cut off torn last lines");
        file.set_len(len)?;
    }
    Ok(OpenedMirror { file, len, last, identity: FileIdentity::of(&found) })
}

/// The length up to the end of the last complete line, and that line's number. Lines after zeros do not count, since lines before them
/// are missing. Entry `synced` and those before it are on the disk, so no zeros are between them.
fn last_line(file: &File, synced: u64) -> io::Result<(u64, Option<u64>)> {
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
        let mut last = None;
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
            if line.contains(&0) {
                last = None;
            } else if let Ok(NumberedLogLine { seq }) = serde_json::from_slice(line) {
                let (_, last_seq) = *last.get_or_insert((start + end as u64, seq));
                if seq <= synced {
                    return Ok((last.map_or(0, |(end, _)| end), Some(last_seq)));
                }
            }
            end = begin;
        }
        if start == 0 || (last.is_some() && tail.len() >= HOLES_WITHIN_BYTES) {
            return Ok(last.map_or((0, None), |(end, seq)| (end, Some(seq))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_of(content: &[u8]) -> (u64, Option<u64>) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("the write succeeds");
        last_line(&file, 0).expect("the read succeeds")
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
