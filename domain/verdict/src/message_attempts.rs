//! The attempts to send a message of the outbox.

use domain_base::work::{Backoff, stored_cause};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The pauses after failed attempts to send a message.
const BACKOFF: Backoff = Backoff {
    first_pause: SignedDuration::from_secs(2),
    longest_pause: SignedDuration::from_mins(15),
    longest_wait: SignedDuration::from_hours(1),
};

/// The attempts to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageAttempts {
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

impl MessageAttempts {
    /// None yet, for a message that is queued at `now`.
    #[must_use]
    pub const fn queued(now: Timestamp) -> Self {
        Self {
            queued_at: now,
            attempts: 0,
            tried_since: now,
            tried_at: None,
            next_attempt_at: Some(now),
            last_error: None,
        }
    }

    /// The pause after one more failed attempt at `now`: 2 s, 4 s, 8 s and so on up to 15 minutes, or `retry_after` if that is
    /// longer, up to 1 hour. `None` if the message would be older than `max_age`.
    #[must_use]
    pub fn next_pause(
        &self,
        now: Timestamp,
        retry_after: Option<SignedDuration>,
        max_age: SignedDuration,
    ) -> Option<SignedDuration> {
        let pause = BACKOFF.pause(self.attempts);
        let age = now.duration_since(self.tried_since).saturating_add(pause);
        (age <= max_age).then(|| BACKOFF.extended(pause, retry_after))
    }

    /// The attempts after one more that failed at `now` because of `cause`. Without a `pause` the message is a dead letter.
    #[must_use]
    pub fn failed(&self, cause: &str, pause: Option<SignedDuration>, now: Timestamp) -> Self {
        Self {
            attempts: self.attempts.saturating_add(1),
            tried_at: Some(now),
            next_attempt_at: pause.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX)),
            last_error: Some(stored_cause(cause)),
            ..self.clone()
        }
    }

    /// The time of the next attempt; `None` for a dead letter. A message is due at `now` if its time is further ahead than the
    /// maximum wait, or if its last attempt is in the future: the clock was set back since.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let tried_last = self.tried_at.unwrap_or(self.tried_since);
        self.next_attempt_at.map(|at| BACKOFF.due_at(at, tried_last, now))
    }

    /// The attempts after the message is queued again at `now`.
    #[must_use]
    pub fn requeued(&self, now: Timestamp) -> Self {
        Self { attempts: 0, tried_since: now, tried_at: None, next_attempt_at: Some(now), ..self.clone() }
    }

    /// Whether the message is a dead letter, which is not retried.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.next_attempt_at.is_none()
    }
}
