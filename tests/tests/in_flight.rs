//! Verdicts in flight: concurrent requests share one, their number and memory are limited, a disconnect loses none,
//! and an open circuit stops them.

use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_api::client::DaemonResponse;
use oracled_tests::generation::{
    event_names, generation_request, read_cached, read_metric, read_verdict, register_session,
    request_verdict, retry_after_s, x_cache,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::wire::{WireConnection, connections, head, post as whole_post};
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, at, document, eventually, get, log, problem};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

async fn register_all(daemon: &DaemonProcess<'_>, count: usize) {
    const CONNECTIONS: usize = 32;
    let mut registrations = JoinSet::new();
    for first in 0..CONNECTIONS {
        let mut routes = daemon.routes().await;
        registrations.spawn(async move {
            for n in (first..count).step_by(CONNECTIONS) {
                register_session(&mut routes, &format!("cs_{n}"), Some(VerdictLabel::Green)).await;
            }
        });
    }
    registrations.join_all().await;
}

#[tokio::test]
async fn concurrent_reads_of_a_lost_verdict_share_one_model_call() {
    let count = connections(1000);
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", Some(VerdictLabel::Amber)).await;
    // the delay is long enough for many readers to send their request
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_secs(2)));
    let mut readers = JoinSet::new();
    for _ in 0..count {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.send(head("GET", "/v1/verdicts/cs_1", &[])).await.expect("the server listens");
        readers.spawn(async move { wire.answer().await.expect("the server answers") });
    }
    let answers = readers.join_all().await;
    assert_eq!(model.request_count(), 1);
    for answer in &answers {
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &answers[0].body));
    }
    let missed = answers.iter().filter(|answer| x_cache(answer) == Some("MISS")).count();
    assert!(missed > count / 20, "many requests preceded the verdict: {missed}");
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    let expected = [
        "session_registered",
        "regen_attempted",
        "oracle_interaction",
        "tmm_crosscheck",
        "verdict_cached",
        "regen_divergence_check",
    ];
    assert_eq!(events, expected, "once");
}

#[tokio::test]
async fn concurrent_requests_for_a_first_verdict_share_one_model_call() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(500)));
    let mut callers = JoinSet::new();
    for n in 0..64 {
        let mut routes = daemon.routes().await;
        callers.spawn(async move {
            // some clients only read, and call no model
            let is_read = n % 8 == 7;
            let answer = if is_read {
                read_verdict(&mut routes, "cs_1").await
            } else {
                request_verdict(&mut routes, "cs_1").await
            };
            (is_read, answer)
        });
    }
    let (read, answers): (Vec<_>, Vec<_>) =
        callers.join_all().await.into_iter().partition(|(is_read, _)| *is_read);
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    assert_eq!(model.request_count(), 1, "{events:?}");
    for (_, answer) in &read {
        match answer.status.as_u16() {
            202 => assert_eq!(at(answer, "/session_id"), "cs_1"),
            // the read preceded the order
            404 => drop(problem(answer, 404, "session_unknown")),
            status => assert_eq!((status, x_cache(answer)), (200, Some("HIT")), "{}", document(answer)),
        }
    }
    let answers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
    let generated: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(generated.len(), 1, "{answers:?}");
    for answer in &answers {
        assert!(answer.status.is_success(), "{}", document(answer));
        assert_eq!(at(answer, "/cached_at"), at(generated[0], "/cached_at"));
    }
}

#[tokio::test]
#[ignore = "ten thousand reads at once; `just torture`"]
async fn reads_of_ten_thousand_lost_verdicts_use_bounded_calls_and_memory() {
    const AT_ONCE: usize = 16;
    let model = ModelServer::start().await;
    let world = model.create_world(&format!("calls_at_once = {AT_ONCE}"));
    let daemon = world.serve().await;
    let missing = connections(10_000);
    register_all(&daemon, missing).await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(100)));
    let mut wires = Vec::with_capacity(missing);
    for _ in 0..missing {
        wires.push(WireConnection::connect(&world.socket()).await);
    }
    let before = daemon.resident_bytes().unwrap();
    let mut readers = JoinSet::new();
    for (n, mut wire) in wires.into_iter().enumerate() {
        wire.send(head("GET", &format!("/v1/verdicts/cs_{n}"), &[])).await.expect("the server listens");
        readers.spawn(async move { (n, wire.answer().await.expect("the server answers")) });
    }
    let (generated, rejected): (Vec<_>, Vec<_>) =
        readers.join_all().await.into_iter().partition(|(_, answer)| answer.status == 200);
    for (_, answer) in &rejected {
        problem(answer, 503, "model_busy");
        assert_eq!(retry_after_s(answer), Some(1));
    }
    let most = daemon.most_resident_bytes().unwrap();
    println!("{} of {missing} made; resident: {before} bytes before, {most} at the most", generated.len());
    assert!(generated.len() >= AT_ONCE && !rejected.is_empty());
    assert_eq!(model.request_count(), generated.len());
    assert!((2..=AT_ONCE).contains(&model.most_in_flight()), "{}", model.most_in_flight());
    // a connection has buffers, and its request waits for a decision; the database has a page cache
    let allowed = before + missing as u64 * 32 * KIB + 32 * MIB;
    assert!(most < allowed, "{most} bytes for {missing} sessions, {before} before");

    // the daemon serves as before, and a repeated request of a refused client succeeds
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let attempts = log(control, "event=regen_attempted&limit=10000").await;
    assert_eq!(attempts.len(), generated.len(), "a refused request does not count as an attempt");
    let busy = "oracled_verdicts_made_total{application=\"default\",path=\"regen\",outcome=\"model_busy\"}";
    assert_eq!(read_metric(routes, busy).await, rejected.len() as f64);
    for (n, answer) in generated.iter().take(20) {
        assert_eq!(read_cached(routes, &format!("cs_{n}")).await.body, answer.body);
    }
    for (n, _) in rejected.iter().take(20) {
        assert_eq!(x_cache(&read_verdict(routes, &format!("cs_{n}")).await), Some("MISS"));
    }
    assert_eq!(at(&get(control, "/v1/status").await, "/in_flight"), 0);
}

