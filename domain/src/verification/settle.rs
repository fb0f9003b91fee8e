//! Settles one axis: by a person's decision, by agreement of the oracles, by a settled conflict, or not at all.

use super::compare::agree;
use super::conflict::{Outcome, resolve};
use super::hearing::Hearing;
use super::inputs::Inputs;
use super::lock::HumanLock;
use super::reason::Reason;
use super::request::Claim;
use super::statements::{OnAxis, Statement, on_axis};
use super::step::Step;
use super::workflow::{Granularity, PartialConflict, Strategy};
use crate::base::decimal::Decimal;
use crate::ground::axis::{Axis, AxisClass};
use crate::ground::id::SourceId;
use crate::ground::value::Typed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// The default of `suspicious_ratio` if values are averaged.
const SUSPICIOUS_RATIO_OF_AVERAGES: &str = "1.1";

/// The standing of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
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
pub enum Basis {
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

impl Basis {
    /// Whether the value comes from a person, not from an oracle.
    #[must_use]
    pub const fn is_a_person(self) -> bool {
        matches!(self, Self::HumanLock | Self::HumanConfirmation)
    }
}

/// One axis, settled or not.
#[derive(Debug)]
pub(super) struct Settlement<'a> {
    pub(super) standing: Standing,
    pub(super) reasons: BTreeSet<Reason>,
    pub(super) value: Option<Typed>,
    pub(super) basis: Option<Basis>,
    pub(super) backing: Backing<'a>,
    /// The greatest difference between two oracles.
    pub(super) delta: Option<Decimal>,
    pub(super) steps: Vec<Step>,
    pub(super) warnings: Vec<String>,
    /// The oracles that disagree on it.
    pub(super) contested_by: Vec<&'a SourceId>,
    /// The oracles to query again for this axis, because their values have expired.
    pub(super) expired: Vec<&'a SourceId>,
    /// The oracles whose values are too old, and would still be after another query.
    pub(super) stale: Vec<&'a SourceId>,
}

/// The origin of a value.
#[derive(Debug)]
pub(super) enum Backing<'a> {
    /// The axis has no value.
    Nobody,
    /// These oracles.
    Oracles(Vec<Statement<'a>>),
    /// A reviewer's lock.
    Lock(&'a HumanLock),
    /// A confirmed claim.
    Claim(&'a Claim),
}

/// Settles the axis that was requested as `path`.
pub(super) fn settle<'a>(
    inputs: &'a Inputs,
    hearing: &'a Hearing<'a>,
    path: &str,
    axis: &Axis,
) -> Settlement<'a> {
    let mut on_axis = on_axis(inputs, hearing, path, axis);
    let mut settlement = Settlement::empty(std::mem::take(&mut on_axis.warnings));
    settlement.delta = on_axis.delta();
    if settlement.by_lock(inputs, &on_axis, path, axis) {
        return settlement;
    }
    let claim = inputs.question.claimed.get(path);
    if settlement.by_confirmation(inputs, &on_axis, claim, path, axis) {
        return settlement;
    }
    let too_old = on_axis.barred_for(Reason::Stale);
    if inputs.reverified {
        // another query did not help, so a further one would not help either
        settlement.stale = too_old.chain(on_axis.barred_for(Reason::Expired)).collect();
    } else {
        settlement.expired = on_axis.barred_for(Reason::Expired).collect();
        settlement.stale = too_old.collect();
    }
    if on_axis.is_contested(axis) {
        settlement.contested_by = on_axis.oracles().collect();
    }
    let mut reasons = for_a_person(inputs, &on_axis, claim, path, axis);
    if !settlement.contested_by.is_empty() && is_to_be_asked_again(inputs) {
        reasons.insert(Reason::Reverification);
    } else {
        reasons.extend(of_conflict(inputs, &on_axis, axis));
    }
    if reasons.is_empty() {
        settlement.by_oracles(inputs, &on_axis, path, axis);
        let sources = u32::try_from(on_axis.statements.len()).unwrap_or(u32::MAX);
        if settlement.standing == Standing::Settled && sources < inputs.workflow.min_sources {
            settlement.refuse([Reason::TooFewSources].into());
        }
    } else {
        settlement.refuse(reasons);
    }
    if settlement.standing != Standing::Escalated && !on_axis.barred.is_empty() {
        let mut reasons = std::mem::take(&mut settlement.reasons);
        reasons.extend(on_axis.barred.iter().map(|(_, reason)| *reason));
        settlement.refuse(reasons);
    }
    settlement
}

