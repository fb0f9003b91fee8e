//! Administrators register sources, submit payloads and inspect the runs.

use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::ground::{self, example, open_pipeline, put_document, started_run, wait_for_run};
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{DaemonWorld, at, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;

const SOURCE: &str = "/v1/sources/world-bank-population";
const REGISTRATION: &str = "/v1/documents/source/world-bank-population";
const POLICY: &str = "/v1/documents/freshness_policy/world-bank-population";
const PIPELINE: &str = "/v1/documents/pipeline/world-bank-population";
const HEADER: &str = "Country Name,Country Code,Year,Value\n";
/// Number of records that takes long enough to read for a test to observe it.
const MANY: usize = 30_000;

/// Registers the documents that a payload of the World Bank requires.
async fn register(control: &mut DaemonClient) {
    for (path, document) in [
        ("/v1/documents/ontology/population@1", example("ontologies/population.json")),
        (REGISTRATION, example("sources/world-bank-population.json")),
        (PIPELINE, open_pipeline("world-bank-population")),
    ] {
        let answer = put_document(control, path, &document).await;
        assert_eq!((answer.status.as_u16(), at(&answer, "/change")), (200, json!("created")), "{path}");
    }
}

/// A payload with this number of valid records.
fn payload(records: usize) -> String {
    let mut text = HEADER.to_owned();
    for number in 0..records {
        let code = [number / 26 / 26 % 26, number / 26 % 26, number % 26];
        let code = code.map(|letter| char::from(b'A' + u8::try_from(letter).expect("26 values")));
        let (code, year) = (String::from_iter(code), 1900 + number / 17_576);
        writeln!(text, "Land {code},{code},{year},{}", 1000 + number).expect("valid UTF-8");
    }
    text
}

async fn ingest(control: &mut DaemonClient, version: &str, payload: impl Into<Bytes>) -> DaemonResponse {
    ground::ingest(control, "world-bank-population", version, &format!("{version}-07-01"), payload).await
}

/// Starts a run and waits until it reads records; it continues for some time.
async fn reading(control: &mut DaemonClient) -> String {
    let run_id = started_run(&ingest(control, "2023", payload(MANY)).await);
    let path = format!("/v1/runs/{run_id}");
    eventually("the run reads records", async || {
        at(&get(control, &path).await, "/progress/read") != json!(0)
    })
    .await;
    run_id
}

/// Number of payloads in the archive, complete or not.
fn archived(world: &DaemonWorld) -> usize {
    fs::read_dir(world.state().join("ground/raw")).expect("the archive exists").count()
}

#[tokio::test]
async fn source_is_registered_ingested_approved_and_listed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let again = put_document(control, REGISTRATION, &example("sources/world-bank-population.json")).await;
    assert_eq!(at(&again, "/change"), "unchanged");

    let rows =
        "Aruba,ABW,2020,106585\nAruba,ABW,2021,no number\nNowhere,nowhere,2020,1\nAruba,ABW,2022,107000\n";
    let run_id = started_run(&ingest(control, "2023", [HEADER, rows].concat()).await);
    let run = wait_for_run(control, &run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    assert_eq!((&run["counts"]["read"], &run["counts"]["records"]), (&json!(4), &json!(2)), "{run}");
    assert_eq!(run["counts"]["rejected"], 2, "{run}");
    assert_eq!(run["requested_by"], nix::unistd::geteuid().as_raw().to_string());

    let path = format!("/v1/runs/{run_id}/rejects");
    let rejects = document(&get(control, &path).await);
    assert_eq!(
        (&rejects["items"][0]["position"], &rejects["items"][0]["place"]),
        (&json!(1), &json!("population"))
    );
    assert_eq!(
        (&rejects["items"][1]["rule"], &rejects["next"]),
        (&json!("check"), &json!(null)),
        "{rejects}"
    );
    let first = document(&get(control, &format!("{path}?limit=1")).await);
    assert_eq!((&first["items"][0], &first["next"]), (&rejects["items"][0], &json!("1")));
    let second = document(&get(control, &format!("{path}?limit=1&after=1")).await);
    assert_eq!((&second["items"][0], &second["next"]), (&rejects["items"][1], &json!(null)));
    for question in ["limit=0", "limit=1001", "after=-1", "rule=check"] {
        problem(&get(control, &format!("{path}?{question}")).await, 400, "invalid_request");
    }

    let same = ingest(control, "2023", [HEADER, rows].concat()).await;
    assert_eq!((same.status.as_u16(), at(&same, "/unchanged")), (200, json!(true)));
    assert_eq!(at(&same, "/run/run_id"), run_id.as_str());

    let source = document(&get(control, SOURCE).await);
    assert_eq!((&source["current_version"], &source["review_status"]), (&json!("2023"), &json!("pending")));
    let approved = post(control, &format!("{SOURCE}/review"), &json!({"approve": {}})).await;
    assert_eq!(at(&approved, "/review_status"), "approved");
    let again = post(control, &format!("{SOURCE}/review"), &json!({"approve": {}})).await;
    assert_eq!((again.status.as_u16(), document(&again)), (200, document(&approved)));
    let soon = post(control, &format!("{SOURCE}/review"), &json!({"deprecate": "2026-11-21"})).await;
    problem(&soon, 400, "invalid_request");
    let deprecated = post(control, &format!("{SOURCE}/review"), &json!({"deprecate": "2999-01-01"})).await;
    assert_eq!(at(&deprecated, "/deprecation_date"), "2999-01-01T00:00:00Z");

    let listed = document(&get(control, "/v1/runs?oracle_id=world-bank-population&limit=1").await);
    assert_eq!(listed["items"][0]["run"]["run_id"], run_id.as_str());
    let short = document(&get(control, &format!("/v1/runs/{}", &run_id[..8])).await);
    assert_eq!(short["run"], run);
    assert_eq!(at(&get(control, "/v1/documents/ontology").await, "/items/0/document_id"), "population@1");
    let sources = get(control, "/v1/documents/source").await;
    assert_eq!(at(&sources, "/items/0/status"), "deprecated, version 2023");
    let pipeline = document(&get(control, PIPELINE).await);
    assert_eq!(pipeline["sha256"], run["pipeline_sha256"]);
    assert_eq!(pipeline["document"]["pipeline"]["oracle_id"], "world-bank-population");

    let kinds = [("document_registered", 3), ("source_changed", 2)];
    for (kind, count) in kinds.into_iter().chain([("ingestion_started", 1), ("ingestion_ended", 1)]) {
        assert_eq!(log(control, &format!("event={kind}")).await.len(), count, "{kind}");
    }
}

#[tokio::test]
async fn unknown_documents_and_fixed_fields_are_refused_with_their_codes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let source = example("sources/world-bank-population.json");
    let pipeline = open_pipeline("world-bank-population");
    problem(&put_document(control, REGISTRATION, &source).await, 404, "ontology_unknown");
    problem(&put_document(control, PIPELINE, &pipeline).await, 404, "source_unknown");
    problem(&ingest(control, "2023", HEADER).await, 404, "pipeline_unknown");
    problem(
        &post(control, &format!("{SOURCE}/review"), &json!({"approve": {}})).await,
        404,
        "source_unknown",
    );
    problem(
        &post(control, &format!("{SOURCE}/invalidate"), &json!({"reason": "x"})).await,
        404,
        "source_unknown",
    );
    for (path, code) in [
        ("/v1/documents/ontology/population@1", "document_unknown"),
        (SOURCE, "source_unknown"),
        ("/v1/sources/world-bank-population/freshness", "source_unknown"),
        ("/v1/runs?oracle_id=world-bank-population", "source_unknown"),
        (PIPELINE, "document_unknown"),
        ("/v1/runs/0123456789", "run_unknown"),
        ("/v1/runs/0123456789/rejects", "run_unknown"),
    ] {
        problem(&get(control, path).await, 404, code);
    }
    problem(&post(control, "/v1/runs/0123456789/cancel", &json!({})).await, 404, "run_unknown");
    for path in [
        "/v1/runs/0123456",
        "/v1/runs/0123456G",
        "/v1/runs?limit=0",
        "/v1/runs?oracle=x",
        "/v1/sources/X",
        "/v1/documents/x",
    ] {
        problem(&get(control, path).await, 400, "invalid_request");
    }

    let nothing = problem(&get(control, "/v1/nothing").await, 404, "not_found");
    let detail = nothing["detail"].as_str().expect("the problem has a detail");
    assert!(detail.contains("/openapi.json") && detail.contains("oraclectl"), "{detail}");

    register(control).await;
    let mut ontology = example("ontologies/population.json");
    ontology["axes"][0]["description"] = json!("another");
    problem(
        &put_document(control, "/v1/documents/ontology/population@1", &ontology).await,
        409,
        "document_fixed",
    );
    let mut other = source.clone();
    other["oracle_id"] = json!("other");
    assert_eq!(put_document(control, "/v1/documents/source/other", &other).await.status, 200);
    let mut moved = pipeline.clone();
    moved["pipeline"]["oracle_id"] = json!("other");
    problem(&put_document(control, PIPELINE, &moved).await, 409, "document_fixed");
    let not_yet = post(control, &format!("{SOURCE}/review"), &json!({"deprecate": "2999-01-01"})).await;
    problem(&not_yet, 409, "review_refused");
    for question in ["", "?version=1", "?version=1&released_at=soon", "?version=%20&released_at=2020-01-01"] {
        let answer = control
            .call(
                Method::POST,
                &format!("/v1/pipelines/world-bank-population/runs{question}"),
                Some(HEADER.into()),
            )
            .await;
        problem(&answer.expect("the server answers"), 400, "invalid_request");
    }
    assert_eq!(archived(&world), 0, "a refused payload is not archived");
}

