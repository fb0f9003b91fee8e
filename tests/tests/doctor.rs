//! `oraclectl doctor`: each fault is found, with and without a running daemon.

use oracled_tests::generation::{read_verdict, register_session, unreachable_url, world_with_model};
use oracled_tests::{DaemonWorld, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A world that the doctor can check without a daemon, since the configuration names the state directory.
fn world_with(config: &str) -> DaemonWorld {
    let mut world = DaemonWorld::default();
    let state = world.state();
    world.config = format!("state_dir = \"{}\"\n{config}", state.display());
    world
}

/// The exit code and the report.
async fn doctor(world: &DaemonWorld) -> (Option<i32>, Value) {
    let config = world.config_file();
    let output = world.ctl_in_thread(&["doctor", "--json", "--config", &config.to_string_lossy()]).await;
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("the report is JSON"))
}

/// The checks of a report that have this level, by their names.
fn checks_of<'r>(report: &'r Value, level: &str) -> Vec<(&'r str, &'r str)> {
    let checks = report["checks"].as_array().expect("a list").iter().filter(|check| check["level"] == level);
    let text = |check: &'r Value, name: &str| check[name].as_str().expect("a text");
    checks.map(|check| (text(check, "check"), text(check, "value"))).collect()
}

/// Checks that the only fault is of `check`, and has a value with `value` and a remedy.
fn assert_one_fault(case: &str, (code, report): (Option<i32>, Value), check: &str, value: &str) {
    assert_eq!((code, &report["faults"]), (Some(1), &json!(1)), "{case}: {report}");
    let faults = checks_of(&report, "fault");
    assert!(faults[0].0 == check && faults[0].1.contains(value), "{case}: {report}");
    let checks = report["checks"].as_array().expect("a list");
    let has_remedy = |check: &&Value| check["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty());
    assert!(
        checks.iter().filter(|check| check["level"] != "pass").all(|check| has_remedy(&check)),
        "{report}"
    );
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode is set");
}

#[tokio::test]
async fn doctor_passes_all_checks_of_a_healthy_daemon() {
    let world = world_with("[model]\nprovider = \"none\"");
    let daemon = world.serve().await;
    let (code, report) = doctor(&world).await;
    assert_eq!((code, &report["faults"], &report["warnings"]), (Some(0), &json!(0), &json!(0)), "{report}");
    let passed: BTreeSet<_> = checks_of(&report, "pass").into_iter().map(|(check, _)| check).collect();
    let expected = ["clock", "configuration", "daemon", "disk", "key", "model", "permissions", "socket"];
    assert_eq!(passed, BTreeSet::from(expected), "{report}");
    let config = world.config_file();
    let shown = world.ctl_in_thread(&["doctor", "--config", &config.to_string_lossy()]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.lines().count() == report["checks"].as_array().map_or(0, Vec::len) + 1, "{shown}");
    assert!(shown.ends_with("0 faults, 0 warnings\n"), "{shown}");

    let draining = json!({"draining": true});
    assert_eq!(post(&mut daemon.control().await, "/v1/drain", &draining).await.status, 200);
    assert_one_fault("draining", doctor(&world).await, "daemon", "draining");
}

#[tokio::test]
async fn doctor_accepts_canned_answers_of_a_daemon_in_test_mode() {
    let mut world = world_with("[model]\nprovider = \"canned\"");
    world.flags.push("--test-mode".to_owned());
    let _daemon = world.serve().await;
    let (code, report) = doctor(&world).await;
    assert_eq!((code, &report["faults"]), (Some(0), &json!(0)), "{report}");
}

#[tokio::test]
async fn doctor_without_a_daemon_still_checks_files() {
    let world = world_with("[model]\nprovider = \"none\"");
    assert_one_fault("before the first start", doctor(&world).await, "daemon", "");
    assert!(world.serve().await.stop().success());
    let report = doctor(&world).await;
    let passed: BTreeSet<_> = checks_of(&report.1, "pass").into_iter().map(|(check, _)| check).collect();
    let expected = ["clock", "configuration", "disk", "key", "permissions"];
    assert_eq!(passed, BTreeSet::from(expected), "{}", report.1);
    assert_eq!(checks_of(&report.1, "warning").len(), 2, "the sockets do not exist: {}", report.1);
    assert_one_fault("stopped", report, "daemon", "");
}

#[tokio::test]
async fn doctor_finds_each_fault_of_files() {
    let mut world = world_with("[model]\nprovider = \"none\"\n[gate]\nheld_key_file = \"HELD\"");
    let held = world.path("held-key");
    fs::write(&held, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").expect("the file is written");
    set_mode(&held, 0o600);
    world.config = world.config.replace("HELD", &held.to_string_lossy());
    let daemon = world.serve().await;
    assert_eq!(doctor(&world).await.0, Some(0));

    set_mode(&world.state(), 0o777);
    assert_one_fault("state directory", doctor(&world).await, "permissions", "0777");
    set_mode(&world.state(), 0o700);

    let key = world.state().join("log.key");
    set_mode(&key, 0o644);
    assert_one_fault("key that all can read", doctor(&world).await, "key", "0644");
    set_mode(&key, 0o600);
    let content = fs::read(&key).expect("the key exists");
    fs::write(&key, "no key").expect("the key is written");
    assert_one_fault("damaged key", doctor(&world).await, "key", "Base64");
    fs::write(&key, content).expect("the key is written");

    set_mode(&held, 0o604);
    assert_one_fault("key that all can read", doctor(&world).await, "configuration", "0604");
    set_mode(&held, 0o600);

    let file = File::options().write(true).open(&key).expect("the file exists");
    let before = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    let ahead = SystemTime::now() + Duration::from_secs(3600);
    file.set_times(FileTimes::new().set_modified(ahead)).expect("the time is set");
    assert_one_fault("file of the future", doctor(&world).await, "clock", "newest file");
    file.set_times(before).expect("the time is set");

    set_mode(&world.control_socket(), 0o602);
    assert_one_fault("socket for all", doctor(&world).await, "socket", "0602");
    set_mode(&world.control_socket(), 0o640);
    let (code, report) = doctor(&world).await;
    assert_eq!((code, &report["warnings"]), (Some(0), &json!(1)), "{report}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn doctor_resolves_relative_paths_from_the_directory_of_the_daemon() {
    let world = world_with("[model]\nprovider = \"none\"\n[gate]\nheld_key_file = \"held-key\"");
    let held = world.path("held-key");
    fs::write(&held, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").expect("the file is written");
    set_mode(&held, 0o600);
    let mut command = world.command();
    command.current_dir(world.path(""));
    let daemon = world.ready(world.spawn_as(command)).await;
    let (code, report) = doctor(&world).await;
    assert_eq!((code, &report["faults"]), (Some(0), &json!(0)), "{report}");
    let is_checked = |(check, value): &(&str, &str)| *check == "secret" && value.contains("/held-key");
    assert!(checks_of(&report, "pass").iter().any(is_checked), "{report}");
    assert!(daemon.stop().success());
}

/// The report without `--config`, with the same home as the daemon.
async fn doctor_without_file(world: &DaemonWorld) -> (Option<i32>, Value) {
    let mut command = world.ctl_command(&["doctor", "--json"]);
    command.env("HOME", world.path("")).env_remove("XDG_CONFIG_HOME");
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("the command ends").expect("oraclectl starts");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("the report is JSON"))
}

#[tokio::test]
async fn doctor_checks_the_configuration_of_the_running_daemon() {
    let world = world_with("[model]\nprovider = \"none\"\n[storage]\nmin_free_bytes = 123731968");
    let default = world.path(".config/oracled/oracled.toml");
    fs::create_dir_all(default.parent().expect("a folder")).expect("the folder is made");
    fs::write(&default, "unknown = 1\n").expect("the file is written");
    let daemon = world.serve().await;
    let (code, report) = doctor_without_file(&world).await;
    assert_eq!((code, &report["faults"], &report["warnings"]), (Some(0), &json!(0), &json!(0)), "{report}");
    let passed = checks_of(&report, "pass");
    let file = world.config_file().display().to_string();
    assert!(
        passed.iter().any(|(check, value)| *check == "configuration" && value.contains(&file)),
        "{report}"
    );
    assert!(passed.iter().any(|(check, value)| *check == "disk" && value.contains("118 MiB")), "{report}");

    // the file is checked as it is now
    fs::write(&file, world.config.replace("123731968", "123731969")).expect("the file is written");
    let (code, report) = doctor_without_file(&world).await;
    let warnings = checks_of(&report, "warning");
    let is_named =
        |(check, value): &(&str, &str)| *check == "configuration" && value.contains("storage.min_free_bytes");
    assert!(code == Some(0) && warnings.len() == 1 && warnings.iter().any(is_named), "{report}");
    fs::write(&file, format!("unknown = 1\n{}", world.config)).expect("the file is written");
    assert_one_fault("changed file", doctor_without_file(&world).await, "configuration", "unknown");
    assert!(daemon.stop().success());
    let (code, report) = doctor_without_file(&world).await;
    let faults = checks_of(&report, "fault");
    assert_eq!((code, faults.len()), (Some(1), 2), "the default file, and no daemon: {report}");
}

#[tokio::test]
async fn doctor_reports_no_fault_of_the_setup_without_a_model_and_a_file() {
    let world = DaemonWorld::default();
    let mut command = world.oracled(&["serve"]);
    for (flag, path) in [
        ("--state-dir", world.state()),
        ("--socket", world.socket()),
        ("--control-socket", world.control_socket()),
    ] {
        command.arg(flag).arg(path);
    }
    let daemon = world.ready(world.spawn_as(command)).await;
    // a file that the daemon did not read
    let default = world.path(".config/oracled/oracled.toml");
    fs::create_dir_all(default.parent().expect("a folder")).expect("the folder is made");
    fs::write(&default, "unknown = 1\n").expect("the file is written");
    let (code, report) = doctor_without_file(&world).await;
    assert_eq!((code, &report["faults"]), (Some(0), &json!(0)), "{report}");
    let warnings = checks_of(&report, "warning");
    assert_eq!(warnings.iter().map(|(check, _)| *check).collect::<Vec<_>>(), ["model"], "{report}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn doctor_reports_each_fault_of_the_configuration_with_its_line() {
    let world = world_with("sokcet = \"/x\"\ncontrol_socket_group = \"no-such-group\"");
    let (code, report) = doctor(&world).await;
    let faults = checks_of(&report, "fault");
    assert_eq!((code, faults.len()), (Some(1), 3), "the daemon does not run either: {report}");
    for fault in ["line 2, is not a key", "`no-such-group`"] {
        let has = |(check, value): &(&str, &str)| *check == "configuration" && value.contains(fault);
        assert!(faults.iter().any(has), "{fault}: {report}");
    }
}

#[tokio::test]
async fn doctor_reports_failing_upstream_systems_and_a_missing_model_key() {
    let (_held, url) = unreachable_url();
    let mut world = world_with_model(&url, "");
    {
        let daemon = world.serve().await;
        let routes = &mut daemon.routes().await;
        for number in 0..3 {
            let session = format!("cs_{number}");
            register_session(routes, &session, None).await;
            assert_eq!(read_verdict(routes, &session).await.status, 503);
        }
        assert_one_fault("no connection", doctor(&world).await, "upstream", "gemini is circuit_open");
    }
    let config = std::mem::take(&mut world.config);
    world.config = format!("prompt_template = \"missing\"\n{config}");
    let daemon = world.serve().await;
    assert_one_fault("no template", doctor(&world).await, "model", "missing");
    assert!(daemon.stop().success());
    world.variables.clear();
    let _daemon = world.serve().await;
    assert_one_fault("no key", doctor(&world).await, "model", "it has no key");
}
