//! Stages a group of records as one batch: numbers them, checks their expectations, and encodes their rows.

use crate::audit::log::{self, EvidenceEntry, LogTip};
use crate::audit::removal::session_of_row;
use crate::base::bundle::Bundle;
use crate::base::engine::StoreEngine;
use crate::base::log_hashes::LogHashes;
use crate::base::meta;
use crate::base::random::random_bytes;
use crate::base::row_batch::RowBatch;
use crate::base::row_write::{RowName, RowWrite};
use crate::base::rows::{self, LOST, StoredRow, StoredValue, row_path, stored_in};
use crate::base::watermark::StoreCounts;
use crate::journal::{CommitReceipt, JournalRecord, RecordRejectedError};
use domain_audit::leaf::{EntrySalts, RowDigests};
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::row::{IndexEntry, RowData, SumWrite, Table};
use domain_base::session_id::SessionId;
use std::collections::{BTreeSet, HashMap};
use std::mem;
use store_base::error::StoreError;

/// The revision of a row, and its number of chunks.
type StagedRowHead = (u64, u16);

/// A group that is staged and not committed yet.
pub(crate) struct ReadyGroup {
    /// All changes of the database.
    pub(crate) rows: RowBatch,
    /// The counts, the end of the log and its tree after the group.
    pub(crate) counts: StoreCounts,
    pub(crate) tip: LogTip,
    pub(crate) hashes: LogHashes,
    /// The lines of its entries.
    pub(crate) lines: Vec<u8>,
    /// The rows from before the group that it replaces or removes: their tables and revisions.
    pub(crate) replaced: Vec<(&'static str, u64)>,
    /// The size of its rows and lines, in bytes.
    pub(crate) bytes: u64,
}

/// A group that is being staged as one batch.
pub(crate) struct StagedGroup<'a> {
    engine: &'a StoreEngine,
    /// Whether other hosts apply the group, too: damage of this host must then not get into it.
    is_shared: bool,
    batch: RowBatch,
    pub(crate) counts: StoreCounts,
    tip: LogTip,
    /// The tree of the log after the records staged so far.
    hashes: LogHashes,
    pub(crate) lines: Vec<u8>,
    /// The salts of the group's entries.
    salts: EntrySalts,
    /// The result of the check for free space, once it was made.
    low_space: Option<Option<String>>,
    /// The bytes of all rows except those of the log.
    row_bytes: usize,
    /// The bytes of the rows of sessions that were read.
    read_bytes: usize,
    /// The heads of rows after the records staged so far, by tables of the database and names.
    rows: HashMap<(&'static str, String), Option<StagedRowHead>>,
    /// The bundles after the records staged so far, by tables of the database and names.
    bundles: HashMap<(&'static str, String), Bundle>,
    /// The rows of sums after the records staged so far, by tables and names.
    sums: HashMap<(&'static str, String), Vec<u8>>,
    /// The bundles that the current record has changed. A record with two rows of a bundle writes it once.
    changed_bundles: BTreeSet<(&'static str, String)>,
    replaced: Vec<(&'static str, u64)>,
}

impl<'a> StagedGroup<'a> {
    /// # Errors
    /// `Unavailable` if the system has no random numbers.
    pub(crate) fn new(
        engine: &'a StoreEngine,
        counts: StoreCounts,
        tip: LogTip,
        is_shared: bool,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            salts: EntrySalts { secret: random_bytes()?, covers_session_ids: engine.covers_session_ids() },
            engine,
            is_shared,
            batch: RowBatch::default(),
            counts,
            tip,
            hashes: (*engine.log_hashes()).clone(),
            lines: Vec::new(),
            low_space: None,
            row_bytes: 0,
            read_bytes: 0,
            rows: HashMap::new(),
            bundles: HashMap::new(),
            sums: HashMap::new(),
            changed_bundles: BTreeSet::new(),
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
        let is_new_work =
            |write: &&RowWrite| !record.ends_work && write.value.is_some() && write.row.table.is_new_work;
        for write in record.writes.iter().filter(is_new_work) {
            if self.revision(&write.row)?.is_none()
                && let Some(cause) = self.low_space()
            {
                return Ok(Err(RecordRejectedError::LowSpace(cause)));
            }
        }
        let first_seq = self.counts.entries + 1;
        let is_foreign = |entry: &&EvidenceEntry| !entry.precedes(first_seq, &record.events);
        if let Some(foreign) = record.evidence.iter().find(is_foreign) {
            return Ok(Err(RecordRejectedError::ForeignEvidence(foreign.seq())));
        }
        let last_seq = self.counts.entries + record.events.len() as u64;
        let stores_session = |session_id: &SessionId| {
            let finds_entries = |write: &RowWrite| {
                write.row.table.finds_entries
                    && write.value.is_some()
                    && write.row.name == session_id.as_str()
            };
            record.writes.iter().any(finds_entries)
        };
        let JournalRecord { events, evidence, callers, .. } = record;
        let salts = &self.salts;
        let rows = &row_digests(&record.writes);
        debug_assert!(
            names_own_session(record),
            "an erasure of another session would hide the digests of {rows:?}"
        );
        let (stores_session, is_test) = (&stores_session, self.engine.is_test());
        let entries =
            log::RecordLogEntries { events, evidence, callers, rows, salts, is_test, stores_session };
        let Self { batch, tip, lines, hashes, row_bytes, .. } = self;
        let mut add_leaf = |batch: &mut RowBatch, leaf: &str| {
            let (hash, bytes) = hashes.append(leaf.as_bytes(), batch);
            *row_bytes += bytes;
            hash
        };
        let evidence = log::put(batch, first_seq, entries, tip, lines, &mut add_leaf);
        self.counts.entries = last_seq;
        for write in &record.writes {
            self.write(write, last_seq)?;
        }
        for sum in record.events.iter().filter_map(AuditEvent::sums) {
            self.add_sum(sum, last_seq)?;
        }
        for (stored, name) in mem::take(&mut self.changed_bundles) {
            self.put_bundle(stored, name, last_seq)?;
        }
        Ok(Ok(CommitReceipt { first_seq, last_seq, evidence }))
    }

    /// Ends the group.
    pub(crate) fn finish(self) -> ReadyGroup {
        let bytes = self.bytes() as u64;
        let Self { batch: mut rows, counts, mut tip, hashes, lines, replaced, .. } = self;
        tip.put_row(&mut rows);
        meta::put_counts(&mut rows, &counts, &hashes.tree);
        ReadyGroup { rows, counts, tip, hashes, lines, replaced, bytes }
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

    fn write(&mut self, write: &RowWrite, revision: u64) -> Result<(), StoreError> {
        let RowWrite { row: RowName { table, name }, value, index } = write;
        self.set_found(table, name);
        if !table.indexes.is_empty() {
            let before = self.value(table, name)?.map(|before| (table.index)(&before)).unwrap_or_default();
            self.set_index(&before, index, revision)?;
        }
        if table.bundle.is_some() {
            return self.set_bundled(table, name, value.clone(), revision);
        }
        self.set(table.name, name, value.as_deref(), revision)
    }

    /// Updates the indexes of a row, which had the names `before` in them.
    fn set_index(
        &mut self,
        before: &[IndexEntry],
        after: &[IndexEntry],
        revision: u64,
    ) -> Result<(), StoreError> {
        for IndexEntry { index, name } in before.iter().filter(|entry| !after.contains(entry)) {
            self.set(index, name, None, revision)?;
        }
        for IndexEntry { index, name } in after.iter().filter(|entry| !before.contains(entry)) {
            self.set(index, name, Some(&[]), revision)?;
        }
        Ok(())
    }

    /// Adds to a row of sums. A damaged one must not prevent other writes, so it begins again.
    fn add_sum(&mut self, sum: SumWrite, revision: u64) -> Result<(), StoreError> {
        let SumWrite { table, name, value } = sum;
        let place = (table.name, name);
        let before = match self.sums.remove(&place) {
            Some(staged) => Some(staged),
            None => self.stored_row(table.name, &place.1)?.map(|row| row.value),
        };
        let value = (table.add)(before.as_deref(), &value);
        self.set(table.name, &place.1, Some(&value), revision)?;
        self.sums.insert(place, value);
        Ok(())
    }

    /// Stores a row in place of any other with its name, or removes it.
    fn set(
        &mut self,
        table: &'static str,
        name: &str,
        value: Option<&[u8]>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let before = self.head(table, name)?;
        self.count(table, before.map(|(revision, _)| revision), value.is_some());
        self.put(table, name, value, revision, before);
        Ok(())
    }

    /// Sets a row of a bundle; `None` removes it.
    fn set_bundled(
        &mut self,
        table: &'static Table,
        name: &str,
        value: Option<Vec<u8>>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let is_there = value.is_some();
        let value = value.map(|value| StoredValue { revision, value });
        let before = self.bundle(table, name)?.set(table, value).map(|before| before.revision);
        self.count(table.name, before, is_there);
        if let Some(before) = before.filter(|_| table.finds_entries) {
            log::index_session(&mut self.batch, name.as_bytes(), before);
        }
        self.changed_bundles.insert((stored_in(table), name.to_owned()));
        Ok(())
    }

    /// Notes that a row is set or removed: it is no longer lost.
    fn set_found(&mut self, table: &Table, name: &str) {
        if self.engine.has_lost_rows() {
            rows::remove(&mut self.batch, LOST, row_path(table, name).as_bytes(), 1);
        }
    }

    /// Writes a bundle as it is after the records staged so far.
    fn put_bundle(&mut self, stored: &'static str, name: String, revision: u64) -> Result<(), StoreError> {
        let before = self.head(stored, &name)?;
        let bundle = self.bundles.entry((stored, name.clone())).or_default();
        let value = (*bundle != Bundle::default()).then(|| bundle.to_bytes());
        self.put(stored, &name, value.as_deref(), revision, before);
        Ok(())
    }

    /// Counts a change of a row that had the revision `before`.
    fn count(&mut self, table: &'static str, before: Option<u64>, is_there: bool) {
        self.replaced.extend(before.map(|before| (table, before)));
        self.counts.change(table, i64::from(is_there) - i64::from(before.is_some()));
    }

    fn put(
        &mut self,
        table: &'static str,
        name: &str,
        value: Option<&[u8]>,
        revision: u64,
        before: Option<StagedRowHead>,
    ) {
        let chunks_before = before.map_or(0, |(_, chunks)| chunks);
        let after = if let Some(value) = value {
            self.row_bytes += value.len();
            let chunks = rows::put(&mut self.batch, table, name.as_bytes(), revision, value, chunks_before);
            Some((revision, chunks))
        } else {
            rows::remove(&mut self.batch, table, name.as_bytes(), chunks_before);
            None
        };
        self.rows.insert((table, name.to_owned()), after);
    }

    /// The revision of a row after the records staged so far.
    fn revision(&mut self, RowName { table, name }: &RowName) -> Result<Option<u64>, StoreError> {
        if table.bundle.is_some() {
            return Ok(self.bundle(table, name)?.row(table).map(|row| row.revision));
        }
        Ok(self.head(table.name, name)?.map(|(revision, _)| revision))
    }

    /// The value of a row after the records staged so far. If a chunk is missing, it ends before that.
    fn value(&mut self, table: &'static Table, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if table.bundle.is_some() {
            return Ok(self.bundle(table, name)?.row(table).map(|row| row.value.clone()));
        }
        if self.rows.contains_key(&(table.name, name.to_owned())) {
            return Ok(rows::get_from(&self.batch, table.name, name.as_bytes()).flatten());
        }
        Ok(self.stored_row(table.name, name)?.map(|row| row.value))
    }

    /// A row as it was before the group. A damaged one must not prevent other writes, so it ends before its damage.
    fn stored_row(&self, table: &str, name: &str) -> Result<Option<StoredRow>, StoreError> {
        let (dir, name) = (self.engine.dir(), name.as_bytes());
        let read = if self.is_shared { rows::get } else { rows::get_readable };
        self.engine.with(|db| read(db, dir, table, name))
    }

    /// The bundle of `table` called `name` after the records staged so far.
    fn bundle(&mut self, table: &'static Table, name: &str) -> Result<&mut Bundle, StoreError> {
        let (place, dir) = ((stored_in(table), name.to_owned()), self.engine.dir());
        if !self.bundles.contains_key(&place) {
            let row = self.stored_row(place.0, name)?;
            self.read_bytes += row.as_ref().map_or(0, |row| row.value.len());
            self.rows.insert(place.clone(), row.as_ref().map(|row| (row.revision, row.chunks)));
            let bundle = row.map(|row| Bundle::from_bytes(dir, &row.value)).transpose()?;
            self.bundles.insert(place.clone(), bundle.unwrap_or_default());
        }
        Ok(self.bundles.entry(place).or_default())
    }

    /// The head of a row after the records staged so far.
    fn head(&self, table: &'static str, name: &str) -> Result<Option<StagedRowHead>, StoreError> {
        if let Some(staged) = self.rows.get(&(table, name.to_owned())) {
            return Ok(*staged);
        }
        // the counts have the rows staged so far, too
        if self.counts.is_empty(table) {
            return Ok(None);
        }
        self.engine.with(|db| rows::head(db, self.engine.dir(), table, name.as_bytes()))
    }
}

/// The digests of the rows that `writes` set, with their stored values.
fn row_digests(writes: &[RowWrite]) -> RowDigests {
    let digest =
        |RowWrite { row, value, .. }: &RowWrite| (row.to_string(), value.as_deref().map(Sha256Hex::of));
    writes.iter().map(digest).collect()
}

/// Whether the rows are those of the session of the last event, whose entry names them.
fn names_own_session(record: &JournalRecord) -> bool {
    let Some(own) = record.events.last().and_then(|event| event.session_id.as_ref()) else { return true };
    record.writes.iter().all(|RowWrite { row, .. }| {
        !matches!(row.table.data, RowData::Impersonal)
            && session_of_row(row.table, &row.name).is_none_or(|named| named == *own)
    })
}
