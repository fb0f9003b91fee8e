//! Verification: its configuration, its errors and its metrics.

pub mod api;
pub mod control;

use crate::platform::api::metrics::{FeatureMetrics, MetricsText};
use crate::platform::config::credentials::{
    ClientSetup, ConfiguredCredential, CredentialKeys, cleartext_faults,
};
use crate::platform::config::{ConfigError, Section};
use crate::platform::problem::{Problem, ProblemCode};
use crate::platform::service::{DaemonService, run_blocking};
use actors_upstream::Reloadable;
use actors_upstream::oracle::{HttpLiveOracle, LiveOracle};
use actors_verification::{ReviewError, VerifyError};
use domain_base::problem::{
    DRAINING, FACTS_NOT_HERE, INTERNAL_ERROR, INVALID_REQUEST, SOURCE_DAMAGED, STORAGE_UNAVAILABLE,
};
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::problem::{ONTOLOGY_UNKNOWN, REVIEW_REFUSED, TIME_IN_FUTURE};
use domain_verification::event::AlteredEntryError;
use domain_verification::problem::{
    DECISION_ALTERED, DECISION_ERASED, EXECUTION_UNKNOWN, INVALID_RESOLUTION, INVALID_VERIFICATION,
    REVIEW_DISMISSED, REVIEW_NOT_IN_FORCE, REVIEW_RESOLVED, REVIEW_RULE_MISMATCH, REVIEW_RULE_UNKNOWN,
    REVIEW_UNKNOWN, TOO_MANY_COMMENTS, WORKFLOW_UNKNOWN,
};
use domain_verification::replay::ErasedVerification;
use domain_verification::request::VerifyRequestError;
use domain_verification::review::OPEN_REVIEWS;
use domain_verification::workflow::Workflow;
use ipnet::IpNet;
use oracled_store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use utoipa::ToSchema;

/// The key of the credentials.
const CREDENTIALS: &str = "verification.credentials";

/// Limits of verification, and the credentials of live sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerificationSection {
    /// Maximum number of concurrent questions to sources. Further ones wait within the latency budget of their workflow.
    #[schema(minimum = 1, maximum = 10_000)]
    pub at_once: usize,
    /// The credential for each live source, by its `oracle_id`. `ingestion.allow_local`, `ingestion.connect_s` and
    /// `ingestion.idle_s` also apply to live sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, CredentialKeys>)]
    pub credentials: BTreeMap<SourceId, ConfiguredCredential>,
}

impl Default for VerificationSection {
    fn default() -> Self {
        Self { at_once: 64, credentials: BTreeMap::new() }
    }
}

impl Section for VerificationSection {
    fn key(&self) -> &'static str {
        "verification"
    }
}

impl VerificationSection {
    /// The credentials that would cross a network in clear text.
    pub(crate) fn cleartext_faults(&self, allow_local: &[IpNet]) -> Vec<ConfigError> {
        cleartext_faults(CREDENTIALS, &self.credentials, allow_local)
    }

    /// The client of live sources; `None` if a credential cannot be used. No connection is opened yet.
    pub(crate) fn create_live_client(
        &self,
        setup: &mut ClientSetup<'_>,
    ) -> Option<Reloadable<dyn LiveOracle>> {
        let credentials = setup.read_credentials(CREDENTIALS, &self.credentials)?;
        let client = HttpLiveOracle::new(&setup.network, credentials, setup.clock.clone());
        Some(Reloadable::<dyn LiveOracle>::new(Arc::new(client)))
    }
}

/// A verification.
pub(crate) const VERIFY: &[ProblemCode] = &[
    INVALID_VERIFICATION,
    TIME_IN_FUTURE,
    WORKFLOW_UNKNOWN,
    ONTOLOGY_UNKNOWN,
    FACTS_NOT_HERE,
    SOURCE_DAMAGED,
    STORAGE_UNAVAILABLE,
    DRAINING,
];
/// A change to a review.
const REVIEW: &[ProblemCode] = &[INVALID_RESOLUTION, REVIEW_UNKNOWN, REVIEW_RESOLVED, REVIEW_DISMISSED];

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
    fn decision_erased(decision: &ErasedVerification) -> Self {
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
            ReviewError::RuleUnknown(_) => REVIEW_RULE_UNKNOWN,
            ReviewError::RuleMismatch { .. } => REVIEW_RULE_MISMATCH,
            ReviewError::Reading(_) => INTERNAL_ERROR,
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

/// The series of reviews.
const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "reviews_open",
        title: "Open reviews",
        unit: SeriesUnit::Items,
        metric: "reviews_open",
        filter: |_| true,
        by: None,
        measure: SeriesMeasure::Highest,
    },
    MetricSeries {
        name: "review_age",
        title: "Age of the oldest open review",
        unit: SeriesUnit::Seconds,
        metric: "review_oldest_open_timestamp_seconds",
        filter: |_| true,
        by: None,
        measure: SeriesMeasure::Age,
    },
];

/// The metrics of the feature.
pub(crate) const METRICS: FeatureMetrics = FeatureMetrics {
    name: "verification",
    read: |service| Box::pin(read_metrics(service)),
    series: &[SERIES],
};

/// Reads the open reviews, in total and of each workflow, and when the oldest was opened.
async fn read_metrics(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let store = service.system.store.clone();
    let read = run_blocking(move || {
        let of = |workflow_id: WorkflowId| {
            let open = store.open_reviews_of(&workflow_id)?;
            Ok::<_, StoreError>((format!("workflow=\"{workflow_id}\""), open))
        };
        let open = store.all_registered::<Workflow>().and_then(|workflows| {
            workflows.into_iter().map(|registered| of(registered.document.workflow_id)).collect()
        });
        Ok::<_, StoreError>((store.oldest_open_review_at(), open))
    });
    let mut text = MetricsText::default();
    text.gauge("reviews_open", "open reviews", service.journal_report().counts.of(OPEN_REVIEWS.name));
    // damage of one must not hide the others
    let (oldest_at, open) = read.await?;
    let oldest_at = oldest_at.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the oldest review");
        None
    });
    let open = open.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the open reviews of workflows");
        Vec::new()
    });
    text.gauges(
        "review_oldest_open_timestamp_seconds",
        "when the oldest open review was opened",
        oldest_at.map(|at| ("", at.as_second())),
    );
    text.gauges("workflow_reviews_open", "open reviews of a workflow", open);
    Ok(text)
}
