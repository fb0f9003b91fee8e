//! The audit log. Entries are numbered from 1 without gaps and are found by number, session, execution, event and time.
//!
//! A row holds the entries of several records that fit into one chunk, or of one larger record, compressed. The entries
//! are lines of JSON; the row's key is the number of the first one. sled keeps about 280 bytes in memory for
//! each page of up to 16 rows: with one row for each record, that memory would exceed the whole cache. The
//! last row is replaced while it grows. Opening the store begins a new row.
//!
//! A row begins with the latest timestamp of all entries up to its own last one. This value never falls from
//! row to row, even if the clock is set back. Bisection finds the first row with entries from a given time
//! on, without an index.
//!
//! The records of a session and of a verification are indexed by the number of their last entry. The record
//! that wrote the session's row is an exception: the revision of that row is this number, and the record is
//! indexed when the row is replaced. Events are indexed by blocks of [`BLOCK_ENTRIES`]. Common events are in
//! every block, and an index of single records would cost two keys a record without narrowing the search. A
//! search for rare events reads few blocks.

mod append;
mod links;
pub(crate) mod row;

use crate::base::database::Database;
use crate::base::engine::TableReader;
use crate::base::row_batch::RowBatch;
use crate::base::rows::key;
use crate::base::{meta, rows};
use domain_audit::leaf::{LogLineError, hide_values, is_addition, leaf_of};
use domain_audit::log_tiles::TILE_HASHES;
use domain_base::event::{EventClass, event_in, read_open};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use oracled_domain::events::event_type;
use oracled_domain::tables::tables;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use store_base::error::StoreError;

pub use append::RecordCallers;
pub(crate) use append::{LogTip, RecordLogEntries, index_session, put, put_line};
pub use links::EvidenceEntry;

/// The table of the entries: the text of some successive ones under the number of the first.
pub(crate) const LOG: &str = "log";
/// The indexes of the log: the numbers of entries under a session, an execution and an event.
pub(crate) const BY_SESSION: &str = "by_session";
pub(crate) const BY_EXECUTION: &str = "by_execution";
pub(crate) const BY_EVENT: &str = "by_event";
/// The table of the entries that were dropped from the log and that other rows depend on.
pub(crate) const KEPT_ENTRIES: &str = "kept_entries";
/// Entries in a block of the index of events. A row belongs to the block of its first entry.
const BLOCK_ENTRIES: u64 = 256;
/// Rows that a search reads at a time, at most. Between two such reads, the database can be reopened after a
/// failed write, or to renew its snapshot.
const ROWS_AT_ONCE: usize = if cfg!(test) { 2 } else { 256 };
/// The number of the newest entries in which the mark of the test mode is searched.
const MARKED_ENTRIES: usize = 100;
/// Bytes of entries that are read at a time, at most. A longer single entry is read alone: a decision's entry can have
/// megabytes.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The first bytes of the line of an entry. The number of the entry follows.
pub(crate) const LINE_START: &[u8] = b"{\"seq\":";

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The number of the entry.
    pub seq: u64,
    /// The entry's JSON with `seq`, without a line end.
    pub json: String,
}

/// One page of the result of a log query.
#[derive(Debug, Clone, Default)]
pub struct LogPage {
    /// The entries in ascending order: at most 4 MiB, or one longer entry. Can be empty even if `next` is set.
    pub lines: Vec<LogLine>,
    /// The numbers of the entries among them that cannot be read, in ascending order, if the query skips these.
    pub unreadable: Vec<u64>,
    /// The query for the next page; `None` on the last page.
    pub next: Option<LogQuery>,
}

impl LogPage {
    /// The page without the numbers after its last line, which the next page has.
    fn cut(mut self) -> Self {
        let last = self.lines.last().map_or(0, |line| line.seq);
        self.unreadable.retain(|seq| *seq < last);
        self
    }
}

