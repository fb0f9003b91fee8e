//! `/v1/verify`: envelopes of each kind, and refused requests.

use bytes::Bytes;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::verification::{register, register_offices, workflow};
use oracled_tests::{DaemonWorld, at, document, eventually, get, ground, log, post, problem};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;

fn verify_request(workflow: &str) -> Value {
    json!({"workflow": workflow, "where": {"area": "ABW", "year": 1960}, "axes": ["population"]})
}

async fn verify(routes: &mut DaemonClient, workflow: &str) -> DaemonResponse {
    let answer = post(routes, "/v1/verify", &verify_request(workflow)).await;
    assert!(answer.status.is_success(), "{}", document(&answer));
    answer
}

fn header<'a>(answer: &'a DaemonResponse, name: &str) -> Option<&'a str> {
    answer.headers.get(name).and_then(|value| value.to_str().ok())
}

#[tokio::test]
async fn envelope_is_returned_from_the_log_byte_for_byte() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "secondary", "54208")]).await;
    let census = workflow("census", &["office-a", "office-b"], json!({}));
    register(&mut daemon.control().await, &census).await;
    let routes = &mut daemon.routes().await;
    let answer = verify(routes, "census").await;
    let envelope = document(&answer);
    assert_eq!((answer.status.as_u16(), header(&answer, "content-type")), (200, Some("application/json")));
    assert_eq!((&envelope["kind"], &envelope["status"]), (&json!("authoritative"), &json!("verified")));
    let axis = &envelope["axes"]["population"];
    assert_eq!((&axis["value"], &axis["unit"]), (&json!("54208"), &json!("{person}")));
    assert_eq!(axis["evidence"].as_array().map(Vec::len), Some(2));
    assert!(header(&answer, "location").is_none() && header(&answer, "retry-after").is_none());
    let canonical = serde_json::to_vec(&envelope).expect("valid JSON");
    assert_eq!(answer.body, canonical, "members in order, without white space");

    let id = envelope["execution_id"].as_str().expect("a string");
    let again = get(routes, &format!("/v1/verify/{id}")).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &answer.body));
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let after_a_restart = get(&mut daemon.routes().await, &format!("/v1/verify/{id}")).await;
    assert_eq!(after_a_restart.body, answer.body);
}

#[tokio::test]
async fn envelope_without_values_is_a_success() {
    let world = DaemonWorld::default();
    let budget = json!({"authority_latency": {"authority_latency_budget_ms": 100, "enforcement_mode": "NON_AUTHORITATIVE_ONLY", "on_timeout_behavior": "DEGRADE_TO_NARRATIVE"}});
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    let control = &mut daemon.control().await;
    ground::register(control, "world-bank-population").await;
    for workflow in [
        workflow("census", &["office-a", "office-b"], json!({})),
        workflow("silent", &["world-bank-population"], json!({})),
        workflow("story", &["office-a"], budget),
    ] {
        register(control, &workflow).await;
    }
    let routes = &mut daemon.routes().await;
    let disputed = verify(routes, "census").await;
    let envelope = document(&disputed);
    assert_eq!((disputed.status.as_u16(), &envelope["kind"]), (200, &json!("human_review")));
    assert_eq!(envelope["review_id"], envelope["execution_id"]);
    assert!(envelope["axes"]["population"].get("value").is_none(), "{envelope}");
    let answer = verify(routes, "story").await;
    assert_eq!(at(&answer, "/kind"), "narrative_only");
    let open = json!({"workflow": "census", "where": {"area": "ABW"}, "axes": ["population"]});
    assert_eq!(at(&post(routes, "/v1/verify", &open).await, "/kind"), "requires_specification");
    let unanswerable =
        json!({"workflow": "census", "where": {"area": "ZZZ", "year": 1960}, "axes": ["population"]});
    let blocked = post(routes, "/v1/verify", &unanswerable).await;
    assert_eq!((blocked.status.as_u16(), at(&blocked, "/kind")), (200, json!("blocked")));
    assert!(at(&blocked, "/retry/after_ms").is_null() && header(&blocked, "retry-after").is_none());
    let silent = verify(routes, "silent").await;
    assert_eq!(at(&silent, "/kind"), "blocked", "{}", document(&silent));
    assert_eq!(at(&silent, "/candidates/0/outcome"), "failed");
}

#[tokio::test]
async fn delayed_answer_is_provisional_first_and_found_under_the_same_id() {
    let world = DaemonWorld::default();
    let later = json!({"authority_latency": {"authority_latency_budget_ms": 100, "enforcement_mode": "ASYNC", "on_timeout_behavior": "ESCALATE"}});
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a"], later)).await;
    let routes = &mut daemon.routes().await;
    let pending = verify(routes, "census").await;
    assert_eq!((pending.status.as_u16(), at(&pending, "/kind")), (202, json!("provisional")));
    let place = header(&pending, "location").expect("the response has a location").to_owned();
    assert_eq!(json!(place.strip_prefix("/v1/verify/")), at(&pending, "/execution_id"));
    eventually("the decision is taken", async || get(routes, &place).await.status == 200).await;
    let decided = get(routes, &place).await;
    assert_eq!(
        (at(&decided, "/kind"), at(&decided, "/axes/population/value")),
        (json!("authoritative"), json!("54208"))
    );
    assert!(header(&decided, "location").is_none());
}

