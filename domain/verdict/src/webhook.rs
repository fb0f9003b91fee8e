//! Webhooks: messages to applications and operators, by the Standard Webhooks scheme, with their retries.

use crate::mail::MessageAttempts;
use domain_base::caller::{PeerCredentials, TraceContext};
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EntryMembers, Event, EventClass, EventNotice};
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::session_id::{ApplicationName, SessionId, text_conversions};
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::ParseTextError;
use domain_ground::id::EndpointId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use strum::{IntoStaticStr, VariantArray};

/// The event that a webhook reports.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[strum(const_into_str)]
pub enum WebhookType {
    /// The verdict of an order was delivered.
    #[serde(rename = "order.delivered")]
    #[strum(serialize = "order.delivered")]
    OrderDelivered,
    /// An order was held.
    #[serde(rename = "order.held")]
    #[strum(serialize = "order.held")]
    OrderHeld,
    /// An order failed.
    #[serde(rename = "order.failed")]
    #[strum(serialize = "order.failed")]
    OrderFailed,
    /// The application or an operator cancelled an order.
    #[serde(rename = "order.cancelled")]
    #[strum(serialize = "order.cancelled")]
    OrderCancelled,
    /// A regenerated verdict has another label than the first one.
    #[serde(rename = "verdict.diverged")]
    #[strum(serialize = "verdict.diverged")]
    VerdictDiverged,
    /// A source changed statements that a delivered verdict relied on.
    #[serde(rename = "verdict.recalled")]
    #[strum(serialize = "verdict.recalled")]
    VerdictRecalled,
    /// A review was opened.
    #[serde(rename = "review.opened")]
    #[strum(serialize = "review.opened")]
    ReviewOpened,
    /// An ingestion run was held.
    #[serde(rename = "run.held")]
    #[strum(serialize = "run.held")]
    RunHeld,
    /// The circuit of an oracle opened, or it rejects every call.
    #[serde(rename = "circuit.opened")]
    #[strum(serialize = "circuit.opened")]
    CircuitOpened,
    /// An oracle takes calls again.
    #[serde(rename = "circuit.closed")]
    #[strum(serialize = "circuit.closed")]
    CircuitClosed,
    /// A mail became a dead letter.
    #[serde(rename = "mail.dead_letter")]
    #[strum(serialize = "mail.dead_letter")]
    MailDeadLetter,
    /// An endpoint failed for so long that it gets no further webhooks until an operator resumes it.
    #[serde(rename = "endpoint.paused")]
    #[strum(serialize = "endpoint.paused")]
    EndpointPaused,
    /// An operator tests the endpoint.
    #[serde(rename = "webhook.test")]
    #[strum(serialize = "webhook.test")]
    Test,
}

impl WebhookType {
    /// Whether operators receive it, and no application. Both can test their endpoints.
    #[must_use]
    pub const fn is_for_operators(self) -> bool {
        match self {
            Self::OrderDelivered
            | Self::OrderHeld
            | Self::OrderFailed
            | Self::OrderCancelled
            | Self::VerdictDiverged
            | Self::VerdictRecalled => false,
            Self::ReviewOpened
            | Self::RunHeld
            | Self::CircuitOpened
            | Self::CircuitClosed
            | Self::MailDeadLetter
            | Self::EndpointPaused
            | Self::Test => true,
        }
    }

    /// The events that are queued for operators, or for an application.
    pub fn queued_for(is_of_operators: bool) -> impl Iterator<Item = Self> {
        let is_meant =
            move |event: &Self| event.is_for_operators() == is_of_operators && *event != Self::Test;
        Self::VARIANTS.iter().copied().filter(is_meant)
    }

    /// The type with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|kind| kind.into_str() == name)
    }
}

/// The id of a webhook: the same for all attempts, and different for every other webhook. Ids sort by time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^msg_[0-9a-f]{32}$")]
pub struct WebhookId(String);

impl WebhookId {
    pub const PREFIX: &str = "msg_";
    const HEX_CHARS: usize = 32;

    /// The id of a webhook that is caused at `at`. `tag` is a random number: a digest of the body would let a reader of the log
    /// confirm a guess of an erased session.
    #[must_use]
    pub fn new(at: Timestamp, tag: u64) -> Self {
        Self(format!("{}{:016x}{tag:016x}", Self::PREFIX, at.as_microsecond().max(0)))
    }
}

