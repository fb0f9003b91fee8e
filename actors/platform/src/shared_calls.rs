//! The limits of calls that all hosts of a cluster share.

use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// A limit of calls, by its name in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMeter {
    pub name: String,
    /// The time from one call to the next, if they come evenly.
    pub every: Duration,
    /// The number of calls that may come at once.
    pub burst: u32,
}

/// Takes one call of each meter, or of none. The answer has the wait of each meter: all are zero if the call was taken.
#[derive(Debug)]
pub struct TakeCall {
    pub meters: Vec<CallMeter>,
    pub reply: oneshot::Sender<Result<Vec<Duration>, String>>,
}

/// The part of this host in the calls of its cluster.
#[derive(Debug, Clone)]
pub struct SharedCalls {
    /// The name of this host.
    pub host: String,
    /// To the thread that asks the server. It answers one call after the other.
    pub takes: Sender<TakeCall>,
    /// The number of live hosts.
    pub live_hosts: watch::Receiver<usize>,
}

impl SharedCalls {
    /// Takes one call of each meter, or of none. Returns the wait of each meter.
    ///
    /// # Errors
    /// The server does not answer. The call must not be made.
    pub async fn take(&self, meters: Vec<CallMeter>) -> Result<Vec<Duration>, String> {
        let (reply, answer) = oneshot::channel();
        // if the thread has ended, the reply is dropped
        drop(self.takes.send(TakeCall { meters, reply }));
        answer.await.unwrap_or_else(|_| Err("this host has left its cluster".to_owned()))
    }

    /// The part of this host in a limit of simultaneous calls: at least one.
    #[must_use]
    pub fn share_of(&self, limit: usize) -> usize {
        limit.checked_div(*self.live_hosts.borrow()).unwrap_or(limit).max(1)
    }
}
