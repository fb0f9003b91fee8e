//! The webhooks about events of the log.

use crate::webhook::{OutboxWebhook, WebhookId, WebhookType};
use domain_base::event::{AuditEvent, EventNotice};

impl OutboxWebhook {
    /// The webhook that reports the event; `None` if no webhook does. `tag` is a random number for its id.
    #[must_use]
    pub fn of_event(event: &AuditEvent, tag: u64) -> Option<Self> {
        let EventNotice { kind, application, data } = event.notice()?;
        let (id, kind) = (WebhookId::new(event.timestamp, tag), WebhookType::of(kind)?);
        let session_id = event.session_id.clone();
        Some(Self::queued(id, kind, application, session_id, &data, event.timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{MessageFailed, OrderCancelled, OrderDelivered, OrderStopped};
    use crate::mail::{MailId, MailKind};
    use crate::order::{OrderState, OrderStopCause};
    use crate::outbox::{MessageEntry, MessageKind};
    use domain_base::event::EventKind;
    use domain_base::gate_path::GatePath;
    use domain_base::session_id::SessionId;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn event(kind: EventKind) -> AuditEvent {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let session_id: SessionId = "shop/cs_1".parse().expect("a valid id");
        AuditEvent::new(at, session_id, kind)
    }

    fn stopped(state: OrderState) -> EventKind {
        OrderStopped {
            state,
            cause: OrderStopCause::Expired,
            attempts: 2,
            reason: Some("a private reason".into()),
            user_name: None,
            peer: None,
        }
        .into()
    }

    #[test]
    fn webhook_of_an_order_names_the_session_without_its_application() {
        let delivered = OrderDelivered { path: GatePath::Submit, attempts: 1 };
        let webhook =
            OutboxWebhook::of_event(&event(delivered.clone().into()), 7).expect("an order has a webhook");
        let body: Value = serde_json::from_str(&webhook.body).expect("the body is JSON");
        let expected = json!({
            "type": "order.delivered",
            "timestamp": "2026-11-20T10:00:00Z",
            "data": { "application": "shop", "session_id": "cs_1", "attempts": 1 },
        });
        assert_eq!(body, expected);
        assert_eq!(webhook.standing.application.as_ref().map(ToString::to_string).as_deref(), Some("shop"));
        let delivered_id = webhook.standing.webhook_id;
        let cancelled = OrderCancelled {
            from: OrderState::Generating,
            attempts: 1,
            reason: None,
            user_name: None,
            peer: None,
        };
        let webhook = OutboxWebhook::of_event(&event(cancelled.into()), 7).expect("an order has a webhook");
        assert_eq!(webhook.standing.webhook_id, delivered_id, "nothing of the body is in the id");
        assert_eq!(webhook.standing.kind, WebhookType::OrderCancelled);
        for (state, kind) in
            [(OrderState::Held, WebhookType::OrderHeld), (OrderState::Failed, WebhookType::OrderFailed)]
        {
            let webhook = OutboxWebhook::of_event(&event(stopped(state)), 7).expect("an order has a webhook");
            assert_eq!(webhook.standing.kind, kind);
            assert!(!webhook.body.contains("private"), "{}", webhook.body);
        }
    }

    #[test]
    fn webhook_of_a_mail_is_for_operators_and_only_of_a_dead_letter() {
        let failed = |next_attempt_at| MessageFailed {
            message: MessageEntry {
                message_id: MailId::verdict(&"cs_1".parse().expect("a valid id")).into(),
                kind: MessageKind::Mail(MailKind::Verdict),
                application: None,
            },
            attempt: 3,
            cause: "refused".into(),
            next_attempt_at,
        };
        assert_eq!(OutboxWebhook::of_event(&event(failed(Some(Timestamp::MAX)).into()), 7), None);
        let webhook =
            OutboxWebhook::of_event(&event(failed(None).into()), 7).expect("a dead letter has a webhook");
        assert_eq!(
            (webhook.standing.kind, webhook.standing.application),
            (WebhookType::MailDeadLetter, None)
        );
    }
}
