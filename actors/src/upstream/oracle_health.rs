//! The health of the oracles: permits for calls, probes, and circuits.
//!
//! The state machine of each oracle is in `domain`. A caller requests a [`Lease`] before it calls an oracle, and reports
//! the outcome of the call through it. In addition, each oracle is probed at its interval. A change of status is logged in
//! the background. An administrator's action is committed before it takes effect.

mod error;
mod lease;
mod quota;

pub use error::{PermitError, SteerError, UnknownOracle};
pub use lease::Lease;
use oracled_domain::verdict::health::CircuitAction;
pub use quota::QuotaWait;

use crate::audit::logger::Log;
use crate::platform::clock::Clock;
use crate::platform::door::NoAnswer;
use crate::upstream::BoxFuture;
use actix::{
    Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised,
};
use jiff::Timestamp;
use oracled_domain::verdict::health::{
    self, Change, ERROR_MAX_CHARS, Health, HealthConfig, HealthStatus, Outcome, Refused,
};
use oracled_domain::{Event, EventKind, OracleId, Peer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Interval between checks for elapsed circuit timeouts and due probes.
const TICK: Duration = Duration::from_secs(1);
/// Timeout of a probe; a probe that takes longer has failed.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// Checks whether an oracle is able to serve calls, without making a real call.
pub trait Probe: fmt::Debug + Send + Sync {
    /// Probes the oracle once. A success means that it can serve calls. A failure means that it did not answer, or that its
    /// answer reports a fault; 200 characters of the reason are kept. Neutral means that it answered with an unrelated
    /// reply. The future is dropped after 5 s.
    fn probe(&self) -> BoxFuture<'_, Outcome>;
}

/// An oracle whose health is tracked.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Name of the oracle; unique.
    pub id: OracleId,
    /// Thresholds and intervals.
    pub config: HealthConfig,
    /// Its probe, if it can be probed.
    pub probe: Option<Arc<dyn Probe>>,
}

/// Requests a permit to call an oracle.
#[derive(Debug, Message)]
#[rtype(result = "Result<Lease, PermitError>")]
pub struct Permit(pub OracleId);

/// Adds an oracle if it is not tracked yet. A tracked oracle is unchanged.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Watch(pub Oracle);

/// Returns the status of each oracle, sorted by name.
#[derive(Debug, Message)]
#[rtype(result = "Vec<HealthStatus>")]
pub struct Statuses;

/// Applies an administrator's action to a circuit. The log entry is durable before the action takes effect. An action that
/// changes nothing is not logged.
#[derive(Debug, Message)]
#[rtype(result = "Result<Steered, SteerError>")]
pub struct Steer {
    /// The oracle.
    pub oracle_id: OracleId,
    /// The action.
    pub action: CircuitAction,
    /// The administrator.
    pub peer: Peer,
}

/// The result of an administrator's action.
#[derive(Debug)]
pub struct Steered {
    /// The status of the oracle after the action.
    pub status: HealthStatus,
    /// The outcome of the probe, if the action was a probe.
    pub probe: Option<Outcome>,
}

/// The outcome of a call.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Report {
    oracle_id: OracleId,
    permit: health::Permit,
    outcome: Outcome,
}

/// Applies a committed action to the oracle's current state, and returns its status.
#[derive(Debug, Message)]
#[rtype(result = "Result<HealthStatus, UnknownOracle>")]
struct Settle {
    oracle_id: OracleId,
    action: CircuitAction,
}

#[derive(Debug)]
struct Watched {
    health: Health,
    probe: Option<Arc<dyn Probe>>,
    /// Held while a probe is running.
    turn: Arc<Semaphore>,
}

impl Watched {
    fn new(Oracle { id, config, probe }: Oracle) -> Self {
        Self { health: Health::new(id, config), probe, turn: Arc::new(Semaphore::new(1)) }
    }
}

/// The actor. Its state survives a panic.
#[derive(Debug)]
pub struct OracleHealth {
    oracles: BTreeMap<OracleId, Watched>,
    log: Log,
    clock: Clock,
}

impl OracleHealth {
    pub(crate) fn new(oracles: Vec<Oracle>, log: Log, clock: Clock) -> Self {
        let watched = oracles.into_iter().map(|oracle| (oracle.id.clone(), Watched::new(oracle)));
        Self { oracles: watched.collect(), log, clock }
    }

