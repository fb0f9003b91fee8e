//! What each failure inside is to whoever asked.

use super::{GroundProblem, Problem};
use oracled_actors::NoAnswer;
use oracled_actors::audit::logger::CommitError;
use oracled_actors::rules::RulesError;
use oracled_actors::upstream::ModelError;
use oracled_actors::upstream::oracle_health::SteerError;
use oracled_actors::verdict::cache::CacheError;
use oracled_actors::verdict::crosscheck::GateError;
use oracled_actors::verdict::notifier::OutboxError;
use oracled_actors::verdict::rate_limiter::Limited;
use oracled_actors::verdict::regen::Failed;
use oracled_domain::SessionId;
use oracled_store::StoreError;

impl From<NoAnswer> for Problem {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Full { .. } => Self::Overloaded(error.to_string()),
            NoAnswer::Failed { .. } => Self::Internal(error.to_string()),
        }
    }
}

impl Problem {
    /// Why the verdict of `session_id` was not made.
    #[must_use]
    pub fn not_made(session_id: &SessionId, failed: &Failed) -> Self {
        let session_id = session_id.to_string();
        match failed {
            Failed::SessionUnknown => Self::SessionUnknown(session_id),
            Failed::DeliveredAlready => Self::DeliveredAlready(session_id),
            Failed::NoModel => Self::ModelUnavailable { cause: failed.to_string(), retry_after: None },
            Failed::Limited(limited) => match *limited {
                Limited::Session { wait } => {
                    Self::RegenRateLimited { session_id, limited: *limited, retry_after: wait }
                }
                Limited::Places { wait, .. } | Limited::Budget { wait, .. } => {
                    Self::ModelBusy { limited: *limited, retry_after: wait }
                }
            },
            Failed::NotPermitted { retry_after, .. } => {
                Self::ModelUnavailable { cause: failed.to_string(), retry_after: Some(*retry_after) }
            }
            Failed::Model { error, retry_after } => {
                let (cause, retry_after) = (error.to_string(), *retry_after);
                match error {
                    ModelError::Unavailable { .. } => Self::ModelUnavailable { cause, retry_after },
                    ModelError::Timeout { .. } => Self::ModelTimeout { cause, retry_after },
                    ModelError::Refused { .. } => Self::ModelRefused { cause, retry_after },
                    ModelError::RefusedRequest { .. } => Self::ModelRefusedRequest(cause),
                }
            }
            Failed::Store(error) => error.into(),
            Failed::Commit(error) => error.into(),
            Failed::Cache(error) => error.into(),
            Failed::Gate(error) => error.into(),
            Failed::NoAnswer(error) => (*error).into(),
            Failed::Crashed => Self::Internal(failed.to_string()),
        }
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } | StoreError::Io { .. } => {
                Self::StorageUnavailable(error.to_string())
            }
            StoreError::Stopped => Self::Draining,
            StoreError::SourceFile { .. } => GroundProblem::SourceDamaged(error.to_string()).into(),
            StoreError::Corrupt { .. }
            | StoreError::Short { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::TooLarge { .. }
            | StoreError::OutOfOrder { .. }
            | StoreError::Locked { .. } => Self::Internal(error.to_string()),
        }
    }
}

impl From<&CommitError> for Problem {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::Unavailable(_) => Self::StorageUnavailable(error.to_string()),
            CommitError::Stale(_) => Self::Overloaded(error.to_string()),
        }
    }
}

impl From<&CacheError> for Problem {
    fn from(error: &CacheError) -> Self {
        match error {
            CacheError::Store(error) => error.into(),
            CacheError::Commit(error) => error.into(),
        }
    }
}

impl From<SteerError> for Problem {
    fn from(error: SteerError) -> Self {
        match error {
            SteerError::Unknown(_) => Self::OracleUnknown(error.to_string()),
            SteerError::NoProbe(_) => Self::InvalidRequest(error.to_string()),
            SteerError::Probing(_) => Self::Overloaded(error.to_string()),
            SteerError::Commit(error) => error.into(),
            SteerError::NoAnswer(error) => error.into(),
        }
    }
}

impl From<&GateError> for Problem {
    fn from(error: &GateError) -> Self {
        match error {
            GateError::Judging(_) => Self::Internal(error.to_string()),
            GateError::Commit(error) => error.into(),
            GateError::Cache(error) => error.into(),
            GateError::Rules(error) => error.into(),
            GateError::NoAnswer(error) => (*error).into(),
        }
    }
}

impl From<&RulesError> for Problem {
    fn from(error: &RulesError) -> Self {
        match error {
            RulesError::Evaluating(_) => Self::Internal(error.to_string()),
            RulesError::Commit(error) => error.into(),
        }
    }
}

impl From<OutboxError> for Problem {
    fn from(error: OutboxError) -> Self {
        match error {
            OutboxError::Unknown(mail_id) => Self::MailUnknown(mail_id.into()),
            OutboxError::InFlight(mail_id) => Self::MailInFlight(mail_id.into()),
            OutboxError::Store(error) => error.into(),
            OutboxError::Commit(error) => error.into(),
            OutboxError::Reading(_) => Self::Internal(error.to_string()),
        }
    }
}

/// `?` hands errors over by value.
macro_rules! by_value {
    ($($error:ty),*) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                (&error).into()
            }
        }
    )*};
}
by_value!(StoreError, CommitError, CacheError, GateError, RulesError);
