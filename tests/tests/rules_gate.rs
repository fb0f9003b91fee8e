//! `/v1/verdicts/{session_id}` with `facts`: the rules as a second gate after the crosscheck, for submitted,
//! generated and regenerated verdicts.

use domain_verdict::label::{ProductTier, VerdictLabel};
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{
    QUERY, coherent_answer, event_names, generation_request, purge_verdict, put_session, read_cached,
    read_verdict, x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use std::time::Duration;

/// Facts that support every claim of [`GOOD`] and of [`coherent_answer`].
pub(crate) const FACTS: [&str; 6] = [
    "A sound and simple plan",
    "It holds together",
    "Fill a jar",
    "Sell wax",
    "Ask ten neighbours",
    "Sell one jar",
];
/// A coherent verdict with a claim that [`FACTS`] do not support.
pub(crate) const UNFOUNDED: &str =
    r#"{"verdict":"GREEN","summary":"A sound and simple plan. Q7X is cheese."}"#;

fn with(mut body: Value, members: Value) -> Value {
    let (Value::Object(body_), Value::Object(members)) = (&mut body, members) else {
        unreachable!("objects")
    };
    body_.extend(members);
    body
}

/// A quick-tier submission with [`FACTS`].
fn checked(raw: &str) -> Value {
    with(submission(raw), json!({"facts": FACTS}))
}

async fn submit_verdict(routes: &mut DaemonClient, session: &str, body: &Value) -> DaemonResponse {
    post(routes, &format!("/v1/verdicts/{session}"), body).await
}

/// Checks that the rules rejected the verdict, and returns their evaluation.
fn rules_refusal(answer: &DaemonResponse) -> Value {
    field(&problem(answer, 422, "rules_rejected"), "evaluation").clone()
}

/// Checks that the order failed because the rules rejected its last answer.
fn order_refusal(answer: &DaemonResponse) {
    let failed = problem(answer, 422, "order_failed");
    let detail = field(&failed, "detail").as_str().expect("the problem has a detail");
    assert!(detail.contains("the rules rejected the verdict"), "{detail}");
}

fn violations(evaluation: &Value) -> Vec<Value> {
    let list = |of: &Value, name: &str| field(of, name).as_array().expect("an array").clone();
    list(evaluation, "rules").iter().flat_map(|rule| list(rule, "violations")).collect()
}

#[tokio::test]
async fn supported_verdict_is_delivered_and_the_log_has_both_gates() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for tier in ProductTier::ALL {
        let session = tier.into_str();
        let body = json!({"tier": tier, "query": QUERY, "raw": coherent_answer(tier, VerdictLabel::Amber), "facts": FACTS});
        let delivered = submit_verdict(routes, session, &body).await;
        assert_eq!(delivered.status, 201, "{}", document(&delivered));
        assert_eq!(get(routes, &format!("/v1/verdicts/{session}")).await.body, delivered.body);
        assert_eq!(
            event_names(control, session).await,
            ["tmm_crosscheck", "rules_evaluated", "verdict_cached"]
        );
        let entries = log(control, &format!("session={session}")).await;
        let seqs: Vec<_> = entries.iter().filter_map(|entry| entry["seq"].as_u64()).collect();
        assert_eq!(seqs, [seqs[0], seqs[0] + 1, seqs[0] + 2]);
        assert_eq!((&entries[1]["verdict"], &entries[1]["path"]), (&json!("PASS"), &json!("submit")));
        assert!(document(&delivered).get("facts").is_none(), "{}", document(&delivered));
        assert_eq!(document(&delivered)["evaluation_sha256"], entries[1]["evaluation_sha256"]);
    }
}

