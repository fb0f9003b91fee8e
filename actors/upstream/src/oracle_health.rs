//! The health of the oracles: permits for calls, probes, and circuits.
//!
//! The state machine of each oracle is in `domain`. A caller requests a [`CallLease`] before it calls an
//! oracle, and reports the outcome of the call through it. In addition, each oracle is probed at its
//! interval. A change of status is logged in the background. An administrator's action is committed before it
//! takes effect.

use crate::BoxFuture;
use actix::{
    Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised,
};
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::ActorCallError;
use actors_platform::clock::Clock;
use domain_audit::event::ControlAction;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_upstream::event::OracleHealthChanged;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::{
    self, CallPurpose, CircuitAction, CircuitBreaker, CircuitCallOutcome, HealthStatusChange,
    OracleHealthConfig, OracleHealthStatus, PermitDenial, PermitDenialCause,
};
use domain_upstream::upstream_id::UpstreamId;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Interval between checks for elapsed circuit timeouts and due probes.
pub const TICK: Duration = Duration::from_secs(1);
/// Timeout of a probe; a probe that takes longer has failed.
pub const PROBE_MAX: Duration = Duration::from_secs(5);

/// Checks whether an oracle is able to serve calls, without making a real call.
pub trait OracleProbe: fmt::Debug + Send + Sync {
    /// Probes the oracle once. A success means that it can serve calls. A failure means that it did not
    /// answer, or that its answer reports a fault. Neutral means that it answered with an unrelated reply. The
    /// future is dropped after 5 s.
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome>;
}

/// An oracle whose health is tracked.
#[derive(Debug, Clone)]
pub struct MonitoredOracle {
    /// Name of the oracle; unique.
    pub id: UpstreamId,
    /// Thresholds and intervals.
    pub config: OracleHealthConfig,
    /// Its probe, if it can be probed.
    pub probe: Option<Arc<dyn OracleProbe>>,
}

/// No oracle has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no oracle `{oracle_id}`; known: {}", names(.known))]
pub struct UnknownOracle {
    /// The requested name.
    pub oracle_id: UpstreamId,
    /// The names of all oracles.
    pub known: Vec<UpstreamId>,
}

fn names(known: &[UpstreamId]) -> String {
    let names: Vec<_> = known.iter().map(UpstreamId::as_str).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Why an oracle may not be called now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// No oracle has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    #[error("the circuit of the oracle `{oracle_id}` is open")]
    CircuitOpen {
        oracle_id: UpstreamId,
        /// Time until the next permitted call; `None` if an administrator must close the circuit.
        retry_after: Option<Duration>,
    },
    /// The oracle requested a wait that is not over.
    #[error("the oracle `{oracle_id}` requested a wait; calls are allowed again in {} s", .retry_after.as_secs_f64().ceil())]
    RequestedWait {
        oracle_id: UpstreamId,
        /// Time until calls are permitted again.
        retry_after: Duration,
    },
    /// The oracle rejects every call.
    #[error(
        "the oracle `{oracle_id}` has refused every call since {since:.0}; an operator checks its key, its credit and its name \
         (`oraclectl health`)"
    )]
    Refusing {
        oracle_id: UpstreamId,
        since: Timestamp,
        /// Whether a call that may succeed is in progress.
        is_being_tried: bool,
        /// Time until the next permitted call.
        retry_after: Duration,
    },
}

impl PermitError {
    /// The time until the next permitted call; `None` if an administrator must act first.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unknown(_) => None,
            Self::CircuitOpen { retry_after, .. } => *retry_after,
            Self::RequestedWait { retry_after, .. } | Self::Refusing { retry_after, .. } => {
                Some(*retry_after)
            }
        }
    }
}

/// Why an administrator's action failed. Nothing has changed, except possibly after `ActorCallError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CircuitActionError {
    /// No oracle has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    #[error("the oracle `{0}` has no probe")]
    NoProbe(UpstreamId),
    /// Another probe of the oracle is running.
    #[error("the oracle `{0}` is being probed already")]
    Probing(UpstreamId),
    /// The log entry could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The actor failed in between. The log contains the intended action.
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
}

