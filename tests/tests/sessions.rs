//! `PUT /v1/sessions/{session_id}`: registration of a session, so that a lost verdict can be regenerated.

use domain_verdict::label::{ProductTier, VerdictLabel};
use hyper::Method;
use oracled_tests::generation::{
    QUERY, event_names, generation_request, put_session, read_verdict, register_session, x_cache,
};
use oracled_tests::model::ModelServer;
use oracled_tests::{DaemonWorld, GOOD, document, eventually, get, log, post, problem, submission};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Body of a quick-tier registration in which `name` is `value`.
fn with(name: &str, value: Value) -> Value {
    let mut body = generation_request(ProductTier::Quick);
    body.as_object_mut().expect("a body is an object").insert(name.to_owned(), value);
    body
}

#[tokio::test]
async fn session_is_created_once_and_updated_with_new_fields() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // the address itself is never returned on the routes' socket
    let known = |has_email: bool, original: &str| json!({"session_id": "cs_1", "tier": "quick", "query": QUERY, "has_email": has_email, "original_verdict": original});
    for (body, status, message) in [
        (generation_request(ProductTier::Quick), 201, known(false, "UNKNOWN")),
        (generation_request(ProductTier::Quick), 200, known(false, "UNKNOWN")),
        (with("customer_email", json!("a@b")), 200, known(true, "UNKNOWN")),
        (with("original_verdict", json!("RED")), 200, known(true, "RED")),
        (with("customer_email", json!("c@d")), 200, known(true, "RED")),
        (with("customer_email", Value::Null), 200, known(true, "RED")),
        (with("original_verdict", json!("RED")), 200, known(true, "RED")),
    ] {
        let answer = put_session(routes, "cs_1", &body).await;
        assert_eq!((answer.status.as_u16(), document(&answer)), (status, message), "{body}");
    }
    let entries = log(control, "session=cs_1&event=session_registered").await;
    let message: Vec<_> = entries
        .iter()
        .map(|entry| {
            (entry["event"].as_str(), entry["original_verdict"].as_str(), entry["has_email"].as_bool())
        })
        .collect();
    let registered = |original, has_email| (Some("session_registered"), Some(original), Some(has_email));
    let expected = [
        registered("UNKNOWN", false),
        registered("UNKNOWN", true),
        registered("RED", true),
        registered("RED", true),
    ];
    assert_eq!(message, expected, "one entry for each change");
    assert!(!world.mirror().contains("a@b"), "an address is not logged");
}

#[tokio::test]
async fn another_tier_query_or_original_verdict_is_a_mismatch() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "registered", Some(VerdictLabel::Amber)).await;
    assert_eq!(post(routes, "/v1/verdicts/delivered", &submission(GOOD)).await.status, 201);
    for (session, original) in [("registered", "AMBER"), ("delivered", "GREEN")] {
        for (body, what) in [
            (with("tier", json!("full")), "tier"),
            (with("query", json!("Sell wax?")), "query"),
            (with("original_verdict", json!("NULL")), "original_verdict"),
        ] {
            let refused = problem(&put_session(routes, session, &body).await, 409, "session_mismatch");
            assert_eq!(
                (&refused["mismatch"], &refused["detail"]),
                (&json!(what), &json!(format!("session {session} is known with another {what}")))
            );
        }
        let known = document(&put_session(routes, session, &generation_request(ProductTier::Quick)).await);
        assert_eq!((&known["tier"], &known["original_verdict"]), (&json!("quick"), &json!(original)));
    }
    let events = event_names(&mut daemon.control().await, "registered").await;
    assert_eq!(events, ["session_registered"]);
}

