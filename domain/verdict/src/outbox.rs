//! The outbox: mails and webhooks to be sent, with their retries, and dead letters.

use crate::mail::{MailId, MailKind, MailState, MessageAttempts, OutboxMail};
use crate::webhook::{OutboxWebhook, WebhookId, WebhookReceiver, WebhookState, WebhookType};
use domain_base::caller::TraceContext;
use domain_base::row::{
    ErasedData, IndexEntry, KeyedRow, Row, RowData, RowOwner, Table, check_row, not_indexed,
};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_ground::id::EndpointId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use strum::IntoStaticStr;

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MessageChannel {
    Mail,
    Webhook,
}

/// The state of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutboxReport {
    /// Those of mails.
    pub mails: MessagesReport,
    /// Those of webhooks.
    pub webhooks: MessagesReport,
}

/// The messages in the outbox of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessagesReport {
    /// The number of dead letters, which are not retried.
    pub dead: u64,
    /// When the oldest message that is still to be sent was queued; null if none is.
    pub waiting_since: Option<Timestamp>,
}

impl MessagesReport {
    /// When the oldest message was queued, if it waits for longer than a receiver fails for a short time: 30 minutes, as in the alerts.
    #[must_use]
    pub fn waits_long_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.waiting_since.filter(|since| now.duration_since(*since) > SignedDuration::from_mins(30))
    }
}

/// The id of a message: that of a mail or a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageId {
    // first: the id of a webhook also has the form of a mail's
    Webhook(WebhookId),
    Mail(MailId),
}

impl MessageId {
    #[must_use]
    pub const fn channel(&self) -> MessageChannel {
        match self {
            Self::Mail(_) => MessageChannel::Mail,
            Self::Webhook(_) => MessageChannel::Webhook,
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mail(id) => id.fmt(f),
            Self::Webhook(id) => id.fmt(f),
        }
    }
}

impl FromStr for MessageId {
    type Err = <MailId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<WebhookId>().map(Self::Webhook).or_else(|_| text.parse::<MailId>().map(Self::Mail))
    }
}

impl From<MailId> for MessageId {
    fn from(id: MailId) -> Self {
        Self::Mail(id)
    }
}

impl From<WebhookId> for MessageId {
    fn from(id: WebhookId) -> Self {
        Self::Webhook(id)
    }
}

/// The purpose of a mail, or the event that a webhook reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum MessageKind {
    Mail(MailKind),
    Webhook(WebhookType),
}

impl MessageKind {
    #[must_use]
    pub const fn into_str(self) -> &'static str {
        match self {
            Self::Mail(kind) => kind.into_str(),
            Self::Webhook(kind) => kind.into_str(),
        }
    }
}

/// A message in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageEntry {
    /// The id of the mail or the webhook.
    #[schema(value_type = String)]
    pub message_id: MessageId,
    /// The purpose of the mail, or the event that the webhook reports.
    pub kind: MessageKind,
    /// The application that receives the webhook; absent for operators, and for a mail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application: Option<ApplicationName>,
    /// The endpoint of the webhook; absent for the first one of the application or of operators.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub endpoint: Option<EndpointId>,
}

/// The receiver of messages: the mail service, or an endpoint of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageReceiver {
    Mails,
    Webhooks(WebhookReceiver),
}

impl MessageReceiver {
    #[must_use]
    pub const fn channel(&self) -> MessageChannel {
        match self {
            Self::Mails => MessageChannel::Mail,
            Self::Webhooks(_) => MessageChannel::Webhook,
        }
    }
}

/// The state of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum MessageState {
    Mail(MailState),
    Webhook(WebhookState),
}

impl MessageState {
    #[must_use]
    pub fn entry(&self) -> MessageEntry {
        match self {
            Self::Mail(MailState { mail_id, kind, .. }) => MessageEntry {
                message_id: mail_id.clone().into(),
                kind: MessageKind::Mail(*kind),
                application: None,
                endpoint: None,
            },
            Self::Webhook(WebhookState { webhook_id, kind, application, endpoint, .. }) => MessageEntry {
                message_id: webhook_id.clone().into(),
                kind: MessageKind::Webhook(*kind),
                application: application.clone(),
                endpoint: endpoint.clone(),
            },
        }
    }

    #[must_use]
    pub const fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::Mail(mail) => Some(&mail.session_id),
            Self::Webhook(webhook) => webhook.session_id.as_ref(),
        }
    }

    #[must_use]
    pub fn receiver(&self) -> MessageReceiver {
        match self {
            Self::Mail(_) => MessageReceiver::Mails,
            Self::Webhook(webhook) => MessageReceiver::Webhooks(webhook.receiver()),
        }
    }

    #[must_use]
    pub const fn tries(&self) -> &MessageAttempts {
        match self {
            Self::Mail(mail) => &mail.tries,
            Self::Webhook(webhook) => &webhook.tries,
        }
    }
}

/// A message in the outbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxMessage {
    Mail(OutboxMail),
    Webhook(OutboxWebhook),
}

impl OutboxMessage {
    #[must_use]
    pub fn state(&self) -> MessageState {
        match self {
            Self::Mail(mail) => MessageState::Mail(mail.state.clone()),
            Self::Webhook(webhook) => MessageState::Webhook(webhook.state.clone()),
        }
    }

    /// The trace of the request that queued it, if it has one.
    #[must_use]
    pub const fn trace(&self) -> Option<&TraceContext> {
        match self {
            Self::Mail(mail) => mail.trace.as_ref(),
            Self::Webhook(webhook) => webhook.trace.as_ref(),
        }
    }

    /// The message after other attempts.
    #[must_use]
    pub fn with_tries(mut self, tries: MessageAttempts) -> Self {
        match &mut self {
            Self::Mail(mail) => mail.state.tries = tries,
            Self::Webhook(webhook) => webhook.state.tries = tries,
        }
        self
    }
}

impl From<OutboxMail> for OutboxMessage {
    fn from(mail: OutboxMail) -> Self {
        Self::Mail(mail)
    }
}

impl From<OutboxWebhook> for OutboxMessage {
    fn from(webhook: OutboxWebhook) -> Self {
        Self::Webhook(webhook)
    }
}

/// A stored message without its content, which may be damaged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredMessageHead {
    Mail { state: MailState },
    Webhook { state: WebhookState },
}

impl From<StoredMessageHead> for MessageState {
    fn from(head: StoredMessageHead) -> Self {
        match head {
            StoredMessageHead::Mail { state } => Self::Mail(state),
            StoredMessageHead::Webhook { state } => Self::Webhook(state),
        }
    }
}

/// The session of a stored message; for a lost mail, by its id.
fn session_of_message(name: &str, value: Option<&[u8]>) -> Option<SessionId> {
    let Some(value) = value else { return name.parse::<MailId>().ok()?.session_id() };
    let state = MessageState::from(serde_json::from_slice::<StoredMessageHead>(value).ok()?);
    state.session_id().cloned()
}

impl Row for OutboxMessage {
    type Key = MessageId;
    const TABLE: &'static Table = &Table {
        name: "outbox",
        bundle: None,
        data: RowData::Session {
            owner: RowOwner::Inside(session_of_message),
            erased_as: ErasedData::new("message"),
        },
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

impl KeyedRow for OutboxMessage {
    fn key(&self) -> MessageId {
        self.state().entry().message_id
    }
}
