use crate::testing::{TestClock, TestSystem, logged_events, with_oracles, with_system};
use actors_platform::actor_handle::StartedActor;
use actors_platform::clock::monotonic;
use actors_upstream::BoxFuture;
use actors_upstream::oracle_health::*;
use domain_base::caller::PeerCredentials;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::{
    CircuitAction, CircuitCallOutcome, OracleHealthConfig, OracleHealthLevel, OracleHealthStatus,
};
use domain_upstream::upstream_id::UpstreamId;
use oracled_store::{LogQuery, Store};
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const PEER: PeerCredentials = PeerCredentials { uid: 1, gid: 2, pid: Some(3) };
const SUCCESS: CircuitCallOutcome = CircuitCallOutcome::Success { latency_ms: Some(7) };

/// A probe with a scripted outcome that counts its calls.
#[derive(Debug, Default)]
struct ScriptedProbe {
    fails: AtomicBool,
    /// Returns a neutral outcome.
    shrugs: AtomicBool,
    hangs: AtomicBool,
    panics: AtomicBool,
    begun: AtomicUsize,
    at_once: AtomicUsize,
}

impl OracleProbe for ScriptedProbe {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(async {
            self.begun.fetch_add(1, Ordering::Relaxed);
            assert_eq!(self.at_once.fetch_add(1, Ordering::Relaxed), 0, "never two at a time");
            assert!(!self.panics.load(Ordering::Relaxed), "scripted panic");
            while self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            match (self.fails.load(Ordering::Relaxed), self.shrugs.load(Ordering::Relaxed)) {
                (true, _) => CircuitCallOutcome::Failure(RequestFailureKind::Status(500)),
                (false, true) => CircuitCallOutcome::Neutral,
                (false, false) => CircuitCallOutcome::Success { latency_ms: None },
            }
        })
    }
}

fn id(text: &str) -> UpstreamId {
    text.parse().expect("a valid id")
}

fn oracle(name: &str, probe: Option<&Arc<ScriptedProbe>>) -> MonitoredOracle {
    let probe = probe.map(|probe| Arc::clone(probe) as Arc<dyn OracleProbe>);
    MonitoredOracle { id: id(name), config: OracleHealthConfig::default(), probe }
}

fn failure() -> CircuitCallOutcome {
    CircuitCallOutcome::Failure(RequestFailureKind::Status(500))
}

impl TestSystem {
    async fn permit(&self) -> Result<CallLease, PermitError> {
        self.system.oracle_health.ask(RequestCallPermit(id("model"))).await.expect("the actor answers")
    }

    async fn call(&self, outcome: CircuitCallOutcome) {
        self.permit().await.expect("the request is allowed").report(outcome);
    }

    async fn steer(&self, action: CircuitAction) -> Result<CircuitActionOutcome, CircuitActionError> {
        let steer = ApplyCircuitAction { oracle_id: id("model"), action, peer: PEER };
        self.system.oracle_health.ask(steer).await.expect("the actor answers")
    }

    async fn status(&self) -> OracleHealthStatus {
        let mut statuses =
            self.system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
        statuses.pop().expect("a value is present")
    }

    async fn open_circuit(&self) {
        for _ in 0..3 {
            self.call(failure()).await;
        }
        assert_eq!(self.status().await.status, OracleHealthLevel::CircuitOpen);
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// The log entries, once there are at least `count`.
async fn entries(store: &Store, count: usize) -> Vec<Value> {
    eventually("the entries are there", async || logged_events(store).len() >= count).await;
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    lines.iter().map(|line| serde_json::from_str(&line.json).expect("valid JSON")).collect()
}

fn status_changes(entries: &[Value]) -> Vec<(&str, &str)> {
    fn word<'e>(entry: &'e Value, name: &str) -> &'e str {
        entry[name].as_str().expect("a word")
    }
    entries.iter().map(|entry| (word(entry, "from"), word(entry, "to"))).collect()
}

