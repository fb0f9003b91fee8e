//! What can be wrong with a request that concerns ground truth.

use super::Problem;
use hyper::StatusCode;
use oracled_actors::ground::ingestion::IngestionError;
use oracled_actors::ground::queries::QueryError;
use oracled_actors::ground::registry::RegistryError;
use oracled_domain::ground::source::BadSource;

/// A run or a pull that was refused because another one goes on may be tried again after so many seconds.
const BUSY_S: u64 = 5;
pub(super) const MS_A_SECOND: u64 = 1_000;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroundProblem {
    /// There is no such ontology.
    #[error("{0}")]
    OntologyUnknown(String),
    /// There is no such source.
    #[error("{0}")]
    SourceUnknown(String),
    /// There is no such pipeline.
    #[error("{0}")]
    PipelineUnknown(String),
    /// The source has no adapter.
    #[error("{0}")]
    AdapterUnknown(String),
    /// There is no such workflow.
    #[error("{0}")]
    WorkflowUnknown(String),
    /// No decision was taken under this execution id.
    #[error("no decision was taken under the execution id {0}")]
    ExecutionUnknown(String),
    /// The log holds another envelope than was told of a decision.
    #[error("{0}")]
    DecisionAltered(String),
    /// What is to be verified cannot be meant.
    #[error("{0}")]
    InvalidVerification(String),
    /// There is no such review.
    #[error("{0}")]
    ReviewUnknown(String),
    /// Somebody has resolved the review already.
    #[error("{0}")]
    ReviewResolved(String),
    /// Somebody has closed the review without deciding anything.
    #[error("{0}")]
    ReviewDismissed(String),
    /// Nothing that was decided of the review is in force.
    #[error("{0}")]
    ReviewNotInForce(String),
    /// What is decided of a review cannot be meant.
    #[error("{0}")]
    InvalidResolution(String),
    /// There is no such run.
    #[error("no run has the id {0}, or one that begins so")]
    RunUnknown(String),
    /// A document is not what it must be.
    #[error("{0}")]
    InvalidDocument(String),
    /// What is registered cannot become that.
    #[error("{0}")]
    DocumentFixed(String),
    /// A review does not follow from where the source stands.
    #[error("{0}")]
    ReviewRefused(String),
    /// There is no invalidation to take back.
    #[error("{0}")]
    NotInvalidated(String),
    /// Another run of the source goes on.
    #[error("{0}")]
    RunBusy(String),
    /// The version was read from something else.
    #[error("{0}")]
    VersionKnown(String),
    /// The run does not go on.
    #[error("{0}")]
    RunNotRunning(String),
    /// The run cannot be approved or discarded, since it is not held.
    #[error("{0}")]
    RunNotHeld(String),
    /// Too many runs of the source are held.
    #[error("{0}")]
    RunsHeld(String),
    /// The run cannot be undone, since it is not completed or no longer counts.
    #[error("{0}")]
    RunNotInForce(String),
    /// An undo would bring back records whose content was pruned.
    #[error("{0}")]
    ContentPruned(String),
    /// Another pull of the pipeline goes on.
    #[error("{0}")]
    PullBusy(String),
    /// The payload could not be pulled.
    #[error("{0}")]
    PullFailed(String),
    /// There is no such record.
    #[error("{0}")]
    RecordUnknown(String),
    /// No freshness policy names the signal.
    #[error("{0}")]
    SignalUnknown(String),
    /// A signal does not bear the signature that its freshness policy asks for.
    #[error("{0}")]
    SignalForbidden(String),
    /// Too many signals come in at a path.
    #[error("more than {limit} signals a minute at {path}; send it again in {retry_after_s} s")]
    SignalRateLimited {
        /// The path.
        path: String,
        /// The signals that are taken within a minute.
        limit: u32,
        /// When to send it again, in seconds.
        retry_after_s: u64,
    },
    /// The query cannot be meant.
    #[error("{0}")]
    InvalidQuery(String),
    /// The request names a time in the future.
    #[error("{0}")]
    TimeInFuture(String),
    /// The query exceeds the work limit.
    #[error("{0}")]
    QueryTooCostly(String),
    /// The scan reached its deadline.
    #[error("{0}")]
    QueryStopped(String),
    /// The source is asked anew each time.
    #[error("{0}")]
    SourceLive(String),
    /// The source does not answer.
    #[error("{0}")]
    SourceSilent(String),
    /// What the source says is too old.
    #[error("{0}")]
    SourceStale(String),
    /// What was asked for gives no facts that may be believed, or fewer than were asked for.
    #[error("{told}")]
    FactsUnavailable {
        /// Why.
        told: String,
        /// When to try again, in seconds, where that may help.
        retry_after_s: Option<u64>,
    },
    /// A file of the source is damaged or gone.
    #[error("{0}")]
    SourceDamaged(String),
    /// Damaged files cannot be made anew.
    #[error("{0}")]
    NotRebuilt(String),
}

