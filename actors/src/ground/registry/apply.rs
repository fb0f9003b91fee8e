//! Documents of any kind, registered one by one or previewed together.

use super::{Registrable, Registry, RegistryError};
use crate::audit::commit_loop::Decided;
use oracled_domain::documents::AnyDocument;
use oracled_domain::{EventKind, Peer};
use oracled_store::Record;
use serde_json::Value as Json;

/// The change by a registration.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentChange {
    /// No document of this id was registered.
    Created,
    /// The document replaces this one.
    Changed(Box<Json>),
    /// The same document was registered already.
    Unchanged,
}

impl DocumentChange {
    /// The change by the record of a registration.
    fn of(record: Option<&Record>) -> Self {
        let before = |record: &Record| {
            record.events.iter().find_map(|event| match &event.kind {
                EventKind::DocumentRegistered(entry) => entry.before.clone(),
                _ => None,
            })
        };
        match record.map(before) {
            None => Self::Unchanged,
            Some(None) => Self::Created,
            Some(Some(before)) => Self::Changed(before),
        }
    }
}

impl Registry {
    /// Registers a document, in place of the one with its id.
    ///
    /// # Errors
    /// Why it cannot be registered; or the entry cannot be committed, and then nothing changes.
    pub async fn register(
        &self,
        document: &dyn Registrable,
        peer: Peer,
    ) -> Result<DocumentChange, RegistryError> {
        let decided = self.desk.log.decide_and_commit(|| {
            let record = document.decide(self, peer)?;
            let change = DocumentChange::of(record.as_ref());
            Ok::<_, RegistryError>(match record {
                Some(record) => Decided::Change(change, record),
                None => Decided::Already(change),
            })
        });
        let (change, _) = decided.await?;
        document.announce(&self.metrics);
        Ok(change)
    }

    /// Decides on the registration of these documents, each as if those before it were registered. Registers none.
    #[must_use]
    pub fn preview(
        &self,
        documents: &[AnyDocument],
        peer: Peer,
    ) -> Vec<Result<DocumentChange, RegistryError>> {
        let mut registry = self.clone();
        let decided = documents.iter().map(|document| {
            let record = registrable(document).decide(&registry, peer)?;
            let change = DocumentChange::of(record.as_ref());
            if let Some(record) = record {
                registry.desk.store = registry.desk.store.preview(&record.writes);
            }
            Ok(change)
        });
        decided.collect()
    }
}

/// The registration of a document of any kind.
#[must_use]
pub fn registrable(document: &AnyDocument) -> &dyn Registrable {
    match document {
        AnyDocument::Ontology(document) => &**document,
        AnyDocument::Source(document) => &**document,
        AnyDocument::FreshnessPolicy(document) => &**document,
        AnyDocument::Pipeline(document) => &**document,
        AnyDocument::Adapter(document) => &**document,
        AnyDocument::Workflow(document) => &**document,
    }
}
