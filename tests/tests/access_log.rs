//! The access log and the metrics of requests: routes by their templates, and no request is left out.

use oracled_tests::generation::read_metric;
use oracled_tests::wire::{WireConnection, head, post as whole_post};
use oracled_tests::{DaemonWorld, GOOD, eventually, get, lines, post, submission};
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn world_with(config: &str) -> DaemonWorld {
    DaemonWorld::with_config(&format!("log_format = \"json\"\n{config}"))
}

/// The entries of the access log, without those of the requests by which the helper waits for the daemon.
fn entries(world: &DaemonWorld) -> Vec<Value> {
    let is_entry = |line: &Value| line["fields"]["message"] == "request ended";
    let fields = lines(world.service_log().as_bytes()).into_iter().filter(is_entry);
    fields.map(|line| line["fields"].clone()).filter(|entry| entry["route"] != "/healthz").collect()
}

#[tokio::test]
async fn entry_has_the_template_of_the_route_and_no_id_or_query() {
    let world = world_with("access_log = \"all\"");
    let daemon = world.serve().await;
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("x-request-id", "order-1"), ("traceparent", &*traceparent)];
    let request = whole_post("/v1/verdicts/cs_secret", &headers, submission(GOOD).to_string());
    let answer = WireConnection::connect(&world.socket()).await.exchange(request).await.expect("an answer");
    assert_eq!(answer.status, 201);
    let routes = &mut daemon.routes().await;
    assert_eq!(get(routes, "/v1/changes?oracle_id=secret").await.status.as_u16() / 100, 4);
    assert_eq!(get(routes, "/secret/path").await.status, 404);
    assert_eq!(get(&mut daemon.control().await, "/v1/sessions/cs_secret").await.status, 200);
    eventually("all entries are written", async || entries(&world).len() >= 4).await;
    let entries = entries(&world);
    let first = &entries[0];
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for (field, value) in [
        ("socket", json!("routes")),
        ("method", json!("POST")),
        ("route", json!("/v1/verdicts/{session_id}")),
        ("status", json!(201)),
        ("is_complete", json!(true)),
        ("response_bytes", json!(answer.body.len())),
        ("uid", json!(uid)),
        ("gid", json!(gid)),
        ("pid", json!(std::process::id())),
        ("application", json!("default")),
        ("request_id", json!("order-1")),
        ("trace_id", json!(TRACE)),
        ("parent_id", json!(PARENT)),
    ] {
        assert_eq!(first[field], value, "{field}: {first}");
    }
    assert!(first["duration_us"].as_u64().is_some_and(|duration| duration > 0), "{first}");
    let of = |number: usize| {
        let entry: &Value = &entries[number];
        (entry["socket"].clone(), entry["route"].clone(), entry["status"].as_u64().map(|status| status / 100))
    };
    assert_eq!(of(1), (json!("routes"), json!("/v1/changes"), Some(4)));
    assert_eq!(of(2), (json!("routes"), json!("unmatched"), Some(4)));
    assert_eq!(of(3), (json!("control"), json!("/v1/sessions/{session_id}"), Some(2)));
    assert!(entries[1].get("trace_id").is_none(), "{}", entries[1]);
    assert!(!world.service_log().contains("secret"), "{}", world.service_log());
}

#[tokio::test]
async fn level_errors_logs_only_failed_requests_and_off_none() {
    for (config, expected) in [("", 1), ("access_log = \"off\"", 0)] {
        let world = world_with(config);
        let daemon = world.serve().await;
        let routes = &mut daemon.routes().await;
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
        assert_eq!(get(routes, "/v1/orders/cs_2").await.status, 404);
        let draining = json!({"draining": true});
        assert_eq!(post(&mut daemon.control().await, "/v1/drain", &draining).await.status, 200);
        assert_eq!(post(routes, "/v1/verdicts/cs_2", &submission(GOOD)).await.status, 503);
        assert!(daemon.stop().success());
        let entries = entries(&world);
        assert_eq!(entries.len(), expected, "{entries:?}");
        assert!(entries.iter().all(|entry| entry["status"] == 503), "{entries:?}");
    }
}

