//! How often a lost verdict may be regenerated (seed: `regen-consistency`, invariant 8 and REGEN-GAP-03).

use crate::verdict::session::SessionId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A session's verdict is regenerated once in this time.
pub const REGEN_PERIOD: SignedDuration = SignedDuration::from_mins(5);

/// The latest time that the model was asked for a session's verdict again, whether it answered or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegenAttempt {
    /// Whose.
    pub session_id: SessionId,
    /// When.
    pub attempted_at: Timestamp,
}

impl RegenAttempt {
    /// How long, at `now`, until the next one is allowed; nothing if it is.
    ///
    /// Never longer than the period, and nothing where the attempt lies further ahead than that: a clock that was set
    /// back must not lock a customer out.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<SignedDuration> {
        let left = REGEN_PERIOD - now.duration_since(self.attempted_at);
        let set_back = left > REGEN_PERIOD + REGEN_PERIOD;
        (left.is_positive() && !set_back).then(|| left.min(REGEN_PERIOD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regen_gap_03_one_regeneration_a_session_in_five_minutes() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("a time");
        let attempt = RegenAttempt { session_id: "cs_1".parse().expect("an id"), attempted_at: at(0) };
        for (second, wait_s) in [
            (0, Some(300)),
            (1, Some(299)),
            (299, Some(1)),
            (300, None),
            (9999, None),
            (-60, Some(300)),
            (-3600, None),
        ] {
            assert_eq!(attempt.wait(at(second)).map(|wait| wait.as_secs()), wait_s, "after {second} s");
        }
    }
}
