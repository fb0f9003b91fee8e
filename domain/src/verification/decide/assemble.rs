//! An envelope out of a ruling: what may be told of it, and nothing else.

use super::{Ruling, retry};
use crate::digest::Sha256Hex;
use crate::ground::digest_of_json;
use crate::ground::id::SourceId;
use crate::verification::call::CallOutcome;
use crate::verification::envelope::{
    AxisOutcome, CandidateOutcome, Envelope, EnvelopeKind, Evidence, Reverification, VerificationStatus,
};
use crate::verification::hearing::{Hearing, Voice};
use crate::verification::inputs::Inputs;
use crate::verification::lock::{CONFIRMATION_ORACLE_ID, oracle_id};
use crate::verification::record::OracleVerificationRecord;
use crate::verification::request::Claim;
use crate::verification::settle::{Backing, Settlement, Standing};
use crate::verification::statements::Statement;
use crate::verification::tier::Tier;
use std::collections::{BTreeMap, BTreeSet};

/// What has to be said beside whatever is told without verification.
const DISCLAIMER: &str = "Nothing of this was verified against a registered source. It holds no measurement, classification \
                          or action, and must not be used as one.";

/// The envelope that `ruling` comes to; `unspecified` is what the question leaves open.
pub(super) fn envelope(
    inputs: &Inputs,
    hearing: &Hearing<'_>,
    ruling: &Ruling<'_>,
    unspecified: Vec<String>,
) -> Envelope {
    let kind = ruling.kind;
    let is_authoritative = kind == EnvelopeKind::Authoritative;
    let outcome = |path: &String| {
        let outcome = ruling
            .settled
            .get(path.as_str())
            .map_or_else(unsettled, |settlement| axis(inputs, path, settlement, kind));
        (path.clone(), outcome)
    };
    let steps = ruling.settled.values().filter(|_| kind.tells_what_oracles_say());
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
        workflow_sha256: inputs.workflow.digest(),
        ontology: inputs.workflow.ontology.clone(),
        thing: inputs.question.thing.clone(),
        point_in_time: inputs.question.point_in_time,
        known_at: inputs.question.known_at,
        decided_at: inputs.decided_at,
        reasons: ruling.reasons.clone(),
        axes: inputs.question.axes.iter().map(outcome).collect(),
        candidates: hearing.outcomes.iter().map(|heard| candidate(inputs, hearing, *heard, ruling)).collect(),
        steps: steps.flat_map(|settlement| settlement.steps.iter().cloned()).collect(),
        warnings,
        disclaimer: (kind == EnvelopeKind::NarrativeOnly).then(|| DISCLAIMER.to_owned()),
        retry: (kind == EnvelopeKind::Blocked).then(|| retry::guidance(inputs, ruling)),
        review_id: None,
        unspecified,
        reverify: reverify.collect(),
        inputs_sha256: inputs.digest(),
        sha256: Sha256Hex::of(b""),
    }
    .sealed()
}

fn unsettled() -> AxisOutcome {
    AxisOutcome {
        standing: Standing::Unsettled,
        value: None,
        unit: None,
        definition: None,
        basis: None,
        evidence: Vec::new(),
        delta: None,
        reasons: BTreeSet::new(),
    }
}

fn axis(inputs: &Inputs, path: &str, settlement: &Settlement<'_>, kind: EnvelopeKind) -> AxisOutcome {
    let outcome = AxisOutcome {
        standing: settlement.standing,
        delta: settlement.delta.clone().filter(|_| kind.tells_what_oracles_say()),
        reasons: settlement.reasons.clone(),
        ..unsettled()
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
                record: OracleVerificationRecord {
                    oracle_tier: member.tier,
                    ..member.voice.candidate.record.clone()
                },
                observed_at: member.voice.candidate.observed_at,
                stale: member.voice.is_kept,
            };
            members.iter().map(of_member).collect()
        }
        Backing::Lock(lock) => {
            vec![Evidence { record: lock.record(), observed_at: lock.verified_at, stale: false }]
        }
        Backing::Claim(claim) => {
            let record = confirmation(inputs, path, claim);
            vec![Evidence { record, observed_at: inputs.asked_at, stale: false }]
        }
    }
}

/// The verification of a confirmed claim: by whoever it is about.
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
        ttl_seconds: None,
        chain_of_custody: None,
    }
}

fn candidate(
    inputs: &Inputs,
    hearing: &Hearing<'_>,
    (oracle_id, outcome): (&SourceId, CallOutcome),
    ruling: &Ruling<'_>,
) -> CandidateOutcome {
    let call = inputs.calls.get(oracle_id);
    let voice = hearing.voices.iter().find(|voice| voice.oracle_id == oracle_id);
    let told = voice.filter(|_| ruling.kind.tells_what_oracles_say());
    CandidateOutcome {
        oracle_id: oracle_id.clone(),
        outcome,
        registered_tier: call.map(|call| call.oracle_tier),
        tier: voice.map(|voice| voice.tier),
        values: told.map(|voice| asked_of(inputs, voice, &voice.candidate.values)).unwrap_or_default(),
        deviations: told
            .map(|voice| asked_of(inputs, voice, &voice.candidate.deviations))
            .unwrap_or_default(),
        record: voice.map(|voice| OracleVerificationRecord {
            oracle_tier: voice.tier,
            ..voice.candidate.record.clone()
        }),
        observed_at: voice.map(|voice| voice.candidate.observed_at),
        stale: voice.is_some_and(|voice| voice.is_kept),
        contested: ruling.contested.contains(oracle_id),
        late: call.is_some_and(|call| call.latency_ms > inputs.workflow.oracle_latency.soft_timeout_ms),
        latency_ms: call.map_or(0, |call| call.latency_ms),
    }
}

/// What `by_axis` has of the axes that `voice` was asked for by this question.
fn asked_of<T: Clone>(
    inputs: &Inputs,
    voice: &Voice<'_>,
    by_axis: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let asked = inputs.question.axes.iter().filter(|path| voice.asked.contains(path));
    asked.filter_map(|path| Some((path.clone(), by_axis.get(path)?.clone()))).collect()
}
