//! Mail to customers, and its retries (seed: `regen-consistency`, "Customer Notification" and the failure
//! mode of its mail).

use crate::delivery::VerdictDelivery;
use crate::message_attempts::MessageAttempts;
use crate::session::CustomerEmail;
use domain_base::session_id::SessionId;
use domain_base::text_id::text_conversions;
use domain_base::trace::TraceContext;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

mod hide;

/// The number of attempts to send a divergence notice: one at once, and one retry.
const NOTICE_ATTEMPTS: u32 = 2;
/// The time between the two attempts.
const NOTICE_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// The purpose of a mail.
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
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MailKind {
    /// It contains the verdict.
    Verdict,
    /// It notifies the customer that the results page shows another verdict than the mailed one.
    DivergenceNotice,
}

/// Why a text is not the id of a mail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mail id is invalid (1 to {} visible ASCII characters allowed)", MailId::MAX_CHARS)]
pub struct MailIdError;

/// The id of a mail, which is also its idempotency key: the same for all attempts, and different for every other mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(pattern = "^[!-~]{1,384}$")]
pub struct MailId(String);

impl MailId {
    /// The maximum length: a kind, a session id with its application, and a time.
    const MAX_CHARS: usize = 384;

    /// The id of the mail with the verdict of a session; there is only one.
    #[must_use]
    pub fn verdict(session_id: &SessionId) -> Self {
        Self(format!("verdict:{session_id}"))
    }

    /// The id of the notice about a divergence that was found at `at`.
    #[must_use]
    pub fn notice(session_id: &SessionId, at: Timestamp) -> Self {
        Self(format!("divergence:{session_id}:{}", at.as_microsecond()))
    }

    /// The session of the mail; `None` if the id is not one that this program makes.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        let (kind, rest) = self.0.split_once(':')?;
        let session_id = match kind {
            "verdict" => rest,
            "divergence" => rest.rsplit_once(':')?.0,
            _ => return None,
        };
        session_id.parse().ok()
    }
}

impl TryFrom<String> for MailId {
    type Error = MailIdError;

    fn try_from(text: String) -> Result<Self, MailIdError> {
        let usable =
            (1..=Self::MAX_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if usable { Ok(Self(text)) } else { Err(MailIdError) }
    }
}

text_conversions! { MailId }

/// The state of a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MailState {
    /// The id of the mail.
    pub mail_id: MailId,
    /// The purpose of the mail.
    pub kind: MailKind,
    /// The id of the session.
    pub session_id: SessionId,
    /// The recipient.
    pub to: CustomerEmail,
    #[serde(flatten)]
    pub tries: MessageAttempts,
}

/// A mail in the outbox. It contains an approved verdict; no other content can be mailed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutboxMail {
    pub standing: MailState,
    /// The delivered verdict; in a notice, the regenerated verdict.
    pub delivery: Arc<VerdictDelivery>,
    /// The trace of the request that queued it; absent if it had none, or if no request queued it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<TraceContext>,
}

impl OutboxMail {
    /// A mail of `kind` about `delivery` to `to`, queued at the time that the delivery was cached.
    #[must_use]
    pub fn queued(kind: MailKind, delivery: Arc<VerdictDelivery>, to: CustomerEmail) -> Self {
        let (session_id, now) = (delivery.session_id.clone(), delivery.cached_at);
        let mail_id = match kind {
            MailKind::Verdict => MailId::verdict(&session_id),
            MailKind::DivergenceNotice => MailId::notice(&session_id, now),
        };
        let tries = MessageAttempts::queued(now);
        let standing = MailState { mail_id, kind, session_id, to, tries };
        Self { standing, delivery, trace: None }
    }
}

/// Why an attempt to send a mail failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailSendFailure {
    /// The error.
    pub cause: String,
    /// Whether the service or the mail caused the failure.
    pub fault: MailFailureCause,
    /// The wait that the mail service requested.
    pub retry_after: Option<SignedDuration>,
}

/// The cause of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFailureCause {
    /// The mail service, which also fails for other mails.
    Service,
    /// This mail, temporarily: for example, a mailbox is full.
    Mail,
    /// This mail, permanently: for example, the address is refused.
    MailForGood,
}

impl MailSendFailure {
    /// Whether each further attempt would fail, too.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.fault == MailFailureCause::MailForGood
    }

    /// The failure without `address`, which mail services quote and which must not be logged.
    #[must_use]
    pub fn hide_address(self, address: &CustomerEmail) -> Self {
        Self { cause: hide::hide(&address.mailbox(), &self.cause), ..self }
    }
}

impl MailState {
    /// The state of the mail after a failed attempt at `now`: to be retried, or dead.
    ///
    /// A notice is retried once after 60 s, regardless of any wait that the mail service requests. A verdict mail is
    /// retried after 2 s, 4 s, 8 s and so on up to 15 minutes, or after the requested wait if that is longer, up to 1
    /// hour. Retries end when the mail would be older than `max_age`.
    #[must_use]
    pub fn record_failure(&self, failure: &MailSendFailure, now: Timestamp, max_age: SignedDuration) -> Self {
        let pause = match self.kind {
            MailKind::DivergenceNotice => {
                (self.tries.attempts.saturating_add(1) < NOTICE_ATTEMPTS).then_some(NOTICE_PAUSE)
            }
            MailKind::Verdict => self.tries.next_pause(now, failure.retry_after, max_age),
        };
        let pause = pause.filter(|_| !failure.is_permanent());
        Self { tries: self.tries.failed(&failure.cause, pause, now), ..self.clone() }
    }

    /// The state of a notice that was not sent within `max_age`: a dead letter. `None` for a younger notice, and for verdict
    /// mails, which are still sent.
    #[must_use]
    pub fn expire(&self, now: Timestamp, max_age: SignedDuration) -> Option<Self> {
        let is_expired = self.kind == MailKind::DivergenceNotice
            && !self.tries.is_dead()
            && now.duration_since(self.tries.tried_since) > max_age;
        let last_error = Some("the notice is older than `mail.max_age_s`".to_owned());
        is_expired.then(|| Self {
            tries: MessageAttempts { next_attempt_at: None, last_error, ..self.tries.clone() },
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests;