/// Whether the oracles must be queried again before conflicts are settled.
pub(super) fn is_to_be_asked_again(inputs: &Inputs) -> bool {
    let scope = inputs.workflow.conflict_resolution.scope;
    scope.partial_conflict_behavior == PartialConflict::InvalidateAll && !inputs.reverified
}

/// The reasons why a reviewer must decide, whether the oracles agree or not.
fn for_a_person(
    inputs: &Inputs,
    on_axis: &OnAxis<'_>,
    claim: Option<&Claim>,
    path: &str,
    axis: &Axis,
) -> BTreeSet<Reason> {
    let mut reasons = BTreeSet::new();
    let mut statements = on_axis.statements.iter();
    if is_always_human(inputs, axis) && (claim.is_some() || !on_axis.statements.is_empty()) {
        reasons.insert(Reason::AlwaysHuman);
    }
    if statements.clone().any(|statement| statement.voice.candidate.deviations.contains_key(path)) {
        reasons.insert(Reason::Deviation);
    }
    let claimed = claim.filter(|_| axis.class == AxisClass::Measured).map(|claim| claim.value.typed(axis));
    let agrees = |claimed: &Typed| statements.all(|statement| agree(axis, &statement.value, claimed));
    if claimed.is_some_and(|claimed| !claimed.as_ref().is_ok_and(agrees)) {
        reasons.insert(Reason::OracleVsUser);
    }
    reasons
}

/// The reasons against settling a conflict by a strategy.
fn of_conflict(inputs: &Inputs, on_axis: &OnAxis<'_>, axis: &Axis) -> BTreeSet<Reason> {
    let config = &inputs.workflow.conflict_resolution;
    let mut reasons = on_axis.exceeded(&config.thresholds(axis));
    if !on_axis.is_contested(axis) {
        return reasons;
    }
    if config.scope.granularity == Granularity::Oracle {
        reasons.insert(Reason::OracleInvalidated);
    }
    if on_axis.has_other_definitions() {
        reasons.insert(Reason::DefinitionMismatch);
        let is_told = |(one, other): (&Statement<'_>, &Statement<'_>)| {
            let is_same = one.tier == other.tier;
            let strategy = if is_same { config.same_tier_strategy } else { config.default_strategy };
            one.definition == other.definition || strategy == Strategy::DisputeSummary
        };
        if on_axis.pairs().all(is_told) {
            reasons.insert(Reason::Disputed);
        }
    }
    reasons
}

/// A warning if a conflict was settled over values that differ by more than the suspicious factor: a source may be
/// inverted, or have another scale. The warning names no values, since it is also shown where values are withheld.
fn suspicion(inputs: &Inputs, on_axis: &OnAxis<'_>, path: &str, steps: &[Step]) -> Option<String> {
    let is_averaged = steps.iter().any(|step| step.strategy == Strategy::WeightedAverage);
    let unless_given = || is_averaged.then(|| SUSPICIOUS_RATIO_OF_AVERAGES.parse().ok())?;
    let ratio = inputs.workflow.conflict_resolution.suspicious_ratio.clone().or_else(unless_given)?;
    let (one, other) = on_axis.apart_by(&ratio).filter(|_| !steps.is_empty())?;
    Some(format!(
        "`{path}`: the values of {one} and {other} differ by more than a factor of {ratio}; check whether one of them is \
         inverted, or has another unit or scale"
    ))
}

fn is_always_human(inputs: &Inputs, axis: &Axis) -> bool {
    inputs.workflow.conflict_resolution.always_human_axes.contains(&axis.axis)
}

