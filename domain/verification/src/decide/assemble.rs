//! Builds the envelope of a ruling, with only the content that may be shown, and with advice on a retry if it is
//! `blocked`.

use super::CombinedDecision;
use crate::axis_settlement::{AxisSettlement, AxisStatus, ValueOrigin};
use crate::envelope::{
    AxisEvidence, AxisOutcome, CandidateOutcome, Envelope, EnvelopeKind, EnvelopeVerificationStatus,
    RetryAdvice, Reverification,
};
use crate::inputs::DecisionInputs;
use crate::oracle_call::{CallFailure, CallOutcome, OracleReply};
use crate::reason::AxisReason;
use crate::request::ValidatedClaim;
use crate::statements::{
    AxisStatement, CollectedAnswers, MissingSource, MissingSourceReason, UsableAnswer, axis_ttl_s,
    counted_tier, ttl_s,
};
use crate::stored_state::oracle_id;
use crate::verification_record::{OracleVerificationRecord, VerificationTier};
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::moment::format_span;
use domain_ground::axis::AxisClass;
use domain_ground::id::SourceId;
use domain_ground::source::CONFIRMATION_ORACLE_ID;
use std::collections::{BTreeMap, BTreeSet};

/// The disclaimer that must accompany an axis without verification.
const DISCLAIMER: &str = "Nothing of this was verified against a registered source. It holds no measurement, classification \
                          or action, and must not be used as one.";

/// Builds the envelope of `ruling`. `unspecified` lists the identity axes that the question leaves open.
pub(super) fn envelope(
    inputs: &DecisionInputs,
    collected: &CollectedAnswers<'_>,
    ruling: &CombinedDecision<'_>,
    unspecified: Vec<String>,
) -> Envelope {
    let kind = ruling.kind;
    let is_authoritative = kind == EnvelopeKind::Authoritative;
    let outcome = |path: &String| {
        let kind = ruling.kind_of(path);
        let outcome = match ruling.settled.get(path.as_str()) {
            Some(settlement) => axis(inputs, path, settlement, kind),
            None => unsettled(kind, ruling.reasons.clone()),
        };
        (path.clone(), outcome)
    };
    let axes: BTreeMap<_, _> = inputs.question.axes.iter().map(outcome).collect();
    let is_narrative = axes.values().any(|axis| axis.kind == EnvelopeKind::NarrativeOnly);
    let with_answers = ruling.settled.iter().filter(|(path, _)| ruling.kind_of(path).has_oracle_answers());
    let steps = with_answers.flat_map(|(_, settlement)| settlement.steps.iter().cloned()).collect();
    let mut warnings = collected.warnings.clone();
    warnings.extend(ruling.settled.values().flat_map(|settlement| settlement.warnings.iter().cloned()));
    let reverify = ruling.reverify.iter().map(|(oracle_id, (axes, reasons))| Reverification {
        oracle_id: (*oracle_id).clone(),
        axes: axes.clone(),
        reasons: reasons.clone(),
    });
    Envelope {
        execution_id: inputs.execution_id.clone(),
        kind,
        status: if is_authoritative {
            EnvelopeVerificationStatus::Verified
        } else {
            EnvelopeVerificationStatus::Unverified
        },
        workflow: inputs.workflow.workflow_id.clone(),
        workflow_sha256: digest_of_json(&inputs.workflow),
        ontology: inputs.workflow.ontology.clone(),
        subject: inputs.question.subject.clone(),
        point_in_time: inputs.question.point_in_time,
        known_at: inputs.question.known_at,
        decided_at: inputs.decided_at,
        reasons: ruling.reasons.clone(),
        axes,
        candidates: collected
            .outcomes
            .iter()
            .map(|outcome| candidate(inputs, collected, *outcome, ruling))
            .collect(),
        steps,
        warnings,
        disclaimer: is_narrative.then(|| DISCLAIMER.to_owned()),
        retry: (kind == EnvelopeKind::Blocked).then(|| advise_retry(inputs, ruling)),
        review_id: None,
        unspecified,
        reverify: reverify.collect(),
        inputs_sha256: inputs.digest(),
        sha256: Sha256Hex::of(b""),
    }
    .with_digest()
}