impl TryFrom<String> for WebhookId {
    type Error = ParseTextError;

    fn try_from(text: String) -> Result<Self, ParseTextError> {
        let is_hex = |hex: &str| {
            hex.len() == Self::HEX_CHARS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        if text.strip_prefix(Self::PREFIX).is_some_and(is_hex) {
            return Ok(Self(text));
        }
        Err(ParseTextError::new("the id of a webhook", &text, "`msg_` and 32 of `0-9 a-f`"))
    }
}

text_conversions! { WebhookId }

/// An endpoint of webhooks.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
pub struct WebhookReceiver {
    /// The application that receives its webhooks; absent for operators.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub application: Option<ApplicationName>,
    /// The id of the endpoint; absent for the first one of the application or of operators.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub endpoint: Option<EndpointId>,
}

impl WebhookReceiver {
    /// The first endpoint of an application, or of operators.
    #[must_use]
    pub const fn first_of(application: Option<ApplicationName>) -> Self {
        Self { application, endpoint: None }
    }

    /// For people: `operators`, `application shop`, or `application shop, endpoint crm`.
    #[must_use]
    pub fn describe(&self) -> String {
        let receiver = match &self.application {
            Some(name) => format!("application {name}"),
            None => "operators".to_owned(),
        };
        match &self.endpoint {
            Some(endpoint) => format!("{receiver}, endpoint {endpoint}"),
            None => receiver,
        }
    }
}

impl fmt::Display for WebhookReceiver {
    /// `APPLICATION/ENDPOINT`, either of which can be empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let application = self.application.as_ref().map_or("", ApplicationName::as_str);
        write!(f, "{application}/{}", self.endpoint.as_ref().map_or("", EndpointId::as_str))
    }
}

/// An endpoint that has accepted no webhook since an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookOutage {
    #[serde(flatten)]
    pub receiver: WebhookReceiver,
    /// The SHA-256 of its URL. The outage of an endpoint with another URL counts no longer.
    pub url_sha256: Sha256Hex,
    /// When the first attempt failed.
    pub failing_since: Timestamp,
    /// Since when nothing is sent to it; null if webhooks are still sent.
    pub paused_at: Option<Timestamp>,
}

impl WebhookOutage {
    /// The outage after a further failure at `now`. It is paused if the failure ended the attempts of a webhook, and if every attempt has
    /// failed for at least `pause_after`.
    #[must_use]
    pub fn after_failure(self, is_dead: bool, now: Timestamp, pause_after: SignedDuration) -> Self {
        let is_long = now.duration_since(self.failing_since) >= pause_after;
        let paused_at = self.paused_at.or_else(|| (is_dead && is_long).then_some(now));
        Self { paused_at, ..self }
    }
}

impl Row for WebhookOutage {
    type Key = WebhookReceiver;
    const TABLE: &'static Table = &Table {
        name: "webhook_outages",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for WebhookOutage {
    fn key(&self) -> WebhookReceiver {
        self.receiver.clone()
    }
}

/// An attempt to send a webhook failed, and the endpoint had accepted the one before, or none was sent before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EndpointFailed(pub WebhookReceiver);

impl Event for EndpointFailed {
    const NAME: &'static str = "endpoint_failed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        summarize_receiver(entry)
    }
}

/// An endpoint gets no further webhooks, because it accepted none for `webhooks.pause_after_s`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EndpointPaused {
    #[serde(flatten)]
    pub receiver: WebhookReceiver,
    /// When the first attempt failed.
    pub failing_since: Timestamp,
}

impl Event for EndpointPaused {
    const NAME: &'static str = "endpoint_paused";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{}: failing since {}", summarize_receiver(entry), entry.text("failing_since"))
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        Some(EventNotice::to_operators(WebhookType::EndpointPaused.into_str(), json!(self)))
    }
}

/// An endpoint accepted a webhook again after failed ones, or an administrator resumed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EndpointResumed {
    #[serde(flatten)]
    pub receiver: WebhookReceiver,
    /// The administrator's process; null if the endpoint accepted a webhook again.
    pub peer: Option<PeerCredentials>,
}

