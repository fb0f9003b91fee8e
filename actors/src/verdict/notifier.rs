//! The notifier: sends the mails in the outbox.
//!
//! The outbox is in the store, which is authoritative and has no limit. The actor keeps its head in memory: the mails that
//! are due first. Each attempt is a separate task. It requests a lease from the mail service's circuit, sends the mail, and
//! commits the outcome with its log entry. If the circuit is not closed, no attempt is made. A mail is sent at least once,
//! under one id at each attempt, and leaves the outbox when the mail service has accepted it.

mod attempt;
mod head;
mod in_flight;
mod steer;
mod survey;

pub use steer::{DropMail, HeldMails, HoldMails, List, OutboxError, Requeue};

use crate::audit::logger::Log;
use crate::platform::clock::Clock;
use crate::platform::door::Door;
use crate::platform::metrics::Metrics;
use crate::upstream::mail::MailService;
use crate::upstream::oracle_health::OracleHealth;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use attempt::{End, Sender};
use head::Head;
use in_flight::InFlight;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::MailId;
use oracled_store::Store;
use std::sync::Arc;
use std::time::Duration;
use survey::Survey;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Interval between checks for due mails.
const TICK: Duration = Duration::from_secs(1);
/// Interval between surveys of the whole outbox, which find mails whose wake-up was lost.
const SURVEY_PERIOD: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of mails in memory, by id and due time. The limit is low in tests, so that they reach it quickly.
const HEAD_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
/// Maximum number of mails that are sent at the same time.
const SENDING_MAX: usize = 4;

/// The settings of the notifier.
#[derive(Debug, Clone)]
pub struct Mailing {
    /// The mail service. Without one nothing is sent, and the mails stay in the outbox.
    pub service: Option<Arc<dyn MailService>>,
    /// Maximum age of a verdict mail that is still retried.
    pub max_age: SignedDuration,
}

/// Notifies of a queued mail. If the message is lost, the mail is found by the next survey, within a minute.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Wake(pub MailId);

/// Stops sending: no further attempt begins. Returns when the attempts in flight are settled.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rest;

/// Reports that a mail is no longer in flight, and its state.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Ended {
    mail_id: MailId,
    end: End,
}

/// The actor.
#[derive(Debug)]
pub struct Notifier {
    store: Store,
    log: Log,
    clock: Clock,
    metrics: Metrics,
    /// `None` if no mail service is configured.
    sender: Option<Sender>,
    in_flight: InFlight,
    /// Permits for parallel attempts.
    places: Arc<Semaphore>,
    head: Head,
    /// Whether a survey is running.
    surveying: bool,
    /// When the last survey ended.
    surveyed_at: Option<Timestamp>,
    dead: u64,
    oldest: Option<Timestamp>,
    /// Whether the circuit was found open or half-open since the last tick.
    turned_away: bool,
}

