//! Orders that their application cancels.

use domain_verdict::label::ProductTier;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{
    event_names, generation_request, read_metric, read_order, read_verdict, request_order, request_verdict,
    wait_for_first_attempt, wait_for_order,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, call, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use std::time::Duration;

async fn cancel(routes: &mut DaemonClient, session: &str) -> DaemonResponse {
    call(routes, Method::DELETE, &format!("/v1/orders/{session}"), None).await
}

/// Asserts that the session gets no verdict on any path.
async fn assert_final(routes: &mut DaemonClient, session: &str) {
    problem(&request_verdict(routes, session).await, 409, "order_cancelled");
    problem(&read_verdict(routes, session).await, 409, "order_cancelled");
    let mut submitted = generation_request(ProductTier::Quick);
    submitted["raw"] = json!(GOOD);
    problem(&post(routes, &format!("/v1/verdicts/{session}"), &submitted).await, 409, "order_cancelled");
    let mut written = generation_request(ProductTier::Quick);
    written["verdict"] = serde_json::from_str(GOOD).expect("valid JSON");
    problem(&post(routes, &format!("/cache/{session}"), &written).await, 409, "order_cancelled");
    assert_eq!(read_order(routes, session).await["state"], "cancelled");
}

#[tokio::test]
async fn cancelled_order_discards_the_answer_and_counts_its_tokens() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(700)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let placed = request_order(&world.socket(), "cs_1", &generation_request(ProductTier::Quick)).await;
    assert_eq!((placed.status.as_u16(), at(&placed, "/state")), (202, json!("generating")));
    for _ in 0..2 {
        let cancelled = cancel(routes, "cs_1").await;
        assert_eq!((cancelled.status.as_u16(), at(&cancelled, "/state")), (200, json!("cancelled")));
    }
    assert_final(routes, "cs_1").await;
    eventually("the call has ended", async || {
        read_order(&mut daemon.routes().await, "cs_1").await["last_attempts"][0]["usage"]["total_tokens"]
            == 340
    })
    .await;
    assert_final(routes, "cs_1").await;
    let order = read_order(routes, "cs_1").await;
    assert_eq!(order["last_attempts"][0]["outcome"], "cancelled");
    let ended = r#"oracled_orders_ended_total{application="default",state="cancelled"}"#;
    assert!((read_metric(routes, ended).await - 1.0).abs() < f64::EPSILON);
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    for event in ["order_cancelled", "oracle_interaction", "order_attempt_failed"] {
        assert_eq!(events.iter().filter(|name| *name == event).count(), 1, "{events:?}");
    }
    assert!(!events.contains(&"verdict_cached".to_owned()), "{events:?}");
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn cancellation_of_a_queued_order_outlasts_a_kill() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::error(503, "busy"));
    let world = model.create_world("max_retries = 0");
    let daemon = world.serve().await;
    request_order(&world.socket(), "cs_1", &generation_request(ProductTier::Quick)).await;
    wait_for_first_attempt(&mut daemon.routes().await, "cs_1").await;
    let waiting = wait_for_order(&mut daemon.routes().await, "cs_1", "queued").await;
    assert!(waiting["next_attempt_at"].is_string(), "{waiting}");
    let cancelled = cancel(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(cancelled.status, 200, "{}", document(&cancelled));
    let calls = model.request_count();
    daemon.kill();
    model.set_default(ScriptedReply::with_text(GOOD));
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_final(routes, "cs_1").await;
    assert_eq!(cancel(routes, "cs_1").await.status, 200);
    assert_eq!(model.request_count(), calls);
    let retry = json!({"action": "retry", "reason": "x"});
    let retried = post(&mut daemon.control().await, "/v1/orders/cs_1", &retry).await;
    problem(&retried, 409, "order_state_refused");
    let listed = get(&mut daemon.control().await, "/v1/orders?state=cancelled").await;
    assert_eq!(at(&listed, "/items/0/session_id"), "cs_1");
}

async fn cancel_as_operator(control: &mut DaemonClient, session: &str) -> DaemonResponse {
    let request = json!({"action": "cancel", "reason": "refunded"});
    post(control, &format!("/v1/orders/{session}"), &request).await
}

