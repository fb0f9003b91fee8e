//! The rows of registered documents. Sources and their freshness policies have rows of their own .

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::row_write::RowName;
use crate::base::rows::with_prefix;
use oracled_domain::Sha256Hex;
use oracled_domain::documents::{DOCUMENTS, DocumentKey, DocumentKind, RegisteredDocument, RegistryDocument};
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::ontology::{Ontology, OntologyRef};
use oracled_domain::ground::pipeline::{PipelineDefinition, RegisteredPipeline};

impl TableReader {
    /// A registered document that is stored as [`RegisteredDocument`], with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn registered<D: RegistryDocument>(
        &self,
        document_id: &str,
    ) -> Result<Option<(RegisteredDocument<D>, u64)>, StoreError> {
        self.get(&DocumentKey { kind: D::KIND, document_id: document_id.to_owned() })
    }

    /// The ids of all registered documents of a kind.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn registered_ids<D: RegistryDocument>(&self) -> Result<Vec<String>, StoreError> {
        let prefix = prefix_of(D::KIND);
        let names = self.names(with_prefix(DOCUMENTS.name, &prefix), .., usize::MAX)?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    /// All registered documents of a kind that are stored as [`RegisteredDocument`], in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn all_registered<D: RegistryDocument>(&self) -> Result<Vec<RegisteredDocument<D>>, StoreError> {
        self.among(with_prefix(DOCUMENTS.name, &prefix_of(D::KIND)))
    }

    /// A version of an ontology.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn ontology(&self, reference: &OntologyRef) -> Result<Option<Ontology>, StoreError> {
        Ok(self.registered(&reference.to_string())?.map(|(registered, _)| registered.document))
    }

    /// A pipeline with its revision; [`TableReader::definition`] returns its definition.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn pipeline(
        &self,
        pipeline_id: &PipelineId,
    ) -> Result<Option<(RegisteredPipeline, u64)>, StoreError> {
        self.get(&DocumentKey { kind: DocumentKind::Pipeline, document_id: pipeline_id.to_string() })
    }

    /// All pipelines, in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn pipelines(&self) -> Result<Vec<RegisteredPipeline>, StoreError> {
        self.among(with_prefix(DOCUMENTS.name, &prefix_of(DocumentKind::Pipeline)))
    }

    /// The definition of a pipeline, by its digest.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn definition(&self, sha256: &Sha256Hex) -> Result<Option<PipelineDefinition>, StoreError> {
        Ok(self.get::<PipelineDefinition>(sha256)?.map(|(definition, _)| definition))
    }
}

/// The beginning of the names of the rows of all documents of a kind.
fn prefix_of(kind: DocumentKind) -> String {
    DocumentKey { kind, document_id: String::new() }.to_string()
}

impl RowName {
    /// The name of the row of a registered document.
    #[must_use]
    pub fn of_document(kind: DocumentKind, document_id: impl ToString) -> Self {
        let name = DocumentKey { kind, document_id: document_id.to_string() }.to_string();
        Self { table: DOCUMENTS, name }
    }
}