#[test]
fn circuit_opens_on_failures_closes_on_successes_and_logs_each_change() {
    let hand = TestClock::new();
    with_oracles(hand.clone(), vec![oracle("model", None)], |world| async move {
        world.open_circuit().await;
        hand.advance(10);
        let refused = world.permit().await.expect_err("the circuit is open");
        let retry_after = Some(Duration::from_secs(20));
        assert_eq!(refused, PermitError::CircuitOpen { oracle_id: id("model"), retry_after });
        hand.advance(20);
        world.call(SUCCESS).await;
        world.call(SUCCESS).await;
        assert_eq!(world.status().await.latency_p50_ms, 7);
        let entries = entries(&world.system.store, 4).await;
        assert_eq!(
            status_changes(&entries),
            [
                ("healthy", "degraded"),
                ("degraded", "circuit_open"),
                ("circuit_open", "unhealthy"),
                ("unhealthy", "healthy"),
            ]
        );
        assert_eq!(
            entries[1],
            json!({
                "seq": 2,
                "event": "oracle_health_changed",
                "oracle_id": "model",
                "from": "degraded",
                "to": "circuit_open",
                "cause": "3 failures in a row, the last: HTTP status 500",
                "consecutive_failures": 3,
                "peer": null,
                "timestamp": "2026-11-20T10:00:00Z",
            })
        );
    });
}

#[test]
fn half_open_circuit_permits_one_call_at_a_time() {
    let hand = TestClock::new();
    with_oracles(hand.clone(), vec![oracle("model", None)], |world| async move {
        assert!(!world.permit().await.expect("the circuit is closed").is_trial());
        world.open_circuit().await;
        hand.advance(30);
        let mut leases = Vec::new();
        for _ in 0..50 {
            leases.extend(world.permit().await.ok());
        }
        assert!(leases.len() == 1 && leases.iter().all(CallLease::is_trial), "{leases:?}");
        drop(leases);
        world.permit().await.expect("a lease that is dropped makes way for the next").report(failure());
        assert_eq!(world.status().await.status, OracleHealthLevel::CircuitOpen);
    });
}

#[test]
fn unclaimed_lease_is_released_when_its_caller_is_gone() {
    let hand = TestClock::new();
    with_oracles(hand.clone(), vec![oracle("model", None)], |world| async move {
        world.open_circuit().await;
        hand.advance(30);
        let pending_lease = world.system.oracle_health.addr().send(RequestCallPermit(id("model")));
        world.permit().await.expect_err("the request is rejected");
        // dropping the request drops the lease that was not received
        drop(pending_lease);
        world.permit().await.expect("the request is allowed").report(SUCCESS);
    });
}

#[test]
fn unknown_oracle_is_rejected_with_the_known_names() {
    with_system(|world| async move {
        let refused = world.permit().await.expect_err("the call fails");
        let known = Vec::new();
        assert_eq!(refused, PermitError::Unknown(UnknownOracle { oracle_id: id("model"), known }));
    });
    let oracles = vec![oracle("mail", None), oracle("gemini", None)];
    with_oracles(TestClock::new(), oracles, |world| async move {
        let refused = world.permit().await.expect_err("the oracle is unknown");
        let known = vec![id("gemini"), id("mail")];
        assert_eq!(refused, PermitError::Unknown(UnknownOracle { oracle_id: id("model"), known }));
        for action in [CircuitAction::Open, CircuitAction::Close, CircuitAction::Probe] {
            let refused = world.steer(action).await.expect_err("the oracle is unknown");
            assert!(matches!(refused, CircuitActionError::Unknown(_)), "{refused}");
        }
        let statuses = world.system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
        let names: Vec<_> = statuses.iter().map(|status| status.oracle_id.as_str()).collect();
        assert_eq!(names, ["gemini", "mail"]);
        assert_eq!(logged_events(&world.system.store), [""; 0]);
    });
}

