//! The outbox: sends the mails or the webhooks that are stored in it.
//!
//! The outbox is in the store, which is authoritative and has no limit. The actor keeps its head in memory:
//! the messages of each receiver that are due first. Each attempt is a separate task, and its outcome is one commit with its
//! log entry. Each receiver has slots of its own, so that one that does not answer delays no other. A message is sent at
//! least once, under one id at each attempt, and leaves the outbox when its receiver has accepted it.

mod admin;
mod attempt;
mod channel;
mod head;
mod metrics;
mod survey;

pub(crate) use admin::RemovedMessage;
pub use admin::{ChangeMessage, HeldMessages, HoldMessages, ListMessages, OutboxAction, OutboxError};
pub use channel::{IdOf, OutboxChannel, OutboxState, OutboxStep, ReceiverOf, SendOutcome};
pub(crate) use metrics::OutboxMetrics;

use crate::audit::logger::LoggerHandle;
use crate::platform::clock::Clock;
use crate::platform::in_flight::InFlight;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use attempt::{OutboxAttempts, StateChange};
use head::OutboxHead;
use jiff::{SignedDuration, Timestamp};
use oracled_store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use survey::OutboxSurvey;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Interval between checks for due messages.
const TICK: Duration = Duration::from_secs(1);
/// Interval between surveys of the whole outbox, which find messages whose wake-up was lost.
const SURVEY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of messages of a receiver in memory, by id and due time. The limit is low in tests, so that they reach it
/// quickly.
pub(crate) const HEAD_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Maximum number of messages that are sent to a receiver at the same time.
const SENDING_MAX: usize = 4;

/// Notifies of a queued message. If this is lost, the next survey finds the message, within a minute.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeOutbox<C: OutboxChannel> {
    pub id: IdOf<C>,
    pub receiver: ReceiverOf<C>,
}

/// Stops sending: no further attempt begins. Returns when the attempts in flight are settled.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopSending;

/// Reports that a message is no longer in flight, and its state.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportState<C: OutboxChannel> {
    id: IdOf<C>,
    receiver: ReceiverOf<C>,
    change: StateChange,
}

impl<C: OutboxChannel> ReportState<C> {
    fn of(state: &C::State, change: StateChange) -> Self {
        Self { id: state.id().clone(), receiver: state.receiver(), change }
    }
}

/// The messages of one receiver.
#[derive(Debug)]
struct ReceiverQueue<I> {
    head: OutboxHead<I>,
    /// Permits for parallel attempts.
    slots: Arc<Semaphore>,
    /// Whether an attempt was put off since the last tick.
    is_paused: bool,
}

impl<I: Ord + Clone> Default for ReceiverQueue<I> {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(SENDING_MAX));
        Self { head: OutboxHead::new(HEAD_MAX), slots, is_paused: false }
    }
}

/// The actor.
#[derive(Debug)]
pub struct OutboxSender<C: OutboxChannel> {
    parts: OutboxAttempts<C>,
    in_flight: InFlight<IdOf<C>>,
    queues: BTreeMap<ReceiverOf<C>, ReceiverQueue<IdOf<C>>>,
    is_stopped: bool,
    /// Whether a survey is running.
    surveying: bool,
    /// When the last survey ended.
    surveyed_at: Option<Timestamp>,
    dead: u64,
    /// Whether the number of dead letters has changed since the last survey began.
    dead_changed: bool,
    oldest: Option<Timestamp>,
}

impl<C: OutboxChannel> OutboxSender<C> {
    pub(crate) fn new(
        channel: C,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: OutboxMetrics,
    ) -> Self {
        Self {
            parts: OutboxAttempts { channel: Arc::new(channel), store, log, clock, metrics },
            in_flight: InFlight::default(),
            queues: BTreeMap::new(),
            is_stopped: false,
            surveying: false,
            surveyed_at: None,
            dead: 0,
            dead_changed: false,
            oldest: None,
        }
    }

