//! The content of payloads, requests and documents is read as meant, or refused: times, forms of Unicode, quotes.

use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::ground::{
    approve, example_documents, ingest, put_document, query_all, register_all, started_run, wait_for_run,
};
use oracled_tests::verification::register;
use oracled_tests::{DaemonWorld, at, call, document, post, problem};
use serde_json::{Value, json};

const NFC: &str = "C\u{f4}te d'Or";
const NFD: &str = "Co\u{302}te d'Or";

/// Returns the field of an axis.
type FieldName = fn(&str) -> String;

/// Documents with the identity axis `name` and the axes `size` and `day`; `field_of` names the fields of the payload.
#[allow(clippy::indexing_slicing, reason = "a missing member is inserted")]
fn named_documents(source: &str, format: &Value, field_of: &dyn Fn(&str) -> String) -> (Value, Value, Value) {
    let axis = |axis: &str, kind: &str| json!({"axis": axis, "type": kind, "class": "measured", "description": axis});
    let (_, mut registration, mut pipeline) = example_documents(source);
    let mut name = axis("name", "string");
    name["identity"] = json!(true);
    let ontology = json!({"ontology_id": "named", "version": "1",
        "axes": [name, axis("size", "number"), axis("day", "date")]});
    registration["ontology"] = json!({"ontology_id": "named", "version": "1"});
    registration["axes_provided"] = json!(["name", "size", "day"]);
    pipeline["pipeline"]["retrieval"]["format"] = format.clone();
    pipeline["pipeline"]["validation"] = json!({"reject_on_schema_fail": true});
    pipeline["pipeline"]["transformation"] = json!({});
    let mapping = |axis: &str| json!({"source_field": field_of(axis), "target_axis": axis});
    let mappings = ["name", "size", "day"].map(mapping);
    pipeline["normalization"] = json!({"axis_mappings": mappings});
    (ontology, registration, pipeline)
}

fn plain(axis: &str) -> String {
    axis.to_owned()
}

async fn run_of(control: &mut DaemonClient, source: &str, payload: String) -> Value {
    let run_id = started_run(&ingest(control, source, "1", "2026-07-01", payload.into_bytes()).await);
    wait_for_run(control, &run_id).await
}

#[tokio::test]
async fn nfd_query_finds_the_record_and_a_verification_sees_the_conflict() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (source, name, size) in [("first", NFD, 1), ("second", NFC, 2)] {
        let (ontology, registration, pipeline) = named_documents(source, &json!("ndjson"), &plain);
        register_all(control, &ontology, &registration, &pipeline).await;
        let line = json!({"name": name, "size": size});
        let run = run_of(control, source, format!("{line}\n")).await;
        assert_eq!(run.pointer("/counts/records"), Some(&json!(1)), "{run}");
        approve(control, source).await;
    }
    let routes = &mut daemon.routes().await;
    for source in ["first", "second"] {
        for (operator, value) in
            [("eq", NFC), ("eq", NFD), ("contains", "Co\u{302}te"), ("regex", "^Co\u{302}te")]
        {
            let filters = json!([{"axis": "name", "operator": operator, "value": value}]);
            let request = json!({"axes_requested": ["size"], "filters": filters, "include_provenance": true});
            let found = query_all(routes, source, &request).await;
            assert_eq!(found.len(), 1, "{operator} in {source}");
            let name = found.first().and_then(|(record, _)| record.pointer("/axes/name"));
            assert_eq!(name, Some(&json!(NFC)));
        }
    }
    let verified = post(control, "/v1/sources/first/verify", &json!({})).await;
    assert_eq!(at(&verified, "/runs/0/fault_count"), json!(0), "the raw bytes are those that came");

    let workflow = json!({
        "workflow_id": "named", "domain": "named", "ontology": {"ontology_id": "named", "version": "1"},
        "axes": ["size"], "oracles": ["first", "second"],
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"},
    });
    register(control, &workflow).await;
    for name in [NFC, NFD] {
        let request = json!({"workflow": "named", "where": {"name": name}, "axes": ["size"]});
        let answer = post(routes, "/v1/verify", &request).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        assert_eq!(at(&answer, "/kind"), json!("human_review"), "the sources differ");
        assert_eq!(at(&answer, "/where/name"), json!(NFC));
    }
}

#[tokio::test]
async fn run_warns_of_words_with_letters_of_several_scripts() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, registration, pipeline) = named_documents("mixed", &json!("ndjson"), &plain);
    register_all(control, &ontology, &registration, &pipeline).await;
    let names = ["Paris", "P\u{430}ris", "\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430}", "Lou\u{435}ns"];
    let lines: String = names.iter().map(|name| format!("{}\n", json!({"name": name, "size": 1}))).collect();
    let run = run_of(control, "mixed", lines).await;
    assert_eq!(run.pointer("/counts/records"), Some(&json!(4)), "no record is merged: {run}");
    let warnings = run.pointer("/counts/warnings").and_then(Value::as_array).cloned().unwrap_or_default();
    let mixed = json!({"kind": "mixed_scripts", "axis": "name", "word": "P\u{430}ris", "records": 2});
    assert!(warnings.contains(&mixed), "{run}");
}

