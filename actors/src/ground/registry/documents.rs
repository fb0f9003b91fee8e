//! Documents that are registered: ontologies, and pipelines with all that they name.

use super::{Registrable, Registry, RegistryError, as_read};
use crate::audit::commit_loop::Decided;
use crate::ground::pull::{PullError, PullRequest, Puller, Validators};
use crate::ground::schedule::Schedule;
use crate::upstream::web::WebError;
use oracled_domain::audit::event::ground::{OntologyEntry, PipelineEntry};
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::{Definition, RegisteredPipeline};
use oracled_domain::ground::source::AdapterId;
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

impl Registrable for Ontology {
    type Registered = Self;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<Self>, RegistryError> {
        let desk = &registry.desk;
        self.validate()?;
        let reference = self.reference();
        match desk.store.ontology(&reference)? {
            Some((known, _)) if known == *self => return Ok(Decided::Already(known)),
            Some(_) => return Err(RegistryError::OntologyFixed(reference.clone())),
            None => {}
        }
        let (sha256, timestamp) = (self.digest(), desk.clock.now());
        let entry = OntologyEntry { ontology: reference.clone(), sha256, peer };
        let record = Record {
            expect: as_read(RowKey::Ontology(reference.clone()), None),
            events: vec![Event::new(timestamp, None, EventKind::OntologyRegistered(entry))],
            writes: vec![Write::PutOntology(Arc::new(self.clone()))],
            ..Record::default()
        };
        Ok(Decided::Change(self.clone(), record))
    }
}

impl Registrable for Definition {
    type Registered = RegisteredPipeline;

    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Decided<RegisteredPipeline>, RegistryError> {
        let desk = &registry.desk;
        let (pipeline_id, oracle_id) = (&self.pipeline.pipeline_id, &self.pipeline.oracle_id);
        let digest = self.digest();
        let (source, _) = desk.source(oracle_id)?;
        if source.entry.registration.adapter_id == AdapterId::Http {
            return Err(RegistryError::Live(oracle_id.clone()));
        }
        desk.ready(self.clone(), &source.entry)?;
        check_retrieval(self, &registry.puller)?;
        let known = desk.store.pipeline(pipeline_id)?;
        let revision = known.as_ref().map(|(_, revision)| *revision);
        if let Some((known, _)) = &known {
            if known.oracle_id != *oracle_id {
                let (pipeline_id, oracle_id) = (pipeline_id.clone(), known.oracle_id.clone());
                return Err(RegistryError::PipelineFixed { pipeline_id, oracle_id });
            }
            if known.pipeline_sha256 == digest {
                return Ok(Decided::Already(known.clone()));
            }
        }
        let timestamp = desk.clock.now();
        let last_pull = known.as_ref().and_then(|(known, _)| known.last_pull);
        let registered = RegisteredPipeline {
            pipeline_id: pipeline_id.clone(),
            oracle_id: oracle_id.clone(),
            pipeline_sha256: digest.clone(),
            registered_at: timestamp,
            registered_by: peer.uid.to_string(),
            last_pull,
        };
        let entry = PipelineEntry {
            pipeline_id: pipeline_id.clone(),
            oracle_id: oracle_id.clone(),
            before_sha256: known.map(|(known, _)| known.pipeline_sha256),
            pipeline_sha256: digest.clone(),
            peer,
        };
        let record = Record {
            expect: as_read(RowKey::Pipeline(pipeline_id.clone()), revision),
            events: vec![Event::new(timestamp, None, EventKind::PipelineRegistered(entry))],
            writes: vec![
                Write::PutDefinition(Arc::new(self.clone())),
                Write::PutPipeline(registered.clone()),
            ],
            ..Record::default()
        };
        Ok(Decided::Change(registered, record))
    }
}

/// Whether a pipeline can be pulled by `puller` and scheduled as its definition says, as far as that is known without
/// asking anybody. A credential may be configured later on.
fn check_retrieval(definition: &Definition, puller: &Puller) -> Result<(), RegistryError> {
    let retrieval = &definition.pipeline.retrieval;
    let refuse = |fault: &str| RegistryError::Retrieval(fault.to_owned());
    match (retrieval.method.is_pull(), &retrieval.endpoint) {
        (true, None) => return Err(refuse("`endpoint` is missing, from which is pulled")),
        (false, Some(_)) => return Err(refuse("`endpoint` is for api_pull and file_download")),
        _ => {}
    }
    if let Some(text) = &retrieval.schedule {
        if !retrieval.method.is_pull() {
            return Err(refuse("`schedule` is for api_pull and file_download"));
        }
        Schedule::parse(text).map_err(|error| refuse(&format!("`schedule`: {error}")))?;
    }
    match PullRequest::of(&definition.pipeline, Validators::default()).map(|request| puller.check(&request)) {
        Some(Err(error @ PullError::Web(WebError::NoCredential { .. }))) => {
            tracing::warn!(%error, "a pipeline is registered that cannot be pulled yet");
            Ok(())
        }
        Some(Err(error)) => Err(refuse(&error.to_string())),
        Some(Ok(())) | None => Ok(()),
    }
}
