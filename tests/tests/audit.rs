//! The audit log: the process and the request that caused an entry, and the reads of sources.

use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{coherent_answer, generation_request, purge_verdict};
use oracled_tests::ground::{
    approve, ingest, office_documents, put_document, register, register_all, register_gated, runs_path,
    started_run, wait_for_run, workflow,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::wire::{WireConnection, head, post as whole_post};
use oracled_tests::{
    DaemonWorld, GOOD, at, document, eventually, get, log, post, problem, read_whole_log, submission,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const SOURCE: &str = "world-bank-population";
const HEADER: &str = "Country Name,Country Code,Year,Value\n";

/// Whether an entry names the request `request_id` of this process. A request on the routes' socket also has its
/// application.
fn is_caused_by(entry: &Value, request_id: &str) -> bool {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let control = json!({"uid": uid, "gid": gid, "pid": std::process::id(), "request_id": request_id});
    let mut routes = control.clone();
    routes["application"] = json!("default");
    [control, routes].contains(&entry["caller"])
}

/// Sends a request with this request id and checks that the answer has it.
async fn sent(socket: &Path, request_id: &str, method: &str, path: &str, body: &Value) -> DaemonResponse {
    let id = [("x-request-id", request_id)];
    let bytes = match method {
        "POST" => whole_post(path, &id, body.to_string()),
        _ => {
            let body = body.to_string();
            let length = body.len().to_string();
            let headers = [id[0], ("content-type", "application/json"), ("content-length", &length)];
            [head(method, path, &headers).into_bytes(), body.into_bytes()].concat()
        }
    };
    let answer = WireConnection::connect(socket).await.exchange(bytes).await.expect("the server answers");
    let returned = answer.headers.get("x-request-id").and_then(|id| id.to_str().ok());
    assert_eq!(returned, Some(request_id));
    answer
}

/// Events of the entries that name this request.
fn caused_by<'e>(entries: &'e [Value], request_id: &str) -> Vec<&'e str> {
    entries
        .iter()
        .filter(|entry| is_caused_by(entry, request_id))
        .filter_map(|entry| entry["event"].as_str())
        .collect()
}

/// Registers an approved source with one release.
async fn one_release(control: &mut DaemonClient) {
    register(control, SOURCE).await;
    let payload = [HEADER, "Aruba,ABW,1960,54208\nSerbia,SRB,1990,7586000\n"].concat();
    let run = started_run(&ingest(control, SOURCE, "2020-04-14", "2020-04-14", payload).await);
    wait_for_run(control, &run).await;
    approve(control, SOURCE).await;
}

/// Waits for `count` entries of queries. They are committed in groups after the response.
async fn queries(control: &mut DaemonClient, count: usize) -> Vec<Value> {
    let mut entries = Vec::new();
    eventually("the entries of the queries are written", async || {
        entries = log(control, "event=source_queried&after=0&limit=10000").await;
        entries.len() >= count
    })
    .await;
    assert_eq!(entries.len(), count, "{entries:?}");
    entries
}

fn question(area: &str) -> Value {
    json!({"oracle_id": SOURCE, "query_id": "q-1", "request": {
        "axes_requested": ["population"],
        "filters": [{"axis": "area", "operator": "eq", "value": area}],
        "point_in_time": "2021-01-01T00:00:00Z",
    }})
}

#[tokio::test]
async fn entries_name_the_caller_of_a_submission() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (world.socket(), &mut daemon.control().await);
    let submitted = sent(&routes, "order-1", "POST", "/v1/verdicts/cs_1", &submission(GOOD)).await;
    assert_eq!(submitted.status, 201);
    let refused = sent(&routes, "order-2", "POST", "/v1/verdicts/cs_2", &submission("{}")).await;
    assert_eq!(refused.status, 422);
    let session = json!({"tier": "quick", "query": "Sell honey?"});
    assert_eq!(sent(&routes, "order-3", "PUT", "/v1/sessions/cs_3", &session).await.status, 201);
    let cached = json!({"tier": "quick", "query": "Sell honey?", "verdict": serde_json::from_str::<Value>(GOOD).unwrap()});
    assert_eq!(sent(&routes, "order-4", "POST", "/cache/cs_4", &cached).await.status, 201);
    let text = json!({"candidate_output": "Ice melts", "facts": ["Ice melts"]});
    assert_eq!(sent(&routes, "order-5", "POST", "/v1/rules/evaluate", &text).await.status, 200);
    let entries = read_whole_log(control).await;
    assert_eq!(caused_by(&entries, "order-1"), ["tmm_crosscheck", "verdict_cached"]);
    assert_eq!(caused_by(&entries, "order-2"), ["tmm_crosscheck"]);
    assert_eq!(caused_by(&entries, "order-3"), ["session_registered"]);
    assert_eq!(caused_by(&entries, "order-4"), ["tmm_crosscheck", "verdict_cached"]);
    assert_eq!(caused_by(&entries, "order-5"), ["rules_evaluated"]);
    let started = entries.first().expect("the daemon has started");
    assert_eq!((&started["event"], started.get("caller")), (&json!("service_started"), None));
}

