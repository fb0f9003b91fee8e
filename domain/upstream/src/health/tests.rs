mod config;

use super::*;
use crate::event::OracleHealthChanged;
use domain_base::event::Event;
use proptest::prelude::*;
use std::num::NonZeroU32;

const RESET_S: i64 = 30;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("not 0")
}

fn health(config: OracleHealthConfig) -> CircuitBreaker {
    CircuitBreaker::new("model".parse().expect("a valid id"), config)
}

fn fresh() -> CircuitBreaker {
    health(OracleHealthConfig::default())
}

fn without_breaker() -> OracleHealthConfig {
    OracleHealthConfig { circuit_breaker_enabled: false, ..OracleHealthConfig::default() }
}

const SUCCESS: CircuitCallOutcome = CircuitCallOutcome::Success { latency_ms: Some(5) };

fn failure() -> CircuitCallOutcome {
    CircuitCallOutcome::Failure(RequestFailureKind::Status(500))
}

fn refusal() -> CircuitCallOutcome {
    CircuitCallOutcome::Refusal(RequestFailureKind::Status(401))
}

/// One permitted call.
fn call(health: &mut CircuitBreaker, second: i64, outcome: CircuitCallOutcome) -> Option<HealthStatusChange> {
    let permit = health.permit(at(second), CallPurpose::Other).expect("the request is allowed");
    health.report(at(second), permit, outcome)
}

/// The statuses before and after a change.
fn status_transition(change: Option<HealthStatusChange>) -> Option<(OracleHealthLevel, OracleHealthLevel)> {
    change.map(|change| (change.from, change.to))
}

/// An oracle whose circuit opened at second 0.
fn opened() -> CircuitBreaker {
    let mut health = fresh();
    (0..3).for_each(|_| drop(call(&mut health, 0, failure())));
    assert_eq!(health.status().status, OracleHealthLevel::CircuitOpen);
    health
}

/// An oracle whose circuit is half open from second 30 on.
fn half_open() -> CircuitBreaker {
    let mut health = opened();
    let passed = health.advance_time(at(RESET_S));
    assert_eq!(
        status_transition(passed),
        Some((OracleHealthLevel::CircuitOpen, OracleHealthLevel::Unhealthy))
    );
    health
}

#[test]
fn one_failure_degrades_and_two_successes_recover() {
    let mut health = fresh();
    let change = call(&mut health, 1, failure()).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Healthy, OracleHealthLevel::Degraded));
    assert_eq!((change.cause.as_str(), change.consecutive_failures), ("a failure: HTTP status 500", 1));
    assert_eq!(call(&mut health, 2, SUCCESS), None);
    assert_eq!(call(&mut health, 3, failure()), None, "the count restarts");
    assert_eq!(call(&mut health, 4, SUCCESS), None);
    let change = call(&mut health, 5, SUCCESS).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Degraded, OracleHealthLevel::Healthy));
    assert_eq!((change.cause.as_str(), change.consecutive_failures), ("2 successes in a row", 0));
    let status = health.status();
    assert_eq!((status.last_success_at, status.last_failure_at), (Some(at(5)), Some(at(3))));
    assert_eq!(status.last_error.as_deref(), Some("HTTP status 500"));
}

#[test]
fn success_resets_consecutive_failures() {
    let mut health = fresh();
    for second in 0..20 {
        call(&mut health, second, if second % 3 == 2 { SUCCESS } else { failure() });
        assert_eq!(health.status().status, OracleHealthLevel::Degraded);
    }
}

#[test]
fn three_failures_open_circuit_for_thirty_seconds() {
    let mut health = fresh();
    assert_eq!(
        status_transition(call(&mut health, 0, failure())),
        Some((OracleHealthLevel::Healthy, OracleHealthLevel::Degraded))
    );
    assert_eq!(call(&mut health, 1, failure()), None);
    let change = call(&mut health, 2, failure()).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Degraded, OracleHealthLevel::CircuitOpen));
    assert_eq!(change.cause, "3 failures in a row, the last: HTTP status 500");
    let status = health.status();
    assert_eq!((status.circuit_opened_at, status.retry_at), (Some(at(2)), Some(at(2 + RESET_S))));
    assert!(!status.held_open);

    for second in 2..2 + RESET_S {
        assert_eq!(health.advance_time(at(second)), None);
        let left = u64::try_from(2 + RESET_S - second).expect("it lies ahead");
        let refused =
            PermitDenial { retry_after: Some(Duration::from_secs(left)), cause: PermitDenialCause::Circuit };
        assert_eq!(health.permit(at(second), CallPurpose::Other), Err(refused));
    }
    let change = health.advance_time(at(2 + RESET_S)).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::CircuitOpen, OracleHealthLevel::Unhealthy));
    assert_eq!(change.cause, "30 s have passed");
    assert_eq!(health.status().circuit_opened_at, Some(at(2)));
    assert_eq!(health.status().retry_at, None);
}

