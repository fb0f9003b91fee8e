//! Queues the webhooks about the events of a record in the commit of the record itself, and reports the messages that it queued.

use actors_audit::logger::handle::RecordAdditions;
use actors_platform::caller::current_trace;
use actors_platform::key_file::random_tag;
use domain_base::event::AuditEvent;
use domain_verdict::event::MessageQueued;
use domain_verdict::outbox::{MessageState, OutboxMessage, StoredMessageHead};
use domain_verdict::webhook::{OutboxWebhook, WebhookReceiver, WebhookState, WebhookType};
use oracled_store::{JournalRecord, RecordCallers, RowWrite};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The most messages whose commit is not yet reported to the notifier. It finds the others by its next survey.
const REPORTED_MAX: usize = 1024;

/// The events that each endpoint of webhooks gets.
type WebhookReceivers = BTreeMap<WebhookReceiver, Vec<WebhookType>>;

/// The receivers of webhooks, and the channel to the notifier.
#[derive(Debug, Clone)]
pub struct OutboxQueue {
    receivers: Arc<WebhookReceivers>,
    committed: mpsc::Sender<MessageState>,
}

impl OutboxQueue {
    /// The queue for the `receivers` that have an endpoint, and the messages that are committed.
    pub fn new(receivers: WebhookReceivers) -> (Self, mpsc::Receiver<MessageState>) {
        let (committed, reported) = mpsc::channel(REPORTED_MAX);
        (Self { receivers: Arc::new(receivers), committed }, reported)
    }

    /// A webhook for each endpoint of its receiver that gets its event.
    fn to_endpoints(&self, webhook: OutboxWebhook) -> Vec<OutboxWebhook> {
        let WebhookState { application, kind, .. } = &webhook.state;
        let is_meant = |(receiver, events): &(&WebhookReceiver, &Vec<WebhookType>)| {
            receiver.application == *application && events.contains(kind)
        };
        let endpoints = self.receivers.iter().filter(is_meant).map(|(receiver, _)| &receiver.endpoint);
        endpoints
            .map(|endpoint| match endpoint {
                None => webhook.clone(),
                Some(endpoint) => webhook.to_endpoint(endpoint.clone(), random_tag()),
            })
            .collect()
    }
}

impl RecordAdditions for OutboxQueue {
    /// Adds the webhooks about the events of `record`.
    fn add_to(&self, mut record: JournalRecord) -> JournalRecord {
        // a record that names the caller of each event has entries of reads, which no webhook reports
        if self.receivers.is_empty() || matches!(record.callers, RecordCallers::Each(_)) {
            return record;
        }
        let reports = record
            .events
            .iter()
            .filter_map(|event| Some((event, OutboxWebhook::of_event(event, random_tag())?)));
        let (events, writes): (Vec<_>, Vec<_>) = reports
            .flat_map(|(event, webhook)| self.to_endpoints(webhook).into_iter().map(move |one| (event, one)))
            .map(|(event, webhook)| {
                let message = OutboxMessage::from(OutboxWebhook { trace: current_trace(), ..webhook });
                let kind = MessageQueued(message.state().entry());
                let queued = AuditEvent::new(event.timestamp, event.session_id.clone(), kind);
                (queued, RowWrite::put(&message))
            })
            .unzip();
        record.events.extend(events);
        record.writes.extend(writes);
        record
    }

    /// Reports the messages that a committed record queued, or queued again, to the notifier.
    fn report_committed(&self, record: &JournalRecord) {
        let writes = record.writes.iter().filter(|write| write.row.key::<OutboxMessage>().is_some());
        let heads =
            writes.filter_map(|write| serde_json::from_slice::<StoredMessageHead>(write.value()?).ok());
        for state in heads.map(MessageState::from).filter(|state| state.tries().attempts == 0) {
            if self.committed.try_send(state).is_err() {
                tracing::debug!("could not report a message; it is sent after the next survey");
            }
        }
    }
}
