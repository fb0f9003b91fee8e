//! Properties of every decision, whatever its inputs.

use super::support::*;
use crate::workflow::ConflictStrategy as Settling;
use crate::{CallTimeLimit, DecisionInputs, Envelope, EnvelopeKind, OracleCall, OracleReply, decide};
use domain_base::digest::Sha256Hex;
use domain_ground::freshness::StaleBehavior;
use domain_ground::source::OracleTier::{self, CrossDomain, Primary, Secondary, Unverified};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use strum::VariantArray;

const STALE: [StaleBehavior; 5] = [
    StaleBehavior::ServeStaleSilent,
    StaleBehavior::ServeStaleWithWarning,
    StaleBehavior::DegradeTier,
    StaleBehavior::BlockUntilFresh,
    StaleBehavior::FailClosed,
];
const ORACLES: [&str; 4] = ["lab-a", "lab-b", "lab-c", "lab-d"];

/// The behavior of one oracle: its tier, its reply, its latency, and its faults.
#[derive(Debug, Clone)]
struct OracleBehavior {
    tier: OracleTier,
    reply: u8,
    latency_ms: u64,
    dose: String,
    inr: Option<String>,
    verified_s_ago: i64,
    is_pinned: bool,
    definition: Option<&'static str>,
    stale: Option<StaleBehavior>,
}

fn oracle() -> impl Strategy<Value = OracleBehavior> {
    let tier = prop::sample::select(&[Primary, Secondary, CrossDomain, Unverified][..]);
    let stale = prop::sample::select(&STALE[..]);
    // most oracles answer well, so that there is something to decide
    let reply = prop_oneof![8 => Just(0_u8), 2 => 1..6_u8];
    let definition = prop_oneof![9 => Just(None), 1 => Just(Some("another"))];
    (
        (tier, reply, 0..3000_u64, "(9|10|10\\.04|12|30)"),
        (prop::option::of("(2\\.5|4\\.8)"), 0..90_i64, prop::bool::weighted(0.9), definition),
        prop::option::weighted(0.2, stale),
    )
        .prop_map(
            |((tier, reply, latency_ms, dose), (inr, verified_s_ago, is_pinned, definition), stale)| {
                OracleBehavior {
                    tier,
                    reply,
                    latency_ms,
                    dose,
                    inr,
                    verified_s_ago,
                    is_pinned,
                    definition,
                    stale,
                }
            },
        )
}

fn settings() -> impl Strategy<Value = Json> {
    let strategy = || prop::sample::select(Settling::VARIANTS);
    let threshold = prop::option::weighted(0.3, 1..30_u32);
    let human = prop::bool::weighted(0.1);
    let mode = prop_oneof![7 => Just("INLINE"), 1 => Just("ASYNC"), 1 => Just("NON_AUTHORITATIVE_ONLY")];
    let on_timeout = prop::sample::select(&["FAIL_OPEN_NARRATIVE", "FAIL_CLOSED_BLOCK", "SERVE_STALE"][..]);
    let scope = (prop::bool::weighted(0.1), 1..4_u32, prop::bool::weighted(0.1));
    (strategy(), strategy(), threshold, human, mode, on_timeout, scope).prop_map(
        |(default, same, threshold, human, mode, on_timeout, (by_oracle, limit, all))| {
            let tolerance = if on_timeout == "SERVE_STALE" { json!(60) } else { json!(null) };
            json!({
                "conflict_resolution": {
                    "default_strategy": default, "same_tier_strategy": same,
                    "escalation_delta_threshold": threshold,
                    "always_human_axes": if human { json!(["inr"]) } else { json!([]) },
                    "scope": {
                        "granularity": if by_oracle { "oracle" } else { "axis" }, "cascade_limit": limit,
                        "partial_conflict_behavior": if all { "invalidate_all" } else { "isolate" }
                    }
                },
                "oracle_latency": {"on_timeout": on_timeout, "stale_tolerance_seconds": tolerance},
                "authority_latency": {"authority_latency_budget_ms": 2500, "enforcement_mode": mode,
                                      "on_timeout_behavior": "ESCALATE"}
            })
        },
    )
}

