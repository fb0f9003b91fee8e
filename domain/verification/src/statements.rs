//! The statements of the oracles on one axis, the tier at which each counts, and the values that are too old.

use super::collected_answers::{CollectedAnswers, UsableAnswer};
use super::compare::{delta, is_agreement, is_factor_exceeded, is_ratio_exceeded};
use super::inputs::DecisionInputs;
use super::reason::AxisReason;
use super::workflow::AxisThresholds;
use crate::verification_record::VerificationTier;
use domain_base::decimal::Decimal;
use domain_base::moment::format_age_and_limit;
use domain_ground::axis::Axis;
use domain_ground::freshness::{STATE_SENSITIVE_MAX_AGE_S, StaleBehavior, age_s};
use domain_ground::id::SourceId;
use domain_ground::value::TypedValue;
use std::collections::BTreeSet;

/// The value of an oracle on one axis.
#[derive(Debug, Clone)]
pub(super) struct AxisStatement<'a> {
    pub(super) answer: &'a UsableAnswer<'a>,
    pub(super) value: TypedValue,
    pub(super) definition: Option<&'a str>,
    /// The tier of the answer; one lower if the value is stale and the policy degrades it.
    pub(super) tier: VerificationTier,
}

/// The statements of all oracles on one axis.
#[derive(Debug, Default)]
pub(super) struct CollectedStatements<'a> {
    /// The statements that count, the most trusted first, then in the workflow's order.
    pub(super) statements: Vec<AxisStatement<'a>>,
    /// The registered oracles whose values are too old, with the reason.
    pub(super) outdated: Vec<(&'a SourceId, AxisReason)>,
    /// Whether untrusted oracles have a value.
    pub(super) has_unverified: bool,
    pub(super) warnings: Vec<String>,
}

/// Collects the statements of `collected` on the axis that was requested as `path`.
pub(super) fn collect_statements<'a>(
    inputs: &DecisionInputs,
    collected: &'a CollectedAnswers<'a>,
    path: &str,
    axis: &Axis,
) -> CollectedStatements<'a> {
    let mut found = CollectedStatements::default();
    for answer in &collected.answers {
        let stated = answer.candidate.values.get(path);
        let Some(stated) = stated.filter(|_| answer.requested.iter().any(|requested| requested == path))
        else {
            continue;
        };
        let Ok(value) = stated.value.typed(axis) else { continue };
        if answer.tier == VerificationTier::Unverified {
            found.has_unverified = true;
            continue;
        }
        let mut warnings = Vec::new();
        match effective_tier(inputs, answer, path, axis, &mut warnings) {
            Ok(VerificationTier::Unverified) => found.has_unverified = true,
            Ok(tier) => {
                let definition = stated.definition.as_deref();
                found.statements.push(AxisStatement { answer, value, definition, tier });
            }
            Err(reason) => found.outdated.push((answer.oracle_id, reason)),
        }
        found.warnings.append(&mut warnings);
    }
    // stable: within a tier the workflow's order stays
    found.statements.sort_by_key(|statement| std::cmp::Reverse(statement.tier));
    found
}

/// The tier at which a value counts, or the reason why it is too old.
fn effective_tier(
    inputs: &DecisionInputs,
    answer: &UsableAnswer<'_>,
    path: &str,
    axis: &Axis,
    warnings: &mut Vec<String>,
) -> Result<VerificationTier, AxisReason> {
    let (id, observed_at) = (answer.oracle_id, answer.candidate.observed_at);
    let age_s = age_s(observed_at, inputs.as_of());
    if let Some(limit_s) = ttl_s(answer, axis).filter(|limit_s| age_s > *limit_s) {
        let (age, limit) = format_age_and_limit(age_s, limit_s);
        warnings.push(format!("{id}: `{path}` is from {observed_at}, {age} old; the limit is {limit}"));
        return Err(AxisReason::Expired);
    }
    let Some(freshness) = answer.candidate.freshness.iter().find(|freshness| freshness.axis == path) else {
        warnings.push(format!("{id}: the freshness of `{path}` is not checked"));
        return Err(AxisReason::Stale);
    };
    if !freshness.stale {
        return Ok(answer.tier);
    }
    if freshness.stale_behavior != StaleBehavior::ServeStaleSilent {
        let age_s = freshness.age_seconds.unwrap_or(age_s);
        let (age, limit) = format_age_and_limit(age_s, freshness.max_age_seconds);
        let why = if age_s > freshness.max_age_seconds {
            format!("{age} old; its source allows {limit}")
        } else {
            "its source was marked stale since then".to_owned()
        };
        warnings.push(format!("{id}: `{path}` from {observed_at} is stale: {why}"));
    }
    match freshness.stale_behavior {
        StaleBehavior::ServeStaleSilent | StaleBehavior::ServeStaleWithWarning => Ok(answer.tier),
        StaleBehavior::DegradeTier => Ok(answer.tier.lower()),
        StaleBehavior::BlockUntilFresh | StaleBehavior::FailClosed => Err(AxisReason::Stale),
    }
}

