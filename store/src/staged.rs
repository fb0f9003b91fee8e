//! A group of records on its way into one batch: numbered, checked against what it expects, and laid out in rows.

use crate::engine::Engine;
use crate::error::StoreError;
use crate::log::{self, Tip};
use crate::record::{Receipt, Record, Refused, RowKey, Write};
use crate::rows::{self, Row, Table};
use crate::watermark::Counts;
use std::borrow::Cow;
use std::collections::HashMap;

/// A group on its way into one batch.
pub(crate) struct Staged<'a> {
    engine: &'a Engine,
    pub(crate) batch: sled::Batch,
    pub(crate) counts: Counts,
    pub(crate) tip: Tip,
    pub(crate) lines: Vec<u8>,
    /// The bytes of all rows beside the log's.
    pub(crate) row_bytes: usize,
    /// Rows as they are behind the records staged so far: revision and chunks.
    rows: HashMap<RowKey, Option<(u64, u16)>>,
    /// Rows that were there before the group and will not be as they were: their tables and revisions.
    pub(crate) replaced: Vec<(Table, u64)>,
    /// Those of them that will be there in another form, as they were.
    pub(crate) before: HashMap<(Table, Vec<u8>), Row>,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(engine: &'a Engine, counts: Counts, tip: Tip) -> Self {
        Self {
            engine,
            batch: sled::Batch::default(),
            counts,
            tip,
            lines: Vec::new(),
            row_bytes: 0,
            rows: HashMap::new(),
            replaced: Vec::new(),
            before: HashMap::new(),
        }
    }

    /// Stages one record, or says why not. The outer error is the store's, and ends the group.
    pub(crate) fn add(&mut self, record: &Record) -> Result<Result<Receipt, Refused>, StoreError> {
        if record.events.is_empty() {
            return Ok(Err(Refused::Unlogged));
        }
        for expect in &record.expect {
            if self.row(&expect.row)?.map(|(revision, _)| revision) != expect.revision {
                return Ok(Err(Refused::Stale(expect.row.clone())));
            }
        }
        let first_seq = self.counts.entries + 1;
        let last_seq = self.counts.entries + record.events.len() as u64;
        log::put(&mut self.batch, first_seq, &record.events, &mut self.tip, &mut self.lines);
        self.counts.entries = last_seq;
        for write in &record.writes {
            self.write(write, last_seq)?;
        }
        Ok(Ok(Receipt { first_seq, last_seq }))
    }

    fn write(&mut self, write: &Write, revision: u64) -> Result<(), StoreError> {
        let row = write.row();
        let before = self.row(&row)?;
        let (table, name) = place(&row);
        if let Some((revision, _)) = before {
            self.replaced.push((table, revision));
            self.keep(&row, revision, write)?;
        }
        let chunks_before = before.map_or(0, |(_, chunks)| chunks);
        let after = match write {
            Write::RemoveVerdict(_) | Write::RemoveRegen(_) | Write::RemoveMail(_) => {
                rows::remove(&mut self.batch, table, &name, chunks_before);
                None
            }
            Write::PutVerdict(delivery) => Some(self.put(&row, revision, delivery.as_ref(), chunks_before)),
            Write::PutSession(session) => Some(self.put(&row, revision, session, chunks_before)),
            Write::PutRegen(attempt) => Some(self.put(&row, revision, attempt, chunks_before)),
            Write::PutMail(mail) => Some(self.put(&row, revision, mail.as_ref(), chunks_before)),
            Write::PutOntology(ontology) => Some(self.put(&row, revision, ontology.as_ref(), chunks_before)),
            Write::PutSource(state) => Some(self.put(&row, revision, state.as_ref(), chunks_before)),
            Write::PutPipeline(pipeline) => Some(self.put(&row, revision, pipeline, chunks_before)),
            Write::PutDefinition(definition) => {
                Some(self.put(&row, revision, definition.as_ref(), chunks_before))
            }
            Write::PutRun(run) => Some(self.put(&row, revision, run.as_ref(), chunks_before)),
        };
        if let Some(count) = self.counts.of(table) {
            *count = *count + u64::from(after.is_some()) - u64::from(before.is_some());
        }
        self.rows.insert(row, after);
        Ok(())
    }

    /// Keeps a row at hand that is about to be replaced, unless the group has written it itself.
    fn keep(&mut self, row: &RowKey, revision: u64, write: &Write) -> Result<(), StoreError> {
        let removed = matches!(write, Write::RemoveVerdict(_) | Write::RemoveRegen(_) | Write::RemoveMail(_));
        if removed || revision > self.engine.durable_seq() {
            return Ok(());
        }
        let (table, name) = place(row);
        let old = self.engine.with(|db| rows::get(db, self.engine.dir(), table, &name))?;
        self.before.extend(old.map(|old| ((table, name.to_vec()), old)));
        Ok(())
    }

    fn put(&mut self, row: &RowKey, revision: u64, value: &impl serde::Serialize, before: u16) -> (u64, u16) {
        let value = serde_json::to_vec(value).expect("a row is plain data with string keys");
        self.row_bytes += value.len();
        let (table, name) = place(row);
        (revision, rows::put(&mut self.batch, table, &name, revision, &value, before))
    }

    fn row(&self, row: &RowKey) -> Result<Option<(u64, u16)>, StoreError> {
        if let Some(staged) = self.rows.get(row) {
            return Ok(*staged);
        }
        let (table, name) = place(row);
        self.engine.with(|db| rows::head(db, self.engine.dir(), table, &name))
    }
}

/// The table and the name of a row.
fn place(row: &RowKey) -> (Table, Cow<'_, [u8]>) {
    let named = |table, name| (table, Cow::Borrowed(str::as_bytes(name)));
    match row {
        RowKey::Verdict(session_id) => named(Table::Verdicts, session_id.as_str()),
        RowKey::Session(session_id) => named(Table::Sessions, session_id.as_str()),
        RowKey::Regen(session_id) => named(Table::Regens, session_id.as_str()),
        RowKey::Mail(mail_id) => named(Table::Outbox, mail_id.as_str()),
        RowKey::Ontology(reference) => (Table::Ontologies, Cow::Owned(reference.to_string().into_bytes())),
        RowKey::Source(oracle_id) => named(Table::Sources, oracle_id.as_str()),
        RowKey::Pipeline(pipeline_id) => named(Table::Pipelines, pipeline_id.as_str()),
        RowKey::Definition(digest) => named(Table::Definitions, digest.as_str()),
        RowKey::Run(run_id) => named(Table::Runs, run_id.as_str()),
    }
}