impl TableReader {
    /// All entries that match `query`. Use this only for results that are known to be small.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self, query: &LogQuery) -> Result<Vec<LogLine>, StoreError> {
        let LogPage { mut lines, mut next, .. } = self.log_page(query)?;
        while let Some(query) = next {
            let page = self.log_page(&query)?;
            lines.extend(page.lines);
            next = page.next;
        }
        Ok(lines)
    }

    /// Whether a daemon in test mode wrote the log; `None` if the log is empty. Tools that open the store may have added entries
    /// without a mark.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn is_log_of_test_mode(&self) -> Result<Option<bool>, StoreError> {
        #[derive(Deserialize)]
        struct Mark {
            #[serde(default)]
            test_mode: bool,
        }
        let lines = self.log(&LogQuery { newest: true, limit: MARKED_ENTRIES, ..LogQuery::default() })?;
        let is_marked =
            |line: &LogLine| serde_json::from_str(&line.json).is_ok_and(|mark: Mark| mark.test_mode);
        Ok((!lines.is_empty()).then(|| lines.iter().any(is_marked)))
    }

    /// Whether new entries are marked as those of a daemon in test mode.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.engine().is_test()
    }

    /// One page of the entries that match `query`: the lowest numbers first, at most 4 MiB in memory.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log_page(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        if query.newest {
            return self.newest(query);
        }
        self.read(|db, durable_seq| LogReader { store: self, db, durable_seq }.page(query))
    }

    /// The last entries that match, or the first page of them if they exceed one page.
    fn newest(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        let mut newest =
            NewestLogMatches { lines: Vec::new(), found: 0, bytes: 0, first_seq: 1, before: Some(u64::MAX) };
        while let Some(before) = newest.before {
            self.read(|db, durable_seq| {
                let durable_seq = durable_seq.min(before.saturating_sub(1));
                LogReader { store: self, db, durable_seq }.extend(&mut newest, query)
            })?;
        }
        let NewestLogMatches { mut lines, found, bytes, first_seq, .. } = newest;
        if bytes > PAGE_BYTES {
            let after = first_seq.saturating_sub(1);
            return self.log_page(&LogQuery { after, limit: found, newest: false, ..query.clone() });
        }
        lines.reverse();
        Ok(LogPage { lines, ..LogPage::default() })
    }

    /// Parses an entry.
    ///
    /// # Errors
    /// `Corrupt` if it has other members.
    pub fn parse_entry<T: DeserializeOwned>(&self, line: &LogLine) -> Result<T, StoreError> {
        self.read_entry(line, |json| serde_json::from_str(json))
    }

    /// The result of `read` for the line of an entry.
    ///
    /// # Errors
    /// `Corrupt` if it cannot read the line.
    pub fn read_entry<T>(
        &self,
        line: &LogLine,
        read: impl FnOnce(&str) -> Result<T, serde_json::Error>,
    ) -> Result<T, StoreError> {
        read(&line.json).map_err(|error| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("entry {}: {error}", line.seq),
        })
    }

    /// The line of an entry without what the journal added to its event.
    ///
    /// # Errors
    /// `Corrupt` if the line is not an entry.
    pub fn withhold_additions(&self, line: &LogLine) -> Result<String, StoreError> {
        let shown = hide_values(&line.json, is_addition);
        Ok(shown.map_err(|error| damaged_line(self.dir(), &error))?.into_owned())
    }

    /// The number of the first entry that was not dropped.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn first_seq(&self) -> Result<u64, StoreError> {
        self.read(|db, _| meta::first_seq(db, self.dir()))
    }

    /// The timestamp of the last entry.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn last_entry_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let lines = self.log(&LogQuery { newest: true, limit: 1, ..LogQuery::default() })?;
        let fields = lines.first().map(|line| self.parse_entry::<LogEntryFields>(line)).transpose()?;
        Ok(fields.map(|fields| fields.timestamp))
    }

    /// The latest timestamp of an entry. It is not that of the last entry if the clock was set back.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn latest_entry_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let latest = self.read(|db, durable_seq| {
            let reader = LogReader { store: self, db, durable_seq };
            // each row has the latest time of the log up to its end
            reader.latest_time_us(reader.row_with(durable_seq)?)
        })?;
        Ok(Timestamp::from_microsecond(latest).ok())
    }
}

/// The matches of a search from the end so far, the highest number first.
struct NewestLogMatches {
    /// Cleared as soon as the matches exceed a page.
    lines: Vec<LogLine>,
    found: usize,
    bytes: usize,
    first_seq: u64,
    /// The search continues below this entry number. `None` at the end.
    before: Option<u64>,
}

