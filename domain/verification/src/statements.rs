//! The statements of the oracles: their collected answers and the oracles that are missing; for one axis, the tier at
//! which each counts, the values that are too old, and whether two values agree.

use super::inputs::DecisionInputs;
use super::reason::AxisReason;
use super::workflow::AxisThresholds;
use crate::oracle_call::{AnswerFault, CallFailure, CallOutcome, CallTimeLimit, OracleCall, OracleReply};
use crate::verification_record::{CandidateAnswer, VerificationTier};
use crate::workflow::OracleTimeoutBehavior;
use domain_base::decimal::{Decimal, Rounding};
use domain_base::moment::{CLOCK_SKEW_MAX, format_age_and_limit};
use domain_ground::axis::Axis;
use domain_ground::freshness::{STATE_SENSITIVE_MAX_AGE_S, StaleBehavior, age_s};
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use domain_ground::value::TypedValue;
use jiff::Timestamp;
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

    /// The oracles that disagree with another one, on the value or on its definition.
    pub(super) fn contesting_oracles(&self, axis: &Axis) -> BTreeSet<&'a SourceId> {
        let disagree = |(one, other): &(&AxisStatement<'a>, &AxisStatement<'a>)| {
            one.definition != other.definition || !is_agreement(axis, &one.value, &other.value)
        };
        let pairs = self.pairs().filter(disagree);
        pairs.flat_map(|(one, other)| [one.answer.oracle_id, other.answer.oracle_id]).collect()
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

/// Whether two values of `axis` agree. Numbers agree if they are equal after rounding to the axis's
/// precision, or within its relative tolerance. Other values agree if they are equal.
pub(super) fn is_agreement(axis: &Axis, one: &TypedValue, other: &TypedValue) -> bool {
    if one == other {
        return true;
    }
    let (TypedValue::Number(a), TypedValue::Number(b)) = (one, other) else { return false };
    let rounds_alike = |places: i32| {
        let rounded = |number: &Decimal| number.round(places, Rounding::HalfEven);
        matches!((rounded(a), rounded(b)), (Ok(a), Ok(b)) if a == b)
    };
    axis.precision.is_some_and(rounds_alike)
        || axis.relative_tolerance.as_ref().is_some_and(|part| !is_ratio_exceeded(a, b, part))
}

/// The difference of two numbers, without rounding; `None` for other values.
pub(super) fn delta(one: &TypedValue, other: &TypedValue) -> Option<Decimal> {
    let (TypedValue::Number(one), TypedValue::Number(other)) = (one, other) else { return None };
    difference(one, other)
}

/// Whether two numbers differ by more than `part` of the larger magnitude. True if the difference cannot be computed.
fn is_ratio_exceeded(one: &Decimal, other: &Decimal, part: &Decimal) -> bool {
    let limit = magnitude(one).max(magnitude(other)).and_then(|larger| larger.checked_mul(part).ok());
    difference(one, other).zip(limit).is_none_or(|(difference, limit)| difference > limit)
}

/// Whether two numbers differ in sign, or the larger magnitude is more than `factor` times the smaller one.
fn is_factor_exceeded(one: &Decimal, other: &Decimal, factor: &Decimal) -> bool {
    let zero = Decimal::from(0);
    if one == other {
        return false;
    }
    if (*one < zero) != (*other < zero) || *one == zero || *other == zero {
        return true;
    }
    let (one, other) = (magnitude(one), magnitude(other));
    let limit = one.clone().min(other.clone()).and_then(|smaller| smaller.checked_mul(factor).ok());
    one.max(other).zip(limit).is_none_or(|(larger, limit)| larger > limit)
}

fn difference(one: &Decimal, other: &Decimal) -> Option<Decimal> {
    let (low, high) = if one <= other { (one, other) } else { (other, one) };
    high.checked_sub(low).ok()
}

fn magnitude(number: &Decimal) -> Option<Decimal> {
    let zero = Decimal::from(0);
    if *number < zero { zero.checked_sub(number).ok() } else { Some(number.clone()) }
}

