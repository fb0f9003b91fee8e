//! Helpers for ground truth: example documents, runs over payloads, and answers of sources.

use crate::wire::{WireConnection, head};
use crate::{DaemonWorld, PATIENCE, at, call, document, get, post};
use bytes::Bytes;
use domain_ground::id::SourceId;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_store::ground::view::SourceView;
use oracled_store::{Journal, Store, StoreOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records in one page of a query.
const PAGE: usize = 10_000;
/// Bytes of a payload that are sent at once.
const PIECE_BYTES: usize = 1 << 20;

/// Reads an example document of the project.
///
/// # Panics
/// Panics if it does not exist.
#[must_use]
pub fn example(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth").join(name);
    serde_json::from_slice(&fs::read(path).expect("the file exists")).expect("valid JSON")
}

/// The example pipeline of `source`, with gates that let every run pass, because payloads of a few records change a
/// large share of them.
///
/// # Panics
/// Panics if it does not exist.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "a missing member is inserted")]
pub fn open_pipeline(source: &str) -> Value {
    let mut definition = example(&format!("pipelines/{source}.json"));
    definition["pipeline"]["gates"] =
        json!({"max_rejected_ratio": "1", "max_withdrawn_ratio": "1", "accept_same_payload": true});
    definition
}

/// An ontology, a source and a pipeline with the id `pipeline`, for records that are identified by a number and read
/// from NDJSON.
///
/// # Panics
/// Panics if the example documents that they are derived from do not exist.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "a missing element fails the test")]
pub fn example_documents(pipeline: &str) -> (Value, Value, Value) {
    let axis = |axis: &str, kind: &str| json!({"axis": axis, "type": kind, "class": "measured", "description": axis});
    let mut number = axis("number", "integer");
    number["identity"] = json!(true);
    let ontology = json!({"ontology_id": "samples", "version": "1",
        "axes": [number, axis("size", "number"), axis("name", "string")]});
    let mut source = example("sources/world-bank-population.json");
    source["oracle_id"] = json!(pipeline);
    source["ontology"] = json!({"ontology_id": "samples", "version": "1"});
    source["axes_provided"] = json!(["number", "size", "name"]);
    let mapping = |axis: &str, required: bool| json!({"source_field": axis, "target_axis": axis, "cardinality": "one_to_one", "required": required});
    let mut definition = open_pipeline("world-bank-population");
    definition["pipeline"]["pipeline_id"] = json!(pipeline);
    definition["pipeline"]["oracle_id"] = json!(pipeline);
    definition["pipeline"]["retrieval"]["format"] = json!("ndjson");
    definition["pipeline"]["validation"] =
        json!({"required_fields": ["number"], "reject_on_schema_fail": true});
    definition["pipeline"]["transformation"]["output_schema_id"] = json!("samples@1");
    definition["normalization"] = json!({"normalizer_id": definition["normalization"]["normalizer_id"],
        "source_schema_id": "samples", "target_ontology_id": "samples",
        "axis_mappings": [mapping("number", true), mapping("size", false), mapping("name", false)],
        "value_normalizers": [], "post_normalization_checks": []});
    definition["tables"] = json!({});
    (ontology, source, definition)
}

/// An ontology, a source and a pipeline with the id `source`: population by area and year, in the World Bank's CSV
/// format.
///
/// # Panics
/// Panics if the example documents that they are derived from do not exist.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "a missing element fails the test")]
pub fn office_documents(source: &str) -> (Value, Value, Value) {
    let mut registration = example("sources/world-bank-population.json");
    registration["oracle_id"] = json!(source);
    let mut definition = open_pipeline("world-bank-population");
    definition["pipeline"]["pipeline_id"] = json!(source);
    definition["pipeline"]["oracle_id"] = json!(source);
    (example("ontologies/population.json"), registration, definition)
}

/// A minimal workflow over sources of population by area and year; `settings` are added or replace fields.
///
/// # Panics
/// Panics if `settings` is not an object.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "a missing member is inserted")]
pub fn workflow(id: &str, sources: &[&str], settings: &Value) -> Value {
    let mut document = json!({
        "workflow_id": id, "domain": "population",
        "ontology": {"ontology_id": "population", "version": "1"},
        "axes": ["population"], "oracles": sources,
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}
    });
    for (field, value) in settings.as_object().expect("settings are an object") {
        document[field] = value.clone();
    }
    document
}

