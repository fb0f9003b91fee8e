//! The errors of verification and of reviews.

use crate::platform::problem::{Problem, ProblemCode};
use actors_verification::{
    CommentError, DismissError, ResolveError, ReviewClosedError, RevokeError, VerifyError,
};
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

impl From<ReviewClosedError> for Problem {
    fn from(closed: ReviewClosedError) -> Self {
        let detail = closed.to_string();
        let code = match closed {
            ReviewClosedError::Resolved { .. } => ProblemCode::ReviewResolved,
            ReviewClosedError::Dismissed { .. } => ProblemCode::ReviewDismissed,
        };
        Self::new(code, detail)
    }
}

impl From<ResolveError> for Problem {
    fn from(error: ResolveError) -> Self {
        let detail = error.to_string();
        let code = match error {
            ResolveError::Unknown(_) => ProblemCode::ReviewUnknown,
            ResolveError::Closed(closed) => return closed.into(),
            ResolveError::OntologyUnknown(_) => ProblemCode::OntologyUnknown,
            ResolveError::Outdated { .. } => ProblemCode::ReviewRefused,
            ResolveError::Bad(_) => ProblemCode::InvalidResolution,
            ResolveError::Store(error) => return error.into(),
            ResolveError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<RevokeError> for Problem {
    fn from(error: RevokeError) -> Self {
        let detail = error.to_string();
        let code = match error {
            RevokeError::Unknown(_) => ProblemCode::ReviewUnknown,
            RevokeError::Open(_) | RevokeError::Revoked { .. } | RevokeError::Gone(_) => {
                ProblemCode::ReviewNotInForce
            }
            RevokeError::Closed(closed) => return closed.into(),
            RevokeError::Bad(_) => ProblemCode::InvalidResolution,
            RevokeError::Store(error) => return error.into(),
            RevokeError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<DismissError> for Problem {
    fn from(error: DismissError) -> Self {
        let detail = error.to_string();
        let code = match error {
            DismissError::Unknown(_) => ProblemCode::ReviewUnknown,
            DismissError::Closed(closed) => return closed.into(),
            DismissError::Bad(_) => ProblemCode::InvalidResolution,
            DismissError::Store(error) => return error.into(),
            DismissError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<CommentError> for Problem {
    fn from(error: CommentError) -> Self {
        let detail = error.to_string();
        let code = match error {
            CommentError::Unknown(_) => ProblemCode::ReviewUnknown,
            CommentError::Text(_) => ProblemCode::InvalidRequest,
            CommentError::TooMany(_) => ProblemCode::TooManyComments,
            CommentError::Store(error) => return error.into(),
            CommentError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<AlteredEntryError> for Problem {
    fn from(error: AlteredEntryError) -> Self {
        Self::new(ProblemCode::DecisionAltered, error.to_string())
    }
}
