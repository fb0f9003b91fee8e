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
//! - The report of a call that was permitted before a change of state is counted, but changes no circuit.
//! - An oracle that requests a wait (HTTP 429 with `Retry-After`) is not called before the wait is over. Its status
//!   does not change.
//! - A circuit that an administrator has opened stays open until an administrator closes it. Closing makes the oracle
//!   healthy.
//! - If the clock jumps back, the times of the circuit move back with it, so that elapsed time stays elapsed.

use crate::verdict::oracle::OracleId;
use config::seconds;
use jiff::{SignedDuration, Timestamp};
use latencies::Latencies;
use serde::{Deserialize, Serialize};
use std::time::Duration;

mod config;
mod latencies;
mod status;

pub use config::HealthConfig;
pub use status::{HealthStatus, Status};

/// A call through a half-open circuit is replaced by another one if there is no report after this time.
const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// The retry time for callers that are refused because of such a call.
const TRIAL_PAUSE: Duration = Duration::from_secs(1);
/// The maximum length of an upstream's error that is stored, in characters.
pub const ERROR_MAX_CHARS: usize = 200;

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

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The oracle answered as requested.
    Success {
        /// The latency in milliseconds; `None` for a probe.
        latency_ms: Option<u64>,
    },
    /// The oracle failed, for this reason.
    Failure(String),
    /// The oracle answered, but refuses requests for this reason until the configuration changes, for example the key.
    /// This opens no circuit, because waiting does not help.
    Refusal(String),
    /// The call has no effect on the oracle's health: a faulty request (HTTP 400), a limit that was reached (429), a
    /// probe that the oracle does not support, or a call that was never made.
    Neutral,
}

/// A change of status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The previous status.
    pub from: Status,
    /// The new status; the same if an administrator takes over an open circuit.
    pub to: Status,
    /// The cause.
    pub cause: String,
    /// The number of consecutive failures.
    pub consecutive_failures: u32,
}

/// Permission to make one call or probe; it is returned with the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    number: u64,
    probes: bool,
}

/// Why a call is not permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The time until the next attempt; `None` if an administrator must act first.
    pub retry_after: Option<Duration>,
    /// Whether the oracle requested the wait. Otherwise its circuit is open.
    pub is_quota_wait: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Healthy,
    Degraded,
    /// Unhealthy with the circuit breaker disabled.
    Unhealthy,
    Open {
        since: Timestamp,
    },
    HalfOpen {
        opened_at: Timestamp,
        /// The permitted call, and the time of its permit.
        trial: Option<(Permit, Timestamp)>,
    },
    /// Opened by an administrator.
    Held {
        since: Timestamp,
    },
}

/// The state machine of one oracle.
#[derive(Debug, Clone)]
pub struct Health {
    oracle_id: OracleId,
    config: HealthConfig,
    state: State,
    /// The number of permits issued so far.
    permits: u64,
    /// The latest time passed to any method.
    seen_at: Option<Timestamp>,
    probed_at: Option<Timestamp>,
    /// The time before which the oracle must not be called, by its own request.
    quota_wait_until: Option<Timestamp>,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    last_error: Option<String>,
    consecutive_failures: u32,
    /// Whether the consecutive failures, also those that opened the circuit, include a call and not only probes.
    calls_fail: bool,
    /// Consecutive successes of the calls that count.
    successes: u32,
    latencies: Latencies,
}

impl Health {
    /// A healthy oracle that was not called yet.
    #[must_use]
    pub fn new(oracle_id: OracleId, config: HealthConfig) -> Self {
        Self {
            oracle_id,
            config,
            state: State::Healthy,
            permits: 0,
            seen_at: None,
            probed_at: None,
            quota_wait_until: None,
            last_success_at: None,
            last_failure_at: None,
            last_error: None,
            consecutive_failures: 0,
            calls_fail: false,
            successes: 0,
            latencies: Latencies::default(),
        }
    }

    /// Applies the effect of time: an open circuit becomes half open after its reset time. Must be called before any
    /// other method at this time.
    pub fn pass(&mut self, now: Timestamp) -> Option<Change> {
        self.follow_back(now);
        let State::Open { since: opened_at } = self.state else { return None };
        if now.duration_since(opened_at) < self.reset() {
            return None;
        }
        let cause = format!("{} s have passed", self.config.circuit_breaker_reset_seconds);
        Some(self.enter(State::HalfOpen { opened_at, trial: None }, cause))
    }

    /// Requests a permit for a call.
    ///
    /// # Errors
    /// The circuit is open, or half open with another call in progress, or the oracle requested a wait.
    pub fn permit(&mut self, now: Timestamp) -> Result<Permit, Refused> {
        self.let_through(now, false)
    }