#[tokio::test]
async fn invalid_document_is_refused_with_the_path_of_the_fault() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let mut source = example("sources/world-bank-population.json");
    source["tier"] = json!("primary");
    let mut pipeline = open_pipeline("world-bank-population");
    pipeline["normalization"]["axis_mappings"][2]["requierd"] = json!(true);
    let mut axis = open_pipeline("world-bank-population");
    axis["normalization"]["axis_mappings"][3]["target_axis"] = json!("people");
    let mut named = example("sources/world-bank-population.json");
    named["oracle_id"] = json!("other");
    let ontology = example("ontologies/population.json").to_string();
    for (path, document, named) in [
        ("/v1/documents/ontology/population@2", ontology, &["population@1", "population@2"][..]),
        (REGISTRATION, source.to_string(), &["`tier`"]),
        (PIPELINE, pipeline.to_string(), &["normalization.axis_mappings[2].requierd: "]),
        (PIPELINE, axis.to_string(), &["`people`"]),
        (REGISTRATION, named.to_string(), &["other", "world-bank-population"]),
        (REGISTRATION, "[]".into(), &["object"]),
        (PIPELINE, r#"{"tables": {"a": {}, "a": {}}}"#.into(), &["tables: ", "`a`"]),
    ] {
        let answer =
            control.call(Method::PUT, path, Some(document.into())).await.expect("the server answers");
        let detail = problem(&answer, 400, "invalid_document")["detail"].to_string();
        assert!(named.iter().all(|name| detail.contains(name)), "{named:?}: {detail}");
    }
    let policy = json!({"oracle_id": "world-bank-population", "axis_freshness": {}, "default_max_age_seconds": 0,
        "default_stale_behavior": "fail_closed", "invalidation_triggers": []});
    problem(&put_document(control, POLICY, &policy).await, 400, "invalid_document");
    let answer = control.call(Method::PUT, REGISTRATION, Some("{".into())).await.expect("the server answers");
    problem(&answer, 400, "invalid_json");
    let long = format!("{{\"oracle_name\": \"{}\"}}", "x".repeat(4 * 1024 * 1024));
    let answer =
        control.call(Method::PUT, REGISTRATION, Some(long.into())).await.expect("the server answers");
    problem(&answer, 413, "body_too_large");
    assert_eq!(log(control, "event=document_registered").await.len(), 3);
}

