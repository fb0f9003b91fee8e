//! Reports on supervised actors.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last panic of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActorPanic {
    /// The panic message.
    pub message: String,
    /// The time of the panic.
    pub at: Timestamp,
}

/// The state of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActorReport {
    /// The actor's name.
    pub name: String,
    /// The number of restarts after a panic.
    pub restarts: u64,
    /// The last panic.
    pub last_panic: Option<ActorPanic>,
    /// The number of answered messages.
    pub handled: u64,
    /// The number of messages in the queue.
    pub queue_depth: u64,
    /// The median time from sending a message to its answer over the last one to two minutes, in microseconds.
    pub latency_p50_us: u64,
    /// The 99th percentile of the same time, in microseconds.
    pub latency_p99_us: u64,
    /// The maximum of the same time, in microseconds.
    pub latency_max_us: u64,
}
