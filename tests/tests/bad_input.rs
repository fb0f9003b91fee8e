//! Invalid requests: each gets its own error, and the daemon continues to serve.

use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::wire::{self, WireConnection, head};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, get, post, problem, submission};
use serde_json::json;

const KIB: usize = 1024;

/// Posts a body without changes.
async fn send(client: &mut DaemonClient, path: &str, body: impl Into<bytes::Bytes>) -> DaemonResponse {
    client.call(Method::POST, path, Some(body.into())).await.expect("the server answers")
}

/// Sends a whole request on a connection of its own.
async fn exchange(world: &DaemonWorld, request: impl AsRef<[u8]>) -> DaemonResponse {
    WireConnection::connect(&world.socket()).await.exchange(request).await.expect("the server answers")
}

async fn check_daemon_serves(daemon: &DaemonProcess<'_>) {
    assert_eq!(get(&mut daemon.routes().await, "/healthz").await.status, 200);
}

#[tokio::test]
async fn invalid_json_and_invalid_requests_have_different_codes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for path in ["/v1/verdicts/cs_1", "/v1/crosscheck", "/cache/cs_1"] {
        for text in ["", "{", "{\"tier\":}", "tier=quick", "\u{feff}{}", "{\"tier\":\"\u{1}\"}"] {
            problem(&send(routes, path, text.to_owned()).await, 400, "invalid_json");
        }
        problem(&send(routes, path, &b"{\"tier\":\"\xff\"}"[..]).await, 400, "invalid_json");
        for text in
            ["null", "42", "\"quick\"", "{}", "[]", "{\"tier\":1}", "{\"tier\":\"quick\",\"query\":[]}"]
        {
            problem(&send(routes, path, text).await, 400, "invalid_request");
        }
        // field values in order, without their names
        let bare =
            r#"["quick","Sell honey?",null,null,"{\"verdict\":\"GREEN\",\"summary\":\"A sound plan.\"}"]"#;
        problem(&send(routes, path, bare).await, 400, "invalid_request");
        let twice = r#"{"tier":"quick","tier":"full","query":"?","verdict":{}}"#;
        problem(&send(routes, path, twice).await, 400, "invalid_request");
    }
    // nested deeper than any stack permits
    let deep = format!(
        r#"{{"tier":"quick","query":"?","verdict":{}1{}}}"#,
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    let refused = problem(&send(routes, "/v1/verdicts/cs_1", deep).await, 422, "crosscheck_rejected");
    assert_eq!(refused["decision"]["flags"][0], "malformed_json");
    problem(&send(routes, "/v1/verdicts/cs_1", "[".repeat(200_000)).await, 400, "invalid_json");
    check_daemon_serves(&daemon).await;
}

#[tokio::test]
async fn body_without_json_content_type_is_rejected() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let body = submission(GOOD).to_string();
    let declared = |content_type: &str| {
        let length = body.len().to_string();
        let mut headers = vec![("content-length", length.as_str())];
        if !content_type.is_empty() {
            headers.push(("content-type", content_type));
        }
        head("POST", "/v1/verdicts/cs_1", &headers) + &body
    };
    for other in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json"] {
        let refused = problem(&exchange(&world, declared(other)).await, 415, "unsupported_media_type");
        let named = if other.is_empty() { "absent" } else { other };
        assert!(refused["detail"].as_str().unwrap().contains(named), "{refused}");
    }
    let json = ["application/json", "Application/JSON; charset=utf-8", "application/vnd.oracle+json"];
    for content_type in json {
        let answer = exchange(&world, declared(content_type)).await;
        assert!(answer.status.is_success(), "{content_type}: {answer:?}");
    }
}

#[tokio::test]
async fn unknown_tier_is_rejected_with_the_list_of_tiers() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for tier in ["platinum", "Quick", "", "quick "] {
        for path in ["/v1/verdicts/cs_1", "/v1/crosscheck", "/cache/cs_1"] {
            let mut body = json!({"tier": tier, "query": "?", "verdict": {}});
            if path == "/v1/crosscheck" {
                body["session_id"] = json!("cs_1");
            }
            let refused = problem(&post(routes, path, &body).await, 400, "unknown_tier");
            assert!(refused["detail"].as_str().unwrap().ends_with("quick, full, strategy"), "{refused}");
        }
    }
}

