//! Reports on supervised actors.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last panic of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorPanic {
    /// Its message.
    pub message: String,
    /// When it happened.
    pub at: Timestamp,
}

/// The state of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorReport {
    /// The actor's name.
    pub name: String,
    /// The number of restarts after a panic.
    pub restarts: u64,
    /// The last panic.
    pub last_panic: Option<ActorPanic>,
    /// The number of messages that it has answered.
    pub handled: u64,
    /// The number of messages that wait now.
    pub queue_depth: u64,
    /// Time from sending a message to its answer in the last one to two minutes, median, in microseconds.
    pub latency_p50_us: u64,
    /// The same, 99th percentile.
    pub latency_p99_us: u64,
    /// The same, longest.
    pub latency_max_us: u64,
}
