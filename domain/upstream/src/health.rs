//! The health of the daemon's upstream services: models and mail services (seed: `rfc-0002-ground-truth`, "Oracle
//! Health Monitoring"). Each upstream has one state machine; the time is an argument.
//!
//! - An oracle begins as `healthy`. One failure makes it `degraded`. A success resets the count of consecutive
//!   failures. Consecutive successes up to the recovery threshold make it `healthy` again.
//! - Consecutive failures up to the failure threshold open its circuit: `circuit_open`, without calls until the reset
//!   time has passed. With the circuit breaker disabled it becomes `unhealthy` instead, calls continue, and it recovers
//!   as above.
//! - After the reset time a circuit is half open, shown as `unhealthy` with `circuit_opened_at`. It allows one call at
//!   a time, and only this call decides. A failure opens the circuit again; successes up to the recovery threshold make
//!   the oracle healthy. A call without a report after 60 s is replaced by another one.
//! - A probe tests less than a call does. A failed probe counts like a failed call, but a successful probe only resets
//!   failures of probes. Failures that include a call are only reset by a call, and a circuit that opened on them is
//!   only closed by calls. An oracle that answers probes while calls fail therefore still gets no calls. A probe that
//!   is as good as a call uses the permit of a call.
//! - An oracle that rejects the caller itself (its key, its credit, the name of the model) is `refusing` from its first such
//!   answer. Its circuit is open for first verdicts, which other oracles can make. After the reset time, then twice and so on
//!   up to eight times it, one of their calls is permitted. Other calls continue: a read asks for the answer of this oracle.
//!   Only a call that succeeds makes it healthy, never a probe. A permitted call that fails does not open the circuit: the
//!   oracle stays `refusing`. All orders that reach their last attempt within the reset time share the next call that the oracle
//!   rejects.
//! - The report of a call that was permitted before a change of state is counted, but changes no circuit.
//! - An oracle that requests a wait (HTTP 429 or 503 with `Retry-After`) is not called before the wait is over. Its status
//!   does not change. The last attempt of an order overrides such a wait and an open circuit, but no administrator.
//! - A circuit that an administrator has opened stays open until an administrator closes it. Closing makes the oracle
//!   healthy.
//! - If the clock jumps back, the times of the circuit move back with it, so that elapsed time stays elapsed.

use crate::failure::RequestFailureKind;
use crate::upstream_id::UpstreamId;
use domain_base::wording::format_count;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// A call through a half-open circuit is replaced by another one if there is no report after this time.
const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// How often the time doubles after which an oracle that rejects the caller is called again.
const REFUSAL_DOUBLINGS_MAX: u32 = 3;
/// A requested wait that ends within this time needs no person.
const WAIT_NOTED: SignedDuration = SignedDuration::from_secs(30);
/// The retry time for callers that are refused because of such a call.
const TRIAL_PAUSE: Duration = Duration::from_secs(1);

/// A change to an oracle's circuit by an administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitAction {
    /// Open it until an administrator closes it.
    Open,
    /// Close it and mark the oracle healthy.
    Close,
    /// Probe the oracle now, whatever the state of the circuit.
    Probe,
}

/// The outcome of a call. It has no text of the oracle, which can quote the request: health is shared by all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitCallOutcome {
    /// The oracle answered as requested.
    Success {
        /// The latency in milliseconds; `None` for a probe.
        latency_ms: Option<u64>,
    },
    /// The oracle failed, for this reason.
    Failure(RequestFailureKind),
    /// The oracle answered, but rejects the caller for this reason until an operator acts, for example because of the key.
    Refusal(RequestFailureKind),
    /// The call has no effect on the oracle's health: a faulty request (HTTP 400), a limit that was reached (429), a
    /// probe that the oracle does not support, or a call that was never made.
    Neutral,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthStatusChange {
    /// The previous status.
    pub from: OracleHealthLevel,
    /// The new status; the same if an administrator takes over an open circuit.
    pub to: OracleHealthLevel,
    pub cause: String,
    /// The number of consecutive failures.
    pub consecutive_failures: u32,
    /// Whether the circuit was open or half open before.
    pub was_open: bool,
}

