//! `/cache/{session_id}`: the paths of the service that oracled replaces.

use oracled_tests::{DaemonWorld, GOOD, document, get, log, post, problem, submission};
use serde_json::{Value, json};

fn write(verdict: &Value) -> Value {
    json!({"tier": "quick", "query": "Sell honey?", "verdict": verdict})
}

fn good() -> Value {
    serde_json::from_str(GOOD).expect("valid JSON")
}

#[tokio::test]
async fn cache_write_is_checked_and_readable_on_both_paths() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let written = post(routes, "/cache/cs_1", &write(&good())).await;
    assert_eq!(written.status, 201);
    for path in ["/cache/cs_1", "/v1/verdicts/cs_1"] {
        let read = get(routes, path).await;
        assert_eq!((read.status.as_u16(), &read.body), (200, &written.body), "{path}");
    }
    let again = post(routes, "/cache/cs_1", &write(&good())).await;
    assert_eq!((again.status.as_u16(), &document(&again)["replayed"]), (200, &json!(true)));

    let entries = log(&mut daemon.control().await, "session=cs_1").await;
    let events: Vec<_> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["tmm_crosscheck", "verdict_cached"]);
    assert!(entries.iter().all(|entry| entry["path"] == "cache_write"), "{entries:?}");
}

#[tokio::test]
async fn rejected_cache_write_is_logged_and_not_cached() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for verdict in [json!({"verdict": "GREEN", "summary": ""}), json!("GREEN"), json!(null), json!([])] {
        let refused = post(routes, "/cache/cs_1", &write(&verdict)).await;
        let refused = problem(&refused, 422, "crosscheck_rejected");
        assert_eq!(refused["decision"]["approved"], false);
    }
    problem(&get(routes, "/cache/cs_1").await, 404, "verdict_not_cached");
    let entries = log(&mut daemon.control().await, "session=cs_1").await;
    assert_eq!(entries.len(), 4, "{entries:?}");
    assert!(entries.iter().all(|entry| entry["approved"] == false && entry["path"] == "cache_write"));
}

#[tokio::test]
async fn write_with_another_tier_or_query_is_a_mismatch_on_every_path() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    for (field, value) in [("tier", "full"), ("query", "Sell wax?")] {
        let mut body = write(&good());
        body[field] = json!(value);
        let refused = problem(&post(routes, "/cache/cs_1", &body).await, 409, "session_mismatch");
        assert_eq!(refused["mismatch"], field);
    }
}

#[tokio::test]
async fn cache_accepts_its_own_answers_and_refuses_raw_model_text() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut body = write(&good());
    for (field, value) in
        [("cached_at", json!("2020-01-01")), ("regen", json!(true)), ("regen_reason", json!("x"))]
    {
        body[field] = value;
    }
    let written = document(&post(routes, "/cache/cs_1", &body).await);
    assert_eq!(written["regen"], false, "oracled sets the field itself: {written}");
    assert_ne!(written["cached_at"], "2020-01-01");

    let refused = problem(&post(routes, "/cache/cs_2", &submission(GOOD)).await, 400, "invalid_request");
    assert!(refused["detail"].as_str().unwrap().contains("`raw`"), "{refused}");
    let no_verdict = json!({"tier": "quick", "query": "?"});
    let refused = problem(&post(routes, "/cache/cs_2", &no_verdict).await, 400, "invalid_request");
    assert!(refused["detail"].as_str().unwrap().contains("`verdict`"), "{refused}");
}
