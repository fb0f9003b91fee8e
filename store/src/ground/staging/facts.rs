//! Writes a file of statements.

use crate::ground::files::{GroundFiles, UncommittedFiles};
use crate::ground::statement::{ABSENT_ROW, StoredStatement};
use crate::ground::view::STATEMENT;
use domain_ground::run::SortedFileRef;
use store_base::error::StoreError;
use store_facts::sorted::{MergedKeys, RowSource, SortedWriter};

/// Writes statements in the order of their records and runs, followed by the index.
pub(in crate::ground) struct FactsWriter {
    name: String,
    out: SortedWriter,
    statements: u64,
    /// The key and the bytes of the last statement.
    key: Vec<u8>,
    bytes: Vec<u8>,
}

impl FactsWriter {
    /// Begins the file `name`.
    pub(in crate::ground) fn create(files: &GroundFiles, name: String) -> Result<Self, StoreError> {
        Ok(Self { out: files.writer(&name)?, name, statements: 0, key: Vec::new(), bytes: Vec::new() })
    }

    /// Whether it has no rows yet.
    pub(in crate::ground) const fn is_empty(&self) -> bool {
        self.statements == 0
    }

    /// Appends a statement about the record with the key `record_key`. `base` is the statement of the base of its run.
    pub(in crate::ground) fn push(
        &mut self,
        record_key: &[u8],
        statement: &StoredStatement,
        base: Option<&StoredStatement>,
    ) -> Result<(), StoreError> {
        statement.write_to(base, &mut self.bytes);
        self.set_key(record_key, statement.time.run);
        self.statements += 1;
        self.out.push(&self.key, &self.bytes)
    }

    /// Appends that `run` does not have a record of its base.
    pub(in crate::ground) fn push_absent(&mut self, record_key: &[u8], run: u32) -> Result<(), StoreError> {
        self.set_key(record_key, run);
        self.push_row(&self.key.clone(), ABSENT_ROW)
    }

    /// Appends a row of another file.
    pub(in crate::ground) fn push_row(&mut self, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        self.statements += 1;
        self.out.push(key, row)
    }

    fn set_key(&mut self, record_key: &[u8], run: u32) {
        self.key.clear();
        self.key.push(STATEMENT);
        self.key.extend_from_slice(record_key);
        self.key.extend_from_slice(&run.to_be_bytes());
    }

    /// Completes the file with the entries of its index.
    pub(in crate::ground) fn finish(
        mut self,
        files: &GroundFiles,
        mut index: MergedKeys<Box<dyn RowSource>>,
        new_files: &mut UncommittedFiles,
    ) -> Result<SortedFileRef, StoreError> {
        while let Some(entry) = index.advance()? {
            self.out.push(entry, &[])?;
        }
        files.adopt_sorted_file(&self.name, self.out.finish()?, self.statements, new_files)
    }
}
