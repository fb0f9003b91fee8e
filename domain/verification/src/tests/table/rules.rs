//! The rules, each with its origin: "RFC" is RFC-0002, Part II, by its headings; "Reading" is how this
//! project interprets it.

use super::case::{CaseCachedAnswer, CaseClaim, CaseFreshness, CaseMode, CaseValues, FirstReply, TableCase};
use crate::EnvelopeKind::{Authoritative, Blocked, DisputeSummary, HumanReview, NarrativeOnly, Provisional};
use crate::envelope::ValueBasis;
use crate::workflow::{BudgetExceededBehavior, ConflictStrategy, OracleTimeoutBehavior};
use crate::{AxisReason, Envelope, EnvelopeKind, VerificationTier};
use domain_ground::axis::AxisClass;
use domain_ground::freshness::StaleBehavior;

pub(super) struct TableRule {
    pub(super) description: &'static str,
    pub(super) when: fn(&TableCase) -> bool,
    pub(super) then: ExpectedOutcome,
}

pub(super) enum ExpectedOutcome {
    Kind(EnvelopeKind),
    Value(fn(&TableCase) -> &'static str),
    That(fn(&TableCase, &Envelope) -> bool),
}

use ExpectedOutcome::{Kind, That, Value};

/// The oracles are queried.
fn is_querying_oracles(case: &TableCase) -> bool {
    matches!(case.mode, CaseMode::Inline | CaseMode::AsyncLater)
}

/// A person has settled the axis, by a lock or by a confirmed claim.
fn is_settled_by_human(case: &TableCase) -> bool {
    let confirmed = case.claim == CaseClaim::OtherConfirmed && case.class == AxisClass::SelfReported;
    is_querying_oracles(case) && (case.is_locked || confirmed && !case.always_human)
}

fn is_decided_by_oracles(case: &TableCase) -> bool {
    is_querying_oracles(case) && !is_settled_by_human(case)
}

/// The first oracle answered within its time.
fn has_first_answer(case: &TableCase) -> bool {
    case.reply == FirstReply::Answered
}

/// The first oracle is slow or unreachable.
fn is_first_slow_or_unreachable(case: &TableCase) -> bool {
    !has_first_answer(case) && case.reply != FirstReply::WrongSignature
}

/// The workflow serves the "cached data within tolerance".
fn is_cached_answer_served(case: &TableCase) -> bool {
    is_first_slow_or_unreachable(case)
        && case.on_timeout == OracleTimeoutBehavior::ServeStale
        && case.cached == CaseCachedAnswer::Tolerated
}

fn is_first_shown(case: &TableCase) -> bool {
    is_decided_by_oracles(case) && (has_first_answer(case) || is_cached_answer_served(case))
}

fn is_missing(case: &TableCase) -> bool {
    is_decided_by_oracles(case) && !is_first_shown(case)
}

/// The value of the first oracle is too old to be returned.
fn is_blocked_by_age(case: &TableCase) -> bool {
    use StaleBehavior::{BlockUntilFresh, FailClosed};
    let closing =
        [CaseFreshness::Expired, CaseFreshness::Stale(BlockUntilFresh), CaseFreshness::Stale(FailClosed)];
    is_first_shown(case) && closing.contains(&case.freshness)
}

fn is_first_counted(case: &TableCase) -> bool {
    is_first_shown(case) && !is_blocked_by_age(case) && case.first_tier() != VerificationTier::Unverified
}

fn is_second_counted(case: &TableCase) -> bool {
    is_decided_by_oracles(case) && second_tier(case) != VerificationTier::Unverified
}

fn second_tier(case: &TableCase) -> VerificationTier {
    case.tiers.1.into()
}

fn is_each_counted(case: &TableCase) -> bool {
    is_first_counted(case) && is_second_counted(case)
}

fn is_conflict(case: &TableCase) -> bool {
    is_each_counted(case) && case.values != CaseValues::Same
}

fn is_same_tier(case: &TableCase) -> bool {
    case.first_tier() == second_tier(case)
}

fn is_threshold_exceeded(case: &TableCase) -> bool {
    is_conflict(case) && case.threshold == super::case::CaseThreshold::Exceeded
}

/// A claim on a measured axis differs from the value of an oracle.
fn is_claim_different(case: &TableCase) -> bool {
    let differs = match case.claim {
        CaseClaim::None => false,
        CaseClaim::Other | CaseClaim::OtherConfirmed => is_first_counted(case) || is_second_counted(case),
        CaseClaim::AsFirst => is_second_counted(case) && case.values != CaseValues::Same,
    };
    is_decided_by_oracles(case) && case.class == AxisClass::Measured && differs
}

fn is_reviewer_always_required(case: &TableCase) -> bool {
    let anything = is_first_counted(case) || is_second_counted(case) || case.claim != CaseClaim::None;
    is_decided_by_oracles(case) && case.always_human && anything
}

/// Only a reviewer decides by the strategy for the two tiers.
fn is_reviewer_required_by_strategy(case: &TableCase) -> bool {
    let cannot = case.strategy == ConflictStrategy::HigherTierWins && is_same_tier(case);
    is_conflict(case) && (case.strategy == ConflictStrategy::RequireHuman || cannot)
}

fn is_reviewer_required(case: &TableCase) -> bool {
    is_threshold_exceeded(case)
        || is_claim_different(case)
        || is_reviewer_always_required(case)
        || is_reviewer_required_by_strategy(case)
}

fn is_budget_spent(case: &TableCase) -> bool {
    let was_cut = is_missing(case) && case.reply == FirstReply::BudgetCut;
    case.mode == CaseMode::Inline && (case.takes_too_long || was_cut)
}

/// A decision is possible now: no reviewer is required, no value is too old, no time limit is exceeded,
/// and no oracle is missing.
fn is_unconstrained(case: &TableCase) -> bool {
    is_decided_by_oracles(case)
        && !is_reviewer_required(case)
        && !is_blocked_by_age(case)
        && !is_budget_spent(case)
        && !is_missing(case)
}

fn settled_by(case: &TableCase, strategy: ConflictStrategy) -> bool {
    is_unconstrained(case) && is_conflict(case) && case.strategy == strategy
}

fn lesser(case: &TableCase) -> &'static str {
    if case.values == CaseValues::FirstMore { case.stated_values().1 } else { case.stated_values().0 }
}

