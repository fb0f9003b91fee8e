//! Registration of workflows, adapters and live sources.

use oracled_api::client::DaemonClient;
use oracled_tests::ground::{approve, example, open_pipeline, put_document, register};
use oracled_tests::{DaemonWorld, at, document, get, log, post, problem};
use serde_json::{Value, json};

const WORKFLOW: &str = "/v1/documents/workflow/census";
const UN: &str = "/v1/documents/source/un-wpp-population";

/// A workflow over two sources of population by country and year.
fn census() -> Value {
    json!({
        "workflow_id": "census", "domain": "population",
        "ontology": {"ontology_id": "population", "version": "1"}, "axes": ["population"],
        "oracles": ["un-wpp-population", "world-bank-population"],
        "conflict_resolution": {"default_strategy": "weighted_average", "escalation_delta_threshold": 1000.50},
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "ESCALATE"}
    })
}

/// Registers both sources of the workflow [`census`].
async fn both(control: &mut DaemonClient) {
    register(control, "un-wpp-population").await;
    let source = example("sources/world-bank-population.json");
    assert_eq!(
        put_document(control, "/v1/documents/source/world-bank-population", &source).await.status,
        200
    );
}

/// The detail of a problem, without the place in the JSON text.
fn detail(problem: &Value) -> String {
    let detail = problem["detail"].as_str().expect("a text");
    detail.split_once(" at line ").map_or(detail, |(fault, _)| fault).to_owned()
}

fn with(mut document: Value, place: &str, value: Value) -> Value {
    *document.pointer_mut(place).expect("the value exists") = value;
    document
}

/// Whether the workflow can work, except that its sources do not answer yet.
fn only_waits(status: &Value) -> bool {
    status.as_str().is_some_and(|status| status.starts_with("cannot use all of its sources: "))
}

#[tokio::test]
async fn workflow_is_registered_shown_and_replaced() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    assert_eq!(at(&get(control, "/v1/documents/workflow").await, "/items"), json!([]));
    let first = put_document(control, WORKFLOW, &census()).await;
    assert_eq!(
        (first.status.as_u16(), at(&first, "/change")),
        (200, json!("created")),
        "{}",
        document(&first)
    );
    let again = put_document(control, WORKFLOW, &census()).await;
    assert_eq!(at(&again, "/change"), "unchanged");
    assert_eq!(at(&again, "/document"), at(&first, "/document"));
    let threshold = "/document/conflict_resolution/escalation_delta_threshold";
    assert_eq!(at(&first, threshold), "1000.5", "numbers stay exact");

    let other = with(census(), "/domain", json!("people"));
    assert_eq!(at(&put_document(control, WORKFLOW, &other).await, "/change"), "changed");
    let shown = document(&get(control, WORKFLOW).await);
    assert_eq!((&shown["document"]["domain"], only_waits(&shown["status"])), (&json!("people"), true));
    assert_eq!(shown["registered_by"], nix::unistd::geteuid().as_raw().to_string());
    let listed = get(control, "/v1/documents/workflow").await;
    assert_eq!(at(&listed, "/items/0/sha256"), shown["sha256"]);

    let mut entries = log(control, "event=document_registered").await;
    entries.retain(|entry| entry["kind"] == "workflow");
    let digests: Vec<_> = entries.iter().map(|e| [&e["before_sha256"], &e["sha256"]]).collect();
    let (was, is) = (entries[0]["sha256"].clone(), shown["sha256"].clone());
    assert_eq!(digests, [[&json!(null), &was], [&was, &is]]);
    assert_eq!((&entries[1]["before"], &entries[1]["after"]), (&at(&first, "/document"), &shown["document"]));
    assert_eq!(entries[1]["peer"]["pid"], std::process::id());

    drop(daemon);
    let daemon = world.serve().await;
    assert_eq!(
        document(&get(&mut daemon.control().await, WORKFLOW).await),
        shown,
        "the workflow survives a restart"
    );
}