impl GroundProblem {
    pub(super) const fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::OntologyUnknown(_) => (StatusCode::NOT_FOUND, "ontology_unknown"),
            Self::SourceUnknown(_) => (StatusCode::NOT_FOUND, "source_unknown"),
            Self::PipelineUnknown(_) => (StatusCode::NOT_FOUND, "pipeline_unknown"),
            Self::AdapterUnknown(_) => (StatusCode::NOT_FOUND, "adapter_unknown"),
            Self::WorkflowUnknown(_) => (StatusCode::NOT_FOUND, "workflow_unknown"),
            Self::ExecutionUnknown(_) => (StatusCode::NOT_FOUND, "execution_unknown"),
            Self::DecisionAltered(_) => (StatusCode::INTERNAL_SERVER_ERROR, "decision_altered"),
            Self::InvalidVerification(_) => (StatusCode::BAD_REQUEST, "invalid_verification"),
            Self::ReviewUnknown(_) => (StatusCode::NOT_FOUND, "review_unknown"),
            Self::ReviewResolved(_) => (StatusCode::CONFLICT, "review_resolved"),
            Self::ReviewDismissed(_) => (StatusCode::CONFLICT, "review_dismissed"),
            Self::ReviewNotInForce(_) => (StatusCode::CONFLICT, "review_not_in_force"),
            Self::InvalidResolution(_) => (StatusCode::BAD_REQUEST, "invalid_resolution"),
            Self::RunUnknown(_) => (StatusCode::NOT_FOUND, "run_unknown"),
            Self::InvalidDocument(_) => (StatusCode::BAD_REQUEST, "invalid_document"),
            Self::DocumentFixed(_) => (StatusCode::CONFLICT, "document_fixed"),
            Self::ReviewRefused(_) => (StatusCode::CONFLICT, "review_refused"),
            Self::NotInvalidated(_) => (StatusCode::CONFLICT, "not_invalidated"),
            Self::RunBusy(_) => (StatusCode::CONFLICT, "run_busy"),
            Self::VersionKnown(_) => (StatusCode::CONFLICT, "version_known"),
            Self::RunNotRunning(_) => (StatusCode::CONFLICT, "run_not_running"),
            Self::RunNotHeld(_) => (StatusCode::CONFLICT, "run_not_held"),
            Self::RunsHeld(_) => (StatusCode::CONFLICT, "runs_held"),
            Self::RunNotInForce(_) => (StatusCode::CONFLICT, "run_not_in_force"),
            Self::ContentPruned(_) => (StatusCode::CONFLICT, "content_pruned"),
            Self::PullBusy(_) => (StatusCode::CONFLICT, "pull_busy"),
            Self::PullFailed(_) => (StatusCode::BAD_GATEWAY, "pull_failed"),
            Self::RecordUnknown(_) => (StatusCode::NOT_FOUND, "record_unknown"),
            Self::SignalUnknown(_) => (StatusCode::NOT_FOUND, "signal_unknown"),
            Self::SignalForbidden(_) => (StatusCode::FORBIDDEN, "signal_forbidden"),
            Self::SignalRateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "signal_rate_limited"),
            Self::InvalidQuery(_) => (StatusCode::BAD_REQUEST, "invalid_query"),
            Self::TimeInFuture(_) => (StatusCode::BAD_REQUEST, "time_in_future"),
            Self::QueryTooCostly(_) => (StatusCode::UNPROCESSABLE_ENTITY, "query_too_costly"),
            Self::QueryStopped(_) => (StatusCode::SERVICE_UNAVAILABLE, "query_stopped"),
            Self::SourceLive(_) => (StatusCode::CONFLICT, "source_live"),
            Self::SourceSilent(_) => (StatusCode::CONFLICT, "source_silent"),
            Self::SourceStale(_) => (StatusCode::SERVICE_UNAVAILABLE, "source_stale"),
            Self::FactsUnavailable { .. } => (StatusCode::CONFLICT, "facts_unavailable"),
            Self::SourceDamaged(_) => (StatusCode::INTERNAL_SERVER_ERROR, "source_damaged"),
            Self::NotRebuilt(_) => (StatusCode::CONFLICT, "not_rebuilt"),
        }
    }

    /// When to try again, in seconds, where that makes sense.
    pub(super) const fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::RunBusy(_) | Self::PullBusy(_) | Self::QueryStopped(_) => Some(BUSY_S),
            Self::FactsUnavailable { retry_after_s, .. } => *retry_after_s,
            Self::SignalRateLimited { retry_after_s, .. } => Some(*retry_after_s),
            _ => None,
        }
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let told = error.to_string();
        match error {
            RegistryError::OntologyUnknown(_) => GroundProblem::OntologyUnknown(told).into(),
            RegistryError::SourceUnknown(_) => GroundProblem::SourceUnknown(told).into(),
            RegistryError::PipelineUnknown(_) => GroundProblem::PipelineUnknown(told).into(),
            RegistryError::OntologyFixed(_)
            | RegistryError::PipelineFixed { .. }
            | RegistryError::NotLive(_)
            | RegistryError::WorkflowKept { .. }
            | RegistryError::Source(BadSource::Fixed { .. } | BadSource::Ontology { .. }) => {
                GroundProblem::DocumentFixed(told).into()
            }
            RegistryError::Source(BadSource::Transition { .. }) => GroundProblem::ReviewRefused(told).into(),
            RegistryError::Source(BadSource::TooSoon { .. }) | RegistryError::NoTrigger { .. } => {
                Self::InvalidRequest(told)
            }
            RegistryError::Ontology(_)
            | RegistryError::Source(_)
            | RegistryError::Pipeline(_)
            | RegistryError::Retrieval(_)
            | RegistryError::Adapter(_)
            | RegistryError::Endpoint(_)
            | RegistryError::AdapterKept(_)
            | RegistryError::Workflow(_)
            | RegistryError::Policy(_)
            | RegistryError::PolicyKept(_) => GroundProblem::InvalidDocument(told).into(),
            RegistryError::Live(_) => GroundProblem::SourceLive(told).into(),
            RegistryError::NotInvalidated(_) => GroundProblem::NotInvalidated(told).into(),
            RegistryError::Store(error) => error.into(),
            RegistryError::Commit(error) => error.into(),
        }
    }
}

