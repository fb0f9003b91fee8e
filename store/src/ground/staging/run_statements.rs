//! A run's own statements in key order, with all records of one key as a group.

use crate::ground::statement::{StatementRow, StoredStatement};
use crate::ground::view::SourceView;
use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use domain_base::varint::take_part;
use domain_ground::rejection::{RecordRejection, RejectedRecord};
use std::path::Path;
use store_base::error::StoreError;
use store_base::ordered_rows::RowSource;
use store_base::sorter::{RowSorter, SorterOutput};

/// The number of records of one key that are held in memory. Further ones are written to the disk until the group is
/// complete.
const HELD_MAX: usize = 4096;
/// The memory for sorting those, in bytes.
const SORT_BYTES: usize = 4 << 20;

/// A run's own statements in key order.
pub(super) struct RunStatements<'d> {
    rows: SorterOutput,
    run: u32,
    work_dir: &'d Path,
}

/// A statement of the run, with the values of its indexed axes.
pub(super) struct RunStatement {
    pub(super) statement: StoredStatement,
    /// For each indexed axis with a value, the axis and the key bytes of the value (`put_index_value`).
    pub(super) index: Vec<u8>,
}

/// The records of one key in one run.
pub(super) struct RecordGroup {
    pub(super) first: RunStatement,
    /// Number of records.
    pub(super) members: u64,
    /// Whether all records are equal.
    pub(super) same: bool,
    /// The other records, without their content.
    held: Vec<StoredStatement>,
    rest: Option<RowSorter>,
}

impl<'d> RunStatements<'d> {
    pub(super) fn new(statements: RowSorter, run: u32, work_dir: &'d Path) -> Result<Self, StoreError> {
        let mut rows = statements.finish()?;
        rows.advance()?;
        Ok(Self { rows, run, work_dir })
    }

    /// The key of the next record.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.rows.current().map(|(key, _)| key)
    }

    /// All records with this key; `None` if there are none.
    pub(super) fn group(&mut self, key: &[u8], view: &SourceView) -> Result<Option<RecordGroup>, StoreError> {
        let mut group: Option<RecordGroup> = None;
        while let Some((_, bytes)) = self.rows.current().filter(|(next, _)| *next == key) {
            let statement = read_with_index(self.run, bytes, view)?;
            match &mut group {
                Some(group) => group.add(statement, self.work_dir)?,
                None => group = Some(RecordGroup::new(statement)),
            }
            self.rows.advance()?;
        }
        Ok(group)
    }
}

impl RecordGroup {
    const fn new(first: RunStatement) -> Self {
        Self { first, members: 1, same: true, held: Vec::new(), rest: None }
    }

    /// Adds another record of the key. A record that was already rejected is ignored if there are others.
    fn add(&mut self, stated: RunStatement, work_dir: &Path) -> Result<(), StoreError> {
        if stated.statement.time.content.is_none() {
            return Ok(());
        }
        if self.first.statement.time.content.is_none() {
            *self = Self::new(stated);
            return Ok(());
        }
        let mut statement = stated.statement;
        self.members += 1;
        self.same &= self.first.statement.time == statement.time;
        statement.row = None;
        if self.held.len() < HELD_MAX {
            self.held.push(statement);
            return Ok(());
        }
        let rest = self.rest.get_or_insert_with(|| RowSorter::new(work_dir, SORT_BYTES));
        let mut bytes = Vec::new();
        statement.write_to(None, &mut bytes);
        rest.push(&statement.position.to_be_bytes(), &bytes)
    }

    /// Passes each record of the group to `reject`, since the records differ.
    pub(super) fn reject(
        self,
        view: &SourceView,
        mut reject: impl FnMut(RejectedRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let first = &self.first.statement;
        let run = first.time.run;
        let known = || std::iter::once(first).chain(&self.held);
        let rejection = RecordRejection::same_key(self.members, known().map(|member| member.position));
        known().try_for_each(|member| reject(rejected(member, &rejection)))?;
        let Some(rest) = self.rest else { return Ok(()) };
        let mut rest = rest.finish()?;
        rest.advance()?;
        while let Some((_, bytes)) = rest.current() {
            reject(rejected(&read(run, bytes, view)?, &rejection))?;
            rest.advance()?;
        }
        Ok(())
    }
}

fn read(run: u32, bytes: &[u8], view: &SourceView) -> Result<StoredStatement, StoreError> {
    match StoredStatement::read(run, &Bytes::copy_from_slice(bytes), None) {
        Some(StatementRow::Stated(statement)) => Ok(statement),
        Some(StatementRow::Absent) | None => Err(view.corrupt("a statement cannot be read")),
    }
}

/// Reads a statement with the values of its indexed axes after it.
fn read_with_index(run: u32, mut bytes: &[u8], view: &SourceView) -> Result<RunStatement, StoreError> {
    let statement = take_part(&mut bytes).ok_or_else(|| view.corrupt("a statement cannot be read"))?;
    Ok(RunStatement { statement: read(run, statement, view)?, index: bytes.to_vec() })
}

fn rejected(statement: &StoredStatement, rejection: &RecordRejection) -> RejectedRecord {
    let StoredStatement { position, offset, len, raw_hash, .. } = *statement;
    let raw_hash = Sha256Hex::from_bytes(&raw_hash);
    RejectedRecord { position, offset, len, raw_hash, rejection: rejection.clone() }
}
