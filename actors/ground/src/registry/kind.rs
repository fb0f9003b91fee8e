//! The kinds of documents that the registry registers, each with the checks of its feature.

use super::{DocumentRegistry, RegistryError};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::document::{AnyDocument, Document, DocumentType, RegisteredDocument};
use domain_ground::ontology::Ontology;
use domain_ground::source::SourceRegistration;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation};
use serde_json::Value as Json;
use std::fmt::Debug;

/// The checks of a kind of documents. A feature lists its kinds as `DOCUMENTS`.
pub trait DocumentChecks: Sized + 'static {
    type Document: Document;

    const REGISTRATION: &'static DocumentRegistration = &DocumentRegistration {
        kind: Self::Document::TYPE,
        decide: |document, registry, peer| {
            Self::decide(document.get().expect("the registry selects by kind"), registry, peer)
        },
        list: list::<Self>,
        find: find::<Self>,
        check_source: Self::check_source,
    };

    /// Decides on the registration over the rows as they are now; `None` if the same document is registered already.
    ///
    /// # Errors
    /// Why the document cannot be registered.
    fn decide(
        document: &Self::Document,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError>;

    /// Reads the state of documents of this kind, in words. What all of them need is read once.
    ///
    /// # Errors
    /// It cannot be read.
    fn status_reader(
        _registry: &DocumentRegistry,
    ) -> Result<StatusReader<'_, Self::Document>, RegistryError> {
        Ok(Box::new(|_| Ok(None)))
    }

    /// Checks that a change of a source breaks no document of this kind.
    ///
    /// # Errors
    /// The document that it would break; or the store cannot be read.
    fn check_source(
        _registry: &DocumentRegistry,
        _change: &SourceAmendment<'_>,
    ) -> Result<SourceDependents, RegistryError> {
        Ok(SourceDependents::default())
    }
}

/// Returns the state of a document in words, if it has one.
pub type StatusReader<'r, D> = Box<dyn Fn(&D) -> Result<Option<String>, RegistryError> + 'r>;

/// A kind of documents with its checks.
#[derive(Debug)]
pub struct DocumentRegistration {
    pub kind: &'static DocumentType,
    /// See [`DocumentChecks::decide`].
    pub(super) decide:
        fn(&AnyDocument, &DocumentRegistry, PeerCredentials) -> Result<Option<JournalRecord>, RegistryError>,
    list: fn(&DocumentRegistry) -> Result<Vec<DocumentState>, RegistryError>,
    find: fn(&DocumentRegistry, &str) -> Result<Option<FoundDocument>, RegistryError>,
    /// See [`DocumentChecks::check_source`].
    pub(super) check_source:
        fn(&DocumentRegistry, &SourceAmendment<'_>) -> Result<SourceDependents, RegistryError>,
}

/// A source as it will be registered.
#[derive(Debug, Clone, Copy)]
pub struct SourceAmendment<'s> {
    pub after: &'s SourceRegistration,
    /// The ontology that it names.
    pub ontology: &'s Ontology,
}

/// The documents that depend on a source.
#[derive(Debug, Default)]
pub struct SourceDependents {
    /// The rows that were read. They must be unchanged when the source changes.
    pub expect: Vec<RowExpectation>,
    /// Whether the source is queried with one of the documents.
    pub is_queried: bool,
}

/// Metrics with counters for documents.
pub trait DocumentCounters: Debug + Send + Sync {
    /// Creates the counters of a registered document at 0, if its kind has any.
    fn init_counters_of(&self, document: &AnyDocument);
}

/// A document: its state, and its content with all defaults.
pub type FoundDocument = (DocumentState, Json);

/// A document without its content.
#[derive(Debug)]
pub struct DocumentState {
    pub document_id: String,
    /// Its digest.
    pub sha256: Sha256Hex,
    /// When it was registered with this content, and the user id that registered it; `None` if it is built in.
    pub registered: Option<(Timestamp, String)>,
    /// Its state in words, if it has one.
    pub status: Option<String>,
}

impl DocumentState {
    fn of_built_in<D: Document>(document: &D, status: &StatusReader<'_, D>) -> Result<Self, RegistryError> {
        let status = match status(document)? {
            Some(status) => format!("built in, {status}"),
            None => "built in".to_owned(),
        };
        let (document_id, sha256) = (document.document_id(), document.digest());
        Ok(Self { document_id, sha256, registered: None, status: Some(status) })
    }

    fn of_registered<D: Document>(
        document: RegisteredDocument<D>,
        status: &StatusReader<'_, D>,
    ) -> Result<Self, RegistryError> {
        let RegisteredDocument { document, sha256, registered_at, registered_by } = document;
        let (document_id, status) = (document.document_id(), status(&document)?);
        Ok(Self { document_id, sha256, registered: Some((registered_at, registered_by)), status })
    }
}

fn list<C: DocumentChecks>(registry: &DocumentRegistry) -> Result<Vec<DocumentState>, RegistryError> {
    let status = C::status_reader(registry)?;
    let built_in =
        C::Document::built_in_versions().iter().map(|document| DocumentState::of_built_in(document, &status));
    let registered = registry.context.store.all_registered::<C::Document>()?.into_iter();
    built_in.chain(registered.map(|document| DocumentState::of_registered(document, &status))).collect()
}

fn find<C: DocumentChecks>(
    registry: &DocumentRegistry,
    document_id: &str,
) -> Result<Option<FoundDocument>, RegistryError> {
    let status = C::status_reader(registry)?;
    if let Some(built_in) =
        C::Document::built_in_versions().iter().find(|document| document.document_id() == document_id)
    {
        return Ok(Some((DocumentState::of_built_in(built_in, &status)?, built_in.to_json())));
    }
    let Some((found, _)) = registry.context.store.registered::<C::Document>(document_id)? else {
        return Ok(None);
    };
    let json = found.document.to_json();
    Ok(Some((DocumentState::of_registered(found, &status)?, json)))
}

impl DocumentRegistry {
    /// The documents of a kind, without their content.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, kind: &DocumentType) -> Result<Vec<DocumentState>, RegistryError> {
        (self.registration(kind).list)(self)
    }

    /// A document with its content.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find(
        &self,
        kind: &DocumentType,
        document_id: &str,
    ) -> Result<Option<FoundDocument>, RegistryError> {
        (self.registration(kind).find)(self, document_id)
    }

    /// The checks of a kind.
    pub(super) fn registration(&self, kind: &DocumentType) -> &'static DocumentRegistration {
        let found = self.kinds().find(|known| known.kind == kind);
        found.expect("each kind of documents has its checks")
    }
}