#[test]
fn threshold_of_one_opens_circuit_at_first_failure() {
    let mut health =
        health(OracleHealthConfig { failure_threshold: number(1), ..OracleHealthConfig::default() });
    let change = call(&mut health, 0, failure()).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Healthy, OracleHealthLevel::CircuitOpen));
    assert_eq!(change.cause, "1 failure in a row, the last: HTTP status 500");
}

#[test]
fn half_open_circuit_permits_one_call_at_a_time() {
    let mut health = half_open();
    let trial = health.permit(at(30), CallPurpose::Other).expect("one");
    assert!(health.is_trial(trial));
    assert_eq!(
        health.permit(at(31), CallPurpose::Other),
        Err(PermitDenial { retry_after: Some(TRIAL_PAUSE), cause: PermitDenialCause::Circuit })
    );
    assert_eq!(health.report(at(32), trial, SUCCESS), None);
    let trial = health.permit(at(32), CallPurpose::Other).expect("the next");
    health.permit(at(33), CallPurpose::Other).expect_err("one at a time");
    let healed = health.report(at(33), trial, SUCCESS);
    assert_eq!(status_transition(healed), Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::Healthy)));
    assert_eq!(health.status().circuit_opened_at, None);
    let call = health.permit(at(34), CallPurpose::Other).expect("the circuit is closed");
    assert!(!health.is_trial(call) && !health.is_trial(trial));
}

#[test]
fn failure_in_half_open_circuit_opens_it_again() {
    let mut health = half_open();
    assert_eq!(call(&mut health, 30, SUCCESS), None);
    let change = call(&mut health, 31, failure()).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Unhealthy, OracleHealthLevel::CircuitOpen));
    assert_eq!(change.cause, "the call let through failed: HTTP status 500");
    assert_eq!(health.status().retry_at, Some(at(31 + RESET_S)));
    assert_eq!(
        status_transition(health.advance_time(at(61))),
        Some((OracleHealthLevel::CircuitOpen, OracleHealthLevel::Unhealthy))
    );
    assert_eq!(
        call(&mut health, 61, SUCCESS),
        None,
        "a success from before the circuit opened does not count"
    );
}

#[test]
fn unreported_trial_call_is_replaced_after_60_s() {
    let mut health = half_open();
    let lost = health.permit(at(30), CallPurpose::Other).expect("one");
    health.permit(at(89), CallPurpose::Other).expect_err("it may still come");
    let next = health.permit(at(90), CallPurpose::Other).expect("the next");
    assert_eq!(health.report(at(91), lost, failure()), None, "the call timed out");
    health.permit(at(92), CallPurpose::Other).expect_err("the next probe is in flight");
    assert_eq!(
        status_transition(health.report(at(93), next, failure())),
        Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::CircuitOpen))
    );
}

#[test]
fn report_of_earlier_call_is_counted_without_state_change() {
    let mut health = fresh();
    let late: Vec<_> =
        (0..5).map(|_| health.permit(at(0), CallPurpose::Other).expect("the oracle is healthy")).collect();
    (0..3).for_each(|_| drop(call(&mut health, 0, failure())));
    assert_eq!(health.report(at(9), late[0], failure()), None);
    assert_eq!(health.status().consecutive_failures, 4);
    assert_eq!(health.status().retry_at, Some(at(RESET_S)), "nor does it put it off");
    assert_eq!(health.report(at(9), late[1], SUCCESS), None);
    assert_eq!(health.status().consecutive_failures, 0);
    health.advance_time(at(RESET_S)).expect("it is half open");
    let trial = health.permit(at(30), CallPurpose::Other).expect("one");
    for (permit, outcome) in
        [(late[2], SUCCESS), (late[3], failure()), (late[4], CircuitCallOutcome::Neutral)]
    {
        assert_eq!(health.report(at(31), permit, outcome), None);
        health.permit(at(31), CallPurpose::Other).expect_err("the trial call is in flight");
    }
    assert_eq!(health.report(at(32), trial, SUCCESS), None, "the first of two");
}

