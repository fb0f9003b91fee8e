//! Adapters of live sources: how each source is asked, and how its answer is parsed (RFC-0002, Part II).

use super::{CommitContext, DocumentRegistry, RegistrableDocument, RegistryError};
use oracled_domain::PeerCredentials;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::{SourceAdapterKind, SourceRegistration};
use oracled_domain::ground::source_state::SourceState;
use oracled_domain::verification::adapter::Adapter;
use oracled_store::{JournalRecord, RowExpectation};
use std::sync::Arc;

impl RegistrableDocument for Adapter {
    fn decide(
        &self,
        registry: &DocumentRegistry,
        peer: PeerCredentials,
    ) -> Result<Option<JournalRecord>, RegistryError> {
        let context = &registry.context;
        let oracle_id = &self.oracle_id;
        let (source, source_revision) = context.source(oracle_id)?;
        let registration = &source.entry.registration;
        if registration.adapter_id != SourceAdapterKind::Http {
            return Err(RegistryError::NotLive(oracle_id.clone()));
        }
        let ontology = Arc::new(context.ontology(&registration.ontology)?);
        let ready = self.validate(registration, ontology)?;
        registry.live.check(&ready).map_err(|error| RegistryError::Endpoint(error.to_string()))?;
        let expect = vec![RowExpectation::new::<SourceState>(oracle_id, Some(source_revision))];
        context.replacement(self, expect, Vec::new(), peer)
    }
}

impl CommitContext {
    /// Checks that the adapter of a source, if it has one, works with the new registration `after` and its `ontology`.
    /// Returns the revision of the adapter.
    ///
    /// # Errors
    /// `AdapterKept`.
    pub(super) fn check_adapter(
        &self,
        after: &SourceRegistration,
        ontology: &Ontology,
    ) -> Result<Option<u64>, RegistryError> {
        let known = self.store.registered::<Adapter>(after.oracle_id.as_str())?;
        let Some((known, revision)) = known else { return Ok(None) };
        let ready = known.document.validate(after, Arc::new(ontology.clone()));
        ready.map(|_| Some(revision)).map_err(RegistryError::AdapterKept)
    }
}
