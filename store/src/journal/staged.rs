//! Stages a group of records as one batch: numbers them, checks their expectations, and encodes their rows.

use crate::audit::log::{self, LogTip};
use crate::audit::removal::session_of_path;
use crate::base::documents::document_name;
use crate::base::engine::StoreEngine;
use crate::base::error::StoreError;
use crate::base::log_hashes::LogHashes;
use crate::base::random::random_bytes;
use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, TableId, row_path};
use crate::base::session_row::{SessionRow, SessionRowPart};
use crate::base::watermark::StoreCounts;
use crate::journal::record::{CommitReceipt, JournalRecord, RecordRejectedError, RowKey, TableWrite};
use crate::verdict::costs::day_name;
use crate::verdict::orders::{OrderPosition, order_name};
use crate::verification::{cached_answer_name, open_names, subject_name};
use oracled_domain::audit::leaf::{EntrySalts, RowDigests};
use oracled_domain::verdict::cost::day_of;
use oracled_domain::verdict::cost_budget::{DayCosts, UsedUpBudget};
use oracled_domain::verdict::order::OrderState;
use oracled_domain::{AuditEvent, EventKind, SessionId, Sha256Hex};
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::mem;

/// The revision of a row, and its number of chunks.
type StagedRowHead = (u64, u16);

/// A group that is being staged as one batch.
pub(crate) struct StagedGroup<'a> {
    engine: &'a StoreEngine,
    pub(crate) batch: RowBatch,
    pub(crate) counts: StoreCounts,
    pub(crate) tip: LogTip,
    /// The tree of the log after the records staged so far.
    pub(crate) hashes: LogHashes,
    pub(crate) lines: Vec<u8>,
    /// The salts of the group's entries.
    salts: EntrySalts,
    /// The result of the check for free space, once it was made.
    low_space: Option<Option<String>>,
    /// The bytes of all rows except those of the log.
    row_bytes: usize,
    /// The bytes of the rows of sessions that were read.
    read_bytes: usize,
    /// The heads of rows after the records staged so far.
    rows: HashMap<(TableId, Vec<u8>), Option<StagedRowHead>>,
    /// The rows of sessions after the records staged so far.
    sessions: HashMap<Vec<u8>, SessionRow>,
    /// The costs of days after the records staged so far.
    costs: HashMap<String, DayCosts>,
    /// The sessions that the current record has changed. A record with a session and its verdict writes their row once.
    changed_sessions: BTreeSet<Vec<u8>>,
    /// The rows from before the group that it replaces or removes: their tables and revisions.
    pub(crate) replaced: Vec<(TableId, u64)>,
}

impl<'a> StagedGroup<'a> {
    /// # Errors
    /// `Unavailable` if the system has no random numbers.
    pub(crate) fn new(engine: &'a StoreEngine, counts: StoreCounts, tip: LogTip) -> Result<Self, StoreError> {
        Ok(Self {
            salts: EntrySalts { secret: random_bytes()?, covers_session_ids: engine.covers_session_ids() },
            engine,
            batch: RowBatch::default(),
            counts,
            tip,
            hashes: (*engine.log_hashes()).clone(),
            lines: Vec::new(),
            low_space: None,
            row_bytes: 0,
            read_bytes: 0,
            rows: HashMap::new(),
            sessions: HashMap::new(),
            costs: HashMap::new(),
            changed_sessions: BTreeSet::new(),
            replaced: Vec::new(),
        })
    }

