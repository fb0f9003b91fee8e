//! The webhooks about events of the log.

use crate::audit::event::{AuditEvent, EventKind};
use crate::ground::run::RunState;
use crate::verdict::divergence::DivergenceLevel;
use crate::verdict::health::OracleHealthLevel;
use crate::verdict::order::OrderState;
use crate::verdict::webhook::{OutboxWebhook, WebhookId, WebhookType};
use serde_json::{Value, json};

impl AuditEvent {
    /// The webhook that reports the event; `None` if no webhook does. It has no address, no query and no text of a verdict.
    /// `tag` is a random number for its id.
    #[must_use]
    pub fn webhook(&self, tag: u64) -> Option<OutboxWebhook> {
        let id = || WebhookId::new(self.timestamp, tag);
        self.application_webhook(id).or_else(|| {
            let (kind, data) = operators_webhook(&self.kind)?;
            Some(OutboxWebhook::queued(id(), kind, None, self.session_id.clone(), &data, self.timestamp))
        })
    }

    /// The webhook to the application of the event's session, which has the session's id without the application.
    fn application_webhook(&self, id: impl Fn() -> WebhookId) -> Option<OutboxWebhook> {
        let session_id = self.session_id.as_ref()?;
        let (application, local) = (session_id.application(), session_id.local());
        let (kind, data) = match &self.kind {
            EventKind::OrderDelivered { attempts, .. } => (
                WebhookType::OrderDelivered,
                json!({ "application": application, "session_id": local, "attempts": attempts }),
            ),
            EventKind::OrderCancelled { attempts, .. } => (
                WebhookType::OrderCancelled,
                json!({ "application": application, "session_id": local, "attempts": attempts }),
            ),
            EventKind::OrderStopped { state, cause, attempts, .. } => {
                let kind = match state {
                    OrderState::Held => WebhookType::OrderHeld,
                    _ => WebhookType::OrderFailed,
                };
                let data = json!({
                    "application": application,
                    "session_id": local,
                    "cause": cause,
                    "attempts": attempts,
                });
                (kind, data)
            }
            EventKind::RegenDivergenceCheck(check)
                if check.divergence_level.is_some_and(|level| level != DivergenceLevel::None) =>
            {
                let data = json!({
                    "application": application,
                    "session_id": local,
                    "original_verdict": check.original_verdict,
                    "regen_verdict": check.regen_verdict,
                    "divergence_level": check.divergence_level,
                });
                (WebhookType::VerdictDiverged, data)
            }
            _ => return None,
        };
        let session_id = Some(session_id.clone());
        Some(OutboxWebhook::queued(id(), kind, Some(application), session_id, &data, self.timestamp))
    }
}

/// The type and the data of the webhook to operators about an event.
fn operators_webhook(event: &EventKind) -> Option<(WebhookType, Value)> {
    Some(match event {
        EventKind::ReviewOpened(entry) => {
            let workflow_id = &entry.review.workflow_id;
            (WebhookType::ReviewOpened, json!({ "review_id": entry.review_id, "workflow_id": workflow_id }))
        }
        EventKind::IngestionEnded(entry) if entry.run.state == RunState::Held => {
            let run = &entry.run;
            let data = json!({
                "run_id": run.run_id,
                "oracle_id": run.oracle_id,
                "pipeline_id": run.pipeline_id,
            });
            (WebhookType::RunHeld, data)
        }
        EventKind::OracleHealthChanged { oracle_id, from, to, consecutive_failures, .. }
            if *to == OracleHealthLevel::CircuitOpen && from != to =>
        {
            let data = json!({ "oracle_id": oracle_id, "consecutive_failures": consecutive_failures });
            (WebhookType::CircuitOpened, data)
        }
        EventKind::MailFailed { mail_id, kind, attempt, next_attempt_at: None, .. } => {
            (WebhookType::MailDeadLetter, json!({ "mail_id": mail_id, "kind": kind, "attempts": attempt }))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::gate_path::GatePath;
    use crate::verdict::mail::{MailId, MailKind};
    use crate::verdict::order::OrderStopCause;
    use crate::verdict::session::SessionId;
    use jiff::Timestamp;

    fn event(kind: EventKind) -> AuditEvent {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let session_id: SessionId = "shop/cs_1".parse().expect("a valid id");
        AuditEvent::new(at, session_id, kind)
    }

    fn stopped(state: OrderState) -> EventKind {
        EventKind::OrderStopped {
            state,
            cause: OrderStopCause::Expired,
            attempts: 2,
            reason: Some("a private reason".into()),
            user_name: None,
            peer: None,
        }
    }

    #[test]
    fn webhook_of_an_order_names_the_session_without_its_application() {
        let delivered = EventKind::OrderDelivered { path: GatePath::Submit, attempts: 1 };
        let webhook = event(delivered.clone()).webhook(7).expect("an order has a webhook");
        let body: Value = serde_json::from_str(&webhook.body).expect("the body is JSON");
        let expected = json!({
            "type": "order.delivered",
            "timestamp": "2026-11-20T10:00:00Z",
            "data": { "application": "shop", "session_id": "cs_1", "attempts": 1 },
        });
        assert_eq!(body, expected);
        assert_eq!(webhook.standing.application.as_ref().map(ToString::to_string).as_deref(), Some("shop"));
        let delivered_id = webhook.standing.webhook_id;
        let cancelled = EventKind::OrderCancelled {
            from: OrderState::Generating,
            attempts: 1,
            reason: None,
            user_name: None,
            peer: None,
        };
        let webhook = event(cancelled).webhook(7).expect("an order has a webhook");
        assert_eq!(webhook.standing.webhook_id, delivered_id, "nothing of the body is in the id");
        assert_eq!(webhook.standing.kind, WebhookType::OrderCancelled);
        for (state, kind) in
            [(OrderState::Held, WebhookType::OrderHeld), (OrderState::Failed, WebhookType::OrderFailed)]
        {
            let webhook = event(stopped(state)).webhook(7).expect("an order has a webhook");
            assert_eq!(webhook.standing.kind, kind);
            assert!(!webhook.body.contains("private"), "{}", webhook.body);
        }
    }

    #[test]
    fn webhook_of_a_mail_is_for_operators_and_only_of_a_dead_letter() {
        let failed = |next_attempt_at| EventKind::MailFailed {
            mail_id: MailId::verdict(&"cs_1".parse().expect("a valid id")),
            kind: MailKind::Verdict,
            attempt: 3,
            cause: "refused".into(),
            next_attempt_at,
        };
        assert_eq!(event(failed(Some(Timestamp::MAX))).webhook(7), None);
        let webhook = event(failed(None)).webhook(7).expect("a dead letter has a webhook");
        assert_eq!(
            (webhook.standing.kind, webhook.standing.application),
            (WebhookType::MailDeadLetter, None)
        );
    }
}