#[tokio::test]
async fn invalid_verify_request_is_refused_with_its_field() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208")]).await;
    register(&mut daemon.control().await, &workflow("census", &["office-a"], json!({}))).await;
    let routes = &mut daemon.routes().await;
    let with = |field: &str, value: Value| {
        let mut request = verify_request("census");
        request[field] = value;
        request
    };
    for (request, message) in [
        (with("axes", json!([])), "`axes`"),
        (with("axes", json!(["area"])), "`axes`: `area`"),
        (with("axes", json!(["height"])), "`height`"),
        (with("where", json!({"planet": "Mars"})), "`where`: `planet`"),
        (with("where", json!({"area": "ABW", "year": "long ago"})), "`where.year`"),
        (
            with("claimed", json!({"population": {"value": "many", "claimed_by": "me"}})),
            "`claimed.population`",
        ),
        (
            with("claimed", json!({"population": {"value": 1, "claimed_by": " "}})),
            "`claimed.population.claimed_by`",
        ),
    ] {
        let problem = problem(&post(routes, "/v1/verify", &request).await, 400, "invalid_verification");
        let detail = problem["detail"].as_str().expect("the problem has a detail");
        assert!(detail.contains(message), "{message}: {detail}");
    }
    for field in ["known_at", "point_in_time"] {
        let ahead = post(routes, "/v1/verify", &with(field, json!("2999-01-01"))).await;
        problem(&ahead, 400, "time_in_future");
    }
    for (text, message) in [
        (with("axis", json!(1)).to_string(), "axis: "),
        (with("point_in_time", json!("yesterday")).to_string(), "point_in_time: "),
        (r#"{"workflow": "census", "where": {"area": "ABW", "area": "AFG", "year": 1960}, "axes": ["population"]}"#.into(), "where: the name `area` "),
        (r#"["census", {"area": "ABW", "year": 1960}, ["population"]]"#.into(), " array"),
    ] {
        let answer = routes.call(Method::POST, "/v1/verify", Some(Bytes::from(text))).await;
        let problem = problem(&answer.expect("the server answers"), 400, "invalid_request");
        let detail = problem["detail"].as_str().expect("the problem has a detail");
        assert!(detail.contains(message), "{message}: {detail}");
    }
    problem(&post(routes, "/v1/verify", &verify_request("no-such")).await, 404, "workflow_unknown");
    for id in ["v-00000000000000-0000000000", "no-such", "%00", "%20"] {
        problem(&get(routes, &format!("/v1/verify/{id}")).await, 404, "execution_unknown");
    }
    let decided = log(&mut daemon.control().await, "event=verification_decided").await;
    assert!(decided.is_empty(), "{decided:?}");
}

/// Address of a server that accepts connections and never answers.
async fn silent_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the system reports the value");
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            taken.push(stream);
        }
    });
    address
}

#[tokio::test]
async fn source_that_never_answers_yields_an_envelope_before_the_request_ends() {
    let world = DaemonWorld::with_config(
        "[limits]\nrequest_s = 6\n[model]\ndeadline_ms = 2000\n[ingestion]\nrefresh_s = 1\nallow_local = [\"127.0.0.0/8\"]\n",
    );
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let source = ground::example("live/world-bank.source.json");
    let mut adapter = ground::example("live/world-bank.adapter.json");
    adapter["endpoint"] = json!(format!("http://{}/{{area}}/{{year}}", silent_server().await));
    for (path, document) in [
        ("/v1/documents/ontology/population@1", ground::example("ontologies/population.json")),
        ("/v1/documents/source/world-bank-live", source),
        ("/v1/documents/adapter/world-bank-live", adapter),
    ] {
        let answer = ground::put_document(control, path, &document).await;
        assert_eq!(answer.status, 200, "{path}: {}", oracled_tests::document(&answer));
    }
    ground::approve(control, "world-bank-live").await;
    // by its own time limits, the workflow would wait for a minute
    let patient = json!({
        "oracle_latency": {"soft_timeout_ms": 1000, "hard_timeout_ms": 60_000, "on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 60_000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"},
    });
    register(control, &workflow("census", &["world-bank-live"], patient)).await;
    let response = verify(&mut daemon.routes().await, "census").await;
    let envelope = document(&response);
    assert_eq!((response.status.as_u16(), &envelope["kind"]), (200, &json!("blocked")), "{envelope}");
    assert_eq!(envelope["candidates"][0]["outcome"], "timed_out");
    let after_ms = envelope["retry"]["after_ms"].as_u64().expect("the envelope has a retry time");
    assert_eq!(header(&response, "retry-after"), Some(after_ms.div_ceil(1000).to_string().as_str()));
    let id = envelope["execution_id"].as_str().expect("a string");
    assert_eq!(get(&mut daemon.routes().await, &format!("/v1/verify/{id}")).await.body, response.body);
}
