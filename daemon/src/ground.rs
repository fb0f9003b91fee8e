//! Ground truth: its errors, and the metrics of sources.

pub mod api;
pub mod config;
pub mod control;

use crate::platform::api::metrics::{FeatureMetrics, MetricsText};
use crate::platform::problem::{Problem, ProblemCode};
use crate::platform::service::{DaemonService, run_blocking};
use actors_ground::ingestion::IngestionError;
use actors_ground::queries::QueryError;
use actors_ground::registry::{DocumentFault, RegistryError};
use domain_base::problem::{
    BODY_TOO_LARGE, DOCUMENT_FIXED, DRAINING, FACTS_NOT_HERE, IN_CLUSTER, INTERNAL_ERROR, INVALID_DOCUMENT,
    INVALID_REQUEST, SOURCE_DAMAGED, STORAGE_UNAVAILABLE,
};
use domain_ground::problem::{
    CONTENT_PRUNED, INVALID_QUERY, NOT_INVALIDATED, NOT_REBUILT, ONTOLOGY_UNKNOWN, PAYLOAD_UNDECODABLE,
    PIPELINE_UNKNOWN, PULL_BUSY, PULL_FAILED, QUERY_STOPPED, QUERY_TOO_COSTLY, RECORD_UNKNOWN,
    REVIEW_REFUSED, RUN_BUSY, RUN_NOT_HELD, RUN_NOT_IN_FORCE, RUN_NOT_RUNNING, RUN_OUTDATED, RUN_UNKNOWN,
    RUNS_HELD, SOURCE_LIVE, SOURCE_SILENT, SOURCE_STALE, SOURCE_UNKNOWN, TIME_IN_FUTURE, VERSION_KNOWN,
};
use domain_ground::source::{SourceRegistrationError, VersionRecord};
use domain_ground::source_state::{SourceCheck, SourceState};
use oracled_store::StoreError;
use std::fmt::Display;
use std::sync::Arc;

/// A query of a source.
pub(crate) const QUERY: &[ProblemCode] = &[
    INVALID_QUERY,
    TIME_IN_FUTURE,
    SOURCE_UNKNOWN,
    SOURCE_LIVE,
    SOURCE_SILENT,
    QUERY_TOO_COSTLY,
    FACTS_NOT_HERE,
    SOURCE_DAMAGED,
    QUERY_STOPPED,
    SOURCE_STALE,
    STORAGE_UNAVAILABLE,
    DRAINING,
];
/// A record by its id.
const RECORD: &[ProblemCode] = &[RECORD_UNKNOWN, SOURCE_DAMAGED, FACTS_NOT_HERE];
/// A run by its id.
pub(crate) const RUN: &[ProblemCode] = &[RUN_UNKNOWN];

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let detail = error.to_string();
        let code = match error {
            RegistryError::OntologyUnknown(_) => ONTOLOGY_UNKNOWN,
            RegistryError::SourceUnknown(_)
            | RegistryError::Document { fault: DocumentFault::SourceUnknown, .. } => SOURCE_UNKNOWN,
            RegistryError::PipelineUnknown(_) => PIPELINE_UNKNOWN,
            RegistryError::VersionFixed { .. }
            | RegistryError::PipelineFixed { .. }
            | RegistryError::SecondPipeline { .. }
            | RegistryError::Document { fault: DocumentFault::Fixed, .. }
            | RegistryError::Source(
                SourceRegistrationError::Fixed { .. } | SourceRegistrationError::Ontology { .. },
            ) => DOCUMENT_FIXED,
            RegistryError::Source(SourceRegistrationError::Transition { .. }) => REVIEW_REFUSED,
            RegistryError::Source(SourceRegistrationError::TooSoon { .. })
            | RegistryError::NoTrigger { .. } => INVALID_REQUEST,
            RegistryError::Ontology(_)
            | RegistryError::Source(_)
            | RegistryError::Pipeline(_)
            | RegistryError::Retrieval(_)
            | RegistryError::Words { .. }
            | RegistryError::Policy(_)
            | RegistryError::PolicyKept(_)
            | RegistryError::Document { fault: DocumentFault::Invalid, .. } => INVALID_DOCUMENT,
            RegistryError::Live(_) => SOURCE_LIVE,
            RegistryError::NotInvalidated(_) => NOT_INVALIDATED,
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
            IngestionError::TooManyHeld { .. } => RUNS_HELD,
            IngestionError::Busy { .. } => RUN_BUSY,
            IngestionError::VersionKnown { .. }
            | IngestionError::VersionTaken { .. }
            | IngestionError::Replaced { .. } => VERSION_KNOWN,
            IngestionError::Amended(_) | IngestionError::OtherHost(_) | IngestionError::SourceChanged(_) => {
                RUN_BUSY
            }
            IngestionError::Ahead { .. } => INVALID_REQUEST,
            IngestionError::NotRunning(_) => RUN_NOT_RUNNING,
            IngestionError::NotHeld { .. } => RUN_NOT_HELD,
            IngestionError::Outdated { .. } => RUN_OUTDATED,
            IngestionError::ContentPruned { .. } => CONTENT_PRUNED,
            IngestionError::NotCompleted { .. }
            | IngestionError::NotCounting { .. }
            | IngestionError::Undone { .. } => RUN_NOT_IN_FORCE,
            IngestionError::Version(_) | IngestionError::NotPulled(_) | IngestionError::NoPull(_) => {
                INVALID_REQUEST
            }
            IngestionError::Pulling(_) | IngestionError::Resting { .. } => PULL_BUSY,
            IngestionError::Pull(_) => PULL_FAILED,
            IngestionError::InCluster => IN_CLUSTER,
            IngestionError::Upkeep(_) => RUN_BUSY,
            IngestionError::NotRebuilt { .. } => NOT_REBUILT,
            IngestionError::Retained { .. } => INVALID_REQUEST,
            IngestionError::Undecodable(_) => PAYLOAD_UNDECODABLE,
            IngestionError::PayloadTooLarge(_) => BODY_TOO_LARGE,
            IngestionError::Archiving(_) | IngestionError::Inside(_) => INTERNAL_ERROR,
            IngestionError::Collision(_) => INTERNAL_ERROR,
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
        Self::new(RUN_UNKNOWN, format!("no run has the id {run_id}, or an id that begins with it"))
    }

    /// The problem of a failed query. `detail` may contain more than the error.
    pub(crate) fn from_query_error(error: QueryError, detail: String) -> Self {
        let code = match error {
            QueryError::SourceUnknown(_) => SOURCE_UNKNOWN,
            QueryError::Live(_) => SOURCE_LIVE,
            QueryError::Silent(_) => SOURCE_SILENT,
            QueryError::Bad(_) | QueryError::QueryId => INVALID_QUERY,
            QueryError::Ahead(_) => TIME_IN_FUTURE,
            QueryError::Position(_) => INVALID_REQUEST,
            QueryError::TooCostly | QueryError::SubjectOpen { .. } | QueryError::SubjectTooLarge => {
                QUERY_TOO_COSTLY
            }
            QueryError::Stopped => QUERY_STOPPED,
            QueryError::Busy => return Self::overloaded(detail),
            QueryError::Stale { .. } => SOURCE_STALE,
            QueryError::Store(error) => return error.into(),
            QueryError::Unlogged(error) => return error.into(),
            QueryError::Reading(_) => INTERNAL_ERROR,
        };
        Self::new(code, detail)
    }
}

