//! `oraclectl verify`, `explain` and `review`: text and JSON output and exit statuses.

use oracled_tests::ground::register as register_source;
use oracled_tests::verification::{register, register_offices, several_years, workflow};
use oracled_tests::{DaemonWorld, PATIENCE, at, document, get};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

const ARUBA: [&str; 5] = ["verify", "census", "area=ABW", "year=1960", "--axes=population"];

/// Two sources that disagree on Aruba in 1960, and a workflow in which the source of the higher tier wins.
async fn serve_census(world: &DaemonWorld, settings: Value) -> oracled_tests::DaemonProcess<'_> {
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "secondary", "54608")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a", "office-b"], settings)).await;
    daemon
}

fn output_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains('\u{1b}'), "no colors without a terminal");
    text + &String::from_utf8_lossy(&output.stderr)
}

/// Runs `oraclectl`, which must end with this exit status, and returns its output.
#[track_caller]
fn ctl(world: &DaemonWorld, arguments: &[&str], status: i32) -> String {
    let output = world.ctl(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", output_text(&output));
    output_text(&output)
}

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
}

/// Id of the open review.
async fn open_review(daemon: &oracled_tests::DaemonProcess<'_>) -> String {
    let listed = get(&mut daemon.control().await, "/v1/reviews").await;
    at(&listed, "/items/0/review_id").as_str().expect("a review is open").to_owned()
}

#[tokio::test]
async fn verified_value_is_shown_with_its_evidence_and_conflict_steps() {
    let world = DaemonWorld::default();
    let _daemon = serve_census(&world, json!({})).await;
    let shown = ctl(&world, &ARUBA, 0);
    assert_lines(
        &shown,
        &[
            "authoritative: all values are verified",
            "subject     area ABW, year 1960",
            "population: 54208 {person}",
            "the sources disagreed, and the conflicts were settled as shown below",
            "office-a (primary), version 2026-03-06, as of 2026-03-06T00:00:00Z: controlled ingestion",
            "population 1: office-a (primary) 54208 against office-b (secondary) 54608, 400 apart: higher_tier_wins kept the first",
        ],
    );
    assert!(!shown.contains("next: "), "{shown}");
    let envelope: Value =
        serde_json::from_str(&ctl(&world, &[&ARUBA[..], &["--json"]].concat(), 0)).expect("JSON");
    let id = envelope["execution_id"].as_str().expect("a string");

    let explained = ctl(&world, &["explain", id], 0);
    assert_lines(&explained, &["population: 54208 {person}", "while the caller waited", "asked at"]);
    let digests = format!(
        "reproduced from the log, bit for bit: envelope {}, inputs {}",
        envelope["sha256"].as_str().expect("a digest"),
        envelope["inputs_sha256"].as_str().expect("a digest")
    );
    assert_lines(&explained, &[&digests]);
    let json: Value = serde_json::from_str(&ctl(&world, &["explain", id, "--json"], 0)).expect("JSON");
    assert_eq!(
        (&json["decisions"][0]["envelope"], &json["decisions"][0]["reproduced"]),
        (&envelope, &json!(true))
    );
    assert_lines(&ctl(&world, &["explain", "v-none"], 1), &["shop/cs_1", "(execution_unknown)"]);
}