#[tokio::test]
async fn unsupported_verdict_is_refused_with_its_evaluation_and_not_cached() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let body = with(
        checked(UNFOUNDED),
        json!({"context": "a context", "expected": {"must_not_find": ["is cheese"]}}),
    );
    let evaluation = rules_refusal(&submit_verdict(routes, "cs_1", &body).await);
    assert_eq!(evaluation["verdict"], "FAIL");
    let found: Vec<_> = violations(&evaluation)
        .iter()
        .map(|violation| (violation["text"].clone(), violation["span"].clone()))
        .collect();
    let claim = (json!("Q7X is cheese"), json!({"field": "summary", "start": 25, "end": 38}));
    let pattern = (json!("is cheese"), json!({"field": "summary", "start": 29, "end": 38}));
    assert_eq!(found, [claim.clone(), pattern, claim]);

    problem(&read_verdict(routes, "cs_1").await, 404, "session_unknown");
    assert_eq!(event_names(control, "cs_1").await, ["tmm_crosscheck", "rules_evaluated"]);
    let entries = log(control, "session=cs_1").await;
    assert_eq!((&entries[0]["approved"], &entries[1]["verdict"]), (&json!(true), &json!("FAIL")));
    assert_eq!(
        entries[1]["seq"].as_u64(),
        entries[0]["seq"].as_u64().map(|seq| seq + 1),
        "consecutive entries"
    );
    assert_eq!(entries[1]["evaluation_sha256"], evaluation["sha256"]);
    // the refused verdict did not open the session
    let other = json!({"tier": "full", "query": "Else?", "raw": coherent_answer(ProductTier::Full, VerdictLabel::Red), "facts": FACTS});
    assert_eq!(submit_verdict(routes, "cs_1", &other).await.status, 201);
    assert!(daemon.stop().success());
    let written = world.written().to_lowercase();
    assert!(written.contains("rules_evaluated"), "the files contain the log");
    assert!(!written.contains("q7x"), "the text of a refused verdict is not stored");
}

#[tokio::test]
async fn every_delivered_text_is_checked_and_a_violation_names_its_field() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut verdict: Value =
        serde_json::from_str(&coherent_answer(ProductTier::Strategy, VerdictLabel::Green)).expect("JSON");
    verdict["breakdown"]["Change Rate"]["analysis"] = json!("It holds together. Gold!");
    verdict["strategy"]["next_step"] = json!("Dig for silver.");
    let body = |tier: &str| json!({"tier": tier, "query": QUERY, "verdict": verdict, "facts": FACTS});
    for (tier, unsupported) in [("full", 1), ("strategy", 2)] {
        let evaluation = rules_refusal(&submit_verdict(routes, tier, &body(tier)).await);
        let spans = [
            ("Gold", json!({"field": "breakdown.Change Rate.analysis", "start": 19, "end": 23})),
            ("Dig for silver", json!({"field": "strategy.next_step", "start": 0, "end": 14})),
        ];
        for violation in violations(&evaluation) {
            let found = (violation["text"].as_str().expect("a text"), violation["span"].clone());
            assert!(spans[..unsupported].contains(&found), "{tier}: {found:?}");
        }
        assert_eq!(evaluation["metrics"]["unsupported_claims"], unsupported);
    }
    // a quick verdict is delivered without these texts
    assert_eq!(submit_verdict(routes, "quick", &body("quick")).await.status, 201);
    // texts of one verdict contradict each other
    verdict["breakdown"]["Change Rate"]["analysis"] = json!("It holds together and always works");
    verdict["breakdown"]["Curvature"]["analysis"] = json!("It never holds together. It holds together");
    let expected = json!({"contradiction_ids": ["always-never"], "max_unsupported_claims": 1});
    let contradicting = with(
        json!({"tier": "full", "query": QUERY, "verdict": verdict}),
        json!({"facts": FACTS, "expected": expected}),
    );
    let found = violations(&rules_refusal(&submit_verdict(routes, "contradicting", &contradicting).await));
    assert_eq!(found.len(), 3, "{found:?}");
    for violation in found {
        assert_eq!(violation["span"]["field"], "breakdown.Curvature.analysis");
        assert_eq!(violation["related"]["field"], "breakdown.Change Rate.analysis");
    }
}

