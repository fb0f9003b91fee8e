//! How administrators register what verification works by.

use oracled_api::base::client::Client;
use oracled_tests::ground::{approve, example, open_pipeline, put, register};
use oracled_tests::{World, at, document, get, log, post, problem};
use serde_json::{Value, json};

const WORKFLOW: &str = "/v1/workflows/census";
const UN: &str = "/v1/sources/un-wpp-population";

/// People by country and year, as two offices count them.
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

/// What a workflow over both needs.
async fn both(control: &mut Client) {
    register(control, "un-wpp-population").await;
    let source = example("sources/world-bank-population.json");
    assert_eq!(put(control, "/v1/sources/world-bank-population", &source).await.status, 200);
}

fn with(mut document: Value, place: &str, value: Value) -> Value {
    *document.pointer_mut(place).expect("it is there") = value;
    document
}

/// Whether nothing keeps a workflow from deciding but that its sources have not begun to answer.
fn only_waits(fault: &Value) -> bool {
    fault.as_str().is_some_and(|fault| fault.starts_with("not all of its sources can be asked yet: "))
}

#[tokio::test]
async fn a_workflow_is_registered_looked_at_and_registered_otherwise() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    assert_eq!(document(&get(control, "/v1/workflows").await), json!([]));
    let first = put(control, WORKFLOW, &census()).await;
    assert_eq!(
        (first.status.as_u16(), at(&first, "/unchanged")),
        (200, json!(false)),
        "{}",
        document(&first)
    );
    let again = put(control, WORKFLOW, &census()).await;
    assert_eq!(at(&again, "/unchanged"), true);
    assert_eq!(at(&again, "/document"), at(&first, "/document"));
    let threshold = "/document/workflow/conflict_resolution/escalation_delta_threshold";
    assert_eq!(at(&first, threshold), "1000.5", "numbers are kept exact");

    let other = with(census(), "/domain", json!("people"));
    assert_eq!(at(&put(control, WORKFLOW, &other).await, "/unchanged"), false);
    let shown = document(&get(control, WORKFLOW).await);
    assert_eq!(
        (&shown["registered"]["workflow"]["domain"], only_waits(&shown["fault"])),
        (&json!("people"), true)
    );
    assert_eq!(shown["registered"]["registered_by"], nix::unistd::geteuid().as_raw().to_string());
    assert_eq!(document(&get(control, "/v1/workflows").await), json!([shown]));

    let entries = log(control, "event=workflow_registered").await;
    let digests: Vec<_> = entries.iter().map(|e| [&e["before_sha256"], &e["workflow_sha256"]]).collect();
    let (was, is) = (at(&first, "/document/workflow_sha256"), shown["registered"]["workflow_sha256"].clone());
    assert_eq!(digests, [[&json!(null), &was], [&was, &is]]);
    assert_eq!(entries[1]["workflow"], shown["registered"]["workflow"]);
    assert_eq!(entries[1]["peer"]["pid"], std::process::id());

    drop(daemon);
    let daemon = world.serve().await;
    assert_eq!(document(&get(&mut daemon.control().await, WORKFLOW).await), shown, "it survives a restart");
}

#[tokio::test]
async fn a_workflow_that_cannot_work_is_refused_with_what_is_wrong() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    problem(&get(control, WORKFLOW).await, 404, "workflow_unknown");
    problem(&get(control, "/v1/workflows/No!").await, 400, "invalid_request");
    let told = problem(&put(control, WORKFLOW, &census()).await, 404, "ontology_unknown");
    assert!(told["detail"].as_str().unwrap().contains("population@1"), "{told}");
    both(control).await;
    for (place, value, told) in [
        (
            "/oracles/1",
            json!("world-bonk"),
            "no source `world-bonk` is registered; there are: un-wpp-population",
        ),
        ("/oracles/1", json!("human-lock"), "stands for what people decide"),
        ("/axes/0", json!("people"), "`people` is not allowed; allowed: area_name, population"),
        ("/axes/0", json!("area_name"), "cannot work on `area_name`"),
        ("/authority_latency/authority_latency_budget_ms", json!(1999), "`soft_timeout_ms`, which is 2000"),
        ("/conflict_resolution/default_strategy", json!("coin"), "conflict_resolution.default_strategy: "),
        ("/workflow_id", json!("censor"), "`workflow_id` is censor, and the path says census"),
    ] {
        let refused = put(control, WORKFLOW, &with(census(), place, value)).await;
        let refused = problem(&refused, 400, "invalid_document");
        assert!(refused["detail"].as_str().unwrap().contains(told), "{place}: {refused}");
    }
    assert_eq!(log(control, "event=workflow_registered").await.len(), 0);
}