#[test]
fn neutral_outcome_releases_the_trial_and_changes_nothing() {
    let mut health = half_open();
    let before = health.status();
    for _ in 0..10 {
        assert_eq!(call(&mut health, 31, CircuitCallOutcome::Neutral), None);
    }
    assert_eq!(health.status(), before);
    let mut health = fresh();
    call(&mut health, 0, failure());
    call(&mut health, 0, SUCCESS);
    call(&mut health, 0, CircuitCallOutcome::Neutral);
    assert_eq!(
        status_transition(call(&mut health, 0, SUCCESS)),
        Some((OracleHealthLevel::Degraded, OracleHealthLevel::Healthy))
    );
}

#[test]
fn unhealthy_oracle_without_circuit_breaker_is_called() {
    let mut health = health(without_breaker());
    (0..2).for_each(|_| drop(call(&mut health, 0, failure())));
    assert_eq!(
        status_transition(call(&mut health, 0, failure())),
        Some((OracleHealthLevel::Degraded, OracleHealthLevel::Unhealthy))
    );
    for _ in 0..10 {
        assert_eq!(call(&mut health, 1, failure()), None);
    }
    assert_eq!((health.status().circuit_opened_at, health.status().consecutive_failures), (None, 13));
    assert_eq!(call(&mut health, 2, SUCCESS), None);
    assert_eq!(
        status_transition(call(&mut health, 2, SUCCESS)),
        Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::Healthy))
    );
}

#[test]
fn circuit_opened_by_administrator_stays_open_until_closed() {
    let mut health = fresh();
    let change = health.open(at(0)).expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Healthy, OracleHealthLevel::CircuitOpen));
    assert_eq!(change.cause, "opened by an administrator");
    assert_eq!(health.open(at(1)), None);
    assert_eq!(health.advance_time(at(1_000_000)), None);
    assert_eq!(
        health.permit(at(1_000_000), CallPurpose::Other),
        Err(PermitDenial { retry_after: None, cause: PermitDenialCause::Circuit })
    );
    assert_eq!(health.probe(at(1_000_000)), None);
    let status = health.status();
    assert_eq!((status.held_open, status.retry_at, status.circuit_opened_at), (true, None, Some(at(0))));
    for outcome in [SUCCESS, SUCCESS, failure()] {
        let permit = health.probe_now(at(2_000_000));
        assert_eq!(health.report(at(2_000_000), permit, outcome), None);
    }
    let change = health.close().expect("a change");
    assert_eq!((change.from, change.to), (OracleHealthLevel::CircuitOpen, OracleHealthLevel::Healthy));
    assert_eq!((change.cause.as_str(), change.consecutive_failures), ("closed by an administrator", 0));
    assert_eq!(health.close(), None);
    health.permit(at(2_000_000), CallPurpose::Other).expect("it is called again");
}

/// A probe, scheduled or requested.
fn probe(
    health: &mut CircuitBreaker,
    second: i64,
    outcome: CircuitCallOutcome,
) -> Option<HealthStatusChange> {
    let permit = health.probe(at(second)).unwrap_or_else(|| health.probe_now(at(second)));
    health.report(at(second), permit, outcome)
}

#[test]
fn circuit_opens_when_probes_succeed_and_sparse_calls_fail() {
    let mut health = fresh();
    for minute in 0..3 {
        assert_ne!(health.status().status, OracleHealthLevel::CircuitOpen);
        call(&mut health, 60 * minute, failure());
        (1..9).for_each(|second| drop(probe(&mut health, 60 * minute + second, SUCCESS)));
    }
    let status = health.status();
    assert_eq!((status.status, status.consecutive_failures), (OracleHealthLevel::CircuitOpen, 3));
    assert_eq!(status.last_success_at, Some(at(128)), "the probes are shown all the same");
}

#[test]
fn probes_do_not_close_circuit_opened_by_calls() {
    let mut health = half_open();
    (30..40).for_each(|second| assert_eq!(probe(&mut health, second, SUCCESS), None));
    assert_eq!(call(&mut health, 40, SUCCESS), None, "the first of two");
    assert_eq!(probe(&mut health, 41, SUCCESS), None, "and it is none");
    assert_eq!(
        status_transition(call(&mut health, 42, SUCCESS)),
        Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::Healthy))
    );
    // a call permitted before, which succeeds only now, does not allow probes to close it
    let late = health.permit(at(43), CallPurpose::Other).expect("the oracle is healthy");
    (0..3).for_each(|_| drop(call(&mut health, 43, failure())));
    assert_eq!(health.report(at(44), late, SUCCESS), None);
    health.advance_time(at(43 + RESET_S)).expect("it is half open");
    assert_eq!(probe(&mut health, 73, SUCCESS).or_else(|| probe(&mut health, 74, SUCCESS)), None);
    // a failing call is still counted
    let change = probe(&mut health, 75, failure());
    assert_eq!(
        status_transition(change),
        Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::CircuitOpen))
    );
}

