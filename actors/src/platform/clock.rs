//! The only file that reads the time.

use jiff::{SignedDuration, Timestamp, Unit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// The smallest step back of the system's clock that is logged and counted.
const STEP_NOTED: SignedDuration = SignedDuration::from_secs(1);

/// The source of the time for the actors' decisions.
#[derive(Clone)]
pub struct Clock(Arc<ClockSource>);

struct ClockSource {
    read: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The latest time that was read, in microseconds; `steps_back` counts how often the clock was set back.
    latest_us: AtomicI64,
    steps_back: AtomicU64,
}

impl Clock {
    /// The system's clock, to the microsecond.
    #[must_use]
    pub fn system() -> Self {
        Self::with_source(|| {
            let now = Timestamp::now();
            now.round(Unit::Microsecond).unwrap_or(now)
        })
    }

    /// A clock that always shows `at`, for tests.
    #[must_use]
    pub fn fixed(at: Timestamp) -> Self {
        Self::with_source(move || at)
    }

    /// A clock that shows the value of `at`, for tests.
    #[cfg(test)]
    pub(crate) fn movable(at: Arc<std::sync::Mutex<Timestamp>>) -> Self {
        Self::with_source(move || *at.lock().expect("the lock is not poisoned"))
    }

    fn with_source(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (latest_us, steps_back) = (AtomicI64::new(i64::MIN), AtomicU64::new(0));
        Self(Arc::new(ClockSource { read: Box::new(read), latest_us, steps_back }))
    }

    /// The time of day. If the system's clock is set back, so is this time; each step is logged once.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ClockSource { read, latest_us: latest, steps_back } = &*self.0;
        let now = read();
        let now_us = now.as_microsecond();
        let latest_us = latest.fetch_max(now_us, Ordering::Relaxed);
        let back = SignedDuration::from_micros(latest_us.saturating_sub(now_us));
        let is_step = latest_us != i64::MIN && back >= STEP_NOTED;
        let noted =
            is_step.then(|| latest.compare_exchange(latest_us, now_us, Ordering::Relaxed, Ordering::Relaxed));
        if let Some(Ok(_)) = noted {
            steps_back.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(seconds = back.as_secs(), "the system clock was set back");
        }
        now
    }

    /// Records that the clock showed `at` before the start, so that a step back while the daemon was stopped
    /// is counted.
    pub fn note_earlier_time(&self, at: Timestamp) {
        self.0.latest_us.fetch_max(at.as_microsecond(), Ordering::Relaxed);
    }

    /// The number of steps back by 1 s or more, since the last log entry before the start.
    #[must_use]
    pub fn steps_back(&self) -> u64 {
        self.0.steps_back.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// A point on the monotonic clock, to measure durations.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// A point on the runtime's clock, which its timers use and tests can pause.
#[must_use]
pub fn stopwatch() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn step_back_of_the_clock_is_counted_once_and_shown() {
        let start: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let at = Arc::new(Mutex::new(start));
        let clock = Clock::movable(Arc::clone(&at));
        let show = |seconds: i64| {
            *at.lock().expect("the lock is not poisoned") = start + SignedDuration::from_secs(seconds);
            clock.now()
        };
        show(0);
        show(3600);
        assert_eq!(clock.steps_back(), 0);
        assert_eq!(show(0), start);
        show(1);
        assert_eq!(clock.steps_back(), 1);
        show(-10);
        assert_eq!(clock.steps_back(), 2);
        let restarted = Clock::fixed(start);
        restarted.note_earlier_time(start + SignedDuration::from_hours(1));
        assert_eq!((restarted.now(), restarted.steps_back()), (start, 1));
    }
}
