//! The sender of the webhooks in the outbox.

use crate::audit::logger::{JournalReport, LoggerHandle};
use crate::platform::actor_handle::ActorHandle;
use crate::platform::caller::run_in_trace;
use crate::platform::clock::Clock;
use crate::platform::unique_id::random_tag;
use crate::upstream::reloadable::Reloadable;
use crate::upstream::web::webhook::WebhookClient;
use crate::verdict::outbox::{
    ChangeMessage, ListMessages, OutboxChannel, OutboxMetrics, OutboxSender, OutboxState, OutboxStep,
    SendOutcome, WakeOutbox,
};
use actix::{Context, Handler, Message, ResponseFuture};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::base::row::Row;
use oracled_domain::verdict::event::{WebhookDropped, WebhookFailed, WebhookRequeued, WebhookSent};
use oracled_domain::verdict::webhook::{WebhookState, WebhookType};
use oracled_domain::{ApplicationName, EventKind, OutboxWebhook, SessionId, WebhookId};
use oracled_store::{RowName, RowWrite, Store, StoreError};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;

/// The actor that sends webhooks.
pub type WebhookSender = OutboxSender<WebhookChannel>;
pub type ListWebhooks = ListMessages<WebhookChannel>;
pub type ChangeWebhook = ChangeMessage<WebhookChannel>;

/// The settings of the sender.
#[derive(Debug)]
pub struct WebhookConfig {
    pub client: Reloadable<WebhookClient>,
    /// Maximum age of a webhook that is still retried.
    pub max_age: SignedDuration,
}

/// Webhooks, and the client of their endpoints.
#[derive(Debug)]
pub struct WebhookChannel {
    client: Reloadable<WebhookClient>,
    max_age: SignedDuration,
    clock: Clock,
}

/// Sends a test event to the endpoint of an application, or of operators, at once. It is not retried.
#[derive(Debug, Message)]
#[rtype(result = "WebhookTest")]
pub struct TestWebhook(pub Option<ApplicationName>);

/// The result of a test.
#[derive(Debug, Clone)]
pub struct WebhookTest {
    pub webhook_id: WebhookId,
    /// The status and the time until the answer, or the cause of the failure.
    pub outcome: Result<(u16, Duration), String>,
}

impl WebhookSender {
    pub(crate) fn of_config(
        config: WebhookConfig,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: OutboxMetrics,
    ) -> Self {
        let WebhookConfig { client, max_age } = config;
        Self::new(WebhookChannel { client, max_age, clock: clock.clone() }, store, log, clock, metrics)
    }
}

/// Wakes the sender for webhooks that are committed, for as long as the daemon runs.
pub(crate) async fn wake_for_committed(
    mut committed: mpsc::Receiver<WebhookState>,
    sender: ActorHandle<WebhookSender>,
) {
    while let Some(WebhookState { webhook_id: id, application: receiver, .. }) = committed.recv().await {
        if let Err(error) = sender.ask(WakeOutbox { id, receiver }).await {
            tracing::debug!(%error, "could not wake the sender of webhooks; the webhook is sent after the next survey");
        }
    }
}

impl OutboxState for WebhookState {
    type Id = WebhookId;
    type Receiver = Option<ApplicationName>;

    fn id(&self) -> &WebhookId {
        &self.webhook_id
    }

    fn kind(&self) -> &'static str {
        self.kind.into_str()
    }

    fn receiver(&self) -> Option<ApplicationName> {
        self.application.clone()
    }

    fn session_id(&self) -> Option<SessionId> {
        self.session_id.clone()
    }

    fn queued_at(&self) -> Timestamp {
        self.queued_at
    }

    fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        Self::due_at(self, now)
    }

    fn requeue(&self, now: Timestamp) -> Self {
        Self::requeue(self, now)
    }
}

impl OutboxChannel for WebhookChannel {
    const NAME: &'static str = "webhook";
    type State = WebhookState;
    type Message = OutboxWebhook;

    fn read(store: &Store, id: &WebhookId) -> Result<Option<(OutboxWebhook, u64)>, StoreError> {
        store.webhook(id)
    }

    fn read_state(store: &Store, id: &WebhookId) -> Result<Option<(WebhookState, u64)>, StoreError> {
        store.webhook_standing(id)
    }

    fn visit(
        store: &Store,
        after: Option<&WebhookId>,
        visit: impl FnMut(WebhookState) -> bool,
    ) -> Result<(), StoreError> {
        store.visit_webhooks(after, visit)
    }

    fn state(webhook: &OutboxWebhook) -> &WebhookState {
        &webhook.standing
    }

    fn put(webhook: OutboxWebhook, standing: WebhookState) -> RowWrite {
        RowWrite::put::<OutboxWebhook>(&OutboxWebhook { standing, ..webhook })
    }

    fn remove(id: WebhookId) -> RowWrite {
        RowWrite::remove::<OutboxWebhook>(&id)
    }

    fn row(id: WebhookId) -> RowName {
        RowName::of::<OutboxWebhook>(&id)
    }

    fn event(state: &WebhookState, step: OutboxStep) -> EventKind {
        let webhook = state.entry();
        match step {
            OutboxStep::Sent => WebhookSent { webhook, attempt: state.attempts.saturating_add(1) }.into(),
            OutboxStep::Failed => WebhookFailed {
                webhook,
                attempt: state.attempts,
                cause: state.last_error.clone().unwrap_or_default(),
                next_attempt_at: state.next_attempt_at,
            }
            .into(),
            OutboxStep::Requeued(peer) => WebhookRequeued { webhook, peer }.into(),
            OutboxStep::Dropped(peer) => WebhookDropped { webhook, peer }.into(),
        }
    }

    fn count(report: &JournalReport) -> u64 {
        report.counts.of(OutboxWebhook::TABLE.name)
    }

    fn is_on(&self) -> bool {
        // a webhook without an endpoint is an attempt that fails
        true
    }

    async fn send(&self, webhook: &OutboxWebhook) -> SendOutcome<WebhookState> {
        let client = self.client.get();
        match run_in_trace(webhook.trace.clone(), client.send(webhook)).await {
            Ok(_) => SendOutcome::Sent,
            Err(failure) => {
                let at = self.clock.now();
                let max_age =
                    self.max_age.saturating_add(self.clock.steps_since(webhook.standing.tried_since));
                SendOutcome::Failed { state: webhook.standing.record_failure(&failure, at, max_age), at }
            }
        }
    }
}

impl Handler<TestWebhook> for WebhookSender {
    type Result = ResponseFuture<WebhookTest>;

    fn handle(&mut self, TestWebhook(application): TestWebhook, _: &mut Context<Self>) -> Self::Result {
        let (channel, now) = (self.channel(), self.now());
        Box::pin(async move {
            let id = WebhookId::new(now, random_tag());
            let webhook = OutboxWebhook::queued(id, WebhookType::Test, application, None, &json!({}), now);
            let sent = channel.client.get().send(&webhook).await;
            let outcome = sent.map(|reply| (reply.status, reply.latency)).map_err(|failure| failure.cause);
            WebhookTest { webhook_id: webhook.standing.webhook_id, outcome }
        })
    }
}

crate::platform::actor_handle::handle_actor_calls!(WebhookSender);