fn call_of(name: &str, oracle: &OracleBehavior) -> OracleCall {
    let mut stated = vec![("dose", oracle.dose.as_str())];
    stated.extend(oracle.inr.as_deref().map(|inr| ("inr", inr)));
    let mut candidate = candidate(name, &stated);
    candidate.record.verified_at = ago(oracle.verified_s_ago);
    candidate.observed_at = ago(oracle.verified_s_ago);
    if !oracle.is_pinned {
        (candidate.record.source_version, candidate.record.evidence_hash) = (None, None);
    }
    if let Some(behavior) = oracle.stale {
        (candidate.freshness[0].stale, candidate.freshness[0].stale_behavior) = (true, behavior);
    }
    candidate.values.get_mut("dose").expect("a dose").definition = oracle.definition.map(str::to_owned);
    let stored = Some(Box::new(candidate.clone()));
    let mut call = answered_call(oracle.tier, candidate);
    call.latency_ms = oracle.latency_ms;
    call.kept = stored;
    match oracle.reply {
        1 => call.reply = OracleReply::NoRecord,
        2 => call.reply = OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout },
        3 => call.reply = OracleReply::CircuitOpen { retry_after_ms: None },
        4 => call.reply = OracleReply::Several { records: 2 },
        5 => call.reply = OracleReply::NotAsked { cause: "it is not approved".into() },
        _ => {}
    }
    call
}

fn question(settings: Json, oracles: &[OracleBehavior], claim: Option<&str>) -> DecisionInputs {
    let claimed = claim.map(|value| json!({"dose": {"value": value, "claimed_by": "p-1"}}));
    let more = json!({"claimed": claimed.unwrap_or_else(|| json!({}))});
    let workflow = workflow(&["dose", "inr"], &ORACLES[..oracles.len()], settings);
    let mut inputs = inputs(workflow, &["dose", "inr"], more);
    for (name, oracle) in ORACLES.iter().zip(oracles) {
        inputs.calls.insert(name.parse().expect("a valid id"), call_of(name, oracle));
    }
    inputs
}

fn questions() -> impl Strategy<Value = DecisionInputs> {
    let claim = prop::option::weighted(0.2, "(10|12)");
    (settings(), prop::collection::vec(oracle(), 1..=4), claim)
        .prop_map(|(settings, oracles, claim)| question(settings, &oracles, claim.as_deref()))
}

/// An envelope without the members that depend on the latency of calls.
fn timeless(mut envelope: Envelope) -> Json {
    envelope.warnings.retain(|warning| !warning.contains("answered late"));
    for candidate in &mut envelope.candidates {
        (candidate.latency_ms, candidate.late) = (0, false);
    }
    let mut json = serde_json::to_value(envelope).expect("the value serializes");
    for digest in ["sha256", "inputs_sha256"] {
        json.as_object_mut().expect("an object").remove(digest);
    }
    json
}

