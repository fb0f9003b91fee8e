//! The contents of envelopes and reviews, in words.

use crate::base::output::on_one_line;
use jiff::Timestamp;
use oracled_domain::base::moment::span;
use oracled_domain::ground::value::Value;
use oracled_domain::verification::candidate::Stated;
use oracled_domain::verification::envelope::{Basis, CandidateOutcome};
use oracled_domain::verification::step::{Party, Step, StepOutcome};
use oracled_domain::verification::{CallOutcome, Cut, EnvelopeKind, Reason, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// The meaning of an envelope's kind.
pub(crate) const fn kind(kind: EnvelopeKind) -> &'static str {
    match kind {
        EnvelopeKind::Authoritative => "all values are verified",
        EnvelopeKind::NarrativeOnly => "nothing is verified, and no values are returned",
        EnvelopeKind::Blocked => "no values are available for now",
        EnvelopeKind::RequiresSpecification => "the question does not identify one entity",
        EnvelopeKind::Provisional => "the decision is pending",
        EnvelopeKind::DisputeSummary => "the sources disagree, and the workflow leaves that undecided",
        EnvelopeKind::HumanReview => "a reviewer has to decide",
    }
}

/// The basis of a value.
pub(crate) const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::OnlySource => "one source has this value, and no other trusted source has a value",
        Basis::Agreement => "all trusted sources with a value agree",
        Basis::Resolution => "the sources disagreed, and the conflicts were settled as shown below",
        Basis::HumanLock => "a reviewer decided this value, knowing the answers of the sources",
        Basis::HumanConfirmation => "the claimant has confirmed this value",
    }
}

/// The reason why there is no value.
pub(crate) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::AlwaysHuman => "a reviewer always decides this axis",
        Reason::DefinitionMismatch => "the values of the sources have different definitions",
        Reason::Deviation => "a value deviates too far from its source's baseline",
        Reason::OracleVsUser => "a claim differs from the value of a source",
        Reason::DeltaThreshold => "the values differ by more than may be settled without a reviewer",
        Reason::RatioThreshold => {
            "the values differ by more than the ratio that may be settled without a reviewer"
        }
        Reason::RequireHuman => "the sources disagree, and a reviewer has to decide",
        Reason::RecencyUndecided => {
            "the sources disagree, and none was verified later than the others or recently enough"
        }
        Reason::PrecedenceUnclear => {
            "the sources disagree, and the order of their tiers contradicts the precedence for this axis"
        }
        Reason::StrategyImpossible => "the sources disagree, and the strategy cannot settle such values",
        Reason::CascadeLimit => "one axis has more conflicts than may be settled in sequence",
        Reason::OracleInvalidated => "a source is in conflict on one axis, which invalidates all its answers",
        Reason::BudgetExceeded => "the decision exceeded its time budget",
        Reason::Disputed => "the sources disagree, and the workflow leaves that undecided",
        Reason::QueueFull => {
            "too many reviews are open, in total or for this entity; reviewers have to resolve or dismiss some first"
        }
        Reason::OracleUnreachable => {
            "a source did not answer in time, could not be reached, or is not called while its circuit is open"
        }
        Reason::OracleUnusable => {
            "a source failed, cannot answer such a question, returned an untrusted answer, or rejected the record in its current release"
        }
        Reason::Stale => "the data of a source is stale, and its freshness policy does not allow that",
        Reason::Expired => "the data of a source is older than the axis or the source allows",
        Reason::Reverification => "the sources disagree, and have to be queried again for all their axes",
        Reason::NoValue => "no trusted source has a usable value, and all expected sources answered",
        Reason::UnverifiedOnly => {
            "only sources that are unverified, or count as unverified, have a value, and all other expected sources answered"
        }
        Reason::TooFewSources => "fewer registered sources have a value than the workflow requires",
        Reason::ThingNotFixed => "the question does not identify one entity",
        Reason::SeveralThings => "a source has several matching entities",
        Reason::NonAuthoritative => "the workflow does not verify values",
        Reason::Deferred => "the decision is pending",
    }
}

/// Reasons, each with its wire name.
pub(crate) fn reasons(reasons: &BTreeSet<Reason>) -> Vec<String> {
    reasons.iter().map(|why| format!("{} ({})", reason(*why), why.into_str())).collect()
}

/// The outcome of a source's call, and its latency.
pub(crate) fn outcome(candidate: &CandidateOutcome) -> String {
    let took = format!("{} ms", candidate.latency_ms);
    let mut told = match candidate.outcome {
        CallOutcome::Answered => format!("answered in {took}"),
        CallOutcome::NoRecord => "has no record".into(),
        CallOutcome::Several => "has several matching entities".into(),
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
        told.push_str(if is_so { word } else { "" });
    }
    told
}

