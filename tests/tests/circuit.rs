//! The model's circuit: what opens and closes it, which calls it blocks, and how operators control it.

use hyper::Method;
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{
    event_names, place_order, read_health, read_metric, read_verdict, register_session, retry_after_s,
    wait_for_order, world_with_model, x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, document, eventually, get, log, problem};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An interval at which no probe interferes with a test.
const UNPROBED: &str = "[health]\nhealth_check_interval_seconds = 3600";

/// Changes of health in the log: from, to, and the number of consecutive failures.
async fn changes(control: &mut DaemonClient) -> Vec<(String, String, u64)> {
    let entries = log(control, "event=oracle_health_changed&limit=1000").await;
    let word = |entry: &Value, name: &str| field(entry, name).as_str().expect("a word").to_owned();
    let change = |entry: &Value| {
        let failures = field(entry, "consecutive_failures").as_u64().expect("a number");
        (word(entry, "from"), word(entry, "to"), failures)
    };
    entries.iter().map(change).collect()
}

fn change(from: &str, to: &str, failures: u64) -> (String, String, u64) {
    (from.to_owned(), to.to_owned(), failures)
}

/// Reads the lost verdict of a new session, and returns the status of the answer.
async fn read_lost(routes: &mut DaemonClient, session: &str) -> u16 {
    register_session(routes, session, None).await;
    read_verdict(routes, session).await.status.as_u16()
}

/// Reads `times` lost verdicts. The model must fail each time.
async fn fail(routes: &mut DaemonClient, times: usize) {
    for n in 0..times {
        let session = format!("failed-{n}");
        register_session(routes, &session, None).await;
        problem(&read_verdict(routes, &session).await, 503, "model_unavailable");
    }
}

/// Checks that the open circuit rejects a read, and that the order of `cs_1` waits.
async fn check_open(
    world: &DaemonWorld,
    routes: &mut DaemonClient,
    retry_after: std::ops::RangeInclusive<u64>,
) {
    let refused = read_verdict(routes, "lost").await;
    let document = problem(&refused, 503, "model_unavailable");
    assert_eq!(field(&document, "detail"), "the circuit of the oracle `gemini` is open");
    let wait_s = retry_after_s(&refused).expect("a Retry-After header");
    assert!(retry_after.contains(&wait_s), "{wait_s}");
    let order = place_order(world, "cs_1").await;
    assert_eq!((&order["state"], &order["attempts"]), (&json!("queued"), &json!(0)), "{order}");
}

#[tokio::test]
async fn consecutive_failures_open_the_circuit_and_stop_model_calls() {
    let model = ModelServer::start().await;
    let world = model.create_world(UNPROBED);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_session(routes, "lost", None).await;
    // a refusal, a bad request and an exhausted quota do not count as failures; a success resets the count
    model.next([
        ScriptedReply::error(500, "not now"),
        ScriptedReply::error(500, "not now"),
        ScriptedReply::with_text(GOOD),
        ScriptedReply::error(500, "not now"),
        ScriptedReply::json(200, &json!({"promptFeedback": {"blockReason": "SAFETY"}})),
        ScriptedReply::error(400, "what"),
        ScriptedReply::error(429, "slow down"),
    ]);
    let mut answers = Vec::new();
    for n in 0..7 {
        answers.push(read_lost(routes, &format!("cs-{n}")).await);
    }
    assert_eq!(answers, [503, 503, 200, 503, 502, 502, 503]);
    assert_ne!(read_health(routes).await["status"], "circuit_open");

    model.set_default(ScriptedReply::error(500, "not now"));
    let call_count = model.request_count();
    fail(routes, 3).await;
    let status = read_health(routes).await;
    let fields =
        ["oracle_id", "status", "consecutive_failures", "held_open"].map(|name| status[name].clone());
    assert_eq!(fields, [json!("gemini"), json!("circuit_open"), json!(3), json!(false)]);
    assert_eq!(status["last_error"], Value::Null, "an error can name a session of another application");
    let of_control = document(&get(&mut daemon.control().await, "/v1/health/oracles").await);
    let is_shown =
        |status: &Value| status["last_error"].as_str().is_some_and(|text| text == "HTTP status 500");
    assert!(of_control.as_array().is_some_and(|all| all.iter().any(is_shown)), "{of_control}");
    check_open(&world, routes, 25..=30).await;
    assert_eq!(model.request_count(), call_count + 3);
    assert_eq!(event_names(control, "lost").await, ["session_registered"], "no attempt is counted");
    let open = "oracled_verdicts_made_total{application=\"default\",path=\"regen\",outcome=\"circuit_open\"}";
    assert_eq!(read_metric(routes, open).await, 1.0);
    // the entry is committed after the answer
    let last = Some(change("degraded", "circuit_open", 3));
    eventually("the log has the change", async || changes(control).await.pop() == last).await;
    let shown = String::from_utf8(world.ctl(&["health"]).stdout).unwrap();
    assert!(shown.contains("circuit_open") && shown.contains("gemini"), "{shown}");
    // a cached verdict does not require the model
    assert_eq!(x_cache(&read_verdict(routes, "cs-2").await), Some("HIT"));
}

