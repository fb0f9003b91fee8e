//! Payloads as publishers write them: wide tables, other encodings, compression, and notations of numbers and periods.

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::ground::{
    approve, example_documents, ingest, office_documents, query_all, register_all, started_run, wait_for_run,
};
use oracled_tests::{DaemonWorld, at, call, document, post, problem};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;

/// A file of an indicator as the World Bank publishes it: four lines before the header, a column for each year, a comma at the
/// end of each line, and empty cells.
const WORLD_BANK: &str = "\"Data Source\",\"World Development Indicators\",\n\n\"Last Updated Date\",\"2026-07-01\",\n\n\
    \"Country Name\",\"Country Code\",\"Indicator Name\",\"Indicator Code\",\"1960\",\"1961\",\"1962\",\n\
    \"Aruba\",\"ABW\",\"Population, total\",\"SP.POP.TOTL\",\"54922\",\"55578\",\"\",\n\
    \"Côte d'Ivoire\",\"CIV\",\"Population, total\",\"SP.POP.TOTL\",\"3557528\",\"..\",\"3808932\",\n";

/// The documents of `office_documents` for the World Bank's own file.
#[allow(clippy::indexing_slicing, reason = "a missing member fails the test")]
fn world_bank_documents() -> (Value, Value, Value) {
    let (ontology, source, mut pipeline) = office_documents("wide");
    pipeline["pipeline"]["retrieval"]["format"] = json!({"csv": {
        "skip_lines": 4, "unpivot": {"columns": "[0-9]{4}", "name": "Year", "value": "Value"},
    }});
    for mapping in pipeline["normalization"]["axis_mappings"].as_array_mut().expect("a list") {
        if mapping["source_field"] == "Value" {
            mapping["required"] = json!(false);
            mapping["missing_values"] = json!([".."]);
        }
    }
    (ontology, source, pipeline)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("a write to memory succeeds");
    encoder.finish().expect("a write to memory succeeds")
}

fn utf_16(text: &str) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// The values of `axis` of all records.
#[allow(clippy::indexing_slicing, reason = "a missing member is null")]
async fn values_of(routes: &mut DaemonClient, source: &str, axis: &str) -> Vec<Value> {
    let request = json!({"axes_requested": [axis]});
    let records = query_all(routes, source, &request).await;
    records.into_iter().map(|(record, _)| record["axes"][axis].clone()).collect()
}

async fn run_payload(control: &mut DaemonClient, pipeline: &str, payload: Vec<u8>) -> Value {
    let run_id = started_run(&ingest(control, pipeline, "1", "2026-07-01", payload).await);
    wait_for_run(control, &run_id).await
}

#[tokio::test]
async fn wide_table_is_read_cell_by_cell_and_verified() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, source, mut pipeline) = world_bank_documents();
    if let Some(retrieval) = pipeline.pointer_mut("/pipeline/retrieval").and_then(Value::as_object_mut) {
        retrieval.insert("compression".into(), json!("gzip"));
    }
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, "wide").await;
    let run = run_payload(control, "wide", gzip(WORLD_BANK.as_bytes())).await;
    assert_eq!(run.get("state"), Some(&json!("completed")), "{run}");
    assert_eq!(run.pointer("/counts/read"), Some(&json!(5)), "{run}");
    assert_eq!(run.pointer("/counts/records"), Some(&json!(5)), "{run}");
    let unnamed = json!([{"kind": "unnamed_columns", "columns": [8]}]);
    assert_eq!(run.pointer("/counts/warnings"), Some(&unnamed), "{run}");
    let population = values_of(&mut daemon.routes().await, "wide", "population").await;
    assert_eq!(population, [json!("54922"), json!("55578"), json!("3557528"), Value::Null, json!("3808932")]);

    let verified = post(control, "/v1/sources/wide/verify", &json!({})).await;
    let checked = ["records", "fault_count"].map(|count| at(&verified, &format!("/runs/0/{count}")));
    assert_eq!(checked, [json!(5), json!(0)], "all records of a row have its place");
    let request = json!({"oracle_id": "wide", "request": {"axes_requested": ["population"], "include_provenance": true,
        "filters": [{"axis": "area", "operator": "eq", "value": "CIV"}]}});
    let answer = post(&mut daemon.routes().await, "/v1/query", &request).await;
    let raw = at(&answer, "/response/provenance/0/raw");
    let start =
        raw.get("offset").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok()).expect("an offset");
    let line = WORLD_BANK.lines().last().expect("a line");
    assert_eq!(WORLD_BANK.find(line), Some(start), "{raw}");
    assert_eq!(raw.get("len"), Some(&json!(line.len())));
}

#[tokio::test]
async fn payload_is_read_in_the_encoding_of_its_pipeline() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let text = "{\"number\":1,\"name\":\"Zürich 😀\"}\n";
    for (id, settings, payload) in [
        ("utf16", json!({"encoding": "utf-16le"}), utf_16(text)),
        ("latin1", json!({"encoding": "latin-1"}), b"{\"number\":1,\"name\":\"Z\xfcrich \x80\"}\n".to_vec()),
        (
            "zstd",
            json!({"compression": "zstd"}),
            zstd::encode_all(text.as_bytes(), 1).expect("it is compressed"),
        ),
        ("both", json!({"compression": "gzip", "encoding": "utf-16le"}), gzip(&utf_16(text))),
    ] {
        let (ontology, source, mut pipeline) = example_documents(id);
        let retrieval = pipeline.pointer_mut("/pipeline/retrieval").and_then(Value::as_object_mut);
        retrieval.expect("an object").extend(settings.as_object().expect("an object").clone());
        register_all(control, &ontology, &source, &pipeline).await;
        approve(control, id).await;
        let run = run_payload(control, id, payload).await;
        assert_eq!(run.get("state"), Some(&json!("completed")), "{id}: {run}");
        let expected = if id == "latin1" { "Zürich €" } else { "Zürich 😀" };
        assert_eq!(values_of(&mut daemon.routes().await, id, "name").await, [json!(expected)], "{id}");
    }
}