#[tokio::test]
async fn invalid_workflow_is_refused_with_its_fault() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    problem(&get(control, WORKFLOW).await, 404, "document_unknown");
    problem(&get(control, "/v1/documents/workflow/No!").await, 404, "document_unknown");
    let message = problem(&put_document(control, WORKFLOW, &census()).await, 404, "ontology_unknown");
    let mut details = vec![detail(&message)];
    both(control).await;
    let unknown = put_document(control, WORKFLOW, &with(census(), "/oracles/1", json!("world-bonk"))).await;
    let unknown = problem(&unknown, 404, "source_unknown");
    details.push(detail(&unknown));
    for (place, value) in [
        ("/oracles/1", json!("human-lock")),
        ("/axes/0", json!("people")),
        ("/axes/0", json!("area_name")),
        ("/authority_latency/authority_latency_budget_ms", json!(1999)),
        ("/conflict_resolution/default_strategy", json!("coin")),
        ("/workflow_id", json!("censor")),
    ] {
        let refused = put_document(control, WORKFLOW, &with(census(), place, value)).await;
        details.push(detail(&problem(&refused, 400, "invalid_document")));
    }
    insta::assert_snapshot!(details.join("\n"));
    assert!(log(control, "event=document_registered").await.iter().all(|entry| entry["kind"] != "workflow"));
}

#[tokio::test]
async fn source_is_not_registered_if_that_breaks_a_workflow() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    let ontology = with(example("ontologies/population.json"), "/ontology_id", json!("people"));
    assert_eq!(put_document(control, "/v1/documents/ontology/people@1", &ontology).await.status, 200);
    assert_eq!(put_document(control, WORKFLOW, &census()).await.status, 200);
    let source = example("sources/un-wpp-population.json");
    let mut details = Vec::new();
    for (place, value) in
        [("/axes_provided", json!(["area", "year", "area_name"])), ("/ontology/ontology_id", json!("people"))]
    {
        let refused = put_document(control, UN, &with(source.clone(), place, value)).await;
        details.push(detail(&problem(&refused, 409, "document_fixed")));
    }
    assert!(only_waits(&document(&get(control, WORKFLOW).await)["status"]));
    // a source may change in ways that the workflow does not depend on
    let named = with(source.clone(), "/oracle_name", json!("The UN"));
    assert_eq!(put_document(control, UN, &named).await.status, 200);
    let less = with(source.clone(), "/oracle_tier", json!("unverified"));
    assert_eq!(
        put_document(control, UN, &less).await.status,
        200,
        "the other source still provides the axis"
    );
    let other = with(example("sources/world-bank-population.json"), "/oracle_tier", json!("unverified"));
    let refused = put_document(control, "/v1/documents/source/world-bank-population", &other).await;
    details.push(detail(&problem(&refused, 409, "document_fixed")));
    insta::assert_snapshot!(details.join("\n"));
}

#[tokio::test]
async fn workflow_waits_until_it_names_the_new_ontology_version() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    assert_eq!(put_document(control, WORKFLOW, &census()).await.status, 200);
    let version = |document: Value, place: &str| with(document, place, json!("2"));
    let ontology = version(example("ontologies/population.json"), "/version");
    assert_eq!(put_document(control, "/v1/documents/ontology/population@2", &ontology).await.status, 200);
    for source in ["un-wpp-population", "world-bank-population"] {
        approve(control, source).await;
        let registration = version(example(&format!("sources/{source}.json")), "/ontology/version");
        let answer = put_document(control, &format!("/v1/documents/source/{source}"), &registration).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        let shown = document(&get(control, WORKFLOW).await);
        let fault = "`oracles`: `un-wpp-population` has the ontology population@2, not population@1";
        assert_eq!(shown["status"], fault);
    }
    let follows = version(census(), "/ontology/version");
    assert_eq!(put_document(control, WORKFLOW, &follows).await.status, 200);
    assert!(only_waits(&document(&get(control, WORKFLOW).await)["status"]));
}

#[tokio::test]
async fn source_with_a_reserved_id_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    let mut details = Vec::new();
    for id in ["human-lock", "human-confirmation"] {
        let source = with(example("sources/un-wpp-population.json"), "/oracle_id", json!(id));
        let refused = put_document(control, &format!("/v1/documents/source/{id}"), &source).await;
        let refused = problem(&refused, 400, "invalid_document");
        details.push(detail(&refused));
    }
    insta::assert_snapshot!(details.join("\n"));
}

