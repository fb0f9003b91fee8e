//! The rows of registered documents.

use crate::base::engine::TableReader;
use crate::base::rows::with_prefix;
use domain_base::document::{DOCUMENTS, Document, RegisteredDocument};
use domain_base::row::Row;
use store_base::error::StoreError;

impl TableReader {
    /// A registered document, with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn registered<D: Document>(
        &self,
        document_id: &str,
    ) -> Result<Option<(RegisteredDocument<D>, u64)>, StoreError> {
        self.get(&document_id.to_owned())
    }

    /// The ids of all registered documents of a kind.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn registered_ids<D: Document>(&self) -> Result<Vec<String>, StoreError> {
        let prefix = prefix_of::<D>();
        let names = self.names(with_prefix(DOCUMENTS.name, &prefix), .., usize::MAX)?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    /// All registered documents of a kind, in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn all_registered<D: Document>(&self) -> Result<Vec<RegisteredDocument<D>>, StoreError> {
        self.among(with_prefix(DOCUMENTS.name, &prefix_of::<D>()))
    }
}

/// The beginning of the names of the rows of all documents of a kind.
fn prefix_of<D: Document>() -> String {
    RegisteredDocument::<D>::name(&String::new())
}
