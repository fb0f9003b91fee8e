//! The state of an actor: handled messages, latencies, queue depth and panics.

use crate::clock::{Clock, monotonic};
use domain_base::actor_report::{ActorPanic, ActorReport};
use hdrhistogram::Histogram;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Latencies are reported over the last one to two windows.
const WINDOW: Duration = Duration::from_secs(60);
/// The longest latency that is recorded; longer ones count as this.
const LATENCY_MAX_US: u64 = 60_000_000;

/// The counters of a report. The actor's handles and its guardian share them.
#[derive(Debug)]
pub struct ActorStats {
    name: &'static str,
    clock: Clock,
    restarts: AtomicU64,
    last_panic: Mutex<Option<ActorPanic>>,
    handled: AtomicU64,
    waiting: AtomicU64,
    latencies: Mutex<LatencyWindows>,
}

#[derive(Debug)]
struct LatencyWindows {
    current: Histogram<u64>,
    previous: Histogram<u64>,
    current_since: Instant,
}

impl ActorStats {
    pub fn new(name: &'static str, clock: Clock) -> Self {
        let empty = Histogram::new_with_max(LATENCY_MAX_US, 2).expect("the bounds are valid");
        let latencies =
            LatencyWindows { previous: empty.clone(), current: empty, current_since: monotonic() };
        Self {
            name,
            clock,
            restarts: AtomicU64::new(0),
            last_panic: Mutex::new(None),
            handled: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            latencies: Mutex::new(latencies),
        }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Counts a message as waiting until the returned value is dropped.
    pub fn count_waiting_message(&self) -> WaitingMessage<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingMessage { stats: self, since: monotonic() }
    }

    pub fn count_panic(&self, message: String) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        let panic = ActorPanic { message, at: self.clock.now() };
        *self.last_panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
    }

    pub fn report(&self) -> ActorReport {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.rotate_windows(monotonic());
        let mut both = latencies.previous.clone();
        both.add(&latencies.current).expect("the bounds are the same");
        drop(latencies);
        ActorReport {
            name: self.name.to_owned(),
            restarts: self.restarts.load(Ordering::Relaxed),
            last_panic: self.last_panic.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            handled: self.handled.load(Ordering::Relaxed),
            queue_depth: self.waiting.load(Ordering::Relaxed),
            latency_p50_us: both.value_at_quantile(0.5),
            latency_p99_us: both.value_at_quantile(0.99),
            latency_max_us: both.max(),
        }
    }
}

impl LatencyWindows {
    fn rotate_windows(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.current_since);
        if age < WINDOW {
            return;
        }
        mem::swap(&mut self.current, &mut self.previous);
        self.current.reset();
        if age >= 2 * WINDOW {
            self.previous.reset();
        }
        self.current_since = now;
    }
}

/// A message that waits for its answer.
pub struct WaitingMessage<'v> {
    stats: &'v ActorStats,
    since: Instant,
}

impl WaitingMessage<'_> {
    pub fn count_answered(&self) {
        self.stats.handled.fetch_add(1, Ordering::Relaxed);
        let now = monotonic();
        let took_us =
            u64::try_from(now.saturating_duration_since(self.since).as_micros()).unwrap_or(u64::MAX);
        let mut latencies = self.stats.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.rotate_windows(now);
        latencies.current.saturating_record(took_us);
    }
}

impl Drop for WaitingMessage<'_> {
    fn drop(&mut self) {
        self.stats.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_counts_answered_and_waiting_messages() {
        let stats = ActorStats::new("cache", Clock::system());
        let (one, two) = (stats.count_waiting_message(), stats.count_waiting_message());
        one.count_answered();
        drop(one);
        stats.count_panic("over nothing".into());
        let report = stats.report();
        assert_eq!((report.handled, report.queue_depth, report.restarts), (1, 1, 1));
        assert_eq!(report.last_panic.map(|panic| panic.message).as_deref(), Some("over nothing"));
        drop(two);
        assert_eq!(stats.report().queue_depth, 0);
    }

    #[test]
    fn latencies_expire_after_two_windows() {
        let stats = ActorStats::new("cache", Clock::system());
        let mut latencies = stats.latencies.lock().expect("the lock is not poisoned");
        let start = latencies.current_since;
        latencies.current.saturating_record(1000);
        latencies.rotate_windows(start + WINDOW);
        assert_eq!((latencies.current.len(), latencies.previous.len()), (0, 1));
        latencies.rotate_windows(start + 3 * WINDOW);
        assert_eq!((latencies.current.len(), latencies.previous.len()), (0, 0));
    }
}
