//! Collects the answers of the oracles, and the oracles that are missing.

use super::inputs::DecisionInputs;
use super::oracle_call::{AnswerFault, CallFailure, CallOutcome, CallTimeLimit, OracleCall, OracleReply};
use super::reason::AxisReason;
use super::workflow::OracleTimeoutBehavior;
use crate::verification_record::{CandidateAnswer, VerificationTier};
use domain_base::moment::{CLOCK_SKEW_MAX, format_age_and_limit};
use domain_ground::axis::Axis;
use domain_ground::freshness::age_s;
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier;
use jiff::Timestamp;

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
