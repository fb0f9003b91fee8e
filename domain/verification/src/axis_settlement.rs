//! Settles one axis: by a person's decision, by agreement of the oracles, by a settled conflict, or not at all.

use super::conflict::{ConflictOutcome, resolve};
use super::inputs::DecisionInputs;
use super::reason::AxisReason;
use super::request::ValidatedClaim;
use super::statements::{AxisStatement, CollectedStatements, collect_statements};
use super::workflow::{ConflictGranularity, ConflictStrategy, PartialConflictBehavior};
use crate::conflict::ConflictStep;
use crate::statements::{CollectedAnswers, is_agreement};
use crate::stored_state::HumanLock;
use domain_base::decimal::Decimal;
use domain_ground::axis::{Axis, AxisClass};
use domain_ground::id::SourceId;
use domain_ground::value::TypedValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// The default of `suspicious_ratio` if values are averaged.
const SUSPICIOUS_RATIO_OF_AVERAGES: &str = "1.1";

/// The standing of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AxisStatus {
    /// The axis has a value.
    Settled,
    /// A reviewer decides.
    Escalated,
    /// The dispute is reported, and not decided.
    Disputed,
    /// The axis has no value that may be returned.
    Unsettled,
}

/// The basis of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueBasis {
    /// Only one trusted oracle has a value.
    OnlySource,
    /// All oracles agree.
    Agreement,
    /// Oracles disagreed, and the conflict was settled; the steps show how.
    Resolution,
    /// A reviewer decided.
    HumanLock,
    /// The claimant confirmed the value.
    HumanConfirmation,
}

impl ValueBasis {
    /// Whether the value comes from a person, not from an oracle.
    #[must_use]
    pub const fn is_human(self) -> bool {
        matches!(self, Self::HumanLock | Self::HumanConfirmation)
    }
}

/// One axis, settled or not.
#[derive(Debug)]
pub(super) struct AxisSettlement<'a> {
    pub(super) status: AxisStatus,
    pub(super) reasons: BTreeSet<AxisReason>,
    pub(super) value: Option<TypedValue>,
    pub(super) basis: Option<ValueBasis>,
    pub(super) origin: ValueOrigin<'a>,
    /// The greatest difference between two oracles.
    pub(super) delta: Option<Decimal>,
    pub(super) steps: Vec<ConflictStep>,
    pub(super) warnings: Vec<String>,
    /// The oracles that disagree with another one on it.
    pub(super) contested_by: Vec<&'a SourceId>,
    /// The oracles to query again for this axis, because their values have expired.
    pub(super) expired: Vec<&'a SourceId>,
    /// The oracles whose values are too old, and would still be after another query.
    pub(super) stale: Vec<&'a SourceId>,
}

