//! Workflows: the sources of a verification, how conflicts are resolved, and the time limits (RFC-0002,
//! "Conflict Configuration", "Oracle Latency Budgets", "Authority Latency Policy"). The fields and words are
//! the RFC's.

mod validate;

pub use validate::{
    AXES_MAX, BUDGET_MAX_MS, CASCADE_LIMIT_MAX, DOMAIN_MAX_BYTES, ORACLES_MAX, TIMEOUT_MAX_MS, WorkflowError,
};

use domain_base::decimal::{self, Decimal, DecimalNumber};
use domain_base::document::{Document, DocumentVersions};
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// The status of a workflow that can use all of its sources.
pub const CAN_DECIDE: &str = "can decide";

/// A workflow document: how the sources of an ontology are verified against each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// The id.
    pub workflow_id: WorkflowId,
    /// The subject area, for readers.
    pub domain: String,
    /// The ontology of the axes.
    pub ontology: OntologyRef,
    /// The paths of the verified axes. `identity` axes are not allowed: the `where` of a request fixes them.
    pub axes: Vec<String>,
    /// The sources. Within a tier, an earlier one has precedence.
    pub oracles: Vec<SourceId>,
    /// How conflicts are resolved.
    #[serde(default)]
    pub conflict_resolution: ConflictResolutionConfig,
    /// The number of registered sources with a valid value that settles an axis; 1 by default.
    #[serde(default = "min_sources", skip_serializing_if = "is_one")]
    pub min_sources: u32,
    /// The maximum changes of axes since the previous value of the same source. Larger changes go to a reviewer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviation_limits: BTreeMap<String, DeviationLimit>,
    /// The time limits for one source.
    pub oracle_latency: OracleLatencyPolicy,
    /// The time limit for the decision.
    pub authority_latency: AuthorityLatencyPolicy,
}

impl Document for Workflow {
    const KIND: &'static str = "workflow";
    const DISTINGUISHING_MEMBER: &'static str = "workflow_id";
    const VERSIONS: DocumentVersions = DocumentVersions::None;

    fn document_id(&self) -> String {
        self.workflow_id.to_string()
    }
}

/// The maximum change since the previous value; if both limits are set, both apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviationLimit {
    /// The maximum change in the axis's unit.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub max_change: Option<Decimal>,
    /// The maximum change relative to the previous value: 0.5 is half of it.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub max_change_ratio: Option<Decimal>,
}

/// How conflicts between sources are resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConflictResolutionConfig {
    /// The strategy between sources of different tiers; `higher_tier_wins` by default.
    pub default_strategy: ConflictStrategy,
    /// The strategy between sources of one tier; `require_human` by default.
    pub same_tier_strategy: ConflictStrategy,
    /// The difference of numbers, in the axis's unit, above which a conflict goes to a reviewer, whatever the strategy.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub escalation_delta_threshold: Option<Decimal>,
    /// The same for a difference relative to the larger magnitude: 0.1 is 10 %.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub escalation_ratio_threshold: Option<Decimal>,
    /// The thresholds of single axes, which replace those of the workflow.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axis_thresholds: BTreeMap<String, AxisThresholds>,
    /// The factor between two values above which a resolution has a warning.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DecimalNumber>)]
    pub suspicious_ratio: Option<Decimal>,
    /// The axes on which only a reviewer resolves conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always_human_axes: Vec<String>,
    /// The maximum age, in seconds, of values that `most_recent` accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_window_seconds: Option<u64>,
    /// The scope of a conflict.
    pub scope: ConflictScope,
}

impl Default for ConflictResolutionConfig {
    fn default() -> Self {
        Self {
            default_strategy: ConflictStrategy::HigherTierWins,
            same_tier_strategy: ConflictStrategy::RequireHuman,
            escalation_delta_threshold: None,
            escalation_ratio_threshold: None,
            axis_thresholds: BTreeMap::new(),
            suspicious_ratio: None,
            always_human_axes: Vec::new(),
            recency_window_seconds: None,
            scope: ConflictScope::default(),
        }
    }
}

/// The thresholds of one axis; an absent one is that of the workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AxisThresholds {
    /// The threshold in the axis's unit.
    #[schema(value_type = Option<DecimalNumber>)]
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_delta_threshold: Option<Decimal>,
    /// The threshold relative to the larger magnitude.
    #[schema(value_type = Option<DecimalNumber>)]
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_ratio_threshold: Option<Decimal>,
}