#[tokio::test]
async fn verdict_in_flight_is_stored_after_its_client_disconnects() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(300)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "read", None).await;
    let order = generation_request(ProductTier::Quick).to_string();
    for (n, (session, request)) in [
        ("read", head("GET", "/v1/verdicts/read", &[]).into_bytes()),
        ("ordered", whole_post("/v1/verdicts/ordered", &[], order)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.send(request).await.expect("the server listens");
        eventually("the model is called", async || model.request_count() == n + 1).await;
        drop(wire);
        eventually("the verdict is cached", async || read_cached(routes, session).await.status == 200).await;
        assert_eq!(x_cache(&read_verdict(routes, session).await), Some("HIT"));
    }
    assert_eq!(model.request_count(), 2);
}

/// Requests that are in flight when the daemon is stopped, each with its session.
fn requests() -> [(&'static str, Vec<u8>); 2] {
    let order = generation_request(ProductTier::Quick).to_string();
    [
        ("read", head("GET", "/v1/verdicts/read", &[]).into_bytes()),
        ("ordered", whole_post("/v1/verdicts/ordered", &[], order)),
    ]
}

/// Stops a daemon while `request` is in flight. Returns the answer, if there is one, and the duration of the stop.
async fn stop_in_flight(
    world: &DaemonWorld,
    model: &ModelServer,
    request: Vec<u8>,
) -> (Option<DaemonResponse>, Duration) {
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "read", None).await;
    let mut wire = WireConnection::connect(&world.socket()).await;
    wire.send(request).await.expect("the server listens");
    eventually("the model is called", async || model.request_count() == 1).await;
    let began = Instant::now();
    daemon.signal("TERM");
    let answer = wire.answer().await;
    assert_eq!(daemon.wait().code(), Some(0), "{}", world.service_log());
    (answer, began.elapsed())
}

// the model answers while this test waits for the daemon's end
#[tokio::test(flavor = "multi_thread")]
async fn stopped_daemon_completes_verdicts_in_flight() {
    for (session, request) in requests() {
        let model = ModelServer::start().await;
        model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(700)));
        let world = model.create_world("");
        let (answer, _) = stop_in_flight(&world, &model, request).await;
        let answer = answer.expect("the request is answered");
        let daemon = world.serve().await;
        let cached = read_cached(&mut daemon.routes().await, session).await;
        assert_eq!(cached.status, 200, "{}", document(&cached));
        if session == "read" {
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &cached.body));
        } else {
            // the request does not wait any longer, but the attempt of its order is completed
            assert_eq!((answer.status.as_u16(), at(&answer, "/state")), (202, "generating".into()));
            let order = get(&mut daemon.routes().await, "/v1/orders/ordered").await;
            assert_eq!((at(&order, "/state"), at(&order, "/attempts")), ("delivered".into(), 1.into()));
        }
        assert_eq!(model.request_count(), 1);
    }
}

#[tokio::test]
async fn stopped_daemon_does_not_wait_for_a_silent_model() {
    for (session, request) in requests() {
        let model = ModelServer::start().await;
        model.set_default(ScriptedReply::silence());
        let world = model.create_world("[limits]\nshutdown_s = 1");
        let (answer, took) = stop_in_flight(&world, &model, request).await;
        assert!((Duration::from_secs(1)..Duration::from_secs(8)).contains(&took), "{took:?}");
        model.set_default(ScriptedReply::with_text(GOOD));
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        if session == "read" {
            assert!(answer.is_none(), "no answer is sent: {answer:?}");
            assert_eq!(event_names(control, "read").await, ["session_registered", "regen_attempted"]);
            problem(&read_verdict(routes, "read").await, 429, "regen_rate_limited");
        } else {
            let answer = answer.expect("the request gets its order");
            assert_eq!((answer.status.as_u16(), at(&answer, "/state")), (202, "generating".into()));
            // the attempt that was cut off counts, and the order is continued after the restart
            assert_eq!(request_verdict(routes, "ordered").await.status, 200);
            let order = get(routes, "/v1/orders/ordered").await;
            let outcomes =
                ["/last_attempts/0/outcome", "/last_attempts/1/outcome"].map(|at_| at(&order, at_));
            assert_eq!(outcomes, ["interrupted", "delivered"]);
        }
    }
}
