//! The contents of envelopes and reviews, in words.

use domain_base::moment::format_span;
use domain_base::visible::visible_line;
use domain_ground::value::AxisValue;
use domain_verification::candidate::StatedValue;
use domain_verification::conflict_step::{ConflictSide, ConflictStep, ConflictStepOutcome};
use domain_verification::envelope::{CandidateOutcome, ValueBasis};
use domain_verification::{AxisReason, CallOutcome, CallTimeLimit, EnvelopeKind, OracleReply};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The meaning of an envelope's kind.
pub(crate) const fn describe_kind(kind: EnvelopeKind) -> &'static str {
    match kind {
        EnvelopeKind::Authoritative => "all values are verified",
        EnvelopeKind::NarrativeOnly => "nothing is verified, and no values are returned",
        EnvelopeKind::Blocked => "no values are available for now",
        EnvelopeKind::RequiresSpecification => "the question does not identify one subject",
        EnvelopeKind::Provisional => "the decision is pending",
        EnvelopeKind::DisputeSummary => "the sources disagree, and the workflow leaves that undecided",
        EnvelopeKind::HumanReview => "a reviewer has to decide",
    }
}

/// The basis of a value.
pub(crate) const fn describe_basis(basis: ValueBasis) -> &'static str {
    match basis {
        ValueBasis::OnlySource => "one source has this value, and no other trusted source has a value",
        ValueBasis::Agreement => "all trusted sources with a value agree",
        ValueBasis::Resolution => "the sources disagreed, and the conflicts were settled as shown below",
        ValueBasis::HumanLock => "a reviewer decided this value",
        ValueBasis::HumanConfirmation => "the claimant has confirmed this value",
    }
}

/// The reason why there is no value.
pub(crate) const fn describe_reason(reason: AxisReason) -> &'static str {
    match reason {
        AxisReason::AlwaysHuman => "a reviewer always decides this axis",
        AxisReason::DefinitionMismatch => "the values of the sources have different definitions",
        AxisReason::Deviation => "a value deviates too far from its source's baseline",
        AxisReason::OracleVsUser => "a claim differs from the value of a source",
        AxisReason::DeltaThreshold => "the values differ by more than may be settled without a reviewer",
        AxisReason::RatioThreshold => {
            "the values differ by more than the ratio that may be settled without a reviewer"
        }
        AxisReason::RequireHuman => "the sources disagree, and a reviewer has to decide",
        AxisReason::RecencyUndecided => {
            "the sources disagree, and none was published later than the others or recently enough"
        }
        AxisReason::PrecedenceUnclear => {
            "the sources disagree, and the order of their tiers contradicts the precedence for this axis"
        }
        AxisReason::StrategyImpossible => "the sources disagree, and the strategy cannot settle such values",
        AxisReason::CascadeLimit => "one axis has more conflicts than may be settled in sequence",
        AxisReason::OracleInvalidated => {
            "a source is in conflict on one axis, which invalidates all its answers"
        }
        AxisReason::BudgetExceeded => "the decision exceeded its time budget",
        AxisReason::Disputed => "the sources disagree, and the workflow leaves that undecided",
        AxisReason::QueueFull => {
            "too many reviews are open, in total or for this subject; reviewers have to resolve or dismiss some first"
        }
        AxisReason::OracleUnreachable => {
            "a source did not answer in time, could not be reached, or is not called while its circuit is open"
        }
        AxisReason::OracleUnusable => {
            "a source failed, is not approved or ingested yet, had no release then, cannot answer such a question, returned an untrusted answer, or rejected the record in its current release"
        }
        AxisReason::Stale => "the data of a source is stale, and its freshness policy does not allow that",
        AxisReason::Expired => "the data of a source is older than the axis or the source allows",
        AxisReason::Reverification => "the sources disagree, and have to be queried again for all their axes",
        AxisReason::NoValue => "no trusted source has a usable value, and all expected sources answered",
        AxisReason::UnverifiedOnly => {
            "only sources that are unverified, or count as unverified, have a value, and all other expected sources answered"
        }
        AxisReason::TooFewSources => "fewer registered sources have a value than the workflow requires",
        AxisReason::ThingNotFixed => "the question does not identify one subject",
        AxisReason::SeveralThings => "a source has several records of the subject",
        AxisReason::NonAuthoritative => "the workflow does not verify values",
        AxisReason::Deferred => "the decision is pending",
    }
}