/// Permission to make one call or probe; it is returned with the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitPermit {
    number: u64,
    probes: bool,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    /// A first verdict, which another oracle can make.
    FirstVerdict,
    /// The last attempt of an order.
    LastAttempt,
    /// Any other call.
    Other,
}

/// The cause for which a call is not permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitDenialCause {
    /// The circuit is open.
    Circuit,
    /// The oracle requested a wait.
    RequestedWait,
    /// The oracle rejects every call since this time. `is_being_tried` is whether a call that may succeed is in progress.
    Refusing { since: Timestamp, is_being_tried: bool },
}

/// Why a call is not permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitDenial {
    /// The time until the next attempt; `None` if an administrator must act first.
    pub retry_after: Option<Duration>,
    pub cause: PermitDenialCause,
}

impl PermitDenial {
    const fn circuit(retry_after: Option<Duration>) -> Self {
        Self { retry_after, cause: PermitDenialCause::Circuit }
    }
}

#[derive(Debug, Clone, Copy)]
enum CircuitState {
    Healthy,
    Degraded,
    /// Unhealthy with the circuit breaker disabled.
    Unhealthy,
    Open {
        /// When it was opened first. A call that was let through may have failed since.
        opened_at: Timestamp,
        /// The last such failure.
        since: Timestamp,
    },
    HalfOpen {
        opened_at: Timestamp,
        /// The permitted call, and the time of its permit.
        trial: Option<(CircuitPermit, Timestamp)>,
    },
    /// It rejects the caller.
    Refusing(Refusing),
    /// Opened by an administrator.
    Held {
        since: Timestamp,
    },
}

/// The state of an oracle that rejects the caller.
#[derive(Debug, Clone, Copy)]
struct Refusing {
    since: Timestamp,
    /// When the next call for a first verdict is permitted.
    retry_at: Timestamp,
    /// The number of such calls that were rejected or failed since.
    trials: u32,
    /// The permitted call, and the time of its permit.
    trial: Option<(CircuitPermit, Timestamp)>,
    /// Whether orders at their last attempt share the call that was permitted last: it is in progress, or was rejected.
    is_tried: bool,
    /// The number of permits that were issued before. Reports of these calls do not change the state.
    permits_before: u64,
}

/// The state machine of one oracle.
#[derive(Debug, Clone)]
pub struct CircuitBreaker {
    oracle_id: UpstreamId,
    config: OracleHealthConfig,
    state: CircuitState,
    /// The number of permits issued so far.
    permits: u64,
    /// The latest time passed to any method.
    seen_at: Option<Timestamp>,
    probed_at: Option<Timestamp>,
    /// The time before which the oracle must not be called, by its own request.
    wait_until: Option<Timestamp>,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    last_error: Option<RequestFailureKind>,
    consecutive_failures: u32,
    /// Whether the consecutive failures, also those that opened the circuit, include a call and not only probes.
    calls_fail: bool,
    /// Consecutive successes of the calls that count.
    successes: u32,
    latencies: LatencyWindow,
}

impl CircuitBreaker {
    /// A healthy oracle that was not called yet.
    #[must_use]
    pub fn new(oracle_id: UpstreamId, config: OracleHealthConfig) -> Self {
        Self {
            oracle_id,
            config,
            state: CircuitState::Healthy,
            permits: 0,
            seen_at: None,
            probed_at: None,
            wait_until: None,
            last_success_at: None,
            last_failure_at: None,
            last_error: None,
            consecutive_failures: 0,
            calls_fail: false,
            successes: 0,
            latencies: LatencyWindow::default(),
        }
    }

    /// Applies the effect of time: an open circuit becomes half open after its reset time. Must be called before any
    /// other method at this time.
    pub fn advance_time(&mut self, now: Timestamp) -> Option<HealthStatusChange> {
        self.adjust_for_clock_jump(now);
        let CircuitState::Open { opened_at, since } = self.state else { return None };
        if now.duration_since(since) < self.reset() {
            return None;
        }
        let cause = format!("{} s have passed", self.config.circuit_breaker_reset_seconds);
        Some(self.enter(CircuitState::HalfOpen { opened_at, trial: None }, cause))
    }

    /// Requests a permit for a call.
    ///
    /// # Errors
    /// The circuit is open, or half open with another call in progress, or the oracle requested a wait.
    pub fn permit(&mut self, now: Timestamp, purpose: CallPurpose) -> Result<CircuitPermit, PermitDenial> {
        self.try_issue_permit(now, purpose, false)
    }

