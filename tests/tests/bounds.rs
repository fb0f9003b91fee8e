//! Clients that are slow, numerous or disconnected: each limit is enforced, and clients within the limits are served.

use oracled_tests::wire::{WireConnection, connections as many_connections, head, post as whole_post};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, PATIENCE, at, document, eventually, get, log, post, problem, submission,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const KIB: u64 = 1024;
const JSON: (&str, &str) = ("content-type", "application/json");

async fn check_daemon_serves(daemon: &DaemonProcess<'_>) {
    assert_eq!(get(&mut daemon.routes().await, "/healthz").await.status, 200);
}

/// Number of connections to the routes' socket that the daemon reports.
async fn connections(daemon: &DaemonProcess<'_>) -> u64 {
    let status = get(&mut daemon.control().await, "/v1/status").await;
    at(&status, "/connections").as_u64().expect("a number")
}

#[tokio::test]
async fn partial_request_of_a_disconnected_client_leaves_no_state() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let request = whole_post("/v1/verdicts/cs_1", &[], submission(GOOD).to_string());
    for sent in [1, 10, request.len() / 2, request.len() - 1] {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.send(&request[..sent]).await.unwrap();
    }
    check_daemon_serves(&daemon).await;
    eventually("the daemon counts no connection", async || connections(&daemon).await == 0).await;
    assert_eq!(log(&mut daemon.control().await, "session=cs_1").await.len(), 0);
}

#[tokio::test]
async fn submission_is_finished_after_its_client_disconnects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let sessions: Vec<_> = (0..50).map(|n| format!("cs_{n}")).collect();
    for session in &sessions {
        let request = whole_post(&format!("/v1/verdicts/{session}"), &[], submission(GOOD).to_string());
        WireConnection::connect(&world.socket()).await.send(request).await.unwrap();
    }
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for session in &sessions {
        let path = format!("/v1/verdicts/{session}");
        eventually("the verdict is cached", async || get(routes, &path).await.status == 200).await;
        let entries = log(control, &format!("session={session}")).await;
        let events: Vec<_> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["tmm_crosscheck", "verdict_cached"], "{session}");
    }
}

#[tokio::test]
async fn client_that_sends_one_byte_at_a_time_is_served() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut wire = WireConnection::connect(&world.socket()).await;
    for byte in whole_post("/v1/verdicts/cs_1", &[], submission(GOOD).to_string()) {
        wire.send([byte]).await.unwrap();
        // the pause lets each byte arrive as a separate piece
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(wire.answer().await.unwrap().status, 201);
    check_daemon_serves(&daemon).await;
}