#[tokio::test]
async fn invalidation_lasts_until_a_confirmation_or_the_next_version() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let path = format!("{SOURCE}/freshness");
    let before = document(&get(control, &path).await);
    assert_eq!((&before["is_default"], &before["released_at"]), (&json!(true), &json!(null)), "{before}");
    assert_eq!(
        before["now"]["axes"][0]["age_seconds"],
        json!(null),
        "without a release there is no age: {before}"
    );
    assert_eq!(before["now"]["axes"][0]["stale"], true, "{before}");
    let run_id = started_run(&ingest(control, "2025", payload(1)).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");

    let mut policy = before["policy"].clone();
    policy["default_max_age_seconds"] = json!(3_155_760_000_u64);
    policy["default_stale_behavior"] = json!("fail_closed");
    assert_eq!(at(&put_document(control, POLICY, &policy).await, "/change"), "created");
    assert_eq!(at(&put_document(control, POLICY, &policy).await, "/change"), "unchanged");
    let fresh = document(&get(control, &path).await);
    assert_eq!((&fresh["is_default"], &fresh["policy"]), (&json!(false), &policy));
    assert_eq!((&fresh["current_version"], &fresh["now"]["answer"]), (&json!("2025"), &json!("serve")));
    assert_eq!(fresh["now"]["axes"].as_array().map(Vec::len), Some(4), "{fresh}");
    problem(&ingest(control, "2200", payload(3)).await, 400, "invalid_request");

    let no_reason = post(control, &format!("{SOURCE}/invalidate"), &json!({"reason": " "})).await;
    problem(&no_reason, 400, "invalid_request");
    let reason = json!({"reason": "the census was revised"});
    assert_eq!(post(control, &format!("{SOURCE}/invalidate"), &reason).await.status, 200);
    assert_eq!(log(control, "event=source_invalidated").await[0]["detail"], reason["reason"]);
    assert_eq!(at(&get(control, &path).await, "/now/answer"), "fail_closed");
    let confirm = format!("{SOURCE}/confirm");
    problem(&post(control, &confirm, &json!({"reason": ""})).await, 400, "invalid_request");
    assert_eq!(post(control, &confirm, &json!({"reason": "it was another census"})).await.status, 200);
    assert_eq!(at(&get(control, &path).await, "/now/answer"), "serve");
    let confirmed = &log(control, "event=source_confirmed").await[0];
    assert_eq!(
        (&confirmed["confirmed_by"], &confirmed["detail"]),
        (&json!("manual"), &json!("it was another census"))
    );
    assert!(confirmed["peer"]["uid"].is_u64(), "{confirmed}");
    problem(&post(control, &confirm, &json!({"reason": "again"})).await, 409, "not_invalidated");
    assert_eq!(post(control, &format!("{SOURCE}/invalidate"), &reason).await.status, 200);
    let run_id = started_run(&ingest(control, "2026", payload(2)).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
    assert_eq!(at(&get(control, &path).await, "/invalidated_at"), json!(null));
    let runs = document(&get(control, "/v1/runs").await);
    assert_eq!(
        (&runs["items"][0]["run"]["version"], &runs["items"][1]["run"]["version"]),
        (&json!("2026"), &json!("2025"))
    );
}

#[tokio::test]
async fn source_has_one_run_at_a_time_which_can_be_cancelled() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let run_id = reading(control).await;
    let path = format!("/v1/runs/{run_id}");
    let busy = ingest(control, "2024", payload(1)).await;
    let detail = problem(&busy, 409, "run_busy")["detail"].to_string();
    assert!(detail.contains(&run_id), "{detail}");
    assert_eq!(busy.headers["retry-after"], "5");
    assert_eq!(archived(&world), 1, "a refused payload is not archived");

    let cancelled = post(control, &format!("{path}/cancel"), &json!({})).await;
    assert_eq!((cancelled.status.as_u16(), at(&cancelled, "/run/run_id")), (202, json!(run_id)));
    let run = wait_for_run(control, &run_id).await;
    assert_eq!((&run["state"], &run["counts"]["records"]), (&json!("cancelled"), &json!(0)), "{run}");
    problem(&post(control, &format!("{path}/cancel"), &json!({})).await, 409, "run_not_running");
    assert_eq!(at(&get(control, SOURCE).await, "/current_version"), "");
    assert_eq!(log(control, "event=ingestion_ended").await[0]["peer"]["pid"], std::process::id());
    let next = ingest(control, "2024", payload(1)).await;
    assert_eq!(
        wait_for_run(control, &started_run(&next)).await["state"],
        "completed",
        "its slot is free at once"
    );
}

#[tokio::test]
async fn repeated_upload_gets_the_run_in_progress() {
    let world = DaemonWorld::with_config("[ingestion]\nruns_at_once = 1");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let (ontology, source, definition) = ground::example_documents("samples");
    ground::register_all(control, &ontology, &source, &definition).await;
    let first = reading(control).await;
    // this run waits for the other's slot
    let (row, other_row) = ("{\"number\": 1}\n", "{\"number\": 2}\n");
    let run_id = started_run(&ground::ingest(control, "samples", "1", "2020-01-01", row).await);
    let again = ground::ingest(control, "samples", "1", "2020-01-01", row).await;
    assert_eq!((again.status.as_u16(), at(&again, "/unchanged")), (202, json!(false)));
    assert_eq!(at(&again, "/run/run_id"), run_id.as_str());
    let other = ground::ingest(control, "samples", "1", "2020-01-01", other_row).await;
    let detail = problem(&other, 409, "run_busy")["detail"].to_string();
    assert!(detail.contains(&format!("oraclectl ingest show {run_id}")), "{detail}");
    assert_eq!(archived(&world), 2, "the other payload is not archived");
    assert_eq!(log(control, "event=ingestion_started").await.len(), 2);
    assert_eq!(wait_for_run(control, &first).await["state"], "completed");
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
}