    fn try_issue_permit(
        &mut self,
        now: Timestamp,
        purpose: CallPurpose,
        probes: bool,
    ) -> Result<CircuitPermit, PermitDenial> {
        self.adjust_for_clock_jump(now);
        let is_last = purpose == CallPurpose::LastAttempt;
        let is_open = matches!(self.state, CircuitState::Open { .. } | CircuitState::Held { .. });
        if let Some(wait) = self.requested_wait(now).filter(|_| !is_open && !is_last) {
            let cause = PermitDenialCause::RequestedWait;
            return Err(PermitDenial { retry_after: Some(wait.unsigned_abs()), cause });
        }
        match self.state {
            CircuitState::Healthy | CircuitState::Degraded | CircuitState::Unhealthy => {
                Ok(self.issue_permit(probes))
            }
            CircuitState::Held { .. } => Err(PermitDenial::circuit(None)),
            CircuitState::Open { .. } if is_last => Ok(self.issue_permit(probes)),
            CircuitState::Open { since, .. } => {
                let left = self.reset() - now.duration_since(since);
                Err(PermitDenial::circuit(Some(left.max(SignedDuration::ZERO).unsigned_abs())))
            }
            CircuitState::Refusing(_)
                if purpose == CallPurpose::Other || !self.config.circuit_breaker_enabled =>
            {
                Ok(self.issue_permit(probes))
            }
            CircuitState::Refusing(refusing) => self.try_refusing(refusing, now, is_last),
            CircuitState::HalfOpen { trial: Some((_, since)), .. }
                if now.duration_since(since) < LEASE && is_last =>
            {
                Ok(self.issue_permit(probes))
            }
            CircuitState::HalfOpen { trial: Some((_, since)), .. } if now.duration_since(since) < LEASE => {
                Err(PermitDenial::circuit(Some(TRIAL_PAUSE)))
            }
            CircuitState::HalfOpen { opened_at, .. } => {
                let permit = self.issue_permit(probes);
                self.state = CircuitState::HalfOpen { opened_at, trial: Some((permit, now)) };
                Ok(permit)
            }
        }
    }

    /// A permit for a call for a first verdict by an oracle that rejects the caller.
    fn try_refusing(
        &mut self,
        refusing: Refusing,
        now: Timestamp,
        is_last: bool,
    ) -> Result<CircuitPermit, PermitDenial> {
        let Refusing { since, retry_at, trials, trial, is_tried, .. } = refusing;
        let denied = |retry_after, is_being_tried| {
            let cause = PermitDenialCause::Refusing { since, is_being_tried };
            Err(PermitDenial { retry_after: Some(retry_after), cause })
        };
        if trial.is_some_and(|(_, at)| now.duration_since(at) < LEASE) {
            return denied(TRIAL_PAUSE, true);
        }
        let left = retry_at.duration_since(now);
        // the answer to the shared call holds for the reset time
        let is_recent = is_tried && left > self.refusal_pause(trials).saturating_sub(self.reset());
        if left.is_positive() && (is_recent || !is_last) {
            return denied(left.unsigned_abs(), false);
        }
        let permit = self.issue_permit(false);
        self.state =
            CircuitState::Refusing(Refusing { trial: Some((permit, now)), is_tried: true, ..refusing });
        Ok(permit)
    }

    /// Whether a call with this permit decides the state of a half-open circuit.
    #[must_use]
    pub fn is_trial(&self, permit: CircuitPermit) -> bool {
        matches!(self.state, CircuitState::HalfOpen { trial: Some((trial, _)), .. } if trial == permit)
    }

    /// A permit for a probe, if one is due and a call would be permitted.
    pub fn probe(&mut self, now: Timestamp) -> Option<CircuitPermit> {
        self.adjust_for_clock_jump(now);
        let interval = seconds(self.config.health_check_interval_seconds);
        if self.probed_at.is_some_and(|at| now.duration_since(at) < interval) {
            return None;
        }
        let permit = self.try_issue_permit(now, CallPurpose::Other, true).ok()?;
        self.probed_at = Some(now);
        Some(permit)
    }

