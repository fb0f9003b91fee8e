//! The model's circuit: what opens and closes it, which calls it blocks, and how operators control it.

use hyper::Method;
use oracled_api::base::client::Client;
use oracled_tests::load::field;
use oracled_tests::making::{
    asking, came_from, health, ordered, read, registered, retry_after_s, sample, told_of,
};
use oracled_tests::model::{ModelServer, Reply};
use oracled_tests::{Daemon, GOOD, World, eventually, log, problem};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An interval at which no probe interferes with a test.
const UNPROBED: &str = "[health]\nhealth_check_interval_seconds = 3600";

/// Changes of health in the log: from, to, and the number of consecutive failures.
async fn changes(control: &mut Client) -> Vec<(String, String, u64)> {
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

/// Requests `times` verdicts, which must fail.
async fn fail(routes: &mut Client, times: usize) {
    for n in 0..times {
        problem(&ordered(routes, &format!("failed-{n}")).await, 503, "model_unavailable");
    }
}

async fn is_closed_to(daemon: &Daemon<'_>, retry_after: std::ops::RangeInclusive<u64>) {
    let routes = &mut daemon.routes().await;
    for refused in [ordered(routes, "cs_1").await, read(routes, "lost").await] {
        let document = problem(&refused, 503, "model_unavailable");
        assert_eq!(field(&document, "detail"), "the circuit of the oracle `gemini` is open");
        let wait_s = retry_after_s(&refused).expect("it has a Retry-After");
        assert!(retry_after.contains(&wait_s), "{wait_s}");
    }
}

#[tokio::test]
async fn consecutive_failures_open_the_circuit_and_stop_model_calls() {
    let model = ModelServer::start().await;
    let world = model.asked_by(UNPROBED);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    registered(routes, "lost", None).await;
    // a refusal, a bad request and an exhausted quota do not count as failures; a success resets the count
    model.next([
        Reply::error(500, "not now"),
        Reply::error(500, "not now"),
        Reply::saying(GOOD),
        Reply::error(500, "not now"),
        Reply::json(200, &json!({"promptFeedback": {"blockReason": "SAFETY"}})),
        Reply::error(400, "what"),
        Reply::error(429, "slow down"),
    ]);
    for n in 0..7 {
        ordered(routes, &format!("cs-{n}")).await;
    }
    assert_ne!(health(routes).await["status"], "circuit_open");

    model.otherwise(Reply::error(500, "not now"));
    let asked = model.asked();
    fail(routes, 3).await;
    let status = health(routes).await;
    let told = ["oracle_id", "status", "consecutive_failures", "held_open"].map(|name| status[name].clone());
    assert_eq!(told, [json!("gemini"), json!("circuit_open"), json!(3), json!(false)]);
    assert!(status["last_error"].as_str().unwrap().contains("not now"), "{status}");
    is_closed_to(&daemon, 25..=30).await;
    assert_eq!(model.asked(), asked + 3);
    assert_eq!(told_of(control, "lost").await, ["session_registered"], "no attempt is counted");
    let open = "oracled_verdicts_made_total{path=\"regen\",outcome=\"circuit_open\"}";
    assert_eq!(sample(routes, open).await, 1.0);
    // the entry is committed after the answer
    let last = Some(change("degraded", "circuit_open", 3));
    eventually("the log has the change", async || changes(control).await.pop() == last).await;
    let shown = String::from_utf8(world.ctl(&["health"]).stdout).unwrap();
    assert!(shown.contains("circuit_open until") && shown.contains("gemini"), "{shown}");
    // a cached verdict does not require the model
    assert_eq!(came_from(&read(routes, "cs-2").await), Some("HIT"));
}

#[tokio::test]
async fn half_open_circuit_permits_one_call_and_closes_after_successes() {
    let model = ModelServer::start().await;
    let world = model.asked_by(&format!("{UNPROBED}\ncircuit_breaker_reset_seconds = 1"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.otherwise(Reply::error(500, "not now"));
    fail(routes, 3).await;
    let opened = Instant::now();
    eventually("the reset time has passed", async || health(routes).await["status"] == "unhealthy").await;
    assert!(opened.elapsed() > Duration::from_millis(800), "{:?}", opened.elapsed());
    // the call that is let through fails, and the circuit opens again at once
    problem(&ordered(routes, "cs_1").await, 503, "model_unavailable");
    assert_eq!((health(routes).await["status"].as_str(), model.asked()), (Some("circuit_open"), 4));

    eventually("the reset time has passed", async || health(routes).await["status"] == "unhealthy").await;
    model.otherwise(Reply::saying(GOOD).after(Duration::from_millis(400)));
    let mut first = daemon.routes().await;
    let first = tokio::spawn(async move { ordered(&mut first, "cs_2").await });
    eventually("the call is permitted", async || model.asked() == 5).await;
    let second = ordered(routes, "cs_3").await;
    problem(&second, 503, "model_unavailable");
    assert!(retry_after_s(&second).is_some());
    assert_eq!(first.await.expect("it is answered").status, 201);
    assert_eq!((model.asked(), model.most_in_flight()), (5, 1));
    assert_eq!(ordered(routes, "cs_3").await.status, 201);
    assert_eq!(health(routes).await["status"], "healthy");
    eventually("the log has the change", async || {
        changes(control).await.last().is_some_and(|last| last.1 == "healthy")
    })
    .await;
    let told: Vec<_> = changes(control).await.into_iter().map(|(_, to, _)| to).collect();
    assert_eq!(told, ["degraded", "circuit_open", "unhealthy", "circuit_open", "unhealthy", "healthy"]);
}

#[tokio::test]
async fn administrator_opens_and_closes_the_circuit_with_a_log_entry() {
    let model = ModelServer::start().await;
    let world = model.asked_by(&format!("{UNPROBED}\ncircuit_breaker_reset_seconds = 1"));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    registered(routes, "lost", None).await;
    assert!(world.ctl(&["health", "open", "gemini"]).status.success());
    assert_eq!(health(routes).await["held_open"], true);
    is_closed_to(&daemon, 5..=5).await;
    // the reset time does not close a circuit that an administrator has opened
    tokio::time::sleep(Duration::from_millis(1200)).await;
    is_closed_to(&daemon, 5..=5).await;
    assert_eq!(model.asked(), 0);
    assert!(world.ctl(&["health", "close", "gemini"]).status.success());
    assert_eq!(came_from(&read(routes, "lost").await), Some("MISS"));
    assert_eq!(ordered(routes, "cs_1").await.status, 201);

    let entries = log(control, "event=oracle_health_changed").await;
    let told: Vec<_> =
        entries.iter().map(|entry| (entry["to"].as_str().unwrap(), &entry["peer"]["uid"])).collect();
    let uid = json!(nix::unistd::getuid().as_raw());
    assert_eq!(told, [("circuit_open", &uid), ("healthy", &uid)]);
    // the routes' socket has no such path
    let order = Some(json!({"action": "open"}).to_string().into());
    let answer = routes.call(Method::POST, "/v1/health/oracles/gemini", order).await.unwrap();
    problem(&answer, 404, "not_found");
    assert_eq!(health(routes).await["status"], "healthy");
}

#[tokio::test]
async fn probes_use_the_models_route_and_no_tokens() {
    let model = ModelServer::start().await;
    let config = "[health]\nhealth_check_interval_seconds = 1";
    let openai = format!("provider = \"openai\"\nname = \"local\"\n{config}");
    for (world, path) in [
        (model.asked_by(config), "/v1beta/models/gemini-2.5-flash"),
        (asking(&model.openai_url(), &openai), "/v1/models"),
    ] {
        let before = model.probes().len();
        let daemon = world.serve().await;
        eventually("it is probed", async || model.probes().len() >= before + 2).await;
        let id = health(&mut daemon.routes().await).await["oracle_id"].as_str().unwrap().to_owned();
        let probed = world.ctl_meanwhile(&["health", "probe", &id]).await;
        assert!(probed.status.success(), "{probed:?}");
        assert!(daemon.stop().success());
        for probe in model.probes().split_off(before) {
            assert_eq!(
                (probe.method.as_str(), probe.path.as_str(), &probe.body),
                ("GET", path, &Value::Null)
            );
        }
    }
    assert_eq!(model.asked(), 0);
}

#[tokio::test]
async fn probes_alone_detect_model_failure_and_recovery() {
    let model = ModelServer::start().await;
    model.when_probed(Reply::error(503, "down for a while"));
    let world: World = model.asked_by("[health]\nhealth_check_interval_seconds = 1\ncircuit_breaker_reset_seconds = 1\nfailure_threshold = 2\nrecovery_threshold = 1");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    registered(routes, "lost", None).await;
    eventually("the probes have opened the circuit", async || {
        health(routes).await["status"] == "circuit_open"
    })
    .await;
    let probed = world.ctl_meanwhile(&["health", "probe", "gemini"]).await;
    assert_eq!(probed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&probed.stdout).contains("down for a while"), "{probed:?}");
    model.when_probed(Reply::json(200, &json!({})));
    eventually("the circuit is closed again", async || health(routes).await["status"] == "healthy").await;
    assert_eq!(came_from(&read(routes, "lost").await), Some("MISS"));
    assert_eq!(model.asked(), 1, "only the read calls the model");
}
