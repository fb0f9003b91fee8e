//! The notifier: sends the mails in the outbox.
//!
//! The outbox is in the store, which is authoritative and has no limit. The actor keeps its head in memory:
//! the mails that are due first. Each attempt is a separate task. It requests a lease from the mail service's
//! circuit, sends the mail, and commits the outcome with its log entry. If the circuit is not closed, no
//! attempt is made. A mail is sent at least once, under one id at each attempt, and leaves the outbox when
//! the mail service has accepted it.

mod attempt;
mod content;
mod outbox_admin;
mod survey;

pub use content::{MailContentError, find_mail_template};
pub use outbox_admin::{DropMail, HeldMails, HoldMails, ListMails, OutboxError, RequeueMail};

use crate::audit::logger::LoggerHandle;
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::Clock;
use crate::platform::in_flight::InFlight;
use crate::platform::metrics::ActorMetrics;
use crate::platform::per_application::PerApplication;
use crate::upstream::mail::MailService;
use crate::upstream::oracle_health::OracleHealth;
use crate::verdict::outbox_head::OutboxHead;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use attempt::{MailSender, MailStateChange};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::MailId;
use oracled_domain::verdict::template_name::TemplateName;
use oracled_store::Store;
use std::sync::Arc;
use std::time::Duration;
use survey::OutboxSurvey;
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
pub struct NotifierConfig {
    /// The mail service. Without one nothing is sent, and the mails stay in the outbox.
    pub service: Option<Arc<dyn MailService>>,
    /// Maximum age of a verdict mail that is still retried.
    pub max_age: SignedDuration,
    /// The names of the mail templates. Without any, mails have the built-in text.
    pub templates: PerApplication<Vec<TemplateName>>,
    /// The contacts for questions.
    pub contacts: PerApplication<Option<String>>,
}

/// Notifies of a queued mail. If the message is lost, the mail is found by the next survey, within a minute.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeNotifier(pub MailId);

/// Stops sending: no further attempt begins. Returns when the attempts in flight are settled.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopSending;

/// Reports that a mail is no longer in flight, and its state.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportMailState {
    mail_id: MailId,
    end: MailStateChange,
}

/// The actor.
#[derive(Debug)]
pub struct Notifier {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    metrics: ActorMetrics,
    /// `None` if no mail service is configured.
    sender: Option<MailSender>,
    in_flight: InFlight<MailId>,
    /// Permits for parallel attempts.
    send_slots: Arc<Semaphore>,
    head: OutboxHead<MailId>,
    /// Whether a survey is running.
    surveying: bool,
    /// When the last survey ended.
    surveyed_at: Option<Timestamp>,
    dead: u64,
    oldest: Option<Timestamp>,
    /// Whether the circuit was found open or half-open since the last tick.
    circuit_not_closed: bool,
}

impl Notifier {
    pub(crate) fn new(
        mailing: NotifierConfig,
        oracle_health: ActorHandle<OracleHealth>,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: ActorMetrics,
    ) -> Self {
        let NotifierConfig { service, max_age, templates, contacts } = mailing;
        let sender = service.map(|service| MailSender {
            oracle_id: service.oracle_id(),
            service,
            oracle_health,
            store: store.clone(),
            log: log.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            max_age,
            templates,
            contacts,
        });
        Self {
            store,
            log,
            clock,
            metrics,
            sender,
            in_flight: InFlight::default(),
            send_slots: Arc::new(Semaphore::new(SENDING_MAX)),
            head: OutboxHead::new(HEAD_MAX),
            surveying: false,
            surveyed_at: None,
            dead: 0,
            oldest: None,
            circuit_not_closed: false,
        }
    }

    fn tick(&mut self, ctx: &mut Context<Self>) {
        self.circuit_not_closed = false;
        self.survey_if_due(ctx);
        self.send_due(&ctx.address());
        self.publish();
    }

