//! The TMM crosscheck: decides on a payload by the canonical mapping only.
//!
//! Seed: `tmm-crosscheck`; if it is silent or contradicts itself, `docs/mapping.md`. [`inspect`] maps a payload to
//! `V_t`, `V_r`, `E_D` and flags, [`decide`] applies the formula and names the reason, and [`judge_with`] is the gate:
//! the only function that creates an [`Approved`].

mod fields;
mod mapping;

pub use fields::UnexpectedFields;
pub use mapping::{Inspection, inspect};

use crate::base::digest::Sha256Hex;
use crate::base::payload::Payload;
use crate::verdict::flag::Flag;
use crate::verdict::label::{Label, Tier};
use crate::verdict::tmm::{OMEGA, coherence};
use fields::Level;
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
#[schema(as = CrosscheckReason)]
pub enum Reason {
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

/// The seed's "Cross-Check Decision", field for field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Decision {
    /// True for the reason `pass` only.
    pub approved: bool,
    /// C (dimensionless, at most 1.0, may be negative).
    pub coherence_score: f64,
    /// Ω.
    pub threshold: f64,
    /// The valid top-level verdict, else null.
    pub verdict_label: Option<Label>,
    /// The flags raised, in a fixed order.
    pub flags: Vec<Flag>,
    /// The reason.
    pub crosscheck_reason: Reason,
}

/// Applies the formula and the order of reasons to the result of the mapping.
#[must_use]
pub fn decide(inspection: &Inspection) -> Decision {
    let score = coherence(inspection.v_t, inspection.v_r, inspection.e_d);
    let mut flags = inspection.flags.clone();
    if score < 0.0 {
        flags.push(Flag::DegenerateManifold);
    }
    let contradicts = |flag: &Flag| matches!(flag, Flag::VerdictConflict | Flag::ContradictoryNull);
    let reason = if inspection.e_d == 0.5 || inspection.e_d == 1.0 {
        Reason::FieldMissing
    } else if score < 0.0 {
        Reason::DegenerateManifold
    } else if score >= OMEGA {
        Reason::Pass
    } else if flags.iter().any(contradicts) {
        Reason::DimensionConflict
    } else {
        Reason::LowCoherence
    };
    Decision {
        approved: reason == Reason::Pass,
        coherence_score: score,
        threshold: OMEGA,
        verdict_label: inspection.label,
        flags,
        crosscheck_reason: reason,
    }
}

/// Judges `payload` as a verdict of `tier`, as [`judge_with`] with the default for unexpected fields.
#[must_use]
pub fn judge(tier: Tier, payload: Payload) -> Judgement {
    judge_with(UnexpectedFields::default(), tier, payload)
}

/// The gate: judges `payload` as a verdict of `tier`. This is the only function that creates an [`Approved`].
#[must_use]
pub fn judge_with(unexpected: UnexpectedFields, tier: Tier, payload: Payload) -> Judgement {
    let inspection = inspect(tier, &payload);
    let mut decision = decide(&inspection);
    let has_unexpected = decision.flags.iter().any(Flag::is_unexpected);
    if has_unexpected && decision.approved && unexpected == UnexpectedFields::Refuse {
        decision.approved = false;
        decision.crosscheck_reason = Reason::UnexpectedField;
    }
    let Some(label) = decision.verdict_label.filter(|_| decision.approved) else {
        let sha256 = Sha256Hex::of(payload.text().as_bytes());
        return Judgement { tier, inspection, decision, sha256, outcome: Err(Rejected(())) };
    };
    let strips = has_unexpected && unexpected == UnexpectedFields::Strip;
    let text = if strips { fields::strip(Level::Root(tier), payload.text()) } else { payload.into_text() };
    let sha256 = Sha256Hex::of(text.as_bytes());
    let verdict = RawValue::from_string(text).expect("the inspection has read the same text");
    let approved = Approved { tier, label, verdict, decision: decision.clone(), sha256: sha256.clone() };
    Judgement { tier, inspection, decision, sha256, outcome: Ok(approved) }
}

/// Judges a delivered verdict again. Returns the approved verdict if `decision` matches it. Flags of members that were
/// cut before the delivery are taken from `decision`.
pub(crate) fn judge_delivered(tier: Tier, payload: Payload, decision: Decision) -> Option<Approved> {
    let mut approved = judge_with(UnexpectedFields::Deliver, tier, payload).outcome.ok()?;
    let judged =
        |flags: &[Flag]| flags.iter().filter(|flag| !flag.is_unexpected()).cloned().collect::<Vec<_>>();
    let again = Decision { flags: judged(&approved.decision.flags), ..approved.decision.clone() };
    let then = Decision { flags: judged(&decision.flags), ..decision.clone() };
    let names_all = approved.decision.flags.iter().all(|flag| decision.flags.contains(flag));
    (again == then && names_all).then(|| {
        approved.decision = decision;
        approved
    })
}

/// The result of the gate for one payload: the data for the log, and the approved verdict, if any.
#[derive(Debug)]
pub struct Judgement {
    /// The tier judged for.
    pub tier: Tier,
    /// The mapping's result.
    pub inspection: Inspection,
    /// The decision.
    pub decision: Decision,
    /// The SHA-256 of the text that may be delivered. For a refused payload, of its text without surrounding white
    /// space.
    pub sha256: Sha256Hex,
    /// The verdict that may be delivered, or a marker that none may.
    pub outcome: Result<Approved, Rejected>,
}

/// Marks a refused payload. It contains no text, because the text of a rejected verdict is never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected(());

/// A verdict that passed the crosscheck. Only this type can be cached, mailed or returned.
///
/// Its fields are private and only [`judge_with`] creates one, so no code can bypass the gate:
///
/// ```compile_fail
/// use oracled_domain::{Approved, Tier};
/// let forged = Approved { tier: Tier::Quick };
/// ```
///
/// It cannot be deserialized either; [`crate::Delivery`] judges its verdict again:
///
/// ```compile_fail
/// let forged: oracled_domain::Approved = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Approved {
    tier: Tier,
    label: Label,
    verdict: Box<RawValue>,
    decision: Decision,
    sha256: Sha256Hex,
}

impl Approved {
    /// The tier for which it was approved.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        self.tier
    }

    /// The label of its top-level verdict.
    #[must_use]
    pub const fn label(&self) -> Label {
        self.label
    }

    /// The verdict as the model wrote it, without the members that were cut.
    #[must_use]
    pub fn verdict(&self) -> &RawValue {
        &self.verdict
    }

    /// The decision that approved it.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The SHA-256 of [`Approved::verdict`]'s text.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }
}

#[cfg(test)]
mod tests;
