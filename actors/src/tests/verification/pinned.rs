//! Complete envelopes, pinned as files for people to read: `envelopes/`.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, after_s, cache_candidate, candidate, subject_identity,
    two_sources, with_scene,
};
use domain_verification::{AnswerFault, Envelope};
use serde_json::{Value as Json, json};
use std::fs;

/// File name, behavior of the live source, age of its cached answer in seconds, and settings of the workflow.
type PinnedCase = (&'static str, ScriptedCall, Option<u64>, Json);

fn pinned() -> Vec<PinnedCase> {
    let budget = |mode: &str, budget_ms: u64, behavior: &str| json!({"authority_latency_budget_ms": budget_ms, "enforcement_mode": mode, "on_timeout_behavior": behavior});
    let timeout = |on_timeout: &str| json!({"oracle_latency": {"on_timeout": on_timeout}});
    let stale = json!({"oracle_latency": {"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 600}});
    let authority = |mode: &str, budget_ms: u64, behavior: &str| json!({"authority_latency": budget(mode, budget_ms, behavior)});
    let honest = ScriptedSourceReply::People("54208");
    let other =
        ScriptedSourceReply::Changed("54208", |candidate| candidate.record.oracle_id = source_id("archive"));
    vec![
        ("prompt", ScriptedCall::after(100, honest), None, json!({})),
        ("late", ScriptedCall::after(2_500, honest), None, json!({})),
        ("hangs-fail-closed", ScriptedCall::HANGS, None, timeout("FAIL_CLOSED_BLOCK")),
        ("hangs-fail-open", ScriptedCall::HANGS, None, timeout("FAIL_OPEN_NARRATIVE")),
        ("hangs-stale-within-tolerance", ScriptedCall::HANGS, Some(100), stale.clone()),
        ("hangs-stale-beyond-tolerance", ScriptedCall::HANGS, Some(601), stale.clone()),
        ("dead-fail-closed", ScriptedCall::DEAD, None, timeout("FAIL_CLOSED_BLOCK")),
        ("hangs-over-budget-escalates", ScriptedCall::HANGS, None, authority("INLINE", 3_000, "ESCALATE")),
        (
            "hangs-over-budget-narrative",
            ScriptedCall::HANGS,
            None,
            authority("INLINE", 3_000, "DEGRADE_TO_NARRATIVE"),
        ),
        ("hangs-over-budget-blocked", ScriptedCall::HANGS, None, authority("INLINE", 3_000, "FAIL_CLOSED")),
        (
            "wrong-signature",
            ScriptedCall::after(40, ScriptedSourceReply::Refused(AnswerFault::Signature)),
            Some(100),
            stale,
        ),
        ("swapped-identity", ScriptedCall::after(40, other), None, json!({})),
        ("in-conflict", ScriptedCall::after(40, ScriptedSourceReply::People("54608")), None, json!({})),
        ("promised", ScriptedCall::after(40, honest), None, authority("ASYNC", 800, "ESCALATE")),
        (
            "not-authoritative",
            ScriptedCall::after(40, honest),
            None,
            authority("NON_AUTHORITATIVE_ONLY", 150, "DEGRADE_TO_NARRATIVE"),
        ),
    ]
}

/// Compares an envelope with its file. The file leaves out the id, which is random, and two digests: that of the envelope, which
/// is checked here, and that of the decision's inputs, which contain more than the envelope shows.
fn check(name: &str, envelope: &Envelope) {
    assert!(envelope.is_intact());
    let shown = serde_json::to_string_pretty(envelope).expect("the value serializes");
    let left_out = [envelope.sha256.as_str(), envelope.inputs_sha256.as_str(), &envelope.execution_id];
    let shown = left_out.iter().fold(shown, |shown, text| shown.replace(text, "...")) + "\n";
    let path = format!("{}/src/tests/verification/envelopes/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let pinned = fs::read_to_string(&path).expect("the file exists");
    assert!(shown == pinned, "{path} contains another envelope than this one:\n{shown}");
}

#[test]
fn envelopes_match_their_pinned_files() {
    for (name, act, kept_s, settings) in pinned() {
        with_scene(
            |_| {},
            async |scene: TestScenario| {
                let system = &scene.world.system;
                two_sources(&scene, settings.clone()).await;
                scene.upstream.set_script("live", &[act]);
                if let Some(kept_s) = kept_s {
                    let now = system.clock.now();
                    cache_candidate(system, "ABW", candidate("live", subject_identity("ABW"), "54208", now))
                        .await;
                    after_s(kept_s).await;
                }
                let envelope = verified(system).await;
                check(name, &envelope);
                after_s(6).await;
                let decisions = rebuilt(system, &envelope.execution_id);
                assert_eq!(decisions[0].1.to_json(), envelope.to_json());
                if let [_, (_, delayed)] = &decisions[..] {
                    check(&format!("{name}-and-decided"), delayed);
                }
            },
        );
    }
}
