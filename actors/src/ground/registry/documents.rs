//! Registration of ontologies, and of pipelines with all documents that they name.

use super::{Registrable, Registry, RegistryError, as_read};
use crate::ground::pull::{PullError, PullRequest, Puller, Validators};
use crate::ground::schedule::Schedule;
use crate::upstream::web::WebError;
use oracled_domain::Peer;
use oracled_domain::documents::Document;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::{Definition, RegisteredPipeline};
use oracled_domain::ground::source::AdapterId;
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

impl Registrable for Ontology {
    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Option<Record>, RegistryError> {
        let desk = &registry.desk;
        self.validate()?;
        let reference = self.reference();
        match desk.store.ontology(&reference)? {
            Some(known) if known == *self => return Ok(None),
            Some(_) => return Err(RegistryError::OntologyFixed(reference)),
            None => {}
        }
        desk.replacement(self, Vec::new(), Vec::new(), peer)
    }
}

impl Registrable for Definition {
    fn decide(&self, registry: &Registry, peer: Peer) -> Result<Option<Record>, RegistryError> {
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
        let known = known.map(|(known, _)| known);
        if let Some(known) = &known {
            if known.oracle_id != *oracle_id {
                let (pipeline_id, oracle_id) = (pipeline_id.clone(), known.oracle_id.clone());
                return Err(RegistryError::PipelineFixed { pipeline_id, oracle_id });
            }
            if known.pipeline_sha256 == digest {
                return Ok(None);
            }
        }
        let timestamp = desk.clock.now();
        let before = known.as_ref().map(|known| desk.store.definition(&known.pipeline_sha256)).transpose()?;
        let registered = RegisteredPipeline {
            pipeline_id: pipeline_id.clone(),
            oracle_id: oracle_id.clone(),
            pipeline_sha256: digest,
            registered_at: timestamp,
            registered_by: peer.uid.to_string(),
            last_pull: known.and_then(|known| known.last_pull),
        };
        Ok(Some(Record {
            expect: as_read(RowKey::Document(Self::KIND, self.document_id()), revision),
            events: vec![desk.registered_event(before.flatten().as_ref(), self, peer)],
            writes: vec![
                Write::PutDefinition(Arc::new(self.clone())),
                Write::document(Self::KIND, pipeline_id, &registered),
            ],
            ..Record::default()
        }))
    }
}

/// Checks that `puller` can pull a pipeline and that its schedule is valid, as far as possible without a request. A
/// credential may be configured later.
fn check_retrieval(definition: &Definition, puller: &Puller) -> Result<(), RegistryError> {
    let retrieval = &definition.pipeline.retrieval;
    let refuse = |fault: &str| RegistryError::Retrieval(fault.to_owned());
    match (retrieval.method.is_pull(), &retrieval.endpoint) {
        (true, None) => {
            return Err(refuse("`endpoint` is missing (required for api_pull and file_download)"));
        }
        (false, Some(_)) => return Err(refuse("`endpoint` is only allowed for api_pull and file_download")),
        _ => {}
    }
    if let Some(text) = &retrieval.schedule {
        if !retrieval.method.is_pull() {
            return Err(refuse("`schedule` is only allowed for api_pull and file_download"));
        }
        Schedule::parse(text).map_err(|error| refuse(&format!("`schedule`: {error}")))?;
    }
    match PullRequest::of(&definition.pipeline, Validators::default()).map(|request| puller.check(&request)) {
        Some(Err(error @ PullError::Web(WebError::NoCredential { .. }))) => {
            tracing::warn!(%error, "pipeline registered without its credential; it cannot be pulled yet");
            Ok(())
        }
        Some(Err(error)) => Err(refuse(&error.to_string())),
        Some(Ok(())) | None => Ok(()),
    }
}
