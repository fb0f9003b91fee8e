//! Envelopes: the answers to verification requests. Only an axis whose kind is `authoritative` has a value. The
//! oracles' answers are shown for `authoritative` axes and for axes in a dispute or a review.

pub use super::axis_settlement::{AxisStatus, ValueBasis};
use super::oracle_call::CallOutcome;
use super::reason::AxisReason;
use crate::conflict::ConflictStep;
use crate::verification_record::{OracleVerificationRecord, StatedValue, VerificationTier};
use domain_base::decimal::Decimal;
use domain_base::digest::Sha256Hex;
use domain_base::sorted_json::{sorted_json, sorted_json_without};
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_ground::source::OracleTier;
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// The answer to a verification request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The execution id of the decision.
    pub execution_id: String,
    /// The gravest kind of the axes.
    pub kind: EnvelopeKind,
    /// Whether all axes are verified.
    pub status: EnvelopeVerificationStatus,
    /// The workflow.
    pub workflow: WorkflowId,
    /// The SHA-256 of the workflow at the time of the decision.
    pub workflow_sha256: Sha256Hex,
    /// The ontology of the axes.
    pub ontology: OntologyRef,
    /// The subject: the values of identity axes.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The requested time; absent for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was ingested; absent for all data known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub known_at: Option<Timestamp>,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// The reasons why axes have no value, as stable words for programs; empty if all axes have one.
    pub reasons: BTreeSet<AxisReason>,
    /// The outcome of each requested axis, by its path.
    pub axes: BTreeMap<String, AxisOutcome>,
    /// The result of each oracle, in the workflow's order.
    pub candidates: Vec<CandidateOutcome>,
    /// The conflicts between two values, and how each was settled.
    pub steps: Vec<ConflictStep>,
    /// Warnings for the user of the answer.
    pub warnings: Vec<String>,
    /// With an axis that is `narrative_only`: the text that must accompany any statement about the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub disclaimer: Option<String>,
    /// With `blocked`: whether and when to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry: Option<RetryAdvice>,
    /// With `human_review`: the id of the review. It is the execution id of another decision if that one has opened the
    /// same review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub review_id: Option<String>,
    /// With `requires_specification`: the identity axes that the question leaves open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unspecified: Vec<String>,
    /// The oracles to query again for these axes before a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverify: Vec<Reverification>,
    /// The SHA-256 of all inputs of the decision.
    pub inputs_sha256: Sha256Hex,
    /// The SHA-256 of the canonical JSON of all other members.
    pub sha256: Sha256Hex,
}

/// The kind of an axis or an envelope, in ascending order of gravity.
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
pub enum EnvelopeKind {
    /// Verified values.
    Authoritative,
    /// The oracles disagree. The dispute is reported, and no reviewer decides.
    DisputeSummary,
    /// Not verified: a statement about the subject must carry the disclaimer.
    NarrativeOnly,
    /// No values for now.
    Blocked,
    /// The question does not identify one subject.
    RequiresSpecification,
    /// No values yet: the decision is made later.
    Provisional,
    /// A reviewer decides.
    HumanReview,
}

impl EnvelopeKind {
    /// Whether the oracles' answers are shown.
    pub(super) const fn has_oracle_answers(self) -> bool {
        matches!(self, Self::Authoritative | Self::DisputeSummary | Self::HumanReview)
    }
}

/// Whether all axes of an envelope are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeVerificationStatus {
    /// All axes are verified.
    Verified,
    /// At least one axis is not verified.
    Unverified,
}

/// The outcome of one axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisOutcome {
    /// The kind of the axis.
    pub kind: EnvelopeKind,
    /// The standing of the axis; `unsettled` with `narrative_only`, `blocked`, `provisional` and `requires_specification`.
    pub standing: AxisStatus,
    /// The value, if the kind is `authoritative`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<AxisValue>,
    /// The UCUM code of the value's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<String>,
    /// The definition by which the value was measured, if it is not the axis's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub definition: Option<String>,
    /// The basis of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub basis: Option<ValueBasis>,
    /// The sources of the value, the most trusted first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<AxisEvidence>,
    /// The greatest difference between two registered oracles with the same definition, if the axis shows their
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delta: Option<Decimal>,
    /// The reasons why the axis is not settled.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reasons: BTreeSet<AxisReason>,
}

/// A source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisEvidence {
    /// The verification record.
    pub record: OracleVerificationRecord,
    /// The time as of which the value holds; for a cached answer, that of the original answer.
    pub observed_at: Timestamp,
    /// Whether a cached answer replaced a missing one.
    pub stale: bool,
}

/// The result of one oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateOutcome {
    /// The oracle.
    pub oracle_id: SourceId,
    /// The outcome of the call. An answer after the hard timeout is `timed_out`, and an invalid one is `refused`.
    pub outcome: CallOutcome,
    /// The registered tier of the oracle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub registered_tier: Option<OracleTier>,
    /// The tier at which the answer counts, the lowest on the requested axes; absent if it does not count at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tier: Option<VerificationTier>,
    /// The values, on axes that show the oracles' answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, StatedValue>,
    /// The requested axes whose value deviates from the oracle's baseline, each with the baseline and the exceeded limit in
    /// words; on axes that show the oracles' answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, String>,
    /// The verification record of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub record: Option<OracleVerificationRecord>,
    /// The time as of which the answer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub observed_at: Option<Timestamp>,
    /// Whether a cached answer replaced a missing one.
    pub stale: bool,
    /// Whether the oracle disagrees with another registered one on any compared axis.
    pub contested: bool,
    /// Whether the oracle took longer than the soft timeout.
    pub late: bool,
    /// How long the oracle took, in milliseconds.
    pub latency_ms: u64,
}

/// Whether and when to ask again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryAdvice {
    /// The delay before a retry, in milliseconds; null if a retry alone does not help.
    #[schema(required)]
    pub after_ms: Option<u64>,
    /// The oracles that caused the retry.
    pub oracles: Vec<SourceId>,
    /// The required action, in words that name the oracles and the delay.
    pub advice: String,
}

/// An oracle to query again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reverification {
    /// The oracle.
    pub oracle_id: SourceId,
    /// The paths of the axes.
    pub axes: BTreeSet<String>,
    /// The reasons.
    pub reasons: BTreeSet<AxisReason>,
}

impl Envelope {
    /// The canonical JSON (RFC 8785): equal envelopes give equal bytes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // this is canonical, because no number has a fraction
        sorted_json(self)
    }

    /// The same envelope with its digest.
    pub(super) fn with_digest(mut self) -> Self {
        self.sha256 = self.digest();
        self
    }

    /// Whether the digest matches the content.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.sha256 == self.digest()
    }

    fn digest(&self) -> Sha256Hex {
        Sha256Hex::of(&sorted_json_without(self, "sha256"))
    }
}
