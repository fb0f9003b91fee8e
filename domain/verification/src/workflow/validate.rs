//! Validation of a workflow.

use super::{EnforcementMode, OracleTimeoutBehavior, Workflow};
use crate::workflow::{AxisThresholds, ConflictStrategy};
use domain_base::decimal::{Decimal, DecimalError};
use domain_base::text_form::is_blank;
use domain_ground::axis::{Axis, AxisClass, AxisType};
use domain_ground::freshness::MAX_AGE_S;
use domain_ground::id::SourceId;
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::source::{CONFIRMATION_ORACLE_ID, LOCK_ORACLE_ID, OracleTier, SourceRegistration};
use std::collections::BTreeSet;
use strum::VariantArray;

/// The maximum number of axes of a workflow.
pub const AXES_MAX: usize = 64;
/// The maximum number of oracles of a workflow.
pub const ORACLES_MAX: usize = 16;
/// The maximum length of `domain`, in bytes.
pub const DOMAIN_MAX_BYTES: usize = 256;
/// The maximum timeout of an oracle, in milliseconds: ten minutes.
pub const TIMEOUT_MAX_MS: u64 = 600_000;
/// The maximum budget, in milliseconds: an hour.
pub const BUDGET_MAX_MS: u64 = 3_600_000;
/// The maximum number of resolutions on one axis, which [`ORACLES_MAX`] oracles can require.
pub const CASCADE_LIMIT_MAX: u32 = 15;

/// Why a workflow is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowError {
    /// The value of a field is invalid.
    #[error("`{field}`: {fault}")]
    Field {
        field: &'static str,
        /// The fault, and what is allowed.
        fault: String,
    },
    /// The workflow names another ontology than the one that validates it.
    #[error("`ontology` is {named}, but must be {given}")]
    OtherOntology {
        named: OntologyRef,
        /// The ontology that validates the workflow.
        given: OntologyRef,
    },
    /// An axis is not allowed in a field.
    #[error("`{field}`: `{axis}` is {fault}; allowed: {known}")]
    UnknownAxis {
        field: &'static str,
        axis: String,
        /// Why it is not allowed.
        fault: &'static str,
        /// The allowed axes.
        known: String,
    },
    /// An oracle is not registered.
    #[error("`oracles`: no source `{oracle_id}` is registered; registered: {known}")]
    UnknownOracle {
        oracle_id: SourceId,
        /// The registered oracles.
        known: String,
    },
    /// An oracle provides none of the axes.
    #[error("`oracles`: `{oracle_id}` provides none of the axes {axes}; it provides {provided}")]
    IdleOracle {
        oracle_id: SourceId,
        /// The workflow's axes.
        axes: String,
        /// The oracle's axes.
        provided: String,
    },
    /// A strategy, or a threshold, does not fit an axis.
    #[error("`conflict_resolution.{field}`: {what} cannot work on `{axis}`: {fault}")]
    Strategy {
        field: &'static str,
        /// The value of the field.
        what: String,
        axis: String,
        /// The fault, and what is allowed.
        fault: String,
    },
}

/// A workflow, with its axes and oracles.
struct WorkflowValidator<'a> {
    workflow: &'a Workflow,
    /// The workflow's axes, as the ontology defines them.
    axes: Vec<&'a Axis>,
    /// The workflow's oracles, as they are registered.
    oracles: Vec<&'a SourceRegistration>,
}

impl Workflow {
    /// Validates the workflow for `ontology` and the registered `sources`.
    ///
    /// # Errors
    /// The first fault: the field, the fault and what is allowed.
    pub fn validate(
        &self,
        ontology: &Ontology,
        sources: &[&SourceRegistration],
    ) -> Result<(), WorkflowError> {
        if is_blank(&self.domain) || self.domain.len() > DOMAIN_MAX_BYTES {
            return Err(build_field_error(
                "domain",
                format!("it is blank or too long; allowed: 1 to {DOMAIN_MAX_BYTES} bytes"),
            ));
        }
        if self.ontology != ontology.reference() {
            let (named, given) = (self.ontology.clone(), ontology.reference());
            return Err(WorkflowError::OtherOntology { named, given });
        }
        let axes = self.known_axes(ontology)?;
        let oracles = self.known_oracles(sources)?;
        let subject = WorkflowValidator { workflow: self, axes, oracles };
        subject.check_providers()?;
        subject.check_latency()?;
        subject.check_strategies()?;
        subject.check_deviations()
    }

