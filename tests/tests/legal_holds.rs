//! A session on legal hold: nothing removes its data until the hold is released.

use crate::erasure::{deliver, files_with};
use oracled_tests::old_state::register_days_ago;
use oracled_tests::{DaemonWorld, log};
use serde_json::{Value, json};

/// The exit code of a command, and its problem or its answer.
fn run(world: &DaemonWorld, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = world.ctl(&[&["--json"], arguments].concat());
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    let answer = serde_json::from_slice(text);
    (output.status.code(), answer.unwrap_or_else(|_| json!(String::from_utf8_lossy(text))))
}

#[tokio::test]
async fn session_on_hold_is_not_removed_by_anyone_until_the_hold_is_released() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for session in ["ada", "bob"] {
        deliver(&mut daemon.routes().await, session, "ada-7421").await;
    }
    let (code, unknown) = run(&world, &["hold", "--session", "eve", "--reason", "case 17"]);
    assert_eq!(code, Some(1), "{unknown}");
    let (code, hold) = run(&world, &["hold", "--session", "ada", "--reason", "case 17"]);
    assert_eq!((code, &hold["first_seq"]), (Some(0), &json!(2)), "{hold}");
    // a second hold changes nothing, and the command reports that
    let again = |reason: &str| world.ctl(&["hold", "--session", "ada", "--reason", reason]).stdout;
    assert_ne!(again("case 17"), again("other"));
    assert_eq!(run(&world, &["hold", "--session", "ada", "--reason", "other"]).1, hold);
    assert_eq!(run(&world, &["hold"]).1, json!({"holds": [hold]}));
    assert_eq!(run(&world, &["session", "ada"]).1["legal_hold"], hold);
    let mut control = daemon.control().await;
    let entries = log(&mut control, "after=0").await.len();
    for refused in [
        ["purge", "ada"].as_slice(),
        &["session", "remove", "ada"],
        &["erase", "--session", "ada", "--reason", "asked"],
        // bob has the same address: none of the two is erased
        &["erase", "--email", "ada-7421@example.org", "--reason", "asked"],
    ] {
        let (code, fault) = run(&world, refused);
        assert_eq!(code, Some(1), "{refused:?}: {fault}");
        let parts = ["case 17", "oraclectl hold --session", "--release"];
        assert!(parts.iter().all(|part| fault.to_string().contains(part)), "{refused:?}: {fault}");
    }
    assert_eq!(log(&mut control, "after=0").await.len(), entries + 2, "only the refused erasures are new");
    assert!(daemon.stop().success());
    // also after a restart
    let daemon = world.serve().await;
    assert_eq!(run(&world, &["erase", "--session", "ada", "--reason", "asked"]).0, Some(1));
    let release = ["hold", "--session", "ada", "--release", "--reason", "closed"];
    assert_eq!(run(&world, &release), (Some(0), json!({"session_id": "ada"})));
    assert_eq!(run(&world, &release).0, Some(1), "there is no hold any more");
    let (code, erased) = run(&world, &["erase", "--email", "ada-7421@example.org", "--reason", "asked"]);
    assert_eq!((code, erased["sessions"].as_array().map(Vec::len)), (Some(0), Some(2)), "{erased}");
    assert!(files_with(&world.state(), "ada-7421").is_empty());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn refused_erasure_of_a_person_names_all_holds_and_is_logged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for session in ["ada", "bob", "eve"] {
        deliver(&mut daemon.routes().await, session, "ada-7421").await;
    }
    for (session, case) in [("ada", "case 17"), ("eve", "case 18")] {
        let (code, hold) = run(&world, &["hold", "--session", session, "--reason", case]);
        assert_eq!((code, &hold["erasure_refused_at"]), (Some(0), &Value::Null), "{hold}");
    }
    let (_, fault) = run(&world, &["erase", "--email", "ada-7421@example.org", "--reason", "asked"]);
    let fault = fault.to_string();
    assert!(["session_on_hold", "case 17", "case 18"].iter().all(|part| fault.contains(part)), "{fault}");
    let refused = log(&mut daemon.control().await, "event=erasure_refused&after=0").await;
    let named = |name: &str| -> Vec<_> { refused.iter().map(|entry| entry[name].clone()).collect() };
    assert_eq!(named("session_id"), [json!("ada"), json!("eve")]);
    assert_eq!(named("reason"), [json!("asked"), json!("asked")]);
    assert!(refused.iter().all(|entry| entry["peer"]["uid"].is_u64()), "{refused:?}");
    let listed = run(&world, &["hold"]).1;
    let mut holds = listed["holds"].as_array().expect("a list").iter();
    assert!(holds.all(|hold| hold["erasure_refused_at"].is_string()), "{listed}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn retention_keeps_a_session_on_hold_and_the_log_from_its_first_entry_on() {
    let mut world = DaemonWorld::default();
    world.config.push_str("\n[retention]\nverdicts_days = 30\nlog_values_days = 30\n");
    register_days_ago(&world.state(), [("eve", 50), ("ada", 40), ("bob", 40)]);
    let daemon = world.serve().await;
    let (code, hold) = run(&world, &["hold", "--session", "ada", "--reason", "case 17"]);
    assert_eq!((code, &hold["first_seq"]), (Some(0), &json!(2)), "{hold}");
    let (code, removed) = run(&world, &["retention"]);
    let due = &removed["due"];
    // the sessions of eve and bob; the values of the entry before the hold
    assert_eq!(
        (code, &due["verdicts"]["count"], &due["log_values"]["count"], &removed["legal_holds"]),
        (Some(0), &json!(2), &json!(1), &json!([hold])),
        "{removed}"
    );
    assert!(files_with(&world.state(), "eve-7421").is_empty());
    assert!(files_with(&world.state(), "bob-7421").is_empty(), "an expired session goes as a whole");
    let (code, page) = run(&world, &["session", "ada"]);
    assert_eq!((code, &page["customer_email"]), (Some(0), &json!("ada-7421@example.org")));
    assert!(page["history"][0].to_string().contains("ada-7421"), "{page}");
    let release = ["hold", "--session", "ada", "--release", "--reason", "closed"];
    assert_eq!(run(&world, &release).0, Some(0));
    assert_eq!(run(&world, &["retention"]).1["due"]["verdicts"]["count"], 1);
    assert!(files_with(&world.state(), "ada-7421").is_empty());
    assert!(daemon.stop().success());
}