#[derive(Debug)]
pub(super) enum ValueOrigin<'a> {
    /// The axis has no value.
    NoValue,
    /// These oracles.
    Oracles(Vec<AxisStatement<'a>>),
    /// A reviewer's lock.
    Lock(&'a HumanLock),
    /// A confirmed claim.
    Claim(&'a ValidatedClaim),
}

/// Settles the axis that was requested as `path`.
pub(super) fn settle<'a>(
    inputs: &'a DecisionInputs,
    collected: &'a CollectedAnswers<'a>,
    path: &str,
    axis: &Axis,
) -> AxisSettlement<'a> {
    let mut on_axis = collect_statements(inputs, collected, path, axis);
    let mut settlement = AxisSettlement::empty(std::mem::take(&mut on_axis.warnings));
    settlement.delta = on_axis.delta();
    if settlement.settle_by_lock(inputs, &on_axis, path, axis) {
        return settlement;
    }
    let claim = inputs.question.claimed.get(path);
    if settlement.settle_by_confirmation(inputs, &on_axis, claim, path, axis) {
        return settlement;
    }
    let too_old = on_axis.outdated_oracles(AxisReason::Stale);
    if inputs.reverified {
        // another query did not help, so a further one would not help either
        settlement.stale = too_old.chain(on_axis.outdated_oracles(AxisReason::Expired)).collect();
    } else {
        settlement.expired = on_axis.outdated_oracles(AxisReason::Expired).collect();
        settlement.stale = too_old.collect();
    }
    settlement.contested_by = on_axis.contesting_oracles(axis).into_iter().collect();
    let mut reasons = reviewer_reasons(inputs, &on_axis, claim, path, axis);
    if !settlement.contested_by.is_empty() && is_reverification_required(inputs) {
        reasons.insert(AxisReason::Reverification);
    } else {
        reasons.extend(conflict_reasons(inputs, &on_axis, axis));
    }
    if reasons.is_empty() {
        settlement.settle_by_oracles(inputs, &on_axis, path, axis);
        let sources = u32::try_from(on_axis.statements.len()).unwrap_or(u32::MAX);
        if settlement.status == AxisStatus::Settled && sources < inputs.workflow.min_sources {
            settlement.reject([AxisReason::TooFewSources].into());
        }
    } else {
        settlement.reject(reasons);
    }
    if settlement.status != AxisStatus::Escalated && !on_axis.outdated.is_empty() {
        let mut reasons = std::mem::take(&mut settlement.reasons);
        reasons.extend(on_axis.outdated.iter().map(|(_, reason)| *reason));
        settlement.reject(reasons);
    }
    settlement
}

/// Whether the oracles must be queried again before conflicts are settled.
pub(super) fn is_reverification_required(inputs: &DecisionInputs) -> bool {
    let scope = inputs.workflow.conflict_resolution.scope;
    scope.partial_conflict_behavior == PartialConflictBehavior::InvalidateAll && !inputs.reverified
}

/// The reasons why a reviewer must decide, whether the oracles agree or not.
fn reviewer_reasons(
    inputs: &DecisionInputs,
    on_axis: &CollectedStatements<'_>,
    claim: Option<&ValidatedClaim>,
    path: &str,
    axis: &Axis,
) -> BTreeSet<AxisReason> {
    let mut reasons = BTreeSet::new();
    let mut statements = on_axis.statements.iter();
    if is_always_human(inputs, axis) && (claim.is_some() || !on_axis.statements.is_empty()) {
        reasons.insert(AxisReason::AlwaysHuman);
    }
    if statements.clone().any(|statement| statement.answer.candidate.deviations.contains_key(path)) {
        reasons.insert(AxisReason::Deviation);
    }
    let claimed = claim.filter(|_| axis.class == AxisClass::Measured).map(|claim| claim.value.typed(axis));
    let agrees =
        |claimed: &TypedValue| statements.all(|statement| is_agreement(axis, &statement.value, claimed));
    if claimed.is_some_and(|claimed| !claimed.as_ref().is_ok_and(agrees)) {
        reasons.insert(AxisReason::OracleVsUser);
    }
    reasons
}

/// The reasons against settling a conflict by a strategy.
fn conflict_reasons(
    inputs: &DecisionInputs,
    on_axis: &CollectedStatements<'_>,
    axis: &Axis,
) -> BTreeSet<AxisReason> {
    let config = &inputs.workflow.conflict_resolution;
    let mut reasons = on_axis.exceeded_thresholds(&config.thresholds(axis));
    if !on_axis.is_contested(axis) {
        return reasons;
    }
    if config.scope.granularity == ConflictGranularity::Oracle {
        reasons.insert(AxisReason::OracleInvalidated);
    }
    if on_axis.has_other_definitions() {
        reasons.insert(AxisReason::DefinitionMismatch);
        let is_told = |(one, other): (&AxisStatement<'_>, &AxisStatement<'_>)| {
            let is_same = one.tier == other.tier;
            let strategy = if is_same { config.same_tier_strategy } else { config.default_strategy };
            one.definition == other.definition || strategy == ConflictStrategy::DisputeSummary
        };
        if on_axis.pairs().all(is_told) {
            reasons.insert(AxisReason::Disputed);
        }
    }
    reasons
}

