//! A file of statements in the making.

use crate::base::error::StoreError;
use crate::ground::files::{Files, Made};
use crate::ground::sorted::{Keys, RowSource, SortedWriter};
use crate::ground::statement::StoredStatement;
use crate::ground::view::key_of;
use oracled_domain::ground::run::FileRef;

/// Writes statements in the order of their records and runs, and then an index.
pub(in crate::ground) struct FactsWriter {
    name: String,
    out: SortedWriter,
    statements: u64,
    /// The bytes of the last statement.
    bytes: Vec<u8>,
}

impl FactsWriter {
    /// Begins a file with this name.
    pub(in crate::ground) fn create(files: &Files, name: String) -> Result<Self, StoreError> {
        Ok(Self { out: files.writer(&name)?, name, statements: 0, bytes: Vec::new() })
    }

    /// Appends a statement about the record with this key.
    pub(in crate::ground) fn push(
        &mut self,
        record_key: &[u8],
        statement: &StoredStatement,
    ) -> Result<(), StoreError> {
        statement.write_to(&mut self.bytes);
        self.statements += 1;
        self.out.push(&key_of(record_key, statement.time.run), &self.bytes)
    }

    /// Completes the file with the entries of its index.
    pub(in crate::ground) fn finish(
        mut self,
        files: &Files,
        mut index: Keys<Box<dyn RowSource>>,
        made: &mut Made,
    ) -> Result<FileRef, StoreError> {
        while let Some(entry) = index.advance()? {
            self.out.push(entry, &[])?;
        }
        files.keep(&self.name, self.out.finish()?, self.statements, made)
    }
}