    /// Stages one record, or returns why it is rejected. The outer error is a failure of the store, and ends the group.
    pub(crate) fn add(
        &mut self,
        record: &JournalRecord,
    ) -> Result<Result<CommitReceipt, RecordRejectedError>, StoreError> {
        if record.events.is_empty() {
            return Ok(Err(RecordRejectedError::Unlogged));
        }
        for expect in &record.expect {
            if self.revision(&expect.row)? != expect.revision {
                return Ok(Err(RecordRejectedError::Stale(expect.row.clone())));
            }
        }
        let follows = record.writes.iter().any(|write| matches!(write, TableWrite::RemovePending(_)));
        for write in record.writes.iter().filter(|write| write.is_new_work() && !follows) {
            if self.revision(&write.row())?.is_none()
                && let Some(cause) = self.low_space()
            {
                return Ok(Err(RecordRejectedError::LowSpace(cause)));
            }
        }
        let first_seq = self.counts.entries + 1;
        let last_seq = self.counts.entries + record.events.len() as u64;
        let stores_session = |session_id: &SessionId| {
            let is_session = |write: &TableWrite| matches!(write, TableWrite::PutSession(session) if session.session_id == *session_id);
            record.writes.iter().any(is_session)
        };
        let JournalRecord { events, callers, .. } = record;
        let salts = &self.salts;
        let values: Vec<_> = record.writes.iter().map(TableWrite::value).collect();
        let rows = &row_digests(record.writes.iter().zip(&values));
        debug_assert!(
            names_own_session(record, rows),
            "an erasure of another session would hide the digests of {rows:?}"
        );
        let entries = log::RecordLogEntries { events, callers, rows, salts, stores_session: &stores_session };
        let Self { batch, tip, lines, hashes, row_bytes, .. } = self;
        let mut add_leaf =
            |batch: &mut RowBatch, leaf: &str| *row_bytes += hashes.append(leaf.as_bytes(), batch);
        log::put(batch, first_seq, entries, tip, lines, &mut add_leaf);
        self.counts.entries = last_seq;
        for (write, value) in record.writes.iter().zip(values) {
            self.write(write, value, last_seq)?;
        }
        for event in &record.events {
            self.add_costs(event, last_seq)?;
        }
        for name in mem::take(&mut self.changed_sessions) {
            self.put_session(&name, last_seq)?;
        }
        Ok(Ok(CommitReceipt { first_seq, last_seq }))
    }

    /// Why too little space is free for new work. The system is asked once for the whole group.
    fn low_space(&mut self) -> Option<String> {
        let check = || self.engine.free().check().err().map(|error| error.to_string());
        self.low_space.get_or_insert_with(check).clone()
    }

