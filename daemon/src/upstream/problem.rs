//! The errors of circuits.

use crate::platform::problem::{Problem, ProblemCode};
use actors_upstream::oracle_health::CircuitActionError;

impl From<CircuitActionError> for Problem {
    fn from(error: CircuitActionError) -> Self {
        match error {
            CircuitActionError::Unknown(_) => Self::new(ProblemCode::OracleUnknown, error.to_string()),
            CircuitActionError::NoProbe(_) => Self::new(ProblemCode::InvalidRequest, error.to_string()),
            CircuitActionError::Probing(_) => Self::overloaded(error),
            CircuitActionError::Commit(error) => error.into(),
            CircuitActionError::NoAnswer(error) => error.into(),
        }
    }
}