#[tokio::test]
async fn oraclectl_applies_lists_and_describes_workflows() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    let run_ctl = |arguments: &[&str]| {
        let output = world.ctl(arguments);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let file = world.state().with_file_name("census.json");
    std::fs::write(&file, census().to_string()).expect("the write succeeds");
    let file = file.to_str().expect("a name");
    let (code, applied) = run_ctl(&["apply", "-f", file]);
    let (created, status) = applied.split_once('\n').expect("two lines");
    assert!(code == Some(0) && status.starts_with("workflow census: "), "{applied}");
    let (code, unchanged) = run_ctl(&["apply", "-f", file]);
    assert_eq!(code, Some(0), "{unchanged}");
    insta::assert_snapshot!("workflow_that_is_applied_twice", format!("{created}\n{unchanged}"));
    let (code, list) = run_ctl(&["get", "workflow", "--json"]);
    assert_eq!(code, Some(0), "{list}");
    let list: Value = serde_json::from_str(&list).expect("valid JSON");
    assert!(only_waits(&list[0]["status"]), "{list}");
    let (code, shown) = run_ctl(&["describe", "workflow", "census"]);
    assert!(code == Some(0) && shown.contains("weighted_average"), "{shown}");
    assert_eq!(run_ctl(&["get", "workflow", "nowhere"]).0, Some(1));
    let log = run_ctl(&["log", "--event", "document_registered"]).1;
    let row = log.lines().find(|row| row.contains("workflow")).expect("an entry");
    assert!(row.contains("document_registered") && row.contains("census"), "{log}");
    assert_eq!(run_ctl(&["log", "--execution", "unknown"]), (Some(0), "no entries\n".to_owned()));
}

const LIVE: &str = "/v1/documents/source/un-live";
const ADAPTER: &str = "/v1/documents/adapter/un-live";

/// A live source for the UN's population.
fn live() -> Value {
    let source = with(example("sources/un-wpp-population.json"), "/oracle_id", json!("un-live"));
    with(source, "/adapter_id", json!("http"))
}

fn adapter() -> Value {
    let mapping = |axis: &str| json!({"source_field": axis, "target_axis": axis, "cardinality": "one_to_one", "required": true});
    json!({
        "oracle_id": "un-live", "endpoint": "https://un.example/v1/{area}?year={year}", "records": "/data",
        "normalization": {
            "normalizer_id": "un-live", "source_schema_id": "answer", "target_ontology_id": "population",
            "axis_mappings": [mapping("area"), mapping("year"), mapping("population")]
        },
        "ttl_seconds": 60
    })
}

#[tokio::test]
async fn adapter_is_registered_for_a_live_source_and_replaced() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    problem(&put_document(control, ADAPTER, &adapter()).await, 404, "source_unknown");
    assert_eq!(put_document(control, LIVE, &live()).await.status, 200);
    problem(&get(control, ADAPTER).await, 404, "document_unknown");
    let first = put_document(control, ADAPTER, &adapter()).await;
    assert_eq!(
        (first.status.as_u16(), at(&first, "/change")),
        (200, json!("created")),
        "{}",
        document(&first)
    );
    assert_eq!(at(&put_document(control, ADAPTER, &adapter()).await, "/change"), "unchanged");

    let other = with(adapter(), "/ttl_seconds", json!(30));
    assert_eq!(at(&put_document(control, ADAPTER, &other).await, "/change"), "changed");
    let shown = document(&get(control, ADAPTER).await);
    assert_eq!(shown["document"]["ttl_seconds"], 30);
    let mut entries = log(control, "event=document_registered").await;
    entries.retain(|entry| entry["kind"] == "adapter");
    let digests: Vec<_> = entries.iter().map(|e| [&e["before_sha256"], &e["sha256"]]).collect();
    let was = entries[0]["sha256"].clone();
    assert_eq!(digests, [[&json!(null), &was], [&was, &shown["sha256"]]]);
    assert_eq!(entries[0]["after"], at(&first, "/document"), "the log has the first version");

    drop(daemon);
    let daemon = world.serve().await;
    let shown_again = document(&get(&mut daemon.control().await, ADAPTER).await);
    assert_eq!(shown_again, shown, "the adapter survives a restart");
    let file = world.state().with_file_name("adapter.json");
    std::fs::write(&file, adapter().to_string()).expect("the write succeeds");
    let ctl_output = |arguments: &[&str]| String::from_utf8_lossy(&world.ctl(arguments).stdout).into_owned();
    let set = ctl_output(&["apply", "-f", file.to_str().expect("a name")]);
    insta::assert_snapshot!("adapter_that_is_applied", set);
    let described = ctl_output(&["describe", "adapter", "un-live"]);
    assert!(described.contains("un-live") && described.contains("ttl_seconds"), "{described}");
    let last = ctl_output(&["log", "-n", "1"]);
    let shown = ["document_registered", "adapter", "un-live"];
    assert!(shown.iter().all(|word| last.contains(word)), "{last}");
}