#[tokio::test]
async fn source_is_not_registered_if_that_breaks_a_workflow() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    let ontology = with(example("ontologies/population.json"), "/ontology_id", json!("people"));
    assert_eq!(put(control, "/v1/ontologies/people/1", &ontology).await.status, 200);
    assert_eq!(put(control, WORKFLOW, &census()).await.status, 200);
    let source = example("sources/un-wpp-population.json");
    for (place, value, told) in [
        ("/axes_provided", json!(["area", "year", "area_name"]), "provides none of the axes population"),
        ("/ontology/ontology_id", json!("people"), "fills people@1, and not population@1"),
    ] {
        let refused = put(control, UN, &with(source.clone(), place, value)).await;
        let refused = problem(&refused, 409, "document_fixed");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.starts_with("workflow census would not work any more: "), "{detail}");
        assert!(detail.contains(told), "{detail}");
    }
    assert!(only_waits(&document(&get(control, WORKFLOW).await)["fault"]));
    // what does not concern it may change, and what it can do without
    let named = with(source.clone(), "/oracle_name", json!("The UN"));
    assert_eq!(put(control, UN, &named).await.status, 200);
    let less = with(source.clone(), "/oracle_tier", json!("unverified"));
    assert_eq!(put(control, UN, &less).await.status, 200, "the other one still tells of its axis");
    let other = with(example("sources/world-bank-population.json"), "/oracle_tier", json!("unverified"));
    let refused = put(control, "/v1/sources/world-bank-population", &other).await;
    let refused = problem(&refused, 409, "document_fixed");
    assert!(refused["detail"].as_str().unwrap().contains("no oracle of the workflow"), "{refused}");
}

#[tokio::test]
async fn another_version_of_the_ontology_stops_a_workflow_until_it_follows() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    assert_eq!(put(control, WORKFLOW, &census()).await.status, 200);
    let version = |document: Value, place: &str| with(document, place, json!("2"));
    let ontology = version(example("ontologies/population.json"), "/version");
    assert_eq!(put(control, "/v1/ontologies/population/2", &ontology).await.status, 200);
    for source in ["un-wpp-population", "world-bank-population"] {
        approve(control, source).await;
        let registration = version(example(&format!("sources/{source}.json")), "/ontology/version");
        let answer = put(control, &format!("/v1/sources/{source}"), &registration).await;
        assert_eq!(answer.status, 200, "{}", document(&answer));
        let shown = document(&get(control, WORKFLOW).await);
        let fault = "`oracles`: `un-wpp-population` fills population@2, and not population@1";
        assert_eq!(shown["fault"], fault);
    }
    let follows = version(census(), "/ontology/version");
    assert_eq!(put(control, WORKFLOW, &follows).await.status, 200);
    assert!(only_waits(&document(&get(control, WORKFLOW).await)["fault"]));
}

#[tokio::test]
async fn no_source_has_the_name_under_which_people_decide() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    for id in ["human-lock", "human-confirmation"] {
        let source = with(example("sources/un-wpp-population.json"), "/oracle_id", json!(id));
        let refused = put(control, &format!("/v1/sources/{id}"), &source).await;
        let refused = problem(&refused, 400, "invalid_document");
        assert!(refused["detail"].as_str().unwrap().contains("stands for what people decide"), "{refused}");
    }
}