#[tokio::test]
async fn rules_skip_verdicts_that_fail_the_crosscheck_or_are_replayed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let incoherent = checked(r#"{"verdict":"GREEN","summary":" "}"#);
    problem(&submit_verdict(routes, "cs_1", &incoherent).await, 422, "crosscheck_rejected");
    assert_eq!(event_names(control, "cs_1").await, ["tmm_crosscheck"]);

    let delivered = submit_verdict(routes, "cs_2", &submission(GOOD)).await;
    assert_eq!(delivered.status, 201);
    for raw in [GOOD, UNFOUNDED] {
        let again = submit_verdict(routes, "cs_2", &submission(raw)).await;
        assert_eq!((again.status.as_u16(), at(&again, "/replayed")), (200, json!(true)));
        assert_eq!(at(&again, "/verdict"), at(&delivered, "/verdict"));
    }
    let other = with(checked(GOOD), json!({"query": "Sell wax?"}));
    problem(&submit_verdict(routes, "cs_2", &other).await, 409, "session_mismatch");
    assert_eq!(event_names(control, "cs_2").await, ["tmm_crosscheck", "verdict_cached"]);
}

#[tokio::test]
async fn rule_that_ends_in_error_refuses_the_verdict() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let body = with(checked(GOOD), json!({"expected": {"must_find": [" "]}}));
    let evaluation = rules_refusal(&submit_verdict(routes, "cs_1", &body).await);
    assert_eq!(evaluation["verdict"], "ERROR");
    assert_eq!(event_names(control, "cs_1").await, ["tmm_crosscheck", "rules_evaluated"]);
    problem(&read_verdict(routes, "cs_1").await, 404, "session_unknown");
    // only the requested rules are applied
    let body = with(checked(UNFOUNDED), json!({"rules": ["RULE-PREC-003"]}));
    assert_eq!(submit_verdict(routes, "cs_1", &body).await.status, 201);
}

#[tokio::test]
async fn invalid_check_is_refused_before_the_verdict_is_judged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let pairs: Vec<_> = (0..65).map(|n| [format!("a{n}"), format!("b{n}")]).collect();
    for (members, telling) in [
        (json!({"expected": {}}), "`expected` "),
        (json!({"rules": ["RULE-PREC-001"]}), "`rules` "),
        (json!({"constraints": []}), "`constraints` "),
        (json!({"context": ""}), "`context` "),
        (json!({"facts": null}), "null"),
        (json!({"facts": "Ice melts"}), "string"),
        (json!({"facts": [], "rules": []}), "`rules`"),
        (json!({"facts": [], "rules": ["RULE-PREC-999"]}), "RULE-PREC-999"),
        (json!({"facts": [], "expected": {"must": []}}), "`must`"),
        (json!({"facts": [], "expected": {"contradiction_pairs": pairs}}), "at most 64"),
    ] {
        for raw in [GOOD, "{}"] {
            let answer = submit_verdict(routes, "cs_1", &with(submission(raw), members.clone())).await;
            let refused = problem(&answer, 400, "invalid_request");
            let detail = refused["detail"].as_str().expect("the problem has a detail");
            assert!(detail.contains(telling), "{telling}: {detail}");
        }
    }
    // other routes have no rules gate, and refuse `facts`
    for path in ["/v1/crosscheck", "/cache/cs_1"] {
        let body = with(checked(GOOD), json!({"session_id": "cs_1"}));
        problem(&post(routes, path, &body).await, 400, "invalid_request");
    }
    assert!(event_names(control, "cs_1").await.is_empty());
}

#[tokio::test]
async fn generated_verdict_passes_the_rules_gate() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let ordered = with(generation_request(ProductTier::Quick), json!({"facts": FACTS}));
    let attempt = [
        "order_attempted",
        "oracle_interaction",
        "tmm_crosscheck",
        "rules_evaluated",
        "order_attempt_failed",
    ];
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    order_refusal(&submit_verdict(routes, "cs_1", &ordered).await);
    let expected = [&["order_placed"][..], &attempt, &attempt, &attempt, &["order_stopped"]].concat();
    assert_eq!(event_names(control, "cs_1").await, expected);
    order_refusal(&read_verdict(routes, "cs_1").await);
    problem(&read_cached(routes, "cs_1").await, 404, "verdict_not_cached");
    assert!(
        model.requests().iter().all(|request| !request.body.to_string().contains("holds together")),
        "facts are not shown to the model"
    );

    // after an unsupported answer, the model is called again
    model.set_default(ScriptedReply::with_text(GOOD));
    model.next([ScriptedReply::with_text(UNFOUNDED)]);
    let created = submit_verdict(routes, "cs_2", &ordered).await;
    assert_eq!(created.status, 201, "{}", document(&created));
    let entries = log(control, "session=cs_2&event=rules_evaluated").await;
    let paths: Vec<_> = entries.iter().map(|entry| (&entry["verdict"], &entry["path"])).collect();
    assert_eq!(paths, [(&json!("FAIL"), &json!("generate")), (&json!("PASS"), &json!("generate"))]);
    assert!(daemon.stop().success());
    assert!(!world.written().contains("Q7X"), "the text of a refused verdict is not stored");
}

