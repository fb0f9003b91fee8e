//! Reads by operators and reviewers are in the log.

use crate::erasure::{deliver, files_with};
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::ground::{approve, ingest, register, started_run, wait_for_run};
use oracled_tests::verification::{register as register_workflow, register_offices, workflow};
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{
    DaemonWorld, GOOD, at, document, get, lines, log, log_with_reads, post, problem, submission,
};
use serde_json::{Value, json};
use std::path::PathBuf;

const SOURCE: &str = "world-bank-population";
const PAYLOAD: &str = "Country Name,Country Code,Year,Value\nAruba,ABW,1960,54208\nAruba,ABW,1961,many\n";

/// The entries of the reads that the request with this answer has made.
async fn reads_of(control: &mut DaemonClient, answer: &DaemonResponse) -> Vec<Value> {
    let request_id = answer.headers["x-request-id"].to_str().expect("the header is ASCII");
    log(control, &format!("event=operator_read&after=0&request_id={request_id}")).await
}

/// Ingests a release with one record and one reject. Returns the ids of the run and of the record.
async fn release(routes: &mut DaemonClient, control: &mut DaemonClient) -> (String, String) {
    register(control, SOURCE).await;
    let run_id = started_run(&ingest(control, SOURCE, "2020-04-14", "2020-04-14", PAYLOAD).await);
    assert_eq!(wait_for_run(control, &run_id).await["counts"]["rejected"], 1);
    approve(control, SOURCE).await;
    let query = json!({"oracle_id": SOURCE, "request": {"axes_requested": ["population"]}});
    let record_id = at(&post(routes, "/v1/query", &query).await, "/response/records/0/record_id");
    (run_id, record_id.as_str().expect("a record").to_owned())
}

#[tokio::test]
async fn read_by_an_operator_adds_one_entry_with_its_caller_and_parameters() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let (run, record) = release(routes, control).await;
    for (path, subject, session, parameters) in [
        ("/v1/log?session=cs_1&event=tmm_crosscheck", "log", json!("cs_1"), json!("event=tmm_crosscheck")),
        ("/v1/log", "log", Value::Null, Value::Null),
        ("/v1/log/tile/entries/000.p/2", "log", Value::Null, json!("path=entries/000.p/2")),
        ("/v1/sessions/cs_1", "session", json!("cs_1"), Value::Null),
        ("/v1/verdicts/cs_1", "verdict", json!("cs_1"), Value::Null),
        ("/v1/verdicts/cs_1?card=1", "verdict", json!("cs_1"), json!("card=1")),
        (
            &*format!("/v1/records/{record}/provenance"),
            "raw_record",
            Value::Null,
            json!(format!("record_id={record}")),
        ),
        (
            &*format!("/v1/runs/{run}/rejects?raw=true"),
            "raw_record",
            Value::Null,
            json!(format!("run_id={run}&raw=true")),
        ),
        (&*format!("/v1/runs/{run}/changes"), "raw_record", Value::Null, json!(format!("run_id={run}"))),
    ] {
        let answer = get(control, path).await;
        assert_eq!(answer.status, 200, "{path}");
        let entries = reads_of(control, &answer).await;
        let [entry] = &entries[..] else { panic!("{path}: {entries:?}") };
        assert_eq!(
            (&entry["subject"], &entry["session_id"], &entry["parameters"]),
            (&json!(subject), &session, &parameters),
            "{path}: {entry}"
        );
        let caller = &entry["caller"];
        assert_eq!((&caller["pid"], caller.get("socket")), (&json!(std::process::id()), None), "{path}");
    }
    let mut reader = WireConnection::connect(&world.control_socket()).await;
    let request = head("HEAD", "/v1/log", &[("x-request-id", "head-1")]);
    reader.send(request).await.expect("the request is sent");
    reader.wait_for_answer().await;
    let entries = log(control, "event=operator_read&after=0&request_id=head-1").await;
    assert_eq!(entries.len(), 1, "a HEAD reads, too");
    let follow = head("GET", "/v1/log/follow?session=cs_1", &[("x-request-id", "follow-1")]);
    let mut follower = WireConnection::connect(&world.control_socket()).await;
    follower.send(follow).await.expect("the request is sent");
    follower.wait_for_answer().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    let entries = log(control, "event=operator_read&after=0&request_id=follow-1").await;
    assert_eq!((entries.len(), &entries[0]["session_id"]), (1, &json!("cs_1")), "one for a request");
}