    /// A permit for a probe on an administrator's request, regardless of the circuit. The probe decides the state of a
    /// half-open circuit only if no other call does.
    pub fn probe_now(&mut self, now: Timestamp) -> CircuitPermit {
        let permit = self.try_issue_permit(now, CallPurpose::Other, true);
        let permit = permit.unwrap_or_else(|_| self.issue_permit(true));
        self.probed_at = Some(now);
        permit
    }

    /// Records the outcome of the call with this permit.
    pub fn report(
        &mut self,
        now: Timestamp,
        permit: CircuitPermit,
        outcome: CircuitCallOutcome,
    ) -> Option<HealthStatusChange> {
        self.adjust_for_clock_jump(now);
        let decides = self.release_permit(permit);
        match outcome {
            CircuitCallOutcome::Neutral => {
                // there is no answer that other orders can share
                if decides && let CircuitState::Refusing(refusing) = &mut self.state {
                    refusing.is_tried = false;
                }
                None
            }
            CircuitCallOutcome::Refusal(error) => {
                self.note_error(now, error);
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.calls_fail = true;
                self.refused(now, error, decides)
            }
            CircuitCallOutcome::Success { latency_ms } => {
                self.last_success_at = Some(now);
                if let Some(latency_ms) = latency_ms {
                    self.latencies.add(latency_ms);
                }
                if permit.probes && self.calls_fail {
                    return None;
                }
                self.consecutive_failures = 0;
                // failures that opened the circuit are remembered until it is closed
                self.calls_fail &= !decides || matches!(self.state, CircuitState::HalfOpen { .. });
                match self.state {
                    CircuitState::Refusing(Refusing { permits_before, .. })
                        if permit.number > permits_before =>
                    {
                        Some(self.enter(CircuitState::Healthy, "a call succeeded".into()))
                    }
                    _ if decides => self.succeeded(),
                    _ => None,
                }
            }
            CircuitCallOutcome::Failure(error) => {
                // while it rejects the caller, its rejection is the cause that an operator needs
                if !matches!(self.state, CircuitState::Refusing(_)) {
                    self.note_error(now, error);
                }
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.calls_fail |= !permit.probes;
                if decides { self.failed(now, error) } else { None }
            }
        }
    }

    /// Refuses every call for `wait`, because the oracle requested it. A longer wait that is already in force stays.
    pub fn note_requested_wait(&mut self, now: Timestamp, wait: Duration) {
        self.adjust_for_clock_jump(now);
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.wait_until = self.wait_until.max(Some(until));
    }

    /// The rest of the wait that the oracle requested.
    fn requested_wait(&self, now: Timestamp) -> Option<SignedDuration> {
        let left = self.wait_until?.duration_since(now);
        left.is_positive().then_some(left)
    }

    /// Opens the circuit until an administrator closes it. It has no effect if an administrator holds the circuit open
    /// already.
    pub fn open(&mut self, now: Timestamp) -> Option<HealthStatusChange> {
        self.adjust_for_clock_jump(now);
        let held = matches!(self.state, CircuitState::Held { .. });
        (!held).then(|| self.enter(CircuitState::Held { since: now }, "opened by an administrator".into()))
    }

    /// Makes the oracle healthy, regardless of its status, and ends a wait that it requested.
    pub fn close(&mut self) -> Option<HealthStatusChange> {
        if self.wait_until.take().is_none() && matches!(self.state, CircuitState::Healthy) {
            return None;
        }
        self.consecutive_failures = 0;
        Some(self.enter(CircuitState::Healthy, "closed by an administrator".into()))
    }

    /// The complete status.
    #[must_use]
    pub fn status(&self) -> OracleHealthStatus {
        let (circuit_opened_at, retry_at) = match self.state {
            CircuitState::Healthy | CircuitState::Degraded | CircuitState::Unhealthy => (None, None),
            CircuitState::Open { opened_at, since } => {
                (Some(opened_at), Some(since.checked_add(self.reset()).unwrap_or(Timestamp::MAX)))
            }
            CircuitState::HalfOpen { opened_at, .. } => (Some(opened_at), None),
            CircuitState::Refusing(Refusing { since, retry_at, .. }) => (Some(since), Some(retry_at)),
            CircuitState::Held { since } => (Some(since), None),
        };
        let held_open = matches!(self.state, CircuitState::Held { .. });
        let is_ahead = |until: &Timestamp| self.seen_at.is_none_or(|seen_at| *until > seen_at);
        let waits_until = self.wait_until.filter(|until| !held_open && is_ahead(until));
        OracleHealthStatus {
            oracle_id: self.oracle_id.clone(),
            status: self.current_status(),
            last_success_at: self.last_success_at,
            last_failure_at: self.last_failure_at,
            consecutive_failures: self.consecutive_failures,
            latency_p50_ms: self.latencies.percentile(50),
            latency_p99_ms: self.latencies.percentile(99),
            circuit_opened_at,
            retry_at: retry_at.max(waits_until),
            held_open,
            last_error: self.last_error.map(|error| error.to_string()),
        }
    }

