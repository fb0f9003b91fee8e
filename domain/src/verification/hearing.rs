//! Collects the answers of the oracles, and the oracles that are missing.

use super::call::{Call, CallOutcome, Cut, Failure, Refusal, Reply};
use super::candidate::Candidate;
use super::inputs::Inputs;
use super::reason::Reason;
use super::tier::Tier;
use super::workflow::OnTimeout;
use crate::base::moment::CLOCK_SKEW_MAX;
use crate::base::moment::age_and_limit;
use crate::ground::axis::Axis;
use crate::ground::freshness::age_s;
use crate::ground::id::SourceId;
use crate::ground::source::OracleTier;
use jiff::Timestamp;

/// The collected answers, in the workflow's order. An untrusted oracle adds only its answer: no decision depends on it.
#[derive(Debug, Default)]
pub(super) struct Hearing<'a> {
    pub(super) voices: Vec<Voice<'a>>,
    /// Each oracle, with the outcome of its call.
    pub(super) outcomes: Vec<(&'a SourceId, CallOutcome)>,
    /// The registered oracles without a usable answer.
    pub(super) absent: Vec<Absent<'a>>,
    /// The registered oracles with several matching records.
    pub(super) ambiguous: Vec<&'a SourceId>,
    pub(super) warnings: Vec<String>,
}

/// An oracle with a usable answer.
#[derive(Debug)]
pub(super) struct Voice<'a> {
    pub(super) oracle_id: &'a SourceId,
    /// The axes that the oracle was asked for. Its values on other axes are ignored.
    pub(super) asked: &'a [String],
    pub(super) candidate: &'a Candidate,
    /// The registered tier; one lower if the answer has neither a version nor a hash.
    pub(super) tier: Tier,
    /// Whether a cached answer replaced a missing one.
    pub(super) is_kept: bool,
}

/// A registered oracle without a usable answer.
#[derive(Debug)]
pub(super) struct Absent<'a> {
    pub(super) oracle_id: &'a SourceId,
    pub(super) call: &'a Call,
    pub(super) absence: Absence,
}

/// Why an oracle has no usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Absence {
    /// The oracle exceeded this limit.
    TooSlow(Cut),
    /// The oracle cannot be reached.
    Unreachable,
    /// The oracle failed, or its answer cannot be trusted.
    Unusable,
}

impl Absence {
    /// The reason why an axis is not settled then.
    pub(super) const fn reason(self) -> Reason {
        match self {
            Self::TooSlow(_) | Self::Unreachable => Reason::OracleUnreachable,
            Self::Unusable => Reason::OracleUnusable,
        }
    }
}

/// The result of one call.
enum Heard<'a> {
    Voice(&'a Candidate),
    Nothing,
    Several,
    Missing(Absence, String),
}

/// Collects the results of the calls of `inputs`.
pub(super) fn hear(inputs: &Inputs) -> Hearing<'_> {
    let mut hearing = Hearing::default();
    for oracle_id in &inputs.workflow.oracles {
        match inputs.calls.get(oracle_id) {
            Some(call) => hearing.take(inputs, oracle_id, call),
            None => hearing.outcomes.push((oracle_id, CallOutcome::NotAsked)),
        }
    }
    hearing
}

impl<'a> Hearing<'a> {
    fn take(&mut self, inputs: &'a Inputs, oracle_id: &'a SourceId, call: &'a Call) {
        let is_registered = call.oracle_tier != OracleTier::Unverified;
        let mut warnings = call.warnings.clone();
        let (mut heard, mut is_kept) = (heard(inputs, oracle_id, call, &mut warnings), false);
        self.outcomes.push((oracle_id, outcome(&call.reply, &heard)));
        if let Heard::Missing(absence, cause) = &heard {
            warnings.push(format!("{oracle_id}: {cause}"));
            if let Some(candidate) = kept(inputs, oracle_id, call, *absence, &mut warnings) {
                (heard, is_kept) = (Heard::Voice(candidate), true);
            }
        }
        match heard {
            Heard::Voice(candidate) => {
                let mut tier = Tier::from(call.oracle_tier);
                if !candidate.record.is_pinned() {
                    tier = tier.lower();
                    warnings.push(format!(
                        "{oracle_id}: the answer has neither a version nor a hash, and counts as {}",
                        tier.into_str()
                    ));
                }
                self.voices.push(Voice { oracle_id, asked: &call.axes, candidate, tier, is_kept });
            }
            Heard::Nothing => {}
            Heard::Several => self.ambiguous.extend(is_registered.then_some(oracle_id)),
            Heard::Missing(absence, _) if is_registered => {
                self.absent.push(Absent { oracle_id, call, absence });
            }
            Heard::Missing(..) => {}
        }
        if is_registered {
            self.warnings.append(&mut warnings);
        }
    }
}

/// The outcome of a call. An answer that cannot be used counts as refused.
const fn outcome(reply: &Reply, heard: &Heard<'_>) -> CallOutcome {
    match (reply, heard) {
        (_, Heard::Missing(Absence::TooSlow(_), _)) => CallOutcome::TimedOut,
        (Reply::Answered { .. }, Heard::Missing(..)) => CallOutcome::Refused,
        _ => reply.outcome(),
    }
}

