//! The cause for which a queued order waits.

use crate::verdict::generation_outcome::GenerationOutcome;
use crate::verdict::outbox_retry::stored_cause;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Why an order that is due is not attempted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderWait {
    /// The cause, such as `budget_used_up`, `model_busy`, `circuit_open` or `prompt_unavailable`.
    pub cause: GenerationOutcome,
    /// The error.
    pub detail: String,
    /// When the cause ends, if that is known. The order is tried earlier, too, because the cause may end before.
    pub until: Option<Timestamp>,
}

impl OrderWait {
    /// The wait for the end of an error, whose text is shortened.
    #[must_use]
    pub fn new(cause: GenerationOutcome, error: &str, until: Option<Timestamp>) -> Self {
        Self { cause, detail: stored_cause(error), until }
    }
}
