//! The log as the segments have it, read without the database, for checks of a store or of its backup.

use super::log::{self, LOG, row};
use super::logged_rows::RowComparison;
use crate::base::bundle::upgrade_group;
use crate::base::log_hashes::{TILES, name_of};
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, stored_in};
use crate::base::schema::schema;
use crate::base::watermark::{Watermark, WatermarkValues};
use crate::segments::{ReadSegment, SegmentFiles, SegmentHead, read_segments};
use domain_audit::event::{RetentionStarted, log_key_in};
use domain_audit::leaf::leaf_of;
use domain_audit::log_tiles::{TILE_HASHES, TilePlace};
use domain_audit::log_tree::{LogTree, TreeHash};
use domain_base::event::LoggedEvent;
use domain_base::row::Table;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use store_base::error::StoreError;

/// The bytes of groups that are sent together, and the number of such messages that are read ahead. A message has one group at least,
/// which can be much longer.
const SENT_BYTES: usize = 256 * 1024;
const SENT_AHEAD: usize = 2;

/// The log in the segments of a state directory. A daemon may append to them: the groups that are complete now are read.
#[derive(Debug)]
pub struct SegmentLog {
    dir: PathBuf,
    files: SegmentFiles,
    last: u64,
    /// The last entry that is read: a daemon may append further groups.
    up_to: u64,
    /// The high-water mark; `None` if its file is missing.
    mark: Option<WatermarkValues>,
}

/// Bytes after the last group of a segment that are not zeros: remains of a group that was not completed, or changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRemains {
    /// The number of the segment.
    pub segment: u64,
    /// The position of the first of these bytes in the uncompressed segment.
    pub at: u64,
}

/// One entry of the log.
#[derive(Debug)]
pub struct SegmentEntry<'l> {
    /// The number of the entry.
    pub seq: u64,
    /// Its line, or its hash if it was dropped.
    pub content: EntryContent<'l>,
    /// The number of the segment that has the entry, or of the file of the snapshot.
    pub segment: u64,
    /// The Merkle tree of the entries up to this one.
    pub tree: &'l LogTree,
}

/// The part of an entry that the segments have.
#[derive(Debug)]
pub enum EntryContent<'l> {
    Line {
        /// The entry's JSON, without a line end.
        line: &'l str,
        /// The rows that were committed with the entry; `None` if a snapshot has replaced its group.
        rows: Option<CommittedRows<'l>>,
    },
    /// The entry was dropped. Its hash in the Merkle tree.
    Dropped(TreeHash),
}

/// The rows of one group: those of one record, and of others that were committed with it.
#[derive(Debug, Clone, Copy)]
pub struct CommittedRows<'l> {
    batch: &'l RowBatch,
    dir: &'l Path,
}

impl CommittedRows<'_> {
    /// The stored row of `table`, or of its bundle, as it was after the commit. `None` if the group did not store one, or it was
    /// erased. The inner value is `None` if a chunk is missing.
    #[must_use]
    pub fn stored(&self, table: &'static Table, name: &str) -> Option<Option<Vec<u8>>> {
        rows::get_from(self.batch, stored_in(table), name.as_bytes())
    }

    /// The state directory.
    #[must_use]
    pub const fn dir(&self) -> &Path {
        self.dir
    }
}

impl SegmentLog {
    /// Whether `dir` is a state directory or a backup: it has segments, or a high-water mark.
    #[must_use]
    pub fn exists_in(dir: &Path) -> bool {
        SegmentFiles::new(dir).dir().exists() || Watermark::values_in(dir).ok().flatten().is_some()
    }

