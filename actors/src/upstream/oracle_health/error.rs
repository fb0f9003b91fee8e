//! Why an oracle cannot be called, probed or controlled.

use crate::audit::logger::CommitError;
use crate::platform::actor_handle::ActorCallError;
use jiff::Timestamp;
use oracled_domain::OracleId;
use std::time::Duration;

/// No oracle has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no oracle `{oracle_id}`; known: {}", names(.known))]
pub struct UnknownOracle {
    /// The requested name.
    pub oracle_id: OracleId,
    /// The names of all oracles.
    pub known: Vec<OracleId>,
}

fn names(known: &[OracleId]) -> String {
    let names: Vec<_> = known.iter().map(OracleId::as_str).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Why an oracle may not be called now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// No oracle has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    #[error("the circuit of the oracle `{oracle_id}` is open")]
    CircuitOpen {
        oracle_id: OracleId,
        /// Time until the next permitted call; `None` if an administrator must close the circuit.
        retry_after: Option<Duration>,
    },
    /// The oracle requested a wait that is not over.
    #[error("the oracle `{oracle_id}` requested a wait; calls are allowed again in {} s", .retry_after.as_secs_f64().ceil())]
    RequestedWait {
        oracle_id: OracleId,
        /// Time until calls are permitted again.
        retry_after: Duration,
    },
    /// The oracle rejects every call.
    #[error(
        "the oracle `{oracle_id}` has refused every call since {since:.0}; an operator checks its key, its credit and its name \
         (`oraclectl health`)"
    )]
    Refusing {
        oracle_id: OracleId,
        since: Timestamp,
        /// Whether a call that may succeed is in progress.
        is_being_tried: bool,
        /// Time until the next permitted call.
        retry_after: Duration,
    },
}

impl PermitError {
    /// The time until the next permitted call; `None` if an administrator must act first.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unknown(_) => None,
            Self::CircuitOpen { retry_after, .. } => *retry_after,
            Self::RequestedWait { retry_after, .. } | Self::Refusing { retry_after, .. } => {
                Some(*retry_after)
            }
        }
    }
}

/// Why an administrator's action failed. Nothing has changed, except possibly after `ActorCallError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CircuitActionError {
    /// No oracle has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    #[error("the oracle `{0}` has no probe")]
    NoProbe(OracleId),
    /// Another probe of the oracle is running.
    #[error("the oracle `{0}` is being probed already")]
    Probing(OracleId),
    /// The log entry could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The actor failed in between. The log contains the intended action.
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
}