impl From<IngestionError> for Problem {
    fn from(error: IngestionError) -> Self {
        let told = error.to_string();
        match error {
            IngestionError::RunUnknown(run_id) => GroundProblem::RunUnknown(run_id.to_string()).into(),
            IngestionError::TooManyHeld { .. } => GroundProblem::RunsHeld(told).into(),
            IngestionError::Busy { .. } => GroundProblem::RunBusy(told).into(),
            IngestionError::VersionKnown { .. } | IngestionError::Replaced { .. } => {
                GroundProblem::VersionKnown(told).into()
            }
            IngestionError::Amended(_) => GroundProblem::RunBusy(told).into(),
            IngestionError::Ahead { .. } => Self::InvalidRequest(told),
            IngestionError::NotRunning(_) => GroundProblem::RunNotRunning(told).into(),
            IngestionError::NotHeld { .. } => GroundProblem::RunNotHeld(told).into(),
            IngestionError::ContentPruned { .. } => GroundProblem::ContentPruned(told).into(),
            IngestionError::NotCompleted(_) | IngestionError::Undone { .. } => {
                GroundProblem::RunNotInForce(told).into()
            }
            IngestionError::Version(_) | IngestionError::NotPulled(_) | IngestionError::NoPull(_) => {
                Self::InvalidRequest(told)
            }
            IngestionError::Pulling(_) | IngestionError::Resting { .. } => {
                GroundProblem::PullBusy(told).into()
            }
            IngestionError::Pull(_) => GroundProblem::PullFailed(told).into(),
            IngestionError::Upkeep(_) => GroundProblem::RunBusy(told).into(),
            IngestionError::NotRebuilt { .. } => GroundProblem::NotRebuilt(told).into(),
            IngestionError::Retained { .. } => Self::InvalidRequest(told),
            IngestionError::Archiving(_) | IngestionError::Inside(_) => Self::Internal(told),
            IngestionError::Collision(_) => Self::Internal(told),
            IngestionError::Registry(error) => error.into(),
            IngestionError::Store(error) => error.into(),
            IngestionError::Commit(error) => error.into(),
        }
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let told = error.to_string();
        of_query(error, told)
    }
}

/// What a query that is not answered is to whoever asked, in these words.
pub(super) fn of_query(error: QueryError, told: String) -> Problem {
    match error {
        QueryError::SourceUnknown(_) => GroundProblem::SourceUnknown(told).into(),
        QueryError::Live(_) => GroundProblem::SourceLive(told).into(),
        QueryError::Silent(_) => GroundProblem::SourceSilent(told).into(),
        QueryError::Bad(_) | QueryError::QueryId => GroundProblem::InvalidQuery(told).into(),
        QueryError::Ahead(_) => GroundProblem::TimeInFuture(told).into(),
        QueryError::TooCostly => GroundProblem::QueryTooCostly(told).into(),
        QueryError::Stopped => GroundProblem::QueryStopped(told).into(),
        QueryError::Busy => Problem::Overloaded(told),
        QueryError::Stale { .. } => GroundProblem::SourceStale(told).into(),
        QueryError::Store(error) => error.into(),
        QueryError::Unlogged(error) => error.into(),
        QueryError::Reading(_) => Problem::Internal(told),
    }
}
