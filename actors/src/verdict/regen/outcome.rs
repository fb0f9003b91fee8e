//! The outcomes of generation and regeneration, for the metrics.

use super::flight::Failed;
use crate::platform::metrics::MadeOutcome;
use crate::upstream::oracle_health::PermitError;
use crate::upstream::{ModelError, Refusal};
use crate::verdict::rate_limiter::Limited;
use crate::verdict::submission::SubmissionOutcome;

impl SubmissionOutcome {
    pub(super) const fn made_outcome(&self) -> MadeOutcome {
        match self {
            Self::Stored(_) => MadeOutcome::Delivered,
            Self::Regenerated(..) => MadeOutcome::Regenerated,
            Self::Replayed(_) => MadeOutcome::Replayed,
            // a generated verdict is never only checked
            Self::Checked(_) | Self::RejectedByCrosscheck { .. } => MadeOutcome::Rejected,
            Self::RejectedByRules { .. } => MadeOutcome::RefusedByRules,
            Self::Mismatch(_) => MadeOutcome::SessionMismatch,
        }
    }
}

impl Failed {
    pub(super) const fn outcome(&self) -> MadeOutcome {
        match self {
            Self::SessionUnknown => MadeOutcome::SessionUnknown,
            Self::DeliveredAlready => MadeOutcome::DeliveredAlready,
            Self::NoModel => MadeOutcome::NoModel,
            Self::Limited(Limited::Session { .. }) => MadeOutcome::RateLimited,
            Self::Limited(Limited::Places { .. } | Limited::Budget { .. }) => MadeOutcome::ModelBusy,
            Self::NotPermitted { error: PermitError::QuotaWait { .. }, .. } => MadeOutcome::QuotaWait,
            Self::NotPermitted { .. } => MadeOutcome::CircuitOpen,
            Self::Model { error, .. } => match error {
                ModelError::Unavailable { .. } => MadeOutcome::ModelUnavailable,
                ModelError::Timeout { .. } => MadeOutcome::ModelTimeout,
                ModelError::RefusedRequest { .. } => MadeOutcome::RequestRefused,
                ModelError::Refused { reason: Refusal::PromptBlocked(_) } => MadeOutcome::PromptBlocked,
                ModelError::Refused { reason: Refusal::Stopped(_) } => MadeOutcome::StoppedEarly,
                ModelError::Refused { reason: Refusal::Declined(_) } => MadeOutcome::Declined,
                ModelError::Refused { reason: Refusal::Empty } => MadeOutcome::EmptyAnswer,
            },
            Self::Store(_) | Self::Commit(_) | Self::Cache(_) => MadeOutcome::StorageFailed,
            Self::Gate(_) | Self::NoAnswer(_) | Self::Crashed => MadeOutcome::Failed,
        }
    }
}
