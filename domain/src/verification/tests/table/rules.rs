//! The rules, each with its origin: "RFC" is RFC-0002, Part II, by its headings; "Reading" is how this project interprets
//! it.

use super::case::{Case, Claim, FirstReply, Freshness, Kept, Mode, Values};
use crate::ground::axis::AxisClass;
use crate::ground::freshness::StaleBehavior;
use crate::verification::EnvelopeKind::{
    self, Authoritative, Blocked, DisputeSummary, HumanReview, NarrativeOnly, Provisional,
};
use crate::verification::envelope::Basis;
use crate::verification::workflow::{OnBudget, OnTimeout, Strategy};
use crate::verification::{Envelope, Reason, Tier};

pub(super) struct Rule {
    pub(super) says: &'static str,
    pub(super) when: fn(&Case) -> bool,
    pub(super) then: Expected,
}

pub(super) enum Expected {
    Kind(EnvelopeKind),
    Value(fn(&Case) -> &'static str),
    That(fn(&Case, &Envelope) -> bool),
}

use Expected::{Kind, That, Value};

/// The oracles are queried.
fn verifies(case: &Case) -> bool {
    matches!(case.mode, Mode::Inline | Mode::AsyncLater)
}

/// A person has settled the axis, by a lock or by a confirmed claim.
fn a_person_has_settled_it(case: &Case) -> bool {
    let confirmed = case.claim == Claim::OtherConfirmed && case.class == AxisClass::SelfReported;
    verifies(case) && (case.is_locked || confirmed && !case.always_human)
}

fn it_is_up_to_oracles(case: &Case) -> bool {
    verifies(case) && !a_person_has_settled_it(case)
}

/// The first oracle answered within its time.
fn first_answers(case: &Case) -> bool {
    case.reply == FirstReply::Answered
}

/// The first oracle is slow or unreachable.
fn first_is_slow_or_unreachable(case: &Case) -> bool {
    !first_answers(case) && case.reply != FirstReply::WrongSignature
}

/// The workflow serves the "cached data within tolerance".
fn what_is_kept_serves(case: &Case) -> bool {
    first_is_slow_or_unreachable(case)
        && case.on_timeout == OnTimeout::ServeStale
        && case.kept == Kept::Tolerated
}

fn first_has_something_to_show(case: &Case) -> bool {
    it_is_up_to_oracles(case) && (first_answers(case) || what_is_kept_serves(case))
}

fn is_missing(case: &Case) -> bool {
    it_is_up_to_oracles(case) && !first_has_something_to_show(case)
}

/// The value of the first oracle is too old to be returned.
fn is_closed_by_age(case: &Case) -> bool {
    use StaleBehavior::{BlockUntilFresh, FailClosed};
    let closing = [Freshness::Expired, Freshness::Stale(BlockUntilFresh), Freshness::Stale(FailClosed)];
    first_has_something_to_show(case) && closing.contains(&case.freshness)
}

fn first_counts(case: &Case) -> bool {
    first_has_something_to_show(case) && !is_closed_by_age(case) && case.first_tier() != Tier::Unverified
}

fn second_counts(case: &Case) -> bool {
    it_is_up_to_oracles(case) && second_tier(case) != Tier::Unverified
}

fn second_tier(case: &Case) -> Tier {
    case.tiers.1.into()
}

fn both_count(case: &Case) -> bool {
    first_counts(case) && second_counts(case)
}

fn they_conflict(case: &Case) -> bool {
    both_count(case) && case.values != Values::Same
}

fn of_one_tier(case: &Case) -> bool {
    case.first_tier() == second_tier(case)
}

fn threshold_is_exceeded(case: &Case) -> bool {
    they_conflict(case) && case.threshold == super::case::Threshold::Exceeded
}

/// A claim on a measured axis differs from the value of an oracle.
fn claim_differs(case: &Case) -> bool {
    let differs = match case.claim {
        Claim::None => false,
        Claim::Other | Claim::OtherConfirmed => first_counts(case) || second_counts(case),
        Claim::AsFirst => second_counts(case) && case.values != Values::Same,
    };
    it_is_up_to_oracles(case) && case.class == AxisClass::Measured && differs
}

fn a_person_decides_in_any_case(case: &Case) -> bool {
    let anything = first_counts(case) || second_counts(case) || case.claim != Claim::None;
    it_is_up_to_oracles(case) && case.always_human && anything
}

/// Only a reviewer decides by the strategy for the two tiers.
fn strategy_asks_for_a_person(case: &Case) -> bool {
    let cannot = case.strategy == Strategy::HigherTierWins && of_one_tier(case);
    they_conflict(case) && (case.strategy == Strategy::RequireHuman || cannot)
}

fn a_person_has_to_decide(case: &Case) -> bool {
    threshold_is_exceeded(case)
        || claim_differs(case)
        || a_person_decides_in_any_case(case)
        || strategy_asks_for_a_person(case)
}

fn the_budget_is_spent(case: &Case) -> bool {
    let was_cut = is_missing(case) && case.reply == FirstReply::BudgetCut;
    case.mode == Mode::Inline && (case.takes_too_long || was_cut)
}

/// Nothing prevents a decision now: no reviewer is required, no value is too old, no time limit is exceeded, and no oracle
/// is missing.
fn it_is_free(case: &Case) -> bool {
    it_is_up_to_oracles(case)
        && !a_person_has_to_decide(case)
        && !is_closed_by_age(case)
        && !the_budget_is_spent(case)
        && !is_missing(case)
}

fn settled_by(case: &Case, strategy: Strategy) -> bool {
    it_is_free(case) && they_conflict(case) && case.strategy == strategy
}

fn lesser(case: &Case) -> &'static str {
    if case.values == Values::FirstMore { case.said().1 } else { case.said().0 }
}