    const fn note_error(&mut self, now: Timestamp, error: RequestFailureKind) {
        self.last_failure_at = Some(now);
        self.last_error = Some(error);
    }

    /// Counts a success of a call that decides.
    fn succeeded(&mut self) -> Option<HealthStatusChange> {
        self.successes = self.successes.saturating_add(1);
        let recovered = self.successes >= self.config.recovery_threshold.get();
        if !recovered || matches!(self.state, CircuitState::Healthy) {
            return None;
        }
        let cause = format!("{} in a row", format_count(self.successes, "success", "successes"));
        Some(self.enter(CircuitState::Healthy, cause))
    }

    /// Counts a failure of a call that decides.
    fn failed(&mut self, now: Timestamp, error: RequestFailureKind) -> Option<HealthStatusChange> {
        self.successes = 0;
        let enough = self.consecutive_failures >= self.config.failure_threshold.get();
        let row = format_count(self.consecutive_failures, "failure", "failures");
        match self.state {
            CircuitState::Refusing(refusing) => {
                self.put_off(Refusing { is_tried: false, ..refusing }, now);
                None
            }
            CircuitState::HalfOpen { opened_at, .. } => Some(self.enter(
                CircuitState::Open { opened_at, since: now },
                format!("the call let through failed: {error}"),
            )),
            CircuitState::Healthy | CircuitState::Degraded if enough => {
                let broken = self.config.circuit_breaker_enabled;
                let state = if broken {
                    CircuitState::Open { opened_at: now, since: now }
                } else {
                    CircuitState::Unhealthy
                };
                Some(self.enter(state, format!("{row} in a row, the last: {error}")))
            }
            CircuitState::Healthy => Some(self.enter(CircuitState::Degraded, format!("a failure: {error}"))),
            CircuitState::Degraded
            | CircuitState::Unhealthy
            | CircuitState::Open { .. }
            | CircuitState::Held { .. } => None,
        }
    }

    /// Counts a call that the oracle rejected because of the caller.
    fn refused(
        &mut self,
        now: Timestamp,
        error: RequestFailureKind,
        decides: bool,
    ) -> Option<HealthStatusChange> {
        self.successes = 0;
        match self.state {
            CircuitState::Refusing(refusing) => {
                if decides {
                    self.put_off(refusing, now);
                }
                None
            }
            _ if decides => {
                let since = match self.state {
                    CircuitState::HalfOpen { opened_at, .. } => opened_at,
                    _ => now,
                };
                let refusing = Refusing {
                    since,
                    retry_at: now.saturating_add(self.refusal_pause(0)).unwrap_or(Timestamp::MAX),
                    trials: 0,
                    trial: None,
                    is_tried: false,
                    permits_before: self.permits,
                };
                Some(self.enter(CircuitState::Refusing(refusing), format!("it rejects every call: {error}")))
            }
            _ => None,
        }
    }

    /// Permits the next call for a first verdict after a longer pause, because the last one did not succeed.
    fn put_off(&mut self, refusing: Refusing, now: Timestamp) {
        let trials = refusing.trials.saturating_add(1);
        let retry_at = now.saturating_add(self.refusal_pause(trials)).unwrap_or(Timestamp::MAX);
        self.state = CircuitState::Refusing(Refusing { trials, retry_at, ..refusing });
    }

