//! The limit of entries in a second. Without it, a flood of failing requests would fill journald, which then drops other entries.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of entries of a socket in a window, with `access_log = "errors"`.
pub(super) const ENTRIES_PER_WINDOW: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);

/// The entries in the current window.
#[derive(Debug, Default)]
pub(super) struct EntryRate(Mutex<RateWindow>);

#[derive(Debug, Default)]
struct RateWindow {
    began: Option<Instant>,
    entries: u32,
    omitted: u64,
}

impl EntryRate {
    /// Counts an entry at `now`. Returns the number of entries that were omitted since the last one, or `None` if this one
    /// must be omitted.
    pub(super) fn count_entry(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            (window.began, window.entries) = (Some(now), 0);
        }
        if window.entries >= ENTRIES_PER_WINDOW {
            window.omitted += 1;
            return None;
        }
        window.entries += 1;
        Some(std::mem::take(&mut window.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_actors::platform::clock::monotonic;

    #[test]
    fn entries_beyond_the_rate_are_counted_in_the_next_entry() {
        let (rate, now) = (EntryRate::default(), monotonic());
        for _ in 0..ENTRIES_PER_WINDOW {
            assert_eq!(rate.count_entry(now), Some(0));
        }
        let later = now + WINDOW / 2;
        assert_eq!((rate.count_entry(later), rate.count_entry(later)), (None, None));
        assert_eq!(rate.count_entry(now + WINDOW), Some(2));
        assert_eq!(rate.count_entry(now + WINDOW), Some(0));
    }
}
