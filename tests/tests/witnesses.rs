//! Witnesses of the log: cosignatures, and the comparison with an older or a different log.

use crate::wording::{is_logged, stable, without_numbers};
use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{read_metric, register_session};
use oracled_tests::witness::{ScriptedWitness, WitnessFault, is_cosigned, witness_key};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, call, document, error_line, eventually, get, post, problem, submission,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, mem};

/// The output of `oraclectl`, which must succeed.
fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

async fn text(client: &mut DaemonClient, path: &str) -> String {
    let answer = call(client, Method::GET, path, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
    String::from_utf8(answer.body.to_vec()).expect("valid UTF-8")
}

async fn witness_report(control: &mut DaemonClient) -> Value {
    document(&get(control, "/v1/status").await)["witnesses"][0].clone()
}

/// Waits until the witness has cosigned the whole log. Returns the number of entries.
async fn cosigned_entries(daemon: &DaemonProcess<'_>, witness: &ScriptedWitness) -> u64 {
    let control = &mut daemon.control().await;
    let mut entries = 0;
    eventually("the whole log is cosigned", async || {
        let status = document(&get(control, "/v1/status").await);
        entries = status["entries"].as_u64().expect("a number");
        status["witnesses"][0]["cosigned_entries"] == entries && witness.held() == entries
    })
    .await;
    entries
}

/// A world whose log is known to the witness and cosigned, without a running daemon.
async fn cosigned_world(witness: &ScriptedWitness) -> DaemonWorld {
    let world = DaemonWorld::with_config(&witness.config());
    let daemon = world.serve().await;
    witness.trust(&printed(&world, &["log", "key"]));
    cosigned_entries(&daemon, witness).await;
    assert!(daemon.stop().success());
    world
}

/// Makes the daemon stop by the conflict of a single witness.
fn stop_at_one(world: &mut DaemonWorld) {
    world.config = world.config.replace("every_s", "stop_at_conflicts = 1\nevery_s");
}

/// The key of another witness.
const OTHER_KEY: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";
const CONFLICT: &str = "oracled_witness_conflict{witness=\"w1\"}";

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp starts").success());
}

