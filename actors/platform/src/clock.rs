//! The only file that reads the time.

use jiff::{SignedDuration, Timestamp, Unit};
use nix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The smallest step of the system's clock that is noted.
const STEP_NOTED: SignedDuration = SignedDuration::from_secs(1);
/// The number of steps that are remembered.
const STEPS_MAX: usize = 64;

/// The source of the time for the actors' decisions.
#[derive(Clone)]
pub struct Clock(Arc<ClockSource>);

struct ClockSource {
    read: Box<dyn Fn() -> ClockReading + Send + Sync>,
    steps: Mutex<ClockSteps>,
    /// The latest time that was read, in microseconds; `steps_back` counts how often the clock was set back.
    latest_us: AtomicI64,
    steps_back: AtomicU64,
}

/// The time of day, and the time on a clock that is never set.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    now: Timestamp,
    running: SignedDuration,
}

/// A step of the system's clock: what it would have shown, and what it showed.
#[derive(Debug, Clone, Copy)]
struct ClockStep {
    before: Timestamp,
    after: Timestamp,
}

#[derive(Debug, Default)]
struct ClockSteps {
    seen: Option<ClockReading>,
    steps: VecDeque<ClockStep>,
    /// The number of steps, with those that are not remembered any longer.
    count: u64,
}

impl ClockSteps {
    /// Notes a step between the last reading and this one.
    fn note(&mut self, reading: ClockReading) {
        let Some(seen) = self.seen.replace(reading) else { return };
        let passed = reading.running - seen.running;
        let expected = seen.now.saturating_add(passed).unwrap_or(Timestamp::MAX);
        if reading.now.duration_since(expected).abs() < STEP_NOTED {
            return;
        }
        self.count += 1;
        if self.steps.len() == STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(ClockStep { before: expected, after: reading.now });
    }

    fn since(&self, at: Timestamp) -> SignedDuration {
        let (mut end, mut sum) = (self.seen.map_or(at, |seen| seen.now), SignedDuration::ZERO);
        for step in self.steps.iter().rev() {
            if (step.after..=end).contains(&at) {
                return sum;
            }
            sum = sum.saturating_add(step.after.duration_since(step.before));
            end = step.before;
        }
        if at <= end { sum } else { SignedDuration::ZERO }
    }
}

impl Clock {
    /// The system's clock, to the microsecond.
    #[must_use]
    pub fn system() -> Self {
        let began = Instant::now();
        Self::with_source(move || {
            let now = Timestamp::now();
            // it also counts while the machine sleeps
            let running =
                clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(|_| began.elapsed(), Duration::from);
            ClockReading {
                now: now.round(Unit::Microsecond).unwrap_or(now),
                running: SignedDuration::try_from(running).unwrap_or(SignedDuration::MAX),
            }
        })
    }

    /// A clock that always shows `at`, for tests.
    #[must_use]
    pub fn fixed(at: Timestamp) -> Self {
        Self::with_source(move || ClockReading { now: at, running: SignedDuration::ZERO })
    }

    /// A clock that shows the value of `at`, for tests. A change of `at` is time that passes,
    /// but for the part in `stepped_s`: by it, the clock was set.
    pub fn settable(at: Arc<Mutex<Timestamp>>, stepped_s: Arc<AtomicI64>) -> Self {
        Self::with_source(move || {
            let now = *at.lock().expect("the lock is not poisoned");
            let stepped = SignedDuration::from_secs(stepped_s.load(Ordering::Relaxed));
            ClockReading { now, running: now.duration_since(Timestamp::UNIX_EPOCH) - stepped }
        })
    }

    fn with_source(read: impl Fn() -> ClockReading + Send + Sync + 'static) -> Self {
        let (latest_us, steps_back) = (AtomicI64::new(i64::MIN), AtomicU64::new(0));
        Self(Arc::new(ClockSource { read: Box::new(read), steps: Mutex::default(), latest_us, steps_back }))
    }

    fn note_steps(&self) {
        let reading = (self.0.read)();
        self.steps().note(reading);
    }

    fn steps(&self) -> MutexGuard<'_, ClockSteps> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By how much the clock was set since it showed `at`: positive if it was set forward. Zero if it was set before the start,
    /// or never showed `at`.
    #[must_use]
    pub fn steps_since(&self, at: Timestamp) -> SignedDuration {
        self.note_steps();
        self.steps().since(at)
    }

    /// The time now, on the clock as it ran when it showed `at`. The age of a row and the rest of a wait are measured with it.
    #[must_use]
    pub fn now_since(&self, at: Timestamp) -> Timestamp {
        let now = self.now();
        now.saturating_sub(self.steps().since(at)).unwrap_or(now)
    }

    /// The number of steps forward and back by 1 s or more since the start.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        self.note_steps();
        self.steps().count
    }

    /// The time of day. If the system's clock is set back, so is this time; each step is logged once.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ClockSource { read, latest_us: latest, steps_back, .. } = &*self.0;
        let reading = read();
        self.steps().note(reading);
        let now = reading.now;
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

/// The time of day, for spans. Nothing is decided by it.
#[must_use]
pub fn time_of_day() -> SystemTime {
    SystemTime::now()
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
        let clock = Clock::settable(Arc::clone(&at), Arc::default());
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

    #[test]
    fn time_that_passed_is_known_although_the_clock_was_set() {
        let start: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let (at, stepped_s) = (Arc::new(Mutex::new(start)), Arc::new(AtomicI64::new(0)));
        let clock = Clock::settable(Arc::clone(&at), Arc::clone(&stepped_s));
        let run = |seconds: i64| {
            *at.lock().expect("the lock is not poisoned") += SignedDuration::from_secs(seconds);
            clock.now()
        };
        let set = |seconds: i64| {
            stepped_s.fetch_add(seconds, Ordering::Relaxed);
            run(seconds);
        };
        let passed = |since: Timestamp| clock.now_since(since).duration_since(since).as_secs();
        let first = run(60);
        run(600);
        set(25 * 3600);
        let ahead = run(60);
        assert_eq!((passed(first), passed(ahead)), (660, 0));
        run(60);
        assert_eq!((passed(first), passed(ahead)), (720, 60));
        set(-25 * 3600);
        let last = run(60);
        run(30);
        assert_eq!((passed(first), passed(ahead), passed(last)), (810, 150, 30));
        set(-600);
        run(10);
        assert_eq!((passed(first), passed(last), clock.step_count()), (820, 40, 3));
        assert_eq!(clock.steps_since(start + SignedDuration::from_hours(24 * 365)), SignedDuration::ZERO);
    }
}
