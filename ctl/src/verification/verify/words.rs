//! What stands in envelopes and reviews, in words.

use crate::base::output::on_one_line;
use jiff::Timestamp;
use oracled_domain::base::moment::span;
use oracled_domain::ground::value::Value;
use oracled_domain::verification::candidate::Stated;
use oracled_domain::verification::envelope::{Basis, CandidateOutcome};
use oracled_domain::verification::step::{Party, Step, StepOutcome};
use oracled_domain::verification::{CallOutcome, Cut, EnvelopeKind, Reason, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// What an envelope of this kind says.
pub(crate) const fn kind(kind: EnvelopeKind) -> &'static str {
    match kind {
        EnvelopeKind::Authoritative => "all values are verified",
        EnvelopeKind::NarrativeOnly => "nothing is verified, and no values are told",
        EnvelopeKind::Blocked => "nothing is told for now",
        EnvelopeKind::RequiresSpecification => "the question leaves open which thing it is about",
        EnvelopeKind::Provisional => "the decision will be taken later",
        EnvelopeKind::DisputeSummary => "the sources disagree, and nobody decides",
        EnvelopeKind::HumanReview => "a person has to decide",
    }
}

/// What a value rests on.
pub(crate) const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::OnlySource => "one source says so, and no other that is trusted has a value",
        Basis::Agreement => "all trusted sources that have a value agree",
        Basis::Resolution => "the sources disagreed, and that was settled as told below",
        Basis::HumanLock => "a person decided so, having seen what the sources say",
        Basis::HumanConfirmation => "whoever knows it has confirmed it",
    }
}

/// Why there is no value.
pub(crate) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::AlwaysHuman => "on this axis a person decides in any case",
        Reason::DefinitionMismatch => "what the sources say are values of different things",
        Reason::Deviation => "a value jumps away from what its source said before",
        Reason::OracleVsUser => "somebody claims another value than a source has",
        Reason::DeltaThreshold => "the values are further apart than may be settled without a person",
        Reason::RatioThreshold => {
            "the values differ by more than the ratio that may be settled without a reviewer"
        }
        Reason::RequireHuman => "the sources disagree, and a person is to decide that",
        Reason::RecencyUndecided => {
            "the sources disagree, and none was verified later than the others, or late enough"
        }
        Reason::PrecedenceUnclear => {
            "the sources disagree, and the order of their tiers contradicts the one for such an axis"
        }
        Reason::StrategyImpossible => {
            "the sources disagree, and the strategy cannot settle values like these"
        }
        Reason::CascadeLimit => {
            "there are more conflicts on one axis than may be settled one after the other"
        }
        Reason::OracleInvalidated => {
            "a source is in conflict on one axis, which takes all its answers with it"
        }
        Reason::BudgetExceeded => "the decision took longer than it may",
        Reason::Disputed => "the sources disagree, and nobody is to decide that",
        Reason::QueueFull => {
            "too many questions wait for people, or over this thing, already: reviewers have to resolve or dismiss some first"
        }
        Reason::OracleUnreachable => {
            "a source did not answer in time, could not be reached, or is not called while its circuit is open"
        }
        Reason::OracleUnusable => {
            "a source failed, cannot answer such a question, gave an answer that cannot be trusted, or rejected the record in its current release"
        }
        Reason::Stale => "what a source says is stale, and its freshness policy does not let that pass",
        Reason::Expired => "what a source says is older than the axis, or the source itself, allows",
        Reason::Reverification => "the sources disagree, and have to be asked for all their axes once more",
        Reason::NoValue => "no trusted source has a value that counts, and all that were to answer did",
        Reason::UnverifiedOnly => {
            "only what is unverified, or counts as that, has a value, and all others that were to answer did"
        }
        Reason::TooFewSources => "fewer registered sources have a value than the workflow requires",
        Reason::ThingNotFixed => "it is not said which thing is meant",
        Reason::SeveralThings => "a source knows several things that could be meant",
        Reason::NonAuthoritative => "the workflow verifies nothing",
        Reason::Deferred => "the decision will be taken later",
    }
}

/// Reasons, each with its word for programs.
pub(crate) fn reasons(reasons: &BTreeSet<Reason>) -> Vec<String> {
    reasons.iter().map(|why| format!("{} ({})", reason(*why), why.into_str())).collect()
}

