//! Sends webhooks, tests endpoints, and pauses those that fail for days.
//!
//! The row of an outage has the time of its first failure. The endpoint is paused when the attempts of a webhook end and none was accepted for
//! `webhooks.pause_after_s`. Webhooks are still queued then, and wait until an operator resumes the endpoint.

use super::metrics::OutboxOutcome;
use super::{Notifier, OutboxError, SendOutcome, begin_sending};
use actix::{Context, Handler, Message, MessageResult, ResponseFuture};
use actors_audit::logger::LoggerHandle;
use actors_audit::logger::handle::CommitDecision;
use actors_platform::clock::Clock;
use actors_platform::key_file::random_tag;
use actors_platform::work_turn::WorkTurn;
use actors_upstream::Reloadable;
use actors_upstream::web::webhook::WebhookClient;
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, EventKind};
use domain_verdict::outbox::{MessageChannel, MessageState};
use domain_verdict::webhook::{
    EndpointFailed, EndpointPaused, EndpointResumed, OutboxWebhook, WebhookAnswer, WebhookId, WebhookOutage,
    WebhookReceiver, WebhookState, WebhookType,
};
use domain_verdict::wire::EndpointReport;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::spawn_blocking;

/// The settings of webhooks.
#[derive(Debug)]
pub struct WebhookConfig {
    pub client: Reloadable<WebhookClient>,
    /// Maximum age of a webhook that is still retried.
    pub max_age: SignedDuration,
    /// The time without an accepted webhook after which an endpoint is paused.
    pub pause_after: SignedDuration,
}

/// The client of the endpoints, and those that are paused.
#[derive(Debug)]
pub(super) struct WebhookSender {
    config: WebhookConfig,
    paused: Mutex<PausedEndpoints>,
    /// The turns of the outcomes that change an outage, by endpoint.
    turns: Mutex<BTreeMap<WebhookReceiver, Arc<AsyncMutex<()>>>>,
    store: Store,
    clock: Clock,
}

/// A copy of the rows of outages of paused endpoints. In a cluster it can be as old as the last survey.
#[derive(Debug, Default)]
struct PausedEndpoints {
    outages: BTreeMap<WebhookReceiver, WebhookOutage>,
    /// The number of changes by this host. What a survey has read before one of them is out of date.
    changes: u64,
}

impl WebhookSender {
    pub(super) fn new(config: WebhookConfig, store: Store, clock: Clock) -> Self {
        Self { config, paused: Mutex::default(), turns: Mutex::default(), store, clock }
    }

    /// Sends a webhook that is due.
    pub(super) async fn send(&self, webhook: &OutboxWebhook, turn: &WorkTurn) -> SendOutcome {
        // as for mails
        if !turn.is_ours() {
            return SendOutcome::Paused;
        }
        let client = self.config.client.get();
        let mut span =
            begin_sending("send webhook", webhook.state.kind.into_str(), webhook.state.tries.attempts);
        match span.run(client.send(webhook)).await {
            Ok(answer) => {
                span.set("http.response.status_code", u64::from(answer.status));
                SendOutcome::Sent { answer: Some(answer) }
            }
            Err(failure) => {
                span.fail(if failure.is_permanent { "endpoint_gone" } else { "endpoint" });
                let (at, state) = (self.clock.now(), &webhook.state);
                // a clock that was set ahead makes no webhook older
                let set_ahead = self.clock.steps_since(state.tries.tried_since);
                let max_age = self.config.max_age.saturating_add(set_ahead);
                let tries = state.record_failure(&failure, at, max_age).tries;
                SendOutcome::Failed { tries, at, answer: failure.answer }
            }
        }
    }