    /// Opens the log in `state_dir`, which is not changed.
    ///
    /// # Errors
    /// `Short` if a segment is missing, `Io` if the directory cannot be read.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        // before the segments: a daemon may append meanwhile
        let mark = Watermark::values_in(state_dir)?;
        let files = SegmentFiles::new(state_dir);
        let last = files.check_names()?.ok_or_else(|| files.missing(1))?;
        Ok(Self { dir: state_dir.to_owned(), files, last, up_to: u64::MAX, mark })
    }

    /// Opens the log in `state_dir` up to the group that ends with entry `up_to`.
    ///
    /// # Errors
    /// As for [`SegmentLog::open`].
    pub(crate) fn open_up_to(state_dir: &Path, up_to: u64) -> Result<Self, StoreError> {
        Self::open(state_dir).map(|log| Self { up_to, ..log })
    }

    /// The error for a log that ends at entry `entries`, and not at entry `expected`. `remains` are the bytes after its groups.
    pub(crate) fn end_error(&self, entries: u64, remains: &[SegmentRemains], expected: u64) -> StoreError {
        let last = remains.iter().find(|remains| remains.segment == self.last);
        let damage = last.map_or_else(String::new, |SegmentRemains { at, .. }| {
            format!(", the group at byte {at} is damaged")
        });
        let detail = format!(
            "segment {}: its log ends at entry {entries}, its high-water mark is at {expected}{damage}",
            self.last
        );
        StoreError::Short { dir: self.dir.clone(), detail }
    }

    /// The error for a log whose tree differs from the one that a daemon has of it.
    pub(crate) fn tree_error(&self) -> StoreError {
        self.files.damaged(self.last, "an entry was changed: the Merkle tree differs from that of the daemon")
    }

    /// The number of segments, with those of a snapshot.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.files.numbers_up_to(self.last).count() as u64
    }

    /// The state directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The high-water mark; `None` if its file is missing.
    pub(crate) const fn mark(&self) -> Option<&WatermarkValues> {
        self.mark.as_ref()
    }

    /// Passes all entries to `visit`, in the order of their numbers, until it returns false. Each group must have the Merkle
    /// tree of its entries. Returns the tree of all entries that were read.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged or its entries were changed, `Short` if a segment or the last entries are missing.
    pub fn read(&self, visit: impl FnMut(SegmentEntry<'_>) -> bool) -> Result<LogTree, StoreError> {
        self.read_with_rows(None, visit, |_| {}).map(|(tree, _)| tree)
    }

    /// Reads as [`SegmentLog::read`] does, and passes the rows of each group to `on_rows` and to `compared`. Also returns the remains
    /// after the groups.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read`].
    pub(crate) fn read_with_rows(
        &self,
        compared: Option<&mut RowComparison>,
        mut visit: impl FnMut(SegmentEntry<'_>) -> bool,
        mut on_rows: impl FnMut(&RowBatch),
    ) -> Result<(LogTree, Vec<SegmentRemains>), StoreError> {
        let mut rows = LogRows {
            log: self,
            tree: LogTree::default(),
            last_row: None,
            dropped: 0,
            is_in_snapshot: false,
            compared,
        };
        let in_snapshot = self.files.snapshot().map_or(0, |snapshot| snapshot.parts);
        let remains = thread::scope(|scope| {
            let (sender, groups) = mpsc::sync_channel(SENT_AHEAD);
            let reader = scope.spawn(move || self.send_groups(&sender));
            // the reader stops when its channel is closed
            for group in groups.into_iter().flatten() {
                let group: LogGroup = group;
                rows.is_in_snapshot = group.segment <= in_snapshot;
                on_rows(&group.batch);
                if !rows.read_group(&group, &mut visit)? {
                    // later groups, and faults in them, do not count
                    return Ok(Vec::new());
                }
            }
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok((rows.tree, remains))
    }

    /// Reads and decompresses all groups, and sends them until the receiver is gone. Returns the remains after them.
    fn send_groups(&self, sender: &SyncSender<Vec<LogGroup>>) -> Result<Vec<SegmentRemains>, StoreError> {
        let marked = self.mark.as_ref().map_or(0, |mark| mark.counts.entries).min(self.up_to);
        let check_end = |ReadSegment { end, remains }: &ReadSegment| {
            let remains = remains.map(|at| SegmentRemains { segment: self.last, at });
            let (is_reached, entries) = (end.group.entries >= marked, end.group.entries);
            is_reached.then_some(()).ok_or_else(|| self.end_error(entries, remains.as_slice(), marked))
        };
        let (mut remains, mut groups, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut head = None;
        let read = read_segments(
            &self.files,
            self.files.numbers_up_to(self.last),
            check_end,
            |segment, group| {
                if group.end.entries > self.up_to {
                    return Ok(false);
                }
                let damaged = |fault: &str| self.files.damaged(segment, fault);
                let mut batch = group.rows().ok_or_else(|| damaged("the rows of a group are malformed"))?;
                let rows = assemble_rows(&batch).map_err(|fault| damaged(&fault))?;
                bytes += group.bytes.len();
                if head.is_none_or(|head: SegmentHead| head.number != segment) {
                    head = Some(self.files.head(segment)?);
                }
                let mut earlier = None;
                if let Some(SegmentHead { schema: from, .. }) = head.filter(|head| head.schema < schema()) {
                    earlier = Some(batch.clone());
                    batch = upgrade_group(&self.dir, from, &batch)?;
                }
                groups.push(LogGroup { segment, batch, earlier, rows, entries: group.end.entries });
                // each message wakes the other thread, and most groups are small
                if bytes < SENT_BYTES {
                    return Ok(true);
                }
                bytes = 0;
                Ok(sender.send(std::mem::take(&mut groups)).is_ok())
            },
            |segment, at| remains.push(SegmentRemains { segment, at }),
        );
        // the groups before a fault, too
        drop(sender.send(groups));
        read.map(|_| remains)
    }
}

/// One group of the segments.
struct LogGroup {
    /// The number of its segment.
    segment: u64,
    /// Its rows in their present form.
    batch: RowBatch,
    /// Its rows as they are stored, if that is an earlier form.
    earlier: Option<RowBatch>,
    /// Its rows of the log: the number of the first entry, and the text.
    rows: Vec<(u64, RowText)>,
    /// The number of its last entry, by its head.
    entries: u64,
}

/// The text of a row. Texts of a few bytes can be gigabytes together, so only the first ones of a group are decompressed ahead.
enum RowText {
    Decoded(String),
    Stored(Vec<u8>),
}

/// The rows of the log that were read.
struct LogRows<'s> {
    log: &'s SegmentLog,
    tree: LogTree,
    /// The last row: the number of its first entry, and its text. The next group can replace it by a longer one.
    last_row: Option<(u64, String)>,
    /// The number of entries that were dropped.
    dropped: u64,
    /// Whether the groups are those of a snapshot.
    is_in_snapshot: bool,
    compared: Option<&'s mut RowComparison>,
}

impl LogRows<'_> {
    /// Reads the entries of one group. Returns whether `visit` continues.
    fn read_group(
        &mut self,
        group: &LogGroup,
        visit: &mut impl FnMut(SegmentEntry<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        let LogGroup { segment: number, batch, earlier, rows, entries: expected } = group;
        let (number, expected) = (*number, *expected);
        let first = self.tree.size() + 1;
        if let Some(compared) = &mut self.compared {
            compared.note_group(&self.log.dir, earlier.as_ref().unwrap_or(batch))?;
        }
        if self.is_in_snapshot && !self.read_dropped(number, batch, visit)? {
            return Ok(false);
        }
        for (first_seq, text) in rows {
            let decoded;
            let text = match text {
                RowText::Decoded(text) => text,
                RowText::Stored(value) => {
                    decoded = decode_row(*first_seq, value)
                        .map_err(|fault| self.log.files.damaged(number, &fault))?;
                    &decoded
                }
            };
            if !self.read_row((number, batch), *first_seq, text, visit)? {
                return Ok(false);
            }
        }
        // the other groups of a snapshot have no number and no tree
        if self.is_in_snapshot && expected == 0 {
            return Ok(true);
        }
        let last = self.tree.size();
        if last != expected {
            let fault = format!("a group ends at entry {last}, its head names entry {expected}");
            return Err(self.log.files.damaged(number, &fault));
        }
        if meta::tree_in(batch).as_ref() != Some(&self.tree) {
            let fault = format!("one of the entries {first} to {last} was changed: the Merkle tree differs");
            return Err(self.log.files.damaged(number, &fault));
        }
        Ok(true)
    }

    /// Reads the hashes of dropped entries in a group of a snapshot.
    fn read_dropped(
        &mut self,
        segment: u64,
        batch: &RowBatch,
        visit: &mut impl FnMut(SegmentEntry<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        self.dropped = meta::first_seq_in(batch).map_or(self.dropped, |first| first - 1);
        for (key, _) in batch.range(rows::all(TILES)).filter(|(key, _)| rows::is_first_chunk(key)) {
            let name = rows::name(key).unwrap_or_default();
            let tile = rows::get_from(batch, TILES, name).flatten().unwrap_or_default();
            let size = self.tree.size();
            if size >= self.dropped {
                return Ok(true);
            }
            let place = TilePlace { level: 0, index: size / TILE_HASHES as u64 };
            let (hashes, _) = tile.as_chunks();
            if name != name_of(place) || hashes.len() != TILE_HASHES {
                let fault = format!("the hash of entry {}, which was dropped, is missing", size + 1);
                return Err(self.log.files.damaged(segment, &fault));
            }
            for hash in hashes.iter().take((self.dropped - size).min(TILE_HASHES as u64) as usize) {
                self.tree.append_hash(*hash);
                let (seq, content) = (self.tree.size(), EntryContent::Dropped(*hash));
                if !visit(SegmentEntry { seq, content, segment, tree: &self.tree }) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads the new entries of a row.
    fn read_row(
        &mut self,
        (segment, batch): (u64, &RowBatch),
        first_seq: u64,
        text: &str,
        visit: &mut impl FnMut(SegmentEntry<'_>) -> bool,
    ) -> Result<bool, StoreError> {
        let damaged = |fault: &str| self.log.files.damaged(segment, fault);
        let next = self.tree.size() + 1;
        let known = match &self.last_row {
            Some((row, known)) if *row == first_seq => known.as_str(),
            _ if first_seq == next => "",
            _ => return Err(damaged(&format!("entry {next} is missing: entry {first_seq} is in its place"))),
        };
        let Some(new) = rest_after(known, text) else {
            let last = next - 1;
            return Err(damaged(&format!(
                "one of the entries {first_seq} to {last} is stored with two texts"
            )));
        };
        for line in new.lines() {
            let seq = self.tree.size() + 1;
            if !line.starts_with(&format!("{{\"seq\":{seq},")) {
                return Err(damaged(&format!("entry {seq} is missing: its line has another number")));
            }
            self.tree.append(log::leaf(&self.log.dir, line)?.as_bytes());
            if let Some(compared) = &mut self.compared {
                compared.note_entry(seq, line).map_err(|error| log::damaged_line(&self.log.dir, &error))?;
            }
            // a snapshot has rows of later groups too
            let rows = (!self.is_in_snapshot).then_some(CommittedRows { batch, dir: &self.log.dir });
            let content = EntryContent::Line { line, rows };
            if !visit(SegmentEntry { seq, content, segment, tree: &self.tree }) {
                return Ok(false);
            }
        }
        self.last_row = Some((first_seq, text.to_owned()));
        Ok(true)
    }
}

/// The rest of `text` after the lines of `known`. An erasure in progress can have hidden values of lines in one of them.
fn rest_after<'t>(known: &str, text: &'t str) -> Option<&'t str> {
    if let Some(rest) = text.strip_prefix(known) {
        return Some(rest);
    }
    let mut rest = text;
    for line in known.lines() {
        let (other, after) = rest.split_once('\n')?;
        if leaf_of(line).ok()? != leaf_of(other).ok()? {
            return None;
        }
        rest = after;
    }
    Some(rest)
}

/// The rows of the log in a group: the number of the first entry and the text of each. The error is a fault.
fn assemble_rows(batch: &RowBatch) -> Result<Vec<(u64, RowText)>, String> {
    let mut found: Vec<(u64, u16, Vec<u8>)> = Vec::new();
    for (key, value) in batch.range(rows::all(LOG)) {
        let seq = log::first_seq_of(key).unwrap_or_default();
        let value = value.ok_or_else(|| format!("entry {seq} was removed"))?;
        match found.last_mut() {
            Some((last, chunks, text)) if *last == seq && !rows::is_first_chunk(key) => {
                *chunks = chunks.saturating_sub(1);
                text.extend_from_slice(value);
            }
            _ => {
                let (_, chunks, start) = rows::split_head(Path::new(""), value)
                    .map_err(|_| format!("the row of entry {seq} is shorter than its head"))?;
                found.push((seq, chunks.saturating_sub(1), start.to_vec()));
            }
        }
    }
    let mut decoded_bytes = 0;
    let text_of = |(seq, missing, value): (u64, u16, Vec<u8>)| {
        if missing > 0 {
            return Err(format!("the row of entry {seq} is not whole"));
        }
        if decoded_bytes > SENT_BYTES {
            return Ok((seq, RowText::Stored(value)));
        }
        let text = decode_row(seq, &value)?;
        decoded_bytes += text.len();
        Ok((seq, RowText::Decoded(text)))
    };
    found.into_iter().map(text_of).collect()
}

/// The text of the row whose first entry is `seq`.
fn decode_row(seq: u64, value: &[u8]) -> Result<String, String> {
    let text = row::decode(value).ok_or_else(|| format!("the row of entry {seq} is not whole"))?;
    Ok(text.into_owned())
}

/// The state at the end of a log.
#[derive(Debug, PartialEq)]
pub struct LogState {
    /// The tree of all entries.
    pub tree: LogTree,
    /// The first entry that was not dropped.
    pub first_seq: u64,
    /// The last public key that the log names.
    pub log_key: Option<String>,
    /// The bytes after the groups of segments.
    pub remains: Vec<SegmentRemains>,
    /// The last damage of a segment whose copy was read in its place.
    pub damage: Option<String>,
    /// Whether the high-water mark has the counts of one of the groups.
    is_mark_known: bool,
    /// The id of the store, of the first group.
    store_id: Option<u64>,
}

impl SegmentLog {
    /// Reads all entries as [`SegmentLog::read`] does, and with them the state at the end. `compared` and `on_rows` get the rows of
    /// each group.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read`].
    pub fn read_state(
        &self,
        compared: Option<&mut RowComparison>,
        mut visit: impl FnMut(SegmentEntry<'_>) -> bool,
        mut on_rows: impl FnMut(&RowBatch),
    ) -> Result<LogState, StoreError> {
        let mut log_key = None;
        let (mut is_mark_known, mut store_id) = (self.mark().is_none(), None);
        let (mut first_seq, mut is_drop_logged, mut is_stopped) = (1, true, false);
        let (tree, remains) = self.read_with_rows(
            compared,
            |entry| {
                match &entry.content {
                    EntryContent::Dropped(_) => (first_seq, is_drop_logged) = (entry.seq + 1, false),
                    EntryContent::Line { line, .. } => {
                        log_key = log_key_in(line).ok().flatten().or_else(|| log_key.take());
                        if let Ok(Some(started)) = LoggedEvent::<RetentionStarted>::read(line) {
                            is_drop_logged |= started.event.0.due.dropped_up_to() == Some(first_seq - 1);
                        }
                    }
                }
                let proceeds = visit(entry);
                is_stopped |= !proceeds;
                proceeds
            },
            |batch| {
                on_rows(batch);
                store_id = store_id.or_else(|| meta::store_id_in(batch));
                is_mark_known |= meta::counts_in(batch).as_ref() == self.mark().map(|mark| &mark.counts);
            },
        )?;
        if !is_drop_logged && !is_stopped {
            let detail =
                format!("entries 1 to {} are missing, and no later entry names their removal", first_seq - 1);
            return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
        }
        let damage = self.files.segment_damage().text();
        Ok(LogState { tree, first_seq, log_key, remains, damage, is_mark_known, store_id })
    }

    /// Compares the high-water mark with the state at the end of the log. Returns the number of its entries, if it is less than the
    /// log has.
    ///
    /// # Errors
    /// `Corrupt` if the high-water mark is not that of the log, or one of its bytes was changed.
    pub fn verify_mark(&self, state: &LogState) -> Result<Option<u64>, StoreError> {
        let corrupt =
            |detail: &str| StoreError::Corrupt { dir: self.dir().to_owned(), detail: detail.to_owned() };
        Watermark::verify_file(self.dir())?;
        let Some(mark) = self.mark() else { return Ok(None) };
        if state.store_id != Some(mark.store_id) {
            return Err(corrupt("its high-water mark, the file watermark, is that of another store"));
        }
        if !state.is_mark_known {
            return Err(corrupt(
                "its high-water mark, the file watermark, has counts that the log never had",
            ));
        }
        Ok(Some(mark.counts.entries).filter(|marked| *marked < state.tree.size()))
    }
}

#[cfg(test)]
mod tests;