#[tokio::test]
async fn operator_cancels_a_generating_order_and_the_entry_names_the_operator() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(700)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    request_order(&world.socket(), "cs_1", &generation_request(ProductTier::Quick)).await;
    let arguments = ["--json", "order", "cancel", "cs_1", "--reason", "refunded"];
    let mut shown = Vec::new();
    for _ in 0..2 {
        let output = world.ctl_in_thread(&arguments).await;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        shown.push(serde_json::from_slice::<Value>(&output.stdout).expect("JSON"));
    }
    assert_eq!(shown[0]["state"], "cancelled");
    assert_eq!(shown[0]["operator_action"], shown[1]["operator_action"], "the first cancellation stays");
    assert_eq!(shown[0]["operator_action"]["action"], "cancel");
    assert_final(routes, "cs_1").await;
    eventually("the call has ended", async || {
        read_order(&mut daemon.routes().await, "cs_1").await["last_attempts"][0]["usage"]["total_tokens"]
            == 340
    })
    .await;
    assert!(
        read_order(routes, "cs_1").await["operator_action"].is_null(),
        "the application sees no operator"
    );
    let entries = log(&mut daemon.control().await, "event=order_cancelled").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((&entries[0]["from"], &entries[0]["reason"]), (&json!("generating"), &json!("refunded")));
    assert!(entries[0]["peer"]["pid"].is_u64(), "{entries:?}");
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn operator_cancels_by_the_rules_of_the_application() {
    let model = ModelServer::start().await;
    model.next([ScriptedReply::with_text(GOOD)]);
    model.set_default(ScriptedReply::with_text("{}"));
    let world = model.create_world("[gate]\nhold = [\"short_summary\"]\n");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    problem(&cancel_as_operator(control, "cs_1").await, 409, "order_state_refused");
    problem(&request_verdict(routes, "cs_2").await, 422, "order_failed");
    problem(&cancel_as_operator(control, "cs_2").await, 409, "order_state_refused");
    problem(&cancel_as_operator(control, "cs_3").await, 404, "order_unknown");
    model.set_default(ScriptedReply::with_text(r#"{"verdict":"GREEN","summary":"short"}"#));
    request_order(&world.socket(), "cs_4", &generation_request(ProductTier::Quick)).await;
    wait_for_order(routes, "cs_4", "held").await;
    assert_eq!(at(&cancel_as_operator(control, "cs_4").await, "/state"), "cancelled");
    assert_final(routes, "cs_4").await;
    problem(&get(control, "/v1/orders/cs_4/verdict").await, 409, "order_state_refused");
    // the application gets the same answer as after its own cancellation
    assert_eq!(cancel(routes, "cs_4").await.status, 200);
    let entries = log(control, "event=order_cancelled").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[tokio::test]
async fn value_of_a_wrong_type_in_place_of_a_word_is_an_invalid_request() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for action in [json!(null), json!(5), json!([]), json!(true), json!({}), json!("")] {
        let request = json!({"action": action, "reason": "x"});
        let answer = post(&mut daemon.control().await, "/v1/orders/cs_1", &request).await;
        let refused = problem(&answer, 400, "invalid_request");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("action")), "{refused}");
    }
}

#[tokio::test]
async fn delivered_failed_or_missing_order_is_not_cancelled() {
    let model = ModelServer::start().await;
    model.next([ScriptedReply::with_text(GOOD)]);
    model.set_default(ScriptedReply::with_text("{}"));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    problem(&cancel(routes, "cs_1").await, 409, "order_state_refused");
    problem(&request_verdict(routes, "cs_2").await, 422, "order_failed");
    problem(&cancel(routes, "cs_2").await, 409, "order_state_refused");
    assert_eq!(post(routes, "/v1/verdicts/cs_3", &submission(GOOD)).await.status, 201);
    problem(&cancel(routes, "cs_3").await, 404, "order_unknown");
    problem(&cancel(routes, "cs_4").await, 404, "order_unknown");
}