#[test]
fn probes_reset_failures_of_probes() {
    let mut health = fresh();
    probe(&mut health, 0, failure());
    assert_eq!(probe(&mut health, 1, SUCCESS), None);
    assert_eq!(health.status().consecutive_failures, 0);
    assert_eq!(
        status_transition(probe(&mut health, 2, SUCCESS)),
        Some((OracleHealthLevel::Degraded, OracleHealthLevel::Healthy))
    );
    (3..6).for_each(|second| drop(probe(&mut health, second, failure())));
    health.advance_time(at(5 + RESET_S)).expect("its circuit was open");
    assert_eq!(probe(&mut health, 35, SUCCESS), None);
    assert_eq!(
        status_transition(probe(&mut health, 36, SUCCESS)),
        Some((OracleHealthLevel::Unhealthy, OracleHealthLevel::Healthy))
    );
    // after a call has reset failures that include a call, probes can complete the recovery
    call(&mut health, 40, failure());
    call(&mut health, 41, SUCCESS);
    assert_eq!(
        status_transition(probe(&mut health, 42, SUCCESS)),
        Some((OracleHealthLevel::Degraded, OracleHealthLevel::Healthy))
    );
}

#[test]
fn administrator_takes_over_circuit_opened_by_failures() {
    let mut health = opened();
    assert_eq!(
        status_transition(health.open(at(5))),
        Some((OracleHealthLevel::CircuitOpen, OracleHealthLevel::CircuitOpen))
    );
    assert_eq!(health.advance_time(at(RESET_S)), None);
    assert!(health.status().held_open);
}

#[test]
fn probe_is_due_at_once_and_then_at_its_interval() {
    let mut health = fresh();
    let permit = health.probe(at(0)).expect("it is due");
    assert_eq!(health.probe(at(59)), None);
    health.report(at(1), permit, CircuitCallOutcome::Success { latency_ms: None });
    assert_eq!((health.status().last_success_at, health.status().latency_p50_ms), (Some(at(1)), 0));
    health.probe(at(60)).expect("the probe is due");
    (0..3).for_each(|_| drop(call(&mut health, 119, failure())));
    assert_eq!(health.probe(at(120)), None, "an upstream whose circuit is open is left alone");
    health.advance_time(at(149)).expect("it is half open");
    health.probe(at(149)).expect("the probe is due");
    health.permit(at(149), CallPurpose::Other).expect_err("a probe is the one call");
    health.probe_now(at(150));
    assert_eq!(health.probe(at(209)), None, "the interval begins with the last probe of any caller");
}

#[test]
fn clock_jump_back_delays_nothing() {
    let mut health = opened();
    assert_eq!(health.advance_time(at(20)), None);
    assert_eq!(health.advance_time(at(-100_000)), None, "twenty seconds have passed");
    assert_eq!(health.status().retry_at, Some(at(-100_000 + 10)));
    let refused = health.permit(at(-100_000 + 4), CallPurpose::Other).expect_err("the circuit is open");
    assert_eq!(refused.retry_after, Some(Duration::from_secs(6)));
    health.advance_time(at(-100_000 + 10)).expect("it is half open");

    let lost = health.permit(at(-100_000 + 10), CallPurpose::Other).expect("one");
    health.permit(at(-200_000), CallPurpose::Other).expect_err("one at a time");
    let next = health.permit(at(-200_000 + 60), CallPurpose::Other).expect("the first call timed out");
    assert_ne!(lost, next);

    let mut health = fresh();
    health.probe(at(0)).expect("it is due");
    assert_eq!(health.probe(at(-1000)), None);
    health.probe(at(-940)).expect("the probe is due");
}

#[test]
fn status_has_fields_and_names_of_the_seed() {
    let mut health = fresh();
    call(&mut health, 0, CircuitCallOutcome::Success { latency_ms: Some(120) });
    let page = health.status();
    let text = serde_json::to_string(&page).expect("the value serializes");
    assert_eq!(
        text,
        concat!(
            r#"{"oracle_id":"model","status":"healthy","last_success_at":"2027-01-15T08:00:00Z","#,
            r#""last_failure_at":null,"consecutive_failures":0,"latency_p50_ms":120,"latency_p99_ms":120,"#,
            r#""circuit_opened_at":null,"retry_at":null,"held_open":false,"last_error":null}"#,
        )
    );
    assert_eq!(serde_json::from_str::<OracleHealthStatus>(&text).expect("valid JSON"), page);
    for status in OracleHealthLevel::ALL {
        assert_eq!(serde_json::to_value(status).expect("the value serializes"), status.into_str());
    }
}