/// How a conflict between two sources is resolved.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ConflictStrategy {
    /// The value of the higher tier wins.
    HigherTierWins,
    /// The most recent value wins.
    MostRecent,
    /// A reviewer decides.
    RequireHuman,
    /// The conservative value wins, as the axis defines it.
    UseConservative,
    /// The mean, weighted by tier, wins.
    WeightedAverage,
    /// The conflict is not resolved: the answer reports the dispute.
    DisputeSummary,
}

/// The scope of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConflictScope {
    /// Whether a conflict affects one axis or all values of the sources; `axis` by default.
    pub granularity: ConflictGranularity,
    /// The number of resolutions on one axis after which a reviewer decides; 3 by default.
    pub cascade_limit: u32,
    /// How the other axes of the sources in conflict are handled; `isolate` by default.
    pub partial_conflict_behavior: PartialConflictBehavior,
}

/// The default of `cascade_limit`.
pub const CASCADE_LIMIT_DEFAULT: u32 = 3;

impl Default for ConflictScope {
    fn default() -> Self {
        Self {
            granularity: ConflictGranularity::Axis,
            cascade_limit: CASCADE_LIMIT_DEFAULT,
            partial_conflict_behavior: PartialConflictBehavior::Isolate,
        }
    }
}

/// The values that a conflict affects: `axis` is the axis alone, `oracle` all values of the sources, which then go to a
/// reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictGranularity {
    /// All values of the sources; a reviewer decides.
    Oracle,
    /// One axis.
    Axis,
}

/// How the other axes of sources in conflict are handled: `isolate` leaves them unchanged, `invalidate_all` queries the
/// sources for all of them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartialConflictBehavior {
    /// Leave them unchanged.
    Isolate,
    /// Query the sources for all of them again.
    InvalidateAll,
}

/// The default of `soft_timeout_ms`.
pub const SOFT_TIMEOUT_DEFAULT_MS: u64 = 2_000;
/// The default of `hard_timeout_ms`.
pub const HARD_TIMEOUT_DEFAULT_MS: u64 = 5_000;

/// The time limits for one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleLatencyPolicy {
    /// The time in milliseconds after which an answer counts as late, and `unverified` sources are not awaited; 2000 by default.
    #[serde(default = "soft_timeout_ms")]
    pub soft_timeout_ms: u64,
    /// The time in milliseconds after which the request is aborted; 5000 by default.
    #[serde(default = "hard_timeout_ms")]
    pub hard_timeout_ms: u64,
    /// The result of a question that the source did not answer in time.
    pub on_timeout: OracleTimeoutBehavior,
    /// The maximum age of a cached answer in seconds; required with `SERVE_STALE`, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_tolerance_seconds: Option<u64>,
}

/// The result of a question that a source did not answer in time: `FAIL_OPEN_NARRATIVE` no values and a disclaimer,
/// `FAIL_CLOSED_BLOCK` no answer, `SERVE_STALE` a cached answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OracleTimeoutBehavior {
    /// No values and a disclaimer.
    FailOpenNarrative,
    /// No answer, and when to retry.
    FailClosedBlock,
    /// A cached answer if it is not too old, else no answer.
    ServeStale,
}

/// The time limit for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthorityLatencyPolicy {
    /// The time limit in milliseconds.
    pub authority_latency_budget_ms: u64,
    /// Whether the caller waits for the decision.
    pub enforcement_mode: EnforcementMode,
    /// The result of a question that exceeds the time limit.
    pub on_timeout_behavior: BudgetExceededBehavior,
}

/// Whether the caller waits for the decision: `INLINE` waits, `ASYNC` decides later, `NON_AUTHORITATIVE_ONLY` verifies
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EnforcementMode {
    /// The caller waits.
    Inline,
    /// The answer is provisional, and the decision is made later.
    Async,
    /// Nothing is verified.
    NonAuthoritativeOnly,
}

/// The result of a question that exceeds the time limit: `ESCALATE` goes to a reviewer, `DEGRADE_TO_NARRATIVE` returns no
/// values and a disclaimer, `FAIL_CLOSED` returns no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BudgetExceededBehavior {
    /// A reviewer decides.
    Escalate,
    /// No values and a disclaimer.
    DegradeToNarrative,
    /// No answer, and when to retry.
    FailClosed,
}

const fn min_sources() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

const fn soft_timeout_ms() -> u64 {
    SOFT_TIMEOUT_DEFAULT_MS
}

const fn hard_timeout_ms() -> u64 {
    HARD_TIMEOUT_DEFAULT_MS
}
