//! Why an oracle is not called, probed or steered.

use crate::audit::logger::CommitError;
use crate::platform::door::NoAnswer;
use oracled_domain::OracleId;
use std::time::Duration;

/// There is no oracle of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no oracle `{oracle_id}`; known: {}", names(.known))]
pub struct UnknownOracle {
    /// Which was named.
    pub oracle_id: OracleId,
    /// Those there are.
    pub known: Vec<OracleId>,
}

fn names(known: &[OracleId]) -> String {
    let names: Vec<_> = known.iter().map(OracleId::as_str).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Why an oracle is not to be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// There is none of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    /// Its circuit is open.
    #[error("the circuit of the oracle `{oracle_id}` is open")]
    CircuitOpen {
        /// Which oracle.
        oracle_id: OracleId,
        /// When to try again, from now; nothing where that is up to an administrator.
        retry_after: Option<Duration>,
    },
    /// The oracle asked for a wait that is not over.
    #[error("the oracle `{oracle_id}` asked not to be called for {} s", .retry_after.as_secs_f64().ceil())]
    QuotaWait {
        /// Which oracle.
        oracle_id: OracleId,
        /// When to try again, from now.
        retry_after: Duration,
    },
}

/// Why an administrator did not get what was asked for. Nothing has changed, but for `NoAnswer`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SteerError {
    /// There is no such oracle.
    #[error(transparent)]
    Unknown(#[from] UnknownOracle),
    /// It cannot be probed.
    #[error("the oracle `{0}` has no probe")]
    NoProbe(OracleId),
    /// One probe at a time.
    #[error("the oracle `{0}` is being probed already")]
    Probing(OracleId),
    /// The entry could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The actor failed in between; the log says what was to be done.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}