/// A source with the state of its files.
struct SourceFiles {
    state: SourceState,
    /// Number of its files that are missing or truncated.
    missing: usize,
    last_check: Option<SourceCheck>,
}

/// The metrics of the feature.
pub(crate) const METRICS: FeatureMetrics =
    FeatureMetrics { name: "ground", read: |service| Box::pin(read_metrics(service)), series: &[] };

/// Reads for each source: when it was last ingested and released (if ever), its held runs, its missing files, and the result of
/// its last check.
async fn read_metrics(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let store = service.system.store.clone();
    let sources = run_blocking(move || {
        let with_files = |state: SourceState| {
            let missing = store.files().faults(&state).len();
            let last_check = store.source_check(state.entry.oracle_id());
            SourceFiles { state, missing, last_check }
        };
        Ok::<_, StoreError>(store.sources()?.into_iter().map(with_files).collect::<Vec<_>>())
    });
    let sources = sources.await?;
    let label = |source: &SourceFiles| format!("oracle=\"{}\"", source.state.entry.oracle_id());
    let latest = |source: &SourceFiles, read: fn(&VersionRecord) -> jiff::Timestamp| {
        Some((label(source), source.state.entry.version_history.iter().map(read).max()?.as_second()))
    };
    let mut text = MetricsText::default();
    text.gauges(
        "source_ingested_timestamp_seconds",
        "when the last run of a source became visible",
        sources.iter().filter_map(|source| latest(source, |version| version.ingested_at)),
    );
    text.gauges(
        "source_released_timestamp_seconds",
        "when the newest version of a source was released",
        sources.iter().filter_map(|source| latest(source, |version| version.released_at)),
    );
    text.gauges(
        "source_runs_held",
        "runs of a source that are held for an operator's decision",
        sources.iter().map(|source| (label(source), source.state.held.len())),
    );
    text.gauges(
        "source_files_missing",
        "files of a source that are missing, or have another length",
        sources.iter().map(|source| (label(source), source.missing)),
    );
    let checked = || sources.iter().filter_map(|source| Some((label(source), source.last_check.as_ref()?)));
    text.gauges(
        "source_faults",
        "faults that the last check of a source found",
        checked().map(|(label, check)| (label, check.fault_count)),
    );
    text.gauges(
        "source_checked_timestamp_seconds",
        "when the last check of a source ended",
        checked().map(|(label, check)| (label, check.checked_at.as_second())),
    );
    Ok(text)
}