#[tokio::test]
async fn review_is_shown_with_next_step_and_its_resolution_is_returned() {
    let world = DaemonWorld::default();
    let changes = json!({"conflict_resolution": {"escalation_delta_threshold": 399}});
    let daemon = serve_census(&world, changes).await;
    let claim = [&ARUBA[..], &["--claim=population=1", "--by=a visitor\u{1b}[2J"]].concat();
    let shown = ctl(&world, &claim, 6);
    let id = open_review(&daemon).await;
    assert_lines(
        &shown,
        &[
            "human_review: a reviewer has to decide",
            "population: no value (human_review), at most 400 apart",
            "differ by more than may be settled without a reviewer (delta_threshold)",
            "a claim differs from the value of a source (oracle_vs_user)",
            "  claimed: 1 by a visitor\\u{1b}[2J",
            &format!("next: oraclectl review show {id}"),
        ],
    );
    assert_lines(&ctl(&world, &["status"], 0), &["1 open"]);
    assert_lines(
        &ctl(&world, &["review", "list", "--workflow=census"], 0),
        &[&id, "area ABW, year 1960", "delta_threshold", "54208, 54608, claimed 1"],
    );
    assert_eq!(ctl(&world, &["review", "list", "--workflow=another"], 0), "no reviews\n");
    assert_lines(
        &ctl(&world, &["review", "show", &id], 0),
        &[
            "population 54208",
            "population 54608",
            "a visitor\\u{1b}[2J claims 1",
            "oraclectl provenance ",
            "raw record of office-a: ",
            &format!("next: oraclectl review resolve {id} population=VALUE"),
        ],
    );
    let resolve = |value: &str, validity: &str, status| {
        let validity = format!("--valid-for={validity}");
        let args = ["review", "resolve", &id, "--reason=the census", &validity];
        ctl(&world, &args.into_iter().chain(value.split(' ')).collect::<Vec<_>>(), status)
    };
    assert_lines(&resolve("population=many", "90d", 1), &["`values.population`: ", "(invalid_resolution)"]);
    assert_lines(&resolve("population=54300", "0s", 1), &["`valid_for_seconds` is 0; allowed: 1 to "]);
    assert_lines(
        &resolve("population=54300", "90d", 1),
        &["no candidate or claim has 54300; they have: 1, 54208, 54608"],
    );
    assert_lines(&resolve("population=54300", "3months", 2), &["use 90d, 12h or 30m"]);
    let own = resolve("--own-value population=54300", "90d", 0);
    assert_lines(&own, &["is resolved", "population 54300", "the census", "valid until"]);
    assert_lines(&resolve("population=54300", "90d", 1), &["(review_resolved)"]);
    assert_eq!(ctl(&world, &["review", "list"], 0), "no reviews\n");
    assert_lines(&ctl(&world, &["review", "list", "--all"], 0), &[&id, "resolved at "]);
    assert_lines(
        &ctl(&world, &ARUBA, 0),
        &[
            "population: 54300 {person}",
            "a reviewer decided this value",
            "human-lock (human_lock)",
            "human review by ",
        ],
    );
    let revoke = ["review", "revoke", &id, "--reason=misread"];
    assert_lines(&ctl(&world, &revoke, 0), &["is revoked", "revoked  by ", "misread"]);
    assert_lines(&ctl(&world, &revoke, 1), &["(review_not_in_force)"]);
    assert_lines(&ctl(&world, &["review", "list", "--all"], 0), &[", revoked at "]);
    assert_lines(
        &ctl(&world, &["review", "show", &id], 0),
        &["\nvalid until  ", "\nrevoked      by ", "\nreason       misread\n"],
    );
    assert_lines(&ctl(&world, &ARUBA, 6), &["human_review: a reviewer has to decide"]);
}

#[tokio::test]
async fn several_reviews_are_dismissed_at_once_with_a_result_for_each() {
    let world = DaemonWorld::default();
    let settings = json!({"conflict_resolution": {"escalation_delta_threshold": 399}});
    let daemon = serve_census(&world, settings.clone()).await;
    let again = workflow("again", &["office-a", "office-b"], settings);
    register(&mut daemon.control().await, &again).await;
    let [first, second] = ["census", "again"].map(|workflow| {
        let question = [&["verify", workflow], &ARUBA[2..]].concat();
        ctl(&world, &question, 6);
        let envelope = ctl(&world, &[&question[..], &["--json"]].concat(), 6);
        let envelope: Value = serde_json::from_str(&envelope).expect("JSON");
        envelope["review_id"].as_str().expect("a review is open").to_owned()
    });
    assert_ne!(first, second);
    assert_lines(&ctl(&world, &["review", "dismiss", "--reason=healed"], 2), &["<REVIEW_ID>"]);
    assert_lines(
        &ctl(&world, &["review", "dismiss", &first, "--reason="], 1),
        &["`reason`", "(invalid_resolution)"],
    );
    assert_lines(&ctl(&world, &["review", "list"], 0), &[&first, &second]);

    let output = ctl(&world, &["review", "dismiss", "v-none", &first, &first, &second, "--reason=healed"], 1);
    let is_dismissed = [&first, &second].map(|id| format!("review {id} is dismissed\ndismissed  by "));
    assert_lines(&output, &[&is_dismissed[0], &is_dismissed[1], "reason     healed\n"]);
    assert_lines(&output, &["no review has the id v-none; ", "(review_unknown)", "(review_dismissed)"]);
    assert_eq!(output.matches("oraclectl: ").count(), 2, "each is reported once: {output}");
    assert_eq!(ctl(&world, &["review", "list"], 0), "no reviews\n");
    assert_lines(&ctl(&world, &["review", "list", "--all"], 0), &[&first, &second, "dismissed at "]);
    let shown = ctl(&world, &["review", "show", &first], 0);
    assert_lines(&shown, &["dismissed  by ", "reason     healed"]);
    assert!(!shown.contains("next: "), "{shown}");
    assert_lines(&ctl(&world, &["log", "--event=review_dismissed"], 0), &[&first, &second, ": healed"]);

    let json = ctl(&world, &["review", "dismiss", &first, "v-none", "--reason=healed", "--json"], 1);
    let codes = json.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let codes: Vec<_> = codes.map(|problem| problem["code"].clone()).collect();
    assert_eq!(codes, ["review_dismissed", "review_unknown"], "{json}");
    ctl(&world, &ARUBA, 6);
    let third = open_review(&daemon).await;
    let state: Value =
        serde_json::from_str(&ctl(&world, &["review", "dismiss", &third, "--reason=healed", "--json"], 0))
            .expect("JSON");
    assert_eq!(state["dismissed"]["reason"], "healed");
    drop(daemon);
    assert_lines(&ctl(&world, &["review", "dismiss", &third, "--reason=healed"], 3), &["oraclectl: "]);
}

