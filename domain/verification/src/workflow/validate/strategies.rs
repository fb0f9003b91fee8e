//! Validation of the strategies and limits of a workflow.

use super::{
    CASCADE_LIMIT_MAX, WorkflowError, WorkflowValidator, build_field_error, check_distinct, check_within,
    joined,
};
use crate::workflow::{AxisThresholds, ConflictStrategy};
use domain_base::decimal::{Decimal, DecimalError};
use domain_ground::axis::{Axis, AxisType};
use domain_ground::freshness::MAX_AGE_S;
use strum::VariantArray;

/// Why a numeric limit is not allowed on an axis.
const NOT_NUMERIC: &str = "not a numeric axis of the workflow";

impl WorkflowValidator<'_> {
    pub(super) fn check_strategies(&self) -> Result<(), WorkflowError> {
        let config = &self.workflow.conflict_resolution;
        let limit = config.scope.cascade_limit.into();
        check_within("conflict_resolution.scope.cascade_limit", limit, 1..=CASCADE_LIMIT_MAX.into(), "")?;
        check_distinct("conflict_resolution.always_human_axes", &config.always_human_axes)?;
        if let Some(axis) = config.always_human_axes.iter().find(|axis| !self.workflow.axes.contains(axis)) {
            return Err(WorkflowError::UnknownAxis {
                field: "conflict_resolution.always_human_axes",
                axis: axis.clone(),
                fault: "not among the `axes` of the workflow",
                known: joined(self.workflow.axes.iter().map(String::as_str)),
            });
        }
        if config.same_tier_strategy == ConflictStrategy::HigherTierWins {
            let others =
                ConflictStrategy::VARIANTS.iter().filter(|other| **other != ConflictStrategy::HigherTierWins);
            let fault = format!(
                "`higher_tier_wins` cannot settle a conflict within a tier; allowed: {}",
                joined(others.map(ConflictStrategy::into_str))
            );
            return Err(build_field_error("conflict_resolution.same_tier_strategy", fault));
        }
        self.check_window()?;
        self.check_thresholds()?;
        self.check_numbers("default_strategy", config.default_strategy)?;
        self.check_numbers("same_tier_strategy", config.same_tier_strategy)
    }

    pub(super) fn check_deviations(&self) -> Result<(), WorkflowError> {
        const FIELD: &str = "deviation_limits";
        for (name, limit) in &self.workflow.deviation_limits {
            let numeric = |axis: &&&Axis| matches!(axis.kind, AxisType::Number | AxisType::Integer);
            let numbers = || self.axes.iter().filter(numeric).map(|axis| axis.axis.as_str());
            if !numbers().any(|axis| axis == name) {
                let (axis, known) = (name.clone(), joined(numbers()));
                return Err(WorkflowError::UnknownAxis { field: FIELD, axis, fault: NOT_NUMERIC, known });
            }
            let limits = [&limit.max_change, &limit.max_change_ratio];
            if limits.iter().all(|limit| limit.is_none()) {
                let fault = format!("`{name}` has no limit; allowed: `max_change`, `max_change_ratio`");
                return Err(build_field_error(FIELD, fault));
            }
            if let Some(limit) = limits.into_iter().flatten().find(|limit| **limit < Decimal::from(0)) {
                return Err(build_field_error(FIELD, format!("`{name}`: it is {limit}; allowed: 0 or more")));
            }
        }
        Ok(())
    }

    fn check_window(&self) -> Result<(), WorkflowError> {
        const FIELD: &str = "conflict_resolution.recency_window_seconds";
        let config = &self.workflow.conflict_resolution;
        let Some(window) = config.recency_window_seconds else { return Ok(()) };
        if ![config.default_strategy, config.same_tier_strategy].contains(&ConflictStrategy::MostRecent) {
            return Err(build_field_error(
                FIELD,
                "it is only allowed with the strategy `most_recent`".into(),
            ));
        }
        check_within(FIELD, window, 1..=MAX_AGE_S, " s")
    }

    fn check_thresholds(&self) -> Result<(), WorkflowError> {
        const FIELD: &str = "conflict_resolution.axis_thresholds";
        let config = &self.workflow.conflict_resolution;
        let zero = Decimal::from(0);
        for (name, own) in &config.axis_thresholds {
            let numbers = || self.axes.iter().filter(|axis| axis.kind.is_numeric()).map(|axis| &axis.axis);
            if !numbers().any(|axis| axis == name) {
                let (axis, known) = (name.clone(), joined(numbers().map(String::as_str)));
                return Err(WorkflowError::UnknownAxis { field: FIELD, axis, fault: NOT_NUMERIC, known });
            }
            if *own == AxisThresholds::default() {
                let fault = format!(
                    "`{name}` has no threshold; allowed: `escalation_delta_threshold`, `escalation_ratio_threshold`"
                );
                return Err(build_field_error(FIELD, fault));
            }
            let given = [&own.escalation_delta_threshold, &own.escalation_ratio_threshold];
            if let Some(threshold) = given.into_iter().flatten().find(|threshold| **threshold < zero) {
                return Err(build_field_error(
                    FIELD,
                    format!("`{name}`: it is {threshold}; allowed: 0 or more"),
                ));
            }
        }
        for (name, threshold, least) in [
            ("conflict_resolution.escalation_delta_threshold", &config.escalation_delta_threshold, 0),
            ("conflict_resolution.escalation_ratio_threshold", &config.escalation_ratio_threshold, 0),
            ("conflict_resolution.suspicious_ratio", &config.suspicious_ratio, 1),
        ] {
            if let Some(threshold) = threshold.as_ref().filter(|given| **given < Decimal::from(least)) {
                return Err(build_field_error(name, format!("it is {threshold}; allowed: {least} or more")));
            }
        }
        self.contested().try_for_each(|axis| self.check_thresholds_on(axis))
    }

    /// A threshold below an axis's tolerance would send values that agree to a reviewer.
    fn check_thresholds_on(&self, axis: &Axis) -> Result<(), WorkflowError> {
        let thresholds = self.workflow.conflict_resolution.thresholds(axis);
        let bad = |field, what: &Decimal, fault| WorkflowError::Strategy {
            field,
            what: what.to_string(),
            axis: axis.axis.clone(),
            fault,
        };
        if let Some(threshold) = &thresholds.escalation_delta_threshold {
            const FIELD: &str = "escalation_delta_threshold";
            let unit = axis.precision.map(last_digit).transpose();
            let unit = unit.map_err(|error| bad(FIELD, threshold, error.to_string()))?;
            if let Some(unit) = unit.filter(|unit| threshold < unit) {
                let fault = format!(
                    "values that are equal within its precision may differ by {unit}; allowed: {unit} or more"
                );
                return Err(bad(FIELD, threshold, fault));
            }
        }
        if let Some((threshold, part)) =
            thresholds.escalation_ratio_threshold.as_ref().zip(axis.relative_tolerance.as_ref())
            && threshold < part
        {
            let fault = format!(
                "values that are equal within its relative tolerance may differ by {part}; allowed: {part} or more"
            );
            return Err(bad("escalation_ratio_threshold", threshold, fault));
        }
        Ok(())
    }

    fn check_numbers(&self, field: &'static str, strategy: ConflictStrategy) -> Result<(), WorkflowError> {
        if !matches!(strategy, ConflictStrategy::UseConservative | ConflictStrategy::WeightedAverage) {
            return Ok(());
        }
        for axis in self.contested() {
            let fault = if !axis.kind.is_numeric() {
                not_numeric(axis)
            } else if strategy == ConflictStrategy::UseConservative && axis.conservative.is_none() {
                "the ontology does not define its `conservative` side; allowed: axes with `conservative`"
                    .into()
            } else {
                continue;
            };
            let (what, axis) = (format!("`{}`", strategy.into_str()), axis.axis.clone());
            return Err(WorkflowError::Strategy { field, what, axis, fault });
        }
        Ok(())
    }

    /// The axes on which a strategy can be applied: at least two trusted oracles provide them, and they are not in
    /// `always_human_axes`.
    fn contested(&self) -> impl Iterator<Item = &Axis> {
        let always_human = &self.workflow.conflict_resolution.always_human_axes;
        let axes = self.axes.iter().filter(|axis| !always_human.contains(&axis.axis));
        axes.filter(|axis| self.providers(axis).count() > 1).copied()
    }
}

/// One unit of the last of `places` digits after the point.
fn last_digit(places: i32) -> Result<Decimal, DecimalError> {
    format!("1e{}", -places).parse()
}

fn not_numeric(axis: &Axis) -> String {
    format!("it is of type {}; allowed: number, integer", axis.kind.into_str())
}