    fn let_through(&mut self, now: Timestamp, probes: bool) -> Result<Permit, Refused> {
        self.follow_back(now);
        let is_open = matches!(self.state, State::Open { .. } | State::Held { .. });
        if let Some(wait) = self.quota_wait(now).filter(|_| !is_open) {
            return Err(Refused { retry_after: Some(wait.unsigned_abs()), is_quota_wait: true });
        }
        match self.state {
            State::Healthy | State::Degraded | State::Unhealthy => Ok(self.issue(probes)),
            State::Held { .. } => Err(Refused { retry_after: None, is_quota_wait: false }),
            State::Open { since } => {
                let left = self.reset() - now.duration_since(since);
                Err(Refused {
                    retry_after: Some(left.max(SignedDuration::ZERO).unsigned_abs()),
                    is_quota_wait: false,
                })
            }
            State::HalfOpen { trial: Some((_, since)), .. } if now.duration_since(since) < LEASE => {
                Err(Refused { retry_after: Some(TRIAL_PAUSE), is_quota_wait: false })
            }
            State::HalfOpen { opened_at, .. } => {
                let permit = self.issue(probes);
                self.state = State::HalfOpen { opened_at, trial: Some((permit, now)) };
                Ok(permit)
            }
        }
    }

    /// Whether a call with this permit decides the state of a half-open circuit.
    #[must_use]
    pub fn is_trial(&self, permit: Permit) -> bool {
        matches!(self.state, State::HalfOpen { trial: Some((trial, _)), .. } if trial == permit)
    }

    /// A permit for a probe, if one is due and a call would be permitted.
    pub fn probe(&mut self, now: Timestamp) -> Option<Permit> {
        self.follow_back(now);
        let interval = seconds(self.config.health_check_interval_seconds);
        if self.probed_at.is_some_and(|at| now.duration_since(at) < interval) {
            return None;
        }
        let permit = self.let_through(now, true).ok()?;
        self.probed_at = Some(now);
        Some(permit)
    }

    /// A permit for a probe on an administrator's request, regardless of the circuit. The probe decides the state of a
    /// half-open circuit only if no other call does.
    pub fn probe_now(&mut self, now: Timestamp) -> Permit {
        let permit = self.let_through(now, true).unwrap_or_else(|_| self.issue(true));
        self.probed_at = Some(now);
        permit
    }

    /// Records the outcome of the call with this permit.
    pub fn report(&mut self, now: Timestamp, permit: Permit, outcome: Outcome) -> Option<Change> {
        self.follow_back(now);
        let decides = self.hand_back(permit);
        match outcome {
            Outcome::Neutral => None,
            Outcome::Refusal(error) => {
                self.note_error(now, error);
                None
            }
            Outcome::Success { latency_ms } => {
                self.last_success_at = Some(now);
                if let Some(latency_ms) = latency_ms {
                    self.latencies.add(latency_ms);
                }
                if permit.probes && self.calls_fail {
                    return None;
                }
                self.consecutive_failures = 0;
                // failures that opened the circuit are remembered until it is closed
                self.calls_fail &= !decides || matches!(self.state, State::HalfOpen { .. });
                if decides { self.succeeded() } else { None }
            }
            Outcome::Failure(error) => {
                let error = self.note_error(now, error);
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.calls_fail |= !permit.probes;
                if decides { self.failed(now, &error) } else { None }
            }
        }
    }

    /// Refuses every call for `wait`, because the oracle requested it. A longer wait that is already in force stays.
    pub fn note_quota_wait(&mut self, now: Timestamp, wait: Duration) {
        self.follow_back(now);
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.quota_wait_until = self.quota_wait_until.max(Some(until));
    }

    /// The rest of the wait that the oracle requested.
    fn quota_wait(&self, now: Timestamp) -> Option<SignedDuration> {
        let left = self.quota_wait_until?.duration_since(now);
        left.is_positive().then_some(left)
    }

    /// Opens the circuit until an administrator closes it. It has no effect if an administrator holds the circuit open
    /// already.
    pub fn open(&mut self, now: Timestamp) -> Option<Change> {
        self.follow_back(now);
        let held = matches!(self.state, State::Held { .. });
        (!held).then(|| self.enter(State::Held { since: now }, "opened by an administrator".into()))
    }

    /// Makes the oracle healthy, regardless of its status, and ends a wait that it requested.
    pub fn close(&mut self) -> Option<Change> {
        if self.quota_wait_until.take().is_none() && matches!(self.state, State::Healthy) {
            return None;
        }
        self.consecutive_failures = 0;
        Some(self.enter(State::Healthy, "closed by an administrator".into()))
    }