fn unsettled(kind: EnvelopeKind, reasons: BTreeSet<AxisReason>) -> AxisOutcome {
    AxisOutcome {
        kind,
        standing: AxisStatus::Unsettled,
        value: None,
        unit: None,
        definition: None,
        basis: None,
        evidence: Vec::new(),
        delta: None,
        reasons,
    }
}

fn axis(
    inputs: &DecisionInputs,
    path: &str,
    settlement: &AxisSettlement<'_>,
    kind: EnvelopeKind,
) -> AxisOutcome {
    let outcome = AxisOutcome {
        standing: settlement.status,
        delta: settlement.delta.clone().filter(|_| kind.has_oracle_answers()),
        ..unsettled(kind, settlement.reasons.clone())
    };
    if kind != EnvelopeKind::Authoritative {
        return outcome;
    }
    let definition = match &settlement.origin {
        ValueOrigin::Oracles(members) => {
            members.first().and_then(|member| member.definition).map(str::to_owned)
        }
        ValueOrigin::Lock(lock) => lock.definition.clone(),
        ValueOrigin::NoValue | ValueOrigin::Claim(_) => None,
    };
    AxisOutcome {
        value: settlement.value.as_ref().map(|value| value.to_value()),
        unit: inputs.axes.get(path).and_then(|axis| axis.unit.clone()),
        definition,
        basis: settlement.basis,
        evidence: evidence(inputs, path, settlement),
        ..outcome
    }
}

fn evidence(inputs: &DecisionInputs, path: &str, settlement: &AxisSettlement<'_>) -> Vec<AxisEvidence> {
    match &settlement.origin {
        ValueOrigin::NoValue => Vec::new(),
        ValueOrigin::Oracles(members) => {
            let of_member = |member: &AxisStatement<'_>| AxisEvidence {
                record: record(inputs, member.answer, member.tier, [path].into_iter()),
                observed_at: member.answer.candidate.observed_at,
                stale: member.answer.is_cached,
            };
            members.iter().map(of_member).collect()
        }
        ValueOrigin::Lock(lock) => {
            let mut record = lock.record();
            let limit_s = inputs.axes.get(path).and_then(axis_ttl_s);
            record.ttl_seconds = record.ttl_seconds.into_iter().chain(limit_s).min();
            vec![AxisEvidence { record, observed_at: lock.verified_at, stale: false }]
        }
        ValueOrigin::Claim(claim) => {
            let record = confirmation(inputs, path, claim);
            vec![AxisEvidence { record, observed_at: inputs.asked_at, stale: false }]
        }
    }
}

/// The verification record of a confirmed claim, with the claimant as verifier.
fn confirmation(inputs: &DecisionInputs, path: &str, claim: &ValidatedClaim) -> OracleVerificationRecord {
    OracleVerificationRecord {
        oracle_id: oracle_id(CONFIRMATION_ORACLE_ID),
        oracle_tier: VerificationTier::Unverified,
        source_locator: format!("urn:oracled:claim:{}:{path}", inputs.execution_id),
        source_version: None,
        retrieved_at: inputs.asked_at,
        verified_at: inputs.asked_at,
        verification_method: "explicit human confirmation".into(),
        verifier_id: claim.claimed_by.clone(),
        evidence_hash: Some(digest_of_json(claim)),
        signature_info: None,
        ttl_seconds: inputs.axes.get(path).and_then(axis_ttl_s),
        chain_of_custody: None,
    }
}

/// The record of an answer, at the tier at which it counts, with the time to live that is enforced on
/// state-sensitive axes.
fn record<'p>(
    inputs: &DecisionInputs,
    answer: &UsableAnswer<'_>,
    oracle_tier: VerificationTier,
    paths: impl Iterator<Item = &'p str>,
) -> OracleVerificationRecord {
    let axes = paths.filter_map(|path| inputs.axes.get(path)).filter(|axis| axis.state_sensitive);
    let ttl_s = axes.filter_map(|axis| ttl_s(answer, axis)).min();
    let record = answer.candidate.record.clone();
    OracleVerificationRecord { oracle_tier, ttl_seconds: ttl_s.or(record.ttl_seconds), ..record }
}

