//! Resolves the statements on one axis to one value. Each conflict between two of them is a step, which is settled by the
//! strategy for their tiers (RFC-0002, "Oracle Conflict Decision Procedure").
//!
//! The first standing value is the one of the most trusted statement. Each further statement is compared with the standing
//! value, in order. If it agrees, it joins; otherwise the conflict is a step.

mod precedence;
mod strategy;

use super::compare::{agree, delta};
use super::inputs::Inputs;
use super::reason::Reason;
use super::statements::{OnAxis, Statement};
use super::step::{Party, Relation, Step, StepOutcome};
use super::tier::Tier;
use super::workflow::{AxisThresholds, ConflictResolutionConfig, Strategy};
use crate::ground::axis::Axis;
use crate::ground::value::Typed;
use jiff::Timestamp;
use strategy::{Verdict, apply};

/// The result of the statements on an axis.
#[derive(Debug)]
pub(super) struct Resolution<'s, 'a> {
    pub(super) steps: Vec<Step>,
    pub(super) outcome: Outcome<'s, 'a>,
}

/// The outcome of a resolution.
#[derive(Debug)]
pub(super) enum Outcome<'s, 'a> {
    /// A value, with the statements that support it.
    Value(Typed, Vec<&'s Statement<'a>>),
    /// A reviewer decides.
    Escalated(Reason),
    /// The dispute is reported, and not decided.
    Disputed,
    /// No statement exists.
    Nothing,
}

/// The standing value after the steps so far.
#[derive(Debug, Clone)]
struct Standing<'s, 'a> {
    value: Typed,
    members: Vec<&'s Statement<'a>>,
    /// Whether the value is the mean of members that do not agree.
    is_mean: bool,
}

impl<'s, 'a> Standing<'s, 'a> {
    fn of(statement: &'s Statement<'a>) -> Self {
        Self { value: statement.value.clone(), members: vec![statement], is_mean: false }
    }

    /// Whether a statement agrees. A tolerance is not transitive, so the statement must agree with every member, too.
    fn agrees(&self, axis: &Axis, statement: &Statement<'_>) -> bool {
        agree(axis, &self.value, &statement.value)
            && (self.is_mean
                || self.members.iter().all(|member| agree(axis, &member.value, &statement.value)))
    }

    /// The highest tier of the members.
    fn tier(&self) -> Tier {
        self.members.iter().map(|member| member.tier).max().unwrap_or(Tier::Unverified)
    }

    /// The latest publication date of the members, at most the time of the question.
    fn published_at(&self, inputs: &Inputs) -> Timestamp {
        let times = self.members.iter().map(|member| member.voice.candidate.observed_at.min(inputs.asked_at));
        times.max().unwrap_or(Timestamp::MIN)
    }

    fn party(&self) -> Party {
        Party {
            oracles: self.members.iter().map(|member| member.voice.oracle_id.clone()).collect(),
            value: self.value.to_value(),
            tier: self.tier(),
        }
    }
}

/// Resolves the statements of `on_axis`.
pub(super) fn resolve<'s, 'a>(
    inputs: &Inputs,
    on_axis: &'s OnAxis<'a>,
    path: &str,
    axis: &Axis,
) -> Resolution<'s, 'a> {
    let config = &inputs.workflow.conflict_resolution;
    let mut steps: Vec<Step> = Vec::new();
    let mut statements = on_axis.statements.iter();
    let Some(first) = statements.next() else { return Resolution { steps, outcome: Outcome::Nothing } };
    let mut standing = Standing::of(first);
    for statement in statements {
        if standing.agrees(axis, statement) {
            standing.members.push(statement);
            continue;
        }
        let against = Standing::of(statement);
        let relation =
            if standing.tier() == against.tier() { Relation::SameTier } else { Relation::DifferentTier };
        let strategy = match relation {
            Relation::SameTier => config.same_tier_strategy,
            Relation::DifferentTier => config.default_strategy,
        };
        let number = u32::try_from(steps.len() + 1).unwrap_or(u32::MAX);
        let verdict = if number > config.scope.cascade_limit {
            Verdict::Escalated(Reason::CascadeLimit)
        } else {
            apply(strategy, inputs, axis, &standing, &against)
        };
        let mut step = Step {
            axis: path.to_owned(),
            number,
            delta: delta(&standing.value, &statement.value),
            standing: standing.party(),
            against: against.party(),
            relation,
            strategy,
            outcome: StepOutcome::Kept,
            value: None,
            reason: None,
        };
        match verdict {
            Verdict::Kept => {}
            Verdict::Replaced => (step.outcome, standing) = (StepOutcome::Replaced, against),
            Verdict::Averaged(value) => {
                step.outcome = StepOutcome::Averaged;
                standing.members.push(statement);
                (standing.value, standing.is_mean) = (value, true);
            }
            Verdict::Escalated(reason) => {
                (step.outcome, step.reason) = (StepOutcome::Escalated, Some(reason));
                steps.push(step);
                return Resolution { steps, outcome: Outcome::Escalated(reason) };
            }
            Verdict::Disputed => {
                (step.outcome, step.reason) = (StepOutcome::Disputed, Some(Reason::Disputed));
                steps.push(step);
                return Resolution { steps, outcome: Outcome::Disputed };
            }
        }
        step.value = Some(standing.value.to_value());
        steps.push(step);
    }
    Resolution { steps, outcome: Outcome::Value(standing.value, standing.members) }
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
