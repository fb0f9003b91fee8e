//! The errors of the store, of actors and of oracles' circuits.

use super::{Problem, ProblemCode};
use oracled_actors::ActorCallError;
use oracled_actors::audit::logger::CommitError;
use oracled_actors::upstream::oracle_health::CircuitActionError;
use oracled_store::StoreError;

impl From<ActorCallError> for Problem {
    fn from(error: ActorCallError) -> Self {
        let code = match error {
            ActorCallError::Full { .. } => return Self::overloaded(error),
            ActorCallError::Failed { .. } => ProblemCode::InternalError,
        };
        Self::new(code, error.to_string())
    }
}

impl Problem {
    /// The daemon is overloaded.
    pub fn overloaded(error: impl std::fmt::Display) -> Self {
        Self::new(ProblemCode::Overloaded, format!("{error}; try again in a moment"))
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        let code = match error {
            StoreError::Unavailable { .. } | StoreError::Io { .. } => ProblemCode::StorageUnavailable,
            StoreError::Stopped => return Self::draining(),
            StoreError::SourceFile { .. } => ProblemCode::SourceDamaged,
            StoreError::RowLost { .. } => ProblemCode::RecordDamaged,
            StoreError::Corrupt { .. }
            | StoreError::Short { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::TooLarge { .. }
            | StoreError::OutOfOrder { .. }
            | StoreError::Locked { .. } => ProblemCode::InternalError,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&CommitError> for Problem {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::Unavailable(_) => Self::new(ProblemCode::StorageUnavailable, error.to_string()),
            CommitError::Stale(_) => Self::overloaded(error),
        }
    }
}

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

/// Implements `From` for errors by value, which `?` needs.
macro_rules! by_value {
    ($($error:ty),*) => {$(
        impl From<$error> for $crate::platform::problem::Problem {
            fn from(error: $error) -> Self {
                (&error).into()
            }
        }
    )*};
}
pub(crate) use by_value;
by_value!(StoreError, CommitError);
