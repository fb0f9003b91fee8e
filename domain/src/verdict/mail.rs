//! Mail to customers: what waits in the outbox, and when it is tried again (seed: `regen-consistency`, "Customer
//! Notification" and the failure mode of its mail).

use crate::verdict::delivery::Delivery;
use crate::verdict::session::{Email, SessionId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

mod hide;

/// A divergence notice is tried so many times: at once, and once more.
const NOTICE_ATTEMPTS: u32 = 2;
/// Between the two.
const NOTICE_PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// A verdict mail is tried again after this, and after twice as long each further time,
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(2);
/// until the pauses are this long.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);
/// No mail waits for longer between two attempts, whatever the mail service asks for.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// The longest cause of a failure that is kept, in characters.
const CAUSE_MAX_CHARS: usize = 300;

/// What a mail is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum MailKind {
    /// It brings the verdict.
    Verdict,
    /// It tells that the results page shows another verdict than was mailed.
    DivergenceNotice,
}

/// Why a text is no mail's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mail's id is made of visible ASCII characters, at most {} of them", MailId::MAX_CHARS)]
pub struct BadMailId;

/// The id of a mail, which is also its idempotency key: the same for every attempt, another for every other mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MailId(String);

impl MailId {
    /// The longest: a kind, a session id and a time.
    const MAX_CHARS: usize = 320;

    /// That of the mail that brings a session's verdict: there is one.
    #[must_use]
    pub fn verdict(session_id: &SessionId) -> Self {
        Self(format!("verdict:{session_id}"))
    }

    /// That of the notice of a divergence that was found at `at`.
    #[must_use]
    pub fn notice(session_id: &SessionId, at: Timestamp) -> Self {
        Self(format!("divergence:{session_id}:{}", at.as_microsecond()))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for MailId {
    type Error = BadMailId;

    fn try_from(text: String) -> Result<Self, BadMailId> {
        let usable =
            (1..=Self::MAX_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if usable { Ok(Self(text)) } else { Err(BadMailId) }
    }
}

impl std::str::FromStr for MailId {
    type Err = BadMailId;

    fn from_str(text: &str) -> Result<Self, BadMailId> {
        text.to_owned().try_into()
    }
}

impl From<MailId> for String {
    fn from(id: MailId) -> Self {
        id.0
    }
}

impl fmt::Display for MailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a mail stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its id.
    pub mail_id: MailId,
    /// What it is for.
    pub kind: MailKind,
    /// Whose verdict it speaks of.
    pub session_id: SessionId,
    /// To whom it goes.
    pub to: Email,
    /// When it was queued.
    pub queued_at: Timestamp,
    /// How often it was tried since it was queued, or queued again.
    pub attempts: u32,
    /// When it was queued, or queued again.
    pub tried_since: Timestamp,
    /// When the last attempt failed; `None` before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tried_at: Option<Timestamp>,
    /// When it is tried next; nothing if it is not: it is a dead letter.
    pub next_attempt_at: Option<Timestamp>,
    /// What the last attempt failed with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
}

/// A mail in the outbox. It bears an approved verdict, and nothing else can be mailed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mail {
    /// Where it stands.
    pub standing: Standing,
    /// The verdict: the delivered one, or in a notice the regenerated one.
    pub delivery: Arc<Delivery>,
}

impl Mail {
    /// A mail of `kind` about `delivery` to `to`, queued at the time that the delivery was cached.
    #[must_use]
    pub fn queued(kind: MailKind, delivery: Arc<Delivery>, to: Email) -> Self {
        let (session_id, now) = (delivery.session_id.clone(), delivery.cached_at);
        let mail_id = match kind {
            MailKind::Verdict => MailId::verdict(&session_id),
            MailKind::DivergenceNotice => MailId::notice(&session_id, now),
        };
        let standing = Standing {
            mail_id,
            kind,
            session_id,
            to,
            queued_at: now,
            attempts: 0,
            tried_since: now,
            tried_at: None,
            next_attempt_at: Some(now),
            last_error: None,
        };
        Self { standing, delivery }
    }
}

/// How an attempt to send a mail failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFailure {
    /// What went wrong.
    pub cause: String,
    /// Whose fault it is.
    pub fault: Fault,
    /// How long the mail service wants to be left alone.
    pub retry_after: Option<SignedDuration>,
}

/// Whose fault it is that a mail was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The mail service's, which fails others as well.
    Service,
    /// This mail's, for now: a mailbox is full, say.
    Mail,
    /// This mail's each time: the address is refused, say.
    MailForGood,
}

impl SendFailure {
    /// Whether it will go wrong each time.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.fault == Fault::MailForGood
    }

    /// The same failure in words that do not hold `address`, which mail services quote: it is not to be logged.
    #[must_use]
    pub fn hiding(self, address: &Email) -> Self {
        Self { cause: hide::hide(address.as_str(), &self.cause), ..self }
    }
}

impl Standing {
    /// Where the mail stands after an attempt at `now` that failed: to be tried again, or dead.
    ///
    /// A notice is tried once more after 60 s, whatever the mail service asks for. A verdict mail is tried again after
    /// 2 s, 4 s, 8 s and so on up to 15 minutes, or when the mail service wants it to be, but for an hour at the most,
    /// for as long as it is not older than `max_age`.
    #[must_use]
    pub fn after(&self, failure: &SendFailure, now: Timestamp, max_age: SignedDuration) -> Self {
        let attempts = self.attempts.saturating_add(1);
        let pause = match self.kind {
            MailKind::DivergenceNotice => (attempts < NOTICE_ATTEMPTS).then_some(NOTICE_PAUSE),
            MailKind::Verdict => {
                let doublings = (attempts - 1).min(16);
                let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
                let age = now.duration_since(self.tried_since).saturating_add(pause);
                let asked = failure.retry_after.unwrap_or_default();
                (age <= max_age).then_some(pause.max(asked).min(LONGEST_WAIT))
            }
        };
        let next = pause.filter(|_| !failure.is_permanent());
        Self {
            attempts,
            tried_at: Some(now),
            next_attempt_at: next.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX)),
            last_error: Some(failure.cause.chars().take(CAUSE_MAX_CHARS).collect()),
            ..self.clone()
        }
    }

    /// When it is tried next; `None` for a dead letter. A mail is due at `now` if its time is further ahead than the longest
    /// pause, or if its last attempt is in the future: the clock was set back since.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let is_set_back = now < self.tried_at.unwrap_or(self.tried_since);
        let due = |at: Timestamp| if is_set_back || at.duration_since(now) > LONGEST_WAIT { now } else { at };
        self.next_attempt_at.map(due)
    }

    /// Where it stands when it is queued again, at `now`.
    #[must_use]
    pub fn requeued(&self, now: Timestamp) -> Self {
        Self { attempts: 0, tried_since: now, tried_at: None, next_attempt_at: Some(now), ..self.clone() }
    }

    /// Whether it is tried no more.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.next_attempt_at.is_none()
    }
}

#[cfg(test)]
mod tests;
