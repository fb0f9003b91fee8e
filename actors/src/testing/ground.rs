//! A source from the gallery, and runs of it, for tests.

use crate::system::ActorSystem;
use actors_ground::ingestion::{ListRunProgress, StartRun, StartRunOutcome};
use actors_ground::registry::SourceReviewDecision;
use domain_base::caller::PeerCredentials;
use domain_base::decimal::Decimal;
use domain_ground::gates::ReleaseGates;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source::SourceRegistration;
use serde::de::DeserializeOwned;
use std::time::Duration;
use store_facts::archive::PayloadRef;

pub(crate) const PEER: PeerCredentials = PeerCredentials { uid: 7, gid: 7, pid: None };
pub(crate) fn document<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("the gallery's documents are valid")
}

pub(crate) async fn population(system: &ActorSystem) -> PipelineId {
    let ontology: Ontology =
        document(include_str!("../../../examples/ground-truth/ontologies/population.json"));
    let registered = system.registry.register(ontology, PEER).await;
    registered.expect("the registration succeeds");
    let registration: SourceRegistration =
        document(include_str!("../../../examples/ground-truth/sources/world-bank-population.json"));
    let registered = system.registry.register(registration, PEER).await;
    registered.expect("the registration succeeds");
    register_pipeline(system, open_pipeline()).await
}

pub(crate) async fn approve_source(system: &ActorSystem, oracle_id: &SourceId) {
    let approved = system.registry.review(oracle_id, SourceReviewDecision::Approve, PEER).await;
    approved.expect("the approval succeeds");
}

/// The gallery's pipeline with open gates: a payload of three records changes a large share of the data.
pub(crate) fn open_pipeline() -> Box<PipelineDefinition> {
    let mut definition = gallery_pipeline();
    definition.pipeline.gates = open_gates();
    definition
}

/// The gallery's pipeline, with its gates.
pub(crate) fn gallery_pipeline() -> Box<PipelineDefinition> {
    document(include_str!("../../../examples/ground-truth/pipelines/world-bank-population.json"))
}

/// Gates that pass every run.
pub(crate) fn open_gates() -> ReleaseGates {
    let all = || Decimal::from(1);
    ReleaseGates {
        max_rejected_ratio: all(),
        max_withdrawn_ratio: all(),
        accept_same_payload: true,
        ..ReleaseGates::default()
    }
}

pub(crate) async fn register_pipeline(
    system: &ActorSystem,
    definition: Box<PipelineDefinition>,
) -> PipelineId {
    system.registry.register(*definition.clone(), PEER).await.expect("the registration succeeds");
    definition.pipeline.pipeline_id
}

pub(crate) fn archived(system: &ActorSystem, payload: &[u8]) -> PayloadRef {
    let source = "archived".parse().expect("a valid id");
    let mut writer = system.store.archive_writer(&source).expect("the file is created");
    writer.push(payload).expect("the write succeeds");
    writer.finish().expect("the write succeeds")
}

pub(crate) fn start_run_message(
    system: &ActorSystem,
    pipeline_id: &PipelineId,
    payload: PayloadRef,
    version: &str,
) -> StartRun {
    let (pipeline, _) = system
        .store
        .pipeline(pipeline_id)
        .expect("the store is readable")
        .expect("the pipeline is registered");
    StartRun {
        pipeline_id: pipeline_id.clone(),
        pipeline_sha256: pipeline.pipeline_sha256,
        version: version.into(),
        released_at: format!("{version}T00:00:00Z").parse().expect("a valid time"),
        replace: false,
        payload,
        source_url: None,
        retrieved_at: None,
        invalidation_count: None,
        requested_by: "7".into(),
        peer: Some(PEER),
    }
}

pub(crate) async fn wait_for_run(system: &ActorSystem, begun: StartRunOutcome) -> IngestionRun {
    let run_id = match begun {
        StartRunOutcome::Started(run) => run.run_id,
        StartRunOutcome::Unchanged(run) => return *run,
    };
    loop {
        let (run, _) = system.store.run(&run_id).expect("the run is readable").expect("the run exists");
        if run.state != RunState::Running {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn ingest_version(
    system: &ActorSystem,
    pipeline_id: &PipelineId,
    payload: &str,
    version: &str,
) -> IngestionRun {
    run_ingestion(
        system,
        start_run_message(system, pipeline_id, archived(system, payload.as_bytes()), version),
    )
    .await
}

/// Ingests `payload` as `version`, in place of the payload that was read as this version before.
pub(crate) async fn ingest_replacement(
    system: &ActorSystem,
    pipeline_id: &PipelineId,
    payload: &str,
    version: &str,
) -> IngestionRun {
    let begin = start_run_message(system, pipeline_id, archived(system, payload.as_bytes()), version);
    run_ingestion(system, StartRun { replace: true, ..begin }).await
}

async fn run_ingestion(system: &ActorSystem, begin: StartRun) -> IngestionRun {
    let begun = system.ingestion.ask(begin).await.expect("the actor answers").expect("the run starts");
    let run = wait_for_run(system, begun).await;
    while !system.ingestion.ask(ListRunProgress).await.expect("the actor answers").is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    run
}