fn of_higher_tier(case: &TableCase) -> &'static str {
    if case.first_tier() > second_tier(case) { case.stated_values().0 } else { case.stated_values().1 }
}

/// The mean of 10 and 12, by weights of 4, 2 and 1, to one digit after the point.
fn mean(case: &TableCase) -> &'static str {
    let weight = |tier| match tier {
        VerificationTier::Primary => 4,
        VerificationTier::Secondary => 2,
        _ => 1,
    };
    let (first, second) = (weight(case.first_tier()), weight(second_tier(case)));
    let (of_12, of_10) = if case.values == CaseValues::FirstMore { (first, second) } else { (second, first) };
    match (of_12, of_10) {
        (4, 1) => "11.6",
        (1, 4) => "10.4",
        _ if of_12 > of_10 => "11.3",
        _ if of_12 < of_10 => "10.7",
        _ => "11",
    }
}

pub(super) const RULES: &[TableRule] = &[
    TableRule {
        description: "RFC, Binding Rules 3: NON_AUTHORITATIVE_ONLY emits neither measurement nor classification nor action; Enforcement \
               Modes: its outputs are narrative",
        when: |case| case.mode == CaseMode::NonAuthoritative,
        then: Kind(NarrativeOnly),
    },
    TableRule {
        description: "RFC, Enforcement Modes: ASYNC queues the decision and returns a provisional status",
        when: |case| case.mode == CaseMode::AsyncAtFirst,
        then: Kind(Provisional),
    },
    TableRule {
        description: "Reading: only an authoritative envelope has measurements, and each of them has its verification record (RFC, \
               Acceptance Criteria 7)",
        when: |_| true,
        then: That(|case, envelope| {
            let values = envelope.axes.values().filter(|outcome| outcome.value.is_some()).count();
            let vouched = envelope.axes.values().all(|outcome| !outcome.evidence.is_empty());
            case.value_in(envelope).is_some() == (envelope.kind == Authoritative) && (values == 0 || vouched)
        }),
    },
    TableRule {
        description: "Reading: an envelope without values shows the oracles' values only in a dispute and for a review",
        when: |_| true,
        then: That(|_, envelope| {
            let shows = [Authoritative, DisputeSummary, HumanReview].contains(&envelope.kind);
            shows || envelope.steps.is_empty() && envelope.candidates.iter().all(|one| one.values.is_empty())
        }),
    },
    TableRule {
        description: "RFC, Oracle Conflict Decision Procedure 1, exception: a difference above escalation_delta_threshold escalates \
               regardless",
        when: is_threshold_exceeded,
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, Oracle Conflict Decision Procedure 3: always_human_axes require a reviewer regardless of tier",
        when: is_reviewer_always_required,
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, Conflict Resolution Hierarchy, warning: a claim that differs from an oracle on a measured axis goes to a \
               reviewer, flagged",
        when: is_claim_different,
        then: That(|_, envelope| {
            envelope.kind == HumanReview && envelope.reasons.contains(&AxisReason::OracleVsUser)
        }),
    },
    TableRule {
        description: "RFC, as before: the kind is a review, even if other oracles are missing",
        when: is_claim_different,
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, Conflict Resolution Strategies: require_human always escalates",
        when: |case| is_conflict(case) && case.strategy == ConflictStrategy::RequireHuman,
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, Oracle Conflict Decision Procedure 2: within a tier none is higher, and the default is a reviewer",
        when: |case| {
            is_conflict(case) && is_same_tier(case) && case.strategy == ConflictStrategy::HigherTierWins
        },
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, StaleBehavior: fail_closed is an error; block_until_fresh waits and then fails closed (Reading, section 6)",
        when: |case| is_blocked_by_age(case) && !is_reviewer_required(case),
        then: Kind(Blocked),
    },
    TableRule {
        description: "RFC, Integrity constraints: on state-sensitive axes expiry forces re-verification",
        when: |case| is_blocked_by_age(case) && case.freshness == CaseFreshness::Expired,
        then: That(|_, envelope| {
            let mut again = envelope.reverify.iter();
            envelope.kind != Authoritative && again.any(|again| again.oracle_id.as_str() == "first")
        }),
    },
    TableRule {
        description: "RFC, Authority Latency Policy: a decision that takes longer than its budget escalates where that is declared",
        when: |case| {
            is_budget_spent(case)
                && !is_blocked_by_age(case)
                && case.on_budget == BudgetExceededBehavior::Escalate
        },
        then: Kind(HumanReview),
    },
    TableRule {
        description: "RFC, Authority Latency Policy: or it is narrative",
        when: |case| {
            is_budget_spent(case)
                && !is_blocked_by_age(case)
                && !is_reviewer_required(case)
                && case.on_budget == BudgetExceededBehavior::DegradeToNarrative
        },
        then: Kind(NarrativeOnly),
    },
    TableRule {
        description: "RFC, Authority Latency Policy: or it is blocked",
        when: |case| {
            is_budget_spent(case)
                && !is_blocked_by_age(case)
                && !is_reviewer_required(case)
                && case.on_budget == BudgetExceededBehavior::FailClosed
        },
        then: Kind(Blocked),
    },
    TableRule {
        description: "Reading: a missing value is not reported while a missing oracle might have it",
        when: is_missing,
        then: That(|_, envelope| {
            !envelope
                .reasons
                .iter()
                .any(|reason| matches!(reason, AxisReason::NoValue | AxisReason::UnverifiedOnly))
        }),
    },
    TableRule {
        description: "RFC, Timeout Behaviors: FAIL_OPEN_NARRATIVE returns narrative with a disclaimer",
        when: |case| {
            is_slow_without_fallback(case) && case.on_timeout == OracleTimeoutBehavior::FailOpenNarrative
        },
        then: Kind(NarrativeOnly),
    },
    TableRule {
        description: "RFC, as before: no narrative without its disclaimer, and nothing else with one",
        when: |_| true,
        then: That(|_, envelope| envelope.disclaimer.is_some() == (envelope.kind == NarrativeOnly)),
    },
    TableRule {
        description: "RFC, Timeout Behaviors: FAIL_CLOSED_BLOCK returns blocked",
        when: |case| {
            is_slow_without_fallback(case) && case.on_timeout == OracleTimeoutBehavior::FailClosedBlock
        },
        then: Kind(Blocked),
    },
    TableRule {
        description: "RFC, as before: with the delay before a retry, and the oracles that caused it",
        when: |case| {
            is_slow_without_fallback(case) && case.on_timeout == OracleTimeoutBehavior::FailClosedBlock
        },
        then: That(|case, envelope| {
            let after_ms = if case.reply == FirstReply::CircuitOpen { 30_000 } else { 5_000 };
            let retry = envelope.retry.as_ref();
            retry.is_some_and(|retry| retry.after_ms == Some(after_ms) && retry.oracles.len() == 1)
        }),
    },
    TableRule {
        description: "Reading: SERVE_STALE returns blocked if no cached answer is within the tolerance",
        when: |case| is_slow_without_fallback(case) && case.on_timeout == OracleTimeoutBehavior::ServeStale,
        then: Kind(Blocked),
    },
    TableRule {
        description: "RFC, Failure Modes, poisoning: an answer with an invalid signature does not count, and no cached answer replaces it",
        when: |case| {
            is_missing(case)
                && case.reply == FirstReply::WrongSignature
                && !is_reviewer_required(case)
                && !is_budget_spent(case)
        },
        then: Kind(Blocked),
    },
    TableRule {
        description: "RFC, Stale Data Policy: cached data within tolerance is used with its observed_at and a warning",
        when: |case| is_unconstrained(case) && is_cached_answer_served(case),
        then: That(|_, envelope| {
            let mut evidence = envelope.axes.values().flat_map(|outcome| &outcome.evidence);
            let warns = envelope.warnings.iter().any(|warning| warning.contains("is used, 100 seconds old"));
            evidence.all(|evidence| {
                let is_first = evidence.record.oracle_id.as_str() == "first";
                evidence.stale == is_first && (!is_first || evidence.observed_at == super::ago(100))
            }) && warns
        }),
    },
    TableRule {
        description: "RFC, Conflict Resolution Strategies: dispute_summary emits the conflict and does not decide",
        when: |case| settled_by(case, ConflictStrategy::DisputeSummary),
        then: Kind(DisputeSummary),
    },
    TableRule {
        description: "RFC, as before: the dispute is shown with both values",
        when: |case| settled_by(case, ConflictStrategy::DisputeSummary),
        then: That(|_, envelope| {
            envelope.steps.len() == 1 && envelope.candidates.iter().all(|one| one.values.len() == 1)
        }),
    },
    TableRule {
        description: "RFC, Conflicting oracles: automatic resolution where the strategy is deterministic",
        when: |case| {
            let automatic = case.strategy != ConflictStrategy::DisputeSummary;
            is_unconstrained(case) && is_conflict(case) && automatic
        },
        then: Kind(Authoritative),
    },
    TableRule {
        description: "RFC, as before: with a log of each step",
        when: |case| {
            is_unconstrained(case) && is_conflict(case) && case.strategy != ConflictStrategy::DisputeSummary
        },
        then: That(|case, envelope| {
            envelope.steps.len() == 1 && envelope.steps.iter().all(|step| step.strategy == case.strategy)
        }),
    },
    TableRule {
        description: "RFC, Oracle Conflict Decision Procedure 1: the higher tier wins",
        when: |case| settled_by(case, ConflictStrategy::HigherTierWins),
        then: Value(of_higher_tier),
    },
    TableRule {
        description: "RFC, Conflict Resolution Strategies: most_recent takes the value that was verified last",
        when: |case| settled_by(case, ConflictStrategy::MostRecent),
        then: Value(|case| case.stated_values().1),
    },
    TableRule {
        description: "RFC, Conflict Resolution Strategies: use_conservative takes the more restrictive value, here the lower",
        when: |case| settled_by(case, ConflictStrategy::UseConservative),
        then: Value(lesser),
    },
    TableRule {
        description: "RFC, Conflict Resolution Strategies: weighted_average weighs by tier, 4, 2 and 1",
        when: |case| settled_by(case, ConflictStrategy::WeightedAverage),
        then: Value(mean),
    },
    TableRule {
        description: "Reading: two numbers agree if they are equal within the axis's precision; if all agree, no conflict exists",
        when: |case| is_unconstrained(case) && is_each_counted(case) && case.values == CaseValues::Same,
        then: Kind(Authoritative),
    },
    TableRule {
        description: "Reading: as before; the value of the more trusted oracle is returned",
        when: |case| is_unconstrained(case) && is_each_counted(case) && case.values == CaseValues::Same,
        then: Value(|case| if is_same_tier(case) { case.stated_values().0 } else { of_higher_tier(case) }),
    },
    TableRule {
        description: "RFC, Integrity constraints: unverified sources do not outrank registered ones; a single registered source decides",
        when: |case| is_unconstrained(case) && is_first_counted(case) != is_second_counted(case),
        then: Kind(Authoritative),
    },
    TableRule {
        description: "RFC, as before: the unverified source has no effect",
        when: |case| is_unconstrained(case) && is_first_counted(case) != is_second_counted(case),
        then: Value(
            |case| if is_first_counted(case) { case.stated_values().0 } else { case.stated_values().1 },
        ),
    },
    TableRule {
        description: "RFC, Oracle Trust Hierarchy: an untrusted source is no authority, even if degrade_tier made it untrusted",
        when: |case| is_unconstrained(case) && !is_first_counted(case) && !is_second_counted(case),
        then: Kind(Blocked),
    },
    TableRule {
        description: "RFC, StaleBehavior: degrade_tier treats the answer as one of a lower tier",
        when: |case| {
            let degrades = case.freshness == CaseFreshness::Stale(StaleBehavior::DegradeTier);
            degrades && settled_by(case, ConflictStrategy::WeightedAverage)
        },
        then: That(|case, envelope| {
            let mut evidence = envelope.axes.values().flat_map(|outcome| &outcome.evidence);
            evidence.any(|one| {
                one.record.oracle_id.as_str() == "first" && one.record.oracle_tier == case.first_tier()
            })
        }),
    },
    TableRule {
        description: "RFC, StaleBehavior: serve_stale_with_warning adds a warning, and serve_stale_silent does not",
        when: |case| {
            use StaleBehavior::{ServeStaleSilent, ServeStaleWithWarning};
            let stale_cases =
                [CaseFreshness::Stale(ServeStaleSilent), CaseFreshness::Stale(ServeStaleWithWarning)];
            stale_cases.contains(&case.freshness) && is_first_counted(case)
        },
        then: That(|case, envelope| {
            let warns = envelope.warnings.iter().any(|warning| warning.contains("is stale"));
            warns == (case.freshness == CaseFreshness::Stale(StaleBehavior::ServeStaleWithWarning))
        }),
    },
    TableRule {
        description: "Reading: a resolution by a person is a lock, an oracle of its own tier; RFC, self-reported axes: explicit human \
               confirmation comes first",
        when: |case| is_settled_by_human(case) && !is_budget_spent(case),
        then: Kind(Authoritative),
    },
    TableRule {
        description: "Reading: a lock has the highest precedence",
        when: |case| case.is_locked && is_querying_oracles(case) && !is_budget_spent(case),
        then: That(|case, envelope| {
            let mut bases = envelope.axes.values().map(|outcome| outcome.basis);
            case.value_in(envelope).as_deref() == Some("7")
                && bases.all(|basis| basis == Some(ValueBasis::HumanLock))
        }),
    },
    TableRule {
        description: "RFC, Self-Reported Axes 1: a confirmed claim has precedence over oracles",
        when: |case| is_settled_by_human(case) && !case.is_locked && !is_budget_spent(case),
        then: Value(|_| "99"),
    },
    TableRule {
        description: "RFC, Measured Axes 3: a claim decides nothing, confirmed or not",
        when: |case| case.class == AxisClass::Measured && !case.is_locked,
        then: That(|case, envelope| case.value_in(envelope).as_deref() != Some("99")),
    },
];

/// The first oracle is slow or unreachable, nothing replaces its answer, and no reviewer, age or budget decides before
/// that.
fn is_slow_without_fallback(case: &TableCase) -> bool {
    is_missing(case)
        && is_first_slow_or_unreachable(case)
        && !is_reviewer_required(case)
        && !is_budget_spent(case)
}