/// The tier at which an answer counts: the lowest tier of its values on the requested axes.
pub(super) fn counted_tier(inputs: &DecisionInputs, answer: &UsableAnswer<'_>) -> VerificationTier {
    let requested = inputs.question.axes.iter().filter(|path| answer.requested.contains(path));
    let answered = requested.filter(|path| answer.candidate.values.contains_key(*path));
    let tiers = answered.filter_map(|path| {
        effective_tier(inputs, answer, path, inputs.axes.get(path)?, &mut Vec::new()).ok()
    });
    tiers.min().unwrap_or(answer.tier)
}

/// The maximum age of a value, in seconds, whatever the policies: the limit of the ontology and, on a
/// state-sensitive axis, the answer's own.
pub(super) fn ttl_s(answer: &UsableAnswer<'_>, axis: &Axis) -> Option<u64> {
    let own = answer.candidate.record.ttl_seconds.filter(|_| axis.state_sensitive);
    axis_ttl_s(axis).into_iter().chain(own).min()
}

/// The maximum age of a value on the axis from any oracle, in seconds; always set if the axis is state-sensitive.
pub(super) fn axis_ttl_s(axis: &Axis) -> Option<u64> {
    axis.max_ttl_seconds.or(axis.state_sensitive.then_some(STATE_SENSITIVE_MAX_AGE_S))
}

impl<'a> CollectedStatements<'a> {
    /// Whether the registered oracles disagree, on the value or on its definition.
    pub(super) fn is_contested(&self, axis: &Axis) -> bool {
        self.has_other_definitions()
            || self.pairs().any(|(one, other)| !is_agreement(axis, &one.value, &other.value))
    }

    /// Whether their values have different definitions.
    pub(super) fn has_other_definitions(&self) -> bool {
        self.pairs().any(|(one, other)| one.definition != other.definition)
    }

    /// The pairs with different values of one definition.
    fn differing(&self) -> impl Iterator<Item = (&AxisStatement<'a>, &AxisStatement<'a>)> {
        let differ = |(one, other): &(&AxisStatement<'a>, &AxisStatement<'a>)| {
            one.definition == other.definition && one.value != other.value
        };
        self.pairs().filter(differ)
    }

    /// The greatest difference between two numbers of one definition; `None` if there is no such pair.
    pub(super) fn delta(&self) -> Option<Decimal> {
        self.differing().filter_map(|(one, other)| delta(&one.value, &other.value)).max()
    }

    /// The thresholds that a difference exceeds, as reasons. A difference that cannot be computed exceeds every
    /// threshold.
    pub(super) fn exceeded_thresholds(&self, thresholds: &AxisThresholds) -> BTreeSet<AxisReason> {
        let most = thresholds.escalation_delta_threshold.as_ref();
        let is_too_far = |one: &TypedValue, other: &TypedValue| {
            most.is_some_and(|most| delta(one, other).is_none_or(|delta| delta > *most))
        };
        let part = thresholds.escalation_ratio_threshold.as_ref();
        let is_too_great_a_part = |one: &TypedValue, other: &TypedValue| match (one, other) {
            (TypedValue::Number(one), TypedValue::Number(other)) => {
                part.is_some_and(|part| is_ratio_exceeded(one, other, part))
            }
            _ => part.is_some(),
        };
        let mut exceeded = BTreeSet::new();
        for (AxisStatement { value: one, .. }, AxisStatement { value: other, .. }) in self.differing() {
            exceeded.extend(is_too_far(one, other).then_some(AxisReason::DeltaThreshold));
            exceeded.extend(is_too_great_a_part(one, other).then_some(AxisReason::RatioThreshold));
        }
        exceeded
    }

    /// The first pair whose numbers differ by more than `factor`, if any.
    pub(super) fn find_pair_beyond_factor(&self, factor: &Decimal) -> Option<(&SourceId, &SourceId)> {
        let is_apart =
            |(one, other): &(&AxisStatement<'a>, &AxisStatement<'a>)| match (&one.value, &other.value) {
                (TypedValue::Number(one), TypedValue::Number(other)) => {
                    is_factor_exceeded(one, other, factor)
                }
                _ => false,
            };
        self.differing().find(is_apart).map(|(one, other)| (one.answer.oracle_id, other.answer.oracle_id))
    }

    /// All pairs of statements.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&AxisStatement<'a>, &AxisStatement<'a>)> {
        let statements = &self.statements;
        let following = move |index: usize| statements.iter().skip(index + 1);
        statements
            .iter()
            .enumerate()
            .flat_map(move |(index, one)| following(index).map(move |other| (one, other)))
    }

    /// The oracles whose values are too old for this reason.
    pub(super) fn outdated_oracles(&self, reason: AxisReason) -> impl Iterator<Item = &'a SourceId> {
        self.outdated.iter().filter(move |(_, other)| *other == reason).map(|(oracle_id, _)| *oracle_id)
    }

    pub(super) fn oracles(&self) -> impl Iterator<Item = &'a SourceId> {
        self.statements.iter().map(|statement| statement.answer.oracle_id)
    }
}
