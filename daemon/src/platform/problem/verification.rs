//! What each failure of verification is to whoever asked.

use super::{GroundProblem, Problem};
use oracled_actors::verification::{Closed, DismissError, ResolveError, RevokeError, VerifyError};
use oracled_domain::audit::event::verification::AlteredEntryError;
use oracled_domain::verification::request::BadRequest;

impl From<VerifyError> for Problem {
    fn from(error: VerifyError) -> Self {
        let told = error.to_string();
        of_verification(error, told)
    }
}

/// What a question that is not decided is to whoever asked, in these words.
pub(super) fn of_verification(error: VerifyError, told: String) -> Problem {
    match error {
        VerifyError::WorkflowUnknown(_) => GroundProblem::WorkflowUnknown(told).into(),
        VerifyError::OntologyUnknown(_) => GroundProblem::OntologyUnknown(told).into(),
        VerifyError::Bad(BadRequest::Ahead(_)) => GroundProblem::TimeInFuture(told).into(),
        VerifyError::Bad(_) => GroundProblem::InvalidVerification(told).into(),
        VerifyError::Busy => Problem::Overloaded(told),
        VerifyError::Store(error) => error.into(),
        VerifyError::Commit(error) => error.into(),
    }
}

impl From<Closed> for Problem {
    fn from(closed: Closed) -> Self {
        let told = closed.to_string();
        match closed {
            Closed::Resolved { .. } => GroundProblem::ReviewResolved(told).into(),
            Closed::Dismissed { .. } => GroundProblem::ReviewDismissed(told).into(),
        }
    }
}

impl From<ResolveError> for Problem {
    fn from(error: ResolveError) -> Self {
        let told = error.to_string();
        match error {
            ResolveError::Unknown(_) => GroundProblem::ReviewUnknown(told).into(),
            ResolveError::Closed(closed) => closed.into(),
            ResolveError::OntologyUnknown(_) => GroundProblem::OntologyUnknown(told).into(),
            ResolveError::Bad(_) => GroundProblem::InvalidResolution(told).into(),
            ResolveError::Store(error) => error.into(),
            ResolveError::Commit(error) => error.into(),
        }
    }
}

impl From<RevokeError> for Problem {
    fn from(error: RevokeError) -> Self {
        let told = error.to_string();
        match error {
            RevokeError::Unknown(_) => GroundProblem::ReviewUnknown(told).into(),
            RevokeError::Open(_) | RevokeError::Revoked { .. } | RevokeError::Gone(_) => {
                GroundProblem::ReviewNotInForce(told).into()
            }
            RevokeError::Closed(closed) => closed.into(),
            RevokeError::Bad(_) => GroundProblem::InvalidResolution(told).into(),
            RevokeError::Store(error) => error.into(),
            RevokeError::Commit(error) => error.into(),
        }
    }
}

impl From<DismissError> for Problem {
    fn from(error: DismissError) -> Self {
        let told = error.to_string();
        match error {
            DismissError::Unknown(_) => GroundProblem::ReviewUnknown(told).into(),
            DismissError::Closed(closed) => closed.into(),
            DismissError::Bad(_) => GroundProblem::InvalidResolution(told).into(),
            DismissError::Store(error) => error.into(),
            DismissError::Commit(error) => error.into(),
        }
    }
}

impl From<AlteredEntryError> for Problem {
    fn from(error: AlteredEntryError) -> Self {
        GroundProblem::DecisionAltered(error.to_string()).into()
    }
}
