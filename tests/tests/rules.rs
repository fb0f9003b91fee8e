//! `/v1/rules`: text is checked against facts, the digests of an answer can be verified, and the log does not contain
//! the text.

use bytes::Bytes;
use domain_base::digest::Sha256Hex;
use domain_rules::{CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, evaluate};
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::read_metric;
use oracled_tests::wire::{self, WireConnection};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, get, log, post, problem, read_whole_log};
use serde_json::{Value, json};
use strum::VariantNames;

const EVALUATE: &str = "/v1/rules/evaluate";

async fn evaluated(routes: &mut DaemonClient, body: &Value) -> DaemonResponse {
    let answer = post(routes, EVALUATE, body).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    answer
}

/// One case for each verdict, with the rules that fail.
fn one_of_each() -> [(&'static str, Value, Vec<&'static str>); 3] {
    let facts = json!(["Water boils at 100 C at sea level.", "Ice melts"]);
    [
        ("PASS", json!({"candidate_output": "ICE melts. Water boils!", "facts": facts}), vec![]),
        (
            "FAIL",
            json!({
                "candidate_output": "Ice melts. The \"moon\" is chéese\u{1}.", "facts": facts,
                "expected": {"must_not_find": ["CHÉESE"]},
            }),
            vec!["RULE-PREC-001", "RULE-PREC-003", "RULE-PREC-004"],
        ),
        (
            "ERROR",
            json!({
                "candidate_output": "Ice melts.", "facts": facts, "expected": {"must_find": [" "]},
            }),
            vec![],
        ),
    ]
}

/// The list with that name in an answer, a rule or an entry.
fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of.get(name).and_then(Value::as_array).expect("the object has this list")
}

/// Ids of the rules with this verdict.
fn rules_at(answer: &DaemonResponse, verdict: &str) -> Vec<Value> {
    let response = document(answer);
    let of_it = list(&response, "rules").iter().filter(|rule| rule["verdict"] == verdict);
    of_it.map(|rule| rule["rule"].clone()).collect()
}

#[tokio::test]
async fn evaluation_is_canonical_json_with_its_digest() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for (verdict, body, failed) in one_of_each() {
        let answer = evaluated(routes, &body).await;
        assert_eq!(answer.headers["content-type"], "application/json");
        let mut response = document(&answer);
        assert_eq!(response["verdict"], verdict, "{response}");
        assert_eq!(rules_at(&answer, "FAIL"), failed);
        assert_eq!(rules_at(&answer, "ERROR").len(), usize::from(verdict == "ERROR"));
        assert_eq!(list(&response, "rules").len(), RuleId::PUBLISHED.len(), "every rule is reported");
        let canonical = |value: &Value| serde_json_canonicalizer::to_vec(value).unwrap();
        assert_eq!(answer.body, canonical(&response));
        let digest = response.as_object_mut().unwrap().remove("sha256").unwrap();
        assert_eq!(digest, json!(Sha256Hex::of(&canonical(&response))));
        let text = body["candidate_output"].as_str().unwrap();
        assert_eq!(response["candidate_sha256"], json!(Sha256Hex::of(text.as_bytes())));
        assert_eq!(response["facts_sha256"], json!(Sha256Hex::of(&canonical(&body["facts"]))));
        for step in list(&response, "rules").iter().flat_map(|rule| list(rule, "evidence")) {
            assert_eq!(step["output_sha256"], json!(Sha256Hex::of(&canonical(&step["output"]))), "{step}");
        }
    }
}

#[tokio::test]
async fn violation_has_its_span_and_an_undecided_rule_its_cause() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let [_, (_, failing, _), (_, erring, _)] = one_of_each();
    let answer = document(&evaluated(routes, &failing).await);
    let text = failing["candidate_output"].as_str().unwrap();
    let mut cut_out = Vec::new();
    for violation in list(&answer, "rules").iter().flat_map(|rule| list(rule, "violations")) {
        let [start, end] =
            ["start", "end"].map(|name| usize::try_from(violation["span"][name].as_u64().unwrap()).unwrap());
        assert_eq!(violation["text"], text[start..end]);
        assert_eq!(violation["invariant"], "Q-INV-01");
        cut_out.push(&text[start..end]);
    }
    let claim = "The \"moon\" is chéese\u{1}";
    assert_eq!(cut_out, [claim, "chéese", claim]);
    let answer = document(&evaluated(routes, &erring).await);
    let cause = answer["rules"][1]["cause"].as_str().unwrap();
    assert!(cause.contains("`must_find[0]`"), "{cause}");
}

