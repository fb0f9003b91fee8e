//! When planned work is due, although the clock can be set.

use jiff::{SignedDuration, Timestamp};

/// When work is due that was planned for `at` when the clock showed `planned_at`, at most `longest_wait` ahead.
///
/// It is due at `now` if the clock has been set back since: if `now` is before `planned_at`, or the wait is longer than it
/// can be.
#[must_use]
pub fn due_at(
    at: Timestamp,
    planned_at: Timestamp,
    now: Timestamp,
    longest_wait: SignedDuration,
) -> Timestamp {
    if now < planned_at || at.duration_since(now) > longest_wait { now } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_due_at_once_after_the_clock_was_set_back() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("a valid time");
        let hour = SignedDuration::from_hours(1);
        for (now, due) in [(0, 300), (299, 300), (400, 300), (-1, -1), (-600, -600), (-90_000, -90_000)] {
            assert_eq!(due_at(at(300), at(0), at(now), hour), at(due), "at {now} s");
        }
        assert_eq!(due_at(at(5000), at(0), at(0), hour), at(0), "longer than any wait");
    }
}