/// An event of an oracle.
#[derive(Debug, Clone)]
enum CircuitTestStep {
    /// The clock advances or jumps back, in seconds.
    Wait(i64),
    Permit,
    /// The outcome of one of the calls in progress.
    Report(prop::sample::Index, CircuitCallOutcome),
    Probe,
    ProbeNow,
    Open,
    Close,
}

fn step() -> impl Strategy<Value = CircuitTestStep> {
    let outcome = prop_oneof![
        2 => Just(SUCCESS),
        3 => Just(failure()),
        1 => Just(CircuitCallOutcome::Neutral),
        1 => Just(refusal()),
    ];
    prop_oneof![
        6 => prop_oneof![4 => 0..40_i64, 1 => -10_000..0_i64].prop_map(CircuitTestStep::Wait),
        8 => Just(CircuitTestStep::Permit),
        8 => (any::<prop::sample::Index>(), outcome).prop_map(|(index, outcome)| CircuitTestStep::Report(index, outcome)),
        1 => Just(CircuitTestStep::Probe),
        1 => Just(CircuitTestStep::ProbeNow),
        1 => Just(CircuitTestStep::Open),
        2 => Just(CircuitTestStep::Close),
    ]
}

fn config() -> impl Strategy<Value = OracleHealthConfig> {
    (1..5_u32, 1..4_u32, any::<bool>()).prop_map(|(failures, successes, circuit_breaker_enabled)| {
        OracleHealthConfig {
            failure_threshold: number(failures),
            recovery_threshold: number(successes),
            circuit_breaker_enabled,
            ..OracleHealthConfig::default()
        }
    })
}

/// A state machine, and the knowledge of a simple observer. The observer's own clock never jumps back.
struct ObservedCircuit {
    health: CircuitBreaker,
    now: Timestamp,
    passed_s: i64,
    /// The time at which failures opened the circuit, while it is open.
    opened_s: Option<i64>,
    /// The call permitted by a half-open circuit, and its time.
    trial: Option<(CircuitPermit, i64)>,
    pending_permits: Vec<CircuitPermit>,
}

impl ObservedCircuit {
    fn new(config: OracleHealthConfig) -> Self {
        let (opened_s, trial, pending_permits) = (None, None, Vec::new());
        Self { health: health(config), now: at(0), passed_s: 0, opened_s, trial, pending_permits }
    }

    fn half_open(&self) -> bool {
        let status = self.health.status();
        status.status == OracleHealthLevel::Unhealthy && status.circuit_opened_at.is_some()
    }

    fn record_permit(&mut self, permit: CircuitPermit) {
        assert!(!self.pending_permits.contains(&permit), "no permit is issued twice");
        assert_eq!(self.opened_s, None, "an open circuit lets nothing through");
        if self.half_open() {
            let had_its_time = |(_, since): (CircuitPermit, i64)| self.passed_s - since >= 60;
            assert!(self.trial.is_none_or(had_its_time), "one call at a time");
            self.trial = Some((permit, self.passed_s));
        }
        self.pending_permits.push(permit);
    }

    fn changed(&mut self, before: &OracleHealthStatus, change: Option<&HealthStatusChange>) {
        let after = self.health.status();
        let Some(change) = change else {
            assert_eq!(before.status, after.status, "no change goes unsaid");
            return;
        };
        assert_eq!((change.from, change.to), (before.status, after.status), "a change names both states");
        let by_itself = after.status == OracleHealthLevel::CircuitOpen && !after.held_open;
        self.opened_s = by_itself.then_some(self.passed_s);
        self.trial = None;
    }