#[tokio::test]
async fn equal_requests_return_equal_bytes_from_daemon_and_library() {
    let world = DaemonWorld::default();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let daemon = world.serve().await;
        let (one, other) = (&mut daemon.routes().await, &mut daemon.routes().await);
        for (_, body, _) in one_of_each() {
            for routes in [&mut *one, &mut *other] {
                answers.push((body.to_string(), evaluated(routes, &body).await.body));
            }
        }
        assert!(daemon.stop().success());
    }
    for (body, answer) in &answers {
        let mut body: Value = serde_json::from_str(body).unwrap();
        let text = body.as_object_mut().unwrap().remove("candidate_output").unwrap();
        let check: CandidateCheck = serde_json::from_value(body).unwrap();
        let candidate = CandidateText::text(text.as_str().unwrap());
        let expected =
            evaluate(&candidate, &check, &FactSet::compile(&check.facts), &RuleSettings::default());
        assert_eq!(*answer, serde_json::to_vec(&expected).unwrap());
    }
}

#[tokio::test]
async fn evaluation_is_logged_by_digests_without_its_text() {
    let mut world = DaemonWorld::default();
    world.config = "log_level = \"trace\"".into();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mark = |of: &str| format!("Q7X {of} is true and false");
    let mut body = json!({
        "id": "case 1", "candidate_output": mark("candidate"), "facts": [mark("fact")],
        "context": mark("context"), "constraints": [mark("constraint")],
        "expected": {
            "must_find": [mark("pattern")], "must_not_find": ["q7x"], "contradiction_ids": ["true", mark("pair")],
        },
    });
    let failing = evaluated(routes, &body).await;
    body["expected"] = json!({"must_find": [mark("pattern"), " "]});
    body["facts"] = json!([mark("candidate")]);
    let erring = evaluated(routes, &body).await;
    let entries = log(control, "event=rules_evaluated").await;
    assert_eq!(entries.len(), 2);
    for (entry, answer) in entries.iter().zip([&failing, &erring]) {
        let response = document(answer);
        for (name, told_as) in [
            ("verdict", "verdict"),
            ("candidate_sha256", "candidate_sha256"),
            ("facts_sha256", "facts_sha256"),
            ("input_sha256", "input_sha256"),
            ("evaluation_sha256", "sha256"),
        ] {
            assert_eq!(entry[name], response[told_as], "{name}");
        }
        assert_eq!((&entry["session_id"], &entry["path"]), (&Value::Null, &Value::Null));
        assert_eq!(entry["case_id"], "case 1");
        let of_rules = |of: &Value, name: &str| -> Vec<Value> {
            list(of, "rules").iter().map(|rule| rule[name].clone()).collect()
        };
        for name in ["rule", "verdict", "cause"] {
            assert_eq!(of_rules(entry, name), of_rules(&response, name), "{name}");
        }
        let counts = of_rules(&response, "violations");
        let counts: Vec<_> =
            counts.iter().map(|violations| json!(violations.as_array().unwrap().len())).collect();
        assert_eq!(of_rules(entry, "violations"), counts);
    }
    assert!(daemon.stop().success());
    let written = world.written().to_lowercase();
    assert!(written.contains("rules_evaluated"), "the files contain the log");
    assert!(!written.contains("q7x"), "the text is not stored");
}

/// A request that passes, with one more member, or one in `expected`.
fn with(name: &str, value: Value) -> Value {
    let mut body = json!({"candidate_output": "Ice melts.", "facts": ["Ice melts"], "expected": {}});
    let (place, name) = name.strip_prefix("expected.").map_or(("", name), |name| ("/expected", name));
    let members = body.pointer_mut(place).and_then(Value::as_object_mut).expect("the body has both members");
    members.insert(name.to_owned(), value);
    body
}

/// This number of contradiction pairs.
fn pairs(count: usize) -> Value {
    (0..count).map(|n| json!([format!("a{n}"), format!("b{n}")])).collect()
}

/// A request with an expectation that the only requested rule does not use.
fn unseen(expected: Value, rule: &str) -> Value {
    json!({"candidate_output": "?", "facts": [], "expected": expected, "rules": [rule]})
}

