//! The six strategies, each applied to two sides (RFC-0002, "Conflict Resolution Strategies").

use super::precedence::rank;
use super::{ConflictStrategy, LeadingValue};
use crate::base::decimal::{Decimal, DecimalError, Rounding};
use crate::ground::axis::{Axis, AxisType, ConservativeSide};
use crate::ground::freshness::age_s;
use crate::ground::value::TypedValue;
use crate::verification::inputs::DecisionInputs;
use crate::verification::reason::AxisReason;
use std::cmp::Ordering;

/// The result of a conflict between two sides.
#[derive(Debug)]
pub(super) enum StrategyOutcome {
    /// The standing value stays.
    Kept,
    /// The other value replaces the standing one.
    Replaced,
    /// The mean of both replaces the standing value.
    Averaged(TypedValue),
    /// A reviewer decides.
    Escalated(AxisReason),
    /// The dispute is reported, and not decided.
    Disputed,
}

pub(super) fn apply(
    strategy: ConflictStrategy,
    inputs: &DecisionInputs,
    axis: &Axis,
    standing: &LeadingValue<'_, '_>,
    against: &LeadingValue<'_, '_>,
) -> StrategyOutcome {
    match strategy {
        ConflictStrategy::HigherTierWins => higher_tier_wins(axis, standing, against),
        ConflictStrategy::MostRecent => most_recent(inputs, standing, against),
        ConflictStrategy::RequireHuman => StrategyOutcome::Escalated(AxisReason::RequireHuman),
        ConflictStrategy::UseConservative => use_conservative(axis, standing, against),
        ConflictStrategy::WeightedAverage => weighted_average(axis, standing, against)
            .unwrap_or(StrategyOutcome::Escalated(AxisReason::StrategyImpossible)),
        ConflictStrategy::DisputeSummary => StrategyOutcome::Disputed,
    }
}

/// The side of the higher tier wins, unless the hierarchy for the axis's class prefers the other side: two orders that
/// contradict each other settle nothing.
fn higher_tier_wins(
    axis: &Axis,
    standing: &LeadingValue<'_, '_>,
    against: &LeadingValue<'_, '_>,
) -> StrategyOutcome {
    let by_class = rank(axis, standing).cmp(&rank(axis, against));
    match standing.tier().cmp(&against.tier()) {
        Ordering::Equal => StrategyOutcome::Escalated(AxisReason::StrategyImpossible),
        by_tier if by_class == by_tier.reverse() => StrategyOutcome::Escalated(AxisReason::PrecedenceUnclear),
        Ordering::Greater => StrategyOutcome::Kept,
        Ordering::Less => StrategyOutcome::Replaced,
    }
}

/// The side that was published later wins. A side that was published before the recency window, which ends at
/// the requested time, does not count. Two sides of the same time settle nothing.
fn most_recent(
    inputs: &DecisionInputs,
    standing: &LeadingValue<'_, '_>,
    against: &LeadingValue<'_, '_>,
) -> StrategyOutcome {
    let (one, other) = (standing.published_at(inputs), against.published_at(inputs));
    let window_s = inputs.workflow.conflict_resolution.recency_window_seconds;
    let counts = |at| window_s.is_none_or(|window_s| age_s(at, inputs.as_of()) <= window_s);
    let latest = one.max(other);
    match one.cmp(&other) {
        Ordering::Greater if counts(latest) => StrategyOutcome::Kept,
        Ordering::Less if counts(latest) => StrategyOutcome::Replaced,
        _ => StrategyOutcome::Escalated(AxisReason::RecencyUndecided),
    }
}

fn use_conservative(
    axis: &Axis,
    standing: &LeadingValue<'_, '_>,
    against: &LeadingValue<'_, '_>,
) -> StrategyOutcome {
    let (TypedValue::Number(one), TypedValue::Number(other), Some(side)) =
        (&standing.value, &against.value, axis.conservative)
    else {
        return StrategyOutcome::Escalated(AxisReason::StrategyImpossible);
    };
    let stands = match side {
        ConservativeSide::Lower => one <= other,
        ConservativeSide::Higher => one >= other,
    };
    if stands { StrategyOutcome::Kept } else { StrategyOutcome::Replaced }
}

/// The mean over the members of both sides, weighted by tier. It is rounded to the axis's precision, or else
/// to the largest number of digits after the point among the values.
fn weighted_average(
    axis: &Axis,
    standing: &LeadingValue<'_, '_>,
    against: &LeadingValue<'_, '_>,
) -> Option<StrategyOutcome> {
    let mut members = Vec::new();
    for member in standing.members.iter().chain(&against.members) {
        let TypedValue::Number(value) = &member.value else { return None };
        members.push((value, member.tier.weight()?));
    }
    let places = match axis.kind {
        AxisType::Integer => axis.precision.unwrap_or(0).min(0),
        _ => axis.precision.or_else(|| members.iter().map(|(value, _)| value.places().max(0)).max())?,
    };
    let mean = mean(&members, places).ok()?;
    Some(StrategyOutcome::Averaged(TypedValue::from_number(mean, axis).ok()?))
}

fn mean(members: &[(&Decimal, i64)], places: i32) -> Result<Decimal, DecimalError> {
    let (mut sum, mut weights) = (Decimal::from(0), 0);
    for (value, weight) in members {
        sum = sum.checked_add(&value.checked_mul(&Decimal::from(*weight))?)?;
        weights += weight;
    }
    sum.div_rounded(&Decimal::from(weights), places, Rounding::HalfEven)
}