/// Puts `body` at `path`.
pub async fn put_document(control: &mut DaemonClient, path: &str, body: &Value) -> DaemonResponse {
    call(control, Method::PUT, path, Some(body.to_string().into())).await
}

/// Registers a new ontology, source and pipeline.
///
/// # Panics
/// Panics if one of them is rejected.
pub async fn register_all(control: &mut DaemonClient, ontology: &Value, source: &Value, pipeline: &Value) {
    let text = |document: &Value, place: &str| {
        document.pointer(place).and_then(Value::as_str).expect("the document has an id").to_owned()
    };
    let ontology_path =
        format!("/v1/documents/ontology/{}@{}", text(ontology, "/ontology_id"), text(ontology, "/version"));
    let source_path = format!("/v1/documents/source/{}", text(source, "/oracle_id"));
    let pipeline_path = format!("/v1/documents/pipeline/{}", text(pipeline, "/pipeline/pipeline_id"));
    for (path, document) in [(ontology_path, ontology), (source_path, source), (pipeline_path, pipeline)] {
        let answer = put_document(control, &path, document).await;
        assert_eq!(answer.status, 200, "{path}: {}", crate::document(&answer));
    }
}

/// Registers the example source of this name, with gates that let every run pass.
///
/// # Panics
/// Panics if it is rejected.
pub async fn register(control: &mut DaemonClient, source: &str) {
    register_with(control, source, &open_pipeline(source)).await;
}

/// Registers the example source of this name, with the gates of its pipeline.
///
/// # Panics
/// Panics if it is rejected.
pub async fn register_gated(control: &mut DaemonClient, source: &str) {
    register_with(control, source, &example(&format!("pipelines/{source}.json"))).await;
}

async fn register_with(control: &mut DaemonClient, source: &str, pipeline: &Value) {
    let registration = example(&format!("sources/{source}.json"));
    let ontology = registration
        .pointer("/ontology/ontology_id")
        .and_then(Value::as_str)
        .expect("the source has an ontology");
    let ontology = example(&format!("ontologies/{ontology}.json"));
    register_all(control, &ontology, &registration, pipeline).await;
}

