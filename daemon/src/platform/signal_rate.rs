//! The rate limit of signals.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of signals that are accepted at one path within a window.
pub(crate) const SIGNALS_PER_WINDOW: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// The signals of each path in its current window. Only paths that a freshness policy names are counted.
#[derive(Debug, Default)]
pub struct SignalRate(Mutex<HashMap<String, (Instant, u32)>>);

impl SignalRate {
    /// Counts a signal at `path`, or returns how long to wait for the next window.
    pub(crate) fn count_signal(&self, path: &str, now: Instant) -> Result<(), Duration> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // policies change: a path that no policy names must not stay in memory
        windows.retain(|_, (began, _)| now.duration_since(*began) < WINDOW);
        let (began, count) = windows.entry(path.to_owned()).or_insert((now, 0));
        if *count >= SIGNALS_PER_WINDOW {
            return Err(WINDOW.saturating_sub(now.duration_since(*began)));
        }
        *count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_beyond_the_rate_wait_for_the_next_window() {
        let (rate, now) = (SignalRate::default(), Instant::now());
        for _ in 0..SIGNALS_PER_WINDOW {
            assert_eq!(rate.count_signal("/v1/signals/a", now), Ok(()));
        }
        let later = now + Duration::from_secs(20);
        assert_eq!(rate.count_signal("/v1/signals/a", later), Err(Duration::from_secs(40)));
        assert_eq!(rate.count_signal("/v1/signals/b", later), Ok(()), "another path has its own rate");
        assert_eq!(rate.count_signal("/v1/signals/a", now + WINDOW), Ok(()));
    }
}
