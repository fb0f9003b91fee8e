//! Documents that are registered: ontologies, and pipelines with all that they name.

use super::{Decided, Desk, Registry, RegistryError, as_read};
use crate::ground::pull::{PullError, PullRequest, Puller, Validators};
use crate::ground::schedule::Schedule;
use crate::upstream::web::WebError;
use actix::{Context, Handler, Message, ResponseFuture};
use oracled_domain::audit::event::ground::{OntologyEntry, PipelineEntry};
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::{Definition, RegisteredPipeline};
use oracled_domain::ground::source::AdapterId;
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, RowKey, Write};
use std::sync::Arc;

/// What was registered, and whether it is new.
#[derive(Debug)]
pub struct Registered<T> {
    /// What there is now.
    pub document: T,
    /// Whether it was so already.
    pub unchanged: bool,
}

/// Registers a version of an ontology.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered<Ontology>, RegistryError>")]
pub struct RegisterOntology {
    /// The document.
    pub ontology: Ontology,
    /// By whom.
    pub peer: Peer,
}

/// Registers a pipeline, or another definition of one.
#[derive(Debug, Message)]
#[rtype(result = "Result<Registered<RegisteredPipeline>, RegistryError>")]
pub struct RegisterPipeline {
    /// The document.
    pub definition: Box<Definition>,
    /// By whom.
    pub peer: Peer,
}

impl Desk {
    async fn register_ontology(
        &self,
        message: RegisterOntology,
    ) -> Result<Registered<Ontology>, RegistryError> {
        let RegisterOntology { ontology, peer } = message;
        ontology.validate()?;
        let reference = ontology.reference();
        let (document, changed) = self
            .change(|desk| {
                match desk.store.ontology(&reference)? {
                    Some((known, _)) if known == ontology => return Ok(Decided::Already(known)),
                    Some(_) => return Err(RegistryError::OntologyFixed(reference.clone())),
                    None => {}
                }
                let (sha256, timestamp) = (ontology.digest(), desk.clock.now());
                let entry = OntologyEntry { ontology: reference.clone(), sha256, peer };
                let record = Record {
                    expect: as_read(RowKey::Ontology(reference.clone()), None),
                    events: vec![Event::new(timestamp, None, EventKind::OntologyRegistered(entry))],
                    writes: vec![Write::PutOntology(Arc::new(ontology.clone()))],
                    ..Record::default()
                };
                Ok(Decided::Change(ontology.clone(), record))
            })
            .await?;
        Ok(Registered { document, unchanged: !changed })
    }

    async fn register_pipeline(
        &self,
        message: RegisterPipeline,
        puller: &Puller,
    ) -> Result<Registered<RegisteredPipeline>, RegistryError> {
        let RegisterPipeline { definition, peer } = message;
        let definition = Arc::new(*definition);
        let (pipeline_id, oracle_id) = (&definition.pipeline.pipeline_id, &definition.pipeline.oracle_id);
        let digest = definition.digest();
        let (document, changed) = self
            .change(|desk| {
                let (source, _) = desk.source(oracle_id)?;
                if source.entry.registration.adapter_id == AdapterId::Http {
                    return Err(RegistryError::Live(oracle_id.clone()));
                }
                desk.ready((*definition).clone(), &source.entry)?;
                check_retrieval(&definition, puller)?;
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
                        Write::PutDefinition(Arc::clone(&definition)),
                        Write::PutPipeline(registered.clone()),
                    ],
                    ..Record::default()
                };
                Ok(Decided::Change(registered, record))
            })
            .await?;
        Ok(Registered { document, unchanged: !changed })
    }
}

impl Handler<RegisterOntology> for Registry {
    type Result = ResponseFuture<Result<Registered<Ontology>, RegistryError>>;

    fn handle(&mut self, message: RegisterOntology, _: &mut Context<Self>) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.register_ontology(message).await })
    }
}

impl Handler<RegisterPipeline> for Registry {
    type Result = ResponseFuture<Result<Registered<RegisteredPipeline>, RegistryError>>;

    fn handle(&mut self, message: RegisterPipeline, _: &mut Context<Self>) -> Self::Result {
        let (desk, puller) = (self.desk.clone(), Arc::clone(&self.puller));
        Box::pin(async move { desk.register_pipeline(message, &puller).await })
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