#[tokio::test]
async fn second60_is_refused_in_requests() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, registration, pipeline) = named_documents("timed", &json!({"csv": {}}), &plain);
    register_all(control, &ontology, &registration, &pipeline).await;
    let payload = "name,size,day\na,1,2020-06-15T12:34:60Z\nb,2,2020-06-15T12:35:00Z\nc,3,2020-02-30\n";
    let run = run_of(control, "timed", payload.to_owned()).await;
    assert_eq!(run.pointer("/counts/records"), Some(&json!(1)), "{run}");
    assert_eq!(run.pointer("/counts/rejected_by_rule"), Some(&json!({"axis_type": 2})), "{run}");
    approve(control, "timed").await;

    let routes = &mut daemon.routes().await;
    for time in ["2020-06-15T12:34:60Z", "2020-06-15T24:00:00Z", "2020-02-30"] {
        for field in ["point_in_time", "known_at"] {
            let mut request = json!({"axes_requested": ["size"]});
            request.as_object_mut().expect("an object").insert(field.into(), json!(time));
            let answer = post(routes, "/v1/query", &json!({"oracle_id": "timed", "request": request})).await;
            assert_eq!(answer.status, 400, "{field} {time}: {}", document(&answer));
        }
        let filters = json!([{"axis": "day", "operator": "eq", "value": time}]);
        let request =
            json!({"oracle_id": "timed", "request": {"axes_requested": ["size"], "filters": filters}});
        assert_eq!(post(routes, "/v1/query", &request).await.status, 400, "a filter on {time}");
        let answer = ingest(control, "timed", "2", time, "name,size,day\n").await;
        assert_eq!(answer.status, 400, "released_at {time}: {}", document(&answer));
        for path in ["/v1/log", "/v1/costs", "/v1/divergence"] {
            let answer = call(control, Method::GET, &format!("{path}?since={time}"), None).await;
            assert_eq!(answer.status, 400, "{path} since {time}: {}", document(&answer));
        }
    }
    for path in ["/v1/log", "/v1/costs", "/v1/divergence"] {
        let answer = call(control, Method::GET, &format!("{path}?since=2020-06-15T12:34:59Z"), None).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
    }
}

#[tokio::test]
#[allow(clippy::indexing_slicing, reason = "a missing member is inserted")]
async fn pipeline_that_reads_local_times_needs_their_zone() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let (ontology, registration, mut pipeline) = named_documents("local", &json!({"csv": {}}), &plain);
    register_all(control, &ontology, &registration, &pipeline).await;
    let steps = |config: Value| json!([{"axis": "day", "normalizer_type": "date_parsing", "config": config}]);
    pipeline["normalization"]["value_normalizers"] = steps(json!({"formats": ["%Y-%m-%d %H:%M"]}));
    let refused = put_document(control, "/v1/documents/pipeline/local", &pipeline).await;
    problem(&refused, 400, "invalid_document");
    let config = json!({"formats": ["%Y-%m-%d %H:%M"], "timezone": "Europe/Vienna"});
    pipeline["normalization"]["value_normalizers"] = steps(config);
    let taken = put_document(control, "/v1/documents/pipeline/local", &pipeline).await;
    assert_eq!(taken.status, 200, "{}", document(&taken));
    let payload = "name,size,day\na,1,2026-11-26 10:00\nb,2,2026-03-29 02:30\nc,3,2026-10-25 02:30\n";
    let run = run_of(control, "local", payload.to_owned()).await;
    assert_eq!(run.pointer("/counts/rejected_by_rule"), Some(&json!({"date_parsing": 2})), "{run}");
    approve(control, "local").await;
    let found = query_all(&mut daemon.routes().await, "local", &json!({"axes_requested": ["day"]})).await;
    let day = found.first().and_then(|(record, _)| record.pointer("/axes/day"));
    assert_eq!(day, Some(&json!("2026-11-26T09:00:00Z")));
}

#[tokio::test]
async fn quoted_names_and_cells_are_read_without_their_quotes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let spaced = |axis: &str| match axis {
        "name" => "Name".to_owned(),
        "size" => "Size".to_owned(),
        _ => "Day".to_owned(),
    };
    let broken = |axis: &str| match axis {
        "name" => "['Area or\nregion']".to_owned(),
        "size" => "['People\n(thousands)']".to_owned(),
        _ => "Day".to_owned(),
    };
    let cases: [(&str, FieldName, &str, &[&str]); 3] = [
        ("spaced", spaced, "\"Name\", \"Size\", \"Day\"\n\"Al\", \"1\", \"2023-01-01\"\n", &["Al"]),
        (
            "broken",
            broken,
            "\"Area or\nregion\",\"People\n(thousands)\",Day\nNorth,\"68\",2023-01-01\nSouth,\"48\",2023-01-01\n",
            &["North", "South"],
        ),
        (
            "trailing",
            plain,
            "name,size,day\n1,2,2023-01-01,\n2,3,2023-01-01,\n3,4,2023-01-01,\n",
            &["1", "2", "3"],
        ),
    ];
    for (source, field_of, payload, expected) in cases {
        let (ontology, registration, pipeline) = named_documents(source, &json!({"csv": {}}), &field_of);
        register_all(control, &ontology, &registration, &pipeline).await;
        let run = run_of(control, source, payload.to_owned()).await;
        assert_eq!(run.get("state"), Some(&json!("completed")), "{source}: {run}");
        assert_eq!(run.pointer("/counts/rejected"), Some(&json!(0)), "{source}: {run}");
        approve(control, source).await;
        let found =
            query_all(&mut daemon.routes().await, source, &json!({"axes_requested": ["size", "day"]})).await;
        let names: Vec<_> = found.iter().filter_map(|(record, _)| record.pointer("/axes/name")).collect();
        assert_eq!(names, expected.iter().collect::<Vec<_>>(), "{source}");
        assert!(found.iter().all(|(record, _)| record.pointer("/axes/day") == Some(&json!("2023-01-01"))));
    }
}
