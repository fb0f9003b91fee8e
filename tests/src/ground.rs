//! Ground truth from outside: the documents that come with the project, runs over payloads, and what a source answers.

use crate::wire::{Wire, head};
use crate::{PATIENCE, World, at, document, get, post};
use bytes::Bytes;
use hyper::Method;
use oracled_api::base::client::{Answer, Client};
use oracled_domain::ground::id::SourceId;
use oracled_store::ground::view::SourceView;
use oracled_store::{Journal, Options, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many records are asked for at once.
const PAGE: usize = 10_000;
/// What is sent of a payload at a time.
const PIECE_BYTES: usize = 1 << 20;

/// One of the documents that come with the project.
///
/// # Panics
/// Where it is not there.
#[must_use]
pub fn example(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth").join(name);
    serde_json::from_slice(&fs::read(path).expect("it is there")).expect("it is JSON")
}

/// The pipeline of this name that comes with the project, with gates that let everything pass: payloads of a few records
/// change much of what there is.
///
/// # Panics
/// Where it is not there.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "what is not there is put there")]
pub fn open_pipeline(source: &str) -> Value {
    let mut definition = example(&format!("pipelines/{source}.json"));
    definition["pipeline"]["gates"] =
        json!({"max_rejected_ratio": "1", "max_withdrawn_ratio": "1", "accept_same_payload": true});
    definition
}

/// An ontology, a source and a pipeline of that name: things by number, read from lines of JSON.
///
/// # Panics
/// Where the documents that come with the project have none to begin with.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
pub fn things(pipeline: &str) -> (Value, Value, Value) {
    let axis = |axis: &str, kind: &str| json!({"axis": axis, "type": kind, "class": "measured", "description": axis});
    let mut number = axis("number", "integer");
    number["identity"] = json!(true);
    let ontology = json!({"ontology_id": "things", "version": "1",
        "axes": [number, axis("size", "number"), axis("name", "string")]});
    let mut source = example("sources/world-bank-population.json");
    source["oracle_id"] = json!(pipeline);
    source["ontology"] = json!({"ontology_id": "things", "version": "1"});
    source["axes_provided"] = json!(["number", "size", "name"]);
    let mapping = |axis: &str, required: bool| json!({"source_field": axis, "target_axis": axis, "cardinality": "one_to_one", "required": required});
    let mut definition = open_pipeline("world-bank-population");
    definition["pipeline"]["pipeline_id"] = json!(pipeline);
    definition["pipeline"]["oracle_id"] = json!(pipeline);
    definition["pipeline"]["retrieval"]["format"] = json!("ndjson");
    definition["pipeline"]["validation"] =
        json!({"required_fields": ["number"], "reject_on_schema_fail": true});
    definition["pipeline"]["transformation"]["output_schema_id"] = json!("things@1");
    definition["normalization"] = json!({"normalizer_id": definition["normalization"]["normalizer_id"],
        "source_schema_id": "things", "target_ontology_id": "things",
        "axis_mappings": [mapping("number", true), mapping("size", false), mapping("name", false)],
        "value_normalizers": [], "post_normalization_checks": []});
    definition["tables"] = json!({});
    (ontology, source, definition)
}

/// An ontology, a source and a pipeline of that name: people by area and year, as the World Bank's file has them.
///
/// # Panics
/// Where the documents that come with the project have none to begin with.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "what is not there fails the test")]
pub fn office(source: &str) -> (Value, Value, Value) {
    let mut registration = example("sources/world-bank-population.json");
    registration["oracle_id"] = json!(source);
    let mut definition = open_pipeline("world-bank-population");
    definition["pipeline"]["pipeline_id"] = json!(source);
    definition["pipeline"]["oracle_id"] = json!(source);
    (example("ontologies/population.json"), registration, definition)
}

/// A workflow of that name over sources of people by area and year, with these settings beside the simplest ones.
///
/// # Panics
/// Where the settings are no fields.
#[must_use]
#[allow(clippy::indexing_slicing, reason = "what is not there is put there")]
pub fn workflow(id: &str, sources: &[&str], settings: &Value) -> Value {
    let mut document = json!({
        "workflow_id": id, "domain": "population",
        "ontology": {"ontology_id": "population", "version": "1"},
        "axes": ["population"], "oracles": sources,
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}
    });
    for (field, value) in settings.as_object().expect("settings are fields") {
        document[field] = value.clone();
    }
    document
}