#[tokio::test]
async fn regenerated_verdict_passes_the_gate_of_the_first_one() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let mut daemon = world.serve().await;
    for (session, body) in [
        ("submitted", checked(GOOD)),
        ("generated", with(generation_request(ProductTier::Quick), json!({"facts": FACTS}))),
        ("registered-again", checked(GOOD)),
        ("unchecked", submission(GOOD)),
    ] {
        let routes = &mut daemon.routes().await;
        assert_eq!(submit_verdict(routes, session, &body).await.status, 201);
        purge_verdict(&mut daemon.control().await, session).await;
    }
    // a repeated registration does not change the session's check
    let registration = json!({"tier": "quick", "query": QUERY, "customer_email": "a@example.org", "original_verdict": "GREEN"});
    assert_eq!(put_session(&mut daemon.routes().await, "registered-again", &registration).await.status, 200);
    assert!(daemon.stop().success());

    daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    for session in ["submitted", "generated", "registered-again"] {
        let evaluation = rules_refusal(&read_verdict(routes, session).await);
        assert_eq!(violations(&evaluation)[0]["span"]["field"], "summary", "{session}");
        let events = event_names(control, session).await;
        let last = events.iter().rev().take(4).rev().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(
            last,
            ["regen_attempted", "oracle_interaction", "tmm_crosscheck", "rules_evaluated"],
            "{session}"
        );
        let entries = log(control, &format!("session={session}&event=rules_evaluated")).await;
        let entry = entries.last().expect("at least one");
        assert_eq!((&entry["verdict"], &entry["path"]), (&json!("FAIL"), &json!("regen")));
        problem(&get(routes, &format!("/cache/{session}")).await, 404, "verdict_not_cached");
        problem(&read_verdict(routes, session).await, 429, "regen_rate_limited");
    }
    let unchecked = read_verdict(routes, "unchecked").await;
    assert_eq!((unchecked.status.as_u16(), x_cache(&unchecked)), (200, Some("MISS")));
}

#[tokio::test]
async fn known_session_keeps_the_check_that_its_verdict_failed() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    let registration = json!({"tier": "quick", "query": QUERY});
    assert_eq!(put_session(routes, "cs_1", &registration).await.status, 201);
    rules_refusal(&submit_verdict(routes, "cs_1", &checked(UNFOUNDED)).await);
    assert_eq!(event_names(control, "cs_1").await.first().map(String::as_str), Some("session_registered"));
    rules_refusal(&read_verdict(routes, "cs_1").await);
    rules_refusal(&submit_verdict(routes, "cs_1", &submission(UNFOUNDED)).await);
    order_refusal(&submit_verdict(routes, "cs_1", &generation_request(ProductTier::Quick)).await);
    // a session whose verdict was delivered before, here or elsewhere, keeps its check as well
    assert_eq!(
        put_session(routes, "cs_2", &with(registration, json!({"original_verdict": "RED"}))).await.status,
        201
    );
    assert_eq!(submit_verdict(routes, "cs_3", &submission(GOOD)).await.status, 201);
    purge_verdict(control, "cs_3").await;
    for session in ["cs_2", "cs_3"] {
        assert_eq!(submit_verdict(routes, session, &checked(GOOD)).await.status, 201);
        purge_verdict(control, session).await;
        rules_refusal(&read_verdict(routes, session).await);
    }
}

#[tokio::test]
async fn verdict_regenerated_for_a_reader_does_not_become_the_first_unchecked() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    assert_eq!(put_session(routes, "cs_1", &json!({"tier": "quick", "query": QUERY})).await.status, 201);
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    for body in [checked(GOOD), with(generation_request(ProductTier::Quick), json!({"facts": FACTS}))] {
        let answer = problem(&submit_verdict(routes, "cs_1", &body).await, 409, "session_mismatch");
        assert_eq!(field(&answer, "mismatch"), "facts", "{answer}");
    }
    purge_verdict(control, "cs_1").await;
    assert_eq!(submit_verdict(routes, "cs_1", &checked(GOOD)).await.status, 201);
}