#[tokio::test]
async fn invalid_registration_is_rejected_with_its_fault_and_not_stored() {
    let world = DaemonWorld::with_config("[limits]\nquery_bytes = 100");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for (body, code, message) in [
        (json!([]), "invalid_request", "an object, not an array"),
        (json!({}), "invalid_request", "tier"),
        (json!({"tier": "quick"}), "invalid_request", "query"),
        (with("tier", json!("gold")), "unknown_tier", "gold"),
        (with("tier", json!(1)), "invalid_request", "tier"),
        (with("query", json!("x".repeat(101))), "query_too_long", "101 bytes; at most 100"),
        (with("query", Value::Null), "invalid_request", "query"),
        (with("customer_email", json!("nobody")), "invalid_request", "`customer_email`"),
        (with("customer_email", json!("a@b\r\nBcc: x@y")), "invalid_request", "`customer_email`"),
        (with("original_verdict", json!("green")), "invalid_request", "`green`"),
        (with("original_verdict", json!("UNKNOWN")), "invalid_request", "GREEN, AMBER, RED, NULL"),
        (with("original_verdict", json!(true)), "invalid_request", "original_verdict"),
        (with("verdict", json!({})), "invalid_request", "`verdict`"),
        (with("raw", json!(GOOD)), "invalid_request", "`raw`"),
    ] {
        let refused = problem(&put_session(routes, "cs_1", &body).await, 400, code);
        assert!(refused["detail"].as_str().unwrap().contains(message), "{body}: {refused}");
    }
    for (session, status) in
        [("a%20b", 400), ("%FF", 400), (&*"x".repeat(256), 400), (&*"x".repeat(255), 201)]
    {
        assert_eq!(
            put_session(routes, session, &generation_request(ProductTier::Quick)).await.status,
            status,
            "{session}"
        );
    }
    let answer = routes.call(Method::PUT, "/v1/sessions/cs_1", Some("{".into())).await.unwrap();
    problem(&answer, 400, "invalid_json");
    let answer = routes.call(Method::PUT, "/v1/sessions/cs_1", None).await.unwrap();
    problem(&answer, 415, "unsupported_media_type");
    problem(&get(routes, "/v1/sessions/cs_1").await, 405, "method_not_allowed");
    assert_eq!(log(control, "session=cs_1").await, Vec::<Value>::new());
    problem(
        &put_session(control, "cs_1", &generation_request(ProductTier::Quick)).await,
        405,
        "method_not_allowed",
    );
}

#[tokio::test]
async fn registration_survives_a_stop_and_a_kill() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "stopped", Some(VerdictLabel::Green)).await;
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "killed", Some(VerdictLabel::Amber)).await;
    daemon.kill();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for (session, original) in [("stopped", "GREEN"), ("killed", "AMBER")] {
        let known = put_session(routes, session, &generation_request(ProductTier::Quick)).await;
        assert_eq!((known.status.as_u16(), &document(&known)["original_verdict"]), (200, &json!(original)));
        let answer = read_verdict(routes, session).await;
        assert_eq!(
            (x_cache(&answer), &document(&answer)["original_verdict"]),
            (Some("MISS"), &json!(original))
        );
    }
}

#[tokio::test]
async fn concurrent_registrations_create_one_session_and_one_entry() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut tasks = JoinSet::new();
    for n in 0..32 {
        let mut routes = daemon.routes().await;
        let query = if n % 2 == 0 { "one" } else { "other" };
        tasks.spawn(async move {
            put_session(&mut routes, "cs_1", &json!({"tier": "quick", "query": query})).await.status
        });
    }
    let mut statuses = [0; 3];
    while let Some(status) = tasks.join_next().await {
        match status.expect("an answer").as_u16() {
            201 => statuses[0] += 1,
            200 => statuses[1] += 1,
            409 => statuses[2] += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(statuses, [1, 15, 16]);
    assert_eq!(event_names(&mut daemon.control().await, "cs_1").await, ["session_registered"]);
}

#[tokio::test]
async fn operator_shows_corrects_and_removes_a_session() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(put_session(routes, "cs_1", &with("customer_email", json!("a@b"))).await.status, 201);
    let shown = String::from_utf8(world.ctl(&["session", "cs_1"]).stdout).expect("valid UTF-8");
    assert!(shown.contains("a@b") && shown.contains("session_registered"), "{shown}");

    let corrections = ["session", "correct", "cs_1", "--customer-email", "c@d", "--original-verdict", "RED"];
    assert!(world.ctl(&corrections).status.success());
    let session: Value =
        serde_json::from_slice(&world.ctl(&["--json", "session", "cs_1"]).stdout).expect("valid JSON");
    assert_eq!((&session["customer_email"], &session["original_verdict"]), (&json!("c@d"), &json!("RED")));
    assert_eq!(world.ctl(&["session", "correct", "cs_1"]).status.code(), Some(2), "a correction is required");

    assert!(world.ctl(&["session", "remove", "cs_1"]).status.success());
    for verb in [&["session"][..], &["session", "remove"]] {
        let output = world.ctl(&[verb, &["cs_1"]].concat());
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("(session_unknown)"), "{error}");
        // the remedy of a read, a registration, is not that of these verbs
        insta::assert_snapshot!("unknown_session_of_oraclectl_session", error);
    }
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    let expected = ["session_registered", "session_corrected", "session_address_changed", "session_removed"];
    assert_eq!(events, expected);
    assert!(!world.mirror().contains("a@b") && !world.mirror().contains("c@d"), "an address is not logged");
}