/// Replaces what is at `path`.
pub async fn put(control: &mut Client, path: &str, body: &Value) -> Answer {
    control.call(Method::PUT, path, Some(Bytes::from(body.to_string()))).await.expect("it answers")
}

/// Registers an ontology, a source and its pipeline, all new.
///
/// # Panics
/// Where one of them is not taken.
pub async fn register_all(control: &mut Client, ontology: &Value, source: &Value, pipeline: &Value) {
    let text = |document: &Value, place: &str| {
        document.pointer(place).and_then(Value::as_str).expect("it is named").to_owned()
    };
    let ontology_path =
        format!("/v1/ontologies/{}/{}", text(ontology, "/ontology_id"), text(ontology, "/version"));
    let source_path = format!("/v1/sources/{}", text(source, "/oracle_id"));
    let pipeline_path = format!("/v1/pipelines/{}", text(pipeline, "/pipeline/pipeline_id"));
    for (path, document) in [(ontology_path, ontology), (source_path, source), (pipeline_path, pipeline)] {
        let answer = put(control, &path, document).await;
        assert_eq!(answer.status, 200, "{path}: {}", crate::document(&answer));
    }
}

/// Registers the project's source of this name, with gates that let everything pass.
///
/// # Panics
/// Where it is not taken.
pub async fn register(control: &mut Client, source: &str) {
    register_with(control, source, &open_pipeline(source)).await;
}

/// Registers the project's source of this name, with its own gates.
///
/// # Panics
/// Where it is not taken.
pub async fn register_gated(control: &mut Client, source: &str) {
    register_with(control, source, &example(&format!("pipelines/{source}.json"))).await;
}

async fn register_with(control: &mut Client, source: &str, pipeline: &Value) {
    let registration = example(&format!("sources/{source}.json"));
    let ontology =
        registration.pointer("/ontology/ontology_id").and_then(Value::as_str).expect("it names one");
    let ontology = example(&format!("ontologies/{ontology}.json"));
    register_all(control, &ontology, &registration, pipeline).await;
}

