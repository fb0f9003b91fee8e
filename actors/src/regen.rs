//! Having verdicts made: first ones at a route's request, and lost ones anew when they are read.
//!
//! What is on its way is a *flight*: a task of its own, so that no caller who goes away takes it down, and one a
//! session, so that whoever asks meanwhile gets the same answer from the same call of the model. Nothing else starts
//! a regeneration than a read that finds nothing (seed: `regen-consistency`, invariant 6).

mod flight;
mod model;

pub use flight::{Failed, Landed, Landing};
pub use model::AskedModel;

use crate::cache::{Cache, Find, Known};
use crate::clock::Clock;
use crate::crosscheck::Crosscheck;
use crate::door::Door;
use crate::logger::Log;
use crate::metrics::Metrics;
use crate::oracle_health::OracleHealth;
use crate::rate_limiter::RateLimiter;
use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised};
use domain::divergence::{VARIANCE_THRESHOLD, VARIANCE_WINDOW, Variance, VarianceWatch};
use domain::event::Severity;
use domain::session::Email;
use domain::{DivergenceCheck, Event, Query, SessionId, Tier};
use flight::Pilot;
use std::collections::HashMap;
use std::sync::Arc;
use store::{LogQuery, Store};
use tokio::sync::watch;

/// Has a first verdict made and delivers it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Landed")]
pub struct Deliver {
    /// For whom.
    pub session_id: SessionId,
    /// Of which tier.
    pub tier: Tier,
    /// About what.
    pub query: Query,
    /// Where it will be mailed to.
    pub customer_email: Option<Email>,
}

/// Reads a verdict that is not in the cache: has it made anew, if its session is known.
#[derive(Debug, Message)]
#[rtype(result = "Landed")]
pub struct Read(pub SessionId);

/// Asks how often regenerated verdicts differ from what was delivered.
#[derive(Debug, Message)]
#[rtype(result = "Variance")]
pub struct AskVariance;

/// Takes a regeneration into account.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Note(DivergenceCheck);

/// Clears a flight away that has landed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Clear(SessionId);

/// The actor.
#[derive(Debug)]
pub struct Regen {
    pilot: Arc<Pilot>,
    cache: Door<Cache>,
    log: Log,
    flights: HashMap<SessionId, watch::Receiver<Option<Landed>>>,
    variance: VarianceWatch,
}

/// Whom the actor asks.
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
        let (cache, log, variance) = (doors.cache.clone(), doors.log.clone(), remembered(&store));
        let pilot = Arc::new(Pilot { model, doors, store, clock, metrics });
        Self { pilot, cache, log, flights: HashMap::new(), variance }
    }

    /// The flight of a session that is still in the air.
    fn under_way(&self, session_id: &SessionId) -> Option<watch::Receiver<Option<Landed>>> {
        let flight = self.flights.get(session_id)?;
        // the task has ended once its end of the channel is gone, whether it has left a result or panicked
        (flight.borrow().is_none() && flight.has_changed().is_ok()).then(|| flight.clone())
    }

    fn take_off(
        &mut self,
        session_id: SessionId,
        flight: impl Future<Output = Landed> + 'static,
        ctx: &Context<Self>,
    ) -> watch::Receiver<Option<Landed>> {
        let (sender, receiver) = watch::channel(None);
        let (tower, id) = (ctx.address(), session_id.clone());
        self.flights.insert(session_id, receiver.clone());
        actix_rt::spawn(async move {
            let landed = flight.await;
            if let Ok(Landing::Regenerated(_, check)) = &landed {
                tower.do_send(Note(check.clone()));
            }
            sender.send_replace(Some(landed));
            drop(sender);
            // a message that is lost leaves what the next flight of the session replaces
            tower.do_send(Clear(id));
        });
        receiver
    }
}

/// The latest regenerations, as the log tells of them: what the watch knew before a restart.
fn remembered(store: &Store) -> VarianceWatch {
    let kind = Some("regen_divergence_check".to_owned());
    let newest = LogQuery { event: kind, newest: true, limit: VARIANCE_WINDOW, ..LogQuery::default() };
    let lines = store.log(&newest).unwrap_or_else(|error| {
        tracing::warn!(%error, "the watch over regenerations begins anew");
        Vec::new()
    });
    let mut watch = VarianceWatch::default();
    for line in lines {
        if let Ok(Event::RegenDivergenceCheck(check)) = serde_json::from_str(&line.json) {
            watch.note(check.divergence_level);
        }
    }
    watch
}

/// Waits until a flight has landed.
async fn landed(mut flight: watch::Receiver<Option<Landed>>) -> Landed {
    let landed = flight.wait_for(Option::is_some).await.ok().and_then(|landed| landed.clone());
    landed.unwrap_or_else(|| Err(Arc::new(Failed::Crashed)))
}

impl Actor for Regen {
    type Context = Context<Self>;
}

impl Supervised for Regen {}

impl Handler<Read> for Regen {
    type Result = ResponseFuture<Landed>;

    fn handle(&mut self, Read(session_id): Read, ctx: &mut Context<Self>) -> Self::Result {
        let flight = self.under_way(&session_id).unwrap_or_else(|| {
            let (pilot, id) = (Arc::clone(&self.pilot), session_id.clone());
            self.take_off(session_id, async move { pilot.regenerate(id).await }, ctx)
        });
        Box::pin(landed(flight))
    }
}

impl Handler<Deliver> for Regen {
    type Result = ResponseFuture<Landed>;

    fn handle(&mut self, deliver: Deliver, ctx: &mut Context<Self>) -> Self::Result {
        let Some(flight) = self.under_way(&deliver.session_id) else {
            let (pilot, id) = (Arc::clone(&self.pilot), deliver.session_id.clone());
            let flight = self.take_off(id, async move { pilot.generate(deliver).await }, ctx);
            return Box::pin(landed(flight));
        };
        let cache = self.cache.clone();
        Box::pin(async move {
            let landing = landed(flight).await?;
            // what has landed may be for another tier or query
            let Deliver { session_id, tier, query, .. } = deliver;
            match cache.ask(Find { session_id, tier, query }).await {
                Ok(Ok(Known::Cached(cached))) => Ok(Landing::Replayed(cached)),
                Ok(Ok(Known::Mismatch(mismatch))) => Ok(Landing::Mismatch(mismatch)),
                Ok(Ok(Known::Nothing)) => Ok(landing),
                Ok(Err(error)) => Err(Arc::new(error.into())),
                Err(error) => Err(Arc::new(error.into())),
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
        let Some(variance) = self.variance.note(check.divergence_level) else { return };
        tracing::warn!(?variance, "regenerated verdicts differ from what was delivered");
        let (log, timestamp) = (self.log.clone(), self.pilot.clock.now());
        let escalation = Event::InfrastructureVariance {
            variance,
            threshold: VARIANCE_THRESHOLD,
            level: Severity::Escalation,
            timestamp,
        };
        // where that fails it stands in the service log, and the watch goes on saying so
        actix_rt::spawn(async move { drop(log.commit(escalation.into()).await) });
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

crate::panics_when_told!(Regen);

#[cfg(test)]
mod tests;
