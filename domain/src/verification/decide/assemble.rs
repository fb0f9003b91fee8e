//! Builds the envelope of a ruling, with only the content that may be shown.

use super::{Ruling, retry};
use crate::base::digest::Sha256Hex;
use crate::ground::axis::Axis;
use crate::ground::digest_of_json;
use crate::ground::id::SourceId;
use crate::ground::source::CONFIRMATION_ORACLE_ID;
use crate::verification::call::CallOutcome;
use crate::verification::envelope::{
    AxisOutcome, CandidateOutcome, Envelope, EnvelopeKind, Evidence, Reverification, VerificationStatus,
};
use crate::verification::hearing::{Hearing, Voice};
use crate::verification::inputs::Inputs;
use crate::verification::lock::oracle_id;
use crate::verification::reason::Reason;
use crate::verification::record::OracleVerificationRecord;
use crate::verification::request::Claim;
use crate::verification::settle::{Backing, Settlement, Standing};
use crate::verification::statements::{Statement, counted_tier, ttl_s};
use crate::verification::tier::Tier;
use std::collections::{BTreeMap, BTreeSet};

/// The disclaimer that must accompany an axis without verification.
const DISCLAIMER: &str = "Nothing of this was verified against a registered source. It holds no measurement, classification \
                          or action, and must not be used as one.";

/// Builds the envelope of `ruling`. `unspecified` lists the identity axes that the question leaves open.
pub(super) fn envelope(
    inputs: &Inputs,
    hearing: &Hearing<'_>,
    ruling: &Ruling<'_>,
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
    let told = ruling.settled.iter().filter(|(path, _)| ruling.kind_of(path).tells_what_oracles_say());
    let steps = told.flat_map(|(_, settlement)| settlement.steps.iter().cloned()).collect();
    let mut warnings = hearing.warnings.clone();
    warnings.extend(ruling.settled.values().flat_map(|settlement| settlement.warnings.iter().cloned()));
    let reverify = ruling.reverify.iter().map(|(oracle_id, (axes, reasons))| Reverification {
        oracle_id: (*oracle_id).clone(),
        axes: axes.clone(),
        reasons: reasons.clone(),
    });
    Envelope {
        execution_id: inputs.execution_id.clone(),
        kind,
        status: if is_authoritative { VerificationStatus::Verified } else { VerificationStatus::Unverified },
        workflow: inputs.workflow.workflow_id.clone(),
        workflow_sha256: digest_of_json(&inputs.workflow),
        ontology: inputs.workflow.ontology.clone(),
        thing: inputs.question.thing.clone(),
        point_in_time: inputs.question.point_in_time,
        known_at: inputs.question.known_at,
        decided_at: inputs.decided_at,
        reasons: ruling.reasons.clone(),
        axes,
        candidates: hearing.outcomes.iter().map(|heard| candidate(inputs, hearing, *heard, ruling)).collect(),
        steps,
        warnings,
        disclaimer: is_narrative.then(|| DISCLAIMER.to_owned()),
        retry: (kind == EnvelopeKind::Blocked).then(|| retry::guidance(inputs, ruling)),
        review_id: None,
        unspecified,
        reverify: reverify.collect(),
        inputs_sha256: inputs.digest(),
        sha256: Sha256Hex::of(b""),
    }
    .sealed()
}

fn unsettled(kind: EnvelopeKind, reasons: BTreeSet<Reason>) -> AxisOutcome {
    AxisOutcome {
        kind,
        standing: Standing::Unsettled,
        value: None,
        unit: None,
        definition: None,
        basis: None,
        evidence: Vec::new(),
        delta: None,
        reasons,
    }
}