#[tokio::test]
async fn incomplete_request_times_out_at_every_stage() {
    let world = DaemonWorld::with_config(
        "[limits]\nidle_s = 1\nrequest_s = 1\n[ingestion]\nrefresh_s = 0\n[model]\nprovider = \"none\"",
    );
    let daemon = world.serve().await;
    let connect = async || WireConnection::connect(&world.socket()).await;

    let mut silent = connect().await;
    let mut within_its_head = connect().await;
    within_its_head.send("GET /healthz HTTP/1.1\r\nhost: ").await.unwrap();
    let mut within_its_body = connect().await;
    let headers = [JSON, ("content-length", "1000")];
    within_its_body.send(head("POST", "/v1/verdicts/cs_1", &headers) + "{").await.unwrap();
    let mut between_requests = connect().await;
    let served = between_requests.exchange(head("GET", "/healthz", &[])).await.unwrap();
    assert_eq!(served.status, 200);
    let mut trickling = connect().await;
    let trickle = async {
        // sending a byte from time to time does not extend the limit
        while trickling.send("x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };

    let answer = within_its_body.answer().await.expect("an error");
    problem(&answer, 408, "request_timeout");
    timeout(PATIENCE, trickle).await.expect("the connection is closed");
    for wire in [&mut silent, &mut within_its_head, &mut within_its_body, &mut between_requests] {
        wire.wait_for_hangup().await;
    }
    check_daemon_serves(&daemon).await;
    eventually("the daemon counts no connection", async || connections(&daemon).await == 0).await;
}

#[tokio::test]
async fn connection_with_an_unread_answer_is_closed() {
    let world = DaemonWorld::with_config("[limits]\nidle_s = 1");
    let daemon = world.serve().await;
    // more than the kernel buffers for a client that does not read
    let raw = json!({"verdict": "GREEN", "summary": "x".repeat(1_000_000)}).to_string();
    let delivered = post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(&raw)).await;
    let mut never = Vec::new();
    for _ in 0..3 {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.send(head("GET", "/v1/verdicts/cs_1", &[])).await.unwrap();
        wire.wait_for_answer().await;
        never.push(wire);
    }
    eventually("the daemon counts no connection", async || connections(&daemon).await == 0).await;
    let read = get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await;
    assert!(read.body == delivered.body, "a client that reads gets the whole answer");
}

#[tokio::test]
async fn connection_over_the_limit_is_refused_and_the_next_gets_a_free_place() {
    let world = DaemonWorld::with_config("[limits]\nconnections = 3");
    let daemon = world.serve().await;
    eventually("the connection of the first check is closed", async || connections(&daemon).await == 0).await;
    let mut within = Vec::new();
    for _ in 0..3 {
        let mut wire = WireConnection::connect(&world.socket()).await;
        assert_eq!(wire.exchange(head("GET", "/healthz", &[])).await.unwrap().status, 200);
        within.push(wire);
    }
    for _ in 0..3 {
        let mut over = WireConnection::connect(&world.socket()).await;
        let answer = over.answer().await.expect("an error");
        let refused = problem(&answer, 503, "overloaded");
        assert!(refused["detail"].as_str().unwrap().contains('3'), "{refused}");
        assert_eq!(
            (&answer.headers["retry-after"], &answer.headers["connection"]),
            (&"1".parse().unwrap(), &"close".parse().unwrap())
        );
        over.wait_for_hangup().await;
    }
    // the control socket has a limit of its own
    assert_eq!(connections(&daemon).await, 3);
    for wire in &mut within {
        assert_eq!(
            wire.exchange(head("GET", "/healthz", &[])).await.unwrap().status,
            200,
            "open connections stay open"
        );
    }
    drop(within.pop());
    eventually("a connection is free", async || {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.exchange(head("GET", "/healthz", &[])).await.is_some_and(|answer| answer.status == 200)
    })
    .await;
}

#[tokio::test]
async fn verdicts_over_the_in_flight_limit_are_refused_with_retry_after() {
    let world = DaemonWorld::with_config("[limits]\nin_flight = 1");
    let daemon = world.serve().await;
    let mut wires = Vec::new();
    for _ in 0..32 {
        let mut wire = WireConnection::connect(&world.socket()).await;
        assert_eq!(wire.exchange(head("GET", "/healthz", &[])).await.unwrap().status, 200);
        wires.push(wire);
    }
    // all requests arrive at once, so that the first is still in flight when the daemon reads the next
    daemon.signal("STOP");
    for (number, wire) in wires.iter_mut().enumerate() {
        let path = format!("/v1/verdicts/cs_{number}");
        wire.send(whole_post(&path, &[], submission(GOOD).to_string())).await.unwrap();
    }
    daemon.signal("CONT");
    let mut by_status = BTreeMap::<u16, Vec<usize>>::new();
    for (number, wire) in wires.iter_mut().enumerate() {
        let answer = wire.answer().await.expect("the server answers");
        if answer.status == 503 {
            problem(&answer, 503, "overloaded");
            assert_eq!(answer.headers["retry-after"], "1");
        }
        by_status.entry(answer.status.as_u16()).or_default().push(number);
    }
    let statuses: Vec<_> = by_status.keys().copied().collect();
    assert_eq!(statuses, [201, 503], "{by_status:?}");
    // a refused verdict was not started, and is accepted when it is sent again
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for number in &by_status[&503] {
        assert_eq!(log(control, &format!("session=cs_{number}")).await, Vec::<serde_json::Value>::new());
        let path = format!("/v1/verdicts/cs_{number}");
        assert_eq!(post(routes, &path, &submission(GOOD)).await.status, 201);
    }
}

#[tokio::test]
async fn ten_thousand_idle_connections_use_bounded_memory() {
    let count = many_connections(10_000);
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let before = daemon.resident_bytes().unwrap();
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        idle.push(WireConnection::connect(&world.socket()).await);
    }
    eventually("all of them are accepted", async || connections(&daemon).await >= count as u64).await;
    for wire in &mut idle {
        // each request has begun and has buffers allocated
        wire.send("GET /healthz HTTP/1.1\r\n").await.unwrap();
    }
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    let after = daemon.resident_bytes().unwrap();
    println!("{count} idle connections: {before} bytes resident before, {after} with them");
    // the fixed allowance covers memory that the daemon allocates for itself when it begins to work
    let allowed = before + count as u64 * 40 * KIB + 16 * 1024 * KIB;
    assert!(after < allowed, "{after} bytes for {count} connections, {before} before");

    // each connection is still served
    let last = idle.last_mut().unwrap();
    assert_eq!(last.exchange("host: oracled\r\n\r\n").await.unwrap().status, 200);
    drop(idle);
    eventually("the daemon counts no connection", async || connections(&daemon).await == 0).await;
    check_daemon_serves(&daemon).await;
    assert_eq!(document(&get(&mut daemon.routes().await, "/readyz").await)["ready"], json!(true));
}
