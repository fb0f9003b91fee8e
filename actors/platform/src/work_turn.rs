//! The turn at the work that one host of a cluster does at a time, such as sending mail, and leases of single pieces of such work.

use crate::clock::monotonic;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// Whether this host has the turn. Each start of such work asks again.
#[derive(Debug, Clone)]
pub enum WorkTurn {
    /// This is the only host.
    Alone,
    /// A host of a cluster.
    Shared {
        /// Its name.
        host: Arc<str>,
        /// When its turn ends unless it is renewed before.
        until: watch::Receiver<Option<Instant>>,
        leases: LeaseCalls,
    },
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

    /// Takes the lease `name`, which this host must not have already; `None` if another host has it.
    ///
    /// # Errors
    /// The server of the cluster does not answer.
    pub async fn take_lease(&self, name: String) -> Result<Option<WorkLease>, String> {
        let Self::Shared { leases, .. } = self else { return Ok(Some(WorkLease { shared: None })) };
        let (reply, taken) = oneshot::channel();
        let is_sent = (leases.0)(LeaseCall::Take { name: name.clone(), reply });
        let ended = || "the membership in the cluster has ended".to_owned();
        let taken = if is_sent { taken.await.map_err(|_| ended())? } else { Err(ended()) };
        let shared = |is_held| SharedLease { name, is_held, leases: leases.clone() };
        Ok(taken?.map(|is_held| WorkLease { shared: Some(shared(is_held)) }))
    }
}

/// A request about a lease.
#[derive(Debug)]
pub enum LeaseCall {
    /// Takes a lease. Answers whether it is held from then on; `None` if another host has it.
    Take { name: String, reply: oneshot::Sender<Result<Option<watch::Receiver<bool>>, String>> },
    /// Ends a lease, so that another host can take it.
    End { name: String },
}

/// Passes requests to the membership of this host. Returns whether it still runs.
#[derive(Clone)]
pub struct LeaseCalls(pub Arc<dyn Fn(LeaseCall) -> bool + Send + Sync>);

impl fmt::Debug for LeaseCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseCalls")
    }
}

/// A lease. Dropping it lets another host take it.
///
/// While the server of the cluster does not answer, the lease counts as held, so that long tasks continue. Another host may have it
/// then, so the commit of the task must depend on the rows that it has read.
#[derive(Debug)]
pub struct WorkLease {
    /// `None` on the only host.
    shared: Option<SharedLease>,
}

#[derive(Debug)]
struct SharedLease {
    name: String,
    is_held: watch::Receiver<bool>,
    leases: LeaseCalls,
}

impl WorkLease {
    /// Whether the lease was not lost.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.shared.as_ref().is_none_or(|lease| *lease.is_held.borrow())
    }

    /// A future that ends when the lease is lost.
    pub fn lost(&self) -> impl Future<Output = ()> + use<> {
        let is_held = self.shared.as_ref().map(|lease| lease.is_held.clone());
        async move {
            match is_held {
                // it is lost, too, if the membership has ended
                Some(mut is_held) => drop(is_held.wait_for(|is_held| !is_held).await),
                None => pending().await,
            }
        }
    }
}

impl Drop for SharedLease {
    fn drop(&mut self) {
        // otherwise it ends by itself
        let _ = (self.leases.0)(LeaseCall::End { name: std::mem::take(&mut self.name) });
    }
}
