//! The TMM crosscheck: decides on a payload by the canonical mapping only.
//!
//! Seed: `tmm-crosscheck`; if it is silent or contradicts itself, `docs/mapping.md`. [`inspect`] maps a payload to
//! `V_t`, `V_r`, `E_D` and flags, [`decide`] applies the formula and names the reason, and [`judge_with`] is the gate:
//! the only function that creates an [`ApprovedVerdict`].

mod fault;
mod mapping;

pub use crate::crosscheck::mapping::UnexpectedFieldHandling;
pub(crate) use crate::crosscheck::mapping::VerdictLevel;
use crate::flag::Flag;
use crate::label::{ProductTier, VerdictLabel};
use crate::tmm::{OMEGA, coherence};
use domain_base::digest::Sha256Hex;
use domain_base::payload::VerdictPayload;
pub use fault::describe_fault;
pub use mapping::{CrosscheckInspection, inspect, unexpected_members};
pub(crate) use mapping::{V_T_FLOOR, strip};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::{IntoStaticStr, VariantArray};

/// The reason of a decision.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CrosscheckReason {
    /// C is at least Ω.
    Pass,
    /// A required field is missing, or the verdict is missing or invalid.
    FieldMissing,
    /// C is negative.
    DegenerateManifold,
    /// C is below Ω, and the verdict contradicts its breakdown.
    DimensionConflict,
    /// C is below Ω for any other cause.
    LowCoherence,
    /// C is at least Ω, but the verdict has members that were not judged, and the configuration refuses such verdicts.
    UnexpectedField,
}

/// The decision of the crosscheck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CrosscheckDecision {
    /// True for the reason `pass` only.
    pub approved: bool,
    /// C (dimensionless, at most 1.0, may be negative).
    pub coherence_score: f64,
    /// Ω.
    pub threshold: f64,
    /// The valid top-level verdict, else null.
    pub verdict_label: Option<VerdictLabel>,
    /// The flags raised, in a fixed order.
    pub flags: Vec<Flag>,
    /// The reason.
    pub crosscheck_reason: CrosscheckReason,
}

/// Applies the formula and the order of reasons to the result of the mapping.
#[must_use]
pub fn decide(inspection: &CrosscheckInspection) -> CrosscheckDecision {
    let score = coherence(inspection.v_t, inspection.v_r, inspection.e_d);
    let mut flags = inspection.flags.clone();
    if score < 0.0 {
        flags.push(Flag::DegenerateManifold);
    }
    let contradicts = |flag: &Flag| matches!(flag, Flag::VerdictConflict | Flag::ContradictoryNull);
    let reason = if inspection.e_d == 0.5 || inspection.e_d == 1.0 {
        CrosscheckReason::FieldMissing
    } else if score < 0.0 {
        CrosscheckReason::DegenerateManifold
    } else if score >= OMEGA {
        CrosscheckReason::Pass
    } else if flags.iter().any(contradicts) {
        CrosscheckReason::DimensionConflict
    } else {
        CrosscheckReason::LowCoherence
    };
    CrosscheckDecision {
        approved: reason == CrosscheckReason::Pass,
        coherence_score: score,
        threshold: OMEGA,
        verdict_label: inspection.label,
        flags,
        crosscheck_reason: reason,
    }
}

/// Like [`decide`]; an approved verdict with members that were not judged is rejected if `unexpected` is `Refuse`.
#[must_use]
pub fn decide_with(
    unexpected: UnexpectedFieldHandling,
    inspection: &CrosscheckInspection,
) -> CrosscheckDecision {
    let mut decision = decide(inspection);
    let has_unexpected = decision.flags.iter().any(Flag::is_unexpected);
    if has_unexpected && decision.approved && unexpected == UnexpectedFieldHandling::Refuse {
        decision.approved = false;
        decision.crosscheck_reason = CrosscheckReason::UnexpectedField;
    }
    decision
}

/// Inspects the stored text of a verdict again. Members that were cut before the text was stored have only their logged flags.
#[must_use]
pub(crate) fn inspect_with_cut(
    tier: ProductTier,
    verdict: &RawValue,
    logged: Vec<Flag>,
) -> CrosscheckInspection {
    let mut again = inspect(tier, &VerdictPayload::json(verdict));
    let cut = logged.into_iter().filter(|flag| flag.is_unexpected() && !again.flags.contains(flag));
    again.flags.extend(cut.collect::<Vec<_>>());
    again.flags.sort();
    again
}

/// Judges `payload` as a verdict of `tier`, as [`judge_with`] with the default for unexpected fields.
#[must_use]
pub fn judge(tier: ProductTier, payload: VerdictPayload) -> CrosscheckJudgment {
    judge_with(UnexpectedFieldHandling::default(), tier, payload)
}

