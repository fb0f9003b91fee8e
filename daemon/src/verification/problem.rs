//! The errors of verification and of reviews.

use crate::platform::problem::{Problem, ProblemCode};
use actors_verification::{ReviewError, VerifyError};
use domain_base::problem::{DRAINING, INVALID_REQUEST, SOURCE_DAMAGED, STORAGE_UNAVAILABLE};
use domain_ground::problem::{ONTOLOGY_UNKNOWN, REVIEW_REFUSED, TIME_IN_FUTURE};
use domain_verification::event::AlteredEntryError;
use domain_verification::problem::{
    DECISION_ALTERED, DECISION_ERASED, EXECUTION_UNKNOWN, INVALID_RESOLUTION, INVALID_VERIFICATION,
    REVIEW_DISMISSED, REVIEW_NOT_IN_FORCE, REVIEW_RESOLVED, REVIEW_UNKNOWN, TOO_MANY_COMMENTS,
    WORKFLOW_UNKNOWN,
};
use domain_verification::replay::ErasedVerification;
use domain_verification::request::VerifyRequestError;
use std::fmt::Display;

/// A verification.
pub(crate) const VERIFY: &[ProblemCode] = &[
    INVALID_VERIFICATION,
    TIME_IN_FUTURE,
    WORKFLOW_UNKNOWN,
    ONTOLOGY_UNKNOWN,
    SOURCE_DAMAGED,
    STORAGE_UNAVAILABLE,
    DRAINING,
];
/// A change to a review.
pub(crate) const REVIEW: &[ProblemCode] =
    &[INVALID_RESOLUTION, REVIEW_UNKNOWN, REVIEW_RESOLVED, REVIEW_DISMISSED];

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
        Self::new(EXECUTION_UNKNOWN, detail)
    }

    /// Values of the decision's log entry were erased.
    pub fn decision_erased(decision: &ErasedVerification) -> Self {
        let ErasedVerification { seq, execution_id, erased, .. } = decision;
        let detail =
            format!("values of the decision {execution_id} (entry {seq}) were erased: {}", erased.join(", "));
        Self::new(DECISION_ERASED, detail)
    }

    /// The problem of a failed verification. `detail` may contain more than the error.
    pub(crate) fn from_verify_error(error: VerifyError, detail: String) -> Self {
        let code = match error {
            VerifyError::WorkflowUnknown(_) => WORKFLOW_UNKNOWN,
            VerifyError::OntologyUnknown(_) => ONTOLOGY_UNKNOWN,
            VerifyError::Bad(VerifyRequestError::Ahead(_)) => TIME_IN_FUTURE,
            VerifyError::Bad(_) => INVALID_VERIFICATION,
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
            ReviewError::Unknown(_) => REVIEW_UNKNOWN,
            ReviewError::Resolved { .. } => REVIEW_RESOLVED,
            ReviewError::Dismissed { .. } => REVIEW_DISMISSED,
            ReviewError::OntologyUnknown(_) => ONTOLOGY_UNKNOWN,
            ReviewError::Outdated { .. } => REVIEW_REFUSED,
            ReviewError::Open(_) | ReviewError::Revoked { .. } | ReviewError::Gone(_) => REVIEW_NOT_IN_FORCE,
            ReviewError::Bad(_) => INVALID_RESOLUTION,
            ReviewError::Text(_) => INVALID_REQUEST,
            ReviewError::TooManyComments(_) => TOO_MANY_COMMENTS,
            ReviewError::Store(error) => return error.into(),
            ReviewError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<AlteredEntryError> for Problem {
    fn from(error: AlteredEntryError) -> Self {
        Self::new(DECISION_ALTERED, error.to_string())
    }
}
