//! Sources with a few values each, and workflows over them.

use crate::system::ActorSystem;
use crate::testing::ground::{PEER, approve_source, ingest_version};
use actors_verification::VerifyError;
use domain_base::document::RegisteredDocument;
use domain_base::event::AuditEvent;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::IngestionRun;
use domain_ground::source::SourceRegistration;
use domain_verification::event::VerificationEntry;
use domain_verification::replay::LoggedVerification;
use domain_verification::{Envelope, VerifyRequest, Workflow};
use oracled_domain::documents::{DocumentEntry, DocumentRegistered};
use oracled_store::{JournalRecord, LogQuery, RowWrite};
use serde_json::{Value as Json, json};
use std::sync::Arc;

const ONTOLOGY: &str = include_str!("../../../../examples/ground-truth/ontologies/population.json");
const SOURCE: &str = include_str!("../../../../examples/ground-truth/sources/world-bank-population.json");
const PIPELINE: &str = include_str!("../../../../examples/ground-truth/pipelines/world-bank-population.json");

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).expect("the gallery's documents are valid")
}

fn read<T: serde::de::DeserializeOwned>(document: Json) -> T {
    serde_json::from_value(document).expect("a valid document")
}

/// Parses a document after replacing these fields.
pub(crate) fn with<T: serde::de::DeserializeOwned>(mut document: Json, fields: Json) -> T {
    for (field, value) in fields.as_object().expect("the document has fields") {
        document[field] = value.clone();
    }
    read(document)
}

/// The gallery's ontology of populations.
pub(crate) fn ontology() -> Json {
    parsed(ONTOLOGY)
}

pub(crate) fn source_id(id: &str) -> SourceId {
    id.parse().expect("a valid id")
}

/// A registration with the gallery's values, except for these settings.
pub(crate) fn registration(oracle_id: &str, settings: Json) -> SourceRegistration {
    let mut document = parsed(SOURCE);
    document["oracle_id"] = json!(oracle_id);
    with(document, settings)
}

/// Registers and approves a source.
pub(crate) async fn source(system: &ActorSystem, oracle_id: &str, settings: Json) {
    registered(system, oracle_id, settings).await;
    approve_source(system, &source_id(oracle_id)).await;
}

/// Registers a source without approving it.
pub(crate) async fn registered(system: &ActorSystem, oracle_id: &str, settings: Json) {
    let ontology: Ontology = read(parsed(ONTOLOGY));
    let registered = system.registry.register(ontology, PEER).await;
    registered.expect("the registration succeeds");
    let registered = system.registry.register(registration(oracle_id, settings), PEER).await;
    registered.expect("the registration succeeds");
}

/// Ingests population rows of a source: name, code, year and number.
pub(crate) async fn ingest_source_rows(system: &ActorSystem, oracle_id: &str, version: &str, rows: &[&str]) {
    let run = ingest_source_release(system, oracle_id, version, rows).await;
    assert_eq!(run.counts.records, rows.len() as u64, "{run:?}");
}

/// Ingests these rows of a source, valid or not, and returns the run.
pub(crate) async fn ingest_source_release(
    system: &ActorSystem,
    oracle_id: &str,
    version: &str,
    rows: &[&str],
) -> IngestionRun {
    let mut document = parsed(PIPELINE);
    document["pipeline"]["pipeline_id"] = json!(oracle_id);
    document["pipeline"]["oracle_id"] = json!(oracle_id);
    document["pipeline"]["gates"] = json!({"max_rejected_ratio": "1", "max_withdrawn_ratio": "1"});
    let definition: PipelineDefinition = read(document);
    system.registry.register(definition.clone(), PEER).await.expect("the registration succeeds");
    let payload = format!("Country Name,Country Code,Year,Value\n{}\n", rows.join("\n"));
    ingest_version(system, &definition.pipeline.pipeline_id, &payload, version).await
}

/// A workflow over `oracles` with simple defaults, except for these settings.
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

/// Stores a workflow without validating it.
pub(crate) async fn workflow(system: &ActorSystem, oracles: &[&str], settings: Json) {
    let workflow = workflow_over(oracles, settings);
    let registered = RegisteredDocument::new(workflow.clone(), system.clock.now(), "7".into());
    let entry = DocumentEntry::new(None, &workflow, PEER);
    let event = AuditEvent::new(registered.registered_at, None, DocumentRegistered(entry));
    let record = JournalRecord { writes: vec![RowWrite::put(&registered)], ..JournalRecord::from(event) };
    system.log.commit(record).await.expect("the commit succeeds");
}

/// Asks for the population of Aruba in 1960.
pub(crate) async fn verified(system: &ActorSystem) -> Arc<Envelope> {
    verify_population(system, json!({})).await.expect("the verification succeeds")
}

pub(crate) async fn verify_population(
    system: &ActorSystem,
    more: Json,
) -> Result<Arc<Envelope>, VerifyError> {
    let document =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let request: VerifyRequest = with(document, more);
    system.verification.verify(&request).await
}

/// The log entries of one execution.
pub(crate) fn entries(system: &ActorSystem, execution_id: &str) -> Vec<Json> {
    let query =
        LogQuery { execution: Some(execution_id.to_owned()), limit: usize::MAX, ..LogQuery::default() };
    let lines = system.store.log(&query).expect("the log is read");
    lines.iter().map(|line| parsed(&line.json)).collect()
}

/// The event names of the log entries of one execution.
pub(crate) fn events(system: &ActorSystem, execution_id: &str) -> Vec<String> {
    let event = |entry: &Json| entry["event"].as_str().expect("an event has its name").to_owned();
    entries(system, execution_id).iter().map(event).collect()
}

/// The logged decisions of an execution, each with its rebuilt envelope.
pub(crate) fn rebuilt(system: &ActorSystem, execution_id: &str) -> Vec<(VerificationEntry, Envelope)> {
    let decisions = system.store.decisions(execution_id).expect("the log is read").decisions;
    let rebuild = |entry: LoggedVerification| {
        let entry = entry.into_whole().expect("nothing is erased");
        assert!(entry.is_reproduced(), "the decision is reproduced: {entry:?}");
        let envelope = entry.read_envelope().expect("the envelope is intact").clone();
        (entry, envelope)
    };
    decisions.into_iter().map(rebuild).collect()
}