#[tokio::test]
async fn read_by_an_application_or_without_texts_adds_no_entry() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let (run, record) = release(routes, control).await;
    for path in ["/v1/verdicts/cs_1".to_owned(), format!("/v1/records/{record}/provenance")] {
        let answer = get(routes, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
        assert_eq!(reads_of(control, &answer).await, Vec::<Value>::new(), "{path}");
    }
    let rejects = format!("/v1/runs/{run}/rejects");
    for path in [
        "/v1/status",
        "/v1/orders",
        "/v1/outbox",
        "/v1/reviews",
        "/v1/inbox",
        "/v1/log/checkpoint",
        "/v1/log/proof?seq=1&size=1",
        "/v1/log/tile/0/000.p/1",
        &rejects,
    ] {
        let answer = get(control, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
        assert_eq!(reads_of(control, &answer).await, Vec::<Value>::new(), "{path}");
    }
    let unknown = get(control, "/v1/sessions/nobody").await;
    problem(&unknown, 404, "session_unknown");
    assert_eq!(reads_of(control, &unknown).await, Vec::<Value>::new(), "nothing was read");
}

#[tokio::test]
async fn session_that_the_store_does_not_know_and_searched_ids_are_not_named() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for (name, parameters) in
        [("session", "limit=5"), ("execution", "execution&limit=5"), ("request_id", "request_id&limit=5")]
    {
        let answer = get(control, &format!("/v1/log?{name}=nobody-7421&limit=5")).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0), "{name}");
        let entries = reads_of(control, &answer).await;
        assert_eq!((entries.len(), &entries[0]["parameters"]), (1, &json!(parameters)), "{name}");
        assert_eq!(entries[0].get("session_id"), None, "{name}");
    }
    let follow = head("GET", "/v1/log/follow?request_id=nobody-7421", &[("x-request-id", "follow-1")]);
    let mut follower = WireConnection::connect(&world.control_socket()).await;
    follower.send(follow).await.expect("the request is sent");
    follower.wait_for_answer().await;
    let entries = log(control, "event=operator_read&after=0&request_id=follow-1").await;
    assert_eq!((entries.len(), &entries[0]["parameters"]), (1, &json!("request_id")), "{entries:?}");
    // a request id that the log has is not named either, since a caller chooses it
    let found = get(control, "/v1/log?request_id=follow-1").await;
    assert!(!found.body.is_empty());
    assert_eq!(reads_of(control, &found).await[0]["parameters"], "request_id");
    assert!(!world.mirror().contains("nobody-7421"), "{}", world.mirror());
}

#[tokio::test]
async fn answer_of_a_read_has_the_entries_of_earlier_reads_but_not_its_own() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for earlier in 0..3 {
        for question in ["after=0&limit=10000", "limit=10000", "event=operator_read&limit=10000"] {
            let entries = log_with_reads(control, question).await;
            let reads = entries.iter().filter(|entry| entry["event"] == "operator_read");
            let parameters: Vec<_> = reads.map(|entry| entry["parameters"].clone()).collect();
            let own = parameters.iter().filter(|parameters| **parameters == json!(question)).count();
            assert_eq!(own, earlier, "{question}: {parameters:?}");
        }
    }
}

#[tokio::test]
async fn erasure_of_a_session_removes_the_values_of_the_entries_of_its_reads() {
    let world = DaemonWorld::with_config("[storage]\nerase_session_ids = true");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    deliver(routes, "ada-7421", "ada").await;
    deliver(routes, "bob-7421", "bob").await;
    for session in ["ada-7421", "bob-7421"] {
        assert_eq!(get(control, &format!("/v1/log?session={session}&after=0")).await.status, 200);
    }
    let erased = world.ctl_in_thread(&["erase", "--session", "ada-7421", "--reason", "asked"]).await;
    assert!(erased.status.success(), "{erased:?}");
    assert_eq!(get(control, "/v1/log?session=ada-7421&after=0").await.status, 200);
    assert_eq!(files_with(&world.state(), "ada-7421"), Vec::<PathBuf>::new());
    let entries = log(control, "event=operator_read&after=0").await;
    let [of_ada, of_bob, after] = &entries[..] else { panic!("{entries:?}") };
    for member in ["session_id", "parameters", "caller"] {
        assert!(of_ada[member]["sha256"].is_string(), "{member}: {of_ada}");
        assert_eq!(of_bob[member].get("sha256"), None, "{member}: {of_bob}");
    }
    assert_eq!((of_ada.get("salts"), &of_ada["subject"]), (None, &json!("log")));
    assert_eq!((of_bob["session_id"].as_str(), after.get("session_id")), (Some("bob-7421"), None));
}

#[tokio::test]
async fn reviewer_who_reads_raw_records_is_in_the_log_with_the_socket() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    let (review, control) = (&mut daemon.review().await, &mut daemon.control().await);
    register_workflow(control, &workflow("census", &["office-a", "office-b"], json!({}))).await;
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let envelope = post(&mut daemon.routes().await, "/v1/verify", &question).await;
    let id = at(&envelope, "/review_id").as_str().expect("a review is open").to_owned();
    let path = format!("/v1/reviews/{id}");
    let listed = get(review, &path).await;
    assert_eq!(reads_of(control, &listed).await, Vec::<Value>::new(), "a review has no raw record");

    let evidence = get(review, &format!("{path}/evidence")).await;
    let entries = reads_of(control, &evidence).await;
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(
        (&entry["subject"], &entry["parameters"], &entry["caller"]["socket"]),
        (&json!("raw_record"), &json!(format!("review_id={id}")), &json!("review"))
    );
    let explained = get(control, &format!("/v1/executions/{id}")).await;
    let entries = reads_of(control, &explained).await;
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(
        (&entry["subject"], &entry["parameters"], entry["caller"].get("socket")),
        (&json!("verification"), &json!(format!("execution_id={id}")), None)
    );
}

#[tokio::test]
async fn doctor_reads_no_entry_of_the_log() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let checked = world.ctl_in_thread(&["doctor", "--json"]).await;
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(text.contains("the newest log entry is of"), "{text}");
    let entries = lines(&get(&mut daemon.control().await, "/v1/log?after=0").await.body);
    let events: Vec<_> = entries.iter().map(|entry| &entry["event"]).collect();
    assert_eq!(events, [&json!("service_started")]);
}
