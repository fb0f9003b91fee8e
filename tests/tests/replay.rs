//! `oraclectl verify-log --replay`: every decision of a daemon is computed again, offline.

use domain_base::event::{AuditEvent, Event};
use domain_rules::RuleVerdict;
use domain_rules::event::RulesEvaluated;
use domain_verdict::divergence::DivergenceLevel;
use domain_verdict::event::{RegenDivergenceCheck, TmmCrosscheck};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verification::event::{ReviewOpened, SourceAsked, VerificationDecided};
use oracled_api::client::DaemonClient;
use oracled_domain::events::read_event;
use oracled_store::{JournalRecord, LogLine, LogQuery};
use oracled_tests::generation::{coherent_answer, purge_verdict, read_verdict, request_verdict};
use oracled_tests::ground::open_store;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, post, submission};
use serde_json::{Value, json};
use std::fs;

/// An approved verdict with a member that is cut before it is stored.
const CUT: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan.","mood":"merry"}"#;
/// The kinds of decisions that `decide_each_kind` logs.
const KINDS: [&str; 7] = [
    "regen_divergence_check",
    "review_opened",
    "rules_evaluated",
    "source_asked",
    "tmm_crosscheck",
    "verdict_cached",
    "verification_decided",
];

/// Lets the daemon make each kind of decision: 6 crosschecks, of which one rejects its verdict and one only checks it, 2
/// evaluations of rules, 4 deliveries, a regeneration and a verification.
async fn decide_each_kind(daemon: &DaemonProcess<'_>, model: &ModelServer) {
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mut checked = submission(GOOD);
    checked["facts"] = json!(["a sound and simple plan"]);
    submit(routes, "cs_1", &checked, 201).await;
    submit(routes, "cs_2", &submission(CUT), 201).await;
    submit(routes, "cs_3", &submission(r#"{"verdict":"GREEN"}"#), 422).await;
    let text = json!({"candidate_output": "Honey is sweet.", "facts": ["honey is sweet"]});
    assert_eq!(post(routes, "/v1/rules/evaluate", &text).await.status, 200);
    let mut only_checked = submission(GOOD);
    only_checked["session_id"] = json!("cs_5");
    let check = post(routes, "/v1/crosscheck", &only_checked).await;
    assert_eq!(check.status, 200, "{}", document(&check));
    let reply = |label| ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, label));
    model.next([reply(VerdictLabel::Green), reply(VerdictLabel::Red)]);
    request_verdict(routes, "cs_4").await;
    purge_verdict(control, "cs_4").await;
    assert_eq!(read_verdict(routes, "cs_4").await.status, 200);
    register_offices(daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    register(control, &workflow("census", &["office-a", "office-b"], json!({}))).await;
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let envelope = document(&post(routes, "/v1/verify", &question).await);
    assert_eq!(envelope["kind"], "human_review", "{envelope}");
}

async fn submit(routes: &mut DaemonClient, session: &str, body: &Value, status: u16) {
    let answer = post(routes, &format!("/v1/verdicts/{session}"), body).await;
    assert_eq!(answer.status, status, "{}", document(&answer));
}

/// The report of a replay, which ends with this exit status.
fn replay(world: &DaemonWorld, what: &str, key: &str, status: i32) -> Value {
    let output = world.ctl(&["--json", "verify-log", what, "--key", key, "--replay"]);
    assert_eq!(output.status.code(), Some(status), "{what}: {output:?}");
    let mut report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["replay"].take()
}

fn printed(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("valid UTF-8")
}

fn path(world: &DaemonWorld, name: &str) -> String {
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

#[tokio::test]
async fn each_decision_of_a_daemon_is_reproduced_offline() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    decide_each_kind(&daemon, &model).await;
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    let (backup, export) = (path(&world, "backup"), path(&world, "export"));
    printed(&world, &["backup", &backup]);
    printed(&world, &["log", "export", &export]);
    let bundle = printed(&world, &["log", "prove", "--session", "cs_4"]);
    fs::write(world.path("bundle.json"), bundle).expect("the write succeeds");
    let proved = printed(&world, &["--json", "verdict", "cs_1", "--proof"]);
    fs::write(world.path("verdict.json"), proved).expect("the write succeeds");
    assert!(daemon.stop().success());

    let rejected = "the text of a rejected verdict is never stored";
    let no_text = "the text of the verdict is not stored with the entry";
    let digests = "the log has only digests of the text and the facts";
    let counts = |reproduced: u64, in_part: Value, not: Value| json!({"reproduced": reproduced, "reproduced_in_part": in_part, "different": 0, "not_reproducible": not});
    let state = world.state();
    let state = state.to_str().expect("valid UTF-8");
    for dir in [state, &backup] {
        let report = replay(&world, dir, &key, 0);
        let events = &report["events"];
        let names: Vec<_> = events.as_object().expect("an object").keys().collect();
        assert_eq!(names, KINDS, "{report}");
        assert_eq!(events["tmm_crosscheck"], counts(4, json!({rejected: 1, no_text: 1}), json!({})));
        assert_eq!(events["rules_evaluated"], counts(1, json!({digests: 1}), json!({})));
        assert_eq!(events["verdict_cached"], counts(4, json!({}), json!({})));
        assert_eq!(events["source_asked"], counts(2, json!({}), json!({})));
        for event in ["regen_divergence_check", "verification_decided", "review_opened"] {
            assert_eq!(events[event], counts(1, json!({}), json!({})), "{event}");
        }
    }

    let events = replay(&world, &export, &key, 0)["events"].take();
    let hidden = "values erased or withheld: `envelope`, `envelope_sha256`, `inputs`";
    assert_eq!(events["verification_decided"], counts(0, json!({}), json!({hidden: 1})));
    let flags = "values erased or withheld: `flags`";
    assert_eq!(events["tmm_crosscheck"], counts(0, json!({flags: 6}), json!({})));
    assert_eq!(events["regen_divergence_check"], counts(1, json!({}), json!({})));

    let events = replay(&world, &path(&world, "bundle.json"), &key, 0)["events"].take();
    assert_eq!(events["tmm_crosscheck"], counts(0, json!({no_text: 2}), json!({})));
    let events = replay(&world, &path(&world, "verdict.json"), &key, 0)["events"].take();
    assert_eq!(events["verdict_cached"], counts(1, json!({}), json!({})), "the document has the text");

    let shown = printed(&world, &["verify-log", state, "--key", &key, "--replay"]);
    let is_counted = |line: &str| line.contains("tmm_crosscheck: 1 ") && line.contains(rejected);
    assert!(shown.lines().any(is_counted), "{shown}");
}

/// The same decision with a wrong result, and the member that has it.
fn falsified(event: &AuditEvent) -> Option<(AuditEvent, &'static str)> {
    let mut details: Value = serde_json::from_str(&event.to_json()).expect("JSON");
    let member = match event.kind.name() {
        TmmCrosscheck::NAME => {
            let score = details["coherence_score"].as_f64().expect("a number");
            details["coherence_score"] = json!(score - 0.001);
            "coherence_score"
        }
        RulesEvaluated::NAME => {
            details["verdict"] = json!(RuleVerdict::Error);
            "verdict"
        }
        RegenDivergenceCheck::NAME => {
            details["divergence_level"] = json!(DivergenceLevel::None);
            "divergence_level"
        }
        VerificationDecided::NAME => {
            details["envelope"]["warnings"].as_array_mut().expect("a list").push(json!("well!"));
            "envelope.warnings"
        }
        SourceAsked::NAME => {
            details["latency_ms"] = json!(details["latency_ms"].as_u64().expect("a number") + 1);
            "latency_ms"
        }
        ReviewOpened::NAME => {
            let of_claim = details["review"]["of_claim"].as_bool().unwrap_or_default();
            details["review"]["of_claim"] = json!(!of_claim);
            "review.of_claim"
        }
        _ => return None,
    };
    let event = read_event(&details.to_string()).expect("an entry")?;
    Some((event, member))
}

#[tokio::test]
async fn decision_that_was_logged_wrongly_is_found_in_the_state_directory() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    decide_each_kind(&daemon, &model).await;
    let key = printed(&world, &["log", "key"]).trim().to_owned();
    assert!(daemon.stop().success());

    let (mut journal, store) = open_store(&world.state());
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    let read = |line: &LogLine| read_event(&line.json).expect("an entry").expect("a known event");
    let events: Vec<AuditEvent> = lines.iter().map(read).collect();
    let verification: Vec<_> = events.iter().filter(|event| event.kind.execution_id().is_some()).collect();
    let mut expected = Vec::new();
    for event in &events {
        let Some((falsified, member)) = falsified(event) else { continue };
        let events = if event.kind.execution_id().is_some() {
            // the entries of a verification are replayed together
            let falsify = |one: &&AuditEvent| if *one == event { falsified.clone() } else { (*one).clone() };
            verification.iter().map(falsify).collect()
        } else {
            vec![falsified.clone()]
        };
        let committed = journal.commit(&[JournalRecord { events, ..JournalRecord::default() }]);
        assert!(committed.expect("the commit succeeds").iter().all(Result::is_ok));
        expected.push((falsified.kind.name(), member));
    }
    drop((journal, store));
    assert!(expected.len() >= 11, "{expected:?}");
    let report = replay(&world, world.state().to_str().expect("valid UTF-8"), &key, 1);
    let found = report["different"].as_array().expect("an array");
    let found: Vec<_> = found
        .iter()
        .map(|decision| (decision["event"].as_str(), decision["members"][0]["member"].as_str()))
        .collect();
    for (event, member) in &expected {
        assert!(
            found
                .iter()
                .any(|(found, of)| *found == Some(event) && of.is_some_and(|of| of.starts_with(member))),
            "{event}: {report}"
        );
    }
    assert_eq!(found.len(), expected.len(), "{report}");
}