    /// Starts a survey of the outbox if the head runs low or the last survey is too old.
    fn survey_if_due(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        // the absolute difference: a clock that was set back must not delay the survey
        let recently = self.surveyed_at.is_some_and(|at| now.duration_since(at).abs() < SURVEY_PERIOD);
        if self.surveying || (recently && !self.head.is_running_low()) {
            return;
        }
        self.surveying = true;
        let store = self.store.clone();
        let survey =
            spawn_blocking(move || OutboxSurvey::read_outbox(&store, HEAD_MAX, now)).into_actor(self);
        ctx.spawn(survey.map(|survey, notifier, ctx| {
            notifier.surveying = false;
            match survey
                .map_err(|panic| panic.to_string())
                .and_then(|survey| survey.map_err(|error| error.to_string()))
            {
                Ok(survey) => notifier.apply_survey(survey, ctx),
                Err(error) => tracing::error!(error, "could not read the outbox"),
            }
        }));
    }

    fn apply_survey(&mut self, survey: OutboxSurvey, ctx: &mut Context<Self>) {
        let older = std::mem::replace(&mut self.head, survey.head);
        self.head.merge_older(older);
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
        while !self.circuit_not_closed {
            let Ok(slot) = Arc::clone(&self.send_slots).try_acquire_owned() else { return };
            let Some(mail_id) = self.head.take_due(now) else { return };
            // the task that has the mail in flight reports its next due time
            let Some(claim) = self.in_flight.claim(mail_id) else { continue };
            let (sender, me) = (sender.clone(), me.clone());
            // a separate task: the attempt must be completed even if the actor panics
            tokio::spawn(async move {
                let end = sender.attempt(&claim.id).await;
                let mail_id = claim.id.clone();
                drop((claim, slot));
                // if the message is lost, the next survey makes up for it
                me.do_send(ReportMailState { mail_id, end });
            });
        }
    }

    fn apply_mail_state(&mut self, mail_id: MailId, end: MailStateChange) {
        match end {
            MailStateChange::Due(due) => self.head.put(mail_id, due),
            MailStateChange::CircuitNotClosed(due) => {
                self.head.put(mail_id, due);
                self.circuit_not_closed = true;
            }
            MailStateChange::DeadLettered => self.dead += 1,
            MailStateChange::Requeued(due) => {
                self.dead = self.dead.saturating_sub(1);
                self.head.put(mail_id, due);
            }
            MailStateChange::Dropped => self.dead = self.dead.saturating_sub(1),
            MailStateChange::Gone => self.head.remove(&mail_id),
        }
    }

    fn publish(&mut self) {
        let mails = self.log.report().borrow().counts.mails;
        let queued = mails.saturating_sub(self.dead);
        if queued == 0 {
            self.oldest = None;
        }
        let age = self.oldest.map(|oldest| self.clock.now().duration_since(oldest));
        self.metrics.mail.set_outbox_depth(queued, self.dead, age.unwrap_or_default());
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
        self.head = OutboxHead::new(HEAD_MAX);
        (self.surveying, self.surveyed_at) = (false, None);
    }
}

impl Handler<WakeNotifier> for Notifier {
    type Result = ();

    fn handle(&mut self, WakeNotifier(mail_id): WakeNotifier, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        self.oldest.get_or_insert(now);
        self.head.put(mail_id, now);
        self.send_due(&ctx.address());
    }
}

impl Handler<ReportMailState> for Notifier {
    type Result = ();

    fn handle(&mut self, ReportMailState { mail_id, end }: ReportMailState, ctx: &mut Context<Self>) {
        self.apply_mail_state(mail_id, end);
        self.send_due(&ctx.address());
    }
}

impl Handler<StopSending> for Notifier {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopSending, _: &mut Context<Self>) -> Self::Result {
        let slots = Arc::clone(&self.send_slots);
        Box::pin(async move {
            // the permits are acquired as they become free, and never released
            if let Ok(all) = slots.acquire_many(SENDING_MAX as u32).await {
                all.forget();
            }
        })
    }
}

crate::platform::actor_handle::handle_actor_calls!(Notifier);

#[cfg(test)]
mod tests;
