//! Documents of any kind, registered one by one or together.

use super::{Registrable, Registry, RegistryError};
use crate::audit::commit_loop::Decided;
use oracled_domain::documents::AnyDocument;
use oracled_domain::{EventKind, Peer};
use oracled_store::{PREVIEW_REVISION, Record};
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

    /// Registers documents in their order in one commit: all of them, or none if one has a fault or with `dry_run`. Each
    /// is decided as if those before it were registered. Returns the change or the fault of each.
    ///
    /// # Errors
    /// The commit failed: nothing is registered.
    pub async fn register_all(
        &self,
        documents: &[AnyDocument],
        dry_run: bool,
        peer: Peer,
    ) -> Result<Vec<Result<DocumentChange, RegistryError>>, RegistryError> {
        let decided = self.desk.log.decide_and_commit(|| {
            let (changes, record) = self.decide_all(documents, peer);
            let is_registered = !dry_run && !record.events.is_empty() && changes.iter().all(Result::is_ok);
            Ok::<_, RegistryError>(if is_registered {
                Decided::Change(changes, record)
            } else {
                Decided::Already(changes)
            })
        });
        let (changes, receipt) = decided.await?;
        if receipt.is_some() {
            documents.iter().for_each(|document| registrable(document).announce(&self.metrics));
        }
        Ok(changes)
    }

    /// The changes or faults of the documents, and the record that registers those without a fault.
    fn decide_all(
        &self,
        documents: &[AnyDocument],
        peer: Peer,
    ) -> (Vec<Result<DocumentChange, RegistryError>>, Record) {
        let (mut all, mut registry) = (Record::default(), self.clone());
        let decided = documents.iter().map(|document| {
            let record = registrable(document).decide(&registry, peer)?;
            let change = DocumentChange::of(record.as_ref());
            if let Some(Record { expect, events, writes, .. }) = record {
                registry.desk.store = registry.desk.store.preview(&writes);
                // a row that an earlier document writes is as that document left it
                all.expect.extend(expect.into_iter().filter(|row| row.revision != Some(PREVIEW_REVISION)));
                all.events.extend(events);
                all.writes.extend(writes);
            }
            Ok(change)
        });
        let changes = decided.collect();
        (changes, all)
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
