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
pub const SLOT_RETRY_WAIT: Duration = Duration::from_secs(1);

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
pub struct CallRate {
    pub per_minute: NonZeroU32,
    governor: DefaultDirectRateLimiter,
    /// Whether a call was taken that another limit refused.
    has_unused: AtomicBool,
}

impl CallRate {
    pub fn new(per_minute: NonZeroU32) -> Self {
        let governor = DefaultDirectRateLimiter::direct(quota(per_minute));
        Self { per_minute, governor, has_unused: AtomicBool::new(false) }
    }

    /// Takes one call, or returns the time until the next one is allowed.
    pub fn take(&self) -> Result<(), Duration> {
        if self.has_unused.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.governor.check().map_err(|not_until| not_until.wait_time_from(DefaultClock::default().now()))
    }

    /// Gives the call that was taken last back, for the next one.
    pub fn put_back(&self) {
        self.has_unused.store(true, Ordering::Relaxed);
    }
}

/// The budget of all calls of a model.
#[derive(Debug)]
pub struct ModelCallBudget {
    pub at_once: usize,
    rate: CallRate,
    slots: Arc<Semaphore>,
}

impl ModelCallLimits {
    pub fn half(self) -> Self {
        Self {
            per_minute: NonZeroU32::new(self.per_minute.get() / 2).unwrap_or(NonZeroU32::MIN),
            at_once: (self.at_once / 2).max(1),
        }
    }
}

impl ModelCallBudget {
    pub fn new(limits: ModelCallLimits) -> Self {
        let ModelCallLimits { per_minute, at_once } = limits;
        Self { at_once, rate: CallRate::new(per_minute), slots: Arc::new(Semaphore::new(at_once)) }
    }

    pub fn take_slot(&self) -> Result<ModelCallSlot, CallLimitError> {
        let calls_at_once = self.at_once;
        let permit = Arc::clone(&self.slots).try_acquire_owned();
        let _permit = permit.map_err(|_| CallLimitError::Places { calls_at_once, wait: SLOT_RETRY_WAIT })?;
        Ok(ModelCallSlot { _permit })
    }

    pub fn take_budgeted_call(&self) -> Result<(), CallLimitError> {
        let calls_per_minute = self.rate.per_minute;
        self.rate.take().map_err(|wait| CallLimitError::Budget { calls_per_minute, wait })
    }
}

/// At most `per_minute` calls within any minute: a quarter of them as a burst, and the rest spread over the minute. A
/// bucket of the full size that is also refilled would permit nearly twice as many.
pub fn quota(per_minute: NonZeroU32) -> Quota {
    let at_once = NonZeroU32::new(per_minute.get() / 4).unwrap_or(NonZeroU32::MIN);
    let spread = NonZeroU32::new(per_minute.get() - at_once.get()).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(spread).allow_burst(at_once)
}
