//! Supervision that survives panics.
//!
//! actix's own `Supervisor` loses an actor, its address and its queue when a handler panics. An
//! [`ActorGuardian`] drives the actor's context itself: after a panic it pauses, then restarts the actor on
//! the same context. The address and the queue stay valid. Only the message that panicked, and the actor's
//! own futures in flight, fail. After too many panics within a window the guardian gives up, since a restart
//! does not remove the cause.

use crate::clock::{Clock, monotonic};
use actix::dev::{ContextFut, channel};
use actix::{Actor, Addr, Context, Supervised};
use actix_rt::ArbiterHandle;
use domain_base::service::{ActorPanic, ActorReport};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep};

/// The pause after the first panic of a series. It doubles with each further panic.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// When a guardian gives up, and how long it pauses before a restart.
#[derive(Debug, Clone, Copy)]
pub struct SupervisionLimits {
    /// The guardian gives up if there are more panics than this within the window.
    pub max_panics: usize,
    /// The time for which a panic counts.
    pub window: Duration,
    /// The longest pause before a restart.
    pub max_pause: Duration,
}

/// Starts an actor in `arbiter` under a guardian and returns its address. `give_up` is called once, with the reason, if
/// the guardian gives up.
pub fn start<A>(
    arbiter: &ArbiterHandle,
    supervision: SupervisionLimits,
    stats: Arc<ActorStats>,
    give_up: impl FnOnce(String) + Send + 'static,
    make: impl FnOnce() -> A + Send + 'static,
) -> Addr<A>
where
    A: Actor<Context = Context<A>> + Supervised + Unpin,
{
    // a capacity of 0 means no limit: the handles limit the messages
    let (sender, receiver) = channel::channel(0);
    arbiter.spawn_fn(move || {
        let actor = Context::with_receiver(receiver).into_future(make());
        let panics = VecDeque::new();
        let give_up = Some(Box::new(give_up) as Box<dyn FnOnce(String)>);
        actix_rt::spawn(ActorGuardian { actor, supervision, stats, panics, pause: None, give_up });
    });
    Addr::new(sender)
}

/// Why the daemon must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// An actor was given up, or the store lacks data.
    Fault(String),
    /// The log of this host is not that of its cluster, from this difference on.
    Fork(String),
}

struct ActorGuardian<A: Actor<Context = Context<A>>> {
    actor: ContextFut<A, Context<A>>,
    supervision: SupervisionLimits,
    stats: Arc<ActorStats>,
    panics: VecDeque<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
    give_up: Option<Box<dyn FnOnce(String)>>,
}

impl<A: Actor<Context = Context<A>> + Supervised> ActorGuardian<A> {
    /// Records a panic. Returns whether the actor is to be restarted.
    fn note_panic(&mut self, panic: &(dyn std::any::Any + Send)) -> bool {
        let message = panic_message(panic);
        let name = self.stats.name();
        tracing::error!(actor = name, %message, "an actor panicked");
        self.stats.count_panic(message.clone());
        let now = monotonic();
        self.panics.push_back(now);
        let window = self.supervision.window;
        self.panics.retain(|at| now.saturating_duration_since(*at) <= window);
        let panics = self.panics.len();
        if panics > self.supervision.max_panics {
            self.abandon(format!("the {name} panicked {panics} times within {window:?}, last: {message}"));
            return false;
        }
        let doublings = u32::try_from(panics - 1).unwrap_or(u32::MAX).min(16);
        self.pause =
            Some(Box::pin(sleep((FIRST_PAUSE * 2_u32.pow(doublings)).min(self.supervision.max_pause))));
        true
    }

    fn abandon(&mut self, reason: String) {
        if let Some(give_up) = self.give_up.take() {
            give_up(reason);
        }
    }
}

impl<A: Actor<Context = Context<A>> + Supervised + Unpin> Future for ActorGuardian<A> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
                match catch_unwind(AssertUnwindSafe(|| this.actor.restart())) {
                    Ok(true) => {}
                    // no address of the actor is left
                    Ok(false) => return Poll::Ready(()),
                    Err(panic) => {
                        let reason = format!("the {} could not be restarted", this.stats.name());
                        this.abandon(format!("{reason}: {}", panic_message(&*panic)));
                        return Poll::Ready(());
                    }
                }
            }
            match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut this.actor).poll(cx))) {
                Ok(polled) => return polled,
                Err(panic) if this.note_panic(&*panic) => {}
                Err(_) => return Poll::Ready(()),
            }
        }
    }
}

/// The message of a caught panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

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
mod tests;
