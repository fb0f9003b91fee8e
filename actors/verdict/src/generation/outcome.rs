//! The outcomes of generation and regeneration, for metrics and orders.

use super::error::GenerationError;
use super::prompt::PromptError;
use crate::cache::VerdictCacheError;
use crate::rate_limiter::CallLimitError;
use crate::submission::SubmissionOutcome;
use actors_upstream::oracle_health::PermitError;
use actors_upstream::{ModelError, ModelRefusal};
use domain_verdict::generation_outcome::GenerationOutcome;

impl SubmissionOutcome {
    pub(crate) const fn generation_outcome(&self) -> GenerationOutcome {
        match self {
            Self::Stored(_) => GenerationOutcome::Delivered,
            Self::Regenerated(..) => GenerationOutcome::Regenerated,
            Self::Replayed(_) => GenerationOutcome::Replayed,
            // a generated verdict is never only checked
            Self::Checked(_) | Self::RejectedByCrosscheck { .. } => GenerationOutcome::Rejected,
            Self::RejectedByRules { .. } => GenerationOutcome::RefusedByRules,
            Self::RejectedByPolicy { .. } => GenerationOutcome::RefusedByPolicy,
            Self::Held => GenerationOutcome::Held,
            Self::Cancelled => GenerationOutcome::Cancelled,
            Self::Mismatch(_) => GenerationOutcome::SessionMismatch,
        }
    }
}

impl GenerationError {
    pub(crate) const fn generation_outcome(&self) -> GenerationOutcome {
        match self {
            Self::SessionUnknown => GenerationOutcome::SessionUnknown,
            Self::DeliveredAlready => GenerationOutcome::DeliveredAlready,
            Self::NoModel => GenerationOutcome::NoModel,
            Self::Prompt(PromptError::Store(_)) => GenerationOutcome::StorageFailed,
            Self::Prompt(_) => GenerationOutcome::PromptUnavailable,
            Self::QueueFull(_) => GenerationOutcome::ModelBusy,
            Self::Limited(CallLimitError::Session { .. }) => GenerationOutcome::RateLimited,
            Self::Limited(
                CallLimitError::Places { .. }
                | CallLimitError::Budget { .. }
                | CallLimitError::Application { .. },
            ) => GenerationOutcome::ModelBusy,
            Self::Limited(CallLimitError::DailyBudget { .. }) => GenerationOutcome::BudgetUsedUp,
            Self::NotPermitted { error: PermitError::RequestedWait { .. }, .. } => {
                GenerationOutcome::QuotaWait
            }
            Self::NotPermitted { error: PermitError::Refusing { .. }, .. } => {
                GenerationOutcome::RequestRefused
            }
            Self::NotPermitted { .. } => GenerationOutcome::CircuitOpen,
            Self::Model { error, .. } => match error {
                ModelError::Unavailable { .. } => GenerationOutcome::ModelUnavailable,
                ModelError::UnreadableAnswer { .. } => GenerationOutcome::UnreadableAnswer,
                ModelError::Timeout { .. } => GenerationOutcome::ModelTimeout,
                ModelError::RefusedRequest { .. } => GenerationOutcome::RequestRefused,
                ModelError::Refused { reason: ModelRefusal::PromptBlocked(_) } => {
                    GenerationOutcome::PromptBlocked
                }
                ModelError::Refused { reason: ModelRefusal::Stopped(_) } => GenerationOutcome::StoppedEarly,
                ModelError::Refused { reason: ModelRefusal::Declined(_) } => GenerationOutcome::Declined,
                ModelError::Refused { reason: ModelRefusal::Empty } => GenerationOutcome::EmptyAnswer,
            },
            Self::Cache(VerdictCacheError::HeldKey(_)) => GenerationOutcome::HeldKeyUnusable,
            Self::Store(_) | Self::Commit(_) | Self::Cache(_) => GenerationOutcome::StorageFailed,
            Self::Gate(_) | Self::NoAnswer(_) | Self::Crashed => GenerationOutcome::Failed,
        }
    }
}
