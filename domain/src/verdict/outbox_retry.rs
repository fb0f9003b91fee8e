//! Retries of the messages in the outbox: mails and webhooks.

use crate::base::due_time;
use crate::base::visible::visible_line;
use jiff::{SignedDuration, Timestamp};

/// The time before the first retry. It doubles with each further retry.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(2);
/// The maximum time between two retries by doubling.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);
/// The maximum time between two attempts, even if the receiver requests a longer wait.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(1);
/// The maximum length of a stored cause of failure, in characters.
const CAUSE_MAX_CHARS: usize = 300;

/// The pause after the failed attempt number `attempts`: 2 s, 4 s, 8 s and so on up to 15 minutes, or `retry_after` if
/// that is longer, up to 1 hour. `None` if the message would be older than `max_age`; its age counts from `tried_since`.
pub(super) fn retry_pause(
    attempts: u32,
    tried_since: Timestamp,
    now: Timestamp,
    retry_after: Option<SignedDuration>,
    max_age: SignedDuration,
) -> Option<SignedDuration> {
    let doublings = attempts.saturating_sub(1).min(16);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    let age = now.duration_since(tried_since).saturating_add(pause);
    (age <= max_age).then_some(pause.max(retry_after.unwrap_or_default()).min(LONGEST_WAIT))
}

/// The time of the next attempt, which was planned for `at` when the message was tried last.
pub(super) fn due_at(at: Timestamp, tried_last: Timestamp, now: Timestamp) -> Timestamp {
    due_time::due_at(at, tried_last, now, LONGEST_WAIT)
}

/// `cause` as it is stored: one visible line, cut.
pub(super) fn stored_cause(cause: &str) -> String {
    visible_line(cause).chars().take(CAUSE_MAX_CHARS).collect()
}