#[tokio::test]
async fn removal_of_a_session_drops_its_queued_mail() {
    // no server listens at this port, so that the mail stays queued
    let world = DaemonWorld::with_config("[mail]\ntransport = \"http\"\nbase_url = \"http://127.0.0.1:9\"");
    let daemon = world.serve().await;
    let mut body = submission(GOOD);
    body["customer_email"] = json!("a@b");
    for session in ["cs_1", "cs_2"] {
        let path = format!("/v1/verdicts/{session}");
        assert_eq!(post(&mut daemon.routes().await, &path, &body).await.status, 201);
    }
    eventually("the session is removed", async || world.ctl(&["session", "remove", "cs_1"]).status.success())
        .await;
    let mails = document(&get(&mut daemon.control().await, "/v1/outbox").await)["items"].clone();
    let sessions: Vec<_> =
        mails.as_array().expect("an array").iter().map(|mail| &mail["session_id"]).collect();
    assert_eq!(sessions, ["cs_2"]);
    // both entries are in one commit, with the same timestamp
    let mirror: Vec<Value> = world.mirror().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let time_of = |event: &str| {
        let entry = mirror.iter().find(|entry| entry["event"] == event).expect("the event is logged");
        entry["timestamp"].clone()
    };
    assert_eq!(time_of("message_dropped"), time_of("session_removed"));
}

#[tokio::test]
async fn export_has_everything_that_is_stored_about_a_session() {
    // no server listens at this port, so that the mail stays queued
    let world = DaemonWorld::with_config(
        "[gate]\nhold = [\"short_summary\"]\n[mail]\ntransport = \"http\"\nbase_url = \"http://127.0.0.1:9\"",
    );
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mut body = submission(GOOD);
    body["customer_email"] = json!("ann@example.org");
    body["facts"] = json!(["A sound and simple plan."]);
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &body).await.status, 201);
    let mut body = submission(r#"{"verdict":"GREEN","summary":"q7xHeld7z"}"#);
    body["customer_email"] = json!("ann@example.org");
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &body).await.status, 202);

    let export = async |session: &str| {
        let output = world.ctl_in_thread(&["export", "--session", session]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("one JSON document")
    };
    let delivered = export("cs_1").await;
    let session = &delivered["session"];
    assert_eq!(
        (&session["query"], &session["customer_email"]),
        (&json!("Sell honey?"), &json!("ann@example.org"))
    );
    assert_eq!(session["check"]["facts"][0], "A sound and simple plan.", "{session}");
    assert_eq!(delivered["verdict"]["verdict"]["verdict"], "GREEN");
    assert_eq!(delivered["mails"][0]["delivery"]["verdict"], delivered["verdict"]["verdict"]);
    assert_eq!(delivered["held_verdict"], Value::Null);
    let logged = delivered["log"].as_array().expect("a list");
    assert_eq!(logged, &log(control, "session=cs_1&after=0").await);
    assert_eq!(logged.last().map(|entry| &entry["event"]), Some(&json!("session_exported")));

    let held = export("cs_2").await;
    assert_eq!(held["held_verdict"]["verdict"]["summary"], "q7xHeld7z");
    assert_eq!(log(control, "session=cs_2&event=held_verdict_read").await.len(), 1);

    eventually("the session is removed", async || {
        world.ctl_in_thread(&["session", "remove", "cs_1"]).await.status.success()
    })
    .await;
    let removed = export("cs_1").await;
    assert_eq!(removed.get("session"), None);
    assert!(removed["log"].as_array().expect("a list").len() > logged.len());
    let unknown = world.ctl_in_thread(&["export", "--session", "cs_9"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    problem(&get(control, "/v1/sessions/cs_9/export").await, 404, "session_unknown");
}
