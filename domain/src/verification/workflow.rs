//! Workflows: whom to ask about what, how conflicts are settled, and how long to wait (RFC-0002, "Conflict Configuration",
//! "Oracle Latency Budgets", "Authority Latency Policy"). The fields and words are the RFC's.

mod validate;

pub use validate::{
    AXES_MAX, BUDGET_MAX_MS, BadWorkflow, CASCADE_LIMIT_MAX, DOMAIN_MAX_BYTES, ORACLES_MAX, TIMEOUT_MAX_MS,
};

use crate::base::decimal::{self, Decimal};
use crate::base::digest::Sha256Hex;
use crate::ground::digest_of_json;
use crate::ground::id::{SourceId, WorkflowId};
use crate::ground::ontology::OntologyRef;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// A registered document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// Its id.
    pub workflow_id: WorkflowId,
    /// What it is about, for people.
    pub domain: String,
    /// The ontology whose axes it verifies.
    pub ontology: OntologyRef,
    /// Which of them, as they stand there; those that are `identity` are not among them: a request's `where` fixes them.
    pub axes: Vec<String>,
    /// Who is asked. Of oracles of one tier, those that are named first are looked at first.
    pub oracles: Vec<SourceId>,
    /// How conflicts are settled.
    #[serde(default)]
    pub conflict_resolution: ConflictResolutionConfig,
    /// The number of registered sources with a value that counts, required before sources settle an axis.
    #[serde(default = "min_sources", skip_serializing_if = "is_one")]
    pub min_sources: u32,
    /// How far the values of axes may lie from what the same source said of the same thing before; beyond that a person looks
    /// at them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviation_limits: BTreeMap<String, DeviationLimit>,
    /// How long an oracle may take.
    pub oracle_latency: OracleLatencyPolicy,
    /// How long the decision may take.
    pub authority_latency: AuthorityLatencyPolicy,
}

/// A workflow in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredWorkflow {
    /// All of it.
    pub workflow: Workflow,
    /// Its digest.
    pub workflow_sha256: Sha256Hex,
    /// When it was registered as it is.
    pub registered_at: Timestamp,
    /// By whom: the peer's user.
    pub registered_by: String,
}

/// How far a value may lie from the one before it; where both are given, either is a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviationLimit {
    /// In the axis's unit.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub max_change: Option<Decimal>,
    /// As a part of the value before it: 0.5 is half of it.
    #[serde(default, deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub max_change_ratio: Option<Decimal>,
}

/// How conflicts are settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConflictResolutionConfig {
    /// Between oracles of different tiers.
    pub default_strategy: Strategy,
    /// Between oracles of one tier.
    pub same_tier_strategy: Strategy,
    /// A greater difference, in the axis's unit, goes to a reviewer, whatever the strategy. It applies to numbers.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_delta_threshold: Option<Decimal>,
    /// The same for a difference relative to the larger magnitude: 0.1 is a tenth of it.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_ratio_threshold: Option<Decimal>,
    /// Thresholds of single axes, each instead of the workflow's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axis_thresholds: BTreeMap<String, AxisThresholds>,
    /// A settlement of values that differ by more than this factor has a warning. `weighted_average` has a default.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub suspicious_ratio: Option<Decimal>,
    /// Axes that nobody but a person settles, whatever the oracles say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub always_human_axes: Vec<String>,
    /// `most_recent` looks at what was verified so many seconds ago at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_window_seconds: Option<u64>,
    /// What else a conflict takes with it.
    pub scope: ConflictScope,
}

impl Default for ConflictResolutionConfig {
    fn default() -> Self {
        Self {
            default_strategy: Strategy::HigherTierWins,
            same_tier_strategy: Strategy::RequireHuman,
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

/// The thresholds of one axis; one that is absent is the workflow's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AxisThresholds {
    /// In the axis's unit.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_delta_threshold: Option<Decimal>,
    /// Relative to the larger magnitude.
    #[serde(deserialize_with = "decimal::optional", skip_serializing_if = "Option::is_none")]
    pub escalation_ratio_threshold: Option<Decimal>,
}

/// How one conflict between two oracles is settled.
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
pub enum Strategy {
    /// The one that is trusted more wins.
    HigherTierWins,
    /// What was verified last wins.
    MostRecent,
    /// A person decides.
    RequireHuman,
    /// The more careful value wins, as the axis says which way that is.
    UseConservative,
    /// The mean by the weights of the tiers.
    WeightedAverage,
    /// Nobody decides: the caller is told of the dispute.
    DisputeSummary,
}

/// What else a conflict takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConflictScope {
    /// Whether it concerns an axis, or all that the oracles say.
    pub granularity: Granularity,
    /// After so many resolutions on one axis a person decides.
    pub cascade_limit: u32,
    /// What becomes of the other axes of the oracles in conflict.
    pub partial_conflict_behavior: PartialConflict,
}

/// So many resolutions on one axis are made where nothing is said.
pub const CASCADE_LIMIT_DEFAULT: u32 = 3;

impl Default for ConflictScope {
    fn default() -> Self {
        Self {
            granularity: Granularity::Axis,
            cascade_limit: CASCADE_LIMIT_DEFAULT,
            partial_conflict_behavior: PartialConflict::Isolate,
        }
    }
}

/// What a conflict concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// The oracles: nothing of what they say holds, and a person decides.
    Oracle,
    /// The axis alone.
    Axis,
}

/// What becomes of the other axes of oracles in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartialConflict {
    /// Nothing.
    Isolate,
    /// The oracles are asked for all of them once more.
    InvalidateAll,
}

/// Where an oracle has no other, so long may it take, in milliseconds, before its answer is late.
pub const SOFT_TIMEOUT_DEFAULT_MS: u64 = 2_000;
/// Where an oracle has no other, after so long it is given up, in milliseconds.
pub const HARD_TIMEOUT_DEFAULT_MS: u64 = 5_000;

/// How long an oracle may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OracleLatencyPolicy {
    /// After so long a fallback is prepared, in milliseconds.
    #[serde(default = "soft_timeout_ms")]
    pub soft_timeout_ms: u64,
    /// After so long it is given up, in milliseconds.
    #[serde(default = "hard_timeout_ms")]
    pub hard_timeout_ms: u64,
    /// What becomes of the question where it did not answer.
    pub on_timeout: OnTimeout,
    /// With `SERVE_STALE`: how old what is kept of it may be, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_tolerance_seconds: Option<u64>,
}

/// What becomes of a question where an oracle did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnTimeout {
    /// No values, and a disclaimer.
    FailOpenNarrative,
    /// Nothing, and when to ask again.
    FailClosedBlock,
    /// What is kept of the oracle is used, where that is not too old; else nothing.
    ServeStale,
}

/// How long a decision may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityLatencyPolicy {
    /// So long, in milliseconds.
    pub authority_latency_budget_ms: u64,
    /// Whether the caller waits for it.
    pub enforcement_mode: EnforcementMode,
    /// What becomes of a question that took longer.
    pub on_timeout_behavior: OnBudget,
}

/// Whether the caller waits for the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EnforcementMode {
    /// It does.
    Inline,
    /// It does not: it is told that there will be one.
    Async,
    /// There is none: nothing is verified.
    NonAuthoritativeOnly,
}

/// What becomes of a question for which the time has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnBudget {
    /// A person decides.
    Escalate,
    /// No values, and a disclaimer.
    DegradeToNarrative,
    /// Nothing, and when to ask again.
    FailClosed,
}

impl Workflow {
    /// The SHA-256 of its canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }
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
