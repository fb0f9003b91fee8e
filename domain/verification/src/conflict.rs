//! Resolves the statements on one axis to one value. Each conflict between two of them is a step, which is
//! settled by the strategy for their tiers (RFC-0002, "Oracle Conflict Decision Procedure").
//!
//! There are six strategies (RFC-0002, "Conflict Resolution Strategies"). The precedence of oracles depends on the class
//! of the axis (RFC-0002, "Conflict Resolution Hierarchy"). People come first on self-reported axes and decide nothing on
//! measured ones; they are considered before any oracle.
//!
//! The first standing value is the one of the most trusted statement. Each further statement is compared with
//! the standing value, in order. If it agrees, it joins; otherwise the conflict is a step.
//!
//! Statements that agree within a tolerance can have different values. The value is then the one of the most trusted statement
//! or, after a conflict, the one that its strategy chooses among all of them.

use super::inputs::DecisionInputs;
use super::reason::AxisReason;
use super::statements::{AxisStatement, CollectedStatements};
use super::workflow::{AxisThresholds, ConflictResolutionConfig, ConflictStrategy};
use crate::statements::{delta, is_agreement};
use crate::verification_record::{OracleVerificationRecord, VerificationTier};
use domain_base::decimal::{Decimal, DecimalError, Rounding};
use domain_ground::axis::{Axis, AxisClass, AxisType, ConservativeSide};
use domain_ground::freshness::age_s;
use domain_ground::id::SourceId;
use domain_ground::value::{AxisValue, TypedValue};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// The result of the statements on an axis.
#[derive(Debug)]
pub(super) struct ConflictResolution<'s, 'a> {
    pub(super) steps: Vec<ConflictStep>,
    pub(super) outcome: ConflictOutcome<'s, 'a>,
}

#[derive(Debug)]
pub(super) enum ConflictOutcome<'s, 'a> {
    /// A value, with the statements that support it.
    Value(TypedValue, Vec<&'s AxisStatement<'a>>),
    /// A reviewer decides.
    Escalated(AxisReason),
    /// The dispute is reported, and not decided.
    Disputed,
    /// No statement exists.
    Nothing,
}

/// The standing value after the steps so far.
#[derive(Debug, Clone)]
struct LeadingValue<'s, 'a> {
    value: TypedValue,
    members: Vec<&'s AxisStatement<'a>>,
    /// The strategy that chooses the value among the members; `None` for the most trusted one.
    chosen_by: Option<ConflictStrategy>,
}

impl<'s, 'a> LeadingValue<'s, 'a> {
    fn of(statement: &'s AxisStatement<'a>) -> Self {
        Self { value: statement.value.clone(), members: vec![statement], chosen_by: None }
    }

    /// Whether a statement agrees. A tolerance is not transitive, so the statement must agree with every member, too.
    fn is_agreement(&self, axis: &Axis, statement: &AxisStatement<'_>) -> bool {
        is_agreement(axis, &self.value, &statement.value)
            && (self.is_mean()
                || self.members.iter().all(|member| is_agreement(axis, &member.value, &statement.value)))
    }

    /// Whether the value is the mean of members that do not agree.
    fn is_mean(&self) -> bool {
        self.chosen_by == Some(ConflictStrategy::WeightedAverage)
    }

    /// Notes that `strategy` has settled a conflict for this side. A mean stays the mean.
    fn win_by(&mut self, strategy: ConflictStrategy, inputs: &DecisionInputs, axis: &Axis) {
        if !self.is_mean()
            && matches!(strategy, ConflictStrategy::MostRecent | ConflictStrategy::UseConservative)
        {
            self.chosen_by = Some(strategy);
        }
        self.choose_value(inputs, axis);
    }

    /// Chooses the value among the members. Of several, the most trusted one counts.
    fn choose_value(&mut self, inputs: &DecisionInputs, axis: &Axis) {
        let is_better = |other: &AxisStatement<'_>, one: &AxisStatement<'_>| match self.chosen_by {
            Some(ConflictStrategy::MostRecent) => published_at(inputs, other) > published_at(inputs, one),
            Some(ConflictStrategy::UseConservative) => {
                is_more_careful(axis, &other.value, &one.value) == Some(true)
            }
            _ => false,
        };
        let chosen = match self.chosen_by {
            None => return,
            Some(ConflictStrategy::WeightedAverage) => weighted_mean(axis, &self.members),
            Some(_) => {
                let members = self.members.iter().copied();
                let best = members.reduce(|one, other| if is_better(other, one) { other } else { one });
                best.map(|member| member.value.clone())
            }
        };
        if let Some(value) = chosen {
            self.value = value;
        }
    }

