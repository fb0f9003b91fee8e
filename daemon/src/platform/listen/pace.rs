//! The rate at which connections are accepted.

use oracled_actors::platform::clock::stopwatch;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Maximum number of connections accepted in each [`INTERVAL`]. A client can open and close tens of thousands
/// of connections a second; accepting all of them takes a whole processor. Connections beyond this rate wait
/// in the kernel's backlog. If the backlog is full, a blocking `connect` waits, and a non-blocking one fails
/// with `EAGAIN`.
const BATCH: u32 = 16;
/// Time in which at most [`BATCH`] connections are accepted.
const INTERVAL: Duration = Duration::from_millis(5);

/// Limits the rate of accepted connections.
#[derive(Debug)]
pub(super) struct AcceptPace {
    accepted: u32,
    began: Instant,
}

impl AcceptPace {
    pub(super) fn new() -> Self {
        Self { accepted: 0, began: stopwatch() }
    }

    /// To be called after each accepted connection. Waits until the next one may be accepted.
    pub(super) async fn wait_after_accept(&mut self) {
        self.accepted += 1;
        if self.accepted < BATCH {
            return;
        }
        let next = self.began + INTERVAL;
        // tokio rounds a timer up to the next millisecond, even if its deadline has passed
        if stopwatch() < next {
            sleep_until(next).await;
        }
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn connection_flood_is_accepted_one_batch_each_interval() {
        let (mut pace, began) = (AcceptPace::new(), stopwatch());
        for batch in 1..=10 {
            for _ in 1..BATCH {
                pace.wait_after_accept().await;
            }
            assert_eq!(began.elapsed(), INTERVAL * (batch - 1));
            pace.wait_after_accept().await;
            assert!(began.elapsed() >= INTERVAL * batch);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_below_the_rate_do_not_wait() {
        let (mut pace, began) = (AcceptPace::new(), stopwatch());
        let step = INTERVAL / BATCH + Duration::from_micros(1);
        for number in 1..=10 * BATCH {
            advance(step).await;
            pace.wait_after_accept().await;
            assert_eq!(began.elapsed(), step * number);
        }
    }
}
