//! Attempts to send a webhook, and tests of endpoints.

use super::{Notifier, SendOutcome};
use actix::{Context, Handler, Message, ResponseFuture};
use actors_platform::caller::run_in_trace;
use actors_platform::clock::Clock;
use actors_platform::unique_id::random_tag;
use actors_upstream::reloadable::Reloadable;
use actors_upstream::web::webhook::WebhookClient;
use domain_base::application::ApplicationName;
use domain_verdict::webhook::{OutboxWebhook, WebhookId, WebhookType};
use jiff::SignedDuration;
use serde_json::json;
use std::time::Duration;

/// The settings of webhooks.
#[derive(Debug)]
pub struct WebhookConfig {
    pub client: Reloadable<WebhookClient>,
    /// Maximum age of a webhook that is still retried.
    pub max_age: SignedDuration,
}

/// The client of the endpoints.
#[derive(Debug, Clone)]
pub(super) struct WebhookSender {
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
    pub(super) fn new(WebhookConfig { client, max_age }: WebhookConfig, clock: Clock) -> Self {
        Self { client, max_age, clock }
    }

    /// Sends a webhook that is due.
    pub(super) async fn send(&self, webhook: &OutboxWebhook) -> SendOutcome {
        let client = self.client.get();
        match run_in_trace(webhook.trace.clone(), client.send(webhook)).await {
            Ok(_) => SendOutcome::Sent,
            Err(failure) => {
                let (at, standing) = (self.clock.now(), &webhook.standing);
                // a clock that was set ahead makes no webhook older
                let set_ahead = self.clock.steps_since(standing.tries.tried_since);
                let max_age = self.max_age.saturating_add(set_ahead);
                SendOutcome::Failed { tries: standing.record_failure(&failure, at, max_age).tries, at }
            }
        }
    }
}

impl Handler<TestWebhook> for Notifier {
    type Result = ResponseFuture<WebhookTest>;

    fn handle(&mut self, TestWebhook(application): TestWebhook, _: &mut Context<Self>) -> Self::Result {
        let WebhookSender { client, clock, .. } = WebhookSender::clone(&self.work.webhooks);
        Box::pin(async move {
            let now = clock.now();
            let id = WebhookId::new(now, random_tag());
            let webhook = OutboxWebhook::queued(id, WebhookType::Test, application, None, &json!({}), now);
            let sent = client.get().send(&webhook).await;
            let outcome = sent.map(|reply| (reply.status, reply.latency)).map_err(|failure| failure.cause);
            WebhookTest { webhook_id: webhook.standing.webhook_id, outcome }
        })
    }
}
