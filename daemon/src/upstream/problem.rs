//! The errors of circuits.

use crate::platform::problem::Problem;
use actors_upstream::oracle_health::CircuitActionError;
use domain_base::problem::INVALID_REQUEST;
use domain_upstream::problem::ORACLE_UNKNOWN;

impl From<CircuitActionError> for Problem {
    fn from(error: CircuitActionError) -> Self {
        match error {
            CircuitActionError::Unknown(_) => Self::new(ORACLE_UNKNOWN, error.to_string()),
            CircuitActionError::NoProbe(_) => Self::new(INVALID_REQUEST, error.to_string()),
            CircuitActionError::Probing(_) => Self::overloaded(error),
            CircuitActionError::Commit(error) => error.into(),
            CircuitActionError::NoAnswer(error) => error.into(),
        }
    }
}