    fn known_axes<'o>(&self, ontology: &'o Ontology) -> Result<Vec<&'o Axis>, WorkflowError> {
        if !(1..=AXES_MAX).contains(&self.axes.len()) {
            return Err(build_field_error(
                "axes",
                format!("there are {}; allowed: 1 to {AXES_MAX}", self.axes.len()),
            ));
        }
        check_distinct("axes", &self.axes)?;
        let known = |name: &String| ontology.axes.iter().find(|axis| axis.axis == *name && !axis.identity);
        let found = |name: &String| {
            let plain = ontology.axes.iter().filter(|axis| !axis.identity);
            let is_identity = ontology.identity().any(|axis| axis.axis == *name);
            known(name).ok_or_else(|| WorkflowError::UnknownAxis {
                field: "axes",
                axis: name.clone(),
                fault: if is_identity { "an identity axis" } else { "not an axis of the ontology" },
                known: joined(plain.map(|axis| axis.axis.as_str())),
            })
        };
        self.axes.iter().map(found).collect()
    }

    fn known_oracles<'s>(
        &self,
        sources: &[&'s SourceRegistration],
    ) -> Result<Vec<&'s SourceRegistration>, WorkflowError> {
        if !(1..=ORACLES_MAX).contains(&self.oracles.len()) {
            let fault = format!("there are {}; allowed: 1 to {ORACLES_MAX}", self.oracles.len());
            return Err(build_field_error("oracles", fault));
        }
        check_distinct("oracles", &self.oracles)?;
        let of_people = [LOCK_ORACLE_ID, CONFIRMATION_ORACLE_ID];
        if let Some(id) = self.oracles.iter().find(|id| of_people.contains(&id.as_str())) {
            let fault = format!("`{id}` is reserved for decisions of people, and is not a source");
            return Err(build_field_error("oracles", fault));
        }
        let found = |oracle_id: &SourceId| {
            let source = sources.iter().find(|source| source.oracle_id == *oracle_id);
            let source = *source.ok_or_else(|| WorkflowError::UnknownOracle {
                oracle_id: oracle_id.clone(),
                known: joined(sources.iter().map(|source| source.oracle_id.as_str())),
            })?;
            if source.ontology != self.ontology {
                let fault =
                    format!("`{oracle_id}` has the ontology {}, not {}", source.ontology, self.ontology);
                return Err(build_field_error("oracles", fault));
            }
            if !self.axes.iter().any(|axis| source.axes_provided.contains(axis)) {
                return Err(WorkflowError::IdleOracle {
                    oracle_id: oracle_id.clone(),
                    axes: joined(self.axes.iter().map(String::as_str)),
                    provided: joined(source.axes_provided.iter().map(String::as_str)),
                });
            }
            Ok(source)
        };
        self.oracles.iter().map(found).collect()
    }
}

impl WorkflowValidator<'_> {
    /// The oracles that are trusted, and provide `axis`.
    fn providers(&self, axis: &Axis) -> impl Iterator<Item = &&SourceRegistration> {
        let can = |source: &&&SourceRegistration| {
            source.oracle_tier != OracleTier::Unverified && source.axes_provided.contains(&axis.axis)
        };
        self.oracles.iter().filter(can)
    }

    /// Checks that each axis has enough providers: a measured axis without a registered oracle would never
    /// have a value.
    fn check_providers(&self) -> Result<(), WorkflowError> {
        let needed = self.workflow.min_sources;
        if needed == 0 {
            return Err(build_field_error("min_sources", "it is 0; allowed: 1 or more".into()));
        }
        let few = |axis: &&&Axis| {
            let providers = self.providers(axis).count();
            u32::try_from(providers).is_ok_and(|providers| providers < needed)
        };
        if let Some(axis) = self.axes.iter().filter(|_| needed > 1).find(few) {
            let fault = format!(
                "it is {needed}, but `{}` is provided by only {} oracles of the workflow above `unverified`",
                axis.axis,
                self.providers(axis).count()
            );
            return Err(build_field_error("min_sources", fault));
        }
        let verifies =
            self.workflow.authority_latency.enforcement_mode != EnforcementMode::NonAuthoritativeOnly;
        let is_mute =
            |axis: &&&Axis| axis.class == AxisClass::Measured && self.providers(axis).next().is_none();
        match self.axes.iter().find(is_mute).filter(|_| verifies) {
            Some(axis) => Err(build_field_error(
                "axes",
                format!(
                    "no oracle of the workflow above `unverified` provides `{}`; {}",
                    axis.axis,
                    self.provider_remedy(axis)
                ),
            )),
            None => Ok(()),
        }
    }

    /// The remedy if no trusted oracle provides `axis`.
    fn provider_remedy(&self, axis: &Axis) -> String {
        let unverified = self.oracles.iter().filter(|source| source.axes_provided.contains(&axis.axis));
        let unverified = joined(unverified.map(|source| source.oracle_id.as_str()));
        if unverified.is_empty() {
            return "add a source that provides it to `oracles`".to_owned();
        }
        format!("set `oracle_tier` of {unverified} to `primary`, `secondary` or `cross_domain`")
    }
}