/// Requests that cannot be evaluated, and their errors.
fn refusals() -> Vec<(Value, &'static str)> {
    let threshold = "expected.max_unsupported_claims";
    let whole = "0 to 9007199254740991, or \"CONFIG:UNSUPPORTED_MAX\"";
    vec![
        (with("fact", json!([])), "`fact`"),
        (with("expected.must_have", json!([])), "`must_have`"),
        (with("want", json!({})), "`want`"),
        (json!({"candidate_output": "?"}), "`facts`"),
        (json!({"facts": []}), "`candidate_output`"),
        (with("candidate_output", json!(null)), "invalid type: null"),
        (with("facts", json!("Ice melts")), "invalid type: string"),
        (with("facts", json!(null)), "invalid type: null"),
        (with("facts", json!(["a", 1])), "invalid type: integer"),
        (with("rules", json!(["RULE-PREC-999"])), "RULE-PREC-999"),
        (with("rules", json!(["rule-prec-001"])), "rule-prec-001"),
        (with("rules", json!([])), "`rules`"),
        (with("rules", json!(["RULE-PREC-001", "RULE-PREC-001"])), "RULE-PREC-001"),
        (with(threshold, json!(-1)), whole),
        (with(threshold, json!(1.0)), whole),
        (with(threshold, json!("1")), whole),
        (with(threshold, json!("CONFIG:UNSUPPORTED")), whole),
        (with(threshold, json!([1])), whole),
        (with("expected.contradiction_pairs", json!([["a"]])), "a pair of two terms"),
        (with("expected.contradiction_pairs", json!([["a", "b", "c"]])), "a pair of two terms"),
        (with("expected.contradiction_pairs", json!([["a", " "]])), "`expected.contradiction_pairs[0]`"),
        (with("expected.contradiction_pairs", json!([["a", "b".repeat(129)]])), "129 bytes"),
        (
            with("expected.contradiction_pairs", json!([["a", "b"], ["c D", "C  d"]])),
            "contradiction_pairs[1]`",
        ),
        (with("expected.contradiction_pairs", pairs(65)), "65 entries; at most 64"),
        (with("constraints", vec!["a < b"; 1001].into()), "`constraints` has 1001 "),
        (with("expected.contradiction_ids", vec!["true"; 1001].into()), "at most 1000"),
        (with("expected.must_find", vec!["a"; 10_001].into()), "at most 10000"),
        (with("expected.must_not_find", vec!["a"; 10_001].into()), "at most 10000"),
        (with("id", json!("é".repeat(256))), "`id` has 256 characters"),
        (with("expected", json!([["b"], [], null, ["zz"], []])), "expected: "),
        (with("rules", json!([{"RULE-PREC-001": null}])), "invalid type: object"),
        (with(&"x".repeat(900_000), json!(1)), "`xxx"),
        (unseen(json!({"must_find": ["a"]}), "RULE-PREC-003"), "`rules`: RULE-PREC-002"),
        (unseen(json!({"must_not_find": ["a"]}), "RULE-PREC-002"), "`rules`: RULE-PREC-003"),
        (unseen(json!({"contradiction_ids": ["true"]}), "RULE-PREC-002"), "RULE-CONT-001, RULE-CONT-002"),
        (unseen(json!({"contradiction_pairs": [["a", "b"]]}), "RULE-PREC-001"), "no rule that uses it"),
        (unseen(json!({"max_unsupported_claims": 1}), "RULE-CONT-001"), "RULE-PREC-001, RULE-PREC-004"),
        (
            json!({"candidate_output": "?", "facts": [], "constraints": ["a < b"], "rules": ["RULE-CONT-001"]}),
            "`rules`: RULE-CONT-002",
        ),
        (json!([]), "object"),
    ]
}

#[tokio::test]
async fn unusable_check_is_refused_with_its_fault_and_not_logged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for (body, telling) in refusals() {
        let refused = problem(&post(routes, EVALUATE, &body).await, 400, "invalid_request");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(telling), "{telling}: {detail}");
        assert!(detail.len() < 2000, "{} bytes", detail.len());
    }
    let twice = r#"{"candidate_output":"a","facts":[],"facts":["a"]}"#;
    let answer = routes.call(Method::POST, EVALUATE, Some(Bytes::from(twice))).await.unwrap();
    assert!(problem(&answer, 400, "invalid_request")["detail"].as_str().unwrap().contains("`facts`"));
    for text in
        ["", "{", "\u{feff}{}", "{\"facts\":\"\u{1}\"}", r#"{"candidate_output":"\ud800","facts":[]}"#]
    {
        let answer = routes.call(Method::POST, EVALUATE, Some(Bytes::from(text))).await.unwrap();
        problem(&answer, 400, "invalid_json");
    }
    assert!(log(control, "event=rules_evaluated").await.is_empty());
    // the same members at their limits
    let mut most = with("expected.contradiction_pairs", pairs(64));
    most["expected"]["must_find"] = vec!["ice"; 10_000].into();
    most["expected"]["contradiction_ids"] = vec!["a0-b0"; 1000].into();
    most["constraints"] = vec!["a < b"; 1000].into();
    most["id"] = json!("é".repeat(255));
    assert_eq!(at(&evaluated(routes, &most).await, "/verdict"), "PASS");
}

