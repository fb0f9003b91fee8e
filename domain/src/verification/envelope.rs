//! Envelopes: the answers to verification requests. Only an axis whose kind is `authoritative` has a value. The
//! oracles' answers are shown for `authoritative` axes and for axes in a dispute or a review.

use super::call::CallOutcome;
use super::candidate::Stated;
use super::reason::Reason;
use super::record::OracleVerificationRecord;
pub use super::settle::{Basis, Standing};
use super::step::Step;
use super::tier::Tier;
use crate::base::decimal::Decimal;
use crate::base::digest::Sha256Hex;
use crate::ground::id::{SourceId, WorkflowId};
use crate::ground::ontology::OntologyRef;
use crate::ground::source::OracleTier;
// utoipa takes whatever is called `Value` for any JSON
use crate::ground::value::Value as AxisValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// What is told of one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The name of the decision.
    pub execution_id: String,
    /// The gravest kind of its axes.
    pub kind: EnvelopeKind,
    /// Whether all axes are verified.
    pub status: VerificationStatus,
    /// By which workflow.
    pub workflow: WorkflowId,
    /// The SHA-256 of the workflow as it was then.
    pub workflow_sha256: Sha256Hex,
    /// In the words of which ontology.
    pub ontology: OntologyRef,
    /// Which thing it speaks of: the values of identity axes.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, AxisValue>,
    /// As it was when; now where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was ingested; absent for all data known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub known_at: Option<Timestamp>,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// Why axes have no value, as stable words for programs; empty if all axes have one.
    pub reasons: BTreeSet<Reason>,
    /// Each axis that was asked for, by its path.
    pub axes: BTreeMap<String, AxisOutcome>,
    /// What came of each oracle, in the workflow's order.
    pub candidates: Vec<CandidateOutcome>,
    /// Each conflict between two values, and what became of it.
    pub steps: Vec<Step>,
    /// What whoever uses it should know.
    pub warnings: Vec<String>,
    /// With an axis that is `narrative_only`: the text that must accompany any statement about the entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub disclaimer: Option<String>,
    /// With `blocked`: whether and when to ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry: Option<Retry>,
    /// With `human_review`: where a person decides. It bears the name of another decision where the same is before a person
    /// already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub review_id: Option<String>,
    /// With `requires_specification`: what is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unspecified: Vec<String>,
    /// Oracles that are to be asked for these axes once more before there is a decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverify: Vec<Reverification>,
    /// The SHA-256 of all the inputs.
    pub inputs_sha256: Sha256Hex,
    /// The SHA-256 of the canonical JSON of all other members.
    pub sha256: Sha256Hex,
}

/// The kind of an axis or an envelope, in the words of the RFC and the decisions, in the order of gravity.
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
    /// The oracles disagree, and no reviewer decides.
    DisputeSummary,
    /// Nothing verified: whatever is told is told as such.
    NarrativeOnly,
    /// Nothing, for now.
    Blocked,
    /// The question leaves open what it is about.
    RequiresSpecification,
    /// Nothing yet: the decision comes later.
    Provisional,
    /// A person decides.
    HumanReview,
}

impl EnvelopeKind {
    /// Whether it is about what the oracles say, so that this is told.
    pub(super) const fn tells_what_oracles_say(self) -> bool {
        matches!(self, Self::Authoritative | Self::DisputeSummary | Self::HumanReview)
    }
}

/// Whether an envelope's values are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerificationStatus {
    /// They are.
    Verified,
    /// There are none.
    Unverified,
}

/// How one axis stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisOutcome {
    /// Its kind.
    pub kind: EnvelopeKind,
    /// How it stands; with `narrative_only`, `provisional` and `requires_specification` it is `unsettled`.
    pub standing: Standing,
    /// Its value, if its kind is `authoritative`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<AxisValue>,
    /// The UCUM code of the value's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<String>,
    /// By which definition it was measured, where that is not the axis's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub definition: Option<String>,
    /// What the value rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub basis: Option<Basis>,
    /// Who stands behind the value, the most trusted first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The greatest difference between two registered oracles with the same definition, if the axis shows their
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delta: Option<Decimal>,
    /// Why it is not settled.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reasons: BTreeSet<Reason>,
}

/// Who stands behind a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The verification.
    pub record: OracleVerificationRecord,
    /// As of when the value holds; for what was kept, that of the original answer.
    pub observed_at: Timestamp,
    /// Whether it is what was kept, in the place of an answer that did not come.
    pub stale: bool,
}

/// What came of one oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateOutcome {
    /// Which.
    pub oracle_id: SourceId,
    /// What came of it; an answer that is late beyond its hard timeout has `timed_out`, one that is no good is `refused`.
    pub outcome: CallOutcome,
    /// Its tier as registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub registered_tier: Option<OracleTier>,
    /// The tier at which its answer counts, the lowest on the requested axes; `None` if it does not count at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tier: Option<Tier>,
    /// Its values, on axes that show the oracles' answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Stated>,
    /// Axes asked for on which that jumps away from what it said before, each with what it said and by how much more than it may,
    /// in words; where the envelope is about what it says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, String>,
    /// Its verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub record: Option<OracleVerificationRecord>,
    /// As of when it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub observed_at: Option<Timestamp>,
    /// Whether it is what was kept, in the place of an answer that did not come.
    pub stale: bool,
    /// Whether it disagrees with another registered one, on any axis that is looked at.
    pub contested: bool,
    /// Whether it took longer than its soft timeout.
    pub late: bool,
    /// How long the oracle took, in milliseconds.
    pub latency_ms: u64,
}

/// Whether and when to ask again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// After so long, in milliseconds; nothing where that does not help by itself.
    #[schema(required)]
    pub after_ms: Option<u64>,
    /// Because of these oracles.
    pub oracles: Vec<SourceId>,
    /// What has to happen, in words that name whom it is about and say after how long.
    pub advice: String,
}

/// An oracle that is to be asked once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reverification {
    /// Which.
    pub oracle_id: SourceId,
    /// For these axes, by their paths.
    pub axes: BTreeSet<String>,
    /// Why.
    pub reasons: BTreeSet<Reason>,
}

impl Envelope {
    /// Its canonical JSON (RFC 8785): the same bytes wherever it is the same envelope.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // a `Value` keeps the members of objects in their order, and there are no fractions
        let value = serde_json::to_value(self).expect("an envelope is plain data with text for keys");
        value.to_string().into_bytes()
    }

    /// The same envelope under its digest.
    pub(super) fn sealed(mut self) -> Self {
        self.sha256 = self.digest();
        self
    }

    /// Whether its digest is its own.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.sha256 == self.digest()
    }

    fn digest(&self) -> Sha256Hex {
        let mut value = serde_json::to_value(self).expect("an envelope is plain data with text for keys");
        if let Some(members) = value.as_object_mut() {
            members.remove("sha256");
        }
        Sha256Hex::of(value.to_string().as_bytes())
    }
}