struct LogReader<'a> {
    store: &'a TableReader,
    db: Database<'a>,
    durable_seq: u64,
}

impl LogReader<'_> {
    /// The number of the first entry of each row that may match `query`, from `from` on, in order. Can repeat a row.
    fn rows(
        &self,
        query: &LogQuery,
        from: u64,
    ) -> Result<Box<dyn DoubleEndedIterator<Item = Result<u64, StoreError>> + '_>, StoreError> {
        let end = self.durable_seq.saturating_add(1);
        if let Some(execution) = &query.execution {
            let numbers = self.numbers(&by_execution(execution), from..end, |_| true);
            return Ok(Box::new(numbers.map(|number| self.row_with(number?))));
        }
        Ok(match (&query.session, query.events.as_slice()) {
            (Some(session), _) => {
                let prefix = by_session(session);
                let written = self.session_revision(session)?.filter(|seq| (from..end).contains(seq));
                let (before, after) = written.map_or((end, end), |seq| (seq, seq.saturating_add(1)));
                let before = self.numbers(&prefix, from..before, |_| true);
                let after = self.numbers(&prefix, after..end, |_| true);
                let numbers = before.chain(written.map(Ok)).chain(after);
                Box::new(numbers.map(|number| self.row_with(number?)))
            }
            (None, []) => Box::new(self.log_rows(from..end)),
            (None, events) => {
                let blocks = self.blocks(events, block_of(from)..end);
                Box::new(blocks.flat_map(move |block| -> Box<dyn DoubleEndedIterator<Item = _>> {
                    match block {
                        Ok(block) => {
                            let block_end = block.saturating_add(BLOCK_ENTRIES).min(end);
                            Box::new(self.log_rows(block.max(from)..block_end))
                        }
                        Err(error) => Box::new(std::iter::once(Err(error))),
                    }
                }))
            }
        })
    }

    /// The number of the last entry of the record that wrote a session.
    fn session_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let Some(table) = tables().find(|table| table.finds_entries) else { return Ok(None) };
        Ok(self.store.bundle_in(self.db, table, session_id.as_str())?.row(table).map(|row| row.revision))
    }

    /// The first numbers of the blocks in `range` with events of these names, in order.
    fn blocks(
        &self,
        events: &[String],
        range: Range<u64>,
    ) -> Box<dyn DoubleEndedIterator<Item = Result<u64, StoreError>> + '_> {
        if let [event] = events {
            return Box::new(self.numbers(&by_event(event), range, |_| true));
        }
        let prefixes = events.iter().map(|event| by_event(event)).collect();
        Box::new(BlocksOfEvents { reader: self, prefixes, range })
    }

    /// The first entry's number of each row, of those in `range`.
    fn log_rows(
        &self,
        range: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = Result<u64, StoreError>> + use<'_> {
        self.numbers(&key(LOG, &[]), range, rows::is_first_chunk)
    }

    /// The numbers in `range` that follow `prefix` in those keys for which `is_included` returns true.
    fn numbers(
        &self,
        prefix: &[u8],
        range: Range<u64>,
        is_included: fn(&[u8]) -> bool,
    ) -> impl DoubleEndedIterator<Item = Result<u64, StoreError>> + use<'_> {
        let bound = |seq: u64| [prefix, &seq.to_be_bytes()].concat();
        let at = prefix.len();
        self.db.range(bound(range.start)..bound(range.end)).filter_map(move |entry| {
            let key = match entry {
                Ok((key, _)) => key,
                Err(error) => return Some(Err(error)),
            };
            let seq = key.get(at..at + 8).and_then(|seq| seq.try_into().ok()).map(u64::from_be_bytes);
            seq.filter(|_| is_included(&key)).map(Ok)
        })
    }

    /// The first page of matches.
    fn page(&self, query: &LogQuery) -> Result<LogPage, StoreError> {
        let mut page = LogPage::default();
        let mut bytes = 0;
        for (read, row) in distinct(self.rows(query, self.first_row(query)?)?).enumerate() {
            let row = row?;
            if read >= ROWS_AT_ONCE {
                page.next = Some(query.after(row.saturating_sub(1), page.lines.len()));
                return Ok(page);
            }
            let matching = match self.matching(row, query, &mut page.unreadable) {
                Err(error @ StoreError::Corrupt { .. }) if query.skips_unreadable => {
                    self.store.engine().note_damage(&error);
                    page.unreadable.extend(self.numbers_of_row(row, query.after)?);
                    continue;
                }
                matching => matching?,
            };
            for line in matching {
                if page.lines.len() >= query.limit {
                    return Ok(page.cut());
                }
                bytes += line.json.len();
                if let Some(last) = page.lines.last().filter(|_| bytes > PAGE_BYTES) {
                    page.next = Some(query.after(last.seq, page.lines.len()));
                    return Ok(page.cut());
                }
                page.lines.push(line);
            }
            if page.lines.len() >= query.limit {
                break;
            }
        }
        Ok(page)
    }

    /// Adds the matching entries of the next rows to `newest`.
    fn extend(&self, newest: &mut NewestLogMatches, query: &LogQuery) -> Result<(), StoreError> {
        newest.before = None;
        let rows = distinct(self.rows(query, self.first_row(query)?)?.rev()).take(ROWS_AT_ONCE);
        for (read, row) in rows.enumerate() {
            let row = row?;
            let matching = self.matching(row, query, &mut Vec::new())?;
            for line in matching.into_iter().rev().take(query.limit - newest.found) {
                newest.found += 1;
                newest.bytes += line.json.len();
                newest.first_seq = line.seq;
                if newest.bytes > PAGE_BYTES {
                    newest.lines.clear();
                } else {
                    newest.lines.push(line);
                }
            }
            if newest.found >= query.limit {
                break;
            }
            newest.before = (read + 1 == ROWS_AT_ONCE).then_some(row);
        }
        Ok(())
    }

    /// The numbers of the entries of a row that follow entry `after`; none if there is no such row.
    fn numbers_of_row(&self, first_seq: u64, after: u64) -> Result<Range<u64>, StoreError> {
        let end = self.durable_seq.saturating_add(1);
        let mut rows = self.log_rows(first_seq..end);
        if rows.next().transpose()? != Some(first_seq) {
            return Ok(0..0);
        }
        let next = rows.next().transpose()?;
        Ok(first_seq.max(after.saturating_add(1))..next.unwrap_or(end))
    }

    /// The matching entries of one row. The numbers of those that `query` skips, since they cannot be read, are added to `unreadable`.
    fn matching(
        &self,
        first_seq: u64,
        query: &LogQuery,
        unreadable: &mut Vec<u64>,
    ) -> Result<Vec<LogLine>, StoreError> {
        let corrupt = |detail: String| StoreError::Corrupt { dir: self.store.dir().to_owned(), detail };
        let row = rows::get(self.db, self.store.dir(), LOG, &first_seq.to_be_bytes())?
            .ok_or_else(|| corrupt(format!("an index names entry {first_seq}, which is not in the log")))?;
        let entries = row::decode(&row.value);
        let entries = entries.ok_or_else(|| corrupt(format!("the row of entry {first_seq} is damaged")))?;
        let mut matching = Vec::new();
        for (seq, json) in (first_seq..).zip(entries.lines()) {
            let fields = serde_json::from_str(json).map_err(|error| corrupt(format!("entry {seq}: {error}")));
            let fields: LogEntryFields = match fields {
                Err(error) if query.skips_unreadable => {
                    self.store.engine().note_damage(&error);
                    unreadable.extend((seq > query.after).then_some(seq));
                    continue;
                }
                fields => fields?,
            };
            // the last row may hold entries that are not durable yet
            if fields.seq <= self.durable_seq && query.matches(&fields) {
                matching.push(LogLine { seq: fields.seq, json: json.to_owned() });
            }
        }
        Ok(matching)
    }

    /// The number of the first row that can match `query` by number and time.
    fn first_row(&self, query: &LogQuery) -> Result<u64, StoreError> {
        let first = meta::first_seq(self.db, self.store.dir())?;
        let mut low = self.row_with(query.after.saturating_add(1).max(first))?;
        let Some(since) = query.since else { return Ok(low) };
        let mut high = self.durable_seq.saturating_add(1);
        // the earliest row whose latest time is not before `since` begins in low..=high
        while low < high {
            let middle = low + (high - low) / 2;
            let begins = self.row_with(middle)?;
            if self.latest_time_us(begins)? < since.as_microsecond() {
                low = middle + 1;
            } else {
                high = begins.min(middle);
            }
        }
        self.row_with(low)
    }

    /// The first number of the row that holds entry `seq`; `seq` itself if it is after the end of the log.
    fn row_with(&self, seq: u64) -> Result<u64, StoreError> {
        if seq > self.durable_seq {
            return Ok(seq);
        }
        match row_at(self.db, seq)? {
            Some(row) => Ok(row),
            None => meta::first_seq(self.db, self.store.dir()),
        }
    }

    fn latest_time_us(&self, first_seq: u64) -> Result<i64, StoreError> {
        let row = rows::get(self.db, self.store.dir(), LOG, &first_seq.to_be_bytes())?;
        Ok(row.map_or(i64::MAX, |row| row::time_of(&row.value)))
    }
}

