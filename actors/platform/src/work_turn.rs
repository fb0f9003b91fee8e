//! The turn at the work that one host of a cluster does at a time, such as sending mail.

use crate::clock::monotonic;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

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
}