impl Event for EndpointResumed {
    const NAME: &'static str = "endpoint_resumed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let by =
            if entry.text("peer").is_empty() { "by an accepted webhook".to_owned() } else { entry.by_peer() };
        format!("{} {by}", summarize_receiver(entry))
    }
}

fn summarize_receiver(entry: EntryMembers<'_>) -> String {
    let receiver = entry.words(&["application", "endpoint"]);
    if receiver.is_empty() { "operators".to_owned() } else { receiver }
}

/// The state of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookState {
    /// The id of the webhook.
    pub webhook_id: WebhookId,
    /// The event that it reports.
    pub kind: WebhookType,
    /// The application that receives it; null for operators.
    pub application: Option<ApplicationName>,
    /// The endpoint that receives it; absent for the first one of the application or of operators.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub endpoint: Option<EndpointId>,
    /// The session of the event; null if it has none.
    pub session_id: Option<SessionId>,
    /// The review, the run or the oracle of the event; absent if it has a session, or none of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub subject: Option<String>,
    #[serde(flatten)]
    pub tries: MessageAttempts,
}

/// A webhook in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxWebhook {
    pub state: WebhookState,
    /// The body of the request, as it is signed.
    pub body: String,
    /// The trace of the request that caused the event; absent if it had none, or if no request caused it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<TraceContext>,
}

/// The answer of an endpoint to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Milliseconds from the start of the attempt until the answer.
    pub latency_ms: u64,
}

/// Why an attempt to send a webhook failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSendFailure {
    pub cause: UpstreamText,
    /// The answer; `None` if there was none.
    pub answer: Option<WebhookAnswer>,
    /// Whether each further attempt would fail, too.
    pub is_permanent: bool,
    /// The wait that the endpoint requested.
    pub retry_after: Option<SignedDuration>,
}

/// The subject of an event for operators, by a member of its data.
fn subject_of(data: &Value) -> Option<String> {
    let members = [("review_id", "review"), ("run_id", "run"), ("oracle_id", "oracle")];
    members.into_iter().find_map(|(member, word)| Some(format!("{word} {}", data.get(member)?.as_str()?)))
}

impl OutboxWebhook {
    /// The webhook about an event at `at`, queued at once.
    #[must_use]
    pub fn queued(
        webhook_id: WebhookId,
        kind: WebhookType,
        receiver: WebhookReceiver,
        session_id: Option<SessionId>,
        data: &Value,
        at: Timestamp,
    ) -> Self {
        let body = json!({ "type": kind.into_str(), "timestamp": at, "data": data }).to_string();
        let tries = MessageAttempts::queued(at);
        let WebhookReceiver { application, endpoint } = receiver;
        let subject = if session_id.is_none() { subject_of(data) } else { None };
        let state = WebhookState { webhook_id, kind, application, endpoint, session_id, subject, tries };
        Self { state, body, trace: None }
    }
}

impl WebhookState {
    /// For people: `Webhook review.opened of review v-1 to operators`.
    #[must_use]
    pub fn describe(&self) -> String {
        let session = self.session_id.as_ref().map(|session_id| format!("session {session_id}"));
        let of = session.or_else(|| self.subject.clone()).map(|of| format!(" of {of}")).unwrap_or_default();
        format!("Webhook {}{of} to {}", self.kind.into_str(), self.receiver().describe())
    }

    #[must_use]
    pub fn receiver(&self) -> WebhookReceiver {
        WebhookReceiver { application: self.application.clone(), endpoint: self.endpoint.clone() }
    }

    /// The state of the webhook after a failed attempt at `now`: to be retried, or dead.
    ///
    /// It is retried after 2 s, 4 s, 8 s and so on up to 15 minutes, or after the requested wait if that is longer, up to
    /// 1 hour. Retries end when the webhook would be older than `max_age`.
    #[must_use]
    pub fn record_failure(
        &self,
        failure: &WebhookSendFailure,
        now: Timestamp,
        max_age: SignedDuration,
    ) -> Self {
        let pause = self.tries.next_pause(now, failure.retry_after, max_age);
        let pause = pause.filter(|_| !failure.is_permanent);
        Self { tries: self.tries.failed(&failure.cause, pause, now), ..self.clone() }
    }
}