#[tokio::test]
async fn invalid_adapter_is_refused_with_its_fault() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    assert_eq!(put_document(control, LIVE, &live()).await.status, 200);
    let mut details = Vec::new();
    for (place, value) in [
        ("/endpoint", json!("http://127.0.0.1/{area}/{year}")),
        ("/endpoint", json!("https://u:p@un.example/{area}/{year}")),
        ("/endpoint", json!("https://un.example/{area}")),
        ("/endpoint", json!("https://{area}.example/{year}")),
        ("/normalization/axis_mappings/2/target_axis", json!("people")),
        ("/ttl_seconds", json!(0)),
        ("/records", json!(7)),
        ("/oracle_id", json!("un-wpp-population")),
    ] {
        let refused = problem(
            &put_document(control, ADAPTER, &with(adapter(), place, value)).await,
            400,
            "invalid_document",
        );
        details.push(detail(&refused));
    }
    let ingested = with(adapter(), "/oracle_id", json!("un-wpp-population"));
    let refused = put_document(control, "/v1/documents/adapter/un-wpp-population", &ingested).await;
    details.push(detail(&problem(&refused, 409, "document_fixed")));
    insta::assert_snapshot!(details.join("\n"));
    assert!(log(control, "event=document_registered").await.iter().all(|entry| entry["kind"] != "adapter"));
}

#[tokio::test]
async fn live_source_stays_live_and_has_no_pipeline_or_queries() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    let unknown = put_document(control, LIVE, &with(live(), "/adapter_id", json!("ftp"))).await;
    let mut details = vec![detail(&problem(&unknown, 400, "invalid_document"))];
    assert_eq!(put_document(control, LIVE, &live()).await.status, 200);
    approve(control, "un-live").await;
    for (path, source) in [
        (LIVE, with(live(), "/adapter_id", json!("store"))),
        (UN, { with(with(live(), "/oracle_id", json!("un-wpp-population")), "/adapter_id", json!("http")) }),
    ] {
        let refused = problem(&put_document(control, path, &source).await, 409, "document_fixed");
        details.push(detail(&refused));
    }
    let mut pipeline = open_pipeline("un-wpp-population");
    pipeline = with(pipeline, "/pipeline/oracle_id", json!("un-live"));
    pipeline = with(pipeline, "/pipeline/pipeline_id", json!("un-live"));
    let refused = problem(
        &put_document(control, "/v1/documents/pipeline/un-live", &pipeline).await,
        409,
        "source_live",
    );
    details.push(detail(&refused));
    let query = json!({"oracle_id": "un-live", "request": {"axes_requested": ["population"]}});
    let refused = post(&mut daemon.routes().await, "/v1/query", &query).await;
    details.push(detail(&problem(&refused, 409, "source_live")));
    insta::assert_snapshot!(details.join("\n"));
}

#[tokio::test]
async fn live_source_is_not_redefined_against_its_adapter_or_answers() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    let thousands = with(example("ontologies/population.json"), "/axes/3/unit", json!("10*3.{person}"));
    let thousands = with(thousands, "/version", json!("2"));
    assert_eq!(put_document(control, "/v1/documents/ontology/population@2", &thousands).await.status, 200);
    let of_thousands = with(live(), "/ontology/version", json!("2"));
    for source in [&of_thousands, &live()] {
        assert_eq!(
            put_document(control, LIVE, source).await.status,
            200,
            "the source has no adapter and no answer yet"
        );
    }
    assert_eq!(put_document(control, ADAPTER, &adapter()).await.status, 200);
    problem(&put_document(control, LIVE, &of_thousands).await, 409, "document_fixed");
    let less = with(live(), "/axes_provided", json!(["area", "year", "area_name"]));
    let refused = problem(&put_document(control, LIVE, &less).await, 400, "invalid_document");
    insta::assert_snapshot!(detail(&refused));
    let named = with(live(), "/oracle_name", json!("The UN, live"));
    assert_eq!(put_document(control, LIVE, &named).await.status, 200);
}
