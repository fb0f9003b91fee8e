//! Queues the webhooks about the events of a record in the commit of the record itself.

use crate::platform::caller::caller_trace;
use crate::platform::unique_id::random_tag;
use oracled_domain::OutboxWebhook;
use oracled_domain::verdict::event::WebhookQueued;
use oracled_domain::verdict::webhook::WebhookState;
use oracled_domain::{ApplicationName, AuditEvent};
use oracled_store::{JournalRecord, RecordCallers, RowWrite};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The most webhooks whose commit is not yet reported to their sender. It finds the others by its next survey.
const REPORTED_MAX: usize = 1024;

/// The receivers of webhooks, and the channel to their sender.
#[derive(Debug, Clone)]
pub(crate) struct WebhookQueue {
    receivers: Arc<BTreeSet<Option<ApplicationName>>>,
    committed: mpsc::Sender<WebhookState>,
}

impl WebhookQueue {
    /// The queue for the `receivers` that have an endpoint, and the webhooks that are committed.
    pub(crate) fn new(receivers: BTreeSet<Option<ApplicationName>>) -> (Self, mpsc::Receiver<WebhookState>) {
        let (committed, reported) = mpsc::channel(REPORTED_MAX);
        (Self { receivers: Arc::new(receivers), committed }, reported)
    }

    /// `record` with the webhooks about its events.
    pub(super) fn add_webhooks(&self, mut record: JournalRecord) -> JournalRecord {
        // a record that names the caller of each event has entries of reads, which no webhook reports
        if self.receivers.is_empty() || matches!(record.callers, RecordCallers::Each(_)) {
            return record;
        }
        let webhooks: Vec<_> = record
            .events
            .iter()
            .filter_map(|event| Some((event, OutboxWebhook::of_event(event, random_tag())?)))
            .collect();
        let webhooks = webhooks
            .into_iter()
            .filter(|(_, webhook)| self.receivers.contains(&webhook.standing.application));
        let (events, writes): (Vec<_>, Vec<_>) = webhooks
            .map(|(event, webhook)| {
                let kind = WebhookQueued(webhook.standing.entry());
                let queued = AuditEvent::new(event.timestamp, event.session_id.clone(), kind);
                (queued, RowWrite::put(&OutboxWebhook { trace: caller_trace(), ..webhook }))
            })
            .unzip();
        record.events.extend(events);
        record.writes.extend(writes);
        record
    }

    /// Reports the new webhooks of a committed record to their sender.
    pub(super) fn report_committed(&self, record: &JournalRecord) {
        for webhook in record.writes.iter().filter_map(RowWrite::read::<OutboxWebhook>) {
            if webhook.standing.attempts == 0 && self.committed.try_send(webhook.standing).is_err() {
                tracing::debug!("could not report a webhook; it is sent after the next survey");
            }
        }
    }
}