/// Why no source has a value, by the outcomes of their calls: they have no record of the subject, or a record without the value.
pub(crate) fn describe_no_value(candidates: &[CandidateOutcome]) -> &'static str {
    let is_of = |outcome| move |candidate: &CandidateOutcome| candidate.outcome == outcome;
    if !candidates.is_empty() && candidates.iter().all(is_of(CallOutcome::NoRecord)) {
        "no source has a record of the subject"
    } else if candidates.iter().any(is_of(CallOutcome::Answered)) {
        "a source has a record of the subject, but no trusted source has a value"
    } else {
        describe_reason(AxisReason::NoValue)
    }
}

/// Reasons, each with its wire name.
pub(crate) fn describe_reasons(reasons: &BTreeSet<AxisReason>) -> Vec<String> {
    reasons.iter().map(|why| format!("{} ({})", describe_reason(*why), why.into_str())).collect()
}

/// The outcome of a source's call, and its latency.
pub(crate) fn describe_outcome(candidate: &CandidateOutcome) -> String {
    let took = format!("{} ms", candidate.latency_ms);
    let mut text = match candidate.outcome {
        CallOutcome::Answered => format!("answered in {took}"),
        CallOutcome::NoRecord => "has no record".into(),
        CallOutcome::Several => "has several records of the subject".into(),
        CallOutcome::TimedOut => format!("no answer in time, after {took}"),
        CallOutcome::Failed => format!("failed after {took}"),
        CallOutcome::CircuitOpen => "not called while its circuit is open".into(),
        CallOutcome::Refused => "answered, but the answer is not trusted".into(),
        CallOutcome::NotAwaited => format!("not awaited after {took}"),
        CallOutcome::NotAsked => "not asked".into(),
    };
    for (is_so, word) in [
        (candidate.late, ", late"),
        (candidate.stale, "; its cached answer is used"),
        (candidate.contested, "; in conflict"),
    ] {
        text.push_str(if is_so { word } else { "" });
    }
    text
}

/// The reply of a source, with the cause if there is one.
pub(crate) fn describe_reply(reply: &OracleReply) -> String {
    let word = reply.outcome().into_str();
    match reply {
        // the envelope shows the values, or withholds them
        OracleReply::Answered { .. } | OracleReply::NoRecord | OracleReply::NotAwaited => word.into(),
        OracleReply::Several { records } => format!("{word}: {records} records"),
        OracleReply::TimedOut { cut } => format!("{word}: {}", describe_cut(*cut)),
        OracleReply::Failed { failure, cause } => format!("{word}: {}, {cause}", failure.into_str()),
        OracleReply::CircuitOpen { retry_after_ms: Some(after_ms) } => {
            format!("{word}: for {}", format_span(after_ms.div_ceil(1000)))
        }
        OracleReply::CircuitOpen { retry_after_ms: None } => {
            format!("{word}: until an administrator closes it")
        }
        OracleReply::Refused { refusal, cause } => format!("{word}: {}, {cause}", refusal.into_str()),
        OracleReply::NotAsked { cause } => format!("{word}: {cause}"),
    }
}

/// The reason why a call ended without an answer.
const fn describe_cut(cut: CallTimeLimit) -> &'static str {
    match cut {
        CallTimeLimit::HardTimeout => "its hard timeout expired",
        CallTimeLimit::Budget => "the time for the decision expired",
    }
}

/// One conflict between two values, and its outcome.
pub(crate) fn describe_step(step: &ConflictStep) -> String {
    let difference = step.delta.as_ref().map(|delta| format!(", {delta} apart")).unwrap_or_default();
    let strategy = step.strategy.into_str();
    let outcome = match (step.outcome, &step.value) {
        (ConflictStepOutcome::Kept, _) => format!("{strategy} kept the first"),
        (ConflictStepOutcome::Replaced, _) => format!("{strategy} took the second"),
        (ConflictStepOutcome::Averaged, Some(value)) => format!("{strategy} combined both to {value}"),
        (ConflictStepOutcome::Averaged, None) => format!("{strategy} combined both"),
        (ConflictStepOutcome::Escalated, _) => "left to a reviewer".into(),
        (ConflictStepOutcome::Disputed, _) => "left undecided".into(),
    };
    // these two reasons only repeat the outcome
    let why = step.reason.filter(|why| !matches!(why, AxisReason::RequireHuman | AxisReason::Disputed));
    let why = why.map(|why| format!(", because {}", describe_reason(why))).unwrap_or_default();
    let (axis, number) = (&step.axis, step.number);
    let text = format!(
        "{axis} {number}: {} against {}{difference}: {outcome}{why}",
        describe_party(&step.standing),
        describe_party(&step.against)
    );
    visible_line(&text).into_owned()
}

