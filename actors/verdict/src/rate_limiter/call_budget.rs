//! The limits of the calls of a model: per minute, and at the same time.

use super::CallLimitError;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// When to retry after all places are taken: a call takes a second or more.
pub(super) const SLOT_RETRY_WAIT: Duration = Duration::from_secs(1);

/// A slot among the calls in flight; dropping it releases the slot.
#[derive(Debug)]
pub struct ModelCallSlot {
    _permit: OwnedSemaphorePermit,
}

/// The limits for all calls of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCallLimits {
    /// Maximum number of calls per minute, including retries.
    pub per_minute: NonZeroU32,
    /// Maximum number of calls at the same time.
    pub at_once: usize,
}

/// A limit of calls per minute.
#[derive(Debug)]
pub(super) struct CallRate {
    pub(super) per_minute: NonZeroU32,
    governor: DefaultDirectRateLimiter,
    /// Whether a call was taken that another limit refused.
    has_unused: AtomicBool,
}

impl CallRate {
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        let governor = DefaultDirectRateLimiter::direct(quota(per_minute));
        Self { per_minute, governor, has_unused: AtomicBool::new(false) }
    }

    /// Takes one call, or returns the time until the next one is allowed.
    pub(super) fn take(&self) -> Result<(), Duration> {
        if self.has_unused.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.governor.check().map_err(|not_until| not_until.wait_time_from(DefaultClock::default().now()))
    }

    /// Gives the call that was taken last back, for the next one.
    pub(super) fn put_back(&self) {
        self.has_unused.store(true, Ordering::Relaxed);
    }
}

/// The budget of all calls of a model.
#[derive(Debug)]
pub(super) struct ModelCallBudget {
    pub(super) at_once: usize,
    rate: CallRate,
    slots: Arc<Semaphore>,
}

impl ModelCallLimits {
    pub(super) fn half(self) -> Self {
        Self {
            per_minute: NonZeroU32::new(self.per_minute.get() / 2).unwrap_or(NonZeroU32::MIN),
            at_once: (self.at_once / 2).max(1),
        }
    }
}

impl ModelCallBudget {
    pub(super) fn new(limits: ModelCallLimits) -> Self {
        let ModelCallLimits { per_minute, at_once } = limits;
        Self { at_once, rate: CallRate::new(per_minute), slots: Arc::new(Semaphore::new(at_once)) }
    }

    pub(super) fn take_slot(&self) -> Result<ModelCallSlot, CallLimitError> {
        let calls_at_once = self.at_once;
        let permit = Arc::clone(&self.slots).try_acquire_owned();
        let _permit = permit.map_err(|_| CallLimitError::Places { calls_at_once, wait: SLOT_RETRY_WAIT })?;
        Ok(ModelCallSlot { _permit })
    }

    pub(super) fn take_budgeted_call(&self) -> Result<(), CallLimitError> {
        let calls_per_minute = self.rate.per_minute;
        self.rate.take().map_err(|wait| CallLimitError::Budget { calls_per_minute, wait })
    }
}

/// At most `per_minute` calls within any minute: a quarter of them as a burst, and the rest spread over the minute. A
/// bucket of the full size that is also refilled would permit nearly twice as many.
fn quota(per_minute: NonZeroU32) -> Quota {
    let at_once = NonZeroU32::new(per_minute.get() / 4).unwrap_or(NonZeroU32::MIN);
    let spread = NonZeroU32::new(per_minute.get() - at_once.get()).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(spread).allow_burst(at_once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::RateLimiter;
    use governor::clock::FakeRelativeClock;

    #[test]
    fn calls_stay_within_the_budget_in_any_minute() {
        for per_minute in [1, 2, 3, 4, 7, 60, 1000] {
            let clock = FakeRelativeClock::default();
            let limit = NonZeroU32::new(per_minute).expect("not zero");
            let governor = RateLimiter::direct_with_clock(quota(limit), clock.clone());
            let (mut now_ms, mut taken): (u64, Vec<u64>) = (0, Vec::new());
            // a caller that calls all the time, for three minutes
            while now_ms < 180_000 {
                while governor.check().is_ok() {
                    taken.push(now_ms);
                }
                clock.advance(Duration::from_millis(7));
                now_ms += 7;
            }
            let within = |from: u64| taken.iter().filter(|at| (from..from + 60_000).contains(at)).count();
            let most = taken.iter().map(|at| within(*at)).max().expect("some are let through");
            assert!(most <= per_minute as usize + usize::from(per_minute == 1), "{most} of {per_minute}");
            assert!(
                2 * taken.len() >= 3 * per_minute as usize,
                "{} of {per_minute} in three minutes",
                taken.len()
            );
        }
    }

    #[test]
    fn budget_error_contains_the_wait() {
        let per_minute = NonZeroU32::new(4).expect("not zero");
        let calls = ModelCallBudget::new(ModelCallLimits { per_minute, at_once: 100 });
        assert_eq!(calls.take_budgeted_call(), Ok(()));
        let Err(CallLimitError::Budget { wait, .. }) = calls.take_budgeted_call() else {
            panic!("a second call at once")
        };
        assert!((Duration::from_secs(15)..=Duration::from_secs(20)).contains(&wait), "{wait:?}");
    }

    #[test]
    fn call_that_was_put_back_is_taken_next() {
        let rate = CallRate::new(NonZeroU32::new(4).expect("not zero"));
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
        rate.put_back();
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
    }

    #[test]
    fn calls_at_once_are_limited() {
        let per_minute = NonZeroU32::new(1000).expect("not zero");
        let calls = ModelCallBudget::new(ModelCallLimits { per_minute, at_once: 2 });
        let (first, second) = (calls.take_slot(), calls.take_slot());
        assert!(first.is_ok() && second.is_ok());
        assert!(matches!(calls.take_slot(), Err(CallLimitError::Places { calls_at_once: 2, .. })));
        assert_eq!(calls.take_budgeted_call(), Ok(()), "a retry has its place");
        drop(first);
        assert!(calls.take_slot().is_ok());
    }
}
