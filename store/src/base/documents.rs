//! The rows of registered documents. Sources and their freshness policies have rows of their own (`ground/state.rs`).

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::read::skip_lost;
use crate::base::rows::{TableId, key};
use oracled_domain::Sha256Hex;
use oracled_domain::documents::{DocumentKind, RegisteredDocument, RegistryDocument};
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::ontology::{Ontology, OntologyRef};
use oracled_domain::ground::pipeline::{PipelineDefinition, RegisteredPipeline};
use serde::de::DeserializeOwned;

impl TableReader {
    /// A registered document with its revision; of a pipeline `T` is [`RegisteredPipeline`], otherwise
    /// [`RegisteredDocument`].
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn document<T: DeserializeOwned>(
        &self,
        kind: DocumentKind,
        document_id: &str,
    ) -> Result<Option<(T, u64)>, StoreError> {
        self.read_row(TableId::Documents, &document_name(kind, document_id))
    }

    /// All registered documents of a kind, in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn documents<T: DeserializeOwned>(&self, kind: DocumentKind) -> Result<Vec<T>, StoreError> {
        let rows = self.document_names(kind)?;
        let rows = rows
            .into_iter()
            .map(|name| Ok(skip_lost(self.read_row(TableId::Documents, &name))?.map(|(row, _)| row)));
        rows.filter_map(Result::transpose).collect()
    }

    /// A registered document that is stored as [`RegisteredDocument`], with its revision.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn registered<D: RegistryDocument>(
        &self,
        document_id: &str,
    ) -> Result<Option<(RegisteredDocument<D>, u64)>, StoreError> {
        self.document(D::KIND, document_id)
    }

    /// The names of the rows of all documents of a kind.
    fn document_names(&self, kind: DocumentKind) -> Result<Vec<String>, StoreError> {
        let keys = key(TableId::Documents, &[document_name(kind, "").as_bytes()])
            ..key(TableId::Documents, &[document_name(kind, "").as_bytes(), &[u8::MAX]]);
        self.names(TableId::Documents, keys, .., usize::MAX)
    }

    /// The ids of all registered documents of a kind.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn registered_ids<D: RegistryDocument>(&self) -> Result<Vec<String>, StoreError> {
        let (prefix, names) = (document_name(D::KIND, ""), self.document_names(D::KIND)?);
        Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    /// All registered documents of a kind that are stored as [`RegisteredDocument`], in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn all_registered<D: RegistryDocument>(&self) -> Result<Vec<RegisteredDocument<D>>, StoreError> {
        self.documents(D::KIND)
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
        self.document(DocumentKind::Pipeline, pipeline_id.as_str())
    }

    /// All pipelines, in the order of their ids.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn pipelines(&self) -> Result<Vec<RegisteredPipeline>, StoreError> {
        self.documents(DocumentKind::Pipeline)
    }

    /// The definition of a pipeline, by its digest.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn definition(&self, sha256: &Sha256Hex) -> Result<Option<PipelineDefinition>, StoreError> {
        Ok(self.read_row(TableId::Definitions, sha256.as_str())?.map(|(definition, _)| definition))
    }
}

/// The name of the row of a document.
pub(crate) fn document_name(kind: DocumentKind, document_id: &str) -> String {
    format!("{}/{document_id}", kind.into_str())
}