#[tokio::test]
async fn unverified_outcome_exits_with_6_and_shows_its_reason() {
    let world = DaemonWorld::default();
    let daemon = serve_census(&world, json!({})).await;
    let control = &mut daemon.control().await;
    register_source(control, "world-bank-population").await;
    register(control, &workflow("silent", &["world-bank-population"], json!({}))).await;
    let later = json!({"authority_latency": {"authority_latency_budget_ms": 100, "enforcement_mode": "ASYNC", "on_timeout_behavior": "ESCALATE"}});
    register(control, &workflow("later", &["office-a"], later)).await;
    let silent = ctl(&world, &["verify", "silent", "area=ABW", "year=1960", "--axes=population"], 6);
    assert_lines(
        &silent,
        &[
            "blocked: no values are available for now",
            "population: no value",
            "is not approved yet",
            "next: ",
        ],
    );
    let open = ctl(&world, &["verify", "census", "area=ABW", "--axes=population"], 6);
    assert_lines(&open, &["requires_specification: ", "next: specify year as AXIS=VALUE"]);
    assert_lines(&ctl(&world, &["verify", "census", "--axes=population"], 6), &["subject     none\n"]);
    let pending = ctl(&world, &["verify", "later", "area=ABW", "year=1960", "--axes=population"], 6);
    assert_lines(&pending, &["provisional: the decision is pending", "next: oraclectl explain v-"]);
    let waited = ctl(&world, &["verify", "later", "area=ABW", "year=1960", "--axes=population", "--wait"], 0);
    assert_lines(&waited, &["population: 54208 {person}"]);

    assert_lines(
        &ctl(&world, &["verify", "census", "area=ABW", "--axes=height"], 1),
        &["(invalid_verification)"],
    );
    assert_lines(
        &ctl(&world, &["verify", "none", "area=ABW", "--axes=height"], 1),
        &["`oraclectl get workflow`"],
    );
    assert_lines(&ctl(&world, &["verify", "census", "a=1", "a=2", "--axes=b"], 2), &["`a` is given twice"]);
    assert_lines(&ctl(&world, &["verify", "census", "area"], 2), &["AXIS=VALUE"]);
    assert_lines(
        &ctl(&world, &["verify", "census", "--axes=population", "--claim=population=1"], 2),
        &["--by"],
    );
}

#[tokio::test]
async fn review_watch_shows_reviews_when_they_are_opened() {
    let world = DaemonWorld::default();
    let daemon =
        serve_census(&world, json!({"conflict_resolution": {"escalation_delta_threshold": 1}})).await;
    several_years(&daemon, &[("office-a", "54208"), ("office-b", "54608")], 1960..1980).await;
    let ask = |year: u16| {
        ctl(&world, &["verify", "census", "area=ABW", &format!("year={year}"), "--axes=population"], 6);
    };
    ask(1960);
    let mut watching = world
        .ctl_command(&["review", "watch", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the start succeeds");
    let mut lines = BufReader::new(watching.stdout.take().expect("the output is piped")).lines();
    // `watch` follows the log from its end at the time of its request; earlier reviews are not shown
    let (seen, line) = std::sync::mpsc::channel();
    let reader =
        std::thread::spawn(move || lines.next().map(|line| drop(seen.send(line.expect("valid UTF-8")))));
    let mut line_of = None;
    for year in 1961..1980 {
        ask(year);
        if let Ok(line) = line.recv_timeout(PATIENCE / 60) {
            line_of = Some(line);
            break;
        }
    }
    watching.kill().expect("the process is running");
    watching.wait().expect("the process ends");
    drop(reader.join());
    let shown_review: Value =
        serde_json::from_str(&line_of.expect("a review was shown")).expect("valid JSON");
    assert_eq!(ctl(&world, &["review", "list", "-n", "1"], 0).matches(" census ").count(), 1, "the newest");
    let listed = document(&get(&mut daemon.control().await, "/v1/reviews").await);
    let listed = listed["items"].as_array().expect("an array");
    assert!(listed.contains(&shown_review), "{shown_review}");
    assert_ne!(shown_review["where"]["year"], "1960", "an earlier review is not shown");
}