proptest! {
    #[test]
    fn order_of_answers_does_not_change_the_decision(
        inputs in questions(),
        latencies in prop::collection::vec(0..3000_u64, 4),
        order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut other = inputs.clone();
        let names: Vec<_> = inputs.calls.keys().cloned().collect();
        other.calls.clear();
        for index in order {
            let Some(name) = names.get(index) else { continue };
            let mut call = inputs.calls[name].clone();
            call.latency_ms = latencies[index];
            // an answer cannot arrive before the times that it contains
            let of_itself = call.kept.as_ref().map_or(now(), |stated| {
                stated.observed_at.max(stated.record.retrieved_at).max(stated.record.verified_at)
            });
            call.ended_at = Some(ago(latencies[index] as i64).max(of_itself));
            other.calls.insert(name.clone(), call);
        }
        prop_assert_eq!(timeless(decide(&inputs)), timeless(decide(&other)));
    }

    #[test]
    fn unverified_source_does_not_change_an_authoritative_answer(
        settings in settings(),
        oracles in prop::collection::vec(oracle(), 1..=3),
        mut liar in oracle(),
        position in 0..4_usize,
    ) {
        liar.tier = Unverified;
        liar.dose = "1000000".into();
        let without = question(settings.clone(), &oracles, None);
        let mut with = without.clone();
        let name = "scraper".parse().expect("a valid id");
        with.calls.insert(name, call_of("scraper", &liar));
        with.workflow.oracles.insert(position.min(oracles.len()), "scraper".parse().expect("a valid id"));
        let (with, without) = (decide(&with), decide(&without));
        prop_assert_eq!(with.kind == EnvelopeKind::Authoritative, without.kind == EnvelopeKind::Authoritative);
        if with.kind == EnvelopeKind::Authoritative {
            prop_assert_eq!(with.axes, without.axes);
            prop_assert_eq!(with.steps, without.steps);
            prop_assert_eq!(with.warnings, without.warnings);
        }
    }

    #[test]
    fn only_authoritative_axes_have_a_value_with_evidence(inputs in questions()) {
        let envelope = decide(&inputs);
        let gravest = envelope.axes.values().map(|outcome| outcome.kind).max();
        prop_assert_eq!(gravest, Some(envelope.kind));
        for (path, outcome) in &envelope.axes {
            let is_authoritative = outcome.kind == EnvelopeKind::Authoritative;
            prop_assert_eq!(outcome.value.is_some(), is_authoritative);
            prop_assert_eq!(outcome.reasons.is_empty(), is_authoritative);
            let is_shown = matches!(
                outcome.kind,
                EnvelopeKind::Authoritative | EnvelopeKind::DisputeSummary | EnvelopeKind::HumanReview
            );
            let is_told = envelope.candidates.iter().any(|one| one.values.contains_key(path))
                || envelope.steps.iter().any(|step| step.axis == *path);
            prop_assert!(is_shown || !is_told, "{path} is withheld: {envelope:#?}");
            prop_assert_eq!(outcome.evidence.is_empty(), !is_authoritative);
            prop_assert!(outcome.evidence.iter().all(|one| one.record.oracle_tier != crate::VerificationTier::Unverified));
        }
        prop_assert_eq!(envelope.reasons.is_empty(), envelope.kind == EnvelopeKind::Authoritative);
        prop_assert_eq!(envelope.retry.is_some(), envelope.kind == EnvelopeKind::Blocked);
    }

    #[test]
    fn logged_inputs_give_the_same_bytes_again(inputs in questions()) {
        let envelope = decide(&inputs);
        let line = serde_json::to_string(&inputs).expect("the value serializes");
        let read: DecisionInputs = serde_json::from_str(&line).expect("valid JSON");
        prop_assert_eq!(decide(&read).to_json(), envelope.to_json());
        let value: Json = serde_json::from_slice(&envelope.to_json()).expect("valid JSON");
        prop_assert_eq!(serde_json_canonicalizer::to_vec(&value).expect("the value is canonical"), envelope.to_json());
        let mut unsigned = value;
        unsigned.as_object_mut().expect("an object").remove("sha256");
        let canonical = serde_json_canonicalizer::to_vec(&unsigned).expect("the value is canonical");
        prop_assert_eq!(&envelope.sha256, &Sha256Hex::of(&canonical));
        prop_assert!(envelope.is_intact());
        let read: Envelope = serde_json::from_slice(&envelope.to_json()).expect("valid JSON");
        prop_assert_eq!(read, envelope);
    }
}

#[test]
fn changed_envelope_is_not_intact() {
    let mut inputs = inputs(workflow(&["dose"], &["lab-a"], json!({})), &["dose"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
    let mut envelope = decide(&inputs);
    assert!(envelope.is_intact());
    envelope.axes.get_mut("dose").expect("the request includes it").value =
        Some(domain_ground::value::AxisValue::Text("11".into()));
    assert!(!envelope.is_intact());
}