fn of_higher_tier(case: &Case) -> &'static str {
    if case.first_tier() > second_tier(case) { case.said().0 } else { case.said().1 }
}

/// The mean of 10 and 12, by weights of 4, 2 and 1, to one digit after the point.
fn mean(case: &Case) -> &'static str {
    let weight = |tier| match tier {
        Tier::Primary => 4,
        Tier::Secondary => 2,
        _ => 1,
    };
    let (first, second) = (weight(case.first_tier()), weight(second_tier(case)));
    let (of_12, of_10) = if case.values == Values::FirstMore { (first, second) } else { (second, first) };
    match (of_12, of_10) {
        (4, 1) => "11.6",
        (1, 4) => "10.4",
        _ if of_12 > of_10 => "11.3",
        _ if of_12 < of_10 => "10.7",
        _ => "11",
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        says: "RFC, Binding Rules 3: NON_AUTHORITATIVE_ONLY emits neither measurement nor classification nor action; Enforcement \
               Modes: its outputs are narrative",
        when: |case| case.mode == Mode::NonAuthoritative,
        then: Kind(NarrativeOnly),
    },
    Rule {
        says: "RFC, Enforcement Modes: ASYNC queues the decision and returns a provisional status",
        when: |case| case.mode == Mode::AsyncAtFirst,
        then: Kind(Provisional),
    },
    Rule {
        says: "Reading: only an authoritative envelope has measurements, and each of them has its verification record (RFC, \
               Acceptance Criteria 7)",
        when: |_| true,
        then: That(|case, envelope| {
            let values = envelope.axes.values().filter(|outcome| outcome.value.is_some()).count();
            let vouched = envelope.axes.values().all(|outcome| !outcome.evidence.is_empty());
            case.value_in(envelope).is_some() == (envelope.kind == Authoritative) && (values == 0 || vouched)
        }),
    },
    Rule {
        says: "Reading: an envelope without values shows the oracles' values only in a dispute and for a review",
        when: |_| true,
        then: That(|_, envelope| {
            let tells = [Authoritative, DisputeSummary, HumanReview].contains(&envelope.kind);
            tells || envelope.steps.is_empty() && envelope.candidates.iter().all(|one| one.values.is_empty())
        }),
    },
    Rule {
        says: "RFC, Oracle Conflict Decision Procedure 1, exception: a difference above escalation_delta_threshold escalates \
               regardless",
        when: threshold_is_exceeded,
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, Oracle Conflict Decision Procedure 3: always_human_axes require a reviewer regardless of tier",
        when: a_person_decides_in_any_case,
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, Conflict Resolution Hierarchy, warning: a claim that differs from an oracle on a measured axis goes to a \
               reviewer, flagged",
        when: claim_differs,
        then: That(|_, envelope| {
            envelope.kind == HumanReview && envelope.reasons.contains(&Reason::OracleVsUser)
        }),
    },
    Rule {
        says: "RFC, as before: the kind is a review, even if other oracles are missing",
        when: claim_differs,
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, Conflict Resolution Strategies: require_human always escalates",
        when: |case| they_conflict(case) && case.strategy == Strategy::RequireHuman,
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, Oracle Conflict Decision Procedure 2: within a tier none is higher, and the default is a reviewer",
        when: |case| they_conflict(case) && of_one_tier(case) && case.strategy == Strategy::HigherTierWins,
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, StaleBehavior: fail_closed is an error; block_until_fresh waits and then fails closed (Reading, section 6)",
        when: |case| is_closed_by_age(case) && !a_person_has_to_decide(case),
        then: Kind(Blocked),
    },
    Rule {
        says: "RFC, Integrity constraints: on state-sensitive axes expiry forces re-verification",
        when: |case| is_closed_by_age(case) && case.freshness == Freshness::Expired,
        then: That(|_, envelope| {
            let mut again = envelope.reverify.iter();
            envelope.kind != Authoritative && again.any(|again| again.oracle_id.as_str() == "first")
        }),
    },
    Rule {
        says: "RFC, Authority Latency Policy: a decision that takes longer than its budget escalates where that is declared",
        when: |case| {
            the_budget_is_spent(case) && !is_closed_by_age(case) && case.on_budget == OnBudget::Escalate
        },
        then: Kind(HumanReview),
    },
    Rule {
        says: "RFC, Authority Latency Policy: or it is narrative",
        when: |case| {
            the_budget_is_spent(case)
                && !is_closed_by_age(case)
                && !a_person_has_to_decide(case)
                && case.on_budget == OnBudget::DegradeToNarrative
        },
        then: Kind(NarrativeOnly),
    },
    Rule {
        says: "RFC, Authority Latency Policy: or it is blocked",
        when: |case| {
            the_budget_is_spent(case)
                && !is_closed_by_age(case)
                && !a_person_has_to_decide(case)
                && case.on_budget == OnBudget::FailClosed
        },
        then: Kind(Blocked),
    },
    Rule {
        says: "Reading: a missing value is not reported while a missing oracle might have it",
        when: is_missing,
        then: That(|_, envelope| {
            !envelope.reasons.iter().any(|reason| matches!(reason, Reason::NoValue | Reason::UnverifiedOnly))
        }),
    },
    Rule {
        says: "RFC, Timeout Behaviors: FAIL_OPEN_NARRATIVE returns narrative with a disclaimer",
        when: |case| slow_beyond_help(case) && case.on_timeout == OnTimeout::FailOpenNarrative,
        then: Kind(NarrativeOnly),
    },
    Rule {
        says: "RFC, as before: no narrative without its disclaimer, and nothing else with one",
        when: |_| true,
        then: That(|_, envelope| envelope.disclaimer.is_some() == (envelope.kind == NarrativeOnly)),
    },
    Rule {
        says: "RFC, Timeout Behaviors: FAIL_CLOSED_BLOCK returns blocked",
        when: |case| slow_beyond_help(case) && case.on_timeout == OnTimeout::FailClosedBlock,
        then: Kind(Blocked),
    },
    Rule {
        says: "RFC, as before: with the delay before a retry, and the oracles that caused it",
        when: |case| slow_beyond_help(case) && case.on_timeout == OnTimeout::FailClosedBlock,
        then: That(|case, envelope| {
            let after_ms = if case.reply == FirstReply::CircuitOpen { 30_000 } else { 5_000 };
            let retry = envelope.retry.as_ref();
            retry.is_some_and(|retry| retry.after_ms == Some(after_ms) && retry.oracles.len() == 1)
        }),
    },
    Rule {
        says: "Reading: SERVE_STALE returns blocked if no cached answer is within the tolerance",
        when: |case| slow_beyond_help(case) && case.on_timeout == OnTimeout::ServeStale,
        then: Kind(Blocked),
    },
    Rule {
        says: "RFC, Failure Modes, poisoning: an answer with an invalid signature does not count, and no cached answer replaces it",
        when: |case| {
            is_missing(case)
                && case.reply == FirstReply::WrongSignature
                && !a_person_has_to_decide(case)
                && !the_budget_is_spent(case)
        },
        then: Kind(Blocked),
    },
    Rule {
        says: "RFC, Stale Data Policy: cached data within tolerance is used with its observed_at and a warning",
        when: |case| it_is_free(case) && what_is_kept_serves(case),
        then: That(|_, envelope| {
            let mut evidence = envelope.axes.values().flat_map(|outcome| &outcome.evidence);
            let warns =
                envelope.warnings.iter().any(|warning| warning.contains("is used, 100 seconds old"));
            evidence.all(|evidence| {
                let is_first = evidence.record.oracle_id.as_str() == "first";
                evidence.stale == is_first && (!is_first || evidence.observed_at == super::ago(100))
            }) && warns
        }),
    },
    Rule {
        says: "RFC, Conflict Resolution Strategies: dispute_summary emits the conflict and does not decide",
        when: |case| settled_by(case, Strategy::DisputeSummary),
        then: Kind(DisputeSummary),
    },
    Rule {
        says: "RFC, as before: the dispute is shown with both values",
        when: |case| settled_by(case, Strategy::DisputeSummary),
        then: That(|_, envelope| {
            envelope.steps.len() == 1 && envelope.candidates.iter().all(|one| one.values.len() == 1)
        }),
    },
    Rule {
        says: "RFC, Conflicting oracles: automatic resolution where the strategy is deterministic",
        when: |case| {
            let automatic = case.strategy != Strategy::DisputeSummary;
            it_is_free(case) && they_conflict(case) && automatic
        },
        then: Kind(Authoritative),
    },
    Rule {
        says: "RFC, as before: with a log of each step",
        when: |case| it_is_free(case) && they_conflict(case) && case.strategy != Strategy::DisputeSummary,
        then: That(|case, envelope| {
            envelope.steps.len() == 1 && envelope.steps.iter().all(|step| step.strategy == case.strategy)
        }),
    },
    Rule {
        says: "RFC, Oracle Conflict Decision Procedure 1: the higher tier wins",
        when: |case| settled_by(case, Strategy::HigherTierWins),
        then: Value(of_higher_tier),
    },
    Rule {
        says: "RFC, Conflict Resolution Strategies: most_recent takes the value that was verified last",
        when: |case| settled_by(case, Strategy::MostRecent),
        then: Value(|case| case.said().1),
    },
    Rule {
        says: "RFC, Conflict Resolution Strategies: use_conservative takes the more restrictive value, here the lower",
        when: |case| settled_by(case, Strategy::UseConservative),
        then: Value(lesser),
    },
    Rule {
        says: "RFC, Conflict Resolution Strategies: weighted_average weighs by tier, 4, 2 and 1",
        when: |case| settled_by(case, Strategy::WeightedAverage),
        then: Value(mean),
    },
    Rule {
        says: "Reading: two numbers agree if they are equal within the axis's precision; if all agree, no conflict exists",
        when: |case| it_is_free(case) && both_count(case) && case.values == Values::Same,
        then: Kind(Authoritative),
    },
    Rule {
        says: "Reading: as before; the value of the more trusted oracle is returned",
        when: |case| it_is_free(case) && both_count(case) && case.values == Values::Same,
        then: Value(|case| if of_one_tier(case) { case.said().0 } else { of_higher_tier(case) }),
    },
    Rule {
        says: "RFC, Integrity constraints: unverified sources do not outrank registered ones; a single registered source decides",
        when: |case| it_is_free(case) && first_counts(case) != second_counts(case),
        then: Kind(Authoritative),
    },
    Rule {
        says: "RFC, as before: the unverified source has no effect",
        when: |case| it_is_free(case) && first_counts(case) != second_counts(case),
        then: Value(|case| if first_counts(case) { case.said().0 } else { case.said().1 }),
    },
    Rule {
        says: "RFC, Oracle Trust Hierarchy: an untrusted source is no authority, even if degrade_tier made it untrusted",
        when: |case| it_is_free(case) && !first_counts(case) && !second_counts(case),
        then: Kind(Blocked),
    },
    Rule {
        says: "RFC, StaleBehavior: degrade_tier treats the answer as one of a lower tier",
        when: |case| {
            let degrades = case.freshness == Freshness::Stale(StaleBehavior::DegradeTier);
            degrades && settled_by(case, Strategy::WeightedAverage)
        },
        then: That(|case, envelope| {
            let mut evidence = envelope.axes.values().flat_map(|outcome| &outcome.evidence);
            evidence.any(|one| {
                one.record.oracle_id.as_str() == "first" && one.record.oracle_tier == case.first_tier()
            })
        }),
    },
    Rule {
        says: "RFC, StaleBehavior: serve_stale_with_warning adds a warning, and serve_stale_silent does not",
        when: |case| {
            use StaleBehavior::{ServeStaleSilent, ServeStaleWithWarning};
            let told = [Freshness::Stale(ServeStaleSilent), Freshness::Stale(ServeStaleWithWarning)];
            told.contains(&case.freshness) && first_counts(case)
        },
        then: That(|case, envelope| {
            let warns = envelope.warnings.iter().any(|warning| warning.contains("is stale"));
            warns == (case.freshness == Freshness::Stale(StaleBehavior::ServeStaleWithWarning))
        }),
    },
    Rule {
        says: "Reading: a resolution by a person is a lock, an oracle of its own tier; RFC, self-reported axes: explicit human \
               confirmation comes first",
        when: |case| a_person_has_settled_it(case) && !the_budget_is_spent(case),
        then: Kind(Authoritative),
    },
    Rule {
        says: "Reading: a lock has the highest precedence",
        when: |case| case.is_locked && verifies(case) && !the_budget_is_spent(case),
        then: That(|case, envelope| {
            let mut bases = envelope.axes.values().map(|outcome| outcome.basis);
            case.value_in(envelope).as_deref() == Some("7")
                && bases.all(|basis| basis == Some(Basis::HumanLock))
        }),
    },
    Rule {
        says: "RFC, Self-Reported Axes 1: a confirmed claim has precedence over oracles",
        when: |case| a_person_has_settled_it(case) && !case.is_locked && !the_budget_is_spent(case),
        then: Value(|_| "99"),
    },
    Rule {
        says: "RFC, Measured Axes 3: a claim decides nothing, confirmed or not",
        when: |case| case.class == AxisClass::Measured && !case.is_locked,
        then: That(|case, envelope| case.value_in(envelope).as_deref() != Some("99")),
    },
];

/// The first oracle is slow or unreachable, nothing replaces its answer, and no reviewer, age or budget decides before
/// that.
fn slow_beyond_help(case: &Case) -> bool {
    is_missing(case)
        && first_is_slow_or_unreachable(case)
        && !a_person_has_to_decide(case)
        && !the_budget_is_spent(case)
}
