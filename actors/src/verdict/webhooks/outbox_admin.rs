//! Listing the webhooks of the outbox, actions of administrators, and tests of endpoints.

use super::{ScheduleWebhook, WebhookSender};
use crate::audit::commit_loop::CommitDecision;
use crate::audit::logger::CommitError;
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use oracled_domain::verdict::webhook::{WebhookState, WebhookType};
use oracled_domain::{ApplicationName, AuditEvent, EventKind, OutboxWebhook, PeerCredentials, WebhookId};
use oracled_store::{JournalRecord, RowExpectation, RowKey, StoreError, TableWrite};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum WebhookOutboxError {
    /// The outbox has no such webhook.
    #[error("no webhook {0} is in the outbox")]
    Unknown(WebhookId),
    #[error("webhook {0} is being sent right now, or changed by another request; try again")]
    InFlight(WebhookId),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The task that reads the outbox panicked.
    #[error("the outbox could not be read: {0}")]
    Reading(String),
}

/// Returns webhooks in the order of their ids, the oldest first.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<WebhookState>, WebhookOutboxError>")]
pub struct ListWebhooks {
    /// Only webhooks whose id is greater than this one.
    pub after: Option<WebhookId>,
    /// Maximum number of webhooks.
    pub limit: usize,
    /// Only dead letters.
    pub dead_only: bool,
}

/// An administrator's action on a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookChange {
    /// Requeue the webhook as if it had just been queued.
    Requeue,
    /// Delete the webhook without sending it.
    Drop,
}

/// Requeues or deletes a webhook. Returns its new or last state.
#[derive(Debug, Message)]
#[rtype(result = "Result<WebhookState, WebhookOutboxError>")]
pub struct ChangeWebhook {
    pub webhook_id: WebhookId,
    pub change: WebhookChange,
    /// The administrator.
    pub peer: PeerCredentials,
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

impl Handler<ListWebhooks> for WebhookSender {
    type Result = ResponseFuture<Result<Vec<WebhookState>, WebhookOutboxError>>;

    fn handle(&mut self, request: ListWebhooks, _: &mut Context<Self>) -> Self::Result {
        let store = self.store.clone();
        Box::pin(async move {
            let read = spawn_blocking(move || {
                let mut webhooks = Vec::new();
                store.visit_webhooks(request.after.as_ref(), |standing| {
                    if standing.is_dead() || !request.dead_only {
                        webhooks.push(standing);
                    }
                    webhooks.len() < request.limit
                })?;
                Ok(webhooks)
            });
            read.await.map_err(|panic| WebhookOutboxError::Reading(panic.to_string()))?
        })
    }
}

impl Handler<ChangeWebhook> for WebhookSender {
    type Result = ResponseFuture<Result<WebhookState, WebhookOutboxError>>;

    fn handle(&mut self, request: ChangeWebhook, ctx: &mut Context<Self>) -> Self::Result {
        let ChangeWebhook { webhook_id, change, peer } = request;
        let claim = self.in_flight.claim(webhook_id.clone());
        let (store, log, clock) = (self.store.clone(), self.log.clone(), self.clock.clone());
        let me = ctx.address();
        Box::pin(async move {
            let claim = claim.ok_or_else(|| WebhookOutboxError::InFlight(webhook_id.clone()))?;
            let done = log.decide_and_commit(|| {
                let unknown = || WebhookOutboxError::Unknown(webhook_id.clone());
                let (webhook, revision) = store.webhook(&webhook_id)?.ok_or_else(unknown)?;
                let (now, entry) = (clock.now(), webhook.standing.entry());
                let (event, write, standing) = match change {
                    WebhookChange::Requeue => {
                        let standing = webhook.standing.requeue(now);
                        let webhook = OutboxWebhook { standing: standing.clone(), ..webhook };
                        let event = EventKind::WebhookRequeued { webhook: entry, peer };
                        (event, TableWrite::PutWebhook(Arc::new(webhook)), standing)
                    }
                    WebhookChange::Drop => {
                        let event = EventKind::WebhookDropped { webhook: entry, peer };
                        (event, TableWrite::RemoveWebhook(webhook_id.clone()), webhook.standing)
                    }
                };
                let row = RowKey::Webhook(webhook_id.clone());
                let record = JournalRecord {
                    expect: vec![RowExpectation { row, revision: Some(revision) }],
                    events: vec![AuditEvent::new(now, standing.session_id.clone(), event)],
                    writes: vec![write],
                    ..JournalRecord::default()
                };
                Ok::<_, WebhookOutboxError>(CommitDecision::Change(standing, record))
            });
            let standing = done.await?.0;
            drop(claim);
            me.do_send(ScheduleWebhook {
                webhook_id,
                application: standing.application.clone(),
                due: standing.next_attempt_at.filter(|_| change == WebhookChange::Requeue),
                counts_changed: true,
            });
            Ok(standing)
        })
    }
}

impl Handler<TestWebhook> for WebhookSender {
    type Result = ResponseFuture<WebhookTest>;

    fn handle(&mut self, TestWebhook(application): TestWebhook, _: &mut Context<Self>) -> Self::Result {
        let (client, now) = (Arc::clone(&self.attempts.client), self.clock.now());
        Box::pin(async move {
            let webhook = OutboxWebhook::queued(WebhookType::Test, application, None, &json!({}), now);
            let sent = client.send(&webhook).await;
            let outcome = sent.map(|reply| (reply.status, reply.latency)).map_err(|failure| failure.cause);
            WebhookTest { webhook_id: webhook.standing.webhook_id, outcome }
        })
    }
}
