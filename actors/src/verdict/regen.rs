//! Generation of verdicts: first verdicts at a route's request, and regeneration of lost ones when they are read.
//!
//! A generation in progress is a *flight*. It is a separate task, so that a disconnecting caller does not cancel it. A
//! session has at most one flight. Callers with the same request share its model call and its answer; callers with another
//! request wait until it has ended. Only a read that finds no verdict starts a regeneration (seed: `regen-consistency`,
//! invariant 6).

mod flight;
mod model;
mod outcome;

pub use flight::{Failed, Landed};
pub use model::AskedModel;

use crate::audit::logger::Log;
use crate::platform::caller::{carried, uid};
use crate::platform::clock::Clock;
use crate::platform::door::{Called, Door, NoAnswer};
use crate::platform::metrics::Metrics;
use crate::upstream::oracle_health::OracleHealth;
use crate::verdict::cache::{Cache, Find, Known};
use crate::verdict::crosscheck::Crosscheck;
use crate::verdict::rate_limiter::RateLimiter;
use crate::verdict::submission::{Submission, SubmissionOutcome};
use actix::{
    Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised,
};
use flight::Pilot;
use oracled_domain::audit::event::EventSeverity;
use oracled_domain::rules::Check;
use oracled_domain::verdict::divergence::{VARIANCE_THRESHOLD, VARIANCE_WINDOW, Variance, VarianceWatch};
use oracled_domain::{DivergenceCheck, Event, EventKind, Query, SessionId, Tier};
use oracled_store::{LogQuery, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Maximum number of log entries that are read to restore the variance watch after a restart.
const REMEMBERED_MAX: usize = 100_000;

/// Generates a first verdict and delivers it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Landed")]
pub struct Deliver(pub Submission);

/// Reads a verdict that is not in the cache: regenerates it if its session is known.
#[derive(Debug, Message)]
#[rtype(result = "Landed")]
pub struct Read(pub SessionId);

/// Returns how often regenerated verdicts differ from the delivered ones.
#[derive(Debug, Message)]
#[rtype(result = "Variance")]
pub struct AskVariance;

/// Waits until all flights that are in progress now have ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rest;

/// Adds a regeneration to the variance watch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Note(DivergenceCheck);

/// Removes a flight that has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Clear(SessionId);

/// The actor.
#[derive(Debug)]
pub struct Regen {
    pilot: Arc<Pilot>,
    cache: Door<Cache>,
    log: Log,
    flights: HashMap<SessionId, Flight>,
    variance: VarianceWatch,
}

/// The generation in progress for a session.
#[derive(Debug, Clone)]
struct Flight {
    errand: Errand,
    landed: watch::Receiver<Option<Landed>>,
}

/// The request that a flight serves.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Errand {
    Read,
    /// `uid` is part of the errand: a stored refusal applies only to its own user id.
    Deliver {
        tier: Tier,
        query: Query,
        check: Option<Arc<Check>>,
        uid: Option<u32>,
    },
}

impl Flight {
    /// Waits for the flight's result.
    async fn landed(mut self) -> Landed {
        let landed = self.landed.wait_for(Option::is_some).await.ok().and_then(|landed| landed.clone());
        landed.unwrap_or_else(|| Err(Arc::new(Failed::Crashed)))
    }
}

/// The actors that this actor calls.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) rate_limiter: Door<RateLimiter>,
    pub(crate) oracle_health: Door<OracleHealth>,
    pub(crate) crosscheck: Door<Crosscheck>,
    pub(crate) cache: Door<Cache>,
    pub(crate) log: Log,
}

impl Regen {
    pub(crate) fn new(
        model: Option<AskedModel>,
        doors: Doors,
        store: Store,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let (cache, log) = (doors.cache.clone(), doors.log.clone());
        let pilot = Arc::new(Pilot { model, doors, store, clock, metrics });
        Self { pilot, cache, log, flights: HashMap::new(), variance: VarianceWatch::default() }
    }

    /// The session's flight that is still in progress.
    fn under_way(&self, session_id: &SessionId) -> Option<Flight> {
        let flight = self.flights.get(session_id)?;
        // the task has ended once its sender is dropped, either with a result or after a panic
        let flies = flight.landed.borrow().is_none() && flight.landed.has_changed().is_ok();
        flies.then(|| flight.clone())
    }

    fn take_off(
        &mut self,
        session_id: SessionId,
        errand: Errand,
        flight: impl Future<Output = Landed> + 'static,
        ctx: &Context<Self>,
    ) -> Flight {
        let (sender, landed) = watch::channel(None);
        let (tower, id) = (ctx.address(), session_id.clone());
        let new = Flight { errand, landed };
        self.flights.insert(session_id, new.clone());
        actix_rt::spawn(carried(async move {
            let landed = flight.await;
            if let Ok(SubmissionOutcome::Regenerated(_, check)) = &landed {
                tower.do_send(Note(check.clone()));
            }
            sender.send_replace(Some(landed));
            drop(sender);
            // if this message is lost, the next flight of the session replaces the entry
            tower.do_send(Clear(id));
        }));
        new
    }

    /// Logs that regenerated verdicts differ too often.
    fn escalate(&self, variance: Variance) {
        tracing::warn!(?variance, "regenerated verdicts differ from what was delivered");
        let (log, timestamp) = (self.log.clone(), self.pilot.clock.now());
        let escalation = Event::new(
            timestamp,
            None,
            EventKind::InfrastructureVariance {
                variance,
                threshold: VARIANCE_THRESHOLD,
                level: EventSeverity::Escalation,
            },
        );
        // if the commit fails, the entry is in the service log, and the watch still reports the variance
        actix_rt::spawn(async move { drop(log.commit(escalation.into()).await) });
    }
}