fn build_field_error(field: &'static str, fault: String) -> WorkflowError {
    WorkflowError::Field { field, fault }
}

fn joined<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

fn check_distinct<T: Ord + std::fmt::Display>(name: &'static str, names: &[T]) -> Result<(), WorkflowError> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(build_field_error(name, format!("`{twice}` occurs twice"))),
        None => Ok(()),
    }
}

fn check_within(
    name: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    unit: &str,
) -> Result<(), WorkflowError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(build_field_error(
        name,
        format!("it is {value}; allowed: {} to {}{unit}", range.start(), range.end()),
    ))
}

impl WorkflowValidator<'_> {
    /// Checks the RFC's binding rules: the soft timeout is less than the hard timeout, and a caller who waits for a
    /// decision waits at least for the soft timeout.
    fn check_latency(&self) -> Result<(), WorkflowError> {
        let (oracle, authority) = (&self.workflow.oracle_latency, &self.workflow.authority_latency);
        let (soft, hard, budget) =
            (oracle.soft_timeout_ms, oracle.hard_timeout_ms, authority.authority_latency_budget_ms);
        check_within("oracle_latency.soft_timeout_ms", soft, 1..=TIMEOUT_MAX_MS, " ms")?;
        check_within("oracle_latency.hard_timeout_ms", hard, 1..=TIMEOUT_MAX_MS, " ms")?;
        check_within("authority_latency.authority_latency_budget_ms", budget, 1..=BUDGET_MAX_MS, " ms")?;
        if soft >= hard {
            let fault = format!("it is {soft}; allowed: less than `hard_timeout_ms`, which is {hard}");
            return Err(build_field_error("oracle_latency.soft_timeout_ms", fault));
        }
        if authority.enforcement_mode == EnforcementMode::Inline && budget < soft {
            let fault = format!(
                "it is {budget}; with `INLINE` allowed: at least `soft_timeout_ms`, which is {soft}; for less, use \
                 `ASYNC` or `NON_AUTHORITATIVE_ONLY`"
            );
            return Err(build_field_error("authority_latency.authority_latency_budget_ms", fault));
        }
        self.check_tolerance()
    }

    fn check_tolerance(&self) -> Result<(), WorkflowError> {
        const FIELD: &str = "oracle_latency.stale_tolerance_seconds";
        let oracle = &self.workflow.oracle_latency;
        let serves_stale = oracle.on_timeout == OracleTimeoutBehavior::ServeStale;
        let Some(tolerance) = oracle.stale_tolerance_seconds else {
            let missing = || {
                build_field_error(
                    FIELD,
                    "`SERVE_STALE` requires it: the maximum age of a cached answer".into(),
                )
            };
            return if serves_stale { Err(missing()) } else { Ok(()) };
        };
        if !serves_stale {
            return Err(build_field_error(
                FIELD,
                "it is only allowed with `on_timeout` `SERVE_STALE`".into(),
            ));
        }
        check_within(FIELD, tolerance, 1..=MAX_AGE_S, " s")?;
        let mut limits = self.axes.iter().filter_map(|axis| Some((axis, axis.max_ttl_seconds?)));
        match limits.find(|(_, limit)| tolerance > *limit) {
            Some((axis, limit)) => Err(build_field_error(
                FIELD,
                format!("it is {tolerance}; the ontology allows `{}` to be at most {limit} s old", axis.axis),
            )),
            None => Ok(()),
        }
    }
}

/// Why a numeric limit is not allowed on an axis.
const NOT_NUMERIC: &str = "not a numeric axis of the workflow";

impl WorkflowValidator<'_> {
    fn check_strategies(&self) -> Result<(), WorkflowError> {
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

    fn check_deviations(&self) -> Result<(), WorkflowError> {
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
