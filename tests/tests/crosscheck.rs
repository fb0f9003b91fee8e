//! `POST /v1/crosscheck`.

use oracled_tests::{DaemonWorld, GOOD, document, get, log, post, problem};
use serde_json::{Value, json};

fn check(session_id: &str, raw: &str) -> Value {
    json!({"session_id": session_id, "tier": "quick", "query": "Sell honey?", "raw": raw})
}

#[tokio::test]
async fn check_returns_the_decision_if_approved_or_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let expected = json!({
        "approved": true, "coherence_score": 1.0, "threshold": 0.974_042_572_472_506_1, "verdict_label": "GREEN",
        "flags": [], "crosscheck_reason": "pass",
    });
    let answer = post(routes, "/v1/crosscheck", &check("cs_1", GOOD)).await;
    assert_eq!((answer.status.as_u16(), document(&answer)), (200, expected));

    let answer = post(routes, "/v1/crosscheck", &check("cs_1", "GREEN, I should think!")).await;
    assert_eq!(answer.status, 200, "a refusal is an answer here, not an error");
    let decision = document(&answer);
    assert_eq!(decision["approved"], false);
    assert_eq!(decision["verdict_label"], Value::Null);
    assert_eq!(decision["flags"], json!(["malformed_json", "degenerate_manifold"]));

    let value: Value = serde_json::from_str(GOOD).unwrap();
    let body = json!({"session_id": "cs_1", "tier": "quick", "query": "?", "verdict": value});
    assert_eq!(document(&post(routes, "/v1/crosscheck", &body).await)["approved"], true);
}

#[tokio::test]
async fn check_is_logged_and_caches_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for raw in [GOOD, "{}"] {
        assert_eq!(post(routes, "/v1/crosscheck", &check("cs_1", raw)).await.status, 200);
    }
    let entries = log(control, "session=cs_1").await;
    let seen: Vec<_> = entries.iter().map(|e| (e["event"].as_str().unwrap(), &e["approved"])).collect();
    assert_eq!(seen, [("tmm_crosscheck", &json!(true)), ("tmm_crosscheck", &json!(false))]);
    for entry in &entries {
        assert_eq!((&entry["path"], &entry["query_preview"]), (&json!("check"), &json!("Sell honey?")));
    }
    problem(&get(routes, "/v1/verdicts/cs_1").await, 404, "session_unknown");
    let status = document(&get(control, "/v1/status").await);
    assert_eq!((&status["verdicts"], &status["sessions"]), (&json!(0), &json!(0)), "{status}");
}

#[tokio::test]
async fn check_limits_the_session_id_in_the_body() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for bad in ["", &"x".repeat(256), "a/b", "a\0", "ä", "a b"] {
        let answer = post(routes, "/v1/crosscheck", &check(bad, GOOD)).await;
        problem(&answer, 400, "invalid_session_id");
    }
    assert_eq!(post(routes, "/v1/crosscheck", &check(&"x".repeat(255), GOOD)).await.status, 200);
    let neither = json!({"session_id": "cs_1", "tier": "quick", "query": "?"});
    problem(&post(routes, "/v1/crosscheck", &neither).await, 400, "invalid_request");
    let mut both = check("cs_1", GOOD);
    both["verdict"] = json!({});
    problem(&post(routes, "/v1/crosscheck", &both).await, 400, "invalid_request");
}