#[tokio::test]
async fn entries_name_the_caller_of_a_control_action() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    one_release(&mut daemon.control().await).await;
    let (socket, control) = (world.control_socket(), &mut daemon.control().await);
    let (ontology, source, _) = office_documents("office");
    let ontology_path = "/v1/documents/ontology/population@1";
    for (request_id, method, path, body, event) in [
        ("admin-1", "PUT", "/v1/documents/source/office", &source, "document_registered"),
        ("admin-2", "POST", "/v1/sources/office/review", &json!({"approve": {}}), "source_changed"),
        ("admin-3", "POST", "/v1/drain", &json!({"draining": false}), "control_action"),
        (
            "admin-4",
            "POST",
            "/v1/sources/world-bank-population/invalidate",
            &json!({"reason": "d"}),
            "source_invalidated",
        ),
        ("admin-5", "PUT", ontology_path, &ontology, ""),
    ] {
        let answer = sent(&socket, request_id, method, path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
        let expected: Vec<_> = [event].into_iter().filter(|event| !event.is_empty()).collect();
        assert_eq!(caused_by(&read_whole_log(control).await, request_id), expected, "{path}");
    }
    let payload = [HEADER, "Aruba,ABW,1960,54608\nSerbia,SRB,1990,7586000\n"].concat();
    let length = payload.len().to_string();
    let headers = [("x-request-id", "upload-1"), ("content-length", &length)];
    let path = runs_path(SOURCE, "2023-05-04", "2023-05-04");
    let mut wire = WireConnection::connect(&socket).await;
    let uploaded = wire.exchange(head("POST", &path, &headers) + &payload).await.expect("the server answers");
    wait_for_run(control, &started_run(&uploaded)).await;
    let entries = read_whole_log(control).await;
    assert_eq!(caused_by(&entries, "upload-1"), ["ingestion_started", "ingestion_ended"]);
    let of_request = log(control, "request_id=upload-1&after=0").await;
    assert_eq!(caused_by(&of_request, "upload-1").len(), 2);
    assert_eq!(of_request.len(), 2);
}

#[tokio::test]
async fn entries_name_the_caller_of_a_generated_and_a_regenerated_verdict() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (socket, control) = (world.socket(), &mut daemon.control().await);
    model.next(
        [VerdictLabel::Green; 3]
            .map(|label| ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label))),
    );
    let ordered = generation_request(ProductTier::Quick);
    // until the queue of orders is loaded, a request only queues its order, and the daemon itself makes the first attempt
    assert_eq!(sent(&socket, "order-0", "POST", "/v1/verdicts/cs_0", &ordered).await.status, 201);
    let made = sent(&socket, "order-1", "POST", "/v1/verdicts/cs_1", &ordered).await;
    assert_eq!(made.status, 201, "{}", document(&made));
    purge_verdict(control, "cs_1").await;
    let read = WireConnection::connect(&socket).await;
    let request = head("GET", "/v1/verdicts/cs_1", &[("x-request-id", "order-2")]);
    assert_eq!({ read }.exchange(request).await.expect("the server answers").status, 200);
    let entries = read_whole_log(control).await;
    let made = [
        "order_placed",
        "order_attempted",
        "oracle_interaction",
        "tmm_crosscheck",
        "verdict_cached",
        "order_delivered",
    ];
    assert_eq!(caused_by(&entries, "order-1"), made);
    let regenerated = [
        "regen_attempted",
        "oracle_interaction",
        "tmm_crosscheck",
        "verdict_cached",
        "regen_divergence_check",
    ];
    assert_eq!(caused_by(&entries, "order-2"), regenerated);
}