    /// The size of all staged rows and lines, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() + self.row_bytes
    }

    /// The bytes that the group holds in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes() + self.read_bytes
    }

    fn write(&mut self, write: &TableWrite, value: Option<Vec<u8>>, revision: u64) -> Result<(), StoreError> {
        let row = write.row();
        let (table, name) = row_location(&row);
        if table.is_in_session_row() {
            if table == TableId::Sessions {
                self.index_order(&name, write, revision)?;
            }
            return self.set_part(table, &name, value, revision);
        }
        self.set(table, &name, value, revision)?;
        if let TableWrite::PutReview(state) = write {
            let open = state.is_open().then(Vec::new);
            for name in open_names(state) {
                self.set(TableId::OpenByWorkflow, name.as_bytes(), open.clone(), revision)?;
            }
            self.set(TableId::OpenReviews, &name, open, revision)?;
        }
        Ok(())
    }

    /// Updates the index of orders for a change of the session `name`.
    fn index_order(&mut self, name: &[u8], write: &TableWrite, revision: u64) -> Result<(), StoreError> {
        let (position, state) = match write {
            TableWrite::PutSession(session) => match &session.order {
                Some(order) => (OrderPosition::of(&session.session_id, order.placed_at), Some(order.state)),
                None => return Ok(()),
            },
            _ => {
                // if the session is damaged, its name stays in the index, and readers skip it
                let before = self.session_row(name)?.session.as_ref();
                let Some(position) = before.and_then(|part| OrderPosition::read(&part.json)) else {
                    return Ok(());
                };
                (position, None)
            }
        };
        for other in OrderState::ALL {
            let value = (state == Some(*other)).then(Vec::new);
            self.set(TableId::Orders, order_name(*other, &position).as_bytes(), value, revision)?;
        }
        Ok(())
    }

    /// Adds the cost of a model call, or a budget that is used up, to the costs of its day.
    fn add_costs(&mut self, event: &AuditEvent, revision: u64) -> Result<(), StoreError> {
        let cost = event.model_cost();
        let used_up = match &event.kind {
            EventKind::DailyBudgetReached { application, budget, .. } => Some(UsedUpBudget {
                application: application.clone(),
                daily: budget.clone(),
                at: event.timestamp,
            }),
            _ => None,
        };
        if cost.is_none() && used_up.is_none() {
            return Ok(());
        }
        let name = day_name(day_of(event.timestamp));
        let mut costs = match self.costs.remove(&name) {
            Some(costs) => costs,
            None => self.stored_costs(&name)?,
        };
        if let Some(cost) = cost {
            cost.add_to(&mut costs.sums);
        }
        if let Some(used_up) = used_up {
            costs.add_used_up(used_up);
        }
        let value = serde_json::to_vec(&costs).expect("the costs are plain data with string keys");
        self.costs.insert(name.clone(), costs);
        self.set(TableId::Costs, name.as_bytes(), Some(value), revision)
    }

    /// The stored costs of a day. A damaged row must not prevent other writes, so its day begins again.
    fn stored_costs(&self, name: &str) -> Result<DayCosts, StoreError> {
        let dir = self.engine.dir();
        let row = self.engine.with(|db| rows::get_readable(db, dir, TableId::Costs, name.as_bytes()))?;
        let costs = row.map(|row| serde_json::from_slice(&row.value)).transpose();
        Ok(costs
            .unwrap_or_else(|error| {
                tracing::error!(%error, day = name, "the costs of a day are damaged; they begin again");
                None
            })
            .unwrap_or_default())
    }

    /// Stores a row in place of any other with its name, or removes it.
    fn set(
        &mut self,
        table: TableId,
        name: &[u8],
        value: Option<Vec<u8>>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let before = self.row(table, name)?;
        self.set_found(table, name);
        self.count(table, before.map(|(revision, _)| revision), value.is_some());
        self.put(table, name, value, revision, before);
        Ok(())
    }

    /// Sets the session or the verdict in the row of a session; `None` removes it.
    fn set_part(
        &mut self,
        table: TableId,
        name: &[u8],
        json: Option<Vec<u8>>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let is_there = json.is_some();
        self.set_found(table, name);
        let part = self.session_row(name)?.part(table);
        let before = mem::replace(part, json.map(|json| SessionRowPart { revision, json }));
        let before = before.map(|before| before.revision);
        self.count(table, before, is_there);
        if let (TableId::Sessions, Some(before)) = (table, before) {
            log::index_session(&mut self.batch, name, before);
        }
        self.changed_sessions.insert(name.to_vec());
        Ok(())
    }

    /// Notes that a row is set or removed: it is no longer lost.
    fn set_found(&mut self, table: TableId, name: &[u8]) {
        if self.engine.has_lost_rows()
            && let Some(path) = row_path(table, name)
        {
            rows::remove(&mut self.batch, TableId::Lost, path.as_bytes(), 1);
        }
    }

    /// Writes the row of a session as it is after the records staged so far.
    fn put_session(&mut self, name: &[u8], revision: u64) -> Result<(), StoreError> {
        let row = self.session_row(name)?;
        let value = (*row != SessionRow::default()).then(|| row.to_bytes());
        let before = self.row(TableId::Sessions, name)?;
        self.put(TableId::Sessions, name, value, revision, before);
        Ok(())
    }

    /// Counts a change of a row that had the revision `before`.
    fn count(&mut self, table: TableId, before: Option<u64>, is_there: bool) {
        self.replaced.extend(before.map(|before| (table, before)));
        if let Some(count) = self.counts.of(table) {
            *count = *count + u64::from(is_there) - u64::from(before.is_some());
        }
    }

    fn put(
        &mut self,
        table: TableId,
        name: &[u8],
        value: Option<Vec<u8>>,
        revision: u64,
        before: Option<StagedRowHead>,
    ) {
        let chunks_before = before.map_or(0, |(_, chunks)| chunks);
        let after = if let Some(value) = value {
            self.row_bytes += value.len();
            Some((revision, rows::put(&mut self.batch, table, name, revision, &value, chunks_before)))
        } else {
            rows::remove(&mut self.batch, table, name, chunks_before);
            None
        };
        self.rows.insert((table, name.to_vec()), after);
    }

    /// The revision of `key` after the records staged so far.
    fn revision(&mut self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        let (table, name) = row_location(key);
        if table.is_in_session_row() {
            return Ok(self.session_row(&name)?.part(table).as_ref().map(|part| part.revision));
        }
        Ok(self.row(table, &name)?.map(|(revision, _)| revision))
    }

    /// The row of a session after the records staged so far.
    fn session_row(&mut self, name: &[u8]) -> Result<&mut SessionRow, StoreError> {
        let dir = self.engine.dir();
        match self.sessions.entry(name.to_vec()) {
            Entry::Occupied(staged) => Ok(staged.into_mut()),
            Entry::Vacant(vacant) => {
                // a damaged verdict or session must not prevent other writes
                let row = self.engine.with(|db| rows::get_readable(db, dir, TableId::Sessions, name))?;
                self.read_bytes += row.as_ref().map_or(0, |row| row.value.len());
                let head = row.as_ref().map(|row| (row.revision, row.chunks));
                self.rows.insert((TableId::Sessions, name.to_vec()), head);
                let row = row.map(|row| SessionRow::from_bytes(dir, &row.value)).transpose()?;
                Ok(vacant.insert(row.unwrap_or_default()))
            }
        }
    }

    /// A row after the records staged so far.
    fn row(&self, table: TableId, name: &[u8]) -> Result<Option<StagedRowHead>, StoreError> {
        if let Some(staged) = self.rows.get(&(table, name.to_vec())) {
            return Ok(*staged);
        }
        self.engine.with(|db| rows::head(db, self.engine.dir(), table, name))
    }
}