    fn step(&mut self, step: CircuitTestStep) {
        if let CircuitTestStep::Wait(seconds) = step {
            self.now += SignedDuration::from_secs(seconds);
            self.passed_s += seconds.max(0);
        }
        let before = self.health.status();
        let passed = self.health.advance_time(self.now);
        let due = self.opened_s.is_some_and(|opened_s| self.passed_s - opened_s >= RESET_S);
        assert_eq!(passed.is_some(), due, "it is open for the reset time, and no longer");
        self.changed(&before, passed.as_ref());

        let before = self.health.status();
        let mut change = None;
        match step {
            CircuitTestStep::Wait(_) => {}
            CircuitTestStep::Permit => {
                if let Ok(permit) = self.health.permit(self.now, CallPurpose::Other) {
                    self.record_permit(permit);
                }
            }
            CircuitTestStep::Probe => {
                if let Some(permit) = self.health.probe(self.now) {
                    self.record_permit(permit);
                }
            }
            CircuitTestStep::ProbeNow => {
                let free =
                    self.half_open() && self.trial.is_none_or(|(_, since)| self.passed_s - since >= 60);
                let permit = self.health.probe_now(self.now);
                if free {
                    self.trial = Some((permit, self.passed_s));
                }
                self.pending_permits.push(permit);
            }
            CircuitTestStep::Report(index, outcome) if !self.pending_permits.is_empty() => {
                let permit = self.pending_permits.swap_remove(index.index(self.pending_permits.len()));
                change = self.health.report(self.now, permit, outcome);
                if self.trial.is_some_and(|(trial, _)| trial == permit) {
                    self.trial = None;
                }
            }
            CircuitTestStep::Report(..) => {}
            CircuitTestStep::Open => change = self.health.open(self.now),
            CircuitTestStep::Close => change = self.health.close(),
        }
        self.changed(&before, change.as_ref());
    }
}

proptest! {
    #[test]
    fn open_circuit_permits_no_call_and_half_open_permits_one(
        config in config(), steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut observed = ObservedCircuit::new(config);
        steps.into_iter().for_each(|step| observed.step(step));
    }

    #[test]
    fn oracle_is_healthy_after_enough_successes(
        config in config(), steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut observed = ObservedCircuit::new(config);
        steps.into_iter().for_each(|step| observed.step(step));
        let ObservedCircuit { mut health, now, .. } = observed;
        if health.status().held_open {
            health.close();
        }
        // the reset time has passed, and so has the time of a lost call
        let now = now + SignedDuration::from_secs(60);
        health.advance_time(now);
        for _ in 0..config.recovery_threshold.get() {
            let permit = health.permit(now, CallPurpose::Other).expect("the request is allowed");
            health.report(now, permit, SUCCESS);
        }
        prop_assert_eq!(health.status().status, OracleHealthLevel::Healthy);
        prop_assert_eq!(health.status().consecutive_failures, 0);
    }

    #[test]
    fn times_in_any_order_never_panic(
        config in config(),
        reset_s in 1..=u32::MAX,
        steps in prop::collection::vec((step(), Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()), 1..200),
    ) {
        let mut health = health(OracleHealthConfig { circuit_breaker_reset_seconds: number(reset_s), ..config });
        let mut on_their_way = Vec::new();
        for (step, second) in steps {
            let now = Timestamp::from_second(second).expect("a valid time");
            health.advance_time(now);
            match step {
                CircuitTestStep::Wait(_) => {}
                CircuitTestStep::Permit => on_their_way.extend(health.permit(now, CallPurpose::Other)),
                CircuitTestStep::Probe => on_their_way.extend(health.probe(now)),
                CircuitTestStep::ProbeNow => on_their_way.push(health.probe_now(now)),
                CircuitTestStep::Report(_, outcome) => {
                    if let Some(permit) = on_their_way.pop() {
                        health.report(now, permit, outcome);
                    }
                }
                CircuitTestStep::Open => drop(health.open(now)),
                CircuitTestStep::Close => drop(health.close()),
            }
            let status = health.status();
            let left = status.retry_at.map(|retry_at| retry_at.duration_since(now));
            prop_assert!(left.is_none_or(|left| left <= SignedDuration::from_secs(8 * i64::from(reset_s))));
        }
    }
}

/// A permitted call for a first verdict.
fn first_call(health: &mut CircuitBreaker, second: i64) -> Result<CircuitPermit, PermitDenial> {
    health.permit(at(second), CallPurpose::FirstVerdict)
}

fn refusing_denial(left_s: u64, is_being_tried: bool) -> PermitDenial {
    let cause = PermitDenialCause::Refusing { since: at(0), is_being_tried };
    PermitDenial { retry_after: Some(Duration::from_secs(left_s)), cause }
}

/// An oracle that rejects the caller since second 0.
fn refusing() -> CircuitBreaker {
    let mut health = fresh();
    let change = call(&mut health, 0, refusal());
    assert_eq!(status_transition(change), Some((OracleHealthLevel::Healthy, OracleHealthLevel::Refusing)));
    health
}