/// The collected answers, in the workflow's order. An untrusted oracle adds only its answer: no decision depends on it.
#[derive(Debug, Default)]
pub(super) struct CollectedAnswers<'a> {
    pub(super) answers: Vec<UsableAnswer<'a>>,
    /// Each oracle, with the outcome of its call.
    pub(super) outcomes: Vec<(&'a SourceId, CallOutcome)>,
    /// The registered oracles without a usable answer.
    pub(super) missing: Vec<MissingSource<'a>>,
    /// The registered oracles with several matching records.
    pub(super) ambiguous: Vec<&'a SourceId>,
    pub(super) warnings: Vec<String>,
}

/// An oracle with a usable answer.
#[derive(Debug)]
pub(super) struct UsableAnswer<'a> {
    pub(super) oracle_id: &'a SourceId,
    /// The axes that the oracle was asked for. Its values on other axes are ignored.
    pub(super) requested: &'a [String],
    pub(super) candidate: &'a CandidateAnswer,
    /// The registered tier; one lower if the answer has neither a version nor a hash.
    pub(super) tier: VerificationTier,
    /// Whether a cached answer replaced a missing one.
    pub(super) is_cached: bool,
}

/// A registered oracle without a usable answer.
#[derive(Debug)]
pub(super) struct MissingSource<'a> {
    pub(super) oracle_id: &'a SourceId,
    pub(super) call: &'a OracleCall,
    pub(super) reason: MissingSourceReason,
}

/// Why an oracle has no usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MissingSourceReason {
    /// The oracle exceeded this limit.
    TooSlow(CallTimeLimit),
    /// The oracle cannot be reached.
    Unreachable,
    /// The oracle failed, or its answer cannot be trusted.
    Unusable,
}

impl MissingSourceReason {
    /// The reason why an axis is not settled then.
    pub(super) const fn reason(self) -> AxisReason {
        match self {
            Self::TooSlow(_) | Self::Unreachable => AxisReason::OracleUnreachable,
            Self::Unusable => AxisReason::OracleUnusable,
        }
    }
}

/// The result of one call.
enum ClassifiedReply<'a> {
    Usable(&'a CandidateAnswer),
    Nothing,
    Several,
    Missing(MissingSourceReason, String),
}

/// Collects the results of the calls of `inputs`.
pub(super) fn collect_answers(inputs: &DecisionInputs) -> CollectedAnswers<'_> {
    let mut collected = CollectedAnswers::default();
    for oracle_id in &inputs.workflow.oracles {
        match inputs.calls.get(oracle_id) {
            Some(call) => collected.add_call(inputs, oracle_id, call),
            None => collected.outcomes.push((oracle_id, CallOutcome::NotAsked)),
        }
    }
    collected
}

impl<'a> CollectedAnswers<'a> {
    fn add_call(&mut self, inputs: &'a DecisionInputs, oracle_id: &'a SourceId, call: &'a OracleCall) {
        let is_registered = call.oracle_tier != OracleTier::Unverified;
        let mut warnings = call.warnings.clone();
        let (mut classified, mut is_cached) = (classify_reply(inputs, oracle_id, call, &mut warnings), false);
        self.outcomes.push((oracle_id, outcome(&call.reply, &classified)));
        if let ClassifiedReply::Missing(absence, cause) = &classified {
            warnings.push(format!("{oracle_id}: {cause}"));
            if let Some(candidate) = find_cached_answer(inputs, oracle_id, call, *absence, &mut warnings) {
                (classified, is_cached) = (ClassifiedReply::Usable(candidate), true);
            }
        }
        match classified {
            ClassifiedReply::Usable(candidate) => {
                let mut tier = VerificationTier::from(call.oracle_tier);
                if !candidate.record.is_pinned() {
                    tier = tier.lower();
                    warnings.push(format!(
                        "{oracle_id}: the answer has neither a version nor a hash, and counts as {}",
                        tier.into_str()
                    ));
                }
                self.answers.push(UsableAnswer {
                    oracle_id,
                    requested: &call.axes,
                    candidate,
                    tier,
                    is_cached,
                });
            }
            ClassifiedReply::Nothing => {}
            ClassifiedReply::Several => self.ambiguous.extend(is_registered.then_some(oracle_id)),
            ClassifiedReply::Missing(absence, _) if is_registered => {
                self.missing.push(MissingSource { oracle_id, call, reason: absence });
            }
            ClassifiedReply::Missing(..) => {}
        }
        if is_registered {
            self.warnings.append(&mut warnings);
        }
    }
}