#[derive(Debug, Message)]
#[rtype(result = "Result<CallLease, PermitError>")]
pub struct RequestCallPermit(pub UpstreamId);

/// Requests the permit of a call of a model for a first verdict, which another model can make.
#[derive(Debug, Message)]
#[rtype(result = "Result<CallLease, PermitError>")]
pub struct RequestFirstPermit {
    pub oracle_id: UpstreamId,
    /// Whether it is for the last attempt of an order, which overrides a requested wait.
    pub is_last: bool,
}

/// Adds an oracle if it is not tracked yet. A tracked oracle is unchanged.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AddMonitoredOracle(pub MonitoredOracle);

/// Returns the status of each oracle, sorted by name.
#[derive(Debug, Message)]
#[rtype(result = "Vec<OracleHealthStatus>")]
pub struct ListHealthStatuses;

/// Applies an administrator's action to a circuit. The log entry is durable before the action takes effect.
/// An action that changes nothing is not logged.
#[derive(Debug, Message)]
#[rtype(result = "Result<CircuitActionOutcome, CircuitActionError>")]
pub struct ApplyCircuitAction {
    pub oracle_id: UpstreamId,
    pub action: CircuitAction,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// The result of an administrator's action.
#[derive(Debug)]
pub struct CircuitActionOutcome {
    /// The status of the oracle after the action.
    pub status: OracleHealthStatus,
    /// The outcome of the probe, if the action was a probe.
    pub probe: Option<CircuitCallOutcome>,
}

#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportCallOutcome {
    oracle_id: UpstreamId,
    permit: health::CircuitPermit,
    outcome: CircuitCallOutcome,
    session_id: Option<SessionId>,
}

/// Applies a committed action to the oracle's current state, and returns its status.
#[derive(Debug, Message)]
#[rtype(result = "Result<OracleHealthStatus, UnknownOracle>")]
struct ApplyCommittedAction {
    oracle_id: UpstreamId,
    action: CircuitAction,
}

#[derive(Debug)]
struct OracleMonitorState {
    health: CircuitBreaker,
    probe: Option<Arc<dyn OracleProbe>>,
    /// Held while a probe is running.
    probe_slot: Arc<Semaphore>,
}

impl OracleMonitorState {
    fn new(MonitoredOracle { id, config, probe }: MonitoredOracle) -> Self {
        Self { health: CircuitBreaker::new(id, config), probe, probe_slot: Arc::new(Semaphore::new(1)) }
    }
}

/// The permit for one call. Dropping it without a report counts as a neutral outcome.
#[derive(Debug)]
#[must_use = "a lease is for one call, and its outcome is to be reported"]
pub struct CallLease {
    oracle_id: UpstreamId,
    permit: health::CircuitPermit,
    outcome: CircuitCallOutcome,
    session_id: Option<SessionId>,
    trial: bool,
    oracle_health: Addr<OracleHealth>,
}

impl CallLease {
    fn new(
        oracle_id: UpstreamId,
        permit: health::CircuitPermit,
        trial: bool,
        oracle_health: Addr<OracleHealth>,
    ) -> Self {
        Self {
            oracle_id,
            permit,
            outcome: CircuitCallOutcome::Neutral,
            session_id: None,
            trial,
            oracle_health,
        }
    }

    /// Whether the call is the trial call of a half-open circuit. A caller that cannot afford a failed call
    /// may probe the oracle instead, and report that outcome.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        self.trial
    }

    pub fn report(mut self, outcome: CircuitCallOutcome) {
        self.outcome = outcome;
    }

    /// As [`Self::report`], for a call of a session. If the outcome changes the health, the entry names the session, which has the
    /// texts of the oracle.
    pub fn report_for(mut self, session_id: Option<SessionId>, outcome: CircuitCallOutcome) {
        self.session_id = session_id;
        self.outcome = outcome;
    }
}

