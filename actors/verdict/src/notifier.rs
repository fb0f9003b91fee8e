//! The notifier: sends the mails and webhooks in the outbox, a kind of [`Work`].
//!
//! The outcome of an attempt is one commit with its log entry. A message is sent at least once, under one id at each attempt, and
//! leaves the outbox when its receiver has accepted it. Each receiver is a lane of its own, so that one that does not answer delays
//! no other.

mod metrics;
mod webhooks;

use crate::mail_content::MailRenderer;
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::ActorHandle;
use actors_platform::caller::run_in_trace;
use actors_platform::clock::{Clock, monotonic};
use actors_platform::per_application::PerApplication;
use actors_platform::span::{Span, SpanKind};
use actors_platform::work::{
    InFlight, InFlightClaim, RemoveWork, WakeWork, Work, WorkLimits, WorkOutcome, WorkQueue, WorkRunner,
};
use actors_platform::work_turn::WorkTurn;
use actors_upstream::mail::MailService;
use actors_upstream::oracle_health::{CallLease, OracleHealth, RequestCallPermit};
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::event::{MessageDropped, MessageFailed, MessageRequeued, MessageSent};
use domain_verdict::mail::{MailFailureCause, MailId, MailSendFailure, MessageAttempts, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::outbox::{MessageChannel, MessageId, MessageReceiver, MessageState, OutboxMessage};
use domain_verdict::prompt::TemplateName;
use domain_verdict::webhook::{WebhookAnswer, WebhookReceiver};
use jiff::{SignedDuration, Timestamp};
use metrics::OutboxOutcome;
pub use metrics::{OutboxMetrics, SERIES};
use oracled_store::{JournalRecord, LogQuery, RowExpectation, RowWrite, Store, StoreError};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use webhooks::WebhookSender;
pub use webhooks::{
    ListEndpoints, ListPausedEndpoints, ResumeEndpoint, TestWebhook, WebhookConfig, WebhookTest,
};

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
    turn: WorkTurn,
}

/// The result of an attempt to send a message.
#[derive(Debug)]
enum SendOutcome {
    Sent {
        /// The answer of a webhook's endpoint.
        answer: Option<WebhookAnswer>,
    },
    /// The attempt failed at this time.
    Failed {
        /// The attempts with this one.
        tries: MessageAttempts,
        at: Timestamp,
        /// The answer of a webhook's endpoint, if there was one.
        answer: Option<WebhookAnswer>,
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
        turn: WorkTurn,
    ) -> Self {
        let mails = MailSender::of_config(mailing, oracle_health, &store, clock.clone());
        let webhooks = WebhookSender::new(webhooks, store.clone(), clock.clone());
        let (mails, webhooks) = (mails.map(Arc::new), Arc::new(webhooks));
        Self { mails, webhooks, store, log, clock, in_flight: InFlight::default(), metrics, turn }
    }

    /// Sends a message if it is due, and commits the outcome.
    async fn send_due(&self, id: &MessageId) -> WorkOutcome {
        // another host may have sent it
        if let Err(error) = self.log.catch_up().await {
            tracing::debug!(%error, "the shared log cannot be read; no message is sent");
            return WorkOutcome::Blocked;
        }
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
        let now = self.clock.now();
        match message.state().tries().due_at(now) {
            None => WorkOutcome::Left,
            Some(due) if due > now => WorkOutcome::Due(due),
            Some(_) => run_in_trace(message.trace().cloned(), self.send(id, message, revision)).await,
        }
    }

