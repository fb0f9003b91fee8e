//! The latencies of an oracle.

use std::collections::VecDeque;

/// The number of latencies that are kept.
const REMEMBERED: usize = 256;

/// The latencies of the last successful calls, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct LatencyWindow(VecDeque<u64>);

impl LatencyWindow {
    pub(super) fn add(&mut self, latency_ms: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(latency_ms);
    }

    /// The percentile by nearest rank: the smallest latency that at least `percent` % of the latencies do not exceed. 0
    /// without latencies.
    pub(super) fn percentile(&self, percent: usize) -> u64 {
        let mut sorted: Vec<_> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|index| sorted.get(index)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_nearest_rank_of_last_256_latencies() {
        let mut latencies = LatencyWindow::default();
        assert_eq!((latencies.percentile(50), latencies.percentile(99)), (0, 0));
        latencies.add(7);
        assert_eq!((latencies.percentile(50), latencies.percentile(99)), (7, 7));
        latencies.add(3);
        assert_eq!((latencies.percentile(50), latencies.percentile(99)), (3, 7));
        // 1 to 300, of which 45 to 300 are kept
        let mut latencies = LatencyWindow::default();
        (1..=300).for_each(|latency_ms| latencies.add(latency_ms));
        assert_eq!((latencies.percentile(50), latencies.percentile(99)), (44 + 128, 44 + 254));
    }
}
