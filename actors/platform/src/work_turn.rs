//! The turn at the work that one host of a cluster does at a time, such as sending mail.

use crate::clock::monotonic;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// How often a host that waits for the turn checks it.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Whether this host has the turn. Each start of such work asks again.
#[derive(Debug, Clone)]
pub enum WorkTurn {
    /// This is the only host.
    Alone,
    /// The host of a cluster with this name, and when its turn ends unless it is renewed before.
    Shared { host: Arc<str>, until: watch::Receiver<Option<Instant>> },
}

impl WorkTurn {
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Alone => true,
            Self::Shared { until, .. } => until.borrow().is_some_and(|until| monotonic() < until),
        }
    }

    /// The name of this host in its cluster; `None` if it is the only host.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Alone => None,
            Self::Shared { host, .. } => Some(host),
        }
    }

    /// Runs `work` each time that the turn has come to this host.
    pub async fn run_at_each(self, mut work: impl FnMut()) {
        loop {
            self.wait_for(true).await;
            work();
            self.wait_for(false).await;
        }
    }

    async fn wait_for(&self, is_ours: bool) {
        while self.is_ours() != is_ours {
            sleep(CHECKED_EVERY).await;
        }
    }
}