#[tokio::test]
async fn check_of_a_source_ends_when_its_caller_disconnects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let run_id = started_run(&ingest(control, "2023", payload(MANY)).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
    let last_check = async |control: &mut DaemonClient| at(&get(control, SOURCE).await, "/last_check");
    let mut aborted = false;
    // on a busy machine a check may end before its caller disconnects
    for _ in 0..5 {
        let before = last_check(control).await;
        let mut caller = daemon.control().await;
        let verify = format!("{SOURCE}/verify");
        let checking = tokio::spawn(async move { post(&mut caller, &verify, &json!({})).await });
        let mut progress = Value::Null;
        eventually("the check reports its progress", async || {
            progress = at(&get(control, SOURCE).await, "/checking");
            progress["bytes_read"].as_u64().is_some_and(|bytes| bytes > 0) || checking.is_finished()
        })
        .await;
        checking.abort();
        assert!(progress["bytes_read"].as_u64() <= progress["bytes"].as_u64(), "{progress}");
        eventually("the check ends", async || at(&get(control, SOURCE).await, "/checking").is_null()).await;
        aborted |= last_check(control).await == before;
    }
    assert!(aborted, "an aborted check is not recorded");

    let whole = post(control, &format!("{SOURCE}/verify"), &json!({})).await;
    assert_eq!(at(&whole, "/runs/0/fault_count"), json!(0));
    assert_eq!(at(&get(control, SOURCE).await, "/last_check/fault_count"), json!(0));
}

#[tokio::test]
async fn cancelled_run_stays_cancelled_after_a_kill() {
    let world = DaemonWorld::with_config("[ingestion]\nruns_at_once = 1");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let (ontology, source, definition) = ground::example_documents("samples");
    ground::register_all(control, &ontology, &source, &definition).await;
    let continuing = reading(control).await;
    // this run waits for the other's slot
    let waits =
        started_run(&ground::ingest(control, "samples", "1", "2020-01-01", "{\"number\": 1}\n").await);
    for run_id in [&waits, &continuing] {
        let cancelled = post(control, &format!("/v1/runs/{run_id}/cancel"), &json!({})).await;
        assert_eq!(cancelled.status, 202, "{}", document(&cancelled));
    }
    daemon.kill();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for run_id in [&waits, &continuing] {
        assert_eq!(wait_for_run(control, run_id).await["state"], "cancelled");
    }
}

#[tokio::test]
async fn run_completes_if_its_source_changes_meanwhile() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let run_id = reading(control).await;
    let mut source = example("sources/world-bank-population.json");
    let provided = source["axes_provided"].as_array_mut().expect("an array");
    provided.retain(|axis| axis != "area_name");
    assert_eq!(put_document(control, REGISTRATION, &source).await.status, 200);
    let run = wait_for_run(control, &run_id).await;
    assert_eq!((&run["state"], &run["counts"]["records"]), (&json!("completed"), &json!(MANY)), "{run}");
}

#[tokio::test]
async fn run_of_a_stopped_daemon_is_resumed_after_the_start() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let run_id = reading(control).await;
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let run = wait_for_run(control, &run_id).await;
    assert_eq!((&run["state"], &run["counts"]["records"]), (&json!("completed"), &json!(MANY)), "{run}");
}

#[tokio::test]
async fn run_of_a_killed_daemon_is_resumed_after_the_start() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let run_id = reading(control).await;
    daemon.kill();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let run = wait_for_run(control, &run_id).await;
    assert_eq!((&run["state"], &run["counts"]["records"]), (&json!("completed"), &json!(MANY)), "{run}");
    let same = ingest(control, "2023", payload(MANY)).await;
    assert_eq!((same.status.as_u16(), at(&same, "/unchanged")), (200, json!(true)));
}

#[tokio::test]
async fn payload_without_log_raw_input_is_removed_after_its_run() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let mut pipeline = open_pipeline("world-bank-population");
    pipeline["pipeline"]["audit"]["log_raw_input"] = json!(false);
    assert_eq!(put_document(control, PIPELINE, &pipeline).await.status, 200);
    let run_id = started_run(&ingest(control, "2023", payload(3)).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
    eventually("the payload is removed", async || archived(&world) == 0).await;
    assert_eq!(ingest(control, "2023", payload(3)).await.status, 200);
    assert_eq!(archived(&world), 0);
    let run_id = started_run(&ingest(control, "2024", HEADER.to_owned()).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "failed");
    eventually("a warning is logged", async || {
        world.service_log().lines().any(|line| line.contains("WARN") && line.contains(&run_id))
    })
    .await;
    eventually("the payload is removed", async || archived(&world) == 0).await;

    // another run of the same bytes requires them
    assert_eq!(put_document(control, PIPELINE, &open_pipeline("world-bank-population")).await.status, 200);
    let run_id = started_run(&ingest(control, "2023", payload(3)).await);
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
    assert_eq!(put_document(control, PIPELINE, &pipeline).await.status, 200);
    problem(&ingest(control, "2023", payload(3)).await, 409, "version_known");
    assert_eq!(archived(&world), 1);
}