#[tokio::test]
async fn utf8_payload_of_a_latin1_pipeline_is_held() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, source, mut pipeline) = example_documents("cities");
    pipeline["pipeline"]["retrieval"]["encoding"] = json!("latin-1");
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, "cities").await;
    let payload = "{\"number\":1,\"name\":\"Zürich\"}\n{\"number\":2,\"name\":\"Bern\"}\n";
    let run = run_payload(control, "cities", payload.into()).await;
    assert_eq!(
        (&run["state"], &run["breaches"]),
        (&json!("held"), &json!([{"gate": "utf8_payload", "records": 1}])),
        "{run}"
    );
    let path = format!("/v1/runs/{}/approve", run["run_id"].as_str().expect("an id"));
    let approved = post(control, &path, &json!({"reason": "it is meant"})).await;
    assert_eq!(approved.status, 202, "{}", document(&approved));
}

#[tokio::test]
async fn payload_in_another_encoding_than_its_pipeline_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let text = b"{\"number\":1,\"name\":\"a\"}\n";
    let zstd = zstd::encode_all(&text[..], 1).expect("it is compressed");
    let gzipped = gzip(text);
    let half_a_pair = [b'{', 0, 0x00, 0xd8, b'}', 0].to_vec();
    for (number, (settings, payload)) in [
        (json!({"compression": "gzip"}), text.to_vec()),
        (json!({"compression": "gzip"}), gzipped[..gzipped.len() - 6].to_vec()),
        (json!({"compression": "gzip"}), zstd.clone()),
        (json!({"compression": "zstd"}), gzipped.clone()),
        (json!({"compression": "zstd"}), zstd[..zstd.len() - 2].to_vec()),
        (json!({"encoding": "utf-16le"}), half_a_pair),
        (json!({"encoding": "utf-16be"}), vec![0, b'{', 0]),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("refused-{number}");
        let (ontology, source, mut pipeline) = example_documents(&id);
        let retrieval = pipeline.pointer_mut("/pipeline/retrieval").and_then(Value::as_object_mut);
        retrieval.expect("an object").extend(settings.as_object().expect("an object").clone());
        register_all(control, &ontology, &source, &pipeline).await;
        let answer = ingest(control, &id, "1", "2026-07-01", payload).await;
        assert_eq!(answer.status, 400, "{settings}");
        problem(&answer, 400, "payload_undecodable");
    }
    assert_eq!(fs::read_dir(world.state().join("ground/raw")).expect("the archive exists").count(), 0);
}

#[tokio::test]
async fn compressed_payload_above_the_limit_is_refused() {
    let world = DaemonWorld::with_config("[ingestion]\nmax_payload_bytes = 1048576");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, source, mut pipeline) = example_documents("bomb");
    let retrieval = pipeline.pointer_mut("/pipeline/retrieval").and_then(Value::as_object_mut);
    retrieval.expect("an object").insert("compression".into(), json!("gzip"));
    register_all(control, &ontology, &source, &pipeline).await;
    let answer = ingest(control, "bomb", "1", "2026-07-01", gzip(&vec![b' '; 4 << 20])).await;
    problem(&answer, 413, "body_too_large");
    let answer = call(control, Method::GET, "/v1/runs", None).await;
    assert_eq!(at(&answer, "/items"), json!([]));
}

#[tokio::test]
async fn title_of_a_value_history_keeps_a_name_that_the_last_version_lacks() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, source, mut pipeline) = office_documents("office");
    for mapping in pipeline["normalization"]["axis_mappings"].as_array_mut().expect("a list") {
        if mapping["target_axis"] == "area_name" {
            mapping["required"] = json!(false);
        }
    }
    register_all(control, &ontology, &source, &pipeline).await;
    approve(control, "office").await;
    for (version, row) in [("2020-01-01", "Aruba,ABW,2015,101001"), ("2020-01-02", ",ABW,2015,102002")] {
        let payload = format!("Country Name,Country Code,Year,Value\n{row}\n");
        let run = started_run(&ingest(control, "office", version, version, payload).await);
        let ended = wait_for_run(control, &run).await;
        assert_eq!(ended["counts"]["records"], 1, "{ended}");
    }
    let filter = |axis: &str, value: Value| json!({"axis": axis, "operator": "eq", "value": value});
    let filters = [filter("area", json!("ABW")), filter("year", json!(2015))];
    let request = json!({"axis": "population", "filters": filters});
    let history = post(control, "/v1/sources/office/history", &request).await;
    assert_eq!(at(&history, "/title"), "Population, Aruba, 2015");
    let open = json!({"axis": "population", "filters": [filter("year", json!(2015))]});
    let refused = problem(&post(control, "/v1/sources/office/history", &open).await, 422, "query_too_costly");
    let detail = refused["detail"].as_str().expect("a text");
    assert!(detail.contains("identity axes: area;"), "the axis without a value is named: {detail}");
    assert!(daemon.stop().success());
}