#[test]
fn log_entries_are_in_the_order_of_the_changes() {
    let one = NonZeroU32::MIN;
    let config = OracleHealthConfig {
        failure_threshold: one,
        recovery_threshold: one,
        circuit_breaker_enabled: false,
        ..OracleHealthConfig::default()
    };
    let oracle = MonitoredOracle { config, ..oracle("model", None) };
    with_oracles(TestClock::new(), vec![oracle], |world| async move {
        for _ in 0..100 {
            world.call(failure()).await;
            world.call(SUCCESS).await;
        }
        let entries = entries(&world.system.store, 200).await;
        for pair in status_changes(&entries).chunks(2) {
            assert_eq!(pair, [("healthy", "unhealthy"), ("unhealthy", "healthy")]);
        }
    });
}

#[test]
fn failing_oracle_is_not_probed_while_its_circuit_is_open() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        let begun = || probe.begun.load(Ordering::Relaxed);
        eventually("the first probe", async || world.status().await.last_success_at.is_some()).await;
        assert_eq!((begun(), world.status().await.latency_p50_ms), (1, 0), "a probe has no latency");
        probe.fails.store(true, Ordering::Relaxed);
        for failures in 1..=3 {
            hand.advance(60);
            let failed = async || world.status().await.consecutive_failures == failures;
            eventually("the next probe", failed).await;
        }
        assert_eq!((begun(), world.status().await.status), (4, OracleHealthLevel::CircuitOpen));
        // the clock jumps back: no probe may start
        hand.advance(-1000);
        tokio::time::sleep(2 * TICK).await;
        assert_eq!(begun(), 4);
        probe.fails.store(false, Ordering::Relaxed);
        for _ in 0..2 {
            hand.advance(60);
            let before = begun();
            eventually("the next probe", async || begun() > before).await;
        }
        eventually("it is healthy", async || world.status().await.status == OracleHealthLevel::Healthy).await;
    });
}

#[test]
fn hanging_probe_blocks_no_calls_and_fails_after_five_seconds() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    probe.hangs.store(true, Ordering::Relaxed);
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        eventually("the first probe", async || probe.begun.load(Ordering::Relaxed) == 1).await;
        let began = monotonic();
        hand.advance(600);
        world.call(SUCCESS).await;
        let refused = world.steer(CircuitAction::Probe).await.expect_err("one at a time");
        assert_eq!(refused, CircuitActionError::Probing(id("model")));
        eventually("it has failed", async || world.status().await.last_error.is_some()).await;
        assert!(began.elapsed() < PROBE_MAX + 2 * TICK, "{:?}", began.elapsed());
        let status = world.status().await;
        assert_eq!(status.last_error.as_deref(), Some("no answer in time"));
        assert_eq!((status.status, status.consecutive_failures), (OracleHealthLevel::Degraded, 1));
    });
}

#[test]
fn panicking_probe_does_not_block_later_probes() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    probe.panics.store(true, Ordering::Relaxed);
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        eventually("the first probe", async || probe.begun.load(Ordering::Relaxed) == 1).await;
        probe.panics.store(false, Ordering::Relaxed);
        probe.at_once.store(0, Ordering::Relaxed);
        hand.advance(60);
        eventually("the next probe", async || world.status().await.last_success_at.is_some()).await;
    });
}

#[test]
fn opening_and_closing_a_circuit_logs_the_administrator() {
    let hand = TestClock::new();
    with_oracles(hand.clone(), vec![oracle("model", None)], |world| async move {
        for _ in 0..2 {
            let steered = world.steer(CircuitAction::Open).await.expect("the call succeeds");
            assert!(steered.status.held_open && steered.probe.is_none(), "{steered:?}");
        }
        hand.advance(100_000);
        let refused = world.permit().await.expect_err("it is held open");
        assert_eq!(refused, PermitError::CircuitOpen { oracle_id: id("model"), retry_after: None });
        for _ in 0..2 {
            let steered = world.steer(CircuitAction::Close).await.expect("the call succeeds");
            assert_eq!(
                (steered.status.status, steered.status.held_open),
                (OracleHealthLevel::Healthy, false)
            );
        }
        world.call(SUCCESS).await;
        let entries = entries(&world.system.store, 2).await;
        assert_eq!(status_changes(&entries), [("healthy", "circuit_open"), ("circuit_open", "healthy")]);
        for entry in &entries {
            assert_eq!(entry["peer"], json!({"uid": 1, "gid": 2, "pid": 3}));
        }
    });
}