#[tokio::test]
async fn checkpoint_is_cosigned_as_the_log_grows() {
    let witness = ScriptedWitness::start();
    let mut world = DaemonWorld::with_config(&witness.config());
    let dir = world.path("checkpoints");
    fs::create_dir(&dir).expect("the folder is created");
    world.config = world.config.replace("every_s", &format!("dir = '{}'\nevery_s", dir.display()));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // the witness does not know the log yet, which does not prevent the start
    assert_eq!(witness.take_requests().first(), Some(&(0, 404)));
    let failed = "oracled_witness_failures_total{witness=\"w1\",reason=\"refused\"}";
    assert!(read_metric(routes, failed).await >= 1.0);
    assert!(witness_report(control).await["failure"].as_str().is_some_and(|text| text.contains("404")));
    assert!(!is_cosigned(&text(control, "/v1/log/checkpoint?cosigned=1").await));

    let key = printed(&world, &["log", "key"]).trim().to_owned();
    witness.trust(&key);
    cosigned_entries(&daemon, &witness).await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let entries = cosigned_entries(&daemon, &witness).await;
    assert_eq!(witness_report(control).await["failure"], Value::Null);
    let newest = text(control, "/v1/log/checkpoint").await;
    assert!(is_cosigned(&newest) && newest.contains(&format!("\n{entries}\n")), "{newest}");

    // the proofs are for the cosigned checkpoint, also when the log has grown
    register_session(routes, "cs_2", None).await;
    let proved = text(routes, "/v1/verdicts/cs_1?proof=1").await;
    let bundle = printed(&world, &["log", "prove", "--session", "cs_1"]);
    for (name, document) in [("verdict", proved), ("bundle", bundle)] {
        let file = world.path(name).display().to_string();
        fs::write(&file, document).expect("the file is written");
        let verify = ["verify-log", &file, "--key", &key, "--witness", &witness_key(), "--json"];
        let report: Value = serde_json::from_str(&printed(&world, &verify)).expect("JSON");
        assert_eq!(report["cosigned"][0]["name"], "witness.example/w1");
        let refused = world.ctl(&[&verify[..], &["--witness", OTHER_KEY]].concat());
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
    let status = printed(&world, &["status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["witnesses"][0]["name"], "w1");
    assert!(status["witnesses"][0]["cosigned_at"].is_string(), "{status}");
    assert!(daemon.stop().success());
    let requests = witness.take_requests();
    assert!(requests.iter().all(|(_, status)| [200, 404].contains(status)), "{requests:?}");

    // the last checkpoint is cosigned, in the folder and in the service log
    assert!(witness.held() > entries);
    let file = |path: &PathBuf| fs::read_to_string(path).expect("the file is readable");
    let files: Vec<_> =
        fs::read_dir(&dir).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert!(files.len() >= 2 && files.iter().any(|path| is_cosigned(&file(path))), "{files:?}");
    let last = files.iter().find(|path| file(path).contains(&format!("\n{}\n", witness.held())));
    assert!(is_cosigned(&file(last.expect("the last checkpoint is in the folder"))));
    let last = [&format!("size={}", witness.held()), "witness.example/w1"];
    assert!(is_logged(&world, "INFO", &last), "{}", world.service_log());

    // a start learns the size at the witness, and proves that it continues this log
    let (held, daemon) = (witness.held(), world.serve().await);
    assert_eq!(witness.take_requests()[..2], [(0, 409), (held, 200)]);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn invalid_answer_of_a_witness_is_never_kept() {
    let witness = ScriptedWitness::start();
    let world = cosigned_world(&witness).await;
    for (fault, reason) in [
        (WitnessFault::Status(503), "unreachable"),
        (WitnessFault::Silence, "unreachable"),
        (WitnessFault::HangUp, "unreachable"),
        (WitnessFault::Garbage, "invalid"),
        (WitnessFault::Huge, "invalid"),
        (WitnessFault::Forged, "invalid"),
        (WitnessFault::OtherText, "invalid"),
        (WitnessFault::Unknown, "invalid"),
        (WitnessFault::Timeless, "invalid"),
        (WitnessFault::SizeAsText, "invalid"),
        (WitnessFault::Unsteady, "invalid"),
        (WitnessFault::Status(403), "refused"),
        (WitnessFault::Status(301), "refused"),
    ] {
        witness.set_fault(Some(fault));
        // it does not prevent the start
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        let failures = format!("oracled_witness_failures_total{{witness=\"w1\",reason=\"{reason}\"}}");
        assert!(read_metric(routes, &failures).await >= 1.0, "{fault:?}: {}", world.service_log());
        assert!(witness_report(control).await["failure"].is_string(), "{fault:?}");
        assert!(!is_cosigned(&text(control, "/v1/log/checkpoint?cosigned=1").await), "{fault:?}");
        assert_eq!(get(routes, "/readyz").await.status, 200, "{fault:?}");
        witness.set_fault(None);
        cosigned_entries(&daemon, &witness).await;
        assert_eq!(witness_report(control).await["failure"], Value::Null, "{fault:?}");
        assert!(is_cosigned(&text(control, "/v1/log/checkpoint?cosigned=1").await));
        assert!(daemon.stop().success());
    }
}

#[tokio::test]
async fn older_or_different_log_than_that_of_a_witness_is_refused() {
    let witness = ScriptedWitness::start();
    let mut world = cosigned_world(&witness).await;
    stop_at_one(&mut world);
    let (older, newer) = (world.path("older"), world.path("newer"));
    copy(&world.state(), &older);
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", None).await;
    cosigned_entries(&daemon, &witness).await;
    assert!(daemon.stop().success());
    let held = witness.held();

    fs::rename(world.state(), &newer).expect("the rename succeeds");
    copy(&older, &world.state());
    let refusal = error_line(world.command());
    insta::assert_snapshot!("older_copy_than_the_witness_has_cosigned", without_numbers(&refusal));

    // the older copy gets other entries while no witness is configured
    let config = mem::take(&mut world.config);
    let daemon = world.serve().await;
    let mut sessions = 0..;
    while document(&get(&mut daemon.control().await, "/v1/status").await)["entries"].as_u64() <= Some(held) {
        let session = format!("cs_{}", sessions.next().unwrap_or(0) + 100);
        register_session(&mut daemon.routes().await, &session, None).await;
    }
    assert!(daemon.stop().success());
    world.config = config;
    let refusal = error_line(world.command());
    insta::assert_snapshot!("other_entries_than_the_witness_has_cosigned", without_numbers(&refusal));

    fs::remove_dir_all(world.state()).expect("the removal succeeds");
    fs::rename(&newer, world.state()).expect("the rename succeeds");
    let daemon = world.serve().await;
    assert!(cosigned_entries(&daemon, &witness).await > held);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn conflict_that_is_found_late_stops_new_work_until_it_is_solved() {
    let witness = ScriptedWitness::start();
    let mut world = cosigned_world(&witness).await;
    stop_at_one(&mut world);
    let older = world.path("older");
    copy(&world.state(), &older);
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    cosigned_entries(&daemon, &witness).await;
    assert!(daemon.stop().success());

    fs::remove_dir_all(world.state()).expect("the removal succeeds");
    fs::rename(&older, world.state()).expect("the rename succeeds");
    witness.set_fault(Some(WitnessFault::HangUp));
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 201);
    witness.set_fault(None);
    eventually("the conflict is found", async || get(routes, "/readyz").await.status == 503).await;
    let reasons = document(&get(routes, "/readyz").await)["reasons"].to_string();
    assert!(reasons.contains("log_conflict") && reasons.contains("w1"), "{reasons}");
    assert_eq!(read_metric(routes, "oracled_witness_conflict{witness=\"w1\"}").await, 1.0);
    problem(&post(routes, "/v1/verdicts/cs_3", &submission(GOOD)).await, 503, "storage_unavailable");
    assert_eq!(get(routes, "/v1/verdicts/cs_2").await.status, 200, "reads continue");
    assert!(is_logged(&world, "ERROR", &["w1"]), "{}", world.service_log());

    // an operator of the witness has removed its record of the log
    witness.forget();
    eventually("the conflict is solved", async || get(routes, "/readyz").await.status == 200).await;
    assert_eq!(read_metric(routes, "oracled_witness_conflict{witness=\"w1\"}").await, 0.0);
    assert_eq!(post(routes, "/v1/verdicts/cs_3", &submission(GOOD)).await.status, 201);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn conflict_of_a_single_witness_stops_nothing_by_default() {
    let witness = ScriptedWitness::start();
    let world = cosigned_world(&witness).await;
    for (fault, session) in [(WitnessFault::Status(422), "cs_1"), (WitnessFault::Longer, "cs_2")] {
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        cosigned_entries(&daemon, &witness).await;
        witness.set_fault(Some(fault));
        eventually("it is confirmed", async || read_metric(routes, CONFLICT).await > 0.0).await;
        assert_eq!(get(routes, "/readyz").await.status, 200, "{fault:?}");
        let path = format!("/v1/verdicts/{session}");
        assert_eq!(post(routes, &path, &submission(GOOD)).await.status, 201, "{fault:?}");
        assert!(witness_report(control).await["failure"].is_string(), "{fault:?}");
        witness.set_fault(None);
        eventually("it is solved", async || read_metric(routes, CONFLICT).await < 1.0).await;
        witness.set_fault(Some(fault));
        assert!(daemon.stop().success());
        // it does not prevent a start
        assert!(world.serve().await.stop().success());
        witness.set_fault(None);
    }
}

#[tokio::test]
async fn conflict_that_a_witness_reports_once_stops_nothing() {
    let witness = ScriptedWitness::start();
    let mut world = cosigned_world(&witness).await;
    stop_at_one(&mut world);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for fault in [WitnessFault::Status(422), WitnessFault::Longer] {
        cosigned_entries(&daemon, &witness).await;
        let failures = "oracled_witness_failures_total{witness=\"w1\",reason=\"conflict\"}";
        let before = read_metric(routes, failures).await;
        witness.set_fault(Some(fault));
        eventually("it is reported", async || read_metric(routes, failures).await > before).await;
        witness.set_fault(None);
        assert_eq!(get(routes, "/readyz").await.status, 200, "{fault:?}");
        eventually("it cosigns again", async || witness_report(control).await["failure"].is_null()).await;
        assert_eq!(get(routes, "/readyz").await.status, 200, "{fault:?}");
    }
    assert!(!is_logged(&world, "ERROR", &["w1"]), "{}", world.service_log());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn conflicts_of_two_witnesses_stop_new_work() {
    let (first, second) = (ScriptedWitness::start(), ScriptedWitness::start());
    let mut world = cosigned_world(&first).await;
    let table = second.config().replace(&witness_key(), OTHER_KEY);
    let (_, table) = table.split_once("[checkpoints.witnesses.w1]").expect("a table");
    world.config.push_str(&format!("[checkpoints.witnesses.w2]{table}"));
    for witness in [&first, &second] {
        witness.set_fault(Some(WitnessFault::Longer));
    }
    let refusal = error_line(world.command());
    insta::assert_snapshot!("conflicts_of_two_witnesses", without_numbers(&refusal));
}

#[tokio::test]
async fn replaced_newest_checkpoint_is_noticed_by_that_of_the_day() {
    let mut world = DaemonWorld::default();
    let dir = world.path("checkpoints");
    fs::create_dir(&dir).expect("the folder is created");
    world.config = format!("[checkpoints]\ndir = '{}'\n", dir.display());
    assert!(world.serve().await.stop().success());
    let (older, older_dir) = (world.path("older"), world.path("older-checkpoints"));
    copy(&world.state(), &older);
    copy(&dir, &older_dir);
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", None).await;
    assert!(daemon.stop().success());

    fs::remove_dir_all(world.state()).expect("the removal succeeds");
    fs::rename(&older, world.state()).expect("the rename succeeds");
    let names = fs::read_dir(&older_dir).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let newest = names.min_by_key(|name| name.len()).expect("a checkpoint");
    fs::copy(older_dir.join(&newest), dir.join(&newest)).expect("the copy succeeds");
    let refusal = error_line(world.command());
    let log = newest.to_str().and_then(|name| name.split('.').next()).expect("the name of the log");
    insta::assert_snapshot!(
        "older_copy_than_the_checkpoint_of_the_day",
        without_numbers(&stable(&world, &refusal).replace(log, "LOG"))
    );

    // the instruction works
    let aside = world.path("aside");
    fs::rename(&dir, &aside).expect("the rename succeeds");
    fs::create_dir(&dir).expect("the folder is created");
    assert!(world.serve().await.stop().success());
}