#[tokio::test]
async fn entries_name_the_caller_of_the_first_attempt_and_none_of_a_retry() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let socket = world.socket();
    model.next([
        ScriptedReply::with_text(GOOD),
        ScriptedReply::with_text("{}").after(Duration::from_millis(500)),
        ScriptedReply::with_text(GOOD),
        ScriptedReply::with_text(GOOD),
    ]);
    let ordered = generation_request(ProductTier::Quick);
    // until the queue of orders is loaded, a request only queues its order, and the daemon itself makes the first attempt
    assert_eq!(sent(&socket, "order-0", "POST", "/v1/verdicts/cs_0", &ordered).await.status, 201);
    let first = sent(&socket, "order-1", "POST", "/v1/verdicts/cs_1", &ordered);
    let others = async {
        eventually("the model is called", async || model.request_count() == 2).await;
        // another order, the same order, and another query, while the first attempt is in progress
        let other = sent(&socket, "order-2", "POST", "/v1/verdicts/cs_2", &ordered).await;
        let mismatch = json!({"tier": "quick", "query": "Sell wax?"});
        let mismatch = sent(&socket, "order-3", "POST", "/v1/verdicts/cs_1", &mismatch).await;
        let same = sent(&socket, "order-4", "POST", "/v1/verdicts/cs_1", &ordered).await;
        [other, mismatch, same].map(|answer| answer.status.as_u16())
    };
    let (first, others) = tokio::join!(first, others);
    assert_eq!((first.status.as_u16(), others), (201, [201, 409, 200]), "{}", document(&first));
    let entries = read_whole_log(&mut daemon.control().await).await;
    let attempt = ["order_attempted", "oracle_interaction", "tmm_crosscheck"];
    let delivered = ["verdict_cached", "order_delivered"];
    let failed = [&["order_placed"][..], &attempt, &["order_attempt_failed"]].concat();
    assert_eq!(caused_by(&entries, "order-1"), failed);
    assert_eq!(caused_by(&entries, "order-2"), [&["order_placed"][..], &attempt, &delivered].concat());
    for without_entry in ["order-3", "order-4"] {
        assert!(caused_by(&entries, without_entry).is_empty(), "{without_entry}");
    }
    // the daemon itself repeats an attempt
    let of_session = entries.iter().filter(|entry| entry["session_id"] == "cs_1");
    let retry: Vec<_> = of_session
        .filter(|entry| entry.get("caller").is_none())
        .filter_map(|entry| entry["event"].as_str())
        .collect();
    assert_eq!(retry, [&attempt[..], &delivered].concat());
}

#[tokio::test]
async fn entries_name_the_caller_who_approves_a_held_run() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register_gated(control, SOURCE).await;
    // one of two records is rejected, which is more than a hundredth
    let payload = [HEADER, "Aruba,ABW,1960,54608\nSerbia,SRB,1990,many\n"].concat();
    let run = started_run(&ingest(control, SOURCE, "2023-05-04", "2023-05-04", payload).await);
    assert_eq!(wait_for_run(control, &run).await.get("state"), Some(&json!("held")));
    let path = format!("/v1/runs/{run}/approve");
    let order = json!({"reason": "a test"});
    let approved = sent(&world.control_socket(), "person-1", "POST", &path, &order).await;
    assert!(approved.status.is_success(), "{}", document(&approved));
    assert_eq!(wait_for_run(control, &run).await.get("state"), Some(&json!("completed")));
    let entries = read_whole_log(control).await;
    let caused = caused_by(&entries, "person-1");
    assert_eq!(caused.last(), Some(&"ingestion_ended"), "{caused:?}");
}

#[tokio::test]
async fn entries_name_the_caller_of_a_verification_and_of_its_review() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    one_release(control).await;
    let (ontology, source, pipeline) = office_documents("office");
    register_all(control, &ontology, &source, &pipeline).await;
    let payload = [HEADER, "Aruba,ABW,1960,64208\n"].concat();
    let run = started_run(&ingest(control, "office", "2020-04-14", "2020-04-14", payload).await);
    assert_eq!(wait_for_run(control, &run).await["state"], "completed");
    approve(control, "office").await;
    let workflow = workflow("census", &[SOURCE, "office"], &json!({}));
    assert_eq!(put_document(control, "/v1/documents/workflow/census", &workflow).await.status, 200);
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let answer = sent(&world.socket(), "ask-1", "POST", "/v1/verify", &question).await;
    assert_eq!(at(&answer, "/kind"), "human_review", "{}", document(&answer));
    let review = at(&answer, "/execution_id");
    let path = format!("/v1/reviews/{}/dismiss", review.as_str().expect("an id"));
    let order = json!({"reason": "a test"});
    let dismissed = sent(&world.control_socket(), "person-1", "POST", &path, &order).await;
    assert_eq!(dismissed.status, 200, "{}", document(&dismissed));
    let entries = read_whole_log(control).await;
    let decided = ["source_asked", "source_asked", "verification_decided", "review_opened"];
    assert_eq!(caused_by(&entries, "ask-1"), decided);
    assert_eq!(caused_by(&entries, "person-1"), ["review_dismissed"]);
}

#[tokio::test]
async fn generated_request_id_is_in_the_answer_and_the_entry() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let answer = post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    let request_id = answer.headers["x-request-id"].to_str().expect("the header is ASCII");
    let entries = read_whole_log(&mut daemon.control().await).await;
    assert_eq!(caused_by(&entries, request_id), ["tmm_crosscheck", "verdict_cached"]);
}

