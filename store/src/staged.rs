//! A group of records on its way into one batch: numbered, checked against what it expects, and laid out in rows.

use crate::engine::Engine;
use crate::error::StoreError;
use crate::log::{self, Tip};
use crate::record::{Receipt, Record, Refused, RowKey, Write};
use crate::refusals::refusal_name;
use crate::rows::{self, Row, Table};
use crate::verification::{caller_openable_name, kept_name, open_name, subject_name};
use crate::watermark::Counts;
use std::borrow::Cow;
use std::collections::HashMap;

/// The revision of a row, and its number of chunks.
type Head = (u64, u16);

/// A group on its way into one batch.
pub(crate) struct Staged<'a> {
    engine: &'a Engine,
    pub(crate) batch: sled::Batch,
    pub(crate) counts: Counts,
    pub(crate) tip: Tip,
    pub(crate) lines: Vec<u8>,
    /// The bytes of all rows beside the log's.
    row_bytes: usize,
    /// Rows as they are behind the records staged so far.
    rows: HashMap<(Table, Vec<u8>), Option<Head>>,
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
            let (table, name) = place(&expect.row);
            if self.row(table, &name)?.map(|(revision, _)| revision) != expect.revision {
                return Ok(Err(Refused::Stale(expect.row.clone())));
            }
        }
        let follows = record.writes.iter().any(|write| matches!(write, Write::RemovePending(_)));
        for write in record.writes.iter().filter(|write| write.is_new_work() && !follows) {
            let row = write.row();
            let (table, name) = place(&row);
            if self.row(table, &name)?.is_none()
                && let Err(error) = self.engine.free().check()
            {
                return Ok(Err(Refused::LowSpace(error.to_string())));
            }
        }
        let first_seq = self.counts.entries + 1;
        let last_seq = self.counts.entries + record.events.len() as u64;
        log::put(&mut self.batch, first_seq, record, &mut self.tip, &mut self.lines);
        self.counts.entries = last_seq;
        for write in &record.writes {
            self.write(write, last_seq)?;
        }
        Ok(Ok(Receipt { first_seq, last_seq }))
    }

    /// The bytes of all that is staged.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() + self.row_bytes
    }

    fn write(&mut self, write: &Write, revision: u64) -> Result<(), StoreError> {
        let row = write.row();
        let (table, name) = place(&row);
        self.set(table, &name, write.value(), revision)?;
        if let Write::PutReview(state) = write {
            let open = state.is_open().then(Vec::new);
            let of_workflow = open_name(&state.review.workflow_id, &state.review.review_id);
            self.set(Table::OpenReviews, &name, open.clone(), revision)?;
            if state.review.is_caller_openable() {
                let by_caller = caller_openable_name(&state.review.workflow_id, &state.review.review_id);
                self.set(Table::OpenByWorkflow, by_caller.as_bytes(), open.clone(), revision)?;
            }
            self.set(Table::OpenByWorkflow, of_workflow.as_bytes(), open, revision)?;
        }
        Ok(())
    }

    /// Puts a row in place of any other of its name, or takes it out.
    fn set(
        &mut self,
        table: Table,
        name: &[u8],
        value: Option<Vec<u8>>,
        revision: u64,
    ) -> Result<(), StoreError> {
        let before = self.row(table, name)?;
        if let Some((revision, _)) = before {
            self.replaced.push((table, revision));
            if table == Table::Sessions {
                log::index_session(&mut self.batch, name, revision);
            }
            if value.is_some() {
                self.keep(table, name, revision)?;
            }
        }
        let chunks_before = before.map_or(0, |(_, chunks)| chunks);
        let after = if let Some(value) = value {
            self.row_bytes += value.len();
            Some((revision, rows::put(&mut self.batch, table, name, revision, &value, chunks_before)))
        } else {
            rows::remove(&mut self.batch, table, name, chunks_before);
            None
        };
        if let Some(count) = self.counts.of(table) {
            *count = *count + u64::from(after.is_some()) - u64::from(before.is_some());
        }
        self.rows.insert((table, name.to_vec()), after);
        Ok(())
    }

    /// Keeps a row at hand that is about to be replaced, unless the group has written it itself.
    fn keep(&mut self, table: Table, name: &[u8], revision: u64) -> Result<(), StoreError> {
        if revision > self.engine.durable_seq() {
            return Ok(());
        }
        let old = self.engine.with(|db| rows::get(db, self.engine.dir(), table, name))?;
        self.before.extend(old.map(|old| ((table, name.to_vec()), old)));
        Ok(())
    }

    /// A row as it is behind the records staged so far.
    fn row(&self, table: Table, name: &[u8]) -> Result<Option<Head>, StoreError> {
        if let Some(staged) = self.rows.get(&(table, name.to_vec())) {
            return Ok(*staged);
        }
        self.engine.with(|db| rows::head(db, self.engine.dir(), table, name))
    }
}

/// The table and the name of a row.
fn place(row: &RowKey) -> (Table, Cow<'_, [u8]>) {
    let named = |table, name| (table, Cow::Borrowed(str::as_bytes(name)));
    match row {
        RowKey::Verdict(session_id) => named(Table::Verdicts, session_id.as_str()),
        RowKey::Session(session_id) => named(Table::Sessions, session_id.as_str()),
        RowKey::Regen(session_id) => named(Table::Regens, session_id.as_str()),
        RowKey::Refusal(key) => (Table::Refusals, Cow::Owned(refusal_name(key).into_bytes())),
        RowKey::Mail(mail_id) => named(Table::Outbox, mail_id.as_str()),
        RowKey::Ontology(reference) => (Table::Ontologies, Cow::Owned(reference.to_string().into_bytes())),
        RowKey::Source(oracle_id) => named(Table::Sources, oracle_id.as_str()),
        RowKey::Pipeline(pipeline_id) => named(Table::Pipelines, pipeline_id.as_str()),
        RowKey::Definition(digest) => named(Table::Definitions, digest.as_str()),
        RowKey::Run(run_id) => named(Table::Runs, run_id.as_str()),
        RowKey::Adapter(oracle_id) => named(Table::Adapters, oracle_id.as_str()),
        RowKey::Workflow(workflow_id) => named(Table::Workflows, workflow_id.as_str()),
        RowKey::Review(review_id) => named(Table::Reviews, review_id),
        RowKey::Subject(key) => (Table::Subjects, Cow::Owned(subject_name(key).into_bytes())),
        RowKey::Kept(key) => (Table::Kept, Cow::Owned(kept_name(key).into_bytes())),
        RowKey::Pending(execution_id) => named(Table::Pending, execution_id),
    }
}
