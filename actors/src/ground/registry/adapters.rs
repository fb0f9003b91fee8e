//! Adapters of live sources: how each source is asked, and how its answer is parsed (RFC-0002, Part II).

use super::{Desk, Registrable, Registry, RegistryError, as_read};
use oracled_domain::Peer;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::{AdapterId, Registration};
use oracled_domain::verification::adapter::Adapter;
use oracled_store::{Record, RowKey};
use std::sync::Arc;

impl Registrable for Adapter {
    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Option<Record>, RegistryError> {
        let desk = &registry.desk;
        let oracle_id = &self.oracle_id;
        let (source, source_revision) = desk.source(oracle_id)?;
        let registration = &source.entry.registration;
        if registration.adapter_id != AdapterId::Http {
            return Err(RegistryError::NotLive(oracle_id.clone()));
        }
        let ontology = Arc::new(desk.ontology(&registration.ontology)?);
        let ready = self.validate(registration, ontology)?;
        registry.live.check(&ready).map_err(|error| RegistryError::Endpoint(error.to_string()))?;
        let expect = as_read(RowKey::Source(oracle_id.clone()), Some(source_revision));
        desk.replacement(self, expect, Vec::new(), peer)
    }
}

impl Desk {
    /// Checks that the adapter of a source, if it has one, works with the new registration `after` and its `ontology`.
    /// Returns the revision of the adapter.
    ///
    /// # Errors
    /// `AdapterKept`.
    pub(super) fn check_adapter(
        &self,
        after: &Registration,
        ontology: &Ontology,
    ) -> Result<Option<u64>, RegistryError> {
        let known = self.store.registered::<Adapter>(after.oracle_id.as_str())?;
        let Some((known, revision)) = known else { return Ok(None) };
        let ready = known.document.validate(after, Arc::new(ontology.clone()));
        ready.map(|_| Some(revision)).map_err(RegistryError::AdapterKept)
    }
}