impl Drop for CallLease {
    fn drop(&mut self) {
        let (oracle_id, permit) = (self.oracle_id.clone(), self.permit);
        let (outcome, session_id) = (self.outcome, self.session_id.take());
        // one message per permitted call; if a panic loses it, the expiry of the permit makes up for it
        self.oracle_health.do_send(ReportCallOutcome { oracle_id, permit, outcome, session_id });
    }
}

/// The actor. Its state survives a panic.
#[derive(Debug)]
pub struct OracleHealth {
    oracles: BTreeMap<UpstreamId, OracleMonitorState>,
    log: LoggerHandle,
    clock: Clock,
}

impl OracleHealth {
    pub fn new(oracles: Vec<MonitoredOracle>, log: LoggerHandle, clock: Clock) -> Self {
        let watched = oracles.into_iter().map(|oracle| (oracle.id.clone(), OracleMonitorState::new(oracle)));
        Self { oracles: watched.collect(), log, clock }
    }

    /// The oracle, with its state advanced to `now`.
    fn oracle_at(
        &mut self,
        oracle_id: &UpstreamId,
        now: Timestamp,
    ) -> Result<&mut OracleMonitorState, UnknownOracle> {
        let Self { oracles, log, .. } = self;
        if !oracles.contains_key(oracle_id) {
            let known = oracles.keys().cloned().collect();
            return Err(UnknownOracle { oracle_id: oracle_id.clone(), known });
        }
        let watched = oracles.get_mut(oracle_id).expect("the oracle was found above");
        log_status_change(log, oracle_id, watched.health.advance_time(now), None, now);
        Ok(watched)
    }

    fn permit(
        &mut self,
        oracle_id: UpstreamId,
        purpose: CallPurpose,
        ctx: &Context<Self>,
    ) -> Result<CallLease, PermitError> {
        let now = self.clock.now();
        let health = &mut self.oracle_at(&oracle_id, now)?.health;
        let PermitDenial { retry_after, cause } = match health.permit(now, purpose) {
            Ok(permit) => {
                let trial = health.is_trial(permit);
                return Ok(CallLease::new(oracle_id, permit, trial, ctx.address()));
            }
            Err(denial) => denial,
        };
        Err(match (cause, retry_after) {
            (PermitDenialCause::RequestedWait, Some(retry_after)) => {
                PermitError::RequestedWait { oracle_id, retry_after }
            }
            (PermitDenialCause::Refusing { since, is_being_tried }, Some(retry_after)) => {
                PermitError::Refusing { oracle_id, since, is_being_tried, retry_after }
            }
            (_, retry_after) => PermitError::CircuitOpen { oracle_id, retry_after },
        })
    }

    /// Advances all circuits to the current time, and starts the probes that are due.
    fn tick(&mut self, me: &Addr<Self>) {
        let now = self.clock.now();
        for (oracle_id, watched) in &mut self.oracles {
            log_status_change(&self.log, oracle_id, watched.health.advance_time(now), None, now);
            let Some(probe) = watched.probe.clone() else { continue };
            let Ok(probe_permit) = Arc::clone(&watched.probe_slot).try_acquire_owned() else { continue };
            let Some(permit) = watched.health.probe(now) else { continue };
            let lease = CallLease::new(oracle_id.clone(), permit, false, me.clone());
            actix_rt::spawn(run_probe(probe, lease, probe_permit));
        }
    }

    /// The log entry of an administrator's action; `None` if the action changes nothing.
    fn circuit_action_event(
        &mut self,
        steer: &ApplyCircuitAction,
        now: Timestamp,
    ) -> Result<Option<AuditEvent>, UnknownOracle> {
        let ApplyCircuitAction { oracle_id, action, peer } = steer;
        let mut foreseen = self.oracle_at(oracle_id, now)?.health.clone();
        let change = match action {
            CircuitAction::Open => foreseen.open(now),
            CircuitAction::Close => foreseen.close(),
            CircuitAction::Probe => {
                let (action, detail) = ("probe_oracle".to_owned(), oracle_id.to_string());
                let peer = Some(*peer);
                return Ok(Some(AuditEvent::new(now, None, ControlAction { action, detail, peer })));
            }
        };
        Ok(change.map(|change| status_change_event(oracle_id.clone(), change, (Some(*peer), None), now)))
    }