/// What came of asking a source, and how long that took.
pub(crate) fn outcome(candidate: &CandidateOutcome) -> String {
    let took = format!("{} ms", candidate.latency_ms);
    let mut told = match candidate.outcome {
        CallOutcome::Answered => format!("answered in {took}"),
        CallOutcome::NoRecord => "knows nothing of it".into(),
        CallOutcome::Several => "knows several that could be meant".into(),
        CallOutcome::TimedOut => format!("no answer in time, after {took}"),
        CallOutcome::Failed => format!("failed after {took}"),
        CallOutcome::CircuitOpen => "not called while its circuit is open".into(),
        CallOutcome::Refused => "answered, and that is not trusted".into(),
        CallOutcome::NotAwaited => format!("not awaited beyond {took}"),
        CallOutcome::NotAsked => "not asked".into(),
    };
    for (is_so, word) in [
        (candidate.late, ", late"),
        (candidate.stale, "; what was kept of it stands for its answer"),
        (candidate.contested, "; in conflict"),
    ] {
        told.push_str(if is_so { word } else { "" });
    }
    told
}

/// What a source replied, with the cause where there is one.
pub(crate) fn reply(reply: &Reply) -> String {
    let word = reply.outcome().into_str();
    match reply {
        // what it said is for the envelope to tell, or not
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

/// What ended a call without an answer.
const fn cut(cut: Cut) -> &'static str {
    match cut {
        Cut::HardTimeout => "its hard timeout had passed",
        Cut::Budget => "the time for the decision was over",
    }
}

/// One conflict between two values, and what became of it.
pub(crate) fn step(step: &Step) -> String {
    let apart = step.delta.as_ref().map(|delta| format!(", {delta} apart")).unwrap_or_default();
    let strategy = step.strategy.into_str();
    let became = match (step.outcome, &step.value) {
        (StepOutcome::Kept, _) => format!("{strategy} kept the first"),
        (StepOutcome::Replaced, _) => format!("{strategy} took the second"),
        (StepOutcome::Averaged, Some(value)) => format!("{strategy} made {value} of both"),
        (StepOutcome::Averaged, None) => format!("{strategy} made a mean of both"),
        (StepOutcome::Escalated, _) => "left to a person".into(),
        (StepOutcome::Disputed, _) => "nobody decides".into(),
    };
    // that a person decides since a person is to decide says nothing
    let why = step.reason.filter(|why| !matches!(why, Reason::RequireHuman | Reason::Disputed));
    let why = why.map(|why| format!(", since {}", reason(why))).unwrap_or_default();
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

/// What a source says, axis by axis.
pub(crate) fn said(values: &BTreeMap<String, Stated>) -> String {
    let said = values.iter().map(|(path, Stated { value, definition })| {
        let definition = definition.as_ref().map(|definition| format!(" ({definition})"));
        format!("{path} {value}{}", definition.unwrap_or_default())
    });
    said.collect::<Vec<_>>().join(", ")
}

/// Which thing.
pub(crate) fn thing(thing: &BTreeMap<String, Value>) -> String {
    thing.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// As of when a thing is asked about.
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
                "weighted_average made 54341.33 of both",
            ),
            (json!({"outcome": "escalated", "value": null, "reason": "require_human"}), "left to a person"),
            (
                json!({"outcome": "escalated", "value": null, "reason": "delta_threshold"}),
                "left to a person, since the values are further apart than may be settled without a person",
            ),
            (json!({"outcome": "disputed", "value": null, "reason": "disputed"}), "nobody decides"),
        ] {
            assert_eq!(told(changes), format!("{both}{became}"));
        }
    }

    #[test]
    fn what_came_of_a_source_is_told_with_what_speaks_against_it() {
        let candidate = |outcome: &str, late: bool, stale: bool| {
            let candidate = json!({"oracle_id": "office-a", "outcome": outcome, "stale": stale, "contested": false,
                "late": late, "latency_ms": 2500});
            self::outcome(&serde_json::from_value(candidate).expect("it is one"))
        };
        assert_eq!(candidate("answered", false, false), "answered in 2500 ms");
        assert_eq!(candidate("answered", true, false), "answered in 2500 ms, late");
        let kept = "no answer in time, after 2500 ms, late; what was kept of it stands for its answer";
        assert_eq!(candidate("timed_out", true, true), kept);
        assert_eq!(candidate("refused", false, false), "answered, and that is not trusted");
    }
}
