//! The errors of verification and of reviews.

use crate::platform::problem::{Problem, ProblemCode};
use actors_verification::{ReviewError, VerifyError};
use domain_verification::event::AlteredEntryError;
use domain_verification::replay::ErasedVerification;
use domain_verification::request::VerifyRequestError;
use std::fmt::Display;

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        let detail = error.to_string();
        Self::from_verify_error(error, detail)
    }
}

impl Problem {
    /// No decision has this execution id.
    pub fn execution_unknown(execution_id: impl Display) -> Self {
        let detail = format!(
            "no decision with values has the execution id {execution_id}; a retention may have removed the values"
        );
        Self::new(ProblemCode::ExecutionUnknown, detail)
    }

    /// Values of the decision's log entry were erased.
    pub fn decision_erased(decision: &ErasedVerification) -> Self {
        let ErasedVerification { seq, execution_id, erased, .. } = decision;
        let detail =
            format!("values of the decision {execution_id} (entry {seq}) were erased: {}", erased.join(", "));
        Self::new(ProblemCode::DecisionErased, detail)
    }

    /// The problem of a failed verification. `detail` may contain more than the error.
    pub(crate) fn from_verify_error(error: VerifyError, detail: String) -> Self {
        let code = match error {
            VerifyError::WorkflowUnknown(_) => ProblemCode::WorkflowUnknown,
            VerifyError::OntologyUnknown(_) => ProblemCode::OntologyUnknown,
            VerifyError::Bad(VerifyRequestError::Ahead(_)) => ProblemCode::TimeInFuture,
            VerifyError::Bad(_) => ProblemCode::InvalidVerification,
            VerifyError::Busy => return Self::overloaded(detail),
            VerifyError::Store(error) => return error.into(),
            VerifyError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<ReviewError> for Problem {
    fn from(error: ReviewError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ReviewError::Unknown(_) => ProblemCode::ReviewUnknown,
            ReviewError::Resolved { .. } => ProblemCode::ReviewResolved,
            ReviewError::Dismissed { .. } => ProblemCode::ReviewDismissed,
            ReviewError::OntologyUnknown(_) => ProblemCode::OntologyUnknown,
            ReviewError::Outdated { .. } => ProblemCode::ReviewRefused,
            ReviewError::Open(_) | ReviewError::Revoked { .. } | ReviewError::Gone(_) => {
                ProblemCode::ReviewNotInForce
            }
            ReviewError::Bad(_) => ProblemCode::InvalidResolution,
            ReviewError::Text(_) => ProblemCode::InvalidRequest,
            ReviewError::TooManyComments(_) => ProblemCode::TooManyComments,
            ReviewError::Store(error) => return error.into(),
            ReviewError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<AlteredEntryError> for Problem {
    fn from(error: AlteredEntryError) -> Self {
        Self::new(ProblemCode::DecisionAltered, error.to_string())
    }
}