impl Notifier {
    pub(crate) fn new(
        mailing: Mailing,
        oracle_health: Door<OracleHealth>,
        store: Store,
        log: Log,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let Mailing { service, max_age } = mailing;
        let sender = service.map(|service| Sender {
            oracle_id: service.oracle_id(),
            service,
            oracle_health,
            store: store.clone(),
            log: log.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            max_age,
        });
        Self {
            store,
            log,
            clock,
            metrics,
            sender,
            in_flight: InFlight::default(),
            places: Arc::new(Semaphore::new(SENDING_MAX)),
            head: Head::new(HEAD_MAX),
            surveying: false,
            surveyed_at: None,
            dead: 0,
            oldest: None,
            turned_away: false,
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.turned_away = false;
        self.survey_if_due(ctx);
        self.send_due(&ctx.address());
        self.publish();
    }

    /// Starts a survey of the outbox if the head runs low or the last survey is too old.
    fn survey_if_due(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        // the absolute difference: a clock that was set back must not delay the survey
        let recently = self.surveyed_at.is_some_and(|at| now.duration_since(at).abs() < SURVEY_PERIOD);
        if self.surveying || (recently && !self.head.runs_low()) {
            return;
        }
        self.surveying = true;
        let store = self.store.clone();
        let survey = spawn_blocking(move || Survey::of(&store, HEAD_MAX, now)).into_actor(self);
        ctx.spawn(survey.map(|survey, notifier, ctx| {
            notifier.surveying = false;
            match survey
                .map_err(|panic| panic.to_string())
                .and_then(|survey| survey.map_err(|error| error.to_string()))
            {
                Ok(survey) => notifier.surveyed(survey, ctx),
                Err(error) => tracing::error!(error, "could not read the outbox"),
            }
        }));
    }

    fn surveyed(&mut self, survey: Survey, ctx: &mut Context<Self>) {
        let older = std::mem::replace(&mut self.head, survey.head);
        self.head.keep(older);
        self.surveyed_at = Some(self.clock.now());
        (self.dead, self.oldest) = (survey.dead, survey.oldest);
        self.send_due(&ctx.address());
        self.publish();
    }

    /// Starts attempts for the mails that are due, within the limit.
    fn send_due(&mut self, me: &Addr<Self>) {
        let Some(sender) = &self.sender else { return };
        // the outcome could not be committed, and the mail would be sent again after a restart
        if self.log.report().borrow().failure.is_some() {
            return;
        }
        let now = self.clock.now();
        while !self.turned_away {
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
            let Some(mail_id) = self.head.take_due(now) else { return };
            // the task that has the mail in flight reports its next due time
            let Some(taken) = self.in_flight.take(mail_id) else { continue };
            let (sender, me) = (sender.clone(), me.clone());
            // a separate task: the attempt must be completed even if the actor panics
            tokio::spawn(async move {
                let end = sender.attempt(&taken.mail_id).await;
                let mail_id = taken.mail_id.clone();
                drop((taken, place));
                // if the message is lost, the next survey makes up for it
                me.do_send(Ended { mail_id, end });
            });
        }
    }

    fn ended(&mut self, mail_id: MailId, end: End) {
        match end {
            End::Due(due) => self.head.put(mail_id, due),
            End::TurnedAway(due) => {
                self.head.put(mail_id, due);
                self.turned_away = true;
            }
            End::Died => self.dead += 1,
            End::Revived(due) => {
                self.dead = self.dead.saturating_sub(1);
                self.head.put(mail_id, due);
            }
            End::Buried => self.dead = self.dead.saturating_sub(1),
            End::Gone => self.head.remove(&mail_id),
        }
    }

    fn publish(&mut self) {
        let mails = self.log.report().borrow().counts.mails;
        let queued = mails.saturating_sub(self.dead);
        if queued == 0 {
            self.oldest = None;
        }
        let age = self.oldest.map(|oldest| self.clock.now().duration_since(oldest));
        self.metrics.sending.show(queued, self.dead, age.unwrap_or_default());
    }
}

impl Actor for Notifier {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.tick(ctx);
        ctx.run_interval(TICK, |notifier, ctx| notifier.tick(ctx));
    }
}

impl Supervised for Notifier {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // `started` runs again after this; attempts in flight continue
        self.head = Head::new(HEAD_MAX);
        (self.surveying, self.surveyed_at) = (false, None);
    }
}

impl Handler<Wake> for Notifier {
    type Result = ();

    fn handle(&mut self, Wake(mail_id): Wake, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        self.oldest.get_or_insert(now);
        self.head.put(mail_id, now);
        self.send_due(&ctx.address());
    }
}

impl Handler<Ended> for Notifier {
    type Result = ();

    fn handle(&mut self, Ended { mail_id, end }: Ended, ctx: &mut Context<Self>) {
        self.ended(mail_id, end);
        self.send_due(&ctx.address());
    }
}

impl Handler<Rest> for Notifier {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Rest, _: &mut Context<Self>) -> Self::Result {
        let places = Arc::clone(&self.places);
        Box::pin(async move {
            // the permits are acquired as they become free, and never released
            if let Ok(all) = places.acquire_many(SENDING_MAX as u32).await {
                all.forget();
            }
        })
    }
}

crate::platform::door::asked_through_a_door!(Notifier);

#[cfg(test)]
mod tests;
