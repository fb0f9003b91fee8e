//! One attempt to send a webhook. The outcome is one commit.

use crate::audit::logger::LoggerHandle;
use crate::platform::clock::Clock;
use crate::platform::metrics::{ActorMetrics, MailOutcome};
use crate::upstream::web::webhook::WebhookClient;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::{AuditEvent, EventKind, OutboxWebhook, WebhookId};
use oracled_store::{JournalRecord, RowExpectation, RowKey, Store, TableWrite};
use std::sync::Arc;

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
pub(super) struct WebhookAttempts {
    pub(super) client: Arc<WebhookClient>,
    pub(super) max_age: SignedDuration,
    pub(super) store: Store,
    pub(super) log: LoggerHandle,
    pub(super) clock: Clock,
    pub(super) metrics: ActorMetrics,
}

impl WebhookAttempts {
    /// Sends a webhook if it is due, and commits the outcome. Returns when it is due next, and whether it became a dead
    /// letter.
    pub(super) async fn attempt(&self, webhook_id: &WebhookId) -> (Option<Timestamp>, bool) {
        let (webhook, revision) = match self.store.webhook(webhook_id) {
            Ok(Some(found)) => found,
            Ok(None) => return (None, false),
            Err(error) => {
                tracing::error!(%error, %webhook_id, "could not read a webhook");
                return (None, false);
            }
        };
        let now = self.clock.now();
        match webhook.standing.due_at(now) {
            Some(due) if due <= now => {}
            not_due => return (not_due, false),
        }
        let (kind, entry) = (webhook.standing.kind, webhook.standing.entry());
        let session_id = webhook.standing.session_id.clone();
        let sent = self.client.send(&webhook).await;
        let now = self.clock.now();
        let (event, write, outcome, due) = match sent {
            Ok(_) => {
                let attempt = webhook.standing.attempts.saturating_add(1);
                let event = EventKind::WebhookSent { webhook: entry, attempt };
                (event, TableWrite::RemoveWebhook(webhook_id.clone()), MailOutcome::Sent, None)
            }
            Err(failure) => {
                let standing = webhook.standing.record_failure(&failure, now, self.max_age);
                let due = standing.next_attempt_at;
                let event = EventKind::WebhookFailed {
                    webhook: entry,
                    attempt: standing.attempts,
                    cause: standing.last_error.clone().unwrap_or_default(),
                    next_attempt_at: due,
                };
                let outcome = if due.is_some() { MailOutcome::Failed } else { MailOutcome::Dead };
                (event, TableWrite::PutWebhook(Arc::new(OutboxWebhook { standing, ..webhook })), outcome, due)
            }
        };
        let row = RowKey::Webhook(webhook_id.clone());
        let record = JournalRecord {
            expect: vec![RowExpectation { row, revision: Some(revision) }],
            events: vec![AuditEvent::new(now, session_id, event)],
            writes: vec![write],
            ..JournalRecord::default()
        };
        if self.log.commit_with_retries(record).await.is_err() {
            tracing::error!(%webhook_id, "another record changed a webhook in flight");
        }
        self.metrics.webhooks.count_attempt(kind, outcome);
        (due, outcome == MailOutcome::Dead)
    }
}
