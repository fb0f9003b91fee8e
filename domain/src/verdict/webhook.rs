//! Webhooks: messages to applications and operators, by the Standard Webhooks scheme, with their retries.

use crate::base::application::ApplicationName;
use crate::base::row::{ErasedData, IndexEntry, KeyedRow, Row, RowData, RowOwner, Table, not_indexed};
use crate::base::session_id::SessionId;
use crate::base::text_id::text_conversions;
use crate::base::trace::TraceContext;
use crate::verdict::mail::session_of_message;
use crate::verdict::outbox_retry::{due_at, retry_pause, stored_cause};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
    /// The application cancelled an order.
    #[serde(rename = "order.cancelled")]
    #[strum(serialize = "order.cancelled")]
    OrderCancelled,
    /// A regenerated verdict has another label than the first one.
    #[serde(rename = "verdict.diverged")]
    #[strum(serialize = "verdict.diverged")]
    VerdictDiverged,
    /// A review was opened.
    #[serde(rename = "review.opened")]
    #[strum(serialize = "review.opened")]
    ReviewOpened,
    /// An ingestion run was held.
    #[serde(rename = "run.held")]
    #[strum(serialize = "run.held")]
    RunHeld,
    /// The circuit of an oracle opened.
    #[serde(rename = "circuit.opened")]
    #[strum(serialize = "circuit.opened")]
    CircuitOpened,
    /// A mail became a dead letter.
    #[serde(rename = "mail.dead_letter")]
    #[strum(serialize = "mail.dead_letter")]
    MailDeadLetter,
    /// An operator tests the endpoint.
    #[serde(rename = "webhook.test")]
    #[strum(serialize = "webhook.test")]
    Test,
}

impl WebhookType {
    /// The type with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|kind| kind.into_str() == name)
    }
}

/// Why a text is not the id of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the webhook id is invalid (`msg_` and 32 of `0-9 a-f` allowed)")]
pub struct WebhookIdError;

/// The id of a webhook: the same for all attempts, and different for every other webhook. Ids sort by time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^msg_[0-9a-f]{32}$")]
pub struct WebhookId(String);

impl WebhookId {
    const PREFIX: &str = "msg_";
    const HEX_CHARS: usize = 32;

    /// The id of a webhook that is caused at `at`. `tag` is a random number: a digest of the body would let a reader of the log
    /// confirm a guess of an erased session.
    #[must_use]
    pub fn new(at: Timestamp, tag: u64) -> Self {
        Self(format!("{}{:016x}{tag:016x}", Self::PREFIX, at.as_microsecond().max(0)))
    }
}

impl TryFrom<String> for WebhookId {
    type Error = WebhookIdError;

    fn try_from(text: String) -> Result<Self, WebhookIdError> {
        let is_hex = |hex: &str| {
            hex.len() == Self::HEX_CHARS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        if text.strip_prefix(Self::PREFIX).is_some_and(is_hex) { Ok(Self(text)) } else { Err(WebhookIdError) }
    }
}

text_conversions! { WebhookId }

/// A webhook in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookEntry {
    /// The id of the webhook.
    pub webhook_id: WebhookId,
    /// The event that it reports.
    pub kind: WebhookType,
    /// The application that receives it; null for operators.
    pub application: Option<ApplicationName>,
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
    /// The session of the event; null if it has none.
    pub session_id: Option<SessionId>,
    /// The time at which it was queued first.
    pub queued_at: Timestamp,
    /// The number of attempts since it was queued, or queued again.
    pub attempts: u32,
    /// The time at which it was queued, or queued again.
    pub tried_since: Timestamp,
    /// The time at which the last attempt failed; null before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tried_at: Option<Timestamp>,
    /// The time of the next attempt; null for a dead letter.
    pub next_attempt_at: Option<Timestamp>,
    /// The error of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
}

/// A webhook in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxWebhook {
    pub standing: WebhookState,
    /// The body of the request, as it is signed.
    pub body: String,
    /// The trace of the request that caused the event; absent if it had none, or if no request caused it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<TraceContext>,
}

/// Why an attempt to send a webhook failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSendFailure {
    pub cause: String,
    /// Whether each further attempt would fail, too.
    pub is_permanent: bool,
    /// The wait that the endpoint requested.
    pub retry_after: Option<SignedDuration>,
}

impl OutboxWebhook {
    /// The webhook about an event at `at`, queued at once.
    #[must_use]
    pub fn queued(
        webhook_id: WebhookId,
        kind: WebhookType,
        application: Option<ApplicationName>,
        session_id: Option<SessionId>,
        data: &Value,
        at: Timestamp,
    ) -> Self {
        let body = json!({ "type": kind.into_str(), "timestamp": at, "data": data }).to_string();
        let standing = WebhookState {
            webhook_id,
            kind,
            application,
            session_id,
            queued_at: at,
            attempts: 0,
            tried_since: at,
            tried_at: None,
            next_attempt_at: Some(at),
            last_error: None,
        };
        Self { standing, body, trace: None }
    }
}

impl WebhookState {
    /// The webhook in the log.
    #[must_use]
    pub fn entry(&self) -> WebhookEntry {
        let Self { webhook_id, kind, application, .. } = self;
        WebhookEntry { webhook_id: webhook_id.clone(), kind: *kind, application: application.clone() }
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
        let attempts = self.attempts.saturating_add(1);
        let pause = retry_pause(attempts, self.tried_since, now, failure.retry_after, max_age);
        let next = pause.filter(|_| !failure.is_permanent);
        Self {
            attempts,
            tried_at: Some(now),
            next_attempt_at: next.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX)),
            last_error: Some(stored_cause(&failure.cause)),
            ..self.clone()
        }
    }

    /// The time of the next attempt; null for a dead letter.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let tried_last = self.tried_at.unwrap_or(self.tried_since);
        self.next_attempt_at.map(|at| due_at(at, tried_last, now))
    }

    /// The state after it is queued again at `now`.
    #[must_use]
    pub fn requeue(&self, now: Timestamp) -> Self {
        Self { attempts: 0, tried_since: now, tried_at: None, next_attempt_at: Some(now), ..self.clone() }
    }
}

impl Row for OutboxWebhook {
    type Key = WebhookId;
    const TABLE: &'static Table = &Table {
        name: "webhooks",
        bundle: None,
        data: RowData::Session {
            owner: RowOwner::Inside(|_, value| session_of_message(value?)),
            erased_as: ErasedData::new("webhook"),
        },
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for OutboxWebhook {
    fn key(&self) -> WebhookId {
        self.standing.webhook_id.clone()
    }
}
