//! The notifier: sends the mails and webhooks in the outbox, a kind of [`Work`].
//!
//! The outcome of an attempt is one commit with its log entry. A message is sent at least once, under one id at each attempt, and
//! leaves the outbox when its receiver has accepted it. Each receiver is a lane of its own, so that one that does not answer delays
//! no other.

mod admin;
mod content;
mod mails;
mod metrics;
mod webhooks;

pub use admin::{ChangeMessage, HeldMessages, HoldMessages, OutboxAction, OutboxError, queued_mails};
pub use content::{MailContentError, find_mail_template};
pub use mails::NotifierConfig;
pub use metrics::OutboxMetrics;
pub use webhooks::{TestWebhook, WebhookConfig, WebhookTest};

use actix::Addr;
use actors_audit::logger::LoggerHandle;
use actors_platform::actor_handle::ActorHandle;
use actors_platform::clock::Clock;
use actors_platform::in_flight::{InFlight, InFlightClaim};
use actors_platform::work::{WakeWork, Work, WorkLimits, WorkOutcome, WorkQueue, WorkRunner};
use actors_upstream::oracle_health::OracleHealth;
use domain_base::event::{AuditEvent, EventKind};
use domain_verdict::event::{MessageFailed, MessageSent};
use domain_verdict::message_attempts::MessageAttempts;
use domain_verdict::outbox::{MessageChannel, MessageId, MessageReceiver, MessageState, OutboxMessage};
use jiff::{SignedDuration, Timestamp};
use mails::MailSender;
use metrics::OutboxOutcome;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
use std::sync::Arc;
use tokio::sync::mpsc;
use webhooks::WebhookSender;

/// The actor that sends messages.
pub type Notifier = WorkRunner<OutboxWork>;
/// Maximum number of messages of a receiver in memory. The limit is low in debug builds, so that tests reach it.
pub const LANE_MAX: usize = if cfg!(debug_assertions) { 100 } else { 10_000 };
/// When to read a message again that cannot be read.
const REREAD_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The messages of the outbox, and the services that take them.
#[derive(Debug, Clone)]
pub struct OutboxWork {
    /// `None` if no mail service is configured: the mails stay in the outbox.
    mails: Option<Arc<MailSender>>,
    webhooks: Arc<WebhookSender>,
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    in_flight: InFlight<MessageId>,
    metrics: OutboxMetrics,
}

/// The result of an attempt to send a message.
#[derive(Debug)]
enum SendOutcome {
    Sent,
    /// The attempt failed at this time.
    Failed {
        /// The attempts with this one.
        tries: MessageAttempts,
        at: Timestamp,
    },
    /// No attempt was made.
    Paused,
}

impl OutboxWork {
    pub fn new(
        (mailing, oracle_health): (NotifierConfig, ActorHandle<OracleHealth>),
        webhooks: WebhookConfig,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: OutboxMetrics,
    ) -> Self {
        let mails = MailSender::of_config(mailing, oracle_health, store.clone(), clock.clone());
        let (mails, webhooks) = (mails.map(Arc::new), Arc::new(WebhookSender::new(webhooks, clock.clone())));
        Self { mails, webhooks, store, log, clock, in_flight: InFlight::default(), metrics }
    }

    /// Sends a message if it is due, and commits the outcome.
    async fn send_due(&self, id: &MessageId) -> WorkOutcome {
        let (message, revision) = match self.store.message(id) {
            Ok(Some(found)) => found,
            Ok(None) => return WorkOutcome::Left,
            Err(error) => {
                tracing::error!(%error, %id, "could not read a message of the outbox; trying again");
                // it still waits, and counts
                return WorkOutcome::Due(
                    self.clock.now().saturating_add(REREAD_PAUSE).unwrap_or(Timestamp::MAX),
                );
            }
        };
        let (now, state) = (self.clock.now(), message.state());
        match state.tries().due_at(now) {
            None => return WorkOutcome::Left,
            Some(due) if due > now => return WorkOutcome::Due(due),
            Some(_) => {}
        }
        let sent = match (&message, &self.mails) {
            (OutboxMessage::Mail(mail), Some(sender)) => sender.send(mail).await,
            (OutboxMessage::Mail(_), None) => SendOutcome::Paused,
            (OutboxMessage::Webhook(webhook), _) => self.webhooks.send(webhook).await,
        };
        let entry = state.entry();
        let (event, write, at, (counted, outcome)): (EventKind, _, _, _) = match sent {
            SendOutcome::Paused => return WorkOutcome::Blocked,
            SendOutcome::Sent => (
                MessageSent { message: entry, attempt: state.tries().attempts.saturating_add(1) }.into(),
                RowWrite::remove::<OutboxMessage>(id),
                self.clock.now(),
                (OutboxOutcome::Sent, WorkOutcome::Left),
            ),
            SendOutcome::Failed { tries, at } => (
                MessageFailed {
                    message: entry,
                    attempt: tries.attempts,
                    cause: tries.last_error.clone().unwrap_or_default(),
                    next_attempt_at: tries.next_attempt_at,
                }
                .into(),
                RowWrite::put(&message.with_tries(tries.clone())),
                at,
                tries.due_at(at).map_or((OutboxOutcome::Dead, WorkOutcome::Left), |due| {
                    (OutboxOutcome::Failed, WorkOutcome::Due(due))
                }),
            ),
        };
        let event = AuditEvent::new(at, state.session_id().cloned(), event);
        let is_current = self.commit_attempt(id, revision, event, write).await;
        if is_current && counted == OutboxOutcome::Dead {
            self.metrics.add_dead(id.channel(), 1);
        }
        self.metrics.count_attempt(&state.entry(), counted);
        if is_current { outcome } else { WorkOutcome::Due(at) }
    }

