//! Adapters of live sources: how each is asked, and how its answer is read (RFC-0002, Part II).

use super::{Desk, Registrable, Registry, RegistryError, as_read};
use crate::audit::commit_loop::Decided;
use oracled_domain::audit::event::ground::AdapterEntry;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::{AdapterId, Registration};
use oracled_domain::verification::adapter::{Adapter, RegisteredAdapter};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

impl Registrable for Adapter {
    type Registered = RegisteredAdapter;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<RegisteredAdapter>, RegistryError> {
        let desk = &registry.desk;
        let (oracle_id, adapter_sha256) = (&self.oracle_id, self.digest());
        let (source, source_revision) = desk.source(oracle_id)?;
        let registration = &source.entry.registration;
        if registration.adapter_id != AdapterId::Http {
            return Err(RegistryError::NotLive(oracle_id.clone()));
        }
        let ontology = Arc::new(desk.ontology(&registration.ontology)?);
        let ready = self.validate(registration, ontology)?;
        registry.live.check(&ready).map_err(|error| RegistryError::Endpoint(error.to_string()))?;
        let known = desk.store.adapter(oracle_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        let known = known.map(|(known, _)| known);
        if let Some(known) = known.as_ref().filter(|known| known.adapter_sha256 == adapter_sha256) {
            return Ok(Decided::Already(known.clone()));
        }
        let timestamp = desk.clock.now();
        let registered = RegisteredAdapter {
            adapter: self.clone(),
            adapter_sha256: adapter_sha256.clone(),
            registered_at: timestamp,
            registered_by: peer.uid.to_string(),
        };
        let entry = AdapterEntry {
            oracle_id: oracle_id.clone(),
            before_sha256: known.map(|known| known.adapter_sha256),
            adapter_sha256,
            adapter: Box::new(self.clone()),
            peer,
        };
        let mut expect = as_read(RowKey::Source(oracle_id.clone()), Some(source_revision));
        expect.extend(as_read(RowKey::Adapter(oracle_id.clone()), revision));
        let record = Record {
            expect,
            events: vec![Event::new(timestamp, None, EventKind::AdapterRegistered(entry))],
            writes: vec![Write::PutAdapter(Arc::new(registered.clone()))],
            ..Record::default()
        };
        Ok(Decided::Change(registered, record))
    }
}

impl Desk {
    /// That the adapter that a source has, if any, works by what is to be registered of the source, and by `ontology`, which
    /// that names. Its revision comes back, if it has one.
    ///
    /// # Errors
    /// `AdapterKept`.
    pub(super) fn check_adapter(
        &self,
        after: &Registration,
        ontology: &Ontology,
    ) -> Result<Option<u64>, RegistryError> {
        let Some((known, revision)) = self.store.adapter(&after.oracle_id)? else { return Ok(None) };
        let ready = known.adapter.validate(after, Arc::new(ontology.clone()));
        ready.map(|_| Some(revision)).map_err(RegistryError::AdapterKept)
    }
}
