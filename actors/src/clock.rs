//! The one file that asks what time it is.

use jiff::{Timestamp, Unit};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Where an actor gets the time for its decisions from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's clock, to the microsecond.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(|| {
            let now = Timestamp::now();
            now.round(Unit::Microsecond).unwrap_or(now)
        }))
    }

    /// A clock that stands still, for tests.
    #[must_use]
    pub fn fixed(at: Timestamp) -> Self {
        Self(Arc::new(move || at))
    }

    /// A clock that shows what `at` holds, for tests.
    #[cfg(test)]
    pub(crate) fn movable(at: Arc<std::sync::Mutex<Timestamp>>) -> Self {
        Self(Arc::new(move || *at.lock().expect("nobody panics holding it")))
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// A point on the clock that only goes forward, for measuring how long something took.
#[must_use]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The same on the runtime's clock, which its timers go by, and tests can hold.
#[must_use]
pub fn stopwatch() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