/// The reply of a source, with the cause if there is one.
pub(crate) fn reply(reply: &Reply) -> String {
    let word = reply.outcome().into_str();
    match reply {
        // the envelope shows the values, or withholds them
        Reply::Answered { .. } | Reply::NoRecord | Reply::NotAwaited => word.into(),
        Reply::Several { records } => format!("{word}: {records} records"),
        Reply::TimedOut { cut } => format!("{word}: {}", self::cut(*cut)),
        Reply::Failed { failure, cause } => format!("{word}: {}, {cause}", failure.into_str()),
        Reply::CircuitOpen { retry_after_ms: Some(after_ms) } => {
            format!("{word}: for {}", span(after_ms.div_ceil(1000)))
        }
        Reply::CircuitOpen { retry_after_ms: None } => format!("{word}: until an administrator closes it"),
        Reply::Refused { refusal, cause } => format!("{word}: {}, {cause}", refusal.into_str()),
        Reply::NotAsked { cause } => format!("{word}: {cause}"),
    }
}

/// The reason why a call ended without an answer.
const fn cut(cut: Cut) -> &'static str {
    match cut {
        Cut::HardTimeout => "its hard timeout expired",
        Cut::Budget => "the time for the decision expired",
    }
}

/// One conflict between two values, and its outcome.
pub(crate) fn step(step: &Step) -> String {
    let apart = step.delta.as_ref().map(|delta| format!(", {delta} apart")).unwrap_or_default();
    let strategy = step.strategy.into_str();
    let became = match (step.outcome, &step.value) {
        (StepOutcome::Kept, _) => format!("{strategy} kept the first"),
        (StepOutcome::Replaced, _) => format!("{strategy} took the second"),
        (StepOutcome::Averaged, Some(value)) => format!("{strategy} combined both to {value}"),
        (StepOutcome::Averaged, None) => format!("{strategy} combined both"),
        (StepOutcome::Escalated, _) => "left to a reviewer".into(),
        (StepOutcome::Disputed, _) => "left undecided".into(),
    };
    // these two reasons only repeat the outcome
    let why = step.reason.filter(|why| !matches!(why, Reason::RequireHuman | Reason::Disputed));
    let why = why.map(|why| format!(", because {}", reason(why))).unwrap_or_default();
    let (axis, number) = (&step.axis, step.number);
    let told = format!(
        "{axis} {number}: {} against {}{apart}: {became}{why}",
        party(&step.standing),
        party(&step.against)
    );
    on_one_line(&told)
}

/// One side of a conflict.
fn party(party: &Party) -> String {
    let oracles: Vec<_> = party.oracles.iter().map(|oracle_id| oracle_id.as_str()).collect();
    format!("{} ({}) {}", oracles.join(" and "), party.tier.into_str(), party.value)
}

/// The values of a source's answer, by axis.
pub(crate) fn said(values: &BTreeMap<String, Stated>) -> String {
    let said = values.iter().map(|(path, Stated { value, definition })| {
        let definition = definition.as_ref().map(|definition| format!(" ({definition})"));
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    said.collect::<Vec<_>>().join(", ")
}

/// The identity of an entity.
pub(crate) fn thing(thing: &BTreeMap<String, Value>) -> String {
    thing.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// The time that a question is about.
pub(crate) fn as_of(point_in_time: Option<Timestamp>, known_at: Option<Timestamp>) -> String {
    let at = point_in_time.map_or_else(|| "now".into(), |at| at.to_string());
    known_at.map_or_else(|| at.clone(), |known_at| format!("{at}, as known at {known_at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn told(changes: Json) -> String {
        let mut document = json!({
            "axis": "population", "number": 1, "delta": "400", "relation": "different_tier",
            "standing": {"oracles": ["office-a"], "value": "54208", "tier": "primary"},
            "against": {"oracles": ["office-b", "office-c"], "value": "54608", "tier": "secondary"},
            "strategy": "higher_tier_wins", "outcome": "kept", "value": "54208",
        });
        document.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
        step(&serde_json::from_value(document).expect("it is a step"))
    }

    #[test]
    fn conflict_is_shown_with_both_sides_their_difference_and_outcome() {
        let both = "population 1: office-a (primary) 54208 against office-b and office-c (secondary) 54608, 400 apart: ";
        for (changes, became) in [
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
            assert_eq!(told(changes), format!("{both}{became}"));
        }
    }

    #[test]
    fn source_outcome_is_shown_with_latency_and_caveats() {
        let candidate = |outcome: &str, late: bool, stale: bool| {
            let candidate = json!({"oracle_id": "office-a", "outcome": outcome, "stale": stale, "contested": false,
                "late": late, "latency_ms": 2500});
            self::outcome(&serde_json::from_value(candidate).expect("it is one"))
        };
        assert_eq!(candidate("answered", false, false), "answered in 2500 ms");
        assert_eq!(candidate("answered", true, false), "answered in 2500 ms, late");
        let kept = "no answer in time, after 2500 ms, late; its cached answer is used";
        assert_eq!(candidate("timed_out", true, true), kept);
        assert_eq!(candidate("refused", false, false), "answered, but the answer is not trusted");
    }
}
