//! Appends entries to the log: their rows and their index.

use super::links::{EvidenceEntry, RecordLinks};
use super::row::{self, TIME_BYTES};
use super::{BY_SESSION, LOG, block_of, by_event, by_execution};
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, key};
use domain_audit::leaf::{EntryAdditions, EntrySalts, RowDigests, entry_text};
use domain_audit::log_tree::TreeHash;
use domain_base::caller::{RequestCaller, TraceId};
use domain_base::event::{AuditEvent, read_open};
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The callers that caused the events of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordCallers {
    /// No request: the daemon acted on its own.
    #[default]
    Nobody,
    /// As for `Nobody`, and it continues the trace of a request.
    Trace(TraceId),
    /// One request caused all events.
    One(Arc<RequestCaller>),
    /// Each event has its own caller, or none, in the order of the events.
    Each(Vec<Option<Arc<RequestCaller>>>),
}

impl RecordCallers {
    /// The caller of the event at `index`.
    #[must_use]
    pub fn of(&self, index: usize) -> Option<&RequestCaller> {
        match self {
            Self::Nobody | Self::Trace(_) => None,
            Self::One(caller) => Some(caller),
            Self::Each(callers) => callers.get(index)?.as_deref(),
        }
    }

    /// The trace of events without a caller.
    #[must_use]
    pub(crate) const fn trace_id(&self) -> Option<&TraceId> {
        match self {
            Self::Trace(trace_id) => Some(trace_id),
            Self::Nobody | Self::One(_) | Self::Each(_) => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct RecordLogEntries<'r> {
    pub(crate) events: &'r [AuditEvent],
    /// The entries of earlier records that a delivery in the record names.
    pub(crate) evidence: &'r [EvidenceEntry],
    pub(crate) callers: &'r RecordCallers,
    /// The rows that the record sets, which its last entry names.
    pub(crate) rows: &'r RowDigests,
    pub(crate) salts: &'r EntrySalts,
    /// Whether the daemon is in test mode.
    pub(crate) is_test: bool,
    /// Whether the record stores this session: it is then found by the revision of the session, without an index row.
    pub(crate) stores_session: &'r dyn Fn(&SessionId) -> bool,
}

/// The end of the log, to which the next record is appended.
#[derive(Debug, Clone)]
pub(crate) struct LogTip {
    /// The latest timestamp in the log, in microseconds; `i64::MIN` for an empty log.
    pub(crate) latest_time_us: i64,
    /// The last block in which each event is known to be indexed. An event without an entry here is indexed
    /// again, which changes nothing.
    indexed: HashMap<&'static str, u64>,
    /// The last row, if it has space for more entries.
    row: Option<OpenRow>,
}

/// A row of the log to which entries are appended.
#[derive(Debug, Clone)]
struct OpenRow {
    first_seq: u64,
    last_seq: u64,
    /// The latest timestamp up to its end, in microseconds.
    latest_time_us: i64,
    text: Vec<u8>,
    /// Whether it has entries that are in no batch yet.
    is_changed: bool,
}

impl OpenRow {
    fn len(&self) -> usize {
        TIME_BYTES + self.text.len()
    }

    /// Puts the row into `batch`, if it has new entries.
    fn put(&mut self, batch: &mut RowBatch) {
        if std::mem::take(&mut self.is_changed) {
            let value = row::plain(self.latest_time_us, &self.text);
            rows::put(batch, LOG, &self.first_seq.to_be_bytes(), self.last_seq, &value, 0);
        }
    }
}

impl LogTip {
    /// A tip that holds only the latest timestamp.
    pub(crate) fn new(latest_time_us: i64) -> Self {
        Self { latest_time_us, indexed: HashMap::new(), row: None }
    }

    /// Begins a new row with the next entry.
    pub(crate) fn end_row(&mut self) {
        self.row = None;
    }

    /// Puts the last row into `batch`, if it has new entries. Call this after the last record of a group.
    pub(crate) fn put_row(&mut self, batch: &mut RowBatch) {
        if let Some(row) = &mut self.row {
            row.put(batch);
        }
    }
}

/// Puts the entries of one record into `batch`, appends their lines to `lines`, and moves the tip. Passes their leaves to
/// `add_leaf`, which returns their hashes. Returns the entries that a later delivery can name. The last row is put by
/// [`LogTip::put_row`].
pub(crate) fn put(
    batch: &mut RowBatch,
    first_seq: u64,
    entries: RecordLogEntries<'_>,
    tip: &mut LogTip,
    lines: &mut Vec<u8>,
    add_leaf: &mut dyn FnMut(&mut RowBatch, &str) -> TreeHash,
) -> Vec<EvidenceEntry> {
    let begin = lines.len();
    let last_seq = first_seq + entries.events.len() as u64 - 1;
    let mut links = RecordLinks::new(entries.evidence);
    for (seq, (index, event)) in (first_seq..).zip(entries.events.iter().enumerate()) {
        tip.latest_time_us = tip.latest_time_us.max(event.timestamp.as_microsecond());
        let rows = Some(entries.rows).filter(|rows| seq == last_seq && !rows.is_empty());
        let (caller, trace_id) = (entries.callers.of(index), entries.callers.trace_id());
        let named = &links.of(event);
        let additions = EntryAdditions { links: named, caller, trace_id, rows, is_test: entries.is_test };
        let text = entry_text(seq, event, additions, entries.salts);
        links.note(event, seq, &add_leaf(batch, &text.leaf));
        lines.extend_from_slice(text.line.as_bytes());
        lines.push(b'\n');
    }
    let text = lines.get(begin..).unwrap_or_default();
    let latest_time_us = tip.latest_time_us;
    let is_full = tip
        .row
        .as_ref()
        .is_none_or(|row| row::is_long(text) || row.len() + text.len() > rows::ONE_CHUNK_BYTES);
    if is_full && let Some(mut full) = tip.row.take() {
        full.put(batch);
    }
    let first_of_row = if row::is_long(text) {
        let value = row::compressed(latest_time_us, text);
        rows::put(batch, LOG, &first_seq.to_be_bytes(), last_seq, &value, 0);
        first_seq
    } else {
        let new = OpenRow { first_seq, last_seq, latest_time_us, text: Vec::new(), is_changed: false };
        let row = tip.row.get_or_insert(new);
        (row.last_seq, row.latest_time_us, row.is_changed) = (last_seq, latest_time_us, true);
        row.text.extend_from_slice(text);
        row.first_seq
    };
    index(batch, entries, last_seq, block_of(first_of_row), tip);
    links.own
}

/// Puts the index of one record's entries into `batch`. Their row belongs to `block`.
fn index(batch: &mut RowBatch, entries: RecordLogEntries<'_>, last_seq: u64, block: u64, tip: &mut LogTip) {
    let (mut session_before, mut execution_before) = (None, None);
    for event in entries.events {
        let session_id = event.session_id.as_ref();
        if let Some(session_id) = session_id.filter(|_| session_id != session_before) {
            if !(entries.stores_session)(session_id) {
                index_session(batch, session_id.as_str().as_bytes(), last_seq);
            }
            session_before = Some(session_id);
        }
        let execution_id = event.kind.execution_id();
        if let Some(execution_id) = execution_id.filter(|_| execution_id != execution_before) {
            batch.insert([&by_execution(execution_id)[..], &last_seq.to_be_bytes()].concat(), Vec::new());
            execution_before = Some(execution_id);
        }
        let kind = event.kind.name();
        if tip.indexed.insert(kind, block) != Some(block) {
            batch.insert([&by_event(kind)[..], &block.to_be_bytes()].concat(), Vec::new());
        }
    }
}

/// Puts the entry `seq` with this line, which was found outside of the segments, into `batch` as a row of its own, and indexes it.
/// `latest_time_us` is that of the log before it; the result is that after it. If the row that begins with entry `in_row` has the
/// entry, it is only indexed.
pub(crate) fn put_line(
    batch: &mut RowBatch,
    seq: u64,
    line: &str,
    latest_time_us: i64,
    in_row: Option<u64>,
) -> i64 {
    #[derive(Deserialize)]
    struct Members<'l> {
        timestamp: Option<Timestamp>,
        event: Option<&'l str>,
        #[serde(default, deserialize_with = "read_open")]
        session_id: Option<SessionId>,
        execution_id: Option<&'l str>,
        /// The id of the decision that a review is about.
        review_id: Option<&'l str>,
    }
    let members: Option<Members<'_>> = serde_json::from_str(line).ok();
    let time_us = members.as_ref().and_then(|members| members.timestamp).map(Timestamp::as_microsecond);
    let latest_time_us = latest_time_us.max(time_us.unwrap_or(i64::MIN));
    let text = [line.as_bytes(), b"\n"].concat();
    let value = if row::is_long(&text) { row::compressed } else { row::plain }(latest_time_us, &text);
    if in_row.is_none() {
        rows::put(batch, LOG, &seq.to_be_bytes(), seq, &value, 0);
    }
    if let Some(Members { event, session_id, execution_id, review_id, .. }) = members {
        if let Some(session_id) = session_id {
            index_session(batch, session_id.as_str().as_bytes(), seq);
        }
        if let Some(execution_id) = execution_id.or(review_id) {
            batch.insert([&by_execution(execution_id)[..], &seq.to_be_bytes()].concat(), Vec::new());
        }
        if let Some(event) = event {
            batch.insert(
                [&by_event(event)[..], &block_of(in_row.unwrap_or(seq)).to_be_bytes()].concat(),
                Vec::new(),
            );
        }
    }
    latest_time_us
}

/// Indexes the record with the last entry `last_seq` as one of the session called `name`.
pub(crate) fn index_session(batch: &mut RowBatch, name: &[u8], last_seq: u64) {
    batch.insert(key(BY_SESSION, &[name, &[0], &last_seq.to_be_bytes()]), Vec::new());
}