impl<'a> Settlement<'a> {
    const fn empty(warnings: Vec<String>) -> Self {
        Self {
            standing: Standing::Unsettled,
            reasons: BTreeSet::new(),
            value: None,
            basis: None,
            backing: Backing::Nobody,
            delta: None,
            steps: Vec::new(),
            warnings,
            contested_by: Vec::new(),
            expired: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// Whether a person settles the axis, so that no oracle is needed.
    pub(super) const fn is_by_a_person(&self) -> bool {
        matches!(self.backing, Backing::Lock(_) | Backing::Claim(_))
    }

    /// Removes the value with everything derived from it. `reason` becomes the only reason.
    pub(super) fn discard(&mut self, reason: Reason) {
        self.steps.clear();
        self.delta = None;
        self.refuse([reason].into());
    }

    /// Removes the value, and adds a reason.
    pub(super) fn add(&mut self, reason: Reason) {
        let mut reasons = std::mem::take(&mut self.reasons);
        reasons.insert(reason);
        self.refuse(reasons);
    }

    fn refuse(&mut self, reasons: BTreeSet<Reason>) {
        let is_disputed = reasons.contains(&Reason::Disputed)
            && reasons.iter().all(|reason| matches!(reason, Reason::Disputed | Reason::DefinitionMismatch));
        self.standing = if is_disputed {
            Standing::Disputed
        } else if reasons.iter().any(|reason| reason.is_for_a_person()) {
            Standing::Escalated
        } else {
            Standing::Unsettled
        };
        (self.value, self.basis, self.backing) = (None, None, Backing::Nobody);
        self.reasons = reasons;
    }

    /// Settles the axis by the newest valid lock, if there is one.
    fn by_lock(&mut self, inputs: &'a Inputs, on_axis: &OnAxis<'_>, path: &str, axis: &Axis) -> bool {
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
        self.note_others(
            on_axis,
            &value,
            path,
            axis,
            &format!("uid {} decided on another value", lock.verifier_id),
        );
        self.accept(value, Basis::HumanLock, Backing::Lock(lock));
        true
    }

    /// Settles a self-reported axis by a confirmed claim, if there is one.
    fn by_confirmation(
        &mut self,
        inputs: &Inputs,
        on_axis: &OnAxis<'_>,
        claim: Option<&'a Claim>,
        path: &str,
        axis: &Axis,
    ) -> bool {
        let Some(claim) = claim else { return false };
        if axis.class == AxisClass::Measured {
            self.warnings.push(format!("`{path}`: the claim of {} has no effect", claim.claimed_by));
            return false;
        }
        if !claim.confirmed {
            self.warnings.push(format!("`{path}`: {} has not confirmed the claim", claim.claimed_by));
            return false;
        }
        let Ok(value) = claim.value.typed(axis) else { return false };
        if is_always_human(inputs, axis) {
            return false;
        }
        self.note_others(on_axis, &value, path, axis, &format!("{} confirmed another value", claim.claimed_by));
        self.accept(value, Basis::HumanConfirmation, Backing::Claim(claim));
        true
    }

    /// Settles the axis by the statements of the oracles.
    fn by_oracles(&mut self, inputs: &Inputs, on_axis: &OnAxis<'a>, path: &str, axis: &Axis) {
        let resolution = resolve(inputs, on_axis, path, axis);
        self.steps = resolution.steps;
        match resolution.outcome {
            Outcome::Value(value, members) => {
                let basis = match (self.steps.is_empty(), on_axis.statements.len()) {
                    (true, 1) => Basis::OnlySource,
                    (true, _) => Basis::Agreement,
                    (false, _) => Basis::Resolution,
                };
                self.warnings.extend(suspicion(inputs, on_axis, path, &self.steps));
                self.accept(value, basis, Backing::Oracles(members.into_iter().cloned().collect()));
            }
            Outcome::Escalated(reason) => self.refuse([reason].into()),
            Outcome::Disputed => self.refuse([Reason::Disputed].into()),
            Outcome::Nothing if on_axis.has_unverified => self.refuse([Reason::UnverifiedOnly].into()),
            Outcome::Nothing => self.refuse([Reason::NoValue].into()),
        }
    }

    fn accept(&mut self, value: Typed, basis: Basis, backing: Backing<'a>) {
        self.standing = Standing::Settled;
        (self.value, self.basis, self.backing) = (Some(value), Some(basis), backing);
    }

    /// Adds a warning for each oracle with another value than the person's.
    fn note_others(&mut self, on_axis: &OnAxis<'_>, value: &Typed, path: &str, axis: &Axis, why: &str) {
        let others = on_axis.statements.iter().filter(|statement| !agree(axis, &statement.value, value));
        let warnings =
            others.map(|other| format!("{}: has another value of `{path}`; {why}", other.voice.oracle_id));
        self.warnings.extend(warnings);
    }
}