/// The digests of the rows that `writes` set, with their stored values.
fn row_digests<'w>(writes: impl Iterator<Item = (&'w TableWrite, &'w Option<Vec<u8>>)>) -> RowDigests {
    let digest = |(write, value): (&TableWrite, &Option<Vec<u8>>)| {
        let row = write.row();
        let (table, name) = row_location(&row);
        Some((row_path(table, &name)?, value.as_deref().map(Sha256Hex::of)))
    };
    writes.filter_map(digest).collect()
}

/// Whether the rows of sessions are those of the session of the last event, whose entry names them.
fn names_own_session(record: &JournalRecord, rows: &RowDigests) -> bool {
    let Some(own) = record.events.last().and_then(|event| event.session_id.as_ref()) else { return true };
    rows.keys().filter_map(|path| session_of_path(path)).all(|named| named == *own)
}

/// The table and the name of a row.
pub(crate) fn row_location(row: &RowKey) -> (TableId, Cow<'_, [u8]>) {
    let named = |table, name| (table, Cow::Borrowed(str::as_bytes(name)));
    match row {
        RowKey::Verdict(session_id) => named(TableId::Verdicts, session_id.as_str()),
        RowKey::Session(session_id) => named(TableId::Sessions, session_id.as_str()),
        RowKey::Regen(session_id) => named(TableId::Regens, session_id.as_str()),
        RowKey::Refusal(session_id) => named(TableId::Refusals, session_id.as_str()),
        RowKey::Held(session_id) => named(TableId::Held, session_id.as_str()),
        RowKey::Mail(mail_id) => named(TableId::Outbox, mail_id.as_str()),
        RowKey::Webhook(webhook_id) => named(TableId::Webhooks, webhook_id.as_str()),
        RowKey::Document(kind, id) => (TableId::Documents, Cow::Owned(document_name(*kind, id).into_bytes())),
        RowKey::Source(oracle_id) => named(TableId::Sources, oracle_id.as_str()),
        RowKey::Definition(digest) => named(TableId::Definitions, digest.as_str()),
        RowKey::Run(run_id) => named(TableId::Runs, run_id.as_str()),
        RowKey::Review(review_id) => named(TableId::Reviews, review_id),
        RowKey::Subject(key) => (TableId::Subjects, Cow::Owned(subject_name(key).into_bytes())),
        RowKey::Kept(key) => (TableId::Kept, Cow::Owned(cached_answer_name(key).into_bytes())),
        RowKey::Pending(execution_id) => named(TableId::Pending, execution_id),
    }
}