#[tokio::test]
async fn evaluate_refuses_another_media_type_and_a_body_over_the_limit() {
    let world = DaemonWorld::with_config("[limits]\nbody_bytes = 1024");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let large = json!({"candidate_output": "x".repeat(1024), "facts": []});
    problem(&post(routes, EVALUATE, &large).await, 413, "body_too_large");
    let [(_, small, _), ..] = one_of_each();
    let plain =
        wire::head("POST", EVALUATE, &[("content-type", "text/plain"), ("content-length", "2")]) + "{}";
    let refused = WireConnection::connect(&world.socket()).await.exchange(plain).await.unwrap();
    problem(&refused, 415, "unsupported_media_type");
    problem(&get(routes, EVALUATE).await, 405, "method_not_allowed");
    evaluated(routes, &small).await;
}

async fn registry(daemon: &DaemonProcess<'_>) -> Value {
    let answer = get(&mut daemon.routes().await, "/v1/rules").await;
    assert_eq!(answer.status, 200);
    document(&answer)
}

#[tokio::test]
async fn registry_lists_every_rule_with_its_digest_and_profile() {
    let world = DaemonWorld::default();
    let answer = registry(&world.serve().await).await;
    assert_eq!(answer["unsupported_max"], 0);
    let mut ids = Vec::new();
    for rule in list(&answer, "rules") {
        let mut definition = rule.clone();
        let members = definition.as_object_mut().unwrap();
        let (digest, in_profile) = (members.remove("sha256"), members.remove("in_profile"));
        let names: Vec<_> = members.keys().map(String::as_str).collect();
        assert_eq!(names, ["check_type", "description", "id", "invariant", "parameters", "version"]);
        let canonical = serde_json_canonicalizer::to_vec(&definition).unwrap();
        assert_eq!(digest, Some(json!(Sha256Hex::of(&canonical))), "{definition}");
        let id = definition["id"].as_str().unwrap().to_owned();
        assert_eq!(in_profile, Some(json!(RuleId::PUBLISHED.iter().any(|rule| rule.into_str() == id))));
        ids.push(id);
    }
    assert_eq!(ids, RuleId::VARIANTS);
}

#[tokio::test]
async fn configured_profile_and_threshold_are_the_defaults_of_requests() {
    let world = DaemonWorld::with_config(
        "[rules]\nprofile = [\"RULE-CONT-001\", \"RULE-PREC-001\"]\nunsupported_max = 1",
    );
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let response = registry(&daemon).await;
    let applied = list(&response, "rules").iter().filter(|rule| rule["in_profile"] == true);
    assert_eq!((applied.count(), &response["unsupported_max"]), (2, &json!(1)));
    let mut body = json!({"candidate_output": "Mars is jam. Venus is tea.", "facts": []});
    let answer = evaluated(routes, &body).await;
    assert_eq!(rules_at(&answer, "PASS"), ["RULE-CONT-001"], "in the profile's order");
    assert_eq!(rules_at(&answer, "FAIL"), ["RULE-PREC-001"]);
    for (threshold, verdict) in
        [(json!("CONFIG:UNSUPPORTED_MAX"), "FAIL"), (json!(2), "PASS"), (json!(null), "FAIL")]
    {
        body["expected"] = json!({"max_unsupported_claims": threshold});
        assert_eq!(at(&evaluated(routes, &body).await, "/verdict"), verdict, "{threshold}");
    }
    body["candidate_output"] = json!("Mars is jam.");
    body["expected"] = json!({"max_unsupported_claims": "CONFIG:UNSUPPORTED_MAX"});
    assert_eq!(at(&evaluated(routes, &body).await, "/verdict"), "PASS");
    body["rules"] = json!(["RULE-PREC-004"]);
    assert_eq!(rules_at(&evaluated(routes, &body).await, "PASS"), ["RULE-PREC-004"]);
}

#[tokio::test]
async fn evaluations_are_counted_by_verdict() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for (_, body, _) in one_of_each() {
        evaluated(routes, &body).await;
    }
    for verdict in ["PASS", "FAIL", "ERROR"] {
        let name = format!("oracled_rules_evaluations_total{{verdict=\"{verdict}\"}}");
        assert_eq!(read_metric(routes, &name).await, 1.0, "{verdict}");
    }
    let failed = "oracled_rules_applied_total{rule=\"RULE-PREC-003\",verdict=\"FAIL\"}";
    assert_eq!(read_metric(routes, failed).await, 1.0);
    let entries = read_whole_log(&mut daemon.control().await).await;
    assert_eq!(entries.iter().filter(|entry| entry["event"] == "rules_evaluated").count(), 3);
}