    /// Commits the outcome of an attempt. Retries until the log accepts the record. Until then the message stays in flight. Only a
    /// restart of the daemon could send it again. Returns false if another message has replaced this one meanwhile: the new one is
    /// checked next, and this attempt is still logged.
    async fn commit_attempt(
        &self,
        id: &MessageId,
        revision: u64,
        event: AuditEvent,
        write: RowWrite,
    ) -> bool {
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<OutboxMessage>(id, Some(revision))],
            events: vec![event.clone()],
            writes: vec![write],
            ..JournalRecord::default()
        };
        if self.log.commit_with_retries(record).await.is_ok() {
            return true;
        }
        let logged = self.log.commit_with_retries(event.into()).await;
        logged.expect("a record that depends on no row is not stale");
        false
    }
}

/// Wakes the notifier for messages that are committed, for as long as the daemon runs. If a report is lost, the next survey finds the
/// message, within a minute.
pub async fn wake_for_committed(
    mut committed: mpsc::Receiver<MessageState>,
    notifier: ActorHandle<Notifier>,
) {
    while let Some(state) = committed.recv().await {
        let (lane, id, due) = (state.receiver(), state.entry().message_id, state.tries().next_attempt_at);
        if let Err(error) = notifier.ask(WakeWork::<OutboxWork> { lane, id, due, unblocks: false }).await {
            tracing::debug!(%error, "could not wake the notifier; the message is sent after the next survey");
        }
    }
}

impl Work for OutboxWork {
    const NAME: &'static str = "messages of the outbox";
    const LIMITS: WorkLimits = WorkLimits {
        at_once: usize::MAX,
        lane_at_once: 4,
        lane_in_memory: LANE_MAX,
        survey_period: Some(SignedDuration::from_secs(60)),
    };
    type Id = MessageId;
    type Lane = MessageReceiver;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn in_flight(&self) -> &InFlight<MessageId> {
        &self.in_flight
    }

    fn is_on(&self, receiver: &MessageReceiver) -> bool {
        // an outcome that cannot be committed would be sent again after a restart
        let is_failed = self.log.report().borrow().failure.is_some();
        // a webhook without an endpoint is an attempt that fails
        !is_failed && (self.mails.is_some() || *receiver != MessageReceiver::Mails)
    }

    fn survey(&self, found: &mut WorkQueue<MessageReceiver, MessageId>) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let mut survey = self.metrics.begin_survey();
        self.store.visit_messages(None, None, |state| {
            let due = state.tries().due_at(now);
            survey.add(&state, due.is_some());
            if let Some(due) = due {
                found.insert(state.receiver(), state.entry().message_id, due);
            }
            true
        })?;
        Ok(self.metrics.end_survey(survey))
    }

    async fn attempt(self, claim: InFlightClaim<MessageId>, _: Addr<Notifier>) -> WorkOutcome {
        self.send_due(&claim.id).await
    }

    fn tick(&self, queue: &mut WorkQueue<MessageReceiver, MessageId>) {
        for channel in [MessageChannel::Mail, MessageChannel::Webhook] {
            let queued = queue.amount_of(|receiver| receiver.channel() == channel);
            self.metrics.publish(channel, queued, self.clock.now());
        }
    }
}