#[test]
fn ordered_probe_ignores_the_circuit_and_returns_its_outcome() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        world.steer(CircuitAction::Open).await.expect("the call succeeds");
        let steered = world.steer(CircuitAction::Probe).await.expect("the call succeeds");
        let success = Some(CircuitCallOutcome::Success { latency_ms: None });
        assert_eq!((steered.probe, steered.status.status), (success, OracleHealthLevel::CircuitOpen));
        assert_eq!(steered.status.last_success_at, Some(world.system.clock.now()), "it counts");
        probe.fails.store(true, Ordering::Relaxed);
        let steered = world.steer(CircuitAction::Probe).await.expect("the call succeeds");
        let Some(CircuitCallOutcome::Failure(error)) = steered.probe else { panic!("it failed") };
        assert_eq!(error, RequestFailureKind::Status(500));
        assert_eq!(steered.status.last_error, Some(error.to_string()));
        assert_eq!(steered.status.consecutive_failures, 1);
        probe.fails.store(false, Ordering::Relaxed);
        probe.shrugs.store(true, Ordering::Relaxed);
        let before = world.status().await;
        let steered = world.steer(CircuitAction::Probe).await.expect("the call succeeds");
        assert_eq!(
            (steered.probe, steered.status),
            (Some(CircuitCallOutcome::Neutral), before),
            "there is no message"
        );
        let entries = entries(&world.system.store, 4).await;
        for entry in &entries[1..] {
            assert_eq!(entry["event"], "control_action");
            assert_eq!((&entry["action"], &entry["detail"]), (&json!("probe_oracle"), &json!("model")));
        }
    });
    with_oracles(TestClock::new(), vec![oracle("model", None)], |world| async move {
        let refused = world.steer(CircuitAction::Probe).await.expect_err("it has none");
        assert_eq!(refused, CircuitActionError::NoProbe(id("model")));
        assert_eq!(logged_events(&world.system.store), [""; 0]);
    });
}

#[test]
fn steering_fails_without_effect_if_it_cannot_be_logged() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        eventually("the first probe", async || world.status().await.last_success_at.is_some()).await;
        world.open_circuit().await;
        entries(&world.system.store, 2).await;
        world.break_store();
        let before = world.status().await;
        for action in [CircuitAction::Open, CircuitAction::Close, CircuitAction::Probe] {
            let refused = world.steer(action).await.expect_err("the commit fails");
            assert!(matches!(refused, CircuitActionError::Commit(_)), "{refused}");
            assert_eq!(world.status().await, before, "{action:?}");
        }
        assert_eq!(probe.begun.load(Ordering::Relaxed), 1);
        let lines = || world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        let ordered = lines();
        assert!(
            ordered.len() == 1 && ordered[0].contains("probe_oracle"),
            "what did not happen: {ordered:?}"
        );
        // a change that has already happened is reported in any case
        hand.advance(30);
        world.call(failure()).await;
        eventually("the log entry is written", async || {
            lines().iter().any(|line| line.contains("let through"))
        })
        .await;
        world.mend_store();
    });
}

#[test]
fn oracle_health_and_probes_survive_a_panic() {
    let (hand, probe) = (TestClock::new(), Arc::new(ScriptedProbe::default()));
    with_oracles(hand.clone(), vec![oracle("model", Some(&probe))], |world| async move {
        eventually("the first probe", async || world.status().await.last_success_at.is_some()).await;
        world.call(failure()).await;
        let lease = world.permit().await.expect("the request is allowed");
        let before = world.status().await;
        world.system.oracle_health.inject_panic().await;
        assert_eq!(world.status().await, before);
        assert_eq!(world.system.oracle_health.report().restarts, 1);
        lease.report(failure());
        assert_eq!(world.status().await.consecutive_failures, 2, "a lease outlives a panic");
        hand.advance(60);
        eventually("the next probe", async || probe.begun.load(Ordering::Relaxed) == 2).await;
    });
}