#[tokio::test]
async fn stored_check_is_independent_of_later_configuration() {
    let model = ModelServer::start().await;
    let world = model.create_world("[rules]\nprofile = ['RULE-PREC-001', 'RULE-PREC-003']\n");
    let daemon = world.serve().await;
    let expected = json!({"expected": {"must_not_find": ["cheese"]}});
    let facts = json!({"facts": [FACTS[0], "Q7X is cheese"]});
    let body = with(with(submission(GOOD), facts), expected);
    assert_eq!(submit_verdict(&mut daemon.routes().await, "cs_1", &body).await.status, 201);
    purge_verdict(&mut daemon.control().await, "cs_1").await;
    assert!(daemon.stop().success());
    let mut world = world;
    world.variables.push(("ORACLED_RULES__PROFILE".into(), "RULE-PREC-002".into()));
    world.variables.push(("ORACLED_RULES__UNSUPPORTED_MAX".into(), "9".into()));
    let daemon = world.serve().await;
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    let evaluation = rules_refusal(&read_verdict(&mut daemon.routes().await, "cs_1").await);
    let applied: Vec<_> = evaluation["rules"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
    assert_eq!(applied, ["RULE-PREC-001", "RULE-PREC-003"]);
    assert_eq!(violations(&evaluation)[0]["text"], "cheese");
}

#[tokio::test]
async fn verdict_submitted_over_a_lost_one_passes_the_gate_of_the_first() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(submit_verdict(routes, "cs_1", &checked(GOOD)).await.status, 201);
    purge_verdict(control, "cs_1").await;
    rules_refusal(&submit_verdict(routes, "cs_1", &submission(UNFOUNDED)).await);
    let verdict: Value = serde_json::from_str(UNFOUNDED).unwrap();
    let written = json!({"tier": "quick", "query": QUERY, "verdict": verdict});
    rules_refusal(&post(routes, "/cache/cs_1", &written).await);
    // the request's own check takes precedence over the session's
    let other = with(submission(UNFOUNDED), json!({"facts": [verdict["summary"]]}));
    assert_eq!(submit_verdict(routes, "cs_1", &other).await.status, 201);
}

#[tokio::test]
async fn regenerated_verdict_that_its_facts_support_is_delivered() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(submit_verdict(routes, "cs_1", &checked(GOOD)).await.status, 201);
    purge_verdict(control, "cs_1").await;
    model.set_default(ScriptedReply::with_text(
        r#"{"verdict":"AMBER","summary":"It holds together, a sound and simple plan."}"#,
    ));
    let read = read_verdict(routes, "cs_1").await;
    assert_eq!((read.status.as_u16(), x_cache(&read)), (200, Some("MISS")));
    let events = event_names(control, "cs_1").await;
    assert_eq!(
        events[events.len() - 5..],
        [
            "oracle_interaction",
            "tmm_crosscheck",
            "rules_evaluated",
            "verdict_cached",
            "regen_divergence_check"
        ]
    );
    assert_eq!(
        routes.call(Method::GET, "/v1/verdicts/cs_1", None).await.expect("the server answers").body,
        read.body
    );
}

#[tokio::test]
async fn facts_of_a_session_are_not_in_any_log() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let facts = json!({"facts": ["A sound and simple plan", "Q7X a secret fact"]});
    assert_eq!(
        submit_verdict(&mut daemon.routes().await, "cs_1", &with(submission(GOOD), facts)).await.status,
        201
    );
    assert!(daemon.stop().success());
    assert!(!(world.mirror() + &world.service_log()).contains("Q7X"));
}