/// Lets a source answer.
///
/// # Panics
/// Where it may not.
pub async fn approve(control: &mut Client, source: &str) {
    let answer = post(control, &format!("/v1/sources/{source}/review"), &json!({"approve": {}})).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// The path to which a payload of `pipeline` is posted.
#[must_use]
pub fn runs_path(pipeline: &str, version: &str, released_at: &str) -> String {
    format!("/v1/pipelines/{pipeline}/runs?version={version}&released_at={released_at}")
}

/// Hands a payload in.
pub async fn ingest(
    control: &mut Client,
    pipeline: &str,
    version: &str,
    released_at: &str,
    payload: impl Into<Bytes>,
) -> Answer {
    let path = runs_path(pipeline, version, released_at);
    control.call(Method::POST, &path, Some(payload.into())).await.expect("it answers")
}

/// Hands a payload in that is too long to be held in memory: `pieces` of it, `size_bytes` together.
pub async fn ingest_pieces(
    world: &World,
    path: &str,
    size_bytes: u64,
    pieces: impl Iterator<Item = Vec<u8>>,
) -> Answer {
    let mut wire = Wire::connect(&world.control_socket()).await;
    let size = size_bytes.to_string();
    wire.send(head("POST", path, &[("content-length", &size)])).await.expect("it listens");
    let mut waiting = Vec::with_capacity(PIECE_BYTES);
    for piece in pieces {
        waiting.extend(piece);
        if waiting.len() >= PIECE_BYTES {
            wire.send(&waiting).await.expect("it listens");
            waiting.clear();
        }
    }
    wire.send(&waiting).await.expect("it listens");
    wire.answer().await.expect("it answers")
}

/// The run that an answer has begun.
///
/// # Panics
/// Where it has begun none.
#[must_use]
pub fn begun(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{}", document(answer));
    assert_eq!(at(answer, "/unchanged"), false);
    at(answer, "/run/run_id").as_str().expect("it has an id").to_owned()
}

/// The run, once it has ended; it may take as long as it goes on.
///
/// # Panics
/// Where it stands still.
pub async fn ended(control: &mut Client, run_id: &str) -> Value {
    let path = format!("/v1/runs/{run_id}");
    let (mut last, mut moved) = (Value::Null, Instant::now());
    loop {
        let seen = document(&get(control, &path).await);
        let field = |name: &str| seen.get(name).cloned().unwrap_or_default();
        let run = field("run");
        if run.get("state") != Some(&json!("running")) {
            assert!(field("progress").is_null(), "what has ended goes on no more");
            return run;
        }
        if last != seen {
            (last, moved) = (seen, Instant::now());
        }
        assert!(moved.elapsed() < PATIENCE, "the run stands still: {last}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Every record that a source answers with, page by page, each with its provenance where `request` asks for that.
///
/// # Panics
/// Where it does not answer.
pub async fn answers(routes: &mut Client, source: &str, request: &Value) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    let mut request = request.as_object().cloned().expect("a request is an object");
    request.insert("max_results".into(), json!(PAGE));
    loop {
        let answer = post(routes, "/v1/query", &json!({"oracle_id": source, "request": request})).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        let mut response = at(&answer, "/response");
        let mut list = |name: &str| response.get_mut(name).and_then(Value::as_array_mut).map(std::mem::take);
        let records = list("records").expect("there is a list");
        let provenance = list("provenance").unwrap_or_else(|| vec![Value::Null; records.len()]);
        assert_eq!(records.len(), provenance.len());
        all.extend(records.into_iter().zip(provenance));
        match response.get("cursor") {
            Some(Value::String(cursor)) => drop(request.insert("cursor".into(), json!(cursor))),
            _ => return all,
        }
    }
}

/// The store in `state`, of a daemon that has stopped.
///
/// # Panics
/// Where it does not open.
#[must_use]
pub fn stopped(state: &Path) -> (Journal, Store) {
    let options = Options {
        dir: state.to_owned(),
        cache_bytes: 64 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    Journal::open(options).expect("the store opens")
}

/// A source with its files open.
///
/// # Panics
/// Where there is none.
#[must_use]
pub fn view(store: &Store, source: &str) -> Arc<SourceView> {
    let id: SourceId = source.parse().expect("it is an id");
    store.view(&id).expect("its files open").expect("it is registered")
}

/// All that a source of a stopped daemon says, as lines of JSON.
///
/// # Panics
/// Where it cannot be read.
#[must_use]
pub fn export(store: &Store, source: &str) -> Vec<u8> {
    let mut out = Vec::new();
    view(store, source).export(&mut out).expect("memory takes it");
    out
}

/// The files of ground truth below `state`, by their paths, each with its length in bytes.
///
/// # Panics
/// Where they cannot be listed.
#[must_use]
pub fn files(state: &Path) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    for folder in ["facts", "raw", "work"] {
        for entry in fs::read_dir(state.join("ground").join(folder)).expect("there is a folder") {
            let entry = entry.expect("the system tells");
            // what is not finished may go meanwhile
            let Ok(metadata) = entry.metadata() else { continue };
            files.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()), metadata.len());
        }
    }
    files
}

/// The names that the store gives to files of ground truth, as [`files`] tells them.
///
/// # Panics
/// Where it cannot be read.
#[must_use]
pub fn named(store: &Store) -> Vec<String> {
    let mut named = Vec::new();
    for source in store.sources().expect("they are read") {
        named.extend(source.files.iter().map(|file| format!("facts/{}.sorted", file.sha256)));
    }
    for run in store.runs().expect("they are read") {
        named.extend(run.rows.iter().map(|file| format!("facts/{}.sorted", file.sha256)));
        named.push(format!("raw/{}.raw", run.input.raw_sha256));
    }
    named.sort();
    named.dedup();
    named
}