#[tokio::test]
async fn broken_or_stalled_upload_leaves_no_payload() {
    let world = DaemonWorld::with_config("[limits]\nidle_s = 3\n[ingestion]\nmax_payload_bytes = 1000000");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let path = "/v1/pipelines/world-bank-population/runs?version=2023&released_at=2023-07-01".to_owned();
    let length = [("content-length", "1000000")];
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &path, &length) + &payload(1000)).await.expect("the server listens");
    eventually("the upload is being archived", async || archived(&world) == 1).await;
    drop(wire);
    eventually("the incomplete payload is removed", async || archived(&world) == 0).await;

    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &path, &length) + HEADER).await.expect("the server listens");
    let answer = wire.answer().await.expect("the server answers");
    problem(&answer, 400, "body_broken");
    eventually("the incomplete payload is removed", async || archived(&world) == 0).await;

    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &path, &[("content-length", "1000001")])).await.expect("the server listens");
    problem(&wire.answer().await.expect("the server answers"), 413, "body_too_large");
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &path, &[("transfer-encoding", "chunked")])).await.expect("the server listens");
    wire.send(format!("f4241\r\n{}\r\n0\r\n\r\n", "x".repeat(1_000_001))).await.expect("the server listens");
    problem(&wire.answer().await.expect("the server answers"), 413, "body_too_large");
    eventually("the incomplete payload is removed", async || archived(&world) == 0).await;
    assert_eq!(document(&get(&mut daemon.control().await, "/v1/runs").await)["items"], json!([]));
}

/// The payload is larger than the permitted growth of memory, so a daemon that held it in memory would fail.
#[tokio::test]
async fn payload_of_100_mib_uses_less_than_30_mib_of_memory() {
    const MIB: u64 = 1024 * 1024;
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register(&mut daemon.control().await).await;
    let path = world.path("payload");
    fs::File::create(&path).and_then(|file| file.set_len(100 * MIB)).expect("a sparse file needs no space");
    // it makes the description of the socket, which the request below needs, too
    assert_eq!(get(&mut daemon.control().await, "/openapi.json").await.status, 200);
    let before = daemon.most_resident_bytes().expect("the system reports the value");
    let path = path.to_str().expect("valid UTF-8");
    let output = world.ctl(&run(path, "2023", &[]));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed} {}", String::from_utf8_lossy(&output.stderr));
    let listed = world.ctl(&["ingest", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_slice(&listed).expect("valid JSON");
    let run = &listed["items"][0]["run"];
    assert_eq!((&run["raw_bytes"], &run["state"]), (&json!(100 * MIB), &json!("failed")), "{run}");
    // the limit for a record
    assert!(run["cause"].as_str().expect("a cause").contains("1048576"), "{run}");
    let after = daemon.most_resident_bytes().expect("the system reports the value");
    assert!(after - before < 30 * MIB, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

#[tokio::test]
async fn expect_100_continue_is_answered_before_the_payload_is_sent() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register(&mut daemon.control().await).await;
    let text = payload(2);
    let length = text.len().to_string();
    let headers = [("content-length", length.as_str()), ("expect", "100-continue")];
    let params = "version=2023&released_at=2023-07-01";
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &format!("/v1/pipelines/other/runs?{params}"), &headers))
        .await
        .expect("the server listens");
    problem(&wire.answer().await.expect("the server answers"), 404, "pipeline_unknown");

    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &format!("/v1/pipelines/world-bank-population/runs?{params}"), &headers))
        .await
        .expect("the server listens");
    assert_eq!(wire.answer().await.expect("the server answers").status, 100);
    wire.send(text).await.expect("the server listens");
    assert!(!started_run(&wire.answer().await.expect("the server answers")).is_empty());
}

#[tokio::test]
async fn upload_may_exceed_the_time_limit_of_requests() {
    let world = DaemonWorld::with_config(
        "[limits]\nrequest_s = 2\n[ingestion]\nrefresh_s = 1\n[model]\ndeadline_ms = 500",
    );
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let path = "/v1/pipelines/world-bank-population/runs?version=2023&released_at=2023-07-01".to_owned();
    let text = payload(2);
    let length = text.len().to_string();
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    wire.send(head("POST", &path, &[("content-length", &length)])).await.expect("the server listens");
    for piece in text.as_bytes().chunks(text.len() / 3 + 1) {
        tokio::time::sleep(std::time::Duration::from_millis(900)).await;
        wire.send(piece).await.expect("the server listens");
    }
    let run_id = started_run(&wire.answer().await.expect("the server answers"));
    assert_eq!(wait_for_run(control, &run_id).await["counts"]["records"], 2);
}

/// Output of `oraclectl`, which must end with this exit code.
fn printed(world: &DaemonWorld, line: &[&str], code: i32) -> String {
    let output = world.ctl(line);
    let stderr_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line:?}: {stderr_text}");
    assert_eq!(stderr_text.is_empty(), code == 0, "{line:?}: {stderr_text}");
    String::from_utf8(output.stdout).expect("valid UTF-8") + &stderr_text
}

/// Command line that submits a payload.
fn run<'l>(file: &'l str, version: &'l str, more: &[&'l str]) -> Vec<&'l str> {
    let line = ["ingest", "run", "world-bank-population", file, "--version", version];
    [&line[..], &["--released-at", "2023-07-01"], more].concat()
}