impl OutboxWebhook {
    /// The webhook that reports the event; `None` if no webhook does. `tag` is a random number for its id.
    #[must_use]
    pub fn of_event(event: &AuditEvent, tag: u64) -> Option<Self> {
        let EventNotice { kind, application, data } = event.notice()?;
        let (id, kind) = (WebhookId::new(event.timestamp, tag), WebhookType::of(kind)?);
        let (session_id, receiver) = (event.session_id.clone(), WebhookReceiver::first_of(application));
        Some(Self::queued(id, kind, receiver, session_id, &data, event.timestamp))
    }

    /// The same report to a further endpoint of its receiver. `tag` is a random number for its id.
    #[must_use]
    pub fn to_endpoint(&self, endpoint: EndpointId, tag: u64) -> Self {
        let webhook_id = WebhookId::new(self.state.tries.queued_at, tag);
        Self {
            state: WebhookState { webhook_id, endpoint: Some(endpoint), ..self.state.clone() },
            ..self.clone()
        }
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
        assert_eq!(webhook.state.application.as_ref().map(ToString::to_string).as_deref(), Some("shop"));
        let delivered_id = webhook.state.webhook_id;
        let cancelled = OrderCancelled {
            from: OrderState::Generating,
            attempts: 1,
            reason: None,
            user_name: None,
            peer: None,
        };
        let webhook = OutboxWebhook::of_event(&event(cancelled.into()), 7).expect("an order has a webhook");
        assert_eq!(webhook.state.webhook_id, delivered_id, "nothing of the body is in the id");
        assert_eq!(webhook.state.kind, WebhookType::OrderCancelled);
        for (state, kind) in
            [(OrderState::Held, WebhookType::OrderHeld), (OrderState::Failed, WebhookType::OrderFailed)]
        {
            let webhook = OutboxWebhook::of_event(&event(stopped(state)), 7).expect("an order has a webhook");
            assert_eq!(webhook.state.kind, kind);
            assert!(!webhook.body.contains("private"), "{}", webhook.body);
        }
    }

    #[test]
    fn webhook_names_its_session_or_its_subject() {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let describe = |session_id: Option<SessionId>, data: Value| {
            let (id, receiver) = (WebhookId::new(at, 7), WebhookReceiver::first_of(None));
            OutboxWebhook::queued(id, WebhookType::RunHeld, receiver, session_id, &data, at).state.describe()
        };
        let run = json!({"run_id": "a8", "oracle_id": "office-a"});
        assert_eq!(describe(None, run.clone()), "Webhook run.held of run a8 to operators");
        let session_id: SessionId = "shop/cs_1".parse().expect("a valid id");
        assert_eq!(describe(Some(session_id), run), "Webhook run.held of session shop/cs_1 to operators");
        assert_eq!(describe(None, json!({})), "Webhook run.held to operators");
    }

    #[test]
    fn resumed_endpoint_names_the_operator_or_the_accepted_webhook() {
        let summary = |peer: Value| {
            let entry = json!({"application": "shop", "endpoint": "crm", "peer": peer});
            EndpointResumed::summary(EntryMembers(&entry))
        };
        assert_eq!(summary(Value::Null), "shop crm by an accepted webhook");
        let peer = json!({"uid": 1, "gid": 2, "pid": 3});
        assert_eq!(summary(peer), "shop crm by uid 1 gid 2 pid 3");
    }

    #[test]
    fn webhook_of_a_mail_is_for_operators_and_only_of_a_dead_letter() {
        let failed = |next_attempt_at| MessageFailed {
            message: MessageEntry {
                message_id: MailId::verdict(&"cs_1".parse().expect("a valid id")).into(),
                kind: MessageKind::Mail(MailKind::Verdict),
                application: None,
                endpoint: None,
            },
            attempt: 3,
            answer: None,
            cause: "refused".into(),
            next_attempt_at,
        };
        assert_eq!(OutboxWebhook::of_event(&event(failed(Some(Timestamp::MAX)).into()), 7), None);
        let webhook =
            OutboxWebhook::of_event(&event(failed(None).into()), 7).expect("a dead letter has a webhook");
        assert_eq!((webhook.state.kind, webhook.state.application), (WebhookType::MailDeadLetter, None));
    }
}
