//! Pending decisions: their limit, their share of the slots, and their recovery after a restart or a stop.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, ScriptedSources, TestScenario, after_s, commit_write, timed,
    two_sources, with_scene,
};
use crate::system::ActorSystem;
use actors_platform::actor_handle::StartedActor;
use actors_verification::VerifyError;
use actors_verification::upkeep::PENDING_DECISIONS_MAX;
use domain_verification::{DecisionInputs, DecisionStage, Envelope, EnvelopeKind};
use oracled_store::{LogQuery, RowWrite};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

const TAKEN: [EnvelopeKind; 2] = [EnvelopeKind::Provisional, EnvelopeKind::Authoritative];

/// Settings without a waiting caller, and with the longest hard timeout.
fn later() -> Json {
    json!({
        "authority_latency": {"authority_latency_budget_ms": 500, "enforcement_mode": "ASYNC", "on_timeout_behavior": "ESCALATE"},
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK", "hard_timeout_ms": 600_000}
    })
}

/// Sends `count` questions at the same time, and returns their results.
async fn verify_concurrently(system: &ActorSystem, count: usize) -> Vec<Result<Arc<Envelope>, VerifyError>> {
    let asking: Vec<_> = (0..count)
        .map(|_| {
            let system = system.clone();
            actix_rt::spawn(async move { verify_population(&system, json!({})).await })
        })
        .collect();
    let mut received = Vec::new();
    for asking in asking {
        received.push(asking.await.expect("the call succeeds"));
    }
    received
}

/// The execution ids of `count` pending decisions, requested at the same time.
async fn defer_decisions(system: &ActorSystem, count: usize) -> Vec<String> {
    let provisional = |received: Result<Arc<Envelope>, VerifyError>| {
        let envelope = received.expect("the decision is pending");
        assert_eq!(envelope.kind, EnvelopeKind::Provisional);
        envelope.execution_id.clone()
    };
    verify_concurrently(system, count).await.into_iter().map(provisional).collect()
}

/// The kinds of the logged decisions of an execution, in order.
fn logged_envelope_kinds(system: &ActorSystem, execution_id: &str) -> Vec<EnvelopeKind> {
    rebuilt(system, execution_id).iter().map(|(entry, _)| entry.kind).collect()
}

#[test]
fn pending_decisions_are_bounded_and_a_refused_one_leaves_nothing() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, later()).await;
            scene.upstream.set_script("live", &[ScriptedCall::HANGS]);
            let rooms = PENDING_DECISIONS_MAX - 3;
            for begin in (0..rooms).step_by(500) {
                defer_decisions(system, (rooms - begin).min(500)).await;
            }
            let (last, refused): (Vec<_>, Vec<_>) =
                verify_concurrently(system, 8).await.into_iter().partition(Result::is_ok);
            assert_eq!((last.len(), refused.len()), (3, 5));
            assert!(refused.iter().all(|refused| matches!(refused, Err(VerifyError::Busy))), "{refused:?}");
            let decided = LogQuery {
                events: vec!["verification_decided".into()],
                limit: usize::MAX,
                ..LogQuery::default()
            };
            assert_eq!(system.store.log(&decided).expect("the log is read").len(), PENDING_DECISIONS_MAX);
            assert_eq!(
                system.store.pending_decisions().expect("the read succeeds").len(),
                PENDING_DECISIONS_MAX
            );
        },
    );
}

#[test]
fn pending_decision_that_cannot_be_logged_frees_its_place() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, later()).await;
            scene.world.break_store();
            for begin in (0..=PENDING_DECISIONS_MAX).step_by(500) {
                for refused in verify_concurrently(system, (PENDING_DECISIONS_MAX + 1 - begin).min(500)).await
                {
                    assert!(matches!(refused, Err(VerifyError::Commit(_))), "{refused:?}");
                }
            }
            scene.world.mend_store();
        },
    );
}