    /// Whether the outcome of the call with this permit changes the state: always while the circuit is closed, only for
    /// the permitted call while it is half open or refuses, and never while it is open. The circuit can then permit another
    /// such call.
    fn release_permit(&mut self, permit: CircuitPermit) -> bool {
        match &mut self.state {
            CircuitState::Healthy | CircuitState::Degraded | CircuitState::Unhealthy => true,
            CircuitState::Open { .. } | CircuitState::Held { .. } => false,
            CircuitState::HalfOpen { trial, .. } | CircuitState::Refusing(Refusing { trial, .. }) => {
                trial.take_if(|(trial, _)| *trial == permit).is_some()
            }
        }
    }

    fn enter(&mut self, state: CircuitState, cause: String) -> HealthStatusChange {
        let from = self.current_status();
        let was_open =
            !matches!(self.state, CircuitState::Healthy | CircuitState::Degraded | CircuitState::Unhealthy);
        self.state = state;
        self.calls_fail &= !matches!(state, CircuitState::Healthy);
        HealthStatusChange {
            from,
            to: self.current_status(),
            cause,
            consecutive_failures: self.consecutive_failures,
            was_open,
        }
    }

    const fn current_status(&self) -> OracleHealthLevel {
        match self.state {
            CircuitState::Healthy => OracleHealthLevel::Healthy,
            CircuitState::Degraded => OracleHealthLevel::Degraded,
            CircuitState::Unhealthy | CircuitState::HalfOpen { .. } => OracleHealthLevel::Unhealthy,
            CircuitState::Refusing(_) => OracleHealthLevel::Refusing,
            CircuitState::Open { .. } | CircuitState::Held { .. } => OracleHealthLevel::CircuitOpen,
        }
    }

    const fn issue_permit(&mut self, probes: bool) -> CircuitPermit {
        self.permits = self.permits.wrapping_add(1);
        CircuitPermit { number: self.permits, probes }
    }

    /// If the clock has jumped back, moves the reference times back by the same amount.
    fn adjust_for_clock_jump(&mut self, now: Timestamp) {
        let jump = self.seen_at.map_or(SignedDuration::ZERO, |seen_at| seen_at.duration_since(now));
        self.seen_at = Some(now);
        if !jump.is_positive() {
            return;
        }
        let counted_from = match &mut self.state {
            CircuitState::Open { since, .. } | CircuitState::HalfOpen { trial: Some((_, since)), .. } => {
                [Some(since), None]
            }
            CircuitState::Refusing(Refusing { retry_at, trial, .. }) => {
                [Some(retry_at), trial.as_mut().map(|(_, since)| since)]
            }
            _ => [None, None],
        };
        let counted_from = counted_from.into_iter().flatten();
        for at in counted_from.chain(&mut self.probed_at).chain(&mut self.wait_until) {
            *at = at.checked_sub(jump).unwrap_or(Timestamp::MIN);
        }
    }

    /// The pause after `trials` calls for first verdicts without success.
    fn refusal_pause(&self, trials: u32) -> SignedDuration {
        self.reset().saturating_mul(1 << trials.min(REFUSAL_DOUBLINGS_MAX))
    }

    fn reset(&self) -> SignedDuration {
        seconds(self.config.circuit_breaker_reset_seconds)
    }
}

/// The number of latencies that are kept.
const REMEMBERED: usize = 256;

/// The latencies of the last successful calls, in milliseconds.
#[derive(Debug, Clone, Default)]
struct LatencyWindow(VecDeque<u64>);

impl LatencyWindow {
    fn add(&mut self, latency_ms: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(latency_ms);
    }

    /// The percentile by nearest rank: the smallest latency that at least `percent` % of the latencies do not exceed. 0
    /// without latencies.
    fn percentile(&self, percent: usize) -> u64 {
        let mut sorted: Vec<_> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|index| sorted.get(index)).copied().unwrap_or(0)
    }
}

/// The configuration of an oracle's health monitoring. The names and defaults are the seed's; no number may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OracleHealthConfig {
    /// Interval between probes, which cost no tokens.
    #[schema(value_type = u32, minimum = 1)]
    pub health_check_interval_seconds: NonZeroU32,
    /// Number of consecutive failed calls that open the circuit.
    #[schema(value_type = u32, minimum = 1)]
    pub failure_threshold: NonZeroU32,
    /// Number of consecutive successes that make an oracle healthy again.
    #[schema(value_type = u32, minimum = 1)]
    pub recovery_threshold: NonZeroU32,
    /// Whether calls stop while an oracle fails.
    pub circuit_breaker_enabled: bool,
    /// Time that a circuit stays open before one call at a time is allowed.
    #[schema(value_type = u32, minimum = 1)]
    pub circuit_breaker_reset_seconds: NonZeroU32,
}