/// Approves a source, so that it answers queries.
///
/// # Panics
/// Panics if the approval is rejected.
pub async fn approve(control: &mut DaemonClient, source: &str) {
    let answer = post(control, &format!("/v1/sources/{source}/review"), &json!({"approve": {}})).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Path to which a payload of `pipeline` is posted.
#[must_use]
pub fn runs_path(pipeline: &str, version: &str, released_at: &str) -> String {
    format!("/v1/pipelines/{pipeline}/runs?version={version}&released_at={released_at}")
}

/// Posts a payload.
pub async fn ingest(
    control: &mut DaemonClient,
    pipeline: &str,
    version: &str,
    released_at: &str,
    payload: impl Into<Bytes>,
) -> DaemonResponse {
    let path = runs_path(pipeline, version, released_at);
    call(control, Method::POST, &path, Some(payload.into())).await
}

/// Posts a payload of `size_bytes` in `pieces`, for payloads that are too long to be held in memory.
pub async fn ingest_pieces(
    world: &DaemonWorld,
    path: &str,
    size_bytes: u64,
    pieces: impl Iterator<Item = Vec<u8>>,
) -> DaemonResponse {
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    let size = size_bytes.to_string();
    wire.send(head("POST", path, &[("content-length", &size)])).await.expect("the daemon listens");
    let mut waiting = Vec::with_capacity(PIECE_BYTES);
    for piece in pieces {
        waiting.extend(piece);
        if waiting.len() >= PIECE_BYTES {
            wire.send(&waiting).await.expect("the daemon listens");
            waiting.clear();
        }
    }
    wire.send(&waiting).await.expect("the daemon listens");
    wire.answer().await.expect("the daemon answers")
}

/// Id of the run that was started by the request of `answer`.
///
/// # Panics
/// Panics if no run was started.
#[must_use]
pub fn started_run(answer: &DaemonResponse) -> String {
    assert_eq!(answer.status, 202, "{}", document(answer));
    assert_eq!(at(answer, "/unchanged"), false);
    at(answer, "/run/run_id").as_str().expect("the run has an id").to_owned()
}

/// Waits until the run has ended and returns it. There is no time limit while the run makes progress.
///
/// # Panics
/// Panics if the run makes no progress within [`PATIENCE`].
pub async fn wait_for_run(control: &mut DaemonClient, run_id: &str) -> Value {
    let path = format!("/v1/runs/{run_id}");
    let (mut last, mut moved) = (Value::Null, Instant::now());
    loop {
        let seen = document(&get(control, &path).await);
        let field = |name: &str| seen.get(name).cloned().unwrap_or_default();
        let run = field("run");
        if run.get("state") != Some(&json!("running")) {
            assert!(field("progress").is_null(), "an ended run has no progress");
            return run;
        }
        if last != seen {
            (last, moved) = (seen, Instant::now());
        }
        assert!(moved.elapsed() < PATIENCE, "the run makes no progress: {last}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All records that a source returns, page by page, each with its provenance if `request` asks for it.
///
/// # Panics
/// Panics if a query fails.
pub async fn query_all(routes: &mut DaemonClient, source: &str, request: &Value) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    let mut request = request.as_object().cloned().expect("a request is an object");
    request.insert("max_results".into(), json!(PAGE));
    loop {
        let answer = post(routes, "/v1/query", &json!({"oracle_id": source, "request": request})).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        let mut response = at(&answer, "/response");
        let mut list = |name: &str| response.get_mut(name).and_then(Value::as_array_mut).map(std::mem::take);
        let records = list("records").expect("an array");
        let provenance = list("provenance").unwrap_or_else(|| vec![Value::Null; records.len()]);
        assert_eq!(records.len(), provenance.len());
        all.extend(records.into_iter().zip(provenance));
        match response.get("cursor") {
            Some(Value::String(cursor)) => drop(request.insert("cursor".into(), json!(cursor))),
            _ => return all,
        }
    }
}

/// Opens the store in `state` of a daemon that has stopped.
///
/// # Panics
/// Panics if it does not open.
#[must_use]
pub fn open_store(state: &Path) -> (Journal, Store) {
    let options = StoreOptions {
        dir: state.to_owned(),
        cache_bytes: 64 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    Store::open(options).expect("the store opens")
}

/// View of a source with open files.
///
/// # Panics
/// Panics if the source is not registered.
#[must_use]
pub fn view(store: &Store, source: &str) -> Arc<SourceView> {
    let id: SourceId = source.parse().expect("a valid source id");
    store.view(&id).expect("the files are readable").expect("the source is registered")
}

/// All statements of a source as JSON lines, from the store of a stopped daemon.
///
/// # Panics
/// Panics if they cannot be read.
#[must_use]
pub fn export(store: &Store, source: &str) -> Vec<u8> {
    let mut out = Vec::new();
    view(store, source).export(&mut out).expect("a write to memory succeeds");
    out
}

/// The lines of an export without the times at which the daemon ingested their runs.
///
/// # Panics
/// Panics if a line is no JSON.
#[must_use]
pub fn without_known_times(exported: &[u8]) -> Vec<Value> {
    let lines = exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let parse = |line| {
        let mut line: Value = serde_json::from_slice(line).expect("JSON");
        for name in ["known_from", "known_until"] {
            if let Some(known) = line.get_mut(name).filter(|known| known.is_string()) {
                *known = Value::Bool(true);
            }
        }
        line
    };
    lines.map(parse).collect()
}

/// Files of ground truth below `state`: relative path and length in bytes.
///
/// # Panics
/// Panics if they cannot be listed.
#[must_use]
pub fn files(state: &Path) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    for folder in ["facts", "raw", "work"] {
        for entry in fs::read_dir(state.join("ground").join(folder)).expect("the folder exists") {
            let entry = entry.expect("the system reports it");
            // an unfinished file may be removed meanwhile
            let Ok(metadata) = entry.metadata() else { continue };
            files.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()), metadata.len());
        }
    }
    files
}

/// Paths of the files of ground truth that the store names, in the form of [`files`].
///
/// # Panics
/// Panics if the store cannot be read.
#[must_use]
pub fn named(store: &Store) -> Vec<String> {
    let mut named = Vec::new();
    for source in store.sources().expect("the store is readable") {
        named.extend(source.files.iter().map(|file| format!("facts/{}.sorted", file.sha256)));
    }
    for run in store.runs().expect("the store is readable") {
        named.extend(run.rows.iter().map(|file| format!("facts/{}.sorted", file.sha256)));
        named.push(format!("raw/{}.raw", run.input.raw_sha256));
    }
    named.sort();
    named.dedup();
    named
}