/// A number in a key, or why it cannot be read.
type NumberRead = Result<u64, StoreError>;

/// The first numbers of the blocks that have any of several events, in order. Each is read when it is requested.
struct BlocksOfEvents<'r, 'a> {
    reader: &'r LogReader<'a>,
    /// The beginning of the index keys of each event.
    prefixes: Vec<Vec<u8>>,
    /// The numbers that are left.
    range: Range<u64>,
}

impl BlocksOfEvents<'_, '_> {
    /// The number that `take` gives for each event, of the numbers that are left. After an error, none are left.
    fn take_of_each(
        &mut self,
        take: impl Fn(&mut dyn DoubleEndedIterator<Item = NumberRead>) -> Option<NumberRead>,
    ) -> Result<Vec<u64>, StoreError> {
        if self.range.is_empty() {
            return Ok(Vec::new());
        }
        let of_event =
            |prefix: &Vec<u8>| take(&mut self.reader.numbers(prefix, self.range.clone(), |_| true));
        let taken: Result<Vec<_>, _> = self.prefixes.iter().filter_map(of_event).collect();
        taken.inspect_err(|_| self.range.start = self.range.end)
    }
}

impl Iterator for BlocksOfEvents<'_, '_> {
    type Item = NumberRead;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.take_of_each(|numbers| numbers.next()).map(|blocks| blocks.into_iter().min());
        let first = first.transpose()?;
        self.range.start = first.as_ref().map_or(self.range.start, |block| block.saturating_add(1));
        Some(first)
    }
}