    /// The oracle, with its state advanced to `now`.
    fn at(&mut self, oracle_id: &OracleId, now: Timestamp) -> Result<&mut Watched, UnknownOracle> {
        let Self { oracles, log, .. } = self;
        if !oracles.contains_key(oracle_id) {
            let known = oracles.keys().cloned().collect();
            return Err(UnknownOracle { oracle_id: oracle_id.clone(), known });
        }
        let watched = oracles.get_mut(oracle_id).expect("the oracle was found above");
        tell(log, oracle_id, watched.health.pass(now), now);
        Ok(watched)
    }

    /// Advances all circuits to the current time, and starts the probes that are due.
    fn tick(&mut self, me: &Addr<Self>) {
        let now = self.clock.now();
        for (oracle_id, watched) in &mut self.oracles {
            tell(&self.log, oracle_id, watched.health.pass(now), now);
            let Some(probe) = watched.probe.clone() else { continue };
            let Ok(turn) = Arc::clone(&watched.turn).try_acquire_owned() else { continue };
            let Some(permit) = watched.health.probe(now) else { continue };
            let lease = Lease::new(oracle_id.clone(), permit, false, me.clone());
            actix_rt::spawn(probed(probe, lease, turn));
        }
    }

    /// The log entry of an administrator's action; `None` if the action changes nothing.
    fn ordered(&mut self, steer: &Steer, now: Timestamp) -> Result<Option<Event>, UnknownOracle> {
        let Steer { oracle_id, action, peer } = steer;
        let mut foreseen = self.at(oracle_id, now)?.health.clone();
        let change = match action {
            CircuitAction::Open => foreseen.open(now),
            CircuitAction::Close => foreseen.close(),
            CircuitAction::Probe => {
                let (action, detail) = ("probe_oracle".to_owned(), oracle_id.to_string());
                let peer = Some(*peer);
                return Ok(Some(Event::new(now, None, EventKind::ControlAction { action, detail, peer })));
            }
        };
        Ok(change.map(|change| entry(oracle_id.clone(), change, Some(*peer), now)))
    }

    /// The probe, the lease and the permit for a probe that an administrator requested.
    fn probe_now(
        &mut self,
        oracle_id: &OracleId,
        now: Timestamp,
        me: Addr<Self>,
    ) -> Result<Probing, SteerError> {
        let watched = self.at(oracle_id, now)?;
        let probe = watched.probe.clone().ok_or_else(|| SteerError::NoProbe(oracle_id.clone()))?;
        let turn = Arc::clone(&watched.turn).try_acquire_owned();
        let turn = turn.map_err(|_| SteerError::Probing(oracle_id.clone()))?;
        let permit = watched.health.probe_now(now);
        Ok((probe, Lease::new(oracle_id.clone(), permit, false, me), turn))
    }
}

/// A probe, its lease, and the permit that prevents parallel probes of the oracle.
type Probing = (Arc<dyn Probe>, Lease, OwnedSemaphorePermit);

fn entry(oracle_id: OracleId, change: Change, peer: Option<Peer>, timestamp: Timestamp) -> Event {
    let Change { from, to, cause, consecutive_failures } = change;
    Event::new(
        timestamp,
        None,
        EventKind::OracleHealthChanged { oracle_id, from, to, cause, consecutive_failures, peer },
    )
}

/// Logs a change of status in the background.
fn tell(log: &Log, oracle_id: &OracleId, change: Option<Change>, now: Timestamp) {
    let Some(change) = change else { return };
    let (from, to) = (change.from.into_str(), change.to.into_str());
    tracing::warn!(%oracle_id, from, to, cause = change.cause, "oracle health changed");
    let (log, entry) = (log.clone(), entry(oracle_id.clone(), change, None, now));
    // tasks are polled in the order of spawning, and each sends to the logger at its first poll: entries keep their order
    actix_rt::spawn(async move {
        if let Err(error) = log.commit(entry.into()).await {
            tracing::error!(%error, "could not log a change of oracle health");
        }
    });
}