#[tokio::test]
async fn query_is_logged_with_request_digest_and_result() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    one_release(control).await;
    let request = question("ABW");
    let answer = sent(&world.socket(), "q-77", "POST", "/v1/query", &request).await;
    assert_eq!(at(&answer, "/response/records/0/axes/population"), "54208");
    let entry = queries(control, 1).await.remove(0);
    assert!(is_caused_by(&entry, "q-77"), "{entry}");
    assert_eq!(entry["caller"]["application"], "default");
    for (field, value) in [
        ("read", json!("query")),
        ("oracle_id", json!(SOURCE)),
        ("query_id", json!("q-1")),
        ("point_in_time", json!("2021-01-01T00:00:00Z")),
        ("data_version", json!("2020-04-14")),
        ("records_returned", json!(1)),
        ("outcome", json!("answered")),
        ("freshness", at(&answer, "/response/query_metadata/freshness/answer")),
        ("known_at", at(&answer, "/response/query_metadata/known_at")),
    ] {
        assert_eq!(entry[field], value, "{field}: {entry}");
    }
    assert!(entry["latency_ms"].as_f64().is_some_and(|latency| latency > 0.0), "{entry}");
    // the digest is of the canonical request, so white space in the request does not change it
    let spaced = serde_json::to_string_pretty(&request).expect("valid JSON");
    let spaced = whole_post("/v1/query", &[], spaced);
    WireConnection::connect(&world.socket()).await.exchange(spaced).await.expect("the server answers");
    sent(&world.socket(), "q-78", "POST", "/v1/query", &question("SRB")).await;
    let entries = queries(control, 3).await;
    assert_eq!(entries[1]["request_sha256"], entry["request_sha256"]);
    assert_ne!(entries[2]["request_sha256"], entry["request_sha256"]);
}

#[tokio::test]
async fn refused_query_is_logged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, SOURCE).await;
    problem(&post(routes, "/v1/query", &question("ABW")).await, 409, "source_silent");
    let entry = queries(control, 1).await.remove(0);
    assert_eq!((&entry["outcome"], &entry["oracle_id"]), (&json!("source_silent"), &json!(SOURCE)));
    assert_eq!((entry["records_returned"].as_u64(), entry.get("data_version")), (Some(0), None));
}

#[tokio::test]
async fn all_other_reads_of_a_source_are_logged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    one_release(control).await;
    let answer = post(routes, "/v1/query", &question("ABW")).await;
    let record_id = at(&answer, "/response/records/0/record_id");
    let record_id = record_id.as_str().expect("at least one");
    for path in [
        format!("/v1/records/{record_id}"),
        format!("/v1/records/{record_id}/provenance"),
        format!("/v1/changes?oracle_id={SOURCE}"),
    ] {
        assert_eq!(get(routes, &path).await.status, 200, "{path}");
    }
    assert_eq!(get(control, &format!("/v1/sources/{SOURCE}/export")).await.status, 200);
    let mut named = question("ABW");
    named["request"]["axes_requested"] = json!(["area_name", "population"]);
    let facts = json!({"candidate_output": "Aruba had 54208 people.", "facts_from": [{"query": named}]});
    let answer = post(routes, "/v1/rules/evaluate", &facts).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    let entries = queries(control, 7).await;
    let read = entries.iter().map(|entry| (&entry["read"], &entry["outcome"], &entry["records_returned"]));
    let expected = [
        ("query", "answered", 1),
        ("record", "answered", 1),
        ("provenance", "answered", 1),
        ("changes", "answered", 2),
        ("export", "started", 0),
        ("export", "answered", 2),
        ("query", "answered", 1),
    ];
    for (read, (kind, outcome, records)) in read.zip(expected) {
        assert_eq!(read, (&json!(kind), &json!(outcome), &json!(records)), "{entries:?}");
    }
    assert!(entries.iter().all(|entry| entry["oracle_id"] == SOURCE), "{entries:?}");
}

#[tokio::test]
async fn queries_just_before_a_stop_are_in_the_log() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    one_release(&mut daemon.control().await).await;
    let routes = &mut daemon.routes().await;
    for _ in 0..300 {
        assert_eq!(post(routes, "/v1/query", &question("ABW")).await.status, 200);
    }
    assert!(daemon.stop().success());
    let mirror = world.mirror();
    let entries = mirror.lines().map(|line| serde_json::from_str::<Value>(line).expect("valid JSON"));
    let events: Vec<_> =
        entries.map(|entry| entry["event"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(events.iter().filter(|event| *event == "source_queried").count(), 300);
    assert_eq!(events.last().map(String::as_str), Some("service_stopped"));
}