#[test]
fn pending_decisions_use_a_quarter_of_the_slots() {
    with_scene(
        |outside| outside.at_once = Some(8),
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, later()).await;
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(1_000, ScriptedSourceReply::People("54208"))]);
            defer_decisions(system, 12).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(scene.upstream.calls("live"), 2);
            workflow(system, &["live", "archive"], json!({})).await;
            let (waited_for, took_ms) = timed(verify_concurrently(system, 8)).await;
            for envelope in waited_for {
                assert_eq!(envelope.expect("the envelope is decided").kind, EnvelopeKind::Authoritative);
            }
            // the pending decisions have continued meanwhile, two at a time
            assert_eq!((took_ms, scene.upstream.calls("live")), (1_000, 8 + 4));
            after_s(5).await;
            assert_eq!(scene.upstream.calls("live"), 8 + 12);
            assert!(system.store.pending_decisions().expect("the read succeeds").is_empty());
        },
    );
}

#[test]
fn restarted_actor_resumes_only_unclaimed_pending_decisions() {
    with_scene(
        |outside| outside.at_once = Some(8),
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, later()).await;
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(1_000, ScriptedSourceReply::People("54208"))]);
            let provisional = defer_decisions(system, 5).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            // a pending decision that is not in progress
            let mut inputs = (*rebuilt(system, &provisional[0])[0].0.inputs).clone();
            (inputs.execution_id, inputs.stage) = ("v-lost".into(), DecisionStage::Delayed);
            commit_write(system, RowWrite::put::<DecisionInputs>(&inputs)).await;
            // a restart while two are in progress and three wait, and another one after the first two
            for wait_ms in [0, 1_500] {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                system.verification_upkeep.inject_panic().await;
            }
            after_s(60).await;
            assert_eq!(system.verification_upkeep.report().restarts, 2);
            for execution_id in &provisional {
                assert_eq!(logged_envelope_kinds(system, execution_id), TAKEN);
            }
            assert_eq!(logged_envelope_kinds(system, "v-lost"), TAKEN[1..]);
            assert!(system.store.pending_decisions().expect("the read succeeds").is_empty());
            assert_eq!(scene.upstream.calls("live"), provisional.len() + 1);
        },
    );
}

#[test]
fn abandoned_pending_decision_is_resumed_within_an_hour() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, later()).await;
            scene.upstream.set_script("live", &[ScriptedCall::at_once(ScriptedSourceReply::People("54208"))]);
            let provisional = defer_decisions(system, 1).await;
            after_s(1).await;
            assert_eq!(logged_envelope_kinds(system, &provisional[0]), TAKEN);
            // a pending decision whose task is gone
            let mut inputs = (*rebuilt(system, &provisional[0])[0].0.inputs).clone();
            (inputs.execution_id, inputs.stage) = ("v-lost".into(), DecisionStage::Delayed);
            commit_write(system, RowWrite::put::<DecisionInputs>(&inputs)).await;
            after_s(60).await;
            assert!(logged_envelope_kinds(system, "v-lost").is_empty());
            after_s(3600).await;
            assert_eq!(logged_envelope_kinds(system, "v-lost"), TAKEN[1..]);
            assert!(system.store.pending_decisions().expect("the read succeeds").is_empty());
            assert_eq!(scene.upstream.calls("live"), provisional.len() + 1);
        },
    );
}

#[test]
fn pending_decision_at_a_stop_is_decided_once_after_it() {
    with_scene(
        |outside| outside.at_once = Some(8),
        async |scene: TestScenario| {
            two_sources(&scene, later()).await;
            scene.upstream.set_script(
                "live",
                &[ScriptedCall::at_once(ScriptedSourceReply::People("54208")), ScriptedCall::HANGS],
            );
            let provisional = defer_decisions(&scene.world.system, 5).await;
            after_s(1).await;
            let is_decided =
                |execution_id: &&String| logged_envelope_kinds(&scene.world.system, execution_id) == TAKEN;
            assert_eq!(provisional.iter().filter(is_decided).count(), 1);

            let upstream = ScriptedSources::new(&scene.world.time);
            upstream.set_script("live", &[ScriptedCall::after(10, ScriptedSourceReply::People("54208"))]);
            let scene = scene.restarted(upstream).await;
            after_s(60).await;
            for execution_id in &provisional {
                assert_eq!(logged_envelope_kinds(&scene.world.system, execution_id), TAKEN);
            }
            assert!(scene.world.system.store.pending_decisions().expect("the read succeeds").is_empty());
            assert_eq!(scene.upstream.calls("live"), provisional.len() - 1);
        },
    );
}