/// Writes a file with this content and returns its path.
fn file(world: &DaemonWorld, name: &str, content: &str) -> String {
    fs::write(world.path(name), content).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

#[tokio::test]
async fn oraclectl_get_and_describe_show_registered_documents() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let mut wording = printed(&world, &["describe", "source", "world-bank-population"], 1);
    assert!(wording.contains("(source_unknown)"), "{wording}");
    wording += &printed(&world, &["get", "freshness_policy", "nowhere"], 1);
    wording += &printed(&world, &["get", "workflow"], 0);
    let folder = |name: &str| format!("{}/../examples/ground-truth/{name}", env!("CARGO_MANIFEST_DIR"));
    let folders = ["ontologies", "sources", "pipelines"].map(folder);
    let [ontologies, sources, pipelines] = folders.each_ref().map(String::as_str);
    printed(&world, &["apply", "-f", pipelines, "-f", sources, "-f", ontologies], 0);
    for (kind, id) in [
        ("ontology", "population@1"),
        ("source", "world-bank-population"),
        ("pipeline", "world-bank-population"),
    ] {
        let listed: Value = serde_json::from_str(&printed(&world, &["get", kind, "--json"], 0)).unwrap();
        assert!(listed.as_array().unwrap().iter().any(|item| item["document_id"] == id), "{listed}");
        let table = printed(&world, &["get", kind], 0);
        assert!(table.contains(id) && table.contains("status") == (kind == "source"), "{table}");
        // `apply` accepts the output of `get`
        for options in [&["get", kind, id][..], &["get", kind, id, "--json"]] {
            let document = file(&world, "document.yaml", &printed(&world, options, 0));
            let applied = printed(&world, &["apply", "-f", &document], 0);
            assert_eq!(applied, format!("{kind} {id} is unchanged\n"));
        }
    }
    assert!(printed(&world, &["describe", "ontology", "population"], 0).contains("{person}"));
    assert!(printed(&world, &["get", "ontology", "population@3"], 1).contains("(document_unknown)"));
    assert!(printed(&world, &["get", "ontology", "nowhere"], 1).contains("(document_unknown)"));
    let mut second = example("ontologies/population.json");
    second["version"] = json!("2");
    let second = file(&world, "second.json", &second.to_string());
    wording += &printed(&world, &["apply", "-f", &second], 0);
    wording += &printed(&world, &["describe", "ontology", "population"], 1);
    insta::assert_snapshot!(wording);
    assert!(printed(&world, &["describe", "pipeline", "world-bank-population"], 0).contains("axis_mappings"));
    let schema: Value = serde_json::from_str(&printed(&world, &["schema", "source"], 0)).unwrap();
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let mut source = example("sources/world-bank-population.json");
    assert!(validator.is_valid(&source));
    source["tier"] = json!("primary");
    assert!(!validator.is_valid(&source));
}

#[tokio::test]
async fn oraclectl_apply_registers_all_documents_or_none() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let mut source = example("sources/world-bank-population.json");
    let ontology = example("ontologies/population.json");
    // the source precedes the ontology that it names
    let sound = file(&world, "all.yaml", &format!("{source}\n---\n{ontology}\n"));
    let dry = printed(&world, &["apply", "-f", &sound, "--dry-run"], 0);
    assert_eq!(log(control, "event=document_registered").await.len(), 0);

    // an error of syntax, an error of content, and a valid document
    let mut pipeline = open_pipeline("world-bank-population");
    pipeline["normalization"]["axis_mappings"][3]["target_axis"] = json!("people");
    let faulty = file(&world, "faulty.yaml", &format!("{pipeline}\n---\noracle_name: x\noracle_id: 1 2\n"));
    let output = printed(&world, &["apply", "-f", &sound, "-f", &faulty], 5);
    let places = ["faulty.yaml:1: pipeline world-bank-population: ", "faulty.yaml:4:12: "];
    assert!(places.iter().all(|place| output.contains(place)), "{output}");
    let mut wording = dry + output.lines().last().expect("a summary") + "\n";
    assert_eq!(log(control, "event=document_registered").await.len(), 0);
    let report = world.ctl(&["apply", "-f", &sound, "-f", &faulty, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("valid JSON");
    assert_eq!(
        (&report["registered"], report["faults"].as_array().map(Vec::len)),
        (&json!(0), Some(2)),
        "{report}"
    );

    wording += &printed(&world, &["apply", "-f", &sound], 0);
    wording += &printed(&world, &["apply", "-f", &sound], 0);
    assert_eq!(log(control, "event=document_registered").await.len(), 2, "a repeated apply changes nothing");

    source["data_license"] = json!("other terms");
    let changed = file(&world, "changed.json", &source.to_string());
    let diff = printed(&world, &["apply", "-f", &changed, "--dry-run"], 0);
    insta::assert_snapshot!(wording + &diff.replace(&changed, "changed.json"));
    printed(&world, &["apply", "-f", &changed], 0);
    let entries = log(control, "event=document_registered").await;
    let [.., entry] = entries.as_slice() else { panic!("there are entries") };
    assert_eq!((&entry["kind"], &entry["document_id"]), (&json!("source"), &json!("world-bank-population")));
    assert_eq!(entry["after"]["data_license"], "other terms");
    assert_eq!(
        entry["before"]["data_license"],
        example("sources/world-bank-population.json")["data_license"]
    );
}

#[tokio::test]
async fn oraclectl_apply_hides_faults_that_follow_from_a_document_with_a_fault() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let (ontology, mut source, pipeline) = ground::office_documents("office");
    source["ontology"]["version"] = json!("9");
    let policy = json!({"oracle_id": "office", "axis_freshness": {}, "default_max_age_seconds": 60,
        "default_stale_behavior": "fail_closed", "invalidation_triggers": []});
    let workflow = ground::workflow("census", &["office"], &json!({}));
    let shown = |documents: &[&Value]| {
        let text = documents.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n---\n");
        let output = world.ctl(&["apply", "-f", &file(&world, "faulty.yaml", &text), "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
        let faults = report["faults"].as_array().expect("an array").iter();
        faults.map(|fault| fault["detail"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let details = shown(&[&ontology, &source, &pipeline, &policy, &workflow]);
    let [only] = details.as_slice() else { panic!("one fault: {details:?}") };
    assert!(only.starts_with("source office: ") && only.contains("population@9"), "{only}");
    let details = shown(&[&ontology, &pipeline]);
    let [only] = details.as_slice() else { panic!("one fault: {details:?}") };
    assert!(only.starts_with("pipeline office"), "{only}");
    insta::assert_snapshot!(only);
}

#[tokio::test]
async fn oraclectl_ingest_submits_a_payload_and_shows_its_run_and_rejects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register(&mut daemon.control().await).await;
    let rejected = "Nowhere,nowhere,2020,1\nAruba,ABW,2021,\"no, number\"\n";
    let file = file(&world, "payload.csv", &(payload(20) + rejected));
    let shown = printed(&world, &run(&file, "2023", &[]), 0);
    let row = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(row("state "), Some("completed"), "{shown}");
    assert!(row("rejected ").is_some_and(|row| row.starts_with("2: ")), "{shown}");
    let again: Value = serde_json::from_str(&printed(&world, &run(&file, "2023", &["--json"]), 0)).unwrap();
    assert_eq!(again["unchanged"], true, "{again}");
    let csv = printed(&world, &["ingest", "list", "world-bank-population", "--csv"], 0);
    let [heading, row] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
    assert!(heading.starts_with("run_id,oracle_id,") && csv.contains("\r\n"), "{csv}");
    let digits = &row[..8];
    let shown = printed(&world, &["ingest", "show", digits], 0);
    let read = shown.lines().find_map(|line| line.strip_prefix("read "));
    assert_eq!(read.map(str::trim), Some("22"), "{shown}");
    assert!(printed(&world, &["ingest", "cancel", digits], 1).contains("(run_not_running)"));
    assert!(printed(&world, &["ingest", "list"], 0).contains(digits));

    let rejects = printed(&world, &["rejects", digits], 0);
    assert!(rejects.contains("check") && rejects.contains("population"), "{rejects}");
    // the table counts records from 1, `position` from 0
    assert!(rejects.contains(" 21 ") && rejects.contains(" 22 ") && !rejects.contains(" 20 "), "{rejects}");
    let with_text = printed(&world, &["rejects", digits, "--json"], 0);
    let with_text: Value = serde_json::from_str(&with_text).expect("JSON");
    let reject = &with_text["rejects"][0];
    let raw_text = reject["raw_text"].as_str().expect("a raw record");
    assert_eq!(reject["raw_hash"], Sha256Hex::of(raw_text.as_bytes()).as_str(), "{reject}");
    let csv = printed(&world, &["rejects", digits, "--rule", "check", "--csv"], 0);
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let notes = [&["--csv"][..], &[]].map(|format| {
        let cut = world.ctl(&[&["rejects", digits, "-n", "1"], format].concat());
        String::from_utf8(cut.stderr).expect("valid UTF-8")
    });
    insta::assert_snapshot!("notes_on_rejects_that_are_left_out", notes.concat());
    let whole = world.ctl(&["rejects", digits, "--csv"]);
    assert_eq!((whole.stdout.split(|byte| *byte == b'\n').count(), whole.stderr.len()), (4, 0), "{whole:?}");
    let first = world.ctl(&["rejects", digits, "-n", "1", "--json"]).stdout;
    let first = String::from_utf8_lossy(&first).into_owned();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["rejects"][0]["position"], &first["more"]), (&json!(20), &json!(true)), "{first}");
    assert!(printed(&world, &["rejects", digits, "--rule", "taste"], 2).contains("duplicate_key"));
}

#[tokio::test]
async fn oraclectl_ingest_reads_standard_input_and_reports_read_errors() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    // a folder can be opened but not read
    let folder = world.path("");
    let unreadable = printed(&world, &run(folder.to_str().unwrap(), "2", &[]), 5);
    assert!(unreadable.contains(folder.to_str().unwrap()), "{unreadable}");
    eventually("the incomplete payload is removed", async || archived(&world) == 0).await;
    let file = file(&world, "payload.csv", &payload(3));
    let piped =
        world.ctl_command(&run("-", "2", &["--detach"])).stdin(fs::File::open(file).unwrap()).output();
    let piped = piped.unwrap();
    assert_eq!(piped.status.code(), Some(0), "{piped:?}");
    assert!(String::from_utf8_lossy(&piped.stdout).contains("continues"), "{piped:?}");
    let run_id = at(&get(control, "/v1/runs").await, "/items/0/run/run_id").as_str().unwrap().to_owned();
    assert_eq!(wait_for_run(control, &run_id).await["counts"]["records"], 3);
}

/// Command line of a query.
fn query<'l>(more: &[&'l str]) -> Vec<&'l str> {
    [&["query", "world-bank-population"], more].concat()
}