fn heard<'a>(inputs: &Inputs, oracle_id: &SourceId, call: &'a Call, warnings: &mut Vec<String>) -> Heard<'a> {
    let latency = &inputs.workflow.oracle_latency;
    let unusable = |cause: String| Heard::Missing(Absence::Unusable, cause);
    match &call.reply {
        Reply::Answered { .. } | Reply::NoRecord | Reply::Several { .. }
            if call.latency_ms > latency.hard_timeout_ms =>
        {
            let allowed = latency.hard_timeout_ms;
            let cause = format!("answered only after its hard timeout of {allowed} ms");
            Heard::Missing(Absence::TooSlow(Cut::HardTimeout), cause)
        }
        Reply::Answered { candidate } => match fault(inputs, oracle_id, candidate, call.ended_at) {
            Some((refusal, cause)) => unusable(refused(refusal, &cause)),
            None => {
                if call.latency_ms > latency.soft_timeout_ms {
                    let (took, soft) = (call.latency_ms, latency.soft_timeout_ms);
                    warnings.push(format!(
                        "{oracle_id}: answered late, after {took} ms; {soft} ms are the soft timeout"
                    ));
                }
                Heard::Voice(candidate)
            }
        },
        Reply::NoRecord | Reply::NotAwaited => Heard::Nothing,
        Reply::Several { records } => {
            warnings.push(format!("{oracle_id}: {records} of its records match the question"));
            Heard::Several
        }
        Reply::TimedOut { cut } => {
            let limit = match cut {
                Cut::HardTimeout => "its hard timeout",
                Cut::Budget => "the budget of the decision",
            };
            Heard::Missing(Absence::TooSlow(*cut), format!("no answer within {limit}"))
        }
        Reply::Failed { failure: Failure::Unavailable, cause } => {
            Heard::Missing(Absence::Unreachable, format!("unavailable: {cause}"))
        }
        Reply::Failed { failure, cause } => unusable(format!("failed ({}): {cause}", failure.into_str())),
        Reply::CircuitOpen { .. } => {
            Heard::Missing(Absence::Unreachable, "not called while its circuit is open".into())
        }
        Reply::Refused { refusal, cause } => unusable(refused(*refusal, cause)),
        Reply::NotAsked { cause } => {
            warnings.push(format!("{oracle_id}: not asked: {cause}"));
            Heard::Nothing
        }
    }
}

fn refused(refusal: Refusal, cause: &str) -> String {
    format!("its answer is rejected ({}): {cause}", refusal.into_str())
}

/// The cached answer of a slow or unreachable oracle, if the workflow serves it and it is not too old. It never replaces an
/// answer that cannot be trusted.
fn kept<'a>(
    inputs: &Inputs,
    oracle_id: &SourceId,
    call: &'a Call,
    absence: Absence,
    warnings: &mut Vec<String>,
) -> Option<&'a Candidate> {
    let latency = &inputs.workflow.oracle_latency;
    let (OnTimeout::ServeStale, Some(tolerance_s)) = (latency.on_timeout, latency.stale_tolerance_seconds)
    else {
        return None;
    };
    if absence == Absence::Unusable {
        return None;
    }
    let Some(candidate) = call.kept.as_deref() else {
        warnings.push(format!("{oracle_id}: no cached answer"));
        return None;
    };
    // its times are compared with its own arrival
    let came_at = Some(candidate.record.retrieved_at);
    let (observed_at, age_s) = (candidate.observed_at, age_s(candidate.observed_at, inputs.decided_at));
    if let Some((refusal, cause)) = fault(inputs, oracle_id, candidate, came_at) {
        warnings.push(format!("{oracle_id}: its cached answer is not usable: {}", refused(refusal, &cause)));
        return None;
    }
    let (age, tolerance) = age_and_limit(age_s, tolerance_s);
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

/// The fault of an answer that arrived at `came_at`, if any. Its times are compared with its arrival: a time in the future
/// does not become valid because another oracle was slow.
fn fault(
    inputs: &Inputs,
    oracle_id: &SourceId,
    candidate: &Candidate,
    came_at: Option<Timestamp>,
) -> Option<(Refusal, String)> {
    if candidate.record.oracle_id != *oracle_id {
        let other = &candidate.record.oracle_id;
        return Some((Refusal::Identity, format!("it is {other}'s")));
    }
    if candidate.thing != inputs.question.thing {
        return Some((Refusal::Identity, "it is about another entity than the requested one".into()));
    }
    if candidate.record.signature_info.as_ref().is_some_and(|signature| !signature.signature_valid) {
        return Some((Refusal::Signature, "the signature is invalid".into()));
    }
    let record = &candidate.record;
    let came_at = came_at.map_or(inputs.decided_at, |came_at| came_at.min(inputs.decided_at));
    let latest = came_at.saturating_add(CLOCK_SKEW_MAX).unwrap_or(Timestamp::MAX);
    // after the clock was set back, data that the daemon ingested before has a time in the future
    let ingested_at = candidate.provenance.as_ref().map(|provenance| provenance.ingested_at);
    let latest = ingested_at.map_or(latest, |ingested_at| ingested_at.max(latest));
    let times = [candidate.observed_at, record.retrieved_at, record.verified_at];
    if let Some(ahead) = times.into_iter().find(|time| *time > latest) {
        return Some((Refusal::Schema, format!("{ahead} is in the future")));
    }
    // the value is not quoted, because warnings are also shown where values are withheld
    let is_none = |(path, axis): &(&String, &Axis)| {
        candidate.values.get(*path).is_some_and(|stated| stated.value.typed(axis).is_err())
    };
    let (path, axis) = inputs.axes.iter().find(is_none)?;
    Some((Refusal::Schema, format!("its value of `{path}` is not a {}", axis.kind.into_str())))
}
