//! Resolves the statements on one axis to one value. Each conflict between two of them is a step, which is
//! settled by the strategy for their tiers (RFC-0002, "Oracle Conflict Decision Procedure").
//!
//! The first standing value is the one of the most trusted statement. Each further statement is compared with
//! the standing value, in order. If it agrees, it joins; otherwise the conflict is a step.

mod precedence;
mod strategy;

use super::compare::{delta, is_agreement};
use super::inputs::DecisionInputs;
use super::reason::AxisReason;
use super::statements::{AxisStatement, CollectedStatements};
use super::step::{ConflictSide, ConflictStep, ConflictStepOutcome, TierRelation};
use super::tier::VerificationTier;
use super::workflow::{AxisThresholds, ConflictResolutionConfig, ConflictStrategy};
use crate::ground::axis::Axis;
use crate::ground::value::TypedValue;
use jiff::Timestamp;
use strategy::{StrategyOutcome, apply};

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
    /// Whether the value is the mean of members that do not agree.
    is_mean: bool,
}

impl<'s, 'a> LeadingValue<'s, 'a> {
    fn of(statement: &'s AxisStatement<'a>) -> Self {
        Self { value: statement.value.clone(), members: vec![statement], is_mean: false }
    }

    /// Whether a statement agrees. A tolerance is not transitive, so the statement must agree with every member, too.
    fn is_agreement(&self, axis: &Axis, statement: &AxisStatement<'_>) -> bool {
        is_agreement(axis, &self.value, &statement.value)
            && (self.is_mean
                || self.members.iter().all(|member| is_agreement(axis, &member.value, &statement.value)))
    }

    /// The highest tier of the members.
    fn tier(&self) -> VerificationTier {
        self.members.iter().map(|member| member.tier).max().unwrap_or(VerificationTier::Unverified)
    }

    /// The latest publication date of the members, at most the time of the question.
    fn published_at(&self, inputs: &DecisionInputs) -> Timestamp {
        let times =
            self.members.iter().map(|member| member.answer.candidate.observed_at.min(inputs.asked_at));
        times.max().unwrap_or(Timestamp::MIN)
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
            continue;
        }
        let against = LeadingValue::of(statement);
        let relation = if standing.tier() == against.tier() {
            TierRelation::SameTier
        } else {
            TierRelation::DifferentTier
        };
        let strategy = match relation {
            TierRelation::SameTier => config.same_tier_strategy,
            TierRelation::DifferentTier => config.default_strategy,
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
            StrategyOutcome::Kept => {}
            StrategyOutcome::Replaced => (step.outcome, standing) = (ConflictStepOutcome::Replaced, against),
            StrategyOutcome::Averaged(value) => {
                step.outcome = ConflictStepOutcome::Averaged;
                standing.members.push(statement);
                (standing.value, standing.is_mean) = (value, true);
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