#[tokio::test]
async fn half_open_circuit_permits_one_call_and_closes_after_successes() {
    let model = ModelServer::start().await;
    let world = model.create_world(&format!("{UNPROBED}\ncircuit_breaker_reset_seconds = 1"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.set_default(ScriptedReply::error(500, "not now"));
    fail(routes, 3).await;
    let opened = Instant::now();
    eventually("the reset time has passed", async || read_health(routes).await["status"] == "unhealthy")
        .await;
    assert!(opened.elapsed() > Duration::from_millis(800), "{:?}", opened.elapsed());
    // the call that is let through fails, and the circuit opens again at once
    assert_eq!(read_lost(routes, "cs_1").await, 503);
    assert_eq!(
        (read_health(routes).await["status"].as_str(), model.request_count()),
        (Some("circuit_open"), 4)
    );

    eventually("the reset time has passed", async || read_health(routes).await["status"] == "unhealthy")
        .await;
    model.next([ScriptedReply::with_text(GOOD).after(Duration::from_millis(1500))]);
    model.set_default(ScriptedReply::with_text(GOOD));
    register_session(routes, "lost", None).await;
    place_order(&world, "cs_2").await;
    eventually("the call is permitted", async || model.request_count() == 5).await;
    assert_eq!(place_order(&world, "cs_3").await["attempts"], 0);
    let second = read_verdict(routes, "lost").await;
    problem(&second, 503, "model_unavailable");
    assert!(retry_after_s(&second).is_some());
    assert_eq!(model.request_count(), 5);
    for session in ["cs_2", "cs_3"] {
        wait_for_order(routes, session, "delivered").await;
    }
    assert_eq!((model.request_count(), model.most_in_flight()), (6, 1));
    assert_eq!(read_health(routes).await["status"], "healthy");
    eventually("the log has the change", async || {
        changes(control).await.last().is_some_and(|last| last.1 == "healthy")
    })
    .await;
    let transitions: Vec<_> = changes(control).await.into_iter().map(|(_, to, _)| to).collect();
    assert_eq!(
        transitions,
        ["degraded", "circuit_open", "unhealthy", "circuit_open", "unhealthy", "healthy"]
    );
}

#[tokio::test]
async fn administrator_opens_and_closes_the_circuit_with_a_log_entry() {
    let model = ModelServer::start().await;
    let world = model.create_world(&format!("{UNPROBED}\ncircuit_breaker_reset_seconds = 1"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_session(routes, "lost", None).await;
    assert!(world.ctl(&["health", "open", "gemini"]).status.success());
    assert_eq!(read_health(routes).await["held_open"], true);
    check_open(&world, routes, 5..=5).await;
    // the reset time does not close a circuit that an administrator has opened
    tokio::time::sleep(Duration::from_millis(1200)).await;
    check_open(&world, routes, 5..=5).await;
    assert_eq!(model.request_count(), 0);
    assert!(world.ctl(&["health", "close", "gemini"]).status.success());
    assert_eq!(x_cache(&read_verdict(routes, "lost").await), Some("MISS"));
    wait_for_order(routes, "cs_1", "delivered").await;

    let entries = log(control, "event=oracle_health_changed").await;
    let transitions: Vec<_> =
        entries.iter().map(|entry| (entry["to"].as_str().unwrap(), &entry["peer"]["uid"])).collect();
    let uid = json!(nix::unistd::getuid().as_raw());
    assert_eq!(transitions, [("circuit_open", &uid), ("healthy", &uid)]);
    // the routes' socket has no such path
    let order = Some(json!({"action": "open"}).to_string().into());
    let answer = routes.call(Method::POST, "/v1/health/oracles/gemini", order).await.unwrap();
    problem(&answer, 404, "not_found");
    assert_eq!(read_health(routes).await["status"], "healthy");
}

#[tokio::test]
async fn probes_use_the_models_route_and_no_tokens() {
    let model = ModelServer::start().await;
    let config = "[health]\nhealth_check_interval_seconds = 1";
    let openai = format!("provider = \"openai\"\nname = \"local\"\n{config}");
    for (world, path) in [
        (model.create_world(config), "/v1beta/models/gemini-2.5-flash"),
        (world_with_model(&model.openai_url(), &openai), "/v1/models"),
    ] {
        let before = model.probes().len();
        let daemon = world.serve().await;
        eventually("it is probed", async || model.probes().len() >= before + 2).await;
        let id = read_health(&mut daemon.routes().await).await["oracle_id"].as_str().unwrap().to_owned();
        let probed = world.ctl_in_thread(&["health", "probe", &id]).await;
        assert!(probed.status.success(), "{probed:?}");
        assert!(daemon.stop().success());
        for probe in model.probes().split_off(before) {
            assert_eq!(
                (probe.method.as_str(), probe.path.as_str(), &probe.body),
                ("GET", path, &Value::Null)
            );
        }
    }
    assert_eq!(model.request_count(), 0);
}

#[tokio::test]
async fn probes_alone_detect_model_failure_and_recovery() {
    let model = ModelServer::start().await;
    model.set_probe_reply(ScriptedReply::error(503, "down for a while"));
    let world: DaemonWorld = model.create_world("[health]\nhealth_check_interval_seconds = 1\ncircuit_breaker_reset_seconds = 1\nfailure_threshold = 2\nrecovery_threshold = 1");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "lost", None).await;
    eventually("the probes have opened the circuit", async || {
        read_health(routes).await["status"] == "circuit_open"
    })
    .await;
    let probed = world.ctl_in_thread(&["health", "probe", "gemini"]).await;
    assert_eq!(probed.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&probed.stdout).into_owned();
    assert!(shown.contains("HTTP status 503") && !shown.contains("down for a while"), "{probed:?}");
    model.set_probe_reply(ScriptedReply::json(200, &json!({})));
    eventually("the circuit is closed again", async || read_health(routes).await["status"] == "healthy")
        .await;
    assert_eq!(x_cache(&read_verdict(routes, "lost").await), Some("MISS"));
    assert_eq!(model.request_count(), 1, "only the read calls the model");
}