    async fn send(&self, id: &MessageId, message: OutboxMessage, revision: u64) -> WorkOutcome {
        let state = message.state();
        let sent = match (&message, &self.mails) {
            (OutboxMessage::Mail(mail), Some(sender)) => sender.send(mail, &self.turn).await,
            (OutboxMessage::Mail(_), None) => SendOutcome::Paused,
            (OutboxMessage::Webhook(webhook), _) => self.webhooks.send(webhook, &self.turn).await,
        };
        let entry = state.entry();
        let (event, write, at, (counted, outcome)): (EventKind, _, _, _) = match sent {
            SendOutcome::Paused => return WorkOutcome::Blocked,
            SendOutcome::Sent { answer } => (
                MessageSent { message: entry, attempt: state.tries().attempts.saturating_add(1), answer }
                    .into(),
                RowWrite::remove::<OutboxMessage>(id),
                self.clock.now(),
                (OutboxOutcome::Sent, WorkOutcome::Left),
            ),
            SendOutcome::Failed { tries, at, answer } => (
                MessageFailed {
                    message: entry,
                    attempt: tries.attempts,
                    answer,
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
        if let MessageState::Webhook(webhook) = &state {
            self.webhooks.record_outcome(webhook, counted, at, &self.log).await;
        }
        self.metrics.count_attempt(&state.entry(), counted);
        if is_current { outcome } else { WorkOutcome::Due(at) }
    }

    /// Whether the log has this outcome of an attempt already: in a cluster, the answer of its first commit can be lost.
    fn is_logged(&self, id: &MessageId, revision: u64, event: &AuditEvent) -> bool {
        let query = LogQuery {
            session: event.session_id.clone(),
            events: vec![event.kind.name().to_owned()],
            after: revision,
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let is_same = |entry: LoggedAttempt| {
            entry.message_id == *id && entry.timestamp.as_microsecond() == event.timestamp.as_microsecond()
        };
        let lines =
            self.store.log(&query).inspect_err(|error| tracing::error!(%error, "the log cannot be read"));
        lines.unwrap_or_default().iter().any(|line| self.store.parse_entry(line).is_ok_and(is_same))
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
        let is_logged = || self.is_logged(id, revision, &event);
        if self.log.commit_with_retries(record, is_logged).await.is_ok() {
            return true;
        }
        let logged = self.log.commit_with_retries(event.clone().into(), is_logged).await;
        logged.expect("a record that depends on no row is not stale");
        false
    }
}

/// An entry about an attempt.
#[derive(Deserialize)]
struct LoggedAttempt {
    message_id: MessageId,
    timestamp: Timestamp,
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
        let is_receiving = match receiver {
            MessageReceiver::Mails => self.mails.is_some(),
            MessageReceiver::Webhooks(receiver) => !self.webhooks.is_paused(receiver),
        };
        !is_failed && self.turn.is_ours() && is_receiving
    }

    fn survey(&self, found: &mut WorkQueue<MessageReceiver, MessageId>) -> Result<bool, StoreError> {
        // another host of a cluster may have paused or resumed an endpoint
        self.webhooks.read_paused()?;
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

impl MailSender {
    /// The content of `mail`; `None` for the built-in text.
    ///
    /// # Errors
    /// A failure of this mail, which lasts until its template is corrected.
    async fn render(&self, mail: &OutboxMail) -> Result<Option<MailContent>, MailSendFailure> {
        let (renderer, mail) = (self.renderer.clone(), mail.clone());
        // a rendering may take a second
        let rendered =
            spawn_blocking(move || renderer.find_content(&mail).map_err(|error| error.to_string()));
        let rendered = rendered.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "the rendering of a mail panicked");
            Err("the rendering of the mail failed unexpectedly; see the service log".to_owned())
        });
        rendered.map_err(|cause| MailSendFailure {
            kind: RequestFailureKind::Unusable("template"),
            cause: UpstreamText::new(cause),
            fault: MailFailureCause::Mail,
            retry_after: None,
        })
    }
}

/// The settings of mails.
#[derive(Debug, Clone)]
pub struct NotifierConfig {
    /// The mail service. Without one nothing is sent, and the mails stay in the outbox.
    pub service: Option<Arc<dyn MailService>>,
    /// Maximum age of a mail that is still retried.
    pub max_age: SignedDuration,
    /// The names of the mail templates. Without any, mails have the built-in text.
    pub templates: PerApplication<Vec<TemplateName>>,
    /// The contacts for questions.
    pub contacts: PerApplication<Option<String>>,
}

impl NotifierConfig {
    /// The renderer of mails; `None` if there is no mail service.
    #[must_use]
    pub fn renderer(&self, store: &Store) -> Option<MailRenderer> {
        let Self { templates, contacts, .. } = self;
        self.service.as_ref()?;
        Some(MailRenderer::new(store.clone(), templates.clone(), contacts.clone()))
    }
}

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
struct MailSender {
    service: Arc<dyn MailService>,
    /// The mail service's name among the oracles.
    oracle_id: UpstreamId,
    oracle_health: ActorHandle<OracleHealth>,
    renderer: MailRenderer,
    clock: Clock,
    /// Maximum age of a mail that is retried, and of a notice about a divergence that is sent.
    max_age: SignedDuration,
}

impl MailSender {
    /// `None` if there is no mail service.
    fn of_config(
        mailing: NotifierConfig,
        oracle_health: ActorHandle<OracleHealth>,
        store: &Store,
        clock: Clock,
    ) -> Option<Self> {
        let renderer = mailing.renderer(store)?;
        let NotifierConfig { service, max_age, .. } = mailing;
        let service = service?;
        let oracle_id = service.oracle_id();
        Some(Self { service, oracle_id, oracle_health, renderer, clock, max_age })
    }

    /// Sends a mail that is due.
    async fn send(&self, mail: &OutboxMail, turn: &WorkTurn) -> SendOutcome {
        let now = self.clock.now();
        // a clock that was set ahead makes no mail older
        let max_age = self.max_age.saturating_add(self.clock.steps_since(mail.state.tries.tried_since));
        if let Some(expired) = mail.state.expire(now, max_age) {
            return SendOutcome::Failed { tries: expired.tries, at: now, answer: None };
        }
        let Some(lease) = self.request_permit().await else { return SendOutcome::Paused };
        if lease.is_trial() {
            // some mails have only two attempts: none is used to check whether the service is back
            lease.report(outcome_of_probe(self.service.probe().await));
            return SendOutcome::Paused;
        }
        let rendered = self.render(mail).await;
        // the last moment: after a stall, another host may have the turn, and send it
        if !turn.is_ours() {
            return SendOutcome::Paused;
        }
        let began = monotonic();
        let mut span = begin_sending("send mail", mail.state.kind.into_str(), mail.state.tries.attempts);
        let sent = match rendered {
            Ok(content) => span.run(self.service.send(mail, content.as_ref())).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &sent {
            span.fail(failure.fault.into_str());
        }
        drop(span);
        // a mail service may quote the recipient's address, and its error texts are logged and shown
        let sent = sent.map_err(|failure| failure.hide_address(&mail.state.to));
        let outcome = outcome_of_attempt(&sent, mail.state.tries.attempts, began.elapsed());
        lease.report_for(Some(mail.state.session_id.clone()), outcome);
        match sent {
            Ok(()) => SendOutcome::Sent { answer: None },
            Err(failure) => {
                let at = self.clock.now();
                let tries = mail.state.record_failure(&failure, at, max_age).tries;
                SendOutcome::Failed { tries, at, answer: None }
            }
        }
    }

    async fn request_permit(&self) -> Option<CallLease> {
        match self.oracle_health.ask(RequestCallPermit(self.oracle_id.clone())).await {
            Ok(Ok(lease)) => return Some(lease),
            Ok(Err(error)) => tracing::debug!(%error, "no mail is sent for now"),
            Err(error) => tracing::warn!(%error, "no mail is sent for now"),
        }
        None
    }
}

/// The span of an attempt to send a message, after `attempts` others.
fn begin_sending(name: &'static str, kind: &'static str, attempts: u32) -> Span {
    let mut span = Span::child(SpanKind::Client, name);
    span.set("oracled.message", kind);
    span.set("oracled.attempt", u64::from(attempts.saturating_add(1)));
    span
}

/// The outcome to report for a probe that was made in place of a mail. A service that answers but does not support the
/// probe counts as available. Otherwise no mail would ever be sent again.
fn outcome_of_probe(probed: CircuitCallOutcome) -> CircuitCallOutcome {
    match probed {
        CircuitCallOutcome::Neutral => CircuitCallOutcome::Success { latency_ms: None },
        outcome => outcome,
    }
}

/// The effect of an attempt on the mail service's health. A fault of the mail itself has no effect, and neither has a
/// further failure of a mail that failed before: a single mail must not open the circuit for all others.
fn outcome_of_attempt(
    sent: &Result<(), MailSendFailure>,
    attempts_before: u32,
    took: Duration,
) -> CircuitCallOutcome {
    match sent {
        Ok(()) => CircuitCallOutcome::Success {
            latency_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        },
        Err(failure) if failure.fault != MailFailureCause::Service || attempts_before > 0 => {
            CircuitCallOutcome::Neutral
        }
        Err(failure) => CircuitCallOutcome::Failure(failure.kind),
    }
}

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The outbox has no such message.
    #[error("no {} {id} is in the outbox", id.channel().into_str())]
    Unknown { id: MessageId },
    #[error("{} {id} is being sent, or changed by another request; try again", id.channel().into_str())]
    InFlight { id: MessageId },
    #[error("webhooks to {} are not paused", receiver.describe())]
    NotPaused { receiver: WebhookReceiver },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// An administrator's action on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxAction {
    /// Requeue the message as if it had just been queued, a mail with the present address of its session.
    Requeue,
    /// Delete the message without sending it.
    Drop,
}

/// Requeues or deletes a message. Returns its new or last state.
#[derive(Debug, Message)]
#[rtype(result = "Result<MessageState, OutboxError>")]
pub struct ChangeMessage {
    pub id: MessageId,
    pub action: OutboxAction,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Holds messages back, so that the commit that removes their session can remove them, too.
#[derive(Debug, Message)]
#[rtype(result = "Result<HeldMessages, OutboxError>")]
pub struct HoldMessages(pub Vec<MessageId>);

/// Waits until the attempts that are in progress now have ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AwaitMessages;

/// Messages that are not sent until this is dropped.
#[derive(Debug)]
pub struct HeldMessages {
    claims: Vec<InFlightClaim<MessageId>>,
    work: OutboxWork,
    notifier: Addr<Notifier>,
}

impl HeldMessages {
    /// Adds the removal of the held messages that are in the outbox to `record`, and returns their last states.
    pub(crate) fn put_removal(
        &self,
        record: &mut JournalRecord,
        peer: PeerCredentials,
        now: Timestamp,
    ) -> Result<Vec<MessageState>, StoreError> {
        let mut removed = Vec::new();
        for InFlightClaim { id, .. } in &self.claims {
            let Some((state, revision)) = self.work.store.message_state(id)? else { continue };
            add_removal(record, (&state, revision), peer, now);
            removed.push(state);
        }
        Ok(removed)
    }

    /// Whether all of these messages are held.
    pub(crate) fn has_all(&self, ids: &[MessageId]) -> bool {
        ids.iter().all(|id| self.claims.iter().any(|claim| claim.id == *id))
    }

    /// Takes messages out of the queue that the commit removed.
    pub(crate) fn end_removed(self, removed: &[MessageState]) {
        removed.iter().for_each(|state| self.work.end_dropped(state, &self.notifier));
    }
}

impl OutboxWork {
    fn claim(&self, id: MessageId) -> Result<InFlightClaim<MessageId>, OutboxError> {
        self.in_flight.claim(id.clone()).ok_or(OutboxError::InFlight { id })
    }

    /// Takes a message out of the queue that was removed from the outbox.
    fn end_dropped(&self, state: &MessageState, notifier: &Addr<Notifier>) {
        self.count_changed(state);
        notifier.do_send(RemoveWork::<Self>(state.entry().message_id));
    }

    fn count_changed(&self, before: &MessageState) {
        if before.tries().is_dead() {
            self.metrics.add_dead(before.entry().message_id.channel(), -1);
        }
    }

    /// The message to the session's address of now: an operator may have corrected it.
    fn with_present_address(&self, mut message: OutboxMessage) -> Result<OutboxMessage, StoreError> {
        if let OutboxMessage::Mail(mail) = &mut message {
            let session = match self.store.session(&mail.state.session_id) {
                Err(StoreError::RowLost { .. }) => None,
                session => session?,
            };
            if let Some(address) = session.and_then(|(session, _)| session.customer_email) {
                mail.state.to = address;
            }
        }
        Ok(message)
    }

    /// The record that makes a change, with the state before it and after it.
    fn build_change(
        &self,
        ChangeMessage { id, action, peer }: &ChangeMessage,
    ) -> Result<(MessageState, MessageState, JournalRecord), OutboxError> {
        let now = self.clock.now();
        let unknown = || OutboxError::Unknown { id: id.clone() };
        let mut record = JournalRecord::default();
        let (before, after) = match action {
            OutboxAction::Requeue => {
                let (message, revision) = self.store.message(id)?.ok_or_else(unknown)?;
                let before = message.state();
                let message = self.with_present_address(message)?.with_tries(before.tries().requeued(now));
                let requeued = MessageRequeued { message: before.entry(), peer: *peer };
                add_change(&mut record, (&before, revision), requeued, RowWrite::put(&message), now);
                (before, message.state())
            }
            OutboxAction::Drop => {
                let (before, revision) = self.store.message_state(id)?.ok_or_else(unknown)?;
                add_removal(&mut record, (&before, revision), *peer, now);
                (before.clone(), before)
            }
        };
        // the id of a webhook also has the form of a mail's
        if before.entry().message_id == *id { Ok((before, after, record)) } else { Err(unknown()) }
    }
}

/// Adds the removal of a message, and its entry, to `record`.
fn add_removal(
    record: &mut JournalRecord,
    (state, revision): (&MessageState, u64),
    peer: PeerCredentials,
    now: Timestamp,
) {
    let message = state.entry();
    let write = RowWrite::remove::<OutboxMessage>(&message.message_id);
    add_change(record, (state, revision), MessageDropped { message, peer }, write, now);
}

/// Adds a change of a message, and its entry, to `record`.
fn add_change(
    record: &mut JournalRecord,
    (state, revision): (&MessageState, u64),
    event: impl Into<EventKind>,
    write: RowWrite,
    now: Timestamp,
) {
    let id = state.entry().message_id;
    record.expect.push(RowExpectation::new::<OutboxMessage>(&id, Some(revision)));
    record.events.push(AuditEvent::new(now, state.session_id().cloned(), event));
    record.writes.push(write);
}

/// The mails of a session that are still in the outbox.
///
/// # Errors
/// The outbox cannot be read.
pub fn queued_mails(store: &Store, session_id: &SessionId) -> Result<Vec<MessageId>, StoreError> {
    let verdict = MessageId::Mail(MailId::verdict(session_id));
    let state = match store.message_state(&verdict) {
        Err(StoreError::RowLost { .. }) => None,
        state => state?,
    };
    let mut mails: Vec<_> = state.map(|_| verdict).into_iter().collect();
    for prefix in MailId::notice_prefixes(session_id) {
        store.visit_messages(None, Some(&prefix.clone().into()), |state| {
            let id = state.entry().message_id;
            let has_prefix = id.to_string().starts_with(prefix.as_str());
            if has_prefix && state.session_id() == Some(session_id) {
                mails.push(id);
            }
            has_prefix
        })?;
    }
    Ok(mails)
}

impl Handler<ChangeMessage> for Notifier {
    type Result = ResponseFuture<Result<MessageState, OutboxError>>;

    fn handle(&mut self, change: ChangeMessage, ctx: &mut Context<Self>) -> Self::Result {
        let me = ctx.address();
        let (claim, work) = (self.work.claim(change.id.clone()), self.work.clone());
        Box::pin(async move {
            let claim = claim?;
            let decide = || {
                let (before, after, record) = work.build_change(&change)?;
                Ok::<_, OutboxError>(CommitDecision::Change((before, after), record))
            };
            let (before, after) = work.log.decide_and_commit(decide).await?.0;
            match change.action {
                OutboxAction::Requeue => work.count_changed(&before),
                OutboxAction::Drop => work.end_dropped(&before, &me),
            }
            drop(claim);
            Ok(after)
        })
    }
}

impl Handler<HoldMessages> for Notifier {
    type Result = Result<HeldMessages, OutboxError>;

    fn handle(&mut self, HoldMessages(ids): HoldMessages, ctx: &mut Context<Self>) -> Self::Result {
        let claims = ids.into_iter().map(|id| self.work.claim(id)).collect::<Result<_, _>>()?;
        Ok(HeldMessages { claims, work: self.work.clone(), notifier: ctx.address() })
    }
}

impl Handler<AwaitMessages> for Notifier {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, AwaitMessages: AwaitMessages, _: &mut Context<Self>) -> Self::Result {
        let in_flight = self.work.in_flight.clone();
        Box::pin(async move { in_flight.wait_for_present(|_| true).await })
    }
}