/// One side of a conflict.
fn describe_party(party: &ConflictSide) -> String {
    let oracles: Vec<_> = party.oracles.iter().map(|oracle_id| oracle_id.as_str()).collect();
    format!("{} ({}) {}", oracles.join(" and "), party.tier.into_str(), party.value)
}

/// The values of a source's answer, by axis.
pub(crate) fn format_values(values: &BTreeMap<String, StatedValue>) -> String {
    let texts = values.iter().map(|(path, StatedValue { value, definition })| {
        let definition = definition.as_ref().map(|definition| format!(" ({definition})"));
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Claims as texts by the path of their axis. A claim is its path, its value, its claimant, and whether the claimant
/// has confirmed it.
pub(crate) fn format_claims<'c, V: Display>(
    claims: impl Iterator<Item = (&'c String, V, &'c str, bool)>,
) -> BTreeMap<String, String> {
    let text = |(path, value, claimed_by, confirmed): (&String, V, &str, bool)| {
        let confirmed = if confirmed { ", confirmed" } else { "" };
        (path.clone(), format!("{value} by {claimed_by}{confirmed}"))
    };
    claims.map(text).collect()
}

/// The identity of a subject.
pub(crate) fn format_identity(identity: &BTreeMap<String, AxisValue>) -> String {
    if identity.is_empty() {
        return "none".to_owned();
    }
    identity.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// The time that a question is about.
pub(crate) fn format_times(point_in_time: Option<Timestamp>, known_at: Option<Timestamp>) -> String {
    let at = point_in_time.map_or_else(|| "now".into(), |at| at.to_string());
    known_at.map_or_else(|| at.clone(), |known_at| format!("{at}, as known at {known_at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn describe_changed_step(changes: Json) -> String {
        let mut document = json!({
            "axis": "population", "number": 1, "delta": "400", "relation": "different_tier",
            "standing": {"oracles": ["office-a"], "value": "54208", "tier": "primary"},
            "against": {"oracles": ["office-b", "office-c"], "value": "54608", "tier": "secondary"},
            "strategy": "higher_tier_wins", "outcome": "kept", "value": "54208",
        });
        document.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
        describe_step(&serde_json::from_value(document).expect("a valid step"))
    }

    #[test]
    fn conflict_is_shown_with_both_sides_their_difference_and_outcome() {
        let both = "population 1: office-a (primary) 54208 against office-b and office-c (secondary) 54608, 400 apart: ";
        for (changes, outcome) in [
            (json!({}), "higher_tier_wins kept the first"),
            (json!({"strategy": "most_recent", "outcome": "replaced"}), "most_recent took the second"),
            (
                json!({"strategy": "weighted_average", "outcome": "averaged", "value": "54341.33"}),
                "weighted_average combined both to 54341.33",
            ),
            (json!({"outcome": "escalated", "value": null, "reason": "require_human"}), "left to a reviewer"),
            (
                json!({"outcome": "escalated", "value": null, "reason": "delta_threshold"}),
                "left to a reviewer, because the values differ by more than may be settled without a reviewer",
            ),
            (json!({"outcome": "disputed", "value": null, "reason": "disputed"}), "left undecided"),
        ] {
            assert_eq!(describe_changed_step(changes), format!("{both}{outcome}"));
        }
    }

    #[test]
    fn source_outcome_is_shown_with_latency_and_caveats() {
        let candidate = |outcome: &str, late: bool, stale: bool| {
            let candidate = json!({"oracle_id": "office-a", "outcome": outcome, "stale": stale, "contested": false,
                "late": late, "latency_ms": 2500});
            describe_outcome(&serde_json::from_value(candidate).expect("a valid outcome"))
        };
        assert_eq!(candidate("answered", false, false), "answered in 2500 ms");
        assert_eq!(candidate("answered", true, false), "answered in 2500 ms, late");
        let cached = "no answer in time, after 2500 ms, late; its cached answer is used";
        assert_eq!(candidate("timed_out", true, true), cached);
        assert_eq!(candidate("refused", false, false), "answered, but the answer is not trusted");
    }
}
