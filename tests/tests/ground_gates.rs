//! Held runs: exit statuses, operators' decisions, metrics, kills, pulls and the log.

use oracled_api::client::DaemonClient;
use oracled_tests::ground::{approve, ingest, query_all, register_gated, started_run, wait_for_run};
use oracled_tests::{DaemonWorld, document, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

const SOURCE: &str = "world-bank-population";
/// Exit status of `oraclectl` for a held run.
const HELD: i32 = 7;

/// A payload with a record for each of these years.
fn payload(years: std::ops::Range<u32>, value: u32) -> String {
    let rows: String = years.map(|year| format!("Aruba,ABW,{year},{value}\n")).collect();
    format!("Country Name,Country Code,Year,Value\n{rows}")
}

/// Submits a payload by `oraclectl`.
fn submit(world: &DaemonWorld, version: &str, payload: &str) -> Output {
    let file = tempfile::NamedTempFile::new().expect("enough room");
    fs::write(file.path(), payload).expect("enough room");
    let path = file.path().to_str().expect("valid UTF-8");
    world.ctl(&["--json", "ingest", "run", SOURCE, path, "--version", version, "--released-at", version])
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

async fn values(world: &DaemonWorld) -> Vec<Value> {
    let mut routes = DaemonClient::connect(&world.socket()).await.expect("the socket is served");
    let all = query_all(&mut routes, SOURCE, &json!({"axes_requested": ["population"]})).await;
    all.into_iter().map(|(record, _)| record).collect()
}

async fn prepare_gated_source(world: &DaemonWorld) -> Vec<Value> {
    let control = &mut DaemonClient::connect(&world.control_socket()).await.expect("the socket is served");
    register_gated(control, SOURCE).await;
    approve(control, SOURCE).await;
    assert_eq!(submit(world, "2020-01-01", &payload(1900..2000, 1)).status.code(), Some(0));
    values(world).await
}

async fn held_gauge(world: &DaemonWorld) -> String {
    let mut routes = DaemonClient::connect(&world.socket()).await.expect("the socket is served");
    let metrics = get(&mut routes, "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("valid UTF-8");
    let line = text.lines().find(|line| line.starts_with("oracled_source_runs_held{"));
    line.expect("the line exists").rsplit(' ').next().expect("a value").to_owned()
}

/// Checks that `oraclectl inbox`, `status` and `doctor` name a held run.
fn assert_held_run_is_shown(world: &DaemonWorld, run_id: &str) {
    let inbox = json_of(&world.ctl(&["inbox", "--json"]));
    assert_eq!(
        (&inbox["items"][0]["kind"], &inbox["items"][0]["id"]),
        (&json!("held_run"), &json!(run_id)),
        "{inbox}"
    );
    let status = json_of(&world.ctl(&["--json", "status"]));
    let held = &status["held_runs"];
    assert_eq!((&held[0]["run_id"], &held[0]["oracle_id"]), (&json!(run_id), &json!(SOURCE)), "{status}");
    let shown = String::from_utf8_lossy(&world.ctl(&["status"]).stdout).into_owned();
    assert!(shown.contains(run_id), "{shown}");
    let doctor = json_of(&world.ctl(&["--json", "doctor"]));
    let checks = doctor["checks"].as_array().expect("a list");
    let names_run = |check: &&Value| check["value"].as_str().is_some_and(|value| value.contains(run_id));
    let found = checks.iter().find(names_run).expect("the run is found");
    assert_eq!((&found["check"], &found["level"]), (&json!("ingestion"), &json!("warning")), "{doctor}");
}

#[tokio::test]
async fn held_run_exits_with_its_own_status_and_waits_for_an_operator() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let before = prepare_gated_source(&world).await;
    assert_eq!(held_gauge(&world).await, "0");
    let bad = payload(1900..1950, 2);
    let output = submit(&world, "2021-01-01", &bad);
    assert_eq!(output.status.code(), Some(HELD), "{output:?}");
    let run = json_of(&output)["run"].clone();
    assert_eq!((&run["state"], &run["breaches"][0]["gate"]), (&json!("held"), &json!("max_withdrawn_ratio")));
    let run_id = run["run_id"].as_str().expect("a string").to_owned();
    assert_eq!(values(&world).await, before);
    assert_eq!(held_gauge(&world).await, "1");
    assert_held_run_is_shown(&world, &run_id);
    let repeated = submit(&world, "2021-01-01", &bad).status.code();
    assert_eq!(repeated, Some(HELD), "a repeated payload opens no second run");

    let shown = world.ctl(&["ingest", "show", &run_id]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let next = format!("oraclectl ingest approve {run_id} --reason");
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&next), "{shown:?}");

    // a kill does not change the state of the run
    daemon.kill();
    let daemon = world.serve().await;
    assert_eq!((values(&world).await, held_gauge(&world).await.as_str()), (before.clone(), "1"));
    let output = world.ctl(&["ingest", "approve", &run_id]);
    assert_eq!(output.status.code(), Some(2), "a reason is required: {output:?}");
    let output = world.ctl(&["--json", "ingest", "approve", &run_id, "--reason", "a smaller census"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json_of(&output)["run"]["state"], "completed");
    assert_eq!((values(&world).await.len(), held_gauge(&world).await.as_str()), (50, "0"));
    assert_eq!(json_of(&world.ctl(&["--json", "status"]))["held_runs"], json!([]));
    let again = world.ctl(&["--json", "ingest", "approve", &run_id, "--reason", "a smaller census"]);
    assert_eq!(again.status.code(), Some(0), "the same operator may repeat the approval: {again:?}");
    assert_eq!(json_of(&again), json_of(&output));

    let output = world.ctl(&["--json", "ingest", "undo", &run_id, "--reason", "it was wrong after all"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json_of(&output)["run"]["undoes"]["run_id"], run_id.as_str());
    let by = json_of(&output)["run"]["run_id"].clone();
    assert_eq!(json_of(&world.ctl(&["--json", "ingest", "show", &run_id]))["undone_by"], by);
    let listed = json_of(&world.ctl(&["--json", "ingest", "list"]));
    let undone =
        listed["items"].as_array().expect("an array").iter().filter(|seen| !seen["undone_by"].is_null());
    assert_eq!(undone.map(|seen| &seen["run"]["run_id"]).collect::<Vec<_>>(), [run_id.as_str()]);
    let shown = world.ctl(&["ingest", "show", &run_id]).stdout;
    assert!(String::from_utf8_lossy(&shown).contains(by.as_str().expect("an id")));
    assert!(String::from_utf8_lossy(&world.ctl(&["ingest", "list"]).stdout).contains("undone"));
    let by_value =
        |records: &[Value]| records.iter().map(|record| record["axes"].clone()).collect::<Vec<_>>();
    assert_eq!(by_value(&values(&world).await), by_value(&before));
    daemon.kill();
    let daemon = world.serve().await;
    assert_eq!(by_value(&values(&world).await), by_value(&before), "the run stays undone after a kill");
    let control = &mut daemon.control().await;
    let reason = json!({"reason": "again"});
    problem(&post(control, &format!("/v1/runs/{run_id}/undo"), &reason).await, 409, "run_not_in_force");
    problem(&post(control, &format!("/v1/runs/{run_id}/approve"), &reason).await, 409, "run_not_held");
    problem(&post(control, &format!("/v1/runs/{run_id}/discard"), &reason).await, 409, "run_not_held");
    let ended_as: Vec<_> = log(control, "event=ingestion_ended")
        .await
        .iter()
        .map(|entry| (entry["state"].clone(), entry["decision"]["reason"].clone()))
        .collect();
    let (held, completed) = (json!("held"), json!("completed"));
    let expected = [
        (completed.clone(), Value::Null),
        (held, Value::Null),
        (completed.clone(), json!("a smaller census")),
        (completed, json!("it was wrong after all")),
    ];
    assert_eq!(ended_as, expected);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn approval_of_a_version_that_was_read_since_names_its_remedy() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    prepare_gated_source(&world).await;
    let control = &mut daemon.control().await;
    let bad = payload(1900..1950, 2);
    let held = json_of(&submit(&world, "2021-01-01", &bad))["run"]["run_id"].clone();
    let run_id = held.as_str().expect("a string");
    assert_eq!(submit(&world, "2021-01-01", &payload(1900..2001, 1)).status.code(), Some(0));
    let reason = json!({"reason": "a test"});
    let answer = post(control, &format!("/v1/runs/{run_id}/approve"), &reason).await;
    let refused = problem(&answer, 409, "version_known");
    let remedy = format!("oraclectl ingest discard {run_id}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains(&remedy)), "{refused}");

    // the remedy leads to the payload of the held run
    assert_eq!(post(control, &format!("/v1/runs/{run_id}/discard"), &reason).await.status, 200);
    let file = world.path("bad.csv");
    fs::write(&file, &bad).expect("enough room");
    let file = file.to_str().expect("valid UTF-8");
    let dated = ["--version", "2021-01-01", "--released-at", "2021-01-01", "--replace"];
    let again = world.ctl(&[&["ingest", "run", SOURCE, file][..], &dated].concat());
    assert_eq!(again.status.code(), Some(HELD), "{again:?}");
    let approved = world.ctl(&["ingest", "approve", run_id, "--reason", "it is right"]);
    assert_eq!(approved.status.code(), Some(0), "{approved:?}");
    assert_eq!(values(&world).await.len(), 50);
}

#[tokio::test]
async fn outdated_held_run_is_approved_only_with_the_run_that_was_completed_since() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    prepare_gated_source(&world).await;
    let held = submit(&world, "2021-01-01", &payload(1900..1950, 2));
    assert_eq!(held.status.code(), Some(HELD), "{held:?}");
    let next = submit(&world, "2020-06-01", &payload(1900..2001, 1));
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let ids =
        [&held, &next].map(|output| json_of(output)["run"]["run_id"].as_str().expect("an id").to_owned());
    let [run_id, later] = ids.each_ref().map(String::as_str);
    let approve = |flag: &[&str]| {
        world.ctl(&[&["ingest", "approve", run_id, "--reason", "a smaller census"][..], flag].concat())
    };
    for flag in [&[][..], &["--outdated-by", run_id]] {
        let refused = approve(flag);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        let (changes, named) =
            (format!("oraclectl ingest changes {run_id}"), format!("--outdated-by {later}"));
        for text in ["run_outdated".to_owned(), changes, named] {
            assert!(error.contains(&text), "{text} is not in {error}");
        }
        assert_eq!(json_of(&world.ctl(&["--json", "ingest", "show", run_id]))["run"]["state"], "held");
    }
    let approved = approve(&["--outdated-by", later]);
    assert_eq!(approved.status.code(), Some(0), "{approved:?}");
    assert_eq!(values(&world).await.len(), 50);
}

#[tokio::test]
async fn csv_that_lacks_its_last_line_break_is_held_after_one_that_had_it() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let before = prepare_gated_source(&world).await;
    // the last value is 1 instead of 12
    let whole = payload(1900..2000, 1) + "Aruba,ABW,2000,12\n";
    let cut = whole.strip_suffix("2\n").expect("the payload ends so");
    let output = submit(&world, "2021-01-01", cut);
    let run = json_of(&output)["run"].clone();
    assert_eq!(output.status.code(), Some(HELD), "{run}");
    assert_eq!(run["breaches"], json!([{"gate": "open_end", "version": "2020-01-01"}]));
    assert_eq!(values(&world).await, before);
    assert_eq!(submit(&world, "2021-01-02", &whole).status.code(), Some(0));
    // an approved run is the previous one for the next
    let held = submit(&world, "2021-01-03", &(payload(1900..2000, 1) + "Aruba,ABW,2000,13"));
    let run_id = json_of(&held)["run"]["run_id"].as_str().expect("a string").to_owned();
    let approved = world.ctl(&["ingest", "approve", &run_id, "--reason", "their exporter writes none"]);
    assert!(approved.status.success(), "{approved:?}");
    let next = submit(&world, "2021-01-04", &(payload(1900..2000, 1) + "Aruba,ABW,2000,14"));
    assert_eq!(next.status.code(), Some(0), "{next:?}");
}

#[tokio::test]
async fn approved_run_becomes_visible_after_a_kill() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    prepare_gated_source(&world).await;
    let mut large = payload(1900..1950, 2);
    for number in 0..40_000_u32 {
        large +=
            &format!("Land,{},{},1\n", ["AAA", "BBB", "CCC", "DDD"][(number % 4) as usize], 2000 + number);
    }
    let control = &mut daemon.control().await;
    let run_id = started_run(&ingest(control, SOURCE, "2021-01-01", "2021-01-01", large).await);
    let run = wait_for_run(control, &run_id).await;
    assert_eq!(run["state"], "held", "{run}");
    let approval =
        post(control, &format!("/v1/runs/{run_id}/approve"), &json!({"reason": "new areas"})).await;
    assert_eq!(approval.status, 202, "{}", document(&approval));
    daemon.kill();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let run = wait_for_run(control, &run_id).await;
    assert_eq!((&run["state"], &run["decision"]["reason"]), (&json!("completed"), &json!("new areas")));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn discarded_run_changes_nothing_and_needs_a_reason() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let before = prepare_gated_source(&world).await;
    let run = json_of(&submit(&world, "2021-01-01", &payload(1900..1950, 2)))["run"].clone();
    let run_id = run["run_id"].as_str().expect("a string").to_owned();
    let control = &mut daemon.control().await;
    problem(
        &post(control, &format!("/v1/runs/{run_id}/discard"), &json!({"reason": " "})).await,
        400,
        "invalid_request",
    );
    let output = world.ctl(&["--json", "ingest", "discard", &run_id, "--reason", "a broken export"]);
    assert_eq!((output.status.code(), &json_of(&output)["run"]["state"]), (Some(0), &json!("discarded")));
    assert_eq!((values(&world).await, held_gauge(&world).await.as_str()), (before, "0"));
    assert!(daemon.stop().success());
}

/// The kinds and raw records of the changes of a run.
async fn changes_of(control: &mut DaemonClient, run_id: &str) -> Vec<(String, Value, Value)> {
    let (mut changes, mut after) = (Vec::new(), String::new());
    loop {
        let page = document(&get(control, &format!("/v1/runs/{run_id}/changes?limit=20{after}")).await);
        for change in page["items"].as_array().expect("an array") {
            let kind = change["kind"].as_str().expect("a kind").to_owned();
            changes.push((kind, change["before"].clone(), change["after"].clone()));
        }
        let Some(next) = page["next"].as_str() else { return changes };
        after = format!("&after={next}");
    }
}

#[tokio::test]
async fn held_run_shows_what_it_would_change_and_then_has_changed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    prepare_gated_source(&world).await;
    let control = &mut daemon.control().await;
    // 40 of 100 records are withdrawn, one changes, one is new
    let release = payload(1940..2001, 1).replace("1940,1\n", "1940,7\n");
    let held = json_of(&submit(&world, "2021-01-01", &release));
    assert_eq!(held["run"]["state"], "held", "{held}");
    let run_id = held["run"]["run_id"].as_str().expect("an id");
    let changes = changes_of(control, run_id).await;
    let of_kind = |kind: &str| changes.iter().filter(|(found, ..)| found == kind).collect::<Vec<_>>();
    let row = |year: u32, value: u32| json!(format!("Aruba,ABW,{year},{value}"));
    assert_eq!(of_kind("withdrawn").len(), 40);
    assert_eq!(*of_kind("withdrawn")[0], ("withdrawn".into(), row(1900, 1), Value::Null));
    assert_eq!(of_kind("superseded"), [&("superseded".into(), row(1940, 1), row(1940, 7))]);
    let new = [row(1940, 7), row(2000, 1)].map(|row| ("became_valid".to_owned(), Value::Null, row));
    assert_eq!(of_kind("became_valid"), new.iter().collect::<Vec<_>>());
    let first = document(&get(control, &format!("/v1/runs/{run_id}/changes?limit=1")).await);
    let record_id = first["items"][0]["record_id"].as_str().expect("a record in force");
    assert_eq!(get(control, &format!("/v1/records/{record_id}/provenance")).await.status, 200);
    let shown = world.ctl(&["ingest", "changes", run_id, "-n", "5"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("withdrawn") && shown.contains("Aruba,ABW,1900,1"), "{shown}");

    let approved = world.ctl(&["ingest", "approve", run_id, "--reason", "a smaller census"]);
    assert!(approved.status.success(), "{approved:?}");
    assert_eq!(changes_of(control, run_id).await, changes);
    let undone = world.ctl(&["--json", "ingest", "undo", run_id, "--reason", "it was the wrong file"]);
    assert!(undone.status.success(), "{undone:?}");
    let undo = json_of(&undone)["run"]["run_id"].as_str().expect("an id").to_owned();
    let restored = changes_of(control, &undo).await;
    assert!(restored.len() >= 41, "{restored:?}");
    for (kind, before, after) in restored {
        match kind.as_str() {
            "undone" => assert!(before.is_string(), "{kind}: {before} {after}"),
            // a restored record is not shown as removed
            _ => assert!(after.is_string(), "{kind}: {before} {after}"),
        }
    }
}

#[tokio::test]
async fn lost_payload_is_a_fault_wherever_its_records_are_shown() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    prepare_gated_source(&world).await;
    let control = &mut daemon.control().await;
    let release = payload(1940..2001, 1).replace("1940,1\n", "1940,many\n");
    let held = json_of(&submit(&world, "2021-01-01", &release))["run"].clone();
    assert_eq!((&held["state"], &held["counts"]["rejected"]), (&json!("held"), &json!(1)), "{held}");
    let held_id = held["run_id"].as_str().expect("an id").to_owned();
    let runs = document(&get(control, &format!("/v1/runs?oracle_id={SOURCE}")).await);
    let runs = runs["items"].as_array().expect("an array").clone();
    let completed = runs.iter().map(|item| &item["run"]).find(|run| run["state"] == "completed");
    let completed = completed.expect("a completed run");
    let completed_id = completed["run_id"].as_str().expect("an id").to_owned();
    let shown = async |control: &mut DaemonClient, path: &str| get(control, path).await;
    let changes = |id: &str| format!("/v1/runs/{id}/changes?limit=5");
    let rejects = format!("/v1/runs/{held_id}/rejects?raw=true");
    let first = document(&shown(control, &changes(&held_id)).await);
    let record_id = first["items"][0]["record_id"].as_str().expect("a record in force").to_owned();
    let provenance = format!("/v1/records/{record_id}/provenance");
    let whole = document(&shown(control, &provenance).await);
    assert!(whole["raw_text"].is_string() && whole["raw_fault"].is_null(), "{whole}");
    assert!(document(&shown(control, &rejects).await)["items"][0]["raw_text"].is_string());

    for run in [&held, completed] {
        let digest = run["raw_sha256"].as_str().expect("a digest");
        fs::remove_file(world.state().join(format!("ground/raw/{digest}.raw")))
            .expect("the payload is there");
    }
    for path in [changes(&held_id), changes(&completed_id), rejects] {
        problem(&shown(control, &path).await, 500, "source_damaged");
    }
    let lost = document(&shown(control, &provenance).await);
    assert!(lost["raw_text"].is_null() && lost["raw_fault"].is_string(), "{lost}");
    let verified = world.ctl(&["--json", "source", "verify", SOURCE]);
    assert!(!verified.status.success(), "{verified:?}");
    let verified = json_of(&verified);
    let faults: Vec<_> =
        verified["runs"].as_array().expect("an array").iter().map(|run| &run["fault_count"]).collect();
    assert_eq!(faults, [&json!(1), &json!(1)], "{verified}");
    assert!(daemon.stop().success());
}