#[tokio::test]
async fn oraclectl_registers_lists_and_shows_workflows() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    both(control).await;
    let said = |arguments: &[&str]| {
        let output = world.ctl(arguments);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    assert!(said(&["workflow", "list"]).1.contains("no workflows: `oraclectl workflow register FILE`"));
    let file = world.state().with_file_name("census.json");
    std::fs::write(&file, census().to_string()).expect("it is written");
    let file = file.to_str().expect("a name");
    let (code, registered) = said(&["workflow", "register", file]);
    assert_eq!(code, Some(0), "{registered}");
    let told = "workflow census is registered\nnot all of its sources can be asked yet: un-wpp-population is not approved; ";
    assert!(registered.starts_with(told), "{registered}");
    assert!(said(&["workflow", "register", file]).1.contains("was registered so already"));
    let (code, list) = said(&["workflow", "list"]);
    assert!(code == Some(0) && list.contains("un-wpp-population, world-bank-population"), "{list}");
    let (code, shown) = said(&["workflow", "show", "census"]);
    assert!(code == Some(0) && shown.contains("works") && shown.contains("\"weighted_average\""), "{shown}");
    assert_eq!(said(&["workflow", "show", "nowhere"]).0, Some(1));
    assert!(said(&["log", "--event", "workflow_registered"]).1.contains("workflow_registered census by uid"));
    assert_eq!(said(&["log", "--execution", "nobody"]), (Some(0), String::new()));
}

const LIVE: &str = "/v1/sources/un-live";
const ADAPTER: &str = "/v1/sources/un-live/adapter";

/// The UN's count as somebody's service has it.
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
async fn an_adapter_is_registered_for_a_live_source_and_registered_otherwise() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    problem(&put(control, ADAPTER, &adapter()).await, 404, "source_unknown");
    problem(&get(control, ADAPTER).await, 404, "source_unknown");
    assert_eq!(put(control, LIVE, &live()).await.status, 200);
    problem(&get(control, ADAPTER).await, 404, "adapter_unknown");
    let first = put(control, ADAPTER, &adapter()).await;
    assert_eq!(
        (first.status.as_u16(), at(&first, "/unchanged")),
        (200, json!(false)),
        "{}",
        document(&first)
    );
    assert_eq!(at(&put(control, ADAPTER, &adapter()).await, "/unchanged"), true);

    let other = with(adapter(), "/ttl_seconds", json!(30));
    assert_eq!(at(&put(control, ADAPTER, &other).await, "/unchanged"), false);
    let shown = document(&get(control, ADAPTER).await);
    assert_eq!(shown["adapter"]["ttl_seconds"], 30);
    let entries = log(control, "event=adapter_registered").await;
    let digests: Vec<_> = entries.iter().map(|e| [&e["before_sha256"], &e["adapter_sha256"]]).collect();
    let was = at(&first, "/document/adapter_sha256");
    assert_eq!(digests, [[&json!(null), &was], [&was, &shown["adapter_sha256"]]]);
    assert_eq!(entries[0]["adapter"], at(&first, "/document/adapter"), "the log holds what it was");

    drop(daemon);
    let daemon = world.serve().await;
    let shown_again = document(&get(&mut daemon.control().await, ADAPTER).await);
    assert_eq!(shown_again, shown, "it survives a restart");
    let file = world.state().with_file_name("adapter.json");
    std::fs::write(&file, adapter().to_string()).expect("it is written");
    let said = |arguments: &[&str]| String::from_utf8_lossy(&world.ctl(arguments).stdout).into_owned();
    let set = said(&["adapter", "set", file.to_str().expect("a name")]);
    assert_eq!(set, "the adapter of source un-live is registered\n");
    let told = said(&["adapter", "show", "un-live"]);
    assert!(told.contains("un-live") && told.contains("\"ttl_seconds\": 60"), "{told}");
    assert!(said(&["log", "-n", "1"]).contains("adapter_registered un-live by uid"));
}