/// Restores the variance watch from the log after a restart, with the latest regenerations that it counts. The flag is true
/// if a high variance is not logged yet.
fn remembered(store: &Store) -> Result<(VarianceWatch, bool), StoreError> {
    let newest = |event: &str, limit| LogQuery {
        event: Some(event.to_owned()),
        newest: true,
        limit,
        ..LogQuery::default()
    };
    let mut limit = VARIANCE_WINDOW;
    let (watch, first) = loop {
        let lines = store.log(&newest("regen_divergence_check", limit))?;
        let mut watch = VarianceWatch::default();
        for line in &lines {
            if let Ok(Event { kind: EventKind::RegenDivergenceCheck(check), .. }) =
                serde_json::from_str(&line.json)
            {
                watch.note(&check);
            }
        }
        // regenerations that the watch does not count are skipped, so more entries may be needed
        if watch.is_full() || lines.len() < limit || limit >= REMEMBERED_MAX {
            break (watch, lines.first().map_or(0, |line| line.seq));
        }
        limit *= 10;
    };
    let said = store.log(&newest("infrastructure_variance", 1))?.last().is_some_and(|line| line.seq > first);
    let unsaid = watch.variance().escalated && !said;
    Ok((watch, unsaid))
}

impl Actor for Regen {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        match remembered(&self.pilot.store) {
            Ok((watch, unsaid)) => {
                self.variance = watch;
                if unsaid {
                    self.escalate(self.variance.variance());
                }
            }
            Err(error) => tracing::warn!(%error, "could not restore the variance watch; it starts empty"),
        }
    }
}

impl Supervised for Regen {}

impl Handler<Read> for Regen {
    type Result = ResponseFuture<Landed>;

    fn handle(&mut self, Read(session_id): Read, ctx: &mut Context<Self>) -> Self::Result {
        let Some(flight) = self.under_way(&session_id) else {
            let (pilot, id) = (Arc::clone(&self.pilot), session_id.clone());
            let flight = async move { pilot.regenerate(id).await };
            return Box::pin(self.take_off(session_id, Errand::Read, flight, ctx).landed());
        };
        if flight.errand == Errand::Read {
            return Box::pin(flight.landed());
        }
        let me = ctx.address();
        Box::pin(async move {
            match flight.landed().await {
                Ok(
                    SubmissionOutcome::RejectedByCrosscheck { .. }
                    | SubmissionOutcome::RejectedByRules { .. }
                    | SubmissionOutcome::Mismatch(_),
                )
                | Err(_) => again(&me, Read(session_id)).await,
                brought => brought,
            }
        })
    }
}

impl Handler<Deliver> for Regen {
    type Result = ResponseFuture<Landed>;

    fn handle(&mut self, deliver: Deliver, ctx: &mut Context<Self>) -> Self::Result {
        let submission = deliver.0.clone();
        let Submission { session_id, tier, query, check, .. } = submission.clone();
        let errand = Errand::Deliver { tier, query, check, uid: uid() };
        let Some(flight) = self.under_way(&session_id) else {
            let pilot = Arc::clone(&self.pilot);
            let flight = async move { pilot.generate(submission).await };
            return Box::pin(self.take_off(session_id, errand, flight, ctx).landed());
        };
        let (same, cache, me) = (flight.errand == errand, self.cache.clone(), ctx.address());
        Box::pin(async move {
            let landed = flight.landed().await;
            if !same {
                return again(&me, deliver).await;
            }
            let landing = landed?;
            match cache.ask(Find(submission)).await {
                Ok(Ok(Known::Cached(cached))) => Ok(SubmissionOutcome::Replayed(cached)),
                Ok(Ok(Known::Mismatch(mismatch))) => Ok(SubmissionOutcome::Mismatch(mismatch)),
                Ok(Ok(Known::Nothing(_))) => Ok(landing),
                Ok(Err(error)) => Err(Arc::new(error.into())),
                Err(error) => Err(Arc::new(error.into())),
            }
        })
    }
}

/// Sends the message again, after another request's flight has ended.
async fn again<M>(regen: &Addr<Regen>, message: M) -> Landed
where
    M: Message<Result = Landed> + Send + 'static,
    Regen: Handler<M, Result = ResponseFuture<Landed>>,
{
    let lost = |_| Err(Arc::new(Failed::NoAnswer(NoAnswer::Failed { actor: "regen" })));
    let (reply, landed) = oneshot::channel();
    regen.do_send::<Called<Regen>>(Door::called(message, reply));
    landed.await.unwrap_or_else(lost)
}

impl Handler<Rest> for Regen {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Rest, _: &mut Context<Self>) -> Self::Result {
        let flights: Vec<_> = self.flights.values().cloned().collect();
        Box::pin(async move {
            for flight in flights {
                drop(flight.landed().await);
            }
        })
    }
}

impl Handler<AskVariance> for Regen {
    type Result = MessageResult<AskVariance>;

    fn handle(&mut self, _: AskVariance, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.variance.variance())
    }
}

impl Handler<Note> for Regen {
    type Result = ();

    fn handle(&mut self, Note(check): Note, _: &mut Context<Self>) {
        if let Some(variance) = self.variance.note(&check) {
            self.escalate(variance);
        }
    }
}

impl Handler<Clear> for Regen {
    type Result = ();

    fn handle(&mut self, Clear(session_id): Clear, _: &mut Context<Self>) {
        if self.under_way(&session_id).is_none() {
            self.flights.remove(&session_id);
        }
    }
}

crate::platform::door::asked_through_a_door!(Regen);

#[cfg(test)]
mod tests;
