//! The errors of ground truth.

use crate::platform::problem::{Problem, ProblemCode};
use actors_ground::ingestion::IngestionError;
use actors_ground::queries::QueryError;
use actors_ground::registry::{DocumentFault, RegistryError};
use domain_ground::source::SourceRegistrationError;
use std::fmt::Display;

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let detail = error.to_string();
        let code = match error {
            RegistryError::OntologyUnknown(_) => ProblemCode::OntologyUnknown,
            RegistryError::SourceUnknown(_)
            | RegistryError::Document { fault: DocumentFault::SourceUnknown, .. } => {
                ProblemCode::SourceUnknown
            }
            RegistryError::PipelineUnknown(_) => ProblemCode::PipelineUnknown,
            RegistryError::VersionFixed { .. }
            | RegistryError::PipelineFixed { .. }
            | RegistryError::SecondPipeline { .. }
            | RegistryError::Document { fault: DocumentFault::Fixed, .. }
            | RegistryError::Source(
                SourceRegistrationError::Fixed { .. } | SourceRegistrationError::Ontology { .. },
            ) => ProblemCode::DocumentFixed,
            RegistryError::Source(SourceRegistrationError::Transition { .. }) => ProblemCode::ReviewRefused,
            RegistryError::Source(SourceRegistrationError::TooSoon { .. })
            | RegistryError::NoTrigger { .. } => ProblemCode::InvalidRequest,
            RegistryError::Ontology(_)
            | RegistryError::Source(_)
            | RegistryError::Pipeline(_)
            | RegistryError::Retrieval(_)
            | RegistryError::Words { .. }
            | RegistryError::Policy(_)
            | RegistryError::PolicyKept(_)
            | RegistryError::Document { fault: DocumentFault::Invalid, .. } => ProblemCode::InvalidDocument,
            RegistryError::Live(_) => ProblemCode::SourceLive,
            RegistryError::NotInvalidated(_) => ProblemCode::NotInvalidated,
            RegistryError::Store(error) => return error.into(),
            RegistryError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<IngestionError> for Problem {
    fn from(error: IngestionError) -> Self {
        let detail = error.to_string();
        let code = match error {
            IngestionError::RunUnknown(run_id) => return Self::run_unknown(run_id),
            IngestionError::TooManyHeld { .. } => ProblemCode::RunsHeld,
            IngestionError::Busy { .. } => ProblemCode::RunBusy,
            IngestionError::VersionKnown { .. } | IngestionError::Replaced { .. } => {
                ProblemCode::VersionKnown
            }
            IngestionError::Amended(_) => ProblemCode::RunBusy,
            IngestionError::Ahead { .. } => ProblemCode::InvalidRequest,
            IngestionError::NotRunning(_) => ProblemCode::RunNotRunning,
            IngestionError::NotHeld { .. } => ProblemCode::RunNotHeld,
            IngestionError::ContentPruned { .. } => ProblemCode::ContentPruned,
            IngestionError::NotCompleted(_) | IngestionError::Undone { .. } => ProblemCode::RunNotInForce,
            IngestionError::Version(_) | IngestionError::NotPulled(_) | IngestionError::NoPull(_) => {
                ProblemCode::InvalidRequest
            }
            IngestionError::Pulling(_) | IngestionError::Resting { .. } => ProblemCode::PullBusy,
            IngestionError::Pull(_) => ProblemCode::PullFailed,
            IngestionError::Upkeep(_) => ProblemCode::RunBusy,
            IngestionError::NotRebuilt { .. } => ProblemCode::NotRebuilt,
            IngestionError::Retained { .. } => ProblemCode::InvalidRequest,
            IngestionError::Undecodable(_) => ProblemCode::PayloadUndecodable,
            IngestionError::PayloadTooLarge(_) => ProblemCode::BodyTooLarge,
            IngestionError::Archiving(_) | IngestionError::Inside(_) => ProblemCode::InternalError,
            IngestionError::Collision(_) => ProblemCode::InternalError,
            IngestionError::Registry(error) => return error.into(),
            IngestionError::Store(error) => return error.into(),
            IngestionError::Commit(error) => return error.into(),
        };
        Self::new(code, detail)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = error.to_string();
        Self::from_query_error(error, detail)
    }
}

impl Problem {
    /// No run has this id, or an id that begins with it.
    pub fn run_unknown(run_id: impl Display) -> Self {
        Self::new(
            ProblemCode::RunUnknown,
            format!("no run has the id {run_id}, or an id that begins with it"),
        )
    }

    /// The problem of a failed query. `detail` may contain more than the error.
    pub(crate) fn from_query_error(error: QueryError, detail: String) -> Self {
        let code = match error {
            QueryError::SourceUnknown(_) => ProblemCode::SourceUnknown,
            QueryError::Live(_) => ProblemCode::SourceLive,
            QueryError::Silent(_) => ProblemCode::SourceSilent,
            QueryError::Bad(_) | QueryError::QueryId => ProblemCode::InvalidQuery,
            QueryError::Ahead(_) => ProblemCode::TimeInFuture,
            QueryError::Position(_) => ProblemCode::InvalidRequest,
            QueryError::TooCostly | QueryError::SubjectTooLarge => ProblemCode::QueryTooCostly,
            QueryError::Stopped => ProblemCode::QueryStopped,
            QueryError::Busy => return Self::overloaded(detail),
            QueryError::Stale { .. } => ProblemCode::SourceStale,
            QueryError::Store(error) => return error.into(),
            QueryError::Unlogged(error) => return error.into(),
            QueryError::Reading(_) => ProblemCode::InternalError,
        };
        Self::new(code, detail)
    }
}