fn axis(inputs: &Inputs, path: &str, settlement: &Settlement<'_>, kind: EnvelopeKind) -> AxisOutcome {
    let outcome = AxisOutcome {
        standing: settlement.standing,
        delta: settlement.delta.clone().filter(|_| kind.tells_what_oracles_say()),
        ..unsettled(kind, settlement.reasons.clone())
    };
    if kind != EnvelopeKind::Authoritative {
        return outcome;
    }
    let definition = match &settlement.backing {
        Backing::Oracles(members) => members.first().and_then(|member| member.definition).map(str::to_owned),
        Backing::Lock(lock) => lock.definition.clone(),
        Backing::Nobody | Backing::Claim(_) => None,
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

fn evidence(inputs: &Inputs, path: &str, settlement: &Settlement<'_>) -> Vec<Evidence> {
    match &settlement.backing {
        Backing::Nobody => Vec::new(),
        Backing::Oracles(members) => {
            let of_member = |member: &Statement<'_>| Evidence {
                record: record(inputs, member.voice, member.tier, [path].into_iter()),
                observed_at: member.voice.candidate.observed_at,
                stale: member.voice.is_kept,
            };
            members.iter().map(of_member).collect()
        }
        Backing::Lock(lock) => {
            let mut record = lock.record();
            let limit_s = inputs.axes.get(path).and_then(Axis::ttl_s);
            record.ttl_seconds = record.ttl_seconds.into_iter().chain(limit_s).min();
            vec![Evidence { record, observed_at: lock.verified_at, stale: false }]
        }
        Backing::Claim(claim) => {
            let record = confirmation(inputs, path, claim);
            vec![Evidence { record, observed_at: inputs.asked_at, stale: false }]
        }
    }
}

/// The verification record of a confirmed claim, with the claimant as verifier.
fn confirmation(inputs: &Inputs, path: &str, claim: &Claim) -> OracleVerificationRecord {
    OracleVerificationRecord {
        oracle_id: oracle_id(CONFIRMATION_ORACLE_ID),
        oracle_tier: Tier::Unverified,
        source_locator: format!("urn:oracled:claim:{}:{path}", inputs.execution_id),
        source_version: None,
        retrieved_at: inputs.asked_at,
        verified_at: inputs.asked_at,
        verification_method: "explicit human confirmation".into(),
        verifier_id: claim.claimed_by.clone(),
        evidence_hash: Some(digest_of_json(claim)),
        signature_info: None,
        ttl_seconds: inputs.axes.get(path).and_then(Axis::ttl_s),
        chain_of_custody: None,
    }
}

/// The record of an answer, at the tier at which it counts, with the time to live that is enforced on state-sensitive axes.
fn record<'p>(
    inputs: &Inputs,
    voice: &Voice<'_>,
    oracle_tier: Tier,
    paths: impl Iterator<Item = &'p str>,
) -> OracleVerificationRecord {
    let axes = paths.filter_map(|path| inputs.axes.get(path)).filter(|axis| axis.state_sensitive);
    let ttl_s = axes.filter_map(|axis| ttl_s(voice, axis)).min();
    let record = voice.candidate.record.clone();
    OracleVerificationRecord { oracle_tier, ttl_seconds: ttl_s.or(record.ttl_seconds), ..record }
}

fn candidate(
    inputs: &Inputs,
    hearing: &Hearing<'_>,
    (oracle_id, outcome): (&SourceId, CallOutcome),
    ruling: &Ruling<'_>,
) -> CandidateOutcome {
    let call = inputs.calls.get(oracle_id);
    let voice = hearing.voices.iter().find(|voice| voice.oracle_id == oracle_id);
    let tier = voice.map(|voice| counted_tier(inputs, voice));
    let paths = |voice: &Voice<'_>| {
        let asked = inputs.question.axes.iter().filter(|path| voice.asked.contains(path));
        asked.map(String::as_str).collect::<Vec<_>>()
    };
    let told = voice.map(|voice| {
        let told = paths(voice).into_iter().filter(|path| ruling.kind_of(path).tells_what_oracles_say());
        (voice, told.collect::<Vec<_>>())
    });
    CandidateOutcome {
        oracle_id: oracle_id.clone(),
        outcome,
        registered_tier: call.map(|call| call.oracle_tier),
        tier,
        values: told.as_ref().map(|(voice, paths)| of(paths, &voice.candidate.values)).unwrap_or_default(),
        deviations: told
            .as_ref()
            .map(|(voice, paths)| of(paths, &voice.candidate.deviations))
            .unwrap_or_default(),
        record: voice.zip(tier).map(|(voice, tier)| record(inputs, voice, tier, paths(voice).into_iter())),
        observed_at: voice.map(|voice| voice.candidate.observed_at),
        stale: voice.is_some_and(|voice| voice.is_kept),
        contested: ruling.contested.contains(oracle_id),
        late: call.is_some_and(|call| call.latency_ms > inputs.workflow.oracle_latency.soft_timeout_ms),
        latency_ms: call.map_or(0, |call| call.latency_ms),
    }
}

/// The entries of `by_axis` for these axes.
fn of<T: Clone>(paths: &[&str], by_axis: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    paths.iter().filter_map(|path| Some(((*path).to_owned(), by_axis.get(*path)?.clone()))).collect()
}