#[tokio::test]
async fn oraclectl_query_reads_all_pages_or_reports_that_there_are_more() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register(&mut daemon.control().await).await;
    let payload = file(&world, "payload.csv", &payload(250));
    printed(&world, &run(&payload, "2023", &[]), 0);
    printed(&world, &["source", "approve", "world-bank-population"], 0);
    let csv = world.ctl(&query(&["--csv"]));
    let warning = String::from_utf8_lossy(&csv.stderr).into_owned();
    assert!(
        csv.status.success() && warning.starts_with("oraclectl: warning: "),
        "the age is not in the rows: {warning}"
    );
    let csv = String::from_utf8(csv.stdout).expect("valid UTF-8");
    assert_eq!(csv.lines().count(), 251, "{csv}");
    assert!(csv.starts_with("record_id,source_record_id,valid_from,valid_until,area,year,"), "{csv}");
    let json: Value = serde_json::from_str(&printed(&world, &query(&["--json"]), 0)).expect("valid JSON");
    assert_eq!(json["response"]["records"].as_array().map(Vec::len), Some(250));
    let cut = ["--csv", "--json"].map(|format| world.ctl(&query(&[format, "-n", "3"])));
    insta::assert_snapshot!("query_for_no_records", printed(&world, &query(&["-n", "0"]), 2));
    let past = world.ctl(&query(&["-n", "1", "--at", "2024-01-01"]));
    // a warning has the age of today
    let notes = |output: &std::process::Output| {
        let lines = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = lines.lines().filter(|line| !line.starts_with("oraclectl: warning: "));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let notes = cut.iter().chain([&past]).map(notes);
    // the last line has the age of the version, in days
    let shown = String::from_utf8_lossy(&past.stdout);
    let age = shown.lines().last().expect("a line").rsplit_once(": ").expect("the age").1;
    let age = age.trim_start_matches(char::is_numeric);
    insta::assert_snapshot!("notes_on_records_that_are_left_out", notes.collect::<String>() + age);

    let mut narrow = world.ctl_command(&query(&["--axes", "population,area_name"]));
    let shown = narrow.env("COLUMNS", "80").output().expect("the start succeeds");
    let shown = String::from_utf8(shown.stdout).expect("valid UTF-8");
    let words: Vec<_> = shown.lines().next().expect("the table has a heading").split_whitespace().collect();
    assert_eq!(words, ["area", "year", "population", "area_name", "valid", "from", "until", "record"]);
    assert!(shown.split_whitespace().any(|word| word == "1049"), "{shown}");
    let record = shown.lines().nth(3).and_then(|row| row.split_whitespace().last()).expect("a record");
    assert!(printed(&world, &["provenance", record], 0).contains("AAA/1900"));
    for columns in ["60", "80"] {
        let lists: [&[&str]; 4] = [
            &["query", "world-bank-population", "-n", "2"],
            &["ingest", "list"],
            &["get", "source"],
            &["describe", "ontology", "population"],
        ];
        for list in lists {
            let shown = world.ctl_command(list).env("COLUMNS", columns).output().expect("the start succeeds");
            let shown = String::from_utf8(shown.stdout).expect("valid UTF-8");
            let rows = shown.lines().take_while(|line| !line.starts_with("world-bank-population, primary"));
            let rows = rows.filter(|line| !line.starts_with("sha256"));
            let widest = rows.map(|line| line.chars().count()).max();
            assert!(widest <= columns.parse().ok(), "{columns}: {shown}");
        }
    }
}

