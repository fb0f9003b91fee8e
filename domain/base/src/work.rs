//! Durable work: the pauses between its attempts, and when it is due although the clock can be set.

use crate::text_form::visible_line;
use jiff::{SignedDuration, Timestamp};

/// The maximum length of a stored cause of failure, in characters.
const CAUSE_MAX_CHARS: usize = 300;

/// The pauses after failed attempts.
#[derive(Debug)]
pub struct Backoff {
    /// The pause after the first failure. It doubles with each further failure.
    pub first_pause: SignedDuration,
    /// The longest pause by doubling.
    pub longest_pause: SignedDuration,
    /// The longest pause, even if the other side requests a longer one.
    pub longest_wait: SignedDuration,
}

impl Backoff {
    /// The pause after one more failure than `failures` in a row.
    #[must_use]
    pub fn pause(&self, failures: u32) -> SignedDuration {
        self.first_pause.saturating_mul(1 << failures.min(16)).min(self.longest_pause)
    }

    /// `pause`, or the wait that the other side requested if that is longer.
    #[must_use]
    pub fn extended(&self, pause: SignedDuration, retry_after: Option<SignedDuration>) -> SignedDuration {
        pause.max(retry_after.unwrap_or_default()).min(self.longest_wait)
    }

    /// When work is due at `now` that was planned for `at` when the clock showed `planned_at`.
    ///
    /// It is due at once if the clock has been set back since: if `now` is before `planned_at`, or the wait is longer than it can be.
    #[must_use]
    pub fn due_at(&self, at: Timestamp, planned_at: Timestamp, now: Timestamp) -> Timestamp {
        if now < planned_at || at.duration_since(now) > self.longest_wait { now } else { at }
    }
}

/// The cause of a failure as it is stored: one visible line, cut.
#[must_use]
pub fn stored_cause(cause: &str) -> String {
    visible_line(cause).chars().take(CAUSE_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first_pause: SignedDuration::from_secs(2),
        longest_pause: SignedDuration::from_mins(15),
        longest_wait: SignedDuration::from_hours(1),
    };

    #[test]
    fn work_is_due_at_once_after_the_clock_was_set_back() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("a valid time");
        for (now, due) in [(0, 300), (299, 300), (400, 300), (-1, -1), (-600, -600), (-90_000, -90_000)] {
            assert_eq!(BACKOFF.due_at(at(300), at(0), at(now)), at(due), "at {now} s");
        }
        assert_eq!(BACKOFF.due_at(at(5000), at(0), at(0)), at(0), "longer than any wait");
    }

    #[test]
    fn pause_doubles_up_to_its_limit_and_follows_a_longer_request() {
        let seconds = |failures| BACKOFF.pause(failures).as_secs();
        assert_eq!([0, 1, 2, 8, 9, u32::MAX].map(seconds), [2, 4, 8, 512, 900, 900]);
        let extended = |requested| BACKOFF.extended(BACKOFF.pause(1), requested).as_secs();
        let requested = [None, Some(1), Some(60), Some(7200)];
        assert_eq!(requested.map(|s| extended(s.map(SignedDuration::from_secs))), [4, 4, 60, 3600]);
    }
}