impl Default for OracleHealthConfig {
    fn default() -> Self {
        Self {
            health_check_interval_seconds: const { count(60) },
            failure_threshold: const { count(3) },
            recovery_threshold: const { count(2) },
            circuit_breaker_enabled: true,
            circuit_breaker_reset_seconds: const { count(30) },
        }
    }
}

const fn count(value: u32) -> NonZeroU32 {
    match NonZeroU32::new(value) {
        Some(count) => count,
        None => NonZeroU32::MIN,
    }
}

fn seconds(seconds: NonZeroU32) -> SignedDuration {
    SignedDuration::from_secs(seconds.get().into())
}

/// The status of an oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OracleHealthLevel {
    /// It answers.
    Healthy,
    /// It failed recently, but not often enough to be unhealthy.
    Degraded,
    /// It fails; if its circuit was open, one call at a time is permitted now.
    Unhealthy,
    /// It is not called.
    CircuitOpen,
    /// It rejects every call since `circuit_opened_at`, because of its key, its credit or its name. First verdicts are not
    /// requested from it until `retry_at`.
    Refusing,
}

impl OracleHealthLevel {
    /// All statuses, the best first.
    pub const ALL: [Self; 5] =
        [Self::Healthy, Self::Degraded, Self::Unhealthy, Self::CircuitOpen, Self::Refusing];

    /// Whether an oracle with this status is called for first verdicts at all times.
    #[must_use]
    pub const fn accepts_calls(self) -> bool {
        !matches!(self, Self::CircuitOpen | Self::Refusing)
    }
}

/// The health of an oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OracleHealthStatus {
    /// The oracle.
    pub oracle_id: UpstreamId,
    /// Its status.
    pub status: OracleHealthLevel,
    /// The time of its last success.
    pub last_success_at: Option<Timestamp>,
    /// The time of its last failure.
    pub last_failure_at: Option<Timestamp>,
    /// The number of consecutive failures.
    pub consecutive_failures: u32,
    /// The median time to an answer over the last 256 successful calls, in milliseconds; 0 while there are none.
    pub latency_p50_ms: u64,
    /// The 99th percentile of the same times, in milliseconds.
    pub latency_p99_ms: u64,
    /// The time at which its circuit was opened first, if it is open or half open, or since which it rejects every call. It stays while
    /// the calls that are let through fail.
    pub circuit_opened_at: Option<Timestamp>,
    /// The time of the next call: when its open circuit permits a call, or when the wait that it requested is over
    /// (HTTP 429 or 503 with `Retry-After`). Null if calls are permitted, or an administrator decides.
    pub retry_at: Option<Timestamp>,
    /// Whether an administrator holds its circuit open.
    pub held_open: bool,
    /// The kind of its last error. What the oracle wrote is in the entries of the session that asked it.
    pub last_error: Option<String>,
}

impl OracleHealthStatus {
    /// Whether it makes no first verdicts: its circuit is open or half open, or it rejects every call.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        !self.status.accepts_calls() || self.circuit_opened_at.is_some()
    }

    /// The time until which it is not called because it requested a wait; `None` if that is at most 30 s after `now`, or if it makes no
    /// first verdicts for another cause.
    #[must_use]
    pub fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.retry_at.filter(|until| !self.is_unavailable() && until.duration_since(now) > WAIT_NOTED)
    }

    /// Why it makes no first verdicts: its status, or the wait that it requested; `None` if it makes them.
    #[must_use]
    pub fn unavailability(&self, now: Timestamp) -> Option<String> {
        let pause = self.paused_until(now).map(|until| format!("paused until {until:.0}"));
        pause.or_else(|| self.is_unavailable().then(|| self.status.into_str().to_owned()))
    }

    /// That the oracle rejects every call, since when and why; `None` unless it does.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let since = self.circuit_opened_at.filter(|_| self.status == OracleHealthLevel::Refusing)?;
        let error = self.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        Some(format!("every call refused since {since:.0}{error}"))
    }
}

#[cfg(test)]
mod tests;
