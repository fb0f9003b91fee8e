//! Why a verdict was not generated.

use super::prompt::PromptError;
use super::queue_limit::QueueLimit;
use crate::cache::VerdictCacheError;
use crate::crosscheck::GateError;
use crate::rate_limiter::{CallLimitError, CallPermitError};
use crate::submission::SubmissionOutcome;
use actors_audit::logger::CommitError;
use actors_platform::actor_handle::ActorCallError;
use actors_upstream::ModelError;
use actors_upstream::oracle_health::PermitError;
use oracled_store::StoreError;
use std::sync::Arc;
use std::time::Duration;

/// The result of a generation, for all callers that wait for it.
pub type GenerationResult = Result<SubmissionOutcome, Arc<GenerationError>>;

/// Why there is no verdict. Nothing was delivered, and no part of the verdict is cached.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// The session is unknown, and so is its question. Or its verdict was never delivered, and its order generates it.
    #[error("the session is not known")]
    SessionUnknown,
    /// The session's first verdict was already delivered. It is regenerated only by a read.
    #[error("the session's verdict was already delivered")]
    DeliveredAlready,
    /// Too many orders are open.
    #[error("{0}")]
    QueueFull(QueueLimit),
    /// No model is configured.
    #[error("no model is configured; set `model.provider` and its key")]
    NoModel,
    /// There is no prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A limit is reached.
    #[error(transparent)]
    Limited(CallLimitError),
    /// The model's circuit is open, or the model requested a wait.
    #[error("{error}")]
    NotPermitted {
        /// The cause.
        error: PermitError,
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// The model returned no answer that can be judged.
    #[error("{error}")]
    Model {
        /// Why the call returned no answer.
        error: ModelError,
        /// Time until a retry makes sense; `None` if a retry makes no sense.
        retry_after: Option<Duration>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] VerdictCacheError),
    /// The gate could not judge or log the verdict.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// An actor did not answer.
    #[error(transparent)]
    NoAnswer(#[from] ActorCallError),
    /// The generation task panicked.
    #[error("generating the verdict failed unexpectedly; the service log has the panic. Try again")]
    Crashed,
}

impl From<CallPermitError> for GenerationError {
    fn from(error: CallPermitError) -> Self {
        match error {
            CallPermitError::Limited(limited) => Self::Limited(limited),
            CallPermitError::Store(error) => Self::Store(error),
            CallPermitError::Commit(error) => Self::Commit(error),
        }
    }
}