impl DoubleEndedIterator for BlocksOfEvents<'_, '_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let last = self.take_of_each(|numbers| numbers.next_back()).map(|blocks| blocks.into_iter().max());
        let last = last.transpose()?;
        self.range.end = last.as_ref().map_or(self.range.end, |block| *block);
        Some(last)
    }
}

/// Removes consecutive duplicates.
fn distinct(
    rows: impl Iterator<Item = Result<u64, StoreError>>,
) -> impl Iterator<Item = Result<u64, StoreError>> {
    let mut last = None;
    rows.filter(move |row| row.as_ref().map_or(true, |row| last.replace(*row) != Some(*row)))
}

fn by_session(session_id: &SessionId) -> Vec<u8> {
    key(BY_SESSION, &[session_id.as_str().as_bytes(), &[0]])
}

fn by_execution(execution_id: &str) -> Vec<u8> {
    key(BY_EXECUTION, &[execution_id.as_bytes(), &[0]])
}

fn by_event(kind: &str) -> Vec<u8> {
    key(BY_EVENT, &[kind.as_bytes(), &[0]])
}

/// The latest timestamp in the log, in microseconds; `i64::MIN` for an empty log.
pub(crate) fn latest_time_us(
    db: Database<'_>,
    store: &TableReader,
    last_seq: u64,
) -> Result<i64, StoreError> {
    if last_seq == 0 {
        return Ok(i64::MIN);
    }
    let reader = LogReader { store, db, durable_seq: last_seq };
    reader.latest_time_us(reader.row_with(last_seq)?)
}

const fn block_of(seq: u64) -> u64 {
    seq - seq % BLOCK_ENTRIES
}

/// The leaf of the entry with this line in the Merkle tree of the log.
pub(crate) fn leaf<'l>(dir: &Path, line: &'l str) -> Result<Cow<'l, str>, StoreError> {
    leaf_of(line).map_err(|error| damaged_line(dir, &error))
}