/// A warning if a conflict was settled over values that differ by more than the suspicious factor: a source may be
/// inverted, or have another scale. The warning names no values, since it is also shown where values are withheld.
fn suspicious_ratio_warning(
    inputs: &DecisionInputs,
    on_axis: &CollectedStatements<'_>,
    path: &str,
    steps: &[ConflictStep],
) -> Option<String> {
    let is_averaged = steps.iter().any(|step| step.strategy == ConflictStrategy::WeightedAverage);
    let unless_given = || is_averaged.then(|| SUSPICIOUS_RATIO_OF_AVERAGES.parse().ok())?;
    let ratio = inputs.workflow.conflict_resolution.suspicious_ratio.clone().or_else(unless_given)?;
    let (one, other) = on_axis.find_pair_beyond_factor(&ratio).filter(|_| !steps.is_empty())?;
    Some(format!(
        "`{path}`: the values of {one} and {other} differ by more than a factor of {ratio}; check whether one of them is \
         inverted, or has another unit or scale"
    ))
}

fn is_always_human(inputs: &DecisionInputs, axis: &Axis) -> bool {
    inputs.workflow.conflict_resolution.always_human_axes.contains(&axis.axis)
}

impl<'a> AxisSettlement<'a> {
    const fn empty(warnings: Vec<String>) -> Self {
        Self {
            status: AxisStatus::Unsettled,
            reasons: BTreeSet::new(),
            value: None,
            basis: None,
            origin: ValueOrigin::NoValue,
            delta: None,
            steps: Vec::new(),
            warnings,
            contested_by: Vec::new(),
            expired: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// Whether a person settles the axis, so that no oracle is needed.
    pub(super) const fn is_decided_by_human(&self) -> bool {
        matches!(self.origin, ValueOrigin::Lock(_) | ValueOrigin::Claim(_))
    }

    /// Warns if the claim of the measured axis `path` changes nothing: no reviewer sees it.
    pub(super) fn warn_of_unused_claim(&mut self, path: &str, axis: &Axis, claim: &ValidatedClaim) {
        let is_seen = self.reasons.contains(&AxisReason::OracleVsUser)
            || self.reasons.contains(&AxisReason::AlwaysHuman);
        if axis.class == AxisClass::Measured && !self.is_decided_by_human() && !is_seen {
            self.warnings.push(format!("`{path}`: the claim of {} has no effect", claim.claimed_by));
        }
    }

    /// Removes the value with everything derived from it. `reason` becomes the only reason.
    pub(super) fn discard(&mut self, reason: AxisReason) {
        self.steps.clear();
        self.delta = None;
        self.reject([reason].into());
    }

    /// Removes the value, and adds a reason.
    pub(super) fn add(&mut self, reason: AxisReason) {
        let mut reasons = std::mem::take(&mut self.reasons);
        reasons.insert(reason);
        self.reject(reasons);
    }

    fn reject(&mut self, reasons: BTreeSet<AxisReason>) {
        let is_disputed = reasons.contains(&AxisReason::Disputed)
            && reasons
                .iter()
                .all(|reason| matches!(reason, AxisReason::Disputed | AxisReason::DefinitionMismatch));
        self.status = if is_disputed {
            AxisStatus::Disputed
        } else if reasons.iter().any(|reason| reason.is_for_reviewer()) {
            AxisStatus::Escalated
        } else {
            AxisStatus::Unsettled
        };
        (self.value, self.basis, self.origin) = (None, None, ValueOrigin::NoValue);
        self.reasons = reasons;
    }

    /// Settles the axis by the newest valid lock, if there is one.
    fn settle_by_lock(
        &mut self,
        inputs: &'a DecisionInputs,
        on_axis: &CollectedStatements<'_>,
        path: &str,
        axis: &Axis,
    ) -> bool {
        let locks =
            inputs.locks.iter().filter(|lock| lock.is_about(&inputs.workflow, &inputs.question, path));
        let newest = |lock: &&HumanLock| (lock.verified_at, lock.review_id.clone());
        let is_valid = |lock: &&HumanLock| lock.is_valid(axis, inputs.decided_at);
        let Some(lock) = locks.clone().filter(is_valid).max_by_key(newest) else {
            if let Some(lock) = locks.max_by_key(newest) {
                let (at, until) = (lock.verified_at, lock.valid_until);
                self.warnings.push(format!(
                    "`{path}`: the decision of uid {} on {at} is no longer valid (until {until})",
                    lock.verifier_id
                ));
            }
            return false;
        };
        let Ok(value) = lock.value.typed(axis) else { return false };
        self.warn_about_other_values(
            on_axis,
            &value,
            path,
            axis,
            &format!("uid {} decided on another value", lock.verifier_id),
        );
        self.accept(value, ValueBasis::HumanLock, ValueOrigin::Lock(lock));
        true
    }

    /// Settles a self-reported axis by a confirmed claim, if there is one.
    fn settle_by_confirmation(
        &mut self,
        inputs: &DecisionInputs,
        on_axis: &CollectedStatements<'_>,
        claim: Option<&'a ValidatedClaim>,
        path: &str,
        axis: &Axis,
    ) -> bool {
        let Some(claim) = claim.filter(|_| axis.class == AxisClass::SelfReported) else { return false };
        if !claim.confirmed {
            self.warnings.push(format!("`{path}`: {} has not confirmed the claim", claim.claimed_by));
            return false;
        }
        let Ok(value) = claim.value.typed(axis) else { return false };
        if is_always_human(inputs, axis) {
            return false;
        }
        self.warn_about_other_values(
            on_axis,
            &value,
            path,
            axis,
            &format!("{} confirmed another value", claim.claimed_by),
        );
        self.accept(value, ValueBasis::HumanConfirmation, ValueOrigin::Claim(claim));
        true
    }

    /// Settles the axis by the statements of the oracles.
    fn settle_by_oracles(
        &mut self,
        inputs: &DecisionInputs,
        on_axis: &CollectedStatements<'a>,
        path: &str,
        axis: &Axis,
    ) {
        let resolution = resolve(inputs, on_axis, path, axis);
        self.steps = resolution.steps;
        match resolution.outcome {
            ConflictOutcome::Value(value, members) => {
                let basis = match (self.steps.is_empty(), on_axis.statements.len()) {
                    (true, 1) => ValueBasis::OnlySource,
                    (true, _) => ValueBasis::Agreement,
                    (false, _) => ValueBasis::Resolution,
                };
                self.warnings.extend(suspicious_ratio_warning(inputs, on_axis, path, &self.steps));
                self.accept(value, basis, ValueOrigin::Oracles(members.into_iter().cloned().collect()));
            }
            ConflictOutcome::Escalated(reason) => self.reject([reason].into()),
            ConflictOutcome::Disputed => self.reject([AxisReason::Disputed].into()),
            ConflictOutcome::Nothing if on_axis.has_unverified => {
                self.reject([AxisReason::UnverifiedOnly].into());
            }
            ConflictOutcome::Nothing => self.reject([AxisReason::NoValue].into()),
        }
    }

    fn accept(&mut self, value: TypedValue, basis: ValueBasis, backing: ValueOrigin<'a>) {
        self.status = AxisStatus::Settled;
        (self.value, self.basis, self.origin) = (Some(value), Some(basis), backing);
    }

    /// Adds a warning for each oracle with another value than the person's.
    fn warn_about_other_values(
        &mut self,
        on_axis: &CollectedStatements<'_>,
        value: &TypedValue,
        path: &str,
        axis: &Axis,
        why: &str,
    ) {
        let others =
            on_axis.statements.iter().filter(|statement| !is_agreement(axis, &statement.value, value));
        let warnings =
            others.map(|other| format!("{}: has another value of `{path}`; {why}", other.answer.oracle_id));
        self.warnings.extend(warnings);
    }
}