/// The gate: judges `payload` as a verdict of `tier`. This is the only function that creates an [`ApprovedVerdict`].
#[must_use]
pub fn judge_with(
    unexpected: UnexpectedFieldHandling,
    tier: ProductTier,
    payload: VerdictPayload,
) -> CrosscheckJudgment {
    let inspection = inspect(tier, &payload);
    let decision = decide_with(unexpected, &inspection);
    let has_unexpected = decision.flags.iter().any(Flag::is_unexpected);
    let Some(label) = decision.verdict_label.filter(|_| decision.approved) else {
        let sha256 = Sha256Hex::of(payload.text().as_bytes());
        return CrosscheckJudgment { tier, inspection, decision, sha256, outcome: Err(RejectedVerdict(())) };
    };
    let strips = has_unexpected && unexpected == UnexpectedFieldHandling::Strip;
    let text = if strips { strip(VerdictLevel::Root(tier), payload.text()) } else { payload.into_text() };
    let sha256 = Sha256Hex::of(text.as_bytes());
    let verdict = RawValue::from_string(text).expect("the inspection has read the same text");
    let approved =
        ApprovedVerdict { tier, label, verdict, decision: decision.clone(), sha256: sha256.clone() };
    CrosscheckJudgment { tier, inspection, decision, sha256, outcome: Ok(approved) }
}

/// Judges a delivered verdict again. Returns the approved verdict if `decision` matches it. Flags of members that were
/// cut before the delivery are taken from `decision`.
pub(crate) fn judge_delivered(
    tier: ProductTier,
    payload: VerdictPayload,
    decision: CrosscheckDecision,
) -> Option<ApprovedVerdict> {
    let mut approved = judge_with(UnexpectedFieldHandling::Deliver, tier, payload).outcome.ok()?;
    let judged =
        |flags: &[Flag]| flags.iter().filter(|flag| !flag.is_unexpected()).cloned().collect::<Vec<_>>();
    let again = CrosscheckDecision { flags: judged(&approved.decision.flags), ..approved.decision.clone() };
    let then = CrosscheckDecision { flags: judged(&decision.flags), ..decision.clone() };
    let names_all = approved.decision.flags.iter().all(|flag| decision.flags.contains(flag));
    (again == then && names_all).then(|| {
        approved.decision = decision;
        approved
    })
}

/// The result of the gate for one payload: the data for the log, and the approved verdict, if any.
#[derive(Debug)]
pub struct CrosscheckJudgment {
    /// The tier judged for.
    pub tier: ProductTier,
    /// The mapping's result.
    pub inspection: CrosscheckInspection,
    pub decision: CrosscheckDecision,
    /// The SHA-256 of the text that may be delivered. For a refused payload, of its text without surrounding white
    /// space.
    pub sha256: Sha256Hex,
    /// The verdict that may be delivered, or a marker that none may.
    pub outcome: Result<ApprovedVerdict, RejectedVerdict>,
}

/// Marks a refused payload. It contains no text, because the text of a rejected verdict is never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedVerdict(());

/// A verdict that passed the crosscheck. Only this type can be cached, mailed or returned.
///
/// Its fields are private and only [`judge_with`] creates one, so no code can bypass the gate:
///
/// ```compile_fail
/// use domain_verdict::crosscheck::ApprovedVerdict;
/// use domain_verdict::label::ProductTier;
/// fn forge(other: ApprovedVerdict) -> ApprovedVerdict {
///     ApprovedVerdict { tier: ProductTier::Strategy, ..other }
/// }
/// ```
///
/// It cannot be deserialized either; [`VerdictDelivery`](crate::delivery::VerdictDelivery) judges its verdict
/// again:
///
/// ```compile_fail
/// let forged: domain_verdict::crosscheck::ApprovedVerdict = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct ApprovedVerdict {
    tier: ProductTier,
    label: VerdictLabel,
    verdict: Box<RawValue>,
    decision: CrosscheckDecision,
    sha256: Sha256Hex,
}

impl ApprovedVerdict {
    /// The tier for which it was approved.
    #[must_use]
    pub const fn tier(&self) -> ProductTier {
        self.tier
    }

    /// The label of its top-level verdict.
    #[must_use]
    pub const fn label(&self) -> VerdictLabel {
        self.label
    }

    /// The verdict as the model wrote it, without the members that were cut.
    #[must_use]
    pub fn verdict(&self) -> &RawValue {
        &self.verdict
    }

    #[must_use]
    pub const fn decision(&self) -> &CrosscheckDecision {
        &self.decision
    }

    /// The SHA-256 of [`ApprovedVerdict::verdict`]'s text.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }
}

#[cfg(test)]
pub(crate) mod tests;