/// The error for a line of the log that is no entry.
#[must_use]
pub fn damaged_line(dir: &Path, error: &LogLineError) -> StoreError {
    StoreError::Corrupt { dir: dir.to_owned(), detail: error.to_string() }
}

/// The number of the entry with this line; `None` if it is not the line of an entry.
pub(crate) fn seq_of_line(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(LINE_START)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

/// The first number of the last row that begins at or before `seq`.
pub(crate) fn row_at(db: Database<'_>, seq: u64) -> Result<Option<u64>, StoreError> {
    let up_to = key(LOG, &[&seq.to_be_bytes(), &[u8::MAX]]);
    let last = db.range(key(LOG, &[])..=up_to).next_back().transpose()?;
    Ok(last.and_then(|(key, _)| first_seq_of(&key)))
}

/// The number of a row's first entry, from the key of one of its chunks.
pub(crate) fn first_seq_of(key: &[u8]) -> Option<u64> {
    let (_, name) = rows::split_key(key)?;
    name.first_chunk().copied().map(u64::from_be_bytes)
}

/// Walks the rows whose first number is in `range`. Returns the first and the last entry that they hold. A
/// gap between two rows is an error.
pub(crate) fn walk(
    db: Database<'_>,
    dir: &Path,
    range: Range<u64>,
) -> Result<Option<(u64, u64)>, StoreError> {
    let bound = |seq: u64| key(LOG, &[&seq.to_be_bytes()]);
    let mut walked: Option<(u64, u64)> = None;
    for head in rows::heads(db, dir, bound(range.start)..bound(range.end)) {
        let rows::StoredRowHead { key, revision: last, .. } = head?;
        let first = first_seq_of(&key).unwrap_or_default();
        walked = match walked {
            None => Some((first, last)),
            Some((begin, end)) if end + 1 == first => Some((begin, last)),
            Some((_, end)) => {
                let detail = format!("the log has no entries between {end} and {first}");
                return Err(StoreError::Short { dir: dir.to_owned(), detail });
            }
        };
    }
    Ok(walked)
}

/// Which entries to read. Without any field set, the whole log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only entries of this session.
    pub session: Option<SessionId>,
    /// Only entries of the verification with this execution id.
    pub execution: Option<String>,
    /// Only entries that the request with this id caused.
    pub request_id: Option<String>,
    /// Only events of these names, if there are any.
    pub events: Vec<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Only entries with a higher number.
    pub after: u64,
    /// The most entries to return.
    pub limit: usize,
    /// Return the last matching entries instead of the first; in ascending order in both cases.
    pub newest: bool,
    /// Leave out entries that cannot be read, instead of an error. Not with `newest`.
    pub skips_unreadable: bool,
}

/// The fields of an entry that a query reads.
#[derive(Deserialize)]
struct LogEntryFields {
    seq: u64,
    event: String,
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    execution_id: Option<String>,
    /// The id of a review is the `execution_id` of its decision.
    review_id: Option<String>,
    caller: Option<LogCallerFields>,
    timestamp: Timestamp,
}

/// The fields of an entry's caller that a query reads.
#[derive(Deserialize)]
struct LogCallerFields {
    /// Missing if the caller was erased.
    request_id: Option<String>,
}

impl LogQuery {
    /// The query for the entries after `seq`, with `found` entries subtracted from its limit.
    fn after(&self, seq: u64, found: usize) -> Self {
        Self { after: seq, limit: self.limit.saturating_sub(found), newest: false, ..self.clone() }
    }

    fn matches(&self, fields: &LogEntryFields) -> bool {
        fields.seq > self.after
            && self.session.as_ref().is_none_or(|session| fields.session_id.as_ref() == Some(session))
            && self.execution.as_ref().is_none_or(|execution| {
                fields.execution_id.as_ref().or(fields.review_id.as_ref()) == Some(execution)
            })
            && self.request_id.as_ref().is_none_or(|request_id| {
                fields.caller.as_ref().is_some_and(|caller| caller.request_id.as_ref() == Some(request_id))
            })
            && (self.events.is_empty() || self.events.contains(&fields.event))
            && self.since.is_none_or(|since| fields.timestamp >= since)
    }
}

