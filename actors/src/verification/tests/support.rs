//! Sources with a few values each, and workflows over them.

use crate::ground::registry::Review;
use crate::system::System;
use crate::testing::ground::{PEER, ingested};
use crate::verification::VerifyError;
use oracled_domain::audit::event::verification::{VerificationEntry, WorkflowEntry};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::Definition;
use oracled_domain::ground::run::Run;
use oracled_domain::ground::source::Registration;
use oracled_domain::verification::workflow::RegisteredWorkflow;
use oracled_domain::verification::{Envelope, VerifyRequest, Workflow};
use oracled_domain::{Event, EventKind};
use oracled_store::{LogQuery, Record, Write};
use serde_json::{Value as Json, json};
use std::sync::Arc;

const ONTOLOGY: &str = include_str!("../../../../examples/ground-truth/ontologies/population.json");
const SOURCE: &str = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
const PIPELINE: &str = include_str!("../../../../examples/ground-truth/pipelines/world-bank-population.json");

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).expect("the gallery's documents are sound")
}

fn read<T: serde::de::DeserializeOwned>(document: Json) -> T {
    serde_json::from_value(document).expect("it is such a document")
}

/// A document with these fields in the place of those that it has.
pub(crate) fn with<T: serde::de::DeserializeOwned>(mut document: Json, fields: Json) -> T {
    for (field, value) in fields.as_object().expect("they are fields") {
        document[field] = value.clone();
    }
    read(document)
}

/// The gallery's ontology of populations.
pub(crate) fn ontology() -> Json {
    parsed(ONTOLOGY)
}

pub(crate) fn source_id(id: &str) -> SourceId {
    id.parse().expect("an id")
}

/// What is said of a source, with these settings beside those of the gallery's.
pub(crate) fn registration(oracle_id: &str, settings: Json) -> Registration {
    let mut document = parsed(SOURCE);
    document["oracle_id"] = json!(oracle_id);
    with(document, settings)
}

/// Registers a source, and approves it.
pub(crate) async fn source(system: &System, oracle_id: &str, settings: Json) {
    registered(system, oracle_id, settings).await;
    system.registry.review(&source_id(oracle_id), Review::Approve, PEER).await.expect("it is approved");
}

/// Registers a source that nobody has approved.
pub(crate) async fn registered(system: &System, oracle_id: &str, settings: Json) {
    let ontology: Ontology = read(parsed(ONTOLOGY));
    let registered = system.registry.register(&ontology, PEER).await;
    registered.expect("it is registered");
    let registered = system.registry.register(&registration(oracle_id, settings), PEER).await;
    registered.expect("it is registered");
}

/// Has a source say how many people live where: rows of name, code, year and number.
pub(crate) async fn says(system: &System, oracle_id: &str, version: &str, rows: &[&str]) {
    let run = released(system, oracle_id, version, rows).await;
    assert_eq!(run.counts.records, rows.len() as u64, "{run:?}");
}

/// The run that ingests these rows of a source, sound or not.
pub(crate) async fn released(system: &System, oracle_id: &str, version: &str, rows: &[&str]) -> Run {
    let mut document = parsed(PIPELINE);
    document["pipeline"]["pipeline_id"] = json!(oracle_id);
    document["pipeline"]["oracle_id"] = json!(oracle_id);
    document["pipeline"]["gates"] = json!({"max_rejected_ratio": "1", "max_withdrawn_ratio": "1"});
    let registered = system.registry.register(&read::<Definition>(document), PEER).await;
    let pipeline_id = registered.expect("it is registered").document.pipeline_id;
    let payload = format!("Country Name,Country Code,Year,Value\n{}\n", rows.join("\n"));
    ingested(system, &pipeline_id, &payload, version).await
}

/// A workflow over `oracles`, with these settings beside the simplest ones.
pub(crate) fn workflow_over(oracles: &[&str], settings: Json) -> Workflow {
    let document = json!({
        "workflow_id": "census", "domain": "population",
        "ontology": {"ontology_id": "population", "version": "1"},
        "axes": ["population"], "oracles": oracles,
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}
    });
    with(document, settings)
}

/// Has it as it is, whether it works or not.
pub(crate) async fn workflow(system: &System, oracles: &[&str], settings: Json) {
    let workflow = workflow_over(oracles, settings);
    let (workflow_sha256, registered_at) = (workflow.digest(), system.clock.now());
    let entry = WorkflowEntry {
        workflow_id: workflow.workflow_id.clone(),
        before_sha256: None,
        workflow_sha256: workflow_sha256.clone(),
        workflow: Box::new(workflow.clone()),
        peer: PEER,
    };
    let registered =
        RegisteredWorkflow { workflow, workflow_sha256, registered_at, registered_by: "7".into() };
    let mut record = Record::from(Event::new(registered_at, None, EventKind::WorkflowRegistered(entry)));
    record.writes.push(Write::PutWorkflow(Arc::new(registered)));
    system.log.commit(record).await.expect("it is committed");
}

/// Asks for the population of Aruba in 1960.
pub(crate) async fn verified(system: &System) -> Arc<Envelope> {
    asked(system, json!({})).await.expect("there is an envelope")
}

pub(crate) async fn asked(system: &System, more: Json) -> Result<Arc<Envelope>, VerifyError> {
    let document =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let request: VerifyRequest = with(document, more);
    system.verification.verify(&request).await
}

/// The entries of one execution.
pub(crate) fn entries(system: &System, execution_id: &str) -> Vec<Json> {
    let query =
        LogQuery { execution: Some(execution_id.to_owned()), limit: usize::MAX, ..LogQuery::default() };
    let lines = system.store.log(&query).expect("the log is read");
    lines.iter().map(|line| parsed(&line.json)).collect()
}

/// The same, by their events.
pub(crate) fn events(system: &System, execution_id: &str) -> Vec<String> {
    let event = |entry: &Json| entry["event"].as_str().expect("an event has its name").to_owned();
    entries(system, execution_id).iter().map(event).collect()
}

/// The decisions that the log holds of an execution, each with its envelope made anew.
pub(crate) fn rebuilt(system: &System, execution_id: &str) -> Vec<(VerificationEntry, Envelope)> {
    let decisions = system.store.decisions(execution_id).expect("the log is read");
    let rebuild = |entry: VerificationEntry| {
        assert!(entry.is_reproduced(), "it comes out as it did: {entry:?}");
        let envelope = entry.told().expect("it is what was told").clone();
        (entry, envelope)
    };
    decisions.into_iter().map(rebuild).collect()
}