/// Runs a probe within its timeout, and reports its outcome.
async fn probed(probe: Arc<dyn Probe>, lease: Lease, turn: OwnedSemaphorePermit) -> Outcome {
    let late = |_| Outcome::Failure(format!("the probe took longer than {PROBE_MAX:?}"));
    let ended = match timeout(PROBE_MAX, probe.probe()).await.unwrap_or_else(late) {
        Outcome::Failure(error) => Outcome::Failure(error.chars().take(ERROR_MAX_CHARS).collect()),
        ended => ended,
    };
    lease.report(ended.clone());
    drop(turn);
    ended
}

impl Actor for OracleHealth {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(TICK, |oracle_health, ctx| oracle_health.tick(&ctx.address()));
    }
}

impl Supervised for OracleHealth {}

impl Handler<Permit> for OracleHealth {
    type Result = Result<Lease, PermitError>;

    fn handle(&mut self, Permit(oracle_id): Permit, ctx: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        let health = &mut self.at(&oracle_id, now)?.health;
        match health.permit(now) {
            Ok(permit) => {
                let trial = health.is_trial(permit);
                Ok(Lease::new(oracle_id, permit, trial, ctx.address()))
            }
            Err(Refused { retry_after: Some(retry_after), is_quota_wait: true }) => {
                Err(PermitError::QuotaWait { oracle_id, retry_after })
            }
            Err(Refused { retry_after, .. }) => Err(PermitError::CircuitOpen { oracle_id, retry_after }),
        }
    }
}

impl Handler<Watch> for OracleHealth {
    type Result = ();

    fn handle(&mut self, Watch(oracle): Watch, _: &mut Context<Self>) {
        self.oracles.entry(oracle.id.clone()).or_insert_with(|| Watched::new(oracle));
    }
}

impl Handler<Report> for OracleHealth {
    type Result = ();

    fn handle(&mut self, Report { oracle_id, permit, outcome }: Report, _: &mut Context<Self>) {
        let now = self.clock.now();
        // a lease always names a tracked oracle
        let Ok(watched) = self.at(&oracle_id, now) else { return };
        let change = watched.health.report(now, permit, outcome);
        tell(&self.log, &oracle_id, change, now);
    }
}

impl Handler<Statuses> for OracleHealth {
    type Result = MessageResult<Statuses>;

    fn handle(&mut self, _: Statuses, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        let statuses = self.oracles.iter_mut().map(|(oracle_id, watched)| {
            tell(&self.log, oracle_id, watched.health.pass(now), now);
            watched.health.status()
        });
        MessageResult(statuses.collect())
    }
}

impl Handler<Steer> for OracleHealth {
    type Result = ResponseFuture<Result<Steered, SteerError>>;

    fn handle(&mut self, message: Steer, ctx: &mut Context<Self>) -> Self::Result {
        let (now, me, log) = (self.clock.now(), ctx.address(), self.log.clone());
        let probe = (message.action == CircuitAction::Probe)
            .then(|| self.probe_now(&message.oracle_id, now, me.clone()))
            .transpose();
        let ordered = self.ordered(&message, now);
        Box::pin(async move {
            let (probe, ordered) = (probe?, ordered?);
            if let Some(entry) = ordered {
                log.commit(entry.into()).await?;
            }
            let probe = match probe {
                Some((probe, lease, turn)) => Some(probed(probe, lease, turn).await),
                None => None,
            };
            let Steer { oracle_id, action, .. } = message;
            let settled = me.send(Settle { oracle_id, action }).await;
            let status = settled.map_err(|_| NoAnswer::Failed { actor: "oracle_health" })??;
            Ok(Steered { status, probe })
        })
    }
}

impl Handler<Settle> for OracleHealth {
    type Result = Result<HealthStatus, UnknownOracle>;

    fn handle(&mut self, Settle { oracle_id, action }: Settle, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        let health = &mut self.at(&oracle_id, now)?.health;
        // the log entry is already committed
        let change = match action {
            CircuitAction::Open => health.open(now),
            CircuitAction::Close => health.close(),
            CircuitAction::Probe => None,
        };
        let status = health.status();
        if let Some(Change { to, .. }) = change {
            tracing::warn!(%oracle_id, to = to.into_str(), "administrator changed an oracle's circuit");
        }
        Ok(status)
    }
}

crate::platform::door::asked_through_a_door!(OracleHealth);

#[cfg(test)]
mod tests;
