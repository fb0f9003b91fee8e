//! A source from the gallery, and runs of it, for tests.

use crate::ground::ingestion::{Begin, Begun, Running};
use crate::system::System;
use oracled_domain::Peer;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::ground::gates::Gates;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::Definition;
use oracled_domain::ground::run::{Run, RunState};
use oracled_domain::ground::source::Registration;
use oracled_store::ground::archive::Archived;
use serde::de::DeserializeOwned;
use std::time::Duration;

pub(crate) const PEER: Peer = Peer { uid: 7, gid: 7, pid: None };
pub(crate) fn document<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("the gallery's documents are valid")
}

pub(crate) async fn population(system: &System) -> PipelineId {
    let ontology: Ontology =
        document(include_str!("../../../examples/ground-truth/ontologies/population.json"));
    let registered = system.registry.register(&ontology, PEER).await;
    registered.expect("it is registered");
    let registration: Registration =
        document(include_str!("../../../examples/ground-truth/sources/world-bank-population.json"));
    let registered = system.registry.register(&registration, PEER).await;
    registered.expect("it is registered");
    register_pipeline(system, open_pipeline()).await
}

/// The gallery's pipeline with open gates: a payload of three records changes a large share of the data.
pub(crate) fn open_pipeline() -> Box<Definition> {
    let mut definition = gallery_pipeline();
    definition.pipeline.gates = open_gates();
    definition
}

/// The gallery's pipeline, with its gates.
pub(crate) fn gallery_pipeline() -> Box<Definition> {
    document(include_str!("../../../examples/ground-truth/pipelines/world-bank-population.json"))
}

/// Gates that pass every run.
pub(crate) fn open_gates() -> Gates {
    let all = || Decimal::from(1);
    Gates {
        max_rejected_ratio: all(),
        max_withdrawn_ratio: all(),
        accept_same_payload: true,
        ..Gates::default()
    }
}

pub(crate) async fn register_pipeline(system: &System, definition: Box<Definition>) -> PipelineId {
    system.registry.register(&*definition, PEER).await.expect("it is registered");
    definition.pipeline.pipeline_id
}

pub(crate) fn archived(system: &System, payload: &[u8]) -> Archived {
    let mut writer = system.store.files().archive_writer().expect("it is made");
    writer.push(payload).expect("it is taken");
    writer.finish().expect("it is kept")
}

pub(crate) fn asked(pipeline_id: &PipelineId, payload: Archived, version: &str) -> Begin {
    Begin {
        pipeline_id: pipeline_id.clone(),
        version: version.into(),
        released_at: format!("{version}T00:00:00Z").parse().expect("a time"),
        replace: false,
        payload,
        source_url: None,
        retrieved_at: None,
        invalidation_count: None,
        requested_by: "7".into(),
        peer: Some(PEER),
    }
}

pub(crate) async fn ended(system: &System, begun: Begun) -> Run {
    let run_id = match begun {
        Begun::Started(run) => run.run_id,
        Begun::Unchanged(run) => return *run,
    };
    loop {
        let (run, _) = system.store.run(&run_id).expect("it is read").expect("it exists");
        if run.state != RunState::Running {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn ingested(system: &System, pipeline_id: &PipelineId, payload: &str, version: &str) -> Run {
    brought(system, asked(pipeline_id, archived(system, payload.as_bytes()), version)).await
}

/// Ingests `payload` as `version`, in place of the payload that was read as this version before.
pub(crate) async fn replaced(system: &System, pipeline_id: &PipelineId, payload: &str, version: &str) -> Run {
    let begin = asked(pipeline_id, archived(system, payload.as_bytes()), version);
    brought(system, Begin { replace: true, ..begin }).await
}

async fn brought(system: &System, begin: Begin) -> Run {
    let begun = system.ingestion.ask(begin).await.expect("it answers").expect("it begins");
    let run = ended(system, begun).await;
    while !system.ingestion.ask(Running).await.expect("it answers").is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    run
}