    /// The probe, the lease and the permit for a probe that an administrator requested.
    fn probe_now(
        &mut self,
        oracle_id: &UpstreamId,
        now: Timestamp,
        me: Addr<Self>,
    ) -> Result<PermittedProbe, CircuitActionError> {
        let watched = self.oracle_at(oracle_id, now)?;
        let probe = watched.probe.clone().ok_or_else(|| CircuitActionError::NoProbe(oracle_id.clone()))?;
        let probe_permit = Arc::clone(&watched.probe_slot).try_acquire_owned();
        let probe_permit = probe_permit.map_err(|_| CircuitActionError::Probing(oracle_id.clone()))?;
        let permit = watched.health.probe_now(now);
        Ok((probe, CallLease::new(oracle_id.clone(), permit, false, me), probe_permit))
    }
}

/// A probe, its lease, and the permit that prevents parallel probes of the oracle.
type PermittedProbe = (Arc<dyn OracleProbe>, CallLease, OwnedSemaphorePermit);

fn status_change_event(
    oracle_id: UpstreamId,
    change: HealthStatusChange,
    (peer, session_id): (Option<PeerCredentials>, Option<SessionId>),
    timestamp: Timestamp,
) -> AuditEvent {
    let HealthStatusChange { from, to, cause, consecutive_failures, was_open } = change;
    AuditEvent::new(
        timestamp,
        session_id,
        OracleHealthChanged { oracle_id, from, to, cause, consecutive_failures, peer, was_open },
    )
}

/// Logs a change of status in the background.
fn log_status_change(
    log: &LoggerHandle,
    oracle_id: &UpstreamId,
    change: Option<HealthStatusChange>,
    session_id: Option<SessionId>,
    now: Timestamp,
) {
    let Some(change) = change else { return };
    let (from, to) = (change.from.into_str(), change.to.into_str());
    tracing::warn!(%oracle_id, from, to, cause = change.cause, "oracle health changed");
    let (log, entry) = (log.clone(), status_change_event(oracle_id.clone(), change, (None, session_id), now));
    // tasks are polled in the order of spawning, and each sends to the logger at its first poll: entries keep
    // their order
    actix_rt::spawn(async move {
        if let Err(error) = log.commit(entry.into()).await {
            tracing::error!(%error, "could not log a change of oracle health");
        }
    });
}

/// Runs a probe within its timeout, and reports its outcome.
async fn run_probe(
    probe: Arc<dyn OracleProbe>,
    lease: CallLease,
    probe_permit: OwnedSemaphorePermit,
) -> CircuitCallOutcome {
    let late = |_| CircuitCallOutcome::Failure(RequestFailureKind::Timeout);
    let ended = timeout(PROBE_MAX, probe.probe()).await.unwrap_or_else(late);
    lease.report(ended);
    drop(probe_permit);
    ended
}

impl Actor for OracleHealth {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(TICK, |oracle_health, ctx| oracle_health.tick(&ctx.address()));
    }
}

impl Supervised for OracleHealth {}

impl Handler<RequestCallPermit> for OracleHealth {
    type Result = Result<CallLease, PermitError>;

    fn handle(
        &mut self,
        RequestCallPermit(oracle_id): RequestCallPermit,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        self.permit(oracle_id, CallPurpose::Other, ctx)
    }
}

impl Handler<RequestFirstPermit> for OracleHealth {
    type Result = Result<CallLease, PermitError>;

    fn handle(&mut self, request: RequestFirstPermit, ctx: &mut Context<Self>) -> Self::Result {
        let purpose = if request.is_last { CallPurpose::LastAttempt } else { CallPurpose::FirstVerdict };
        self.permit(request.oracle_id, purpose, ctx)
    }
}

impl Handler<AddMonitoredOracle> for OracleHealth {
    type Result = ();