#[tokio::test]
async fn check_of_nearly_1_mib_is_stored_with_its_session() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    // all facts differ, so that a lost or swapped piece is detected
    let facts: Vec<String> =
        (0..45_000).map(|n| format!("fact number {n:06}")).chain(FACTS.map(String::from)).collect();
    let body = with(submission(GOOD), json!({"facts": facts}));
    assert!((900_000..1_048_576).contains(&body.to_string().len()), "{}", body.to_string().len());
    assert_eq!(submit_verdict(&mut daemon.routes().await, "cs_1", &body).await.status, 201);
    purge_verdict(&mut daemon.control().await, "cs_1").await;
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    model.set_default(ScriptedReply::with_text(
        r#"{"verdict":"GREEN","summary":"Fact number 039999. Fact number 020000!"}"#,
    ));
    let read = read_verdict(&mut daemon.routes().await, "cs_1").await;
    assert_eq!((read.status.as_u16(), x_cache(&read)), (200, Some("MISS")), "{}", document(&read));
    let entries = log(&mut daemon.control().await, "session=cs_1&event=rules_evaluated").await;
    assert_eq!((entries.len(), &entries[0]["facts_sha256"]), (2, &entries[1]["facts_sha256"]));
}

#[tokio::test]
async fn request_without_facts_shares_the_order_of_one_with_facts() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    model.set_default(ScriptedReply::with_text(UNFOUNDED));
    model.next([ScriptedReply::with_text(UNFOUNDED).after(Duration::from_millis(500))]);
    let mut other = daemon.routes().await;
    let checked = with(generation_request(ProductTier::Quick), json!({"facts": FACTS}));
    let first = tokio::spawn(async move { submit_verdict(&mut other, "cs_1", &checked).await });
    eventually("the model is called", async || model.request_count() == 1).await;
    let second =
        submit_verdict(&mut daemon.routes().await, "cs_1", &generation_request(ProductTier::Quick)).await;
    order_refusal(&second);
    order_refusal(&first.await.expect("the server answers"));
    let entries = log(&mut daemon.control().await, "session=cs_1&event=rules_evaluated").await;
    let verdicts: Vec<_> = entries.iter().map(|entry| &entry["verdict"]).collect();
    assert_eq!(verdicts, ["FAIL"; 3]);
    assert_eq!(model.request_count(), 3, "one order for both");
}

/// Asserts that an answer refuses a repeated request because of its facts.
fn facts_refusal(answer: &DaemonResponse) {
    let refusal = problem(answer, 409, "session_mismatch");
    assert_eq!(field(&refusal, "mismatch"), "facts", "{refusal}");
}

#[tokio::test]
async fn facts_of_a_repeated_submission_are_those_of_the_first_or_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(submit_verdict(routes, "with", &checked(GOOD)).await.status, 201);
    assert_eq!(submit_verdict(routes, "without", &submission(GOOD)).await.status, 201);
    for same in [checked(GOOD), with(checked(UNFOUNDED), json!({"context": "a retry"})), submission(GOOD)] {
        let again = submit_verdict(routes, "with", &same).await;
        assert_eq!((again.status.as_u16(), at(&again, "/replayed")), (200, json!(true)));
    }
    let none: [&str; 0] = [];
    for other in [
        with(submission(GOOD), json!({"facts": none})),
        with(submission(GOOD), json!({"facts": [FACTS[0]]})),
        with(checked(GOOD), json!({"rules": ["RULE-PREC-001"]})),
    ] {
        facts_refusal(&submit_verdict(routes, "with", &other).await);
    }
    facts_refusal(&submit_verdict(routes, "without", &checked(GOOD)).await);
}

#[tokio::test]
async fn facts_of_a_repeated_order_are_those_of_the_first_or_refused() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(UNFOUNDED).after(Duration::from_millis(300)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let order = generation_request(ProductTier::Quick);
    let ordered = with(order.clone(), json!({"facts": FACTS}));
    let other = with(order.clone(), json!({"facts": [FACTS[0]]}));
    let open = oracled_tests::generation::request_order(&world.socket(), "cs_1", &ordered).await;
    assert_eq!(open.status, 202);
    facts_refusal(&submit_verdict(routes, "cs_1", &other).await);
    for same in [&ordered, &order] {
        order_refusal(&submit_verdict(routes, "cs_1", same).await);
    }
    // the order has failed
    facts_refusal(&submit_verdict(routes, "cs_1", &other).await);
    assert_eq!(model.request_count(), 3);
}