    /// The highest tier of the members.
    fn tier(&self) -> VerificationTier {
        self.members.iter().map(|member| member.tier).max().unwrap_or(VerificationTier::Unverified)
    }

    /// The latest publication date of the members, at most the time of the question.
    fn published_at(&self, inputs: &DecisionInputs) -> Timestamp {
        self.members.iter().map(|member| published_at(inputs, member)).max().unwrap_or(Timestamp::MIN)
    }

    fn party(&self) -> ConflictSide {
        ConflictSide {
            oracles: self.members.iter().map(|member| member.answer.oracle_id.clone()).collect(),
            value: self.value.to_value(),
            tier: self.tier(),
        }
    }
}

/// Resolves the statements of `on_axis`.
pub(super) fn resolve<'s, 'a>(
    inputs: &DecisionInputs,
    on_axis: &'s CollectedStatements<'a>,
    path: &str,
    axis: &Axis,
) -> ConflictResolution<'s, 'a> {
    let config = &inputs.workflow.conflict_resolution;
    let mut steps: Vec<ConflictStep> = Vec::new();
    let mut statements = on_axis.statements.iter();
    let Some(first) = statements.next() else {
        return ConflictResolution { steps, outcome: ConflictOutcome::Nothing };
    };
    let mut standing = LeadingValue::of(first);
    for statement in statements {
        if standing.is_agreement(axis, statement) {
            standing.members.push(statement);
            standing.choose_value(inputs, axis);
            continue;
        }
        let against = LeadingValue::of(statement);
        let (relation, strategy) = if standing.tier() == against.tier() {
            (TierRelation::SameTier, config.same_tier_strategy)
        } else {
            (TierRelation::DifferentTier, config.default_strategy)
        };
        let number = u32::try_from(steps.len() + 1).unwrap_or(u32::MAX);
        let verdict = if number > config.scope.cascade_limit {
            StrategyOutcome::Escalated(AxisReason::CascadeLimit)
        } else {
            apply(strategy, inputs, axis, &standing, &against)
        };
        let mut step = ConflictStep {
            axis: path.to_owned(),
            number,
            delta: delta(&standing.value, &statement.value),
            standing: standing.party(),
            against: against.party(),
            relation,
            strategy,
            outcome: ConflictStepOutcome::Kept,
            value: None,
            reason: None,
        };
        match verdict {
            StrategyOutcome::Kept => standing.win_by(strategy, inputs, axis),
            StrategyOutcome::Replaced => {
                (step.outcome, standing) = (ConflictStepOutcome::Replaced, against);
                standing.win_by(strategy, inputs, axis);
            }
            StrategyOutcome::Averaged(value) => {
                step.outcome = ConflictStepOutcome::Averaged;
                standing.members.push(statement);
                (standing.value, standing.chosen_by) = (value, Some(strategy));
            }
            StrategyOutcome::Escalated(reason) => {
                (step.outcome, step.reason) = (ConflictStepOutcome::Escalated, Some(reason));
                steps.push(step);
                return ConflictResolution { steps, outcome: ConflictOutcome::Escalated(reason) };
            }
            StrategyOutcome::Disputed => {
                (step.outcome, step.reason) = (ConflictStepOutcome::Disputed, Some(AxisReason::Disputed));
                steps.push(step);
                return ConflictResolution { steps, outcome: ConflictOutcome::Disputed };
            }
        }
        step.value = Some(standing.value.to_value());
        steps.push(step);
    }
    ConflictResolution { steps, outcome: ConflictOutcome::Value(standing.value, standing.members) }
}

impl ConflictResolutionConfig {
    /// The thresholds that apply to `axis`; none unless its values are numbers.
    #[must_use]
    pub fn thresholds(&self, axis: &Axis) -> AxisThresholds {
        if !axis.kind.is_numeric() {
            return AxisThresholds::default();
        }
        let own = self.axis_thresholds.get(&axis.axis).cloned().unwrap_or_default();
        AxisThresholds {
            escalation_delta_threshold: own
                .escalation_delta_threshold
                .or_else(|| self.escalation_delta_threshold.clone()),
            escalation_ratio_threshold: own
                .escalation_ratio_threshold
                .or_else(|| self.escalation_ratio_threshold.clone()),
        }
    }
}