    fn handle(&mut self, AddMonitoredOracle(oracle): AddMonitoredOracle, _: &mut Context<Self>) {
        self.oracles.entry(oracle.id.clone()).or_insert_with(|| OracleMonitorState::new(oracle));
    }
}

impl Handler<ReportCallOutcome> for OracleHealth {
    type Result = ();

    fn handle(
        &mut self,
        ReportCallOutcome { oracle_id, permit, outcome, session_id }: ReportCallOutcome,
        _: &mut Context<Self>,
    ) {
        let now = self.clock.now();
        // a lease always names a tracked oracle
        let Ok(watched) = self.oracle_at(&oracle_id, now) else { return };
        let change = watched.health.report(now, permit, outcome);
        log_status_change(&self.log, &oracle_id, change, session_id, now);
    }
}

/// Blocks all calls of an oracle that requested a wait.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ApplyRequestedWait {
    pub oracle_id: UpstreamId,
    /// How long no call is permitted.
    pub wait: Duration,
}

impl Handler<ApplyRequestedWait> for OracleHealth {
    type Result = ();

    fn handle(&mut self, ApplyRequestedWait { oracle_id, wait }: ApplyRequestedWait, _: &mut Context<Self>) {
        let now = self.clock.now();
        // a call has a lease, and a lease names an oracle that exists
        let Ok(watched) = self.oracle_at(&oracle_id, now) else { return };
        watched.health.note_requested_wait(now, wait);
        tracing::warn!(%oracle_id, wait_s = wait.as_secs(), "oracle requested a wait");
    }
}

impl Handler<ListHealthStatuses> for OracleHealth {
    type Result = MessageResult<ListHealthStatuses>;

    fn handle(&mut self, _: ListHealthStatuses, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        let statuses = self.oracles.iter_mut().map(|(oracle_id, watched)| {
            log_status_change(&self.log, oracle_id, watched.health.advance_time(now), None, now);
            watched.health.status()
        });
        MessageResult(statuses.collect())
    }
}

impl Handler<ApplyCircuitAction> for OracleHealth {
    type Result = ResponseFuture<Result<CircuitActionOutcome, CircuitActionError>>;

    fn handle(&mut self, message: ApplyCircuitAction, ctx: &mut Context<Self>) -> Self::Result {
        let (now, me, log) = (self.clock.now(), ctx.address(), self.log.clone());
        let probe = (message.action == CircuitAction::Probe)
            .then(|| self.probe_now(&message.oracle_id, now, me.clone()))
            .transpose();
        let ordered = self.circuit_action_event(&message, now);
        Box::pin(async move {
            let (probe, ordered) = (probe?, ordered?);
            if let Some(entry) = ordered {
                log.commit(entry.into()).await?;
            }
            let probe = match probe {
                Some((probe, lease, probe_permit)) => Some(run_probe(probe, lease, probe_permit).await),
                None => None,
            };
            let ApplyCircuitAction { oracle_id, action, .. } = message;
            let settled = me.send(ApplyCommittedAction { oracle_id, action }).await;
            let status = settled.map_err(|_| ActorCallError::Failed { actor: "oracle_health" })??;
            Ok(CircuitActionOutcome { status, probe })
        })
    }
}

impl Handler<ApplyCommittedAction> for OracleHealth {
    type Result = Result<OracleHealthStatus, UnknownOracle>;

    fn handle(
        &mut self,
        ApplyCommittedAction { oracle_id, action }: ApplyCommittedAction,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let now = self.clock.now();
        let health = &mut self.oracle_at(&oracle_id, now)?.health;
        // the log entry is already committed
        let change = match action {
            CircuitAction::Open => health.open(now),
            CircuitAction::Close => health.close(),
            CircuitAction::Probe => None,
        };
        let status = health.status();
        if let Some(HealthStatusChange { to, .. }) = change {
            tracing::warn!(%oracle_id, to = to.into_str(), "administrator changed an oracle's circuit");
        }
        Ok(status)
    }
}

actors_platform::handle_actor_calls!(OracleHealth);
