//! Panics in every actor under load: the daemon answers all requests, and loses no acknowledged verdict.

use oracled_tests::load::{AnswerLedger, LoadConfig, check_served, field, post_action};
use oracled_tests::{ACTORS, DaemonWorld, get};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A daemon with this configuration tolerates any number of panics and restarts actors after at most 1 ms.
const PATIENT: &str = "[supervision]\nmax_panics = 1000000\nwindow_s = 1\nmax_pause_ms = 1\n";

async fn panic_under_load(panics: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = DaemonWorld::with_config(PATIENT);
    let daemon = world.serve().await;
    let mut control = daemon.control().await;
    let mut ledger = AnswerLedger::default();
    for actor in ACTORS {
        let load = LoadConfig {
            routes: world.socket(),
            control: world.control_socket(),
            name: actor.into(),
            callers: 4,
            seed: rng.u64(..),
        };
        let (stop, stopped) = watch::channel(false);
        let calls = tokio::spawn(load.run(stopped));
        let began = Instant::now();
        for _ in 0..panics {
            post_action(&mut control, &format!("/v1/inject-fault/{actor}")).await;
            tokio::time::sleep(Duration::from_micros(rng.u64(0..4000))).await;
        }
        let took = began.elapsed();
        stop.send_replace(true);
        let (answered, lost) = calls.await.expect("every answer is valid");
        assert_eq!(lost, 0, "every request is answered");
        println!(
            "{actor}: {panics} panics in {took:?}, {} answers, {} failures, {} verdicts acknowledged",
            answered.answers, answered.failures, answered.acknowledged
        );
        assert!(answered.answers - answered.failures > answered.failures, "most requests succeed");
        ledger.add(answered);
    }

    let reports: Vec<Value> = get(&mut control, "/v1/actors").await.json().expect("the reports are JSON");
    let metrics = get(&mut daemon.routes().await, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert_eq!(
        reports.iter().map(|report| field(report, "name").as_str()).collect::<Vec<_>>(),
        ACTORS.map(Some)
    );
    for report in reports {
        assert_eq!(field(&report, "restarts"), panics, "{report}");
        assert_eq!(
            field(&report, "last_panic").get("message").unwrap_or(&Value::Null),
            "injected by a test",
            "{report}"
        );
        assert!(field(&report, "last_panic").get("at").unwrap_or(&Value::Null).is_string(), "{report}");
        let counted = format!("oracled_actor_restarts_total{{actor={}}} {panics}\n", field(&report, "name"));
        assert!(metrics.contains(&counted), "{counted} in {metrics}");
    }
    let chronicle = check_served(&mut control, &world.state()).await;
    let sessions: Vec<_> = ledger.sessions.keys().collect();
    ledger.check_answers(&mut daemon.routes().await, &chronicle, &sessions).await;
    assert!(daemon.stop().success());
    let stopped = ledger.check_store(&world.state());
    assert_eq!(stopped.entries, chronicle.entries + 1, "only the stop is added");
}

#[tokio::test]
async fn panics_under_load_lose_no_acknowledged_verdict() {
    panic_under_load(20).await;
}

#[tokio::test]
#[ignore = "1,000 panics in each actor; `just torture`"]
async fn thousand_panics_in_each_actor_lose_no_acknowledged_verdict() {
    panic_under_load(1000).await;
}

#[tokio::test]
async fn repeated_panics_of_an_actor_end_the_daemon_with_one_line() {
    for actor in ACTORS {
        let world = DaemonWorld::default();
        let daemon = world.serve().await;
        let mut control = daemon.control().await;
        for _ in 0..11 {
            post_action(&mut control, &format!("/v1/inject-fault/{actor}")).await;
        }
        assert_eq!(daemon.wait().code(), Some(1), "{actor}");
        let log_text = world.service_log();
        let log_text: Vec<_> = log_text.lines().filter(|line| line.starts_with("oracled: ")).collect();
        let line = format!("oracled: the {actor} panicked 11 times within 60s, last: injected by a test");
        assert_eq!(log_text, [line]);
        assert_eq!(log_text.last().copied(), world.service_log().lines().last(), "it is the last line");
    }
}
