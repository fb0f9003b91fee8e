//! Dropping old entries of the log: the rest stays proved, and requests for dropped entries are refused.

use hyper::Method;
use oracled_tests::old_state::register_days_ago;
use oracled_tests::{DaemonWorld, GOOD, eventually, get, log, post, problem, submission};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

const OLD: usize = 700;

fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

fn json(world: &DaemonWorld, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(world, &[&["--json"], arguments].concat())).expect("JSON")
}

fn exit_code(world: &DaemonWorld, arguments: &[&str]) -> Option<i32> {
    world.ctl(arguments).status.code()
}

fn file(world: &DaemonWorld, name: &str, content: &str) -> String {
    let path = world.path(name);
    fs::write(&path, content).expect("the write succeeds");
    path.to_str().expect("valid UTF-8").to_owned()
}

fn lines_of(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).expect("the file is readable");
    let seq = |line: &str| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64();
    text.lines().map(|line| seq(line).expect("an entry")).collect()
}

/// A world with many entries that are 40 days old.
fn old_world() -> DaemonWorld {
    let mut world = DaemonWorld::default();
    world.config.push_str("\n[retention]\nlog_days = 30\n");
    let names: Vec<_> = (0..OLD).map(|n| format!("old-{n}")).collect();
    register_days_ago(&world.state(), names.iter().map(|name| (name.as_str(), 40)));
    world
}

#[tokio::test]
async fn log_without_its_old_entries_is_verified_by_all_commands() {
    let world = old_world();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let answer = post(routes, "/v1/verdicts/new-1", &submission(GOOD)).await;
    assert_eq!(answer.status, 201);
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let key = ["--key", &key];
    let since = file(&world, "checkpoint", &printed(&world, &["log", "checkpoint"]));
    let bundle = file(&world, "bundle", &printed(&world, &["log", "prove", "--seq", "5"]));
    let [before, after, backup] = ["before", "after", "backup"].map(|name| world.path(name));
    let [before, after, backup] = [&before, &after, &backup].map(|path| path.to_str().expect("valid UTF-8"));
    printed(&world, &["log", "export", before]);

    let due = json(&world, &["retention", "--dry-run"]);
    let dropped = due["due"]["log"]["last_seq"].as_u64().expect("a number");
    assert_eq!(due["due"]["log"]["count"], dropped);
    assert!((OLD as u64 - 300..=OLD as u64).contains(&dropped), "{due}");
    let done = json(&world, &["retention"]);
    assert_eq!(
        (&done["due"]["log"]["last_seq"], &done["unread_files"]),
        (&dropped.into(), &Value::Array(Vec::new()))
    );
    assert_eq!(json(&world, &["retention", "--dry-run"])["due"]["log"]["count"], 0);

    let kept = log(control, "after=0&limit=10000").await;
    assert_eq!(kept.first().map(|entry| entry["seq"].as_u64()), Some(Some(dropped + 1)));
    assert_eq!(lines_of(&world.state().join("oracle_log.jsonl")).first(), Some(&(dropped + 1)));
    let answer = get(control, "/v1/log/tile/entries/000").await;
    problem(&answer, 410, "entry_dropped");
    let refused = world.ctl(&["log", "prove", "--seq", "5"]);
    assert_eq!(refused.status.code(), Some(1));
    // the error names the first entry that is left
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains(&format!("entry {}", dropped + 1)), "{error}");
    let answer = control.call(Method::GET, "/v1/sessions/old-3", None).await.expect("the server answers");
    assert_eq!(answer.status, 200, "the state stays");

    // proofs from before, and new ones
    printed(&world, &[&["verify-log", &bundle], &key[..]].concat());
    let of_kept = printed(&world, &["log", "prove", "--session", "new-1", "--since", &since]);
    let of_kept = file(&world, "bundle-2", &of_kept);
    printed(&world, &[&["verify-log", &of_kept, "--since", &since], &key[..]].concat());
    printed(&world, &["log", "export", after]);
    printed(&world, &["backup", backup]);
    let state = world.state().to_str().expect("valid UTF-8").to_owned();
    for (dir, member) in [(after, "dropped"), (backup, "first_seq"), (&state, "first_seq")] {
        let verified =
            json(&world, &[&["verify-log", dir, "--since", &since, "--replay"], &key[..]].concat());
        let found = verified[member].as_u64().expect("a number");
        let expected = if member == "dropped" { dropped.next_multiple_of(256) } else { dropped + 1 };
        assert_eq!(found, expected, "{dir}");
    }
    // an export from before has all entries; it can be continued
    printed(&world, &["log", "export", before]);
    let verified = json(&world, &[&["verify-log", before, "--since", &since], &key[..]].concat());
    assert_eq!(verified["dropped"], 0);
    // it can lack the leaves of dropped entries, and of no other ones
    for (file, expected) in [("000", Some(0)), ("001", Some(0)), ("002.p", Some(1))] {
        let path = world.path("before/tile/entries").join(file);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.expect("the removal succeeds");
        assert_eq!(exit_code(&world, &[&["verify-log", before], &key[..]].concat()), expected, "{file}");
    }
    assert!(daemon.stop().success());
    let restored = world.path("restored");
    let restored = restored.to_str().expect("valid UTF-8");
    printed(&world, &[&["restore", backup, "--state-dir", restored], &key[..]].concat());
    assert_eq!(json(&world, &[&["verify-log", restored], &key[..]].concat())["first_seq"], dropped + 1);

    // the log that is left is enough for another database
    fs::remove_dir_all(world.state().join("store")).expect("the database is removed");
    let daemon = world.serve().await;
    let again = log(&mut daemon.control().await, "after=0&limit=10000").await;
    assert_eq!(again[..kept.len()], kept);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn drop_of_old_entries_is_complete_despite_kills() {
    let world = old_world();
    let key = {
        let daemon = world.serve().await;
        let key = printed(&world, &["log", "key"]).trim().to_owned();
        assert!(daemon.stop().success());
        key
    };
    let state = world.state().to_str().expect("valid UTF-8").to_owned();
    for wait_ms in [0, 5, 15, 30, 60] {
        let daemon = world.serve().await;
        let mut removing = world.ctl_command(&["retention"]).spawn().expect("oraclectl runs");
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        daemon.kill();
        removing.wait().expect("oraclectl ends");
        printed(&world, &["verify-log", &state, "--key", &key]);
    }
    let daemon = world.serve().await;
    printed(&world, &["retention"]);
    let control = &mut daemon.control().await;
    eventually("the removal ends", async || {
        let started = log(control, "event=retention_started&after=0").await.len();
        started == log(control, "event=retention_applied&after=0").await.len()
    })
    .await;
    let first = log(control, "after=0&limit=1").await[0]["seq"].as_u64().expect("a number");
    assert!(first > OLD as u64 - 300, "{first}");
    let verified = json(&world, &["verify-log", &state, "--key", &key]);
    assert_eq!(verified["first_seq"], first);
    assert!(daemon.stop().success());
}