    /// The complete status.
    #[must_use]
    pub fn status(&self) -> HealthStatus {
        let (circuit_opened_at, retry_at) = match self.state {
            State::Healthy | State::Degraded | State::Unhealthy => (None, None),
            State::Open { since } => {
                (Some(since), Some(since.checked_add(self.reset()).unwrap_or(Timestamp::MAX)))
            }
            State::HalfOpen { opened_at, .. } => (Some(opened_at), None),
            State::Held { since } => (Some(since), None),
        };
        let held_open = matches!(self.state, State::Held { .. });
        let is_ahead = |until: &Timestamp| self.seen_at.is_none_or(|seen_at| *until > seen_at);
        let waits_until = self.quota_wait_until.filter(|until| !held_open && is_ahead(until));
        HealthStatus {
            oracle_id: self.oracle_id.clone(),
            status: self.shown(),
            last_success_at: self.last_success_at,
            last_failure_at: self.last_failure_at,
            consecutive_failures: self.consecutive_failures,
            latency_p50_ms: self.latencies.percentile(50),
            latency_p99_ms: self.latencies.percentile(99),
            circuit_opened_at,
            retry_at: retry_at.max(waits_until),
            held_open,
            last_error: self.last_error.clone(),
        }
    }

    /// Stores the oracle's error message, and returns the stored part.
    fn note_error(&mut self, now: Timestamp, error: String) -> String {
        let error: String = error.chars().take(ERROR_MAX_CHARS).collect();
        self.last_failure_at = Some(now);
        self.last_error = Some(error.clone());
        error
    }

    /// Counts a success of a call that decides.
    fn succeeded(&mut self) -> Option<Change> {
        self.successes = self.successes.saturating_add(1);
        let recovered = self.successes >= self.config.recovery_threshold.get();
        if !recovered || matches!(self.state, State::Healthy) {
            return None;
        }
        let cause = format!("{} in a row", counted(self.successes, "success", "successes"));
        Some(self.enter(State::Healthy, cause))
    }

    /// Counts a failure of a call that decides.
    fn failed(&mut self, now: Timestamp, error: &str) -> Option<Change> {
        self.successes = 0;
        let enough = self.consecutive_failures >= self.config.failure_threshold.get();
        let row = counted(self.consecutive_failures, "failure", "failures");
        match self.state {
            State::HalfOpen { .. } => {
                Some(self.enter(State::Open { since: now }, format!("the call let through failed: {error}")))
            }
            State::Healthy | State::Degraded if enough => {
                let broken = self.config.circuit_breaker_enabled;
                let state = if broken { State::Open { since: now } } else { State::Unhealthy };
                Some(self.enter(state, format!("{row} in a row, the last: {error}")))
            }
            State::Healthy => Some(self.enter(State::Degraded, format!("a failure: {error}"))),
            State::Degraded | State::Unhealthy | State::Open { .. } | State::Held { .. } => None,
        }
    }

    /// Whether the outcome of the call with this permit changes the state: always while the circuit is closed, only for
    /// the permitted call while it is half open, and never while it is open. The half-open circuit can then permit
    /// another call.
    fn hand_back(&mut self, permit: Permit) -> bool {
        match &mut self.state {
            State::Healthy | State::Degraded | State::Unhealthy => true,
            State::Open { .. } | State::Held { .. } => false,
            State::HalfOpen { trial, .. } => trial.take_if(|(trial, _)| *trial == permit).is_some(),
        }
    }

    fn enter(&mut self, state: State, cause: String) -> Change {
        let from = self.shown();
        self.state = state;
        self.calls_fail &= !matches!(state, State::Healthy);
        Change { from, to: self.shown(), cause, consecutive_failures: self.consecutive_failures }
    }

    const fn shown(&self) -> Status {
        match self.state {
            State::Healthy => Status::Healthy,
            State::Degraded => Status::Degraded,
            State::Unhealthy | State::HalfOpen { .. } => Status::Unhealthy,
            State::Open { .. } | State::Held { .. } => Status::CircuitOpen,
        }
    }

    const fn issue(&mut self, probes: bool) -> Permit {
        self.permits = self.permits.wrapping_add(1);
        Permit { number: self.permits, probes }
    }

    /// If the clock has jumped back, moves the reference times back by the same amount.
    fn follow_back(&mut self, now: Timestamp) {
        let jump = self.seen_at.map_or(SignedDuration::ZERO, |seen_at| seen_at.duration_since(now));
        self.seen_at = Some(now);
        if !jump.is_positive() {
            return;
        }
        let counted_from = match &mut self.state {
            State::Open { since } | State::HalfOpen { trial: Some((_, since)), .. } => Some(since),
            _ => None,
        };
        for at in counted_from.into_iter().chain(&mut self.probed_at).chain(&mut self.quota_wait_until) {
            *at = at.checked_sub(jump).unwrap_or(Timestamp::MIN);
        }
    }

    fn reset(&self) -> SignedDuration {
        seconds(self.config.circuit_breaker_reset_seconds)
    }
}

fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests;