impl TableReader {
    /// The entries that were dropped from the log and kept apart, in the order of their numbers.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn kept_entries(&self) -> Result<Vec<LogLine>, StoreError> {
        self.read(|db, _| {
            let mut lines = Vec::new();
            for head in rows::heads(db, self.dir(), rows::all(KEPT_ENTRIES)) {
                let rows::StoredRowHead { key, revision: seq, .. } = head?;
                let name = rows::name(&key).unwrap_or_default();
                let row = rows::get(db, self.dir(), KEPT_ENTRIES, name)?;
                let json = row.and_then(|row| String::from_utf8(row.value).ok());
                let json = json.ok_or_else(|| StoreError::Corrupt {
                    dir: self.dir().to_owned(),
                    detail: format!("entry {seq}, which was dropped from the log, cannot be read"),
                })?;
                lines.push(LogLine { seq, json });
            }
            Ok(lines)
        })
    }

    /// The last entry that can be dropped with the entries up to `last`. Rows are dropped as a whole, and only those whose hashes are
    /// in full tiles: the hashes of the last tiles are computed from the entries.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn droppable_up_to(&self, last: u64) -> Result<u64, StoreError> {
        self.read(|db, durable_seq| {
            let in_full_tiles = durable_seq - durable_seq % TILE_HASHES as u64;
            let first = meta::first_seq(db, self.dir())?;
            let kept = row_at(db, last.min(in_full_tiles) + 1)?.unwrap_or(first);
            Ok(kept.max(first) - 1)
        })
    }
}

/// The changes in `rows` without those of entries before `first` and of their index. Entries of prunings are kept apart from the
/// log, without their callers and rows, since a rebuild of a source repeats its prunings.
pub(crate) fn without_dropped(rows: RowBatch, first: u64, dir: &Path) -> Result<RowBatch, StoreError> {
    let mut kept = RowBatch::default();
    for (key, _) in rows.range(rows::all(LOG)).filter(|(key, _)| rows::is_first_chunk(key)) {
        let name = rows::name(key).unwrap_or_default();
        if !is_dropped(key, first) {
            continue;
        }
        let Some(value) = rows::get_from(&rows, LOG, name).flatten() else { continue };
        let lines = row::decode(&value).ok_or_else(|| StoreError::Corrupt {
            dir: dir.to_owned(),
            detail: format!("a row of the log before entry {first} is damaged"),
        })?;
        for line in lines.lines().filter(|line| is_kept(line)) {
            let seq = seq_of_line(line.as_bytes()).unwrap_or_default();
            let line = hide_values(line, is_addition).map_err(|error| damaged_line(dir, &error))?;
            rows::put(&mut kept, KEPT_ENTRIES, &seq.to_be_bytes(), seq, line.as_bytes(), 0);
        }
    }
    for (key, value) in rows.into_rows().filter(|(key, _)| !is_dropped(key, first)) {
        kept.set(key, value);
    }
    Ok(kept)
}

/// The entries that were dropped from the log and kept apart, in the rows of a group.
pub fn kept_entries_in(rows: &RowBatch) -> impl Iterator<Item = String> + use<'_> {
    let firsts = rows.range(rows::all(KEPT_ENTRIES)).filter(|(key, _)| rows::is_first_chunk(key));
    firsts.filter_map(|(key, _)| {
        let line = rows::get_from(rows, KEPT_ENTRIES, rows::name(key)?)??;
        String::from_utf8(line).ok()
    })
}

/// Whether the entry with this line is kept apart.
fn is_kept(line: &str) -> bool {
    event_in(line).and_then(event_type).is_some_and(|kind| kind.class == EventClass::Kept)
}

/// Whether `key` is that of a row of entries before `first`, or of their index.
fn is_dropped(key: &[u8], first: u64) -> bool {
    let of = |table| rows::is_of(key, table);
    if of(LOG) {
        first_seq_of(key).is_some_and(|row| row < first)
    } else if of(BY_EVENT) {
        // the key has the first entry of a block
        last_number(key).is_some_and(|block| block + BLOCK_ENTRIES <= first)
    } else {
        let is_indexed = of(BY_SESSION) || of(BY_EXECUTION);
        is_indexed && last_number(key).is_some_and(|seq| seq < first)
    }
}

/// The number at the end of a key of an index.
fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk().copied().map(u64::from_be_bytes)
}
