//! The sender of the webhooks in the outbox.
//!
//! The outbox is in the store. The actor keeps the webhooks of each receiver that are due first in memory. Each attempt is
//! a separate task, and its outcome is one commit. Each receiver has slots of its own, so that an endpoint that does not
//! answer delays no other. A webhook is sent at least once, under one id at each attempt.

mod attempt;
mod outbox_admin;

pub use outbox_admin::{
    ChangeWebhook, ListWebhooks, TestWebhook, WebhookChange, WebhookOutboxError, WebhookTest,
};

use super::notifier::StopSending;
use crate::audit::logger::LoggerHandle;
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::Clock;
use crate::platform::in_flight::InFlight;
use crate::platform::metrics::ActorMetrics;
use crate::upstream::web::webhook::WebhookClient;
use crate::verdict::outbox_head::OutboxHead;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use attempt::WebhookAttempts;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::verdict::webhook::WebhookState;
use oracled_domain::{ApplicationName, WebhookId};
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

/// Interval between checks for due webhooks.
const TICK: Duration = Duration::from_secs(1);
/// Interval between surveys of the whole outbox.
const SURVEY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of webhooks of a receiver in memory, by id and due time.
const HEAD_MAX: usize = 10_000;
/// Maximum number of webhooks that are sent to a receiver at the same time.
const SENDING_MAX: usize = 4;

/// The settings of the sender.
#[derive(Debug)]
pub struct WebhookConfig {
    pub client: WebhookClient,
    /// Maximum age of a webhook that is still retried.
    pub max_age: SignedDuration,
}

/// Schedules a webhook, or removes it from memory.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ScheduleWebhook {
    pub(crate) webhook_id: WebhookId,
    pub(crate) application: Option<ApplicationName>,
    /// When it is due; `None` if it is not in the outbox, or a dead letter.
    pub(crate) due: Option<Timestamp>,
    /// Whether the number of dead letters may have changed.
    pub(crate) counts_changed: bool,
}

/// The webhooks of one receiver.
#[derive(Debug)]
struct ReceiverQueue {
    head: OutboxHead<WebhookId>,
    /// Permits for parallel attempts.
    slots: Arc<Semaphore>,
}

impl Default for ReceiverQueue {
    fn default() -> Self {
        Self { head: OutboxHead::new(HEAD_MAX), slots: Arc::new(Semaphore::new(SENDING_MAX)) }
    }
}

/// The actor.
#[derive(Debug)]
pub struct WebhookSender {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    metrics: ActorMetrics,
    attempts: WebhookAttempts,
    in_flight: InFlight<WebhookId>,
    queues: BTreeMap<Option<ApplicationName>, ReceiverQueue>,
    stopped: bool,
    surveying: bool,
    /// When the last survey ended.
    surveyed_at: Option<Timestamp>,
    /// The number of dead letters as of the last survey.
    dead: u64,
}

/// The heads of all receivers, and the number of dead letters.
type WebhookSurvey = (BTreeMap<Option<ApplicationName>, OutboxHead<WebhookId>>, u64);