fn candidate(
    inputs: &DecisionInputs,
    collected: &CollectedAnswers<'_>,
    (oracle_id, outcome): (&SourceId, CallOutcome),
    ruling: &CombinedDecision<'_>,
) -> CandidateOutcome {
    let call = inputs.calls.get(oracle_id);
    let answer = collected.answers.iter().find(|answer| answer.oracle_id == oracle_id);
    let tier = answer.map(|answer| counted_tier(inputs, answer));
    let paths = |answer: &UsableAnswer<'_>| {
        let requested = inputs.question.axes.iter().filter(|path| answer.requested.contains(path));
        requested.map(String::as_str).collect::<Vec<_>>()
    };
    let shown = answer.map(|answer| {
        let shown = paths(answer).into_iter().filter(|path| ruling.kind_of(path).has_oracle_answers());
        (answer, shown.collect::<Vec<_>>())
    });
    CandidateOutcome {
        oracle_id: oracle_id.clone(),
        outcome,
        registered_tier: call.map(|call| call.oracle_tier),
        tier,
        values: shown.as_ref().map(|(answer, paths)| of(paths, &answer.candidate.values)).unwrap_or_default(),
        deviations: shown
            .as_ref()
            .map(|(answer, paths)| of(paths, &answer.candidate.deviations))
            .unwrap_or_default(),
        record: answer
            .zip(tier)
            .map(|(answer, tier)| record(inputs, answer, tier, paths(answer).into_iter())),
        observed_at: answer.map(|answer| answer.candidate.observed_at),
        stale: answer.is_some_and(|answer| answer.is_cached),
        contested: ruling.contested.contains(oracle_id),
        late: call.is_some_and(|call| call.latency_ms > inputs.workflow.oracle_latency.soft_timeout_ms),
        latency_ms: call.map_or(0, |call| call.latency_ms),
    }
}

/// The entries of `by_axis` for these axes.
fn of<T: Clone>(paths: &[&str], by_axis: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    paths.iter().filter_map(|path| Some(((*path).to_owned(), by_axis.get(*path)?.clone()))).collect()
}

/// The guidance on a retry. The advice names the oracles and the delay, because it is also shown without the
/// other members.
fn advise_retry(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let has = |reason| ruling.reasons.contains(&reason);
    if has(AxisReason::QueueFull) {
        let advice = "too many questions wait for a reviewer already; ask again after some are resolved";
        return RetryAdvice { after_ms: None, oracles: Vec::new(), advice: advice.into() };
    }
    if !ruling.reverify.is_empty() {
        let oracles: Vec<_> = ruling.reverify.keys().map(|oracle_id| (*oracle_id).clone()).collect();
        let after_ms = inputs.workflow.oracle_latency.soft_timeout_ms;
        let advice =
            format!("{} must be queried again: {}", join_oracle_ids(&oracles), format_retry_delay(after_ms));
        return RetryAdvice { after_ms: Some(after_ms), oracles, advice };
    }
    if has(AxisReason::Stale) || has(AxisReason::Expired) {
        let oracles: Vec<_> = stale(inputs, ruling).into_iter().collect();
        let advice = format!(
            "the answer of {} is too old; ingest a newer release, or allow its age in the policy",
            join_oracle_ids(&oracles)
        );
        return RetryAdvice { after_ms: None, oracles, advice };
    }
    if has(AxisReason::OracleUnusable) {
        return advise_for_unusable(ruling);
    }
    if !ruling.missing.is_empty() {
        return advise_for_missing(inputs, ruling);
    }
    if has(AxisReason::BudgetExceeded) {
        let after_ms = inputs.workflow.oracle_latency.hard_timeout_ms;
        let advice = format!("the decision exceeded its time budget: {}", format_retry_delay(after_ms));
        return RetryAdvice { after_ms: Some(after_ms), oracles: Vec::new(), advice };
    }
    let helps = if can_be_confirmed(inputs, ruling) {
        "ask again after the claimant has confirmed the value"
    } else {
        "asking again does not help by itself"
    };
    let advice = format!("no trusted source of the workflow has a value: {helps}");
    RetryAdvice { after_ms: None, oracles: Vec::new(), advice }
}