/// The result of a conflict between two sides.
#[derive(Debug)]
enum StrategyOutcome {
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

fn apply(
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
        ConflictStrategy::WeightedAverage => {
            let members = [standing.members.as_slice(), against.members.as_slice()].concat();
            weighted_mean(axis, &members)
                .map_or(StrategyOutcome::Escalated(AxisReason::StrategyImpossible), StrategyOutcome::Averaged)
        }
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
    match is_more_careful(axis, &against.value, &standing.value) {
        None => StrategyOutcome::Escalated(AxisReason::StrategyImpossible),
        Some(true) => StrategyOutcome::Replaced,
        Some(false) => StrategyOutcome::Kept,
    }
}

/// Whether `other` is more careful than `one`; `None` if they are no numbers, or the axis has no conservative side.
fn is_more_careful(axis: &Axis, other: &TypedValue, one: &TypedValue) -> Option<bool> {
    let (TypedValue::Number(other), TypedValue::Number(one)) = (other, one) else { return None };
    Some(match axis.conservative? {
        ConservativeSide::Lower => other < one,
        ConservativeSide::Higher => other > one,
    })
}

/// The publication date of a statement, at most the time of the question.
fn published_at(inputs: &DecisionInputs, statement: &AxisStatement<'_>) -> Timestamp {
    statement.answer.candidate.observed_at.min(inputs.asked_at)
}

/// The mean of the statements, weighted by tier. It is rounded to the axis's precision, or else to the largest number of digits
/// after the point among the values.
fn weighted_mean(axis: &Axis, statements: &[&AxisStatement<'_>]) -> Option<TypedValue> {
    let mut members = Vec::new();
    for statement in statements {
        let TypedValue::Number(value) = &statement.value else { return None };
        members.push((value, statement.tier.weight()?));
    }
    let places = match axis.kind {
        AxisType::Integer => axis.precision.unwrap_or(0).min(0),
        _ => axis.precision.or_else(|| members.iter().map(|(value, _)| value.places().max(0)).max())?,
    };
    let mean = mean(&members, places).ok()?;
    TypedValue::from_number(mean, axis).ok()
}

fn mean(members: &[(&Decimal, i64)], places: i32) -> Result<Decimal, DecimalError> {
    let (mut sum, mut weights) = (Decimal::from(0), 0);
    for (value, weight) in members {
        sum = sum.checked_add(&value.checked_mul(&Decimal::from(*weight))?)?;
        weights += weight;
    }
    sum.div_rounded(&Decimal::from(weights), places, Rounding::HalfEven)
}

/// The rank of an oracle, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PrecedenceRank {
    /// Neither lookup nor proof.
    Other,
    /// Cryptographic proof: signed evidence with a chain of custody.
    Proof,
    /// Deterministic lookup: a primary oracle; on a self-reported axis, a primary oracle that signs its answers.
    Lookup,
}

/// The highest rank among the members of one side.
fn rank(axis: &Axis, side: &LeadingValue<'_, '_>) -> PrecedenceRank {
    let ranks = side.members.iter().map(|member| {
        let record = &member.answer.candidate.record;
        let is_lookup = match axis.class {
            AxisClass::Measured => true,
            AxisClass::SelfReported => is_signed(record),
        };
        if is_lookup && member.tier == VerificationTier::Primary {
            PrecedenceRank::Lookup
        } else if is_signed(record) && record.chain_of_custody.as_ref().is_some_and(|hands| !hands.is_empty())
        {
            PrecedenceRank::Proof
        } else {
            PrecedenceRank::Other
        }
    });
    ranks.max().unwrap_or(PrecedenceRank::Other)
}

fn is_signed(record: &OracleVerificationRecord) -> bool {
    record.signature_info.as_ref().is_some_and(|signature| signature.signature_valid)
}

/// A conflict between two values, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConflictStep {
    /// The path of the axis.
    pub axis: String,
    /// The number of the step on the axis, from 1.
    pub number: u32,
    /// The standing side.
    pub standing: ConflictSide,
    /// The side that is compared with it.
    pub against: ConflictSide,
    /// The difference between both values, if they are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delta: Option<Decimal>,
    /// Whether both sides have the same tier.
    pub relation: TierRelation,
    /// The strategy for such a conflict.
    pub strategy: ConflictStrategy,
    /// The outcome.
    pub outcome: ConflictStepOutcome,
    /// The standing value after the step; absent if the conflict is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<AxisValue>,
    /// The reason why the conflict is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<AxisReason>,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConflictSide {
    /// The oracles that have the value, or contributed to it.
    pub oracles: Vec<SourceId>,
    /// The value.
    pub value: AxisValue,
    /// The highest tier of the oracles, as it counts here.
    pub tier: VerificationTier,
}

/// How the tiers of two sides compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierRelation {
    /// The tiers are the same.
    SameTier,
    /// The tiers differ.
    DifferentTier,
}

/// The outcome of a conflict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ConflictStepOutcome {
    /// The standing side stays.
    Kept,
    /// The other value replaces the standing one.
    Replaced,
    /// The mean of both replaces the standing value.
    Averaged,
    /// A reviewer decides.
    Escalated,
    /// The dispute is reported, and not decided.
    Disputed,
}