#[test]
fn rejected_caller_makes_no_first_verdicts_until_a_call_succeeds() {
    let mut health = refusing();
    assert_eq!(first_call(&mut health, 1), Err(refusing_denial(29, false)));
    // the pause doubles with each rejected call, up to eight times
    let mut second = 0;
    for pause in [30, 60, 120, 240, 240] {
        first_call(&mut health, second + pause - 1).expect_err("too early");
        second += pause;
        let trial = first_call(&mut health, second).expect("one call");
        assert_eq!(first_call(&mut health, second), Err(refusing_denial(1, true)));
        assert_eq!(health.report(at(second), trial, refusal()), None);
    }
    let status = health.status();
    assert_eq!((status.status, status.consecutive_failures), (OracleHealthLevel::Refusing, 6));
    let text = "every call refused since 2027-01-15T08:00:00Z: HTTP status 401";
    assert_eq!(status.refusal().as_deref(), Some(text));
    // a read is a call of its own, and proves that the key works again
    let change = call(&mut health, 700, SUCCESS);
    assert_eq!(status_transition(change), Some((OracleHealthLevel::Refusing, OracleHealthLevel::Healthy)));
    assert!(first_call(&mut health, 701).is_ok() && health.status().refusal().is_none());
}

#[test]
fn probe_does_not_erase_what_calls_got() {
    let mut health = refusing();
    for (second, outcome) in [(60, SUCCESS), (120, failure()), (180, SUCCESS)] {
        assert_eq!(probe(&mut health, second, outcome), None);
        let status = health.status();
        assert_eq!(status.status, OracleHealthLevel::Refusing);
        assert_eq!(status.last_error.as_deref(), Some("HTTP status 401"));
    }
}

#[test]
fn call_that_was_permitted_before_a_rejection_does_not_end_it() {
    let mut health = fresh();
    let early = health.permit(at(0), CallPurpose::FirstVerdict).expect("it is healthy");
    call(&mut health, 0, refusal());
    assert_eq!(health.report(at(1), early, SUCCESS), None);
    assert_eq!(health.status().status, OracleHealthLevel::Refusing);
}

#[test]
fn outage_during_a_rejection_puts_off_the_next_call() {
    let mut health = refusing();
    let trial = first_call(&mut health, 30).expect("one call");
    assert_eq!(health.report(at(31), trial, failure()), None);
    let status = health.status();
    assert_eq!((status.status, status.circuit_opened_at), (OracleHealthLevel::Refusing, Some(at(0))));
    assert_eq!(status.last_error.as_deref(), Some("HTTP status 401"));
    assert_eq!(first_call(&mut health, 32), Err(refusing_denial(59, false)));
    let trial = first_call(&mut health, 91).expect("one call");
    assert_eq!(health.report(at(92), trial, refusal()), None);
    assert_eq!(first_call(&mut health, 92), Err(refusing_denial(120, false)));
}

#[test]
fn last_attempts_share_one_call_of_an_oracle_that_rejects_the_caller() {
    let mut health = refusing();
    let last = |health: &mut CircuitBreaker, second| health.permit(at(second), CallPurpose::LastAttempt);
    let trial = last(&mut health, 1).expect("the call of all of them");
    assert_eq!(last(&mut health, 2), Err(refusing_denial(1, true)));
    health.report(at(3), trial, refusal());
    assert_eq!(last(&mut health, 4), Err(refusing_denial(59, false)));
    assert_eq!(last(&mut health, 32), Err(refusing_denial(31, false)));
    last(&mut health, 33).expect("the answer is too old");
}

#[test]
fn last_attempts_do_not_share_a_call_without_an_answer() {
    for outcome in [CircuitCallOutcome::Neutral, failure()] {
        let mut health = refusing();
        let lost = health.permit(at(1), CallPurpose::LastAttempt).expect("the call of all of them");
        assert_eq!(health.report(at(2), lost, outcome), None);
        let next = health.permit(at(2), CallPurpose::LastAttempt).expect("there was no answer");
        assert_eq!(health.report(at(3), next, refusal()), None);
        health.permit(at(4), CallPurpose::LastAttempt).expect_err("the answer is shared");
    }
}

#[test]
fn last_attempt_overrides_a_wait_and_an_open_circuit_but_no_administrator() {
    let mut health = fresh();
    health.note_requested_wait(at(0), Duration::from_secs(600));
    first_call(&mut health, 1).expect_err("the oracle asked for a wait");
    health.permit(at(1), CallPurpose::LastAttempt).expect("it overrides the wait");
    let mut health = opened();
    let last = health.permit(at(1), CallPurpose::LastAttempt).expect("it overrides the circuit");
    assert_eq!(health.report(at(2), last, SUCCESS), None, "and does not close it");
    health.open(at(3));
    let denial = PermitDenial { retry_after: None, cause: PermitDenialCause::Circuit };
    assert_eq!(health.permit(at(4), CallPurpose::LastAttempt), Err(denial));
}