impl WebhookSender {
    pub(crate) fn new(
        config: WebhookConfig,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: ActorMetrics,
    ) -> Self {
        let attempts = WebhookAttempts {
            client: Arc::new(config.client),
            max_age: config.max_age,
            store: store.clone(),
            log: log.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
        };
        Self {
            store,
            log,
            clock,
            metrics,
            attempts,
            in_flight: InFlight::default(),
            queues: BTreeMap::new(),
            stopped: false,
            surveying: false,
            surveyed_at: None,
            dead: 0,
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.survey_if_due(ctx);
        self.send_due(&ctx.address());
        let webhooks = self.log.report().borrow().counts.webhooks;
        self.metrics.webhooks.set_outbox_depth(webhooks.saturating_sub(self.dead), self.dead);
    }

    fn survey_if_due(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        // the absolute difference: a clock that was set back must not delay the survey
        let recently = self.surveyed_at.is_some_and(|at| now.duration_since(at).abs() < SURVEY_PERIOD);
        let runs_low = self.queues.values().any(|queue| queue.head.is_running_low());
        if self.surveying || (recently && !runs_low) {
            return;
        }
        self.surveying = true;
        let store = self.store.clone();
        let survey = spawn_blocking(move || survey_webhooks(&store, now)).into_actor(self);
        ctx.spawn(survey.map(move |survey, sender, ctx| {
            sender.surveying = false;
            match survey.map_err(|panic| panic.to_string()).and_then(|read| read.map_err(|e| e.to_string())) {
                Ok(survey) => sender.apply_survey(survey, now, &ctx.address()),
                Err(error) => tracing::error!(error, "could not read the webhooks of the outbox"),
            }
        }));
    }

    fn apply_survey(&mut self, (heads, dead): WebhookSurvey, began: Timestamp, me: &Addr<Self>) {
        for (receiver, head) in heads {
            let queue = self.queues.entry(receiver).or_default();
            let older = std::mem::replace(&mut queue.head, head);
            queue.head.merge_older(older);
        }
        (self.dead, self.surveyed_at) = (dead, Some(began));
        self.send_due(me);
    }

    /// Starts attempts for the webhooks that are due, within the limit of each receiver.
    fn send_due(&mut self, me: &Addr<Self>) {
        // an outcome that cannot be committed would be sent again after a restart
        if self.stopped || self.log.report().borrow().failure.is_some() {
            return;
        }
        let now = self.clock.now();
        for (receiver, queue) in &mut self.queues {
            while let Ok(slot) = Arc::clone(&queue.slots).try_acquire_owned() {
                let Some(webhook_id) = queue.head.take_due(now) else { break };
                // the task that has the webhook in flight reports its next due time
                let Some(claim) = self.in_flight.claim(webhook_id) else { continue };
                let (attempts, application, me) = (self.attempts.clone(), receiver.clone(), me.clone());
                // a separate task: the attempt must be completed even if the actor panics
                tokio::spawn(async move {
                    let (due, counts_changed) = attempts.attempt(&claim.id).await;
                    let webhook_id = claim.id.clone();
                    drop((claim, slot));
                    me.do_send(ScheduleWebhook { webhook_id, application, due, counts_changed });
                });
            }
        }
    }
}

/// Schedules the webhooks that are committed, for as long as the daemon runs.
pub(crate) async fn schedule_committed(
    mut committed: mpsc::Receiver<WebhookState>,
    sender: ActorHandle<WebhookSender>,
) {
    while let Some(WebhookState { webhook_id, application, next_attempt_at, .. }) = committed.recv().await {
        let schedule =
            ScheduleWebhook { webhook_id, application, due: next_attempt_at, counts_changed: false };
        if let Err(error) = sender.ask(schedule).await {
            tracing::debug!(%error, "could not schedule a webhook; it is sent after the next survey");
        }
    }
}

/// Reads all webhooks of the outbox. Blocks on disk reads.
fn survey_webhooks(store: &Store, now: Timestamp) -> Result<WebhookSurvey, StoreError> {
    let (mut heads, mut dead) = (BTreeMap::new(), 0);
    store.visit_webhooks(None, |standing: WebhookState| {
        match standing.due_at(now) {
            Some(due) => heads
                .entry(standing.application)
                .or_insert_with(|| OutboxHead::new(HEAD_MAX))
                .put(standing.webhook_id, due),
            None => dead += 1,
        }
        true
    })?;
    Ok((heads, dead))
}

impl Actor for WebhookSender {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.tick(ctx);
        ctx.run_interval(TICK, |sender, ctx| sender.tick(ctx));
    }
}

impl Supervised for WebhookSender {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // `started` runs again after this; attempts in flight continue
        for queue in self.queues.values_mut() {
            queue.head = OutboxHead::new(HEAD_MAX);
        }
        (self.surveying, self.surveyed_at) = (false, None);
    }
}

impl Handler<ScheduleWebhook> for WebhookSender {
    type Result = ();

    fn handle(&mut self, schedule: ScheduleWebhook, ctx: &mut Context<Self>) {
        let ScheduleWebhook { webhook_id, application, due, counts_changed } = schedule;
        let queue = self.queues.entry(application).or_default();
        match due {
            Some(due) => queue.head.put(webhook_id, due),
            None => queue.head.remove(&webhook_id),
        }
        if counts_changed {
            self.surveyed_at = None;
        }
        self.send_due(&ctx.address());
    }
}

impl Handler<StopSending> for WebhookSender {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopSending, _: &mut Context<Self>) -> Self::Result {
        self.stopped = true;
        let all: Vec<_> = self.queues.values().map(|queue| Arc::clone(&queue.slots)).collect();
        Box::pin(async move {
            for slots in all {
                if let Ok(permits) = slots.acquire_many(SENDING_MAX as u32).await {
                    permits.forget();
                }
            }
        })
    }
}

crate::platform::actor_handle::handle_actor_calls!(WebhookSender);
