//! Documents of any kind, registered one by one or together.

use super::{DocumentRegistry, RegistryError};
use actors_audit::commit_loop::CommitDecision;
use domain_base::caller::PeerCredentials;
use domain_base::document::AnyDocument;
use oracled_domain::documents::event::DocumentRegistered;
use oracled_store::{JournalRecord, PREVIEW_REVISION};
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
    fn of(record: Option<&JournalRecord>) -> Self {
        let before = |record: &JournalRecord| {
            record.events.iter().find_map(|event| event.kind.get::<DocumentRegistered>()?.0.before.clone())
        };
        match record.map(before) {
            None => Self::Unchanged,
            Some(None) => Self::Created,
            Some(Some(before)) => Self::Changed(before),
        }
    }
}

impl DocumentRegistry {
    /// Registers a document, in place of the one with its id.
    ///
    /// # Errors
    /// Why it cannot be registered; or the entry cannot be committed, and then nothing changes.
    pub async fn register(
        &self,
        document: impl Into<AnyDocument>,
        peer: PeerCredentials,
    ) -> Result<DocumentChange, RegistryError> {
        let document = document.into();
        let decided = self.context.log.decide_and_commit(|| {
            let record = self.decide(&document, peer)?;
            let change = DocumentChange::of(record.as_ref());
            Ok::<_, RegistryError>(match record {
                Some(record) => CommitDecision::Change(change, record),
                None => CommitDecision::Already(change),
            })
        });
        let (change, _) = decided.await?;
        self.init_counters_of(&document);
        Ok(change)
    }

    /// Registers documents in their order in one commit: all of them, or none if one has a fault or with
    /// `dry_run`. Each is decided as if those before it were registered. Returns the change or the fault of
    /// each.
    ///
    /// # Errors
    /// The commit failed: nothing is registered.
    pub async fn register_all(
        &self,
        documents: &[AnyDocument],
        dry_run: bool,
        peer: PeerCredentials,
    ) -> Result<Vec<Result<DocumentChange, RegistryError>>, RegistryError> {
        let decided = self.context.log.decide_and_commit(|| {
            let (changes, record) = self.decide_all(documents, peer);
            let is_registered = !dry_run && !record.events.is_empty() && changes.iter().all(Result::is_ok);
            Ok::<_, RegistryError>(if is_registered {
                CommitDecision::Change(changes, record)
            } else {
                CommitDecision::Already(changes)
            })
        });
        let (changes, receipt) = decided.await?;
        if receipt.is_some() {
            documents.iter().for_each(|document| self.init_counters_of(document));
        }
        Ok(changes)
    }

    /// The changes or faults of the documents, and the record that registers those without a fault.
    fn decide_all(
        &self,
        documents: &[AnyDocument],
        peer: PeerCredentials,
    ) -> (Vec<Result<DocumentChange, RegistryError>>, JournalRecord) {
        let (mut all, mut registry) = (JournalRecord::default(), self.clone());
        let decided = documents.iter().map(|document| {
            let record = registry.decide(document, peer)?;
            let change = DocumentChange::of(record.as_ref());
            if let Some(JournalRecord { expect, events, writes, .. }) = record {
                registry.context.store.preview(&writes);
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

    /// Decides on the registration of a document by the checks of its kind.
    fn decide(
        &self,
        document: &AnyDocument,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        (self.registration(document.document_type()).decide)(document, self, peer)
    }
}