    /// Commits what the outcome of an attempt changes in the outage of its endpoint. It is a record of its own, since the entry of the attempt
    /// can be that of a session, which an erasure hides. If the commit fails, the next outcome changes the outage.
    pub(super) async fn record_outcome(
        &self,
        webhook: &WebhookState,
        outcome: OutboxOutcome,
        at: Timestamp,
        log: &LoggerHandle,
    ) {
        let receiver = webhook.receiver();
        let _turn = self.wait_for_turn(&receiver).await;
        let stored = self.store.webhook_outage(&receiver).inspect_err(|error| {
            tracing::error!(%error, "the outage of an endpoint of webhooks cannot be read");
        });
        let Ok((stored, revision)) = stored.map(Option::unzip) else { return };
        let (outage, event): (_, EventKind) = if outcome == OutboxOutcome::Sent {
            if stored.is_none() {
                return;
            }
            (None, EndpointResumed { receiver: receiver.clone(), peer: None }.into())
        } else {
            let known = stored.filter(|outage| self.is_present(outage));
            let Some(outage) = self.after_failure(known, &receiver, outcome, at) else { return };
            let (receiver, failing_since) = (receiver.clone(), outage.failing_since);
            let event = match outage.paused_at {
                Some(_) => EndpointPaused { receiver, failing_since }.into(),
                None => EndpointFailed(receiver).into(),
            };
            (Some(outage), event)
        };
        let write =
            outage.as_ref().map_or_else(|| RowWrite::remove::<WebhookOutage>(&receiver), RowWrite::put);
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<WebhookOutage>(&receiver, revision)],
            writes: vec![write],
            ..JournalRecord::from(AuditEvent::new(at, None, event))
        };
        match log.commit(record).await {
            Ok(_) => self.note_outage(receiver, outage),
            Err(error) => tracing::warn!(%error, "the outage of an endpoint of webhooks could not be logged"),
        }
    }

    /// Waits until no outcome changes the outage of an endpoint.
    async fn wait_for_turn(&self, receiver: &WebhookReceiver) -> OwnedMutexGuard<()> {
        let turn = lock(&self.turns).entry(receiver.clone()).or_default().clone();
        turn.lock_owned().await
    }

    /// The outage after a failed attempt; `None` if it stays as it is, or if the endpoint is not configured any longer.
    fn after_failure(
        &self,
        known: Option<WebhookOutage>,
        receiver: &WebhookReceiver,
        outcome: OutboxOutcome,
        at: Timestamp,
    ) -> Option<WebhookOutage> {
        let url_sha256 = self.config.client.get().url_sha256(receiver)?;
        let begun =
            WebhookOutage { receiver: receiver.clone(), url_sha256, failing_since: at, paused_at: None };
        let before = known.clone().unwrap_or(begun);
        let set_ahead = self.clock.steps_since(before.failing_since);
        let pause_after = self.config.pause_after.saturating_add(set_ahead);
        let after = before.after_failure(outcome == OutboxOutcome::Dead, at, pause_after);
        (known.as_ref() != Some(&after)).then_some(after)
    }

    /// Whether the endpoint is configured with the URL that failed.
    fn is_present(&self, outage: &WebhookOutage) -> bool {
        self.config.client.get().url_sha256(&outage.receiver).as_ref() == Some(&outage.url_sha256)
    }

    /// Notes a committed change of an outage.
    fn note_outage(&self, receiver: WebhookReceiver, outage: Option<WebhookOutage>) {
        let mut paused = lock(&self.paused);
        paused.changes += 1;
        match outage.filter(|outage| outage.paused_at.is_some()) {
            Some(outage) => paused.outages.insert(receiver, outage),
            None => paused.outages.remove(&receiver),
        };
    }

    /// Reads from the store which endpoints are paused.
    pub(super) fn read_paused(&self) -> Result<(), StoreError> {
        let changes = lock(&self.paused).changes;
        let outages = self.store.webhook_outages()?.into_iter();
        let outages = outages.filter(|outage| outage.paused_at.is_some() && self.is_present(outage));
        let outages = outages.map(|outage| (outage.receiver.clone(), outage)).collect();
        let mut paused = lock(&self.paused);
        if paused.changes == changes {
            paused.outages = outages;
        }
        Ok(())
    }

    pub(super) fn is_paused(&self, receiver: &WebhookReceiver) -> bool {
        lock(&self.paused).outages.contains_key(receiver)
    }

    /// The configured endpoints with their states. Blocks on disk reads.
    fn report(&self) -> Result<Vec<EndpointReport>, StoreError> {
        let receivers = self.config.client.get().receivers();
        let empty = |(receiver, events)| (receiver, EndpointReport { events, ..EndpointReport::default() });
        let mut reports: BTreeMap<WebhookReceiver, EndpointReport> =
            receivers.into_iter().map(empty).collect();
        self.store.visit_messages(Some(MessageChannel::Webhook), None, |state| {
            if let MessageState::Webhook(webhook) = state
                && let Some(report) = reports.get_mut(&webhook.receiver())
            {
                let count = if webhook.tries.is_dead() { &mut report.dead } else { &mut report.waiting };
                *count += 1;
            }
            true
        })?;
        for outage in self.store.webhook_outages()?.into_iter().filter(|outage| self.is_present(outage)) {
            if let Some(report) = reports.get_mut(&outage.receiver) {
                (report.failing_since, report.paused_at) = (Some(outage.failing_since), outage.paused_at);
            }
        }
        Ok(reports.into_iter().map(|(receiver, report)| EndpointReport { receiver, ..report }).collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lists the endpoints that are paused.
#[derive(Debug, Message)]
#[rtype(result = "Vec<WebhookOutage>")]
pub struct ListPausedEndpoints;

impl Handler<ListPausedEndpoints> for Notifier {
    type Result = MessageResult<ListPausedEndpoints>;

    fn handle(&mut self, ListPausedEndpoints: ListPausedEndpoints, _: &mut Context<Self>) -> Self::Result {
        MessageResult(lock(&self.work.webhooks.paused).outages.values().cloned().collect())
    }
}

/// Sends a test event to an endpoint at once, even if it is paused. It is not retried.
#[derive(Debug, Message)]
#[rtype(result = "WebhookTest")]
pub struct TestWebhook(pub WebhookReceiver);

/// The result of a test.
#[derive(Debug, Clone)]
pub struct WebhookTest {
    pub webhook_id: WebhookId,
    /// The answer, or the cause of the failure.
    pub outcome: Result<WebhookAnswer, String>,
}

impl Handler<TestWebhook> for Notifier {
    type Result = ResponseFuture<WebhookTest>;

    fn handle(&mut self, TestWebhook(receiver): TestWebhook, _: &mut Context<Self>) -> Self::Result {
        let sender = Arc::clone(&self.work.webhooks);
        Box::pin(async move {
            let now = sender.clock.now();
            let id = WebhookId::new(now, random_tag());
            let webhook = OutboxWebhook::queued(id, WebhookType::Test, receiver, None, &json!({}), now);
            let sent = sender.config.client.get().send(&webhook).await;
            let outcome = sent.map_err(|failure| failure.cause.reveal().to_owned());
            WebhookTest { webhook_id: webhook.state.webhook_id, outcome }
        })
    }
}

/// Lists the configured endpoints with their states.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<EndpointReport>, OutboxError>")]
pub struct ListEndpoints;

impl Handler<ListEndpoints> for Notifier {
    type Result = ResponseFuture<Result<Vec<EndpointReport>, OutboxError>>;

    fn handle(&mut self, ListEndpoints: ListEndpoints, _: &mut Context<Self>) -> Self::Result {
        let sender = Arc::clone(&self.work.webhooks);
        Box::pin(async move {
            let report = spawn_blocking(move || sender.report()).await;
            Ok(report.expect("the outbox is read without a panic")?)
        })
    }
}

/// Resumes a paused endpoint. Returns its outage, which ends with the next accepted webhook. Until then, each webhook that becomes a dead
/// letter pauses the endpoint again.
#[derive(Debug, Message)]
#[rtype(result = "Result<WebhookOutage, OutboxError>")]
pub struct ResumeEndpoint {
    pub receiver: WebhookReceiver,
    /// The administrator.
    pub peer: PeerCredentials,
}

impl Handler<ResumeEndpoint> for Notifier {
    type Result = ResponseFuture<Result<WebhookOutage, OutboxError>>;

    fn handle(&mut self, message: ResumeEndpoint, _: &mut Context<Self>) -> Self::Result {
        let ResumeEndpoint { receiver, peer } = message;
        let work = self.work.clone();
        Box::pin(async move {
            let _turn = work.webhooks.wait_for_turn(&receiver).await;
            let decide = || {
                let found = work.store.webhook_outage(&receiver)?;
                let is_paused =
                    |outage: &WebhookOutage| outage.paused_at.is_some() && work.webhooks.is_present(outage);
                let found = found.filter(|(outage, _)| is_paused(outage));
                let not_paused = || OutboxError::NotPaused { receiver: receiver.clone() };
                let (outage, revision) = found.ok_or_else(not_paused)?;
                let outage = WebhookOutage { paused_at: None, ..outage };
                let event = EndpointResumed { receiver: receiver.clone(), peer: Some(peer) };
                let record = JournalRecord {
                    expect: vec![RowExpectation::new::<WebhookOutage>(&receiver, Some(revision))],
                    writes: vec![RowWrite::put(&outage)],
                    ..JournalRecord::from(AuditEvent::new(work.clock.now(), None, event))
                };
                Ok::<_, OutboxError>(CommitDecision::Change(outage, record))
            };
            let (outage, ..) = work.log.decide_and_commit(decide).await?;
            // the next tick starts attempts
            work.webhooks.note_outage(receiver, Some(outage.clone()));
            Ok(outage)
        })
    }
}