/// The guidance if oracles failed, or gave answers that cannot be trusted.
fn advise_for_unusable(ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let unusable = ruling.missing.iter().filter(|absent| absent.reason == MissingSourceReason::Unusable);
    // the causes, if all failures are of this kind
    let causes_of_all = |kind: CallFailure| {
        let causes = unusable.clone().map(|absent| match &absent.call.reply {
            OracleReply::Failed { failure, cause } if *failure == kind => Some(cause.as_str()),
            _ => None,
        });
        causes.collect::<Option<Vec<_>>>()
    };
    let oracles: Vec<_> = unusable.clone().map(|absent| absent.oracle_id.clone()).collect();
    let names = join_oracle_ids(&oracles);
    let advice = if causes_of_all(CallFailure::Rejected).is_some() {
        format!("{names} cannot answer this question; ask another one, or use another workflow")
    } else if let Some(causes) = causes_of_all(CallFailure::NotReady) {
        format!("ask again after an administrator has changed this: {}", causes.join("; "))
    } else {
        format!("an administrator has to check {names}: it failed, or its answer cannot be trusted")
    };
    RetryAdvice { after_ms: None, oracles, advice }
}

/// The guidance if oracles gave no answer.
fn advise_for_missing(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> RetryAdvice {
    let oracles: Vec<_> = ruling.missing.iter().map(|absent| absent.oracle_id.clone()).collect();
    let pauses = ruling.missing.iter().map(|absent| pause_ms(inputs, absent));
    let after_ms = pauses.collect::<Option<Vec<_>>>().and_then(|pauses| pauses.into_iter().max());
    let helps =
        after_ms.map_or_else(|| "an administrator has to close the circuit".to_owned(), format_retry_delay);
    RetryAdvice {
        after_ms,
        advice: format!("no answer came from {}: {helps}", join_oracle_ids(&oracles)),
        oracles,
    }
}

fn format_retry_delay(after_ms: u64) -> String {
    format!("ask again in {}", format_span(after_ms.div_ceil(1000)))
}

fn join_oracle_ids(oracles: &[SourceId]) -> String {
    oracles.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")
}

/// Whether each axis without a value is self-reported and has a claim that is not confirmed.
fn can_be_confirmed(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> bool {
    let is_self_reported =
        |path: &str| inputs.axes.get(path).is_some_and(|axis| axis.class == AxisClass::SelfReported);
    let is_claimed = |path: &str| inputs.question.claimed.get(path).is_some_and(|claim| !claim.confirmed);
    let mut open = ruling.settled.iter().filter(|(_, settlement)| settlement.value.is_none()).peekable();
    open.peek().is_some() && open.all(|(path, _)| is_self_reported(path) && is_claimed(path))
}

/// The delay before a retry of an oracle, in milliseconds; `None` if an administrator must act first.
fn pause_ms(inputs: &DecisionInputs, absent: &MissingSource<'_>) -> Option<u64> {
    match &absent.call.reply {
        OracleReply::CircuitOpen { retry_after_ms } => *retry_after_ms,
        _ => Some(inputs.workflow.oracle_latency.hard_timeout_ms),
    }
}

fn stale(inputs: &DecisionInputs, ruling: &CombinedDecision<'_>) -> BTreeSet<SourceId> {
    let stale = ruling.settled.values().flat_map(|settlement| settlement.stale.iter());
    let known = stale.filter(|oracle_id| inputs.calls.contains_key(**oracle_id));
    known.map(|oracle_id| (*oracle_id).clone()).collect()
}