#[tokio::test]
async fn an_adapter_that_cannot_work_is_refused_with_what_is_wrong() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    assert_eq!(put(control, LIVE, &live()).await.status, 200);
    for (place, value, told) in [
        (
            "/endpoint",
            json!("http://127.0.0.1/{area}/{year}"),
            "the endpoint is refused: `127.0.0.1` leads to 127.0.0.1 (loopback)",
        ),
        ("/endpoint", json!("https://u:p@un.example/{area}/{year}"), "has a user or a password"),
        ("/endpoint", json!("https://un.example/{area}"), "identity axis `year`"),
        ("/endpoint", json!("https://{area}.example/{year}"), "a question must not say who is asked"),
        ("/normalization/axis_mappings/2/target_axis", json!("people"), "people"),
        ("/ttl_seconds", json!(0), "`ttl_seconds` is 0; allowed: 1 to"),
        ("/records", json!(7), "records: "),
        ("/oracle_id", json!("un-wpp-population"), "the path says un-live"),
    ] {
        let refused =
            problem(&put(control, ADAPTER, &with(adapter(), place, value)).await, 400, "invalid_document");
        assert!(refused["detail"].as_str().unwrap().contains(told), "{place}: {refused}");
    }
    let ingested = with(adapter(), "/oracle_id", json!("un-wpp-population"));
    let refused = put(control, &format!("{UN}/adapter"), &ingested).await;
    let refused = problem(&refused, 409, "document_fixed");
    assert!(refused["detail"].as_str().unwrap().contains("is ingested"), "{refused}");
    assert_eq!(log(control, "event=adapter_registered").await.len(), 0);
}

#[tokio::test]
async fn a_live_source_stays_live_takes_no_pipeline_and_is_not_queried() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    let unknown = put(control, LIVE, &with(live(), "/adapter_id", json!("ftp"))).await;
    let unknown = problem(&unknown, 400, "invalid_document");
    assert!(unknown["detail"].as_str().unwrap().contains("`ftp`, expected `store` or `http`"), "{unknown}");
    assert_eq!(put(control, LIVE, &live()).await.status, 200);
    approve(control, "un-live").await;
    for (path, source) in [
        (LIVE, with(live(), "/adapter_id", json!("store"))),
        (UN, { with(with(live(), "/oracle_id", json!("un-wpp-population")), "/adapter_id", json!("http")) }),
    ] {
        let refused = problem(&put(control, path, &source).await, 409, "document_fixed");
        assert!(refused["detail"].as_str().unwrap().contains("`adapter_id` cannot change"), "{refused}");
    }
    let mut pipeline = open_pipeline("un-wpp-population");
    pipeline = with(pipeline, "/pipeline/oracle_id", json!("un-live"));
    pipeline = with(pipeline, "/pipeline/pipeline_id", json!("un-live"));
    let refused = problem(&put(control, "/v1/pipelines/un-live", &pipeline).await, 409, "source_live");
    assert!(refused["detail"].as_str().unwrap().contains("it has an adapter"), "{refused}");
    let query = json!({"oracle_id": "un-live", "request": {"axes_requested": ["population"]}});
    let refused = post(&mut daemon.routes().await, "/v1/query", &query).await;
    let refused = problem(&refused, 409, "source_live");
    assert!(refused["detail"].as_str().unwrap().contains("it is asked by POST /v1/verify"), "{refused}");
}

#[tokio::test]
async fn live_source_is_not_redefined_against_its_adapter_or_answers() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "un-wpp-population").await;
    let thousands = with(example("ontologies/population.json"), "/axes/3/unit", json!("10*3.{person}"));
    let thousands = with(thousands, "/version", json!("2"));
    assert_eq!(put(control, "/v1/ontologies/population/2", &thousands).await.status, 200);
    let of_thousands = with(live(), "/ontology/version", json!("2"));
    for source in [&of_thousands, &live()] {
        assert_eq!(put(control, LIVE, source).await.status, 200, "it has said nothing yet");
    }
    assert_eq!(put(control, ADAPTER, &adapter()).await.status, 200);
    problem(&put(control, LIVE, &of_thousands).await, 409, "document_fixed");
    let less = with(live(), "/axes_provided", json!(["area", "year", "area_name"]));
    let refused = problem(&put(control, LIVE, &less).await, 400, "invalid_document");
    assert!(
        refused["detail"].as_str().unwrap().contains("the source's adapter would not work any more"),
        "{refused}"
    );
    let named = with(live(), "/oracle_name", json!("The UN, live"));
    assert_eq!(put(control, LIVE, &named).await.status, 200);
}