    pub(crate) fn channel(&self) -> Arc<C> {
        Arc::clone(&self.parts.channel)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    pub(crate) fn tick(&mut self, ctx: &mut Context<Self>) {
        self.queues.values_mut().for_each(|queue| queue.is_paused = false);
        self.survey_if_due(ctx);
        self.send_due(&ctx.address());
        self.publish();
    }

    /// Starts a survey of the outbox if a head runs low or the last survey is too old.
    fn survey_if_due(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        // the absolute difference: a clock that was set back must not delay the survey
        let recently = self.surveyed_at.is_some_and(|at| now.duration_since(at).abs() < SURVEY_PERIOD);
        let runs_low = self.queues.values().any(|queue| queue.head.is_running_low());
        if self.surveying || (recently && !runs_low) {
            return;
        }
        (self.surveying, self.dead_changed) = (true, false);
        let store = self.parts.store.clone();
        let survey =
            spawn_blocking(move || OutboxSurvey::<C>::read_outbox(&store, HEAD_MAX, now)).into_actor(self);
        ctx.spawn(survey.map(|survey, sender, ctx| {
            sender.surveying = false;
            match survey
                .map_err(|panic| panic.to_string())
                .and_then(|survey| survey.map_err(|error| error.to_string()))
            {
                Ok(survey) => sender.apply_survey(survey, ctx),
                Err(error) => tracing::error!(error, "could not read the {}s of the outbox", C::NAME),
            }
        }));
    }

    fn apply_survey(&mut self, survey: OutboxSurvey<C>, ctx: &mut Context<Self>) {
        let OutboxSurvey { mut heads, dead, oldest } = survey;
        for receiver in heads.keys() {
            self.queues.entry(receiver.clone()).or_default();
        }
        for (receiver, queue) in &mut self.queues {
            let head = heads.remove(receiver).unwrap_or_else(|| OutboxHead::new(HEAD_MAX));
            let older = std::mem::replace(&mut queue.head, head);
            queue.head.merge_older(older);
        }
        // a survey during which dead letters changed may have counted them before or after the change
        let is_current = !self.dead_changed;
        (self.dead, self.oldest, self.surveyed_at) = (dead, oldest, is_current.then(|| self.now()));
        self.send_due(&ctx.address());
        self.publish();
    }

    /// Starts attempts for the messages that are due, within the limit of each receiver.
    fn send_due(&mut self, me: &Addr<Self>) {
        // an outcome that cannot be committed would be sent again after a restart
        let is_failed = self.parts.log.report().borrow().failure.is_some();
        if self.is_stopped || is_failed || !self.parts.channel.is_on() {
            return;
        }
        let now = self.now();
        for (receiver, queue) in &mut self.queues {
            while !queue.is_paused {
                let Ok(slot) = Arc::clone(&queue.slots).try_acquire_owned() else { break };
                let Some(id) = queue.head.take_due(now) else { break };
                // the task that has the message in flight reports its next due time
                let Some(claim) = self.in_flight.claim(id) else { continue };
                let (parts, receiver, me) = (self.parts.clone(), receiver.clone(), me.clone());
                // a separate task: the attempt must be completed even if the actor panics
                tokio::spawn(async move {
                    let change = parts.attempt(&claim.id).await;
                    let id = claim.id.clone();
                    drop((claim, slot));
                    // if this is lost, the next survey makes up for it
                    me.do_send(ReportState::<C> { id, receiver, change });
                });
            }
        }
    }

    fn apply_change(&mut self, ReportState { id, receiver, change }: ReportState<C>) {
        self.dead_changed |=
            matches!(change, StateChange::DeadLettered | StateChange::Requeued(_) | StateChange::Dropped);
        let queue = self.queues.entry(receiver).or_default();
        match change {
            StateChange::Due(due) => queue.head.put(id, due),
            StateChange::Paused(due) => {
                queue.head.put(id, due);
                queue.is_paused = true;
            }
            StateChange::DeadLettered => self.dead += 1,
            StateChange::Requeued(due) => {
                self.dead = self.dead.saturating_sub(1);
                queue.head.put(id, due);
            }
            StateChange::Dropped => self.dead = self.dead.saturating_sub(1),
            StateChange::Gone => queue.head.remove(&id),
        }
    }

    fn publish(&mut self) {
        let queued = C::count(&self.parts.log.report().borrow()).saturating_sub(self.dead);
        if queued == 0 {
            self.oldest = None;
        }
        let age = self.oldest.map(|oldest| self.now().duration_since(oldest));
        self.parts.metrics.set_depth(queued, self.dead, age.unwrap_or_default());
    }
}

impl<C: OutboxChannel> Actor for OutboxSender<C> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.tick(ctx);
        ctx.run_interval(TICK, |sender, ctx| sender.tick(ctx));
    }
}

impl<C: OutboxChannel> Supervised for OutboxSender<C> {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // `started` runs again after this; attempts in flight continue
        self.queues.values_mut().for_each(|queue| queue.head = OutboxHead::new(HEAD_MAX));
        (self.surveying, self.surveyed_at) = (false, None);
    }
}

impl<C: OutboxChannel> Handler<WakeOutbox<C>> for OutboxSender<C> {
    type Result = ();

    fn handle(&mut self, WakeOutbox { id, receiver }: WakeOutbox<C>, ctx: &mut Context<Self>) {
        let now = self.now();
        self.oldest.get_or_insert(now);
        self.queues.entry(receiver).or_default().head.put(id, now);
        self.send_due(&ctx.address());
    }
}

impl<C: OutboxChannel> Handler<ReportState<C>> for OutboxSender<C> {
    type Result = ();

    fn handle(&mut self, report: ReportState<C>, ctx: &mut Context<Self>) {
        self.apply_change(report);
        self.send_due(&ctx.address());
    }
}

impl<C: OutboxChannel> Handler<StopSending> for OutboxSender<C> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopSending, _: &mut Context<Self>) -> Self::Result {
        self.is_stopped = true;
        let all: Vec<_> = self.queues.values().map(|queue| Arc::clone(&queue.slots)).collect();
        Box::pin(async move {
            for slots in all {
                // the permits are acquired as they become free, and never released
                if let Ok(permits) = slots.acquire_many(SENDING_MAX as u32).await {
                    permits.forget();
                }
            }
        })
    }
}
