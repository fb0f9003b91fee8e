//! The outcome of asking a model for a verdict.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The outcome of a request for a verdict by the model.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GenerationOutcome {
    /// The verdict passed and was delivered.
    Delivered,
    /// The verdict passed and replaced a lost one.
    Regenerated,
    /// The session already had a verdict.
    Replayed,
    /// The crosscheck rejected the verdict.
    Rejected,
    /// The rules rejected the verdict.
    RefusedByRules,
    /// The policy refused the verdict.
    RefusedByPolicy,
    /// The policy holds the verdict for an operator.
    Held,
    /// The session has another tier or query.
    SessionMismatch,
    /// The session is not known.
    SessionUnknown,
    /// The session's first verdict was already delivered.
    DeliveredAlready,
    /// No model is configured.
    NoModel,
    /// The prompt template is not registered, or has no text for the tier.
    PromptUnavailable,
    /// The policy may hold the verdict, and the key of held verdicts cannot be used.
    HeldKeyUnusable,
    /// The session's verdict was regenerated a short time ago.
    RateLimited,
    /// The limits of model calls are reached.
    ModelBusy,
    /// The daily budget is used up.
    BudgetUsedUp,
    /// The model's circuit is open.
    CircuitOpen,
    /// The model requested a wait.
    QuotaWait,
    /// The model rejected the request, and would reject it again.
    RequestRefused,
    /// The model could not be reached, or failed.
    ModelUnavailable,
    /// The model did not answer in time.
    ModelTimeout,
    /// The model blocked the prompt.
    PromptBlocked,
    /// The model stopped before the end of its answer.
    StoppedEarly,
    /// The model declined to answer.
    Declined,
    /// The answer has no text.
    EmptyAnswer,
    /// The answer cannot be read, or is too large.
    UnreadableAnswer,
    /// The store failed.
    StorageFailed,
    /// The application cancelled the order.
    Cancelled,
    /// The daemon stopped during the call.
    Interrupted,
    /// An internal error.
    Failed,
}

impl GenerationOutcome {
    /// Whether the model answered, and its answer cannot be delivered. The same prompt may get another answer, but each costs
    /// money.
    #[must_use]
    pub const fn is_rejected_answer(self) -> bool {
        matches!(
            self,
            Self::Rejected
                | Self::RefusedByRules
                | Self::RefusedByPolicy
                | Self::PromptBlocked
                | Self::StoppedEarly
                | Self::Declined
                | Self::EmptyAnswer
        )
    }

    /// Whether the model gave no verdict that can be judged, so that another model is asked rather than this one again.
    #[must_use]
    pub const fn is_without_verdict(self) -> bool {
        matches!(self, Self::PromptBlocked | Self::StoppedEarly | Self::Declined | Self::EmptyAnswer)
    }

    /// Whether the model failed, so that another model may succeed now, and this one later.
    #[must_use]
    pub const fn is_failure_of_model(self) -> bool {
        matches!(
            self,
            Self::RequestRefused | Self::ModelUnavailable | Self::ModelTimeout | Self::UnreadableAnswer
        )
    }

    /// Whether the daemon itself cut the attempt off, by a stop or an internal error. The model may have been paid.
    #[must_use]
    pub const fn is_interruption(self) -> bool {
        matches!(self, Self::Interrupted | Self::Failed)
    }
}