#[tokio::test]
async fn rejected_connections_and_broken_requests_have_entries() {
    let world = world_with("access_log = \"all\"\n[limits]\nconnections = 1\nheaders = 8");
    let daemon = world.serve().await;
    let bare = ["x-a", "x-b", "x-c", "x-d", "x-e", "x-f", "x-g", "x-h", "x-i"].map(|name| (name, "1"));
    for (request, status) in [
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), 400),
        (head("GET", "/healthz", &[bare; 2].concat()).into_bytes(), 431),
        (head("GET", "/healthz", &bare).into_bytes(), 431),
    ] {
        eventually("the connection before is closed", async || {
            let answer = WireConnection::connect(&world.socket()).await.exchange(&request).await;
            answer.is_some_and(|answer| answer.status == status)
        })
        .await;
    }
    let mut held = None;
    eventually("the connection before is closed", async || {
        let mut connection = WireConnection::connect(&world.socket()).await;
        let answer = connection.exchange(head("GET", "/x", &[])).await;
        held = answer.is_some_and(|answer| answer.status == 404).then_some(connection);
        held.is_some()
    })
    .await;
    eventually("the connection is refused", async || {
        let answer = WireConnection::connect(&world.socket()).await.exchange(head("GET", "/x", &[])).await;
        answer.is_some_and(|answer| answer.status == 503)
    })
    .await;
    drop(held);
    assert!(daemon.stop().success());
    let entries = entries(&world);
    for status in [400, 431, 503] {
        let of_status: Vec<_> = entries.iter().filter(|entry| entry["status"] == status).collect();
        assert!(!of_status.is_empty(), "{status}: {entries:?}");
        for entry in of_status {
            assert_eq!(entry["route"], "unmatched", "{entry}");
            assert!(entry["request_id"].is_string() && entry["uid"].is_u64(), "{entry}");
        }
    }
}

#[tokio::test]
async fn streamed_response_is_logged_at_its_end_and_marked_if_cut() {
    let world = world_with("");
    let daemon = world.serve().await;
    let mut follower = WireConnection::connect(&world.control_socket()).await;
    follower.send(head("GET", "/v1/log/follow?after=0", &[])).await.expect("the request is sent");
    follower.wait_for_answer().await;
    let in_flight = "oracled_http_requests_in_flight{socket=\"control\",route=\"/v1/log/follow\"}";
    let routes = &mut daemon.routes().await;
    assert_eq!(read_metric(routes, in_flight).await, 1.0);
    assert!(entries(&world).is_empty(), "{}", world.service_log());
    drop(follower);
    eventually("the disconnect is logged", async || {
        // the daemon notices a closed connection when it writes
        drop(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await);
        !entries(&world).is_empty()
    })
    .await;
    let entry = &entries(&world)[0];
    assert_eq!(
        (&entry["route"], &entry["is_complete"]),
        (&json!("/v1/log/follow"), &json!(false)),
        "{entry}"
    );
    assert_eq!(entry["status"], 200);
    assert!(entry["response_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{entry}");
    assert_eq!(read_metric(routes, in_flight).await, 0.0);
}

#[tokio::test]
async fn request_metrics_have_one_series_for_all_unmatched_paths() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for number in 0..20 {
        assert_eq!(get(routes, &format!("/no/such/{number}")).await.status, 404);
        assert_eq!(post(routes, &format!("/v1/verdicts/cs_{number}"), &submission(GOOD)).await.status, 201);
    }
    let delete = head("DELETE", "/v1/crosscheck", &[]);
    assert_eq!(
        WireConnection::connect(&world.socket()).await.exchange(delete).await.expect("an answer").status,
        405
    );
    let ended = |route: &str, method: &str, status: u16| {
        format!(
            "oracled_http_requests_total{{socket=\"routes\",route=\"{route}\",method=\"{method}\",status=\"{status}\"}}"
        )
    };
    assert_eq!(read_metric(routes, &ended("unmatched", "GET", 404)).await, 20.0);
    assert_eq!(read_metric(routes, &ended("/v1/verdicts/{session_id}", "POST", 201)).await, 20.0);
    assert_eq!(read_metric(routes, &ended("/v1/crosscheck", "DELETE", 405)).await, 1.0);
    let count = "oracled_http_request_seconds_count{socket=\"routes\",route=\"/v1/verdicts/{session_id}\"}";
    assert_eq!(read_metric(routes, count).await, 20.0);
}