/// The outcome of a call. An answer that cannot be used counts as refused.
const fn outcome(reply: &OracleReply, classified: &ClassifiedReply<'_>) -> CallOutcome {
    match (reply, classified) {
        (_, ClassifiedReply::Missing(MissingSourceReason::TooSlow(_), _)) => CallOutcome::TimedOut,
        (OracleReply::Answered { .. }, ClassifiedReply::Missing(..)) => CallOutcome::Refused,
        _ => reply.outcome(),
    }
}

fn classify_reply<'a>(
    inputs: &DecisionInputs,
    oracle_id: &SourceId,
    call: &'a OracleCall,
    warnings: &mut Vec<String>,
) -> ClassifiedReply<'a> {
    let latency = &inputs.workflow.oracle_latency;
    let unusable = |cause: String| ClassifiedReply::Missing(MissingSourceReason::Unusable, cause);
    match &call.reply {
        OracleReply::Answered { .. } | OracleReply::NoRecord | OracleReply::Several { .. }
            if call.latency_ms > latency.hard_timeout_ms =>
        {
            let allowed = latency.hard_timeout_ms;
            let cause = format!("answered only after its hard timeout of {allowed} ms");
            ClassifiedReply::Missing(MissingSourceReason::TooSlow(CallTimeLimit::HardTimeout), cause)
        }
        OracleReply::Answered { candidate } => {
            match find_answer_fault(inputs, oracle_id, candidate, call.ended_at) {
                Some((refusal, cause)) => unusable(format_rejection(refusal, &cause)),
                None => {
                    if call.latency_ms > latency.soft_timeout_ms {
                        let (took, soft) = (call.latency_ms, latency.soft_timeout_ms);
                        warnings.push(format!(
                            "{oracle_id}: answered late, after {took} ms; {soft} ms are the soft timeout"
                        ));
                    }
                    ClassifiedReply::Usable(candidate)
                }
            }
        }
        OracleReply::NoRecord | OracleReply::NotAwaited => ClassifiedReply::Nothing,
        OracleReply::Several { records } => {
            warnings.push(format!("{oracle_id}: {records} of its records match the question"));
            ClassifiedReply::Several
        }
        OracleReply::TimedOut { cut } => {
            let limit = match cut {
                CallTimeLimit::HardTimeout => "its hard timeout",
                CallTimeLimit::Budget => "the budget of the decision",
            };
            ClassifiedReply::Missing(MissingSourceReason::TooSlow(*cut), format!("no answer within {limit}"))
        }
        OracleReply::Failed { failure: CallFailure::Unavailable, cause } => {
            ClassifiedReply::Missing(MissingSourceReason::Unreachable, format!("unavailable: {cause}"))
        }
        OracleReply::Failed { failure: CallFailure::NotReady, cause } => {
            unusable(format!("not ready: {cause}"))
        }
        OracleReply::Failed { failure, cause } => {
            unusable(format!("failed ({}): {cause}", failure.into_str()))
        }
        OracleReply::CircuitOpen { .. } => ClassifiedReply::Missing(
            MissingSourceReason::Unreachable,
            "not called while its circuit is open".into(),
        ),
        OracleReply::Refused { refusal, cause } => unusable(format_rejection(*refusal, cause)),
        OracleReply::NotAsked { cause } => {
            warnings.push(format!("{oracle_id}: not asked: {cause}"));
            ClassifiedReply::Nothing
        }
    }
}