#[tokio::test]
async fn session_id_in_a_path_is_limited_in_length_and_alphabet() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let long = "x".repeat(256);
    let escaped = ["%2F", "a%2Fb", "%00", "a%00", "%20", "%C3%A9", "a%0Ab", "%25", "%3F", "%E2%80%AE"];
    let not_utf8 = ["%FF", "a%C3", "%ED%A0%80"];
    // clients and proxies take the last four out of a path
    let plain = ["a+b", "a*b", "a%", "a%zz", "~", "(a)", "a@b", &long, ".", "..", "%2e", "%2E."];
    for bad in escaped.iter().chain(&not_utf8).chain(&plain) {
        for prefix in ["/v1/verdicts", "/cache"] {
            let path = format!("{prefix}/{bad}");
            problem(&get(routes, &path).await, 400, "invalid_session_id");
            problem(&post(routes, &path, &submission(GOOD)).await, 400, "invalid_session_id");
        }
        // on the control socket a session is named with its application
        if *bad == "a%2Fb" {
            continue;
        }
        let path = format!("/v1/verdicts/{bad}");
        let answer = control.call(Method::DELETE, &path, None).await.unwrap();
        problem(&answer, 400, "invalid_session_id");
    }
    for good in ["x", &"x".repeat(255), "A-Z_a.z:0-9", "%41", "...", ".a", "a.."] {
        problem(&get(routes, &format!("/v1/verdicts/{good}")).await, 404, "session_unknown");
    }
    for path in ["/v1/verdicts/", "/v1/verdicts", "/cache/", "/v1/verdicts/a/b"] {
        problem(&get(routes, path).await, 404, "not_found");
    }
}

#[tokio::test]
async fn configured_limits_are_enforced() {
    let world =
        DaemonWorld::with_config("[limits]\nsession_id_chars = 10\nquery_bytes = 20\nbody_bytes = 1024");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let refused = problem(&get(routes, "/v1/verdicts/elevenchars").await, 400, "invalid_session_id");
    let mut details = refused["detail"].as_str().unwrap().to_owned();
    let body = json!({"tier": "quick", "query": "A query of more than 20 bytes", "raw": GOOD});
    let refused = problem(&post(routes, "/v1/verdicts/cs_1", &body).await, 400, "query_too_long");
    details = details + "\n" + refused["detail"].as_str().unwrap();
    let refused = post(routes, "/v1/verdicts/cs_1", &submission(&" ".repeat(1024))).await;
    let refused = problem(&refused, 413, "body_too_large");
    details = details + "\n" + refused["detail"].as_str().unwrap();
    insta::assert_snapshot!(details);
    let body = json!({"tier": "quick", "query": "?", "raw": GOOD});
    assert_eq!(post(routes, "/v1/verdicts/ten.chars_", &body).await.status, 201);
}

#[tokio::test]
async fn query_longer_than_32_kib_is_rejected() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let asking = |query: String| json!({"tier": "quick", "query": query, "raw": GOOD});
    let most = "é".repeat(16 * KIB);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &asking(most.clone())).await.status, 201);
    assert_eq!(document(&get(routes, "/v1/verdicts/cs_1").await)["query"], most);
    let refused = post(routes, "/v1/verdicts/cs_2", &asking(most + "?")).await;
    let refused = problem(&refused, 400, "query_too_long");
    assert!(refused["detail"].as_str().unwrap().contains("32769"), "{refused}");
}

/// The body of a submission, padded to `bytes` bytes.
fn body_of(bytes: usize) -> String {
    let body = submission(GOOD).to_string();
    format!("{body}{}", " ".repeat(bytes - body.len()))
}

#[tokio::test]
async fn body_over_1_mib_is_rejected() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let most = exchange(&world, wire::post("/v1/verdicts/cs_1", &[], body_of(KIB * KIB))).await;
    assert_eq!(most.status, 201);
    for too_many in [KIB * KIB + 1, 3 * KIB * KIB] {
        let answer = exchange(&world, wire::post("/v1/verdicts/cs_2", &[], body_of(too_many))).await;
        let refused = problem(&answer, 413, "body_too_large");
        assert!(refused["detail"].as_str().unwrap().contains("1048576"), "{refused}");
    }
    check_daemon_serves(&daemon).await;
}

#[tokio::test]
async fn chunked_body_over_1_mib_is_rejected() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let chunked = |body: &str| {
        let chunks = body.as_bytes().chunks(50_000);
        let chunks =
            chunks.flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        let headers = [("content-type", "application/json"), ("transfer-encoding", "chunked")];
        let head = head("POST", "/v1/verdicts/cs_1", &headers).into_bytes();
        head.into_iter().chain(chunks).chain(*b"0\r\n\r\n").collect::<Vec<_>>()
    };
    problem(&exchange(&world, chunked(&body_of(KIB * KIB + 1))).await, 413, "body_too_large");
    assert_eq!(exchange(&world, chunked(&body_of(KIB * KIB))).await.status, 201);
    check_daemon_serves(&daemon).await;
}

#[tokio::test]
async fn content_length_over_the_limit_is_rejected_before_the_body_is_sent() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let headers = [("content-type", "application/json"), ("content-length", "5000000000")];
    let answer = exchange(&world, head("POST", "/v1/verdicts/cs_1", &headers)).await;
    problem(&answer, 413, "body_too_large");
}

