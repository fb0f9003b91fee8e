//! One regeneration per session in five minutes (seed: `regen-consistency`, invariant 8 and REGEN-GAP-03): which
//! attempts count, the `Retry-After`, and persistence over restarts.

use jiff::{SignedDuration, Timestamp};
use oracled_tests::generation::{
    event_names, purge_verdict, read_verdict, register_session, request_verdict, retry_after_s,
    unreachable_url, world_with_model, x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonProcess, at, eventually, log, problem};
use std::time::Duration;
use tokio::time::sleep;

/// The seed's five minutes.
const PERIOD: SignedDuration = SignedDuration::from_mins(5);

/// Time of the session's last logged attempt.
async fn attempted_at(daemon: &DaemonProcess<'_>, session: &str) -> Timestamp {
    let question = format!("event=regen_attempted&session={session}");
    let attempt = log(&mut daemon.control().await, &question).await.pop().expect("at least one");
    field(&attempt, "timestamp").as_str().expect("a time").parse().expect("a string")
}

/// Reads a session within its limit and compares the `Retry-After` of the refusal with the log, to the second.
/// Returns it.
async fn is_refused(daemon: &DaemonProcess<'_>, session: &str) -> u64 {
    let until = attempted_at(daemon, session).await + PERIOD;
    let left_s = || {
        let left = until.duration_since(Timestamp::now());
        u64::try_from(left.as_secs()).expect("the limit is still in force")
            + u64::from(left.subsec_nanos() > 0)
    };
    let most_s = left_s();
    let refused = read_verdict(&mut daemon.routes().await, session).await;
    let least_s = left_s();
    let document = problem(&refused, 429, "regen_rate_limited");
    let wait_s = retry_after_s(&refused).expect("a Retry-After header");
    assert!((least_s..=most_s).contains(&wait_s), "{wait_s} s, with {least_s} to {most_s} s left");
    let detail = field(&document, "detail").as_str().expect("the problem has a detail");
    assert!(detail.contains(&format!("in {wait_s} s")), "{detail}");
    wait_s
}

#[tokio::test]
async fn regen_gap_03_second_regeneration_is_refused_with_exact_retry_after() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // first verdicts have no such limit
    request_verdict(routes, "cs_1").await;
    purge_verdict(control, "cs_1").await;
    assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("MISS"));
    // a successful attempt counts like any other
    purge_verdict(control, "cs_1").await;
    let mut wait_s = is_refused(&daemon, "cs_1").await;
    assert!((290..=300).contains(&wait_s), "{wait_s}");
    for _ in 0..2 {
        sleep(Duration::from_millis(1050)).await;
        let next_s = is_refused(&daemon, "cs_1").await;
        assert!(next_s < wait_s, "the wait decreases: {wait_s}, {next_s}");
        wait_s = next_s;
    }
    // the limit applies to one session only
    register_session(routes, "cs_2", None).await;
    assert_eq!(x_cache(&read_verdict(routes, "cs_2").await), Some("MISS"));
    assert_eq!(model.request_count(), 3);
}

#[tokio::test]
async fn regen_gap_03_limit_survives_a_restart_and_a_kill() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    model.set_default(ScriptedReply::with_text("no JSON"));
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", None).await;
    problem(&read_verdict(&mut daemon.routes().await, "cs_1").await, 422, "crosscheck_rejected");
    is_refused(&daemon, "cs_1").await;
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    is_refused(&daemon, "cs_1").await;
    daemon.kill();
    let daemon = world.serve().await;
    is_refused(&daemon, "cs_1").await;
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn regen_gap_03_kill_during_the_call_keeps_the_rate_limit() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    model.set_default(ScriptedReply::silence());
    let daemon = world.serve().await;
    let mut routes = daemon.routes().await;
    register_session(&mut routes, "cs_1", None).await;
    let reader =
        tokio::spawn(async move { routes.call(hyper::Method::GET, "/v1/verdicts/cs_1", None).await });
    eventually("the model is called", async || model.request_count() == 1).await;
    daemon.kill();
    assert!(reader.await.expect("the process ends").is_err(), "a killed daemon sends no answer");
    let daemon = world.serve().await;
    is_refused(&daemon, "cs_1").await;
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    assert_eq!(events, ["session_registered", "regen_attempted"]);
    assert_eq!(model.request_count(), 1);
}

#[tokio::test]
async fn regen_gap_03_attempt_without_a_connection_does_not_count() {
    let (_kept, url) = unreachable_url();
    let world = world_with_model(&url, "[health]\nfailure_threshold = 100");
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", None).await;
    for _ in 0..3 {
        let answer = read_verdict(&mut daemon.routes().await, "cs_1").await;
        problem(&answer, 503, "model_unavailable");
        assert!(retry_after_s(&answer).is_some_and(|wait_s| wait_s < 60), "{answer:?}");
        assert!(at(&answer, "/detail").as_str().is_some_and(|detail| !detail.contains("five minutes")));
    }
    let entries = log(&mut daemon.control().await, "session=cs_1").await;
    let codes: Vec<_> = entries.iter().filter_map(|entry| entry.get("error_code")?.as_str()).collect();
    assert_eq!(codes, ["connect"; 3], "{entries:?}");
}