#[test]
fn calls_continue_without_a_circuit_breaker_although_they_are_rejected() {
    let mut health = health(without_breaker());
    call(&mut health, 0, refusal());
    assert_eq!(health.status().status, OracleHealthLevel::Refusing);
    assert!(first_call(&mut health, 1).is_ok());
}

#[test]
fn quota_wait_blocks_calls_until_over_or_circuit_closed() {
    let mut health = fresh();
    health.note_requested_wait(at(0), Duration::from_secs(61));
    health.note_requested_wait(at(1), Duration::from_secs(5));
    let left = |left_s| {
        Err(PermitDenial {
            retry_after: Some(Duration::from_secs(left_s)),
            cause: PermitDenialCause::RequestedWait,
        })
    };
    assert_eq!(health.permit(at(1), CallPurpose::Other), left(60));
    assert!(health.probe(at(1)).is_none(), "a probe is a call, too");
    let status = health.status();
    assert_eq!((status.status, status.retry_at), (OracleHealthLevel::Healthy, Some(at(61))));
    // if the clock jumps back, the wait moves with it
    assert_eq!(health.permit(at(-99), CallPurpose::Other), left(60));
    assert!(health.permit(at(-39), CallPurpose::Other).is_ok());
    assert_eq!(health.status().retry_at, None);

    health.note_requested_wait(at(0), Duration::from_secs(61));
    let change = health.close().expect("the wait has ended");
    assert_eq!((change.from, change.to), (OracleHealthLevel::Healthy, OracleHealthLevel::Healthy));
    assert!(health.permit(at(0), CallPurpose::Other).is_ok() && health.close().is_none());
    // while an administrator holds the circuit open, the wait has no effect
    health.note_requested_wait(at(0), Duration::from_secs(61));
    health.open(at(0));
    assert_eq!(
        health.permit(at(1), CallPurpose::Other),
        Err(PermitDenial { retry_after: None, cause: PermitDenialCause::Circuit })
    );
    assert_eq!(health.status().retry_at, None);
}

#[test]
fn percentile_is_nearest_rank_of_last_256_latencies() {
    let mut latencies = LatencyWindow::default();
    assert_eq!((latencies.percentile(50), latencies.percentile(99)), (0, 0));
    latencies.add(7);
    assert_eq!((latencies.percentile(50), latencies.percentile(99)), (7, 7));
    latencies.add(3);
    assert_eq!((latencies.percentile(50), latencies.percentile(99)), (3, 7));
    // 1 to 300, of which 45 to 300 are kept
    let mut latencies = LatencyWindow::default();
    (1..=300).for_each(|latency_ms| latencies.add(latency_ms));
    assert_eq!((latencies.percentile(50), latencies.percentile(99)), (44 + 128, 44 + 254));
}

/// The webhook about a change.
fn webhook(change: HealthStatusChange) -> Option<&'static str> {
    let HealthStatusChange { from, to, cause, consecutive_failures, was_open } = change;
    let oracle_id = "model".parse().expect("a valid id");
    let changed =
        OracleHealthChanged { oracle_id, from, to, cause, consecutive_failures, peer: None, was_open };
    changed.notice(None).map(|notice| notice.kind)
}

#[test]
fn circuit_is_reported_as_closed_only_after_it_was_reported_as_opened() {
    for (config, expected) in [
        (OracleHealthConfig::default(), vec!["circuit.opened", "circuit.closed"]),
        (without_breaker(), vec![]),
    ] {
        let mut health = health(config);
        let failed = (0..3).filter_map(|_| call(&mut health, 0, failure())).collect::<Vec<_>>();
        let passed = health.advance_time(at(RESET_S));
        let recovered = (0..2).filter_map(|_| call(&mut health, RESET_S, SUCCESS)).collect::<Vec<_>>();
        assert_eq!(health.status().status, OracleHealthLevel::Healthy);
        let changes = failed.into_iter().chain(passed).chain(recovered);
        assert_eq!(changes.filter_map(webhook).collect::<Vec<_>>(), expected);
    }
    // a rejected call opens the circuit of an oracle that is unhealthy without a breaker
    let mut health = health(without_breaker());
    (0..3).for_each(|_| drop(call(&mut health, 0, failure())));
    assert_eq!(call(&mut health, 1, refusal()).and_then(webhook), Some("circuit.opened"));
    assert_eq!(call(&mut health, 2, SUCCESS).and_then(webhook), Some("circuit.closed"));
}