#[tokio::test]
async fn request_with_too_many_or_too_large_headers_is_rejected() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let with = |count: usize, value: &str| {
        let names: Vec<_> = (0..count).map(|n| format!("x-h{n}")).collect();
        let headers: Vec<_> = names.iter().map(|name| (name.as_str(), value)).collect();
        head("GET", "/healthz", &headers)
    };
    let refused = problem(&exchange(&world, with(64, "x")).await, 431, "headers_too_large");
    assert!(refused["detail"].as_str().unwrap().contains("65"), "with `host`: {refused}");
    let large = "x".repeat(9 * KIB);
    problem(&exchange(&world, with(2, &large)).await, 431, "headers_too_large");
    problem(&exchange(&world, with(3, &large)).await, 431, "headers_too_large");
    for beyond in [with(200, "x"), with(20, &large)] {
        assert_eq!(exchange(&world, beyond).await.status, 431);
    }
    assert_eq!(exchange(&world, with(63, "x")).await.status, 200);
    check_daemon_serves(&daemon).await;
}

#[tokio::test]
async fn unknown_path_is_404_and_wrong_method_is_405() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for path in ["/", "/v1", "/v1/status", "/v2/crosscheck", "/healthz/", "//healthz", "/%2e%2e/etc/passwd"] {
        problem(&get(routes, path).await, 404, "not_found");
        problem(&post(routes, path, &json!({})).await, 404, "not_found");
    }
    problem(&get(control, "/healthz").await, 404, "not_found");
    let wrong = [
        (Method::GET, "/v1/crosscheck", "POST"),
        (Method::DELETE, "/v1/verdicts/cs_1", "GET,HEAD,POST"),
        (Method::PUT, "/cache/cs_1", "GET,HEAD,POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::PATCH, "/metrics", "GET,HEAD"),
        (Method::OPTIONS, "/v1/crosscheck", "POST"),
    ];
    for (method, path, allowed) in wrong {
        let answer = routes.call(method.clone(), path, None).await.unwrap();
        problem(&answer, 405, "method_not_allowed");
        assert_eq!(answer.headers.get("allow").unwrap(), allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn response_has_the_callers_request_id_if_valid() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let id = |answer: &DaemonResponse| answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let mut given = Vec::new();
    for path in ["/healthz", "/nowhere", "/v1/verdicts/%FF", "/v1/crosscheck", "/openapi.json"] {
        let own = [("x-request-id", "order-42.7/b")];
        assert_eq!(id(&exchange(&world, head("GET", path, &own)).await), "order-42.7/b", "{path}");
        given.push(id(&exchange(&world, head("GET", path, &[])).await));
    }
    let long = "x".repeat(129);
    for unusable in ["", "a b", "\u{e9}", &long] {
        let answer = exchange(&world, head("GET", "/healthz", &[("x-request-id", unusable)])).await;
        assert_ne!(id(&answer), unusable);
        given.push(id(&answer));
    }
    let distinct: std::collections::BTreeSet<_> = given.iter().collect();
    assert_eq!(distinct.len(), given.len(), "{given:?}");
}

#[tokio::test]
async fn invalid_http_closes_only_its_own_connection() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    let many = vec![b'A'; 200 * KIB];
    let garbage: [&[u8]; 9] = [
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/crosscheck HTTP/1.1\r\nhost: o\r\ncontent-length: many\r\n\r\n",
        b"POST /v1/crosscheck HTTP/1.1\r\nhost: o\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        &many,
    ];
    for bytes in garbage {
        for socket in [world.socket(), world.control_socket(), world.review_socket()] {
            let mut wire = WireConnection::connect(&socket).await;
            drop(wire.send(bytes).await);
            // a client that waits gets its answer; the daemon drops the connection of a client that disconnects
            drop(wire);
        }
        check_daemon_serves(&daemon).await;
    }
    for bytes in &garbage[2..] {
        let mut wire = WireConnection::connect(&world.socket()).await;
        if let Some(answer) = wire.exchange(bytes).await {
            assert!(answer.status.is_client_error(), "{answer:?} to {bytes:?}");
        }
        wire.wait_for_hangup().await;
    }
}

#[tokio::test]
async fn rejected_large_body_can_be_sent_in_full_before_the_answer_is_read() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let large = "x".repeat(5_000_000);
    let mut wire = WireConnection::connect(&world.socket()).await;
    wire.send(wire::post("/v1/crosscheck", &[], large.clone())).await.expect("the write succeeds");
    problem(&wire.answer().await.expect("the server answers"), 413, "body_too_large");
    let mut wire = WireConnection::connect(&world.socket()).await;
    let text =
        head("POST", "/v1/crosscheck", &[("content-type", "text/plain"), ("content-length", "5000000")]);
    wire.send([text.as_bytes(), large.as_bytes()].concat()).await.expect("the write succeeds");
    problem(&wire.answer().await.expect("the server answers"), 415, "unsupported_media_type");
    check_daemon_serves(&daemon).await;
}