#[tokio::test]
async fn oraclectl_describe_ontology_shows_all_properties_of_its_axes() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let ontology = json!({"ontology_id": "clinic", "version": "1", "axes": [
        {"axis": "patient", "type": "string", "class": "measured", "identity": true, "description": "Who"},
        {"axis": "status", "type": "enum", "values": ["open", "closed"], "class": "self_reported", "description": "How it is"},
        {"axis": "dose", "type": "number", "unit": "mg", "precision": 2, "conservative": "lower", "class": "measured",
         "state_sensitive": true, "max_ttl_seconds": 86_400, "description": "How much"},
    ]});
    let document = file(&world, "clinic.json", &ontology.to_string());
    printed(&world, &["apply", "-f", &document], 0);
    let shown = printed(&world, &["describe", "ontology", "clinic"], 0);
    let (_, axes) = shown.split_once("\n\n").expect("the axes are below the heading");
    insta::assert_snapshot!(axes);
}

#[tokio::test]
async fn oraclectl_reviews_a_source_and_shows_its_freshness() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register(&mut daemon.control().await).await;
    let payload = file(&world, "payload.csv", &payload(3));
    assert!(printed(&world, &run(&payload, "2023", &[]), 0).contains("completed"));
    let mut wording = printed(&world, &["source", "approve", "world-bank-population"], 0);
    wording += &printed(&world, &["source", "approve", "world-bank-population"], 0);
    wording += &printed(&world, &["source", "deprecate", "world-bank-population", "--on", "2999-01-01"], 0);
    assert!(
        printed(&world, &["describe", "source", "world-bank-population"], 0).contains("2023-07-01T00:00:00Z")
    );
    let tomorrow = ["source", "deprecate", "world-bank-population", "--on", "tomorrow"];
    assert!(printed(&world, &tomorrow, 2).contains("2026-11-20"));
    let invalidate = ["source", "invalidate", "world-bank-population", "--reason", "revised"];
    wording += &printed(&world, &invalidate, 0);
    assert!(printed(&world, &["describe", "freshness_policy", "world-bank-population"], 0).contains("stale"));
    let confirm = ["source", "confirm", "world-bank-population", "--reason", "it was not"];
    wording += &printed(&world, &confirm, 0);
    let standing = printed(&world, &["describe", "freshness_policy", "world-bank-population", "--json"], 0);
    let policy = serde_json::from_str::<Value>(&standing).unwrap()["policy"].to_string();
    let policy = file(&world, "policy.json", &policy);
    wording += &printed(&world, &["apply", "-f", &policy], 0);
    insta::assert_snapshot!(wording);
}

#[tokio::test]
async fn refused_payload_is_not_sent_and_an_interrupt_leaves_the_run_running() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let payload = file(&world, "payload.csv", &payload(MANY));
    let mut child =
        world.ctl_command(&run(&payload, "2023", &[])).stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the run reads records", async || {
        at(&get(control, "/v1/runs").await, "/items/0/progress/read").as_u64().is_some_and(|read| read > 0)
    })
    .await;
    // `oraclectl` must have queried its run once, so that it is interrupted and does not end by itself
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let other = world.path("other");
    fs::File::create(&other).and_then(|file| file.set_len(200 * 1024 * 1024)).unwrap();
    let other = run(other.to_str().unwrap(), "2024", &[]);
    assert!(printed(&world, &other, 1).contains("(run_busy)"));
    let interrupt = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut messages = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut messages).unwrap();
    let run_id = at(&get(control, "/v1/runs").await, "/items/0/run/run_id").as_str().unwrap().to_owned();
    assert!(messages.contains(&format!("oraclectl ingest cancel {run_id}")), "{messages}");
    assert_eq!(wait_for_run(control, &run_id).await["state"], "completed");
}

#[tokio::test]
async fn oraclectl_ingest_names_its_run_if_the_daemon_is_lost_and_can_be_repeated() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let payload = file(&world, "payload.csv", &payload(MANY));
    let child =
        world.ctl_command(&run(&payload, "2023", &[])).stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the run reads records", async || {
        at(&get(control, "/v1/runs").await, "/items/0/progress/read").as_u64().is_some_and(|read| read > 0)
    })
    .await;
    let run_id = at(&get(control, "/v1/runs").await, "/items/0/run/run_id").as_str().unwrap().to_owned();
    // `oraclectl` must have got the answer to its upload, which has the run's id
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    daemon.kill();
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{messages}");
    assert!(messages.contains(&format!("oraclectl ingest show {run_id}")), "{messages}");
    let _daemon = world.serve().await;
    assert!(printed(&world, &run(&payload, "2023", &[]), 0).contains(&run_id));
}
