//! Answers that do not need the body, to clients that read no answer before they have sent the whole body.

use oracled_api::client::DaemonResponse;
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{DaemonWorld, problem};
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;

const MIB: usize = 1024 * 1024;
/// More than a socket holds, so that a client cannot send it to a daemon that does not read.
const BODY_BYTES: usize = 3 * MIB;
const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends a request as Python's `http.client` does: first the head, then the whole body, and only then it reads.
async fn send_then_read(wire: &mut WireConnection, head: &str, body_bytes: usize) -> DaemonResponse {
    wire.send(head).await.expect("the daemon reads the head");
    // the daemon can answer and close the connection meanwhile
    sleep(Duration::from_millis(20)).await;
    for piece in vec![b' '; body_bytes].chunks(MIB) {
        wire.send(piece).await.expect("the daemon reads the body");
    }
    wire.answer().await.expect("the daemon answers")
}

fn with_body(method: &str, path: &str, headers: &[(&str, &str)], body_bytes: usize) -> String {
    let length = body_bytes.to_string();
    head(method, path, &[&[("content-length", length.as_str())], headers].concat())
}

/// Sends requests on one connection, each with a large body. The daemon answers each of them early.
async fn check(socket: &Path, requests: &[(&str, &str, u16, &str)]) {
    let mut wire = WireConnection::connect(socket).await;
    for (method, path, status, code) in requests {
        let answer =
            send_then_read(&mut wire, &with_body(method, path, &[JSON], BODY_BYTES), BODY_BYTES).await;
        problem(&answer, *status, code);
    }
}

#[tokio::test]
async fn bad_id_python_gets_its_answer_each_of_40_times() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    for path in ["/v1/verdicts/a%20b", "/v1/verdicts/.", "/v1/verdicts/..", "/v1/verdicts/%2e"] {
        for _ in 0..10 {
            let mut wire = WireConnection::connect(&world.socket()).await;
            let head = with_body("POST", path, &[JSON], BODY_BYTES);
            let answer = send_then_read(&mut wire, &head, BODY_BYTES).await;
            problem(&answer, 400, "invalid_session_id");
        }
    }
}

#[tokio::test]
async fn early_answer_of_every_kind_reads_the_body_and_keeps_the_connection() {
    let mut world = DaemonWorld::with_config("[limits]\nbody_bytes = 65536");
    world.add_review_socket();
    let _daemon = world.serve().await;
    check(
        &world.socket(),
        &[
            ("POST", "/v1/verdicts/a%20b", 400, "invalid_session_id"),
            ("PUT", "/v1/sessions/a%20b", 400, "invalid_session_id"),
            ("POST", "/cache/a%20b", 400, "invalid_session_id"),
            ("GET", "/v1/orders/a%20b", 400, "invalid_session_id"),
            ("POST", "/v1/verdicts/%ff", 400, "invalid_session_id"),
            ("POST", "/v1/verdicts/cs_1?x=1", 400, "invalid_request"),
            ("POST", "/nowhere", 404, "not_found"),
            ("POST", "/v1/signals/nothing", 404, "signal_unknown"),
            ("GET", "/v1/records/none", 404, "record_unknown"),
            ("DELETE", "/v1/crosscheck", 405, "method_not_allowed"),
            ("POST", "/v1/crosscheck", 413, "body_too_large"),
            ("POST", "/v1/query:batch", 415, "unsupported_media_type"),
        ],
    )
    .await;
    check(
        &world.control_socket(),
        &[
            ("POST", "/nowhere", 404, "not_found"),
            ("PATCH", "/v1/status", 405, "method_not_allowed"),
            ("PATCH", "/v1/sessions/a%20b", 400, "invalid_session_id"),
            ("PUT", "/v1/documents/nothing/x", 400, "invalid_request"),
            ("POST", "/v1/pipelines/none/runs?version=1&released_at=2026-01-01", 404, "pipeline_unknown"),
            ("POST", "/v1/runs/0123456789abcdef/cancel", 404, "run_unknown"),
            ("POST", "/v1/reload?x=1", 400, "invalid_request"),
        ],
    )
    .await;
    check(
        &world.review_socket(),
        &[
            ("POST", "/v1/status", 404, "not_found"),
            ("DELETE", "/v1/reviews", 405, "method_not_allowed"),
            ("POST", "/v1/orders/a%20b", 400, "invalid_session_id"),
        ],
    )
    .await;
}

#[tokio::test]
async fn early_answer_before_the_router_reads_the_body() {
    let world = DaemonWorld::with_config("[limits]\nheaders = 8\n[applications.shop]\nuids = [4000000]");
    let _daemon = world.serve().await;
    let mut wire = WireConnection::connect(&world.socket()).await;
    let many: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, "x")).to_vec();
    let answer =
        send_then_read(&mut wire, &with_body("POST", "/v1/crosscheck", &many, BODY_BYTES), BODY_BYTES).await;
    problem(&answer, 431, "headers_too_large");
    let answer =
        send_then_read(&mut wire, &with_body("POST", "/v1/crosscheck", &[JSON], BODY_BYTES), BODY_BYTES)
            .await;
    problem(&answer, 403, "application_unknown");
}

#[tokio::test]
async fn request_that_is_not_http_is_read_before_the_connection_is_closed() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    for socket in [world.socket(), world.control_socket()] {
        for _ in 0..5 {
            let mut wire = WireConnection::connect(&socket).await;
            let head = with_body("POST", "/v1/verdicts/a b", &[JSON], BODY_BYTES);
            assert_eq!(send_then_read(&mut wire, &head, BODY_BYTES).await.status, 400);
        }
    }
}

#[tokio::test]
async fn early_answer_closes_the_connection_after_32_mib_of_body_and_after_a_pause() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let closes =
        |answer: &DaemonResponse| answer.headers.get("connection").is_some_and(|value| value == "close");
    let mut wire = WireConnection::connect(&world.socket()).await;
    let all = with_body("POST", "/v1/verdicts/a%20b", &[JSON], 64 * MIB).into_bytes();
    let answer = wire.exchange([all, vec![b' '; 64 * MIB]].concat()).await.expect("the daemon answers");
    problem(&answer, 400, "invalid_session_id");
    assert!(closes(&answer), "{answer:?}");

    // this client waits for its answer
    let mut wire = WireConnection::connect(&world.socket()).await;
    wire.send(with_body("POST", "/v1/verdicts/a%20b", &[JSON], MIB)).await.expect("the daemon reads");
    let answer = wire.answer().await.expect("the daemon answers");
    problem(&answer, 400, "invalid_session_id");
    assert!(closes(&answer), "{answer:?}");

    // this client sends its body only when it is asked to
    let headers = [JSON, ("expect", "100-continue")];
    let mut wire = WireConnection::connect(&world.socket()).await;
    wire.send(with_body("POST", "/v1/verdicts/a%20b", &headers, MIB)).await.expect("the daemon reads");
    problem(&wire.answer().await.expect("the daemon answers"), 400, "invalid_session_id");
}