fn format_rejection(refusal: AnswerFault, cause: &str) -> String {
    format!("its answer is rejected ({}): {cause}", refusal.into_str())
}

/// The cached answer of a slow or unreachable oracle, if the workflow serves it and it is not too old. It
/// never replaces an answer that cannot be trusted.
fn find_cached_answer<'a>(
    inputs: &DecisionInputs,
    oracle_id: &SourceId,
    call: &'a OracleCall,
    absence: MissingSourceReason,
    warnings: &mut Vec<String>,
) -> Option<&'a CandidateAnswer> {
    let latency = &inputs.workflow.oracle_latency;
    let (OracleTimeoutBehavior::ServeStale, Some(tolerance_s)) =
        (latency.on_timeout, latency.stale_tolerance_seconds)
    else {
        return None;
    };
    if absence == MissingSourceReason::Unusable {
        return None;
    }
    let Some(candidate) = call.kept.as_deref() else {
        warnings.push(format!("{oracle_id}: no cached answer"));
        return None;
    };
    // its times are compared with its own arrival
    let came_at = Some(candidate.record.retrieved_at);
    let (observed_at, age_s) = (candidate.observed_at, age_s(candidate.observed_at, inputs.decided_at));
    if let Some((refusal, cause)) = find_answer_fault(inputs, oracle_id, candidate, came_at) {
        warnings.push(format!(
            "{oracle_id}: its cached answer is not usable: {}",
            format_rejection(refusal, &cause)
        ));
        return None;
    }
    let (age, tolerance) = format_age_and_limit(age_s, tolerance_s);
    if age_s > tolerance_s {
        warnings.push(format!(
            "{oracle_id}: its cached answer is from {observed_at}, {age} old; the workflow allows {tolerance}"
        ));
        return None;
    }
    warnings.push(format!(
        "{oracle_id}: its cached answer from {observed_at} is used, {age} old; the workflow allows {tolerance}"
    ));
    Some(candidate)
}

/// The fault of an answer that arrived at `came_at`, if any. Its times are compared with its arrival: a time
/// in the future does not become valid because another oracle was slow.
fn find_answer_fault(
    inputs: &DecisionInputs,
    oracle_id: &SourceId,
    candidate: &CandidateAnswer,
    came_at: Option<Timestamp>,
) -> Option<(AnswerFault, String)> {
    if candidate.record.oracle_id != *oracle_id {
        let other = &candidate.record.oracle_id;
        return Some((AnswerFault::Identity, format!("it is {other}'s")));
    }
    if candidate.subject != inputs.question.subject {
        return Some((AnswerFault::Identity, "it is about another subject than the requested one".into()));
    }
    if candidate.record.signature_info.as_ref().is_some_and(|signature| !signature.signature_valid) {
        return Some((AnswerFault::Signature, "the signature is invalid".into()));
    }
    let record = &candidate.record;
    let came_at = came_at.map_or(inputs.decided_at, |came_at| came_at.min(inputs.decided_at));
    let latest = came_at.saturating_add(CLOCK_SKEW_MAX).unwrap_or(Timestamp::MAX);
    // after the clock was set back, data that the daemon ingested before has a time in the future
    let ingested_at = candidate.provenance.as_ref().map(|provenance| provenance.ingested_at);
    let latest = ingested_at.map_or(latest, |ingested_at| ingested_at.max(latest));
    let times = [candidate.observed_at, record.retrieved_at, record.verified_at];
    if let Some(ahead) = times.into_iter().find(|time| *time > latest) {
        return Some((AnswerFault::Schema, format!("{ahead} is in the future")));
    }
    // the value is not quoted, because warnings are also shown where values are withheld
    let is_none = |(path, axis): &(&String, &Axis)| {
        candidate.values.get(*path).is_some_and(|stated| stated.value.typed(axis).is_err())
    };
    let (path, axis) = inputs.axes.iter().find(is_none)?;
    Some((AnswerFault::Schema, format!("its value of `{path}` is not a {}", axis.kind.into_str())))
}
