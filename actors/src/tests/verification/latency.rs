//! Sequences of questions to slow, dead, flapping and recovering sources.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, adapter, after_s, cache_candidate, cached_answer_time,
    candidate, commit_write, live, subject_identity, timed, two_sources, with_scene,
};
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use actors_upstream::oracle_health::ListHealthStatuses;
use actors_verification::VerifyError;
use domain_ground::ontology::Ontology;
use domain_ground::source_state::SourceState;
use domain_upstream::health::OracleHealthLevel;
use domain_verification::{AxisReason, CallOutcome, Envelope, EnvelopeKind, VerifyRequest};
use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use std::time::Duration;

const HONEST: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::People("54208"));
const ARUBA_CODE: &str = "ABW";

fn serves_stale() -> Json {
    json!({"oracle_latency": {"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 600}})
}

fn within(budget_ms: u64) -> Json {
    json!({"authority_latency": {"authority_latency_budget_ms": budget_ms, "enforcement_mode": "INLINE",
                                 "on_timeout_behavior": "FAIL_CLOSED"}})
}

fn retry_after(envelope: &Envelope) -> Option<u64> {
    envelope.retry.as_ref().expect("the envelope has retry guidance").after_ms
}

async fn health(system: &ActorSystem, oracle_id: &str) -> OracleHealthLevel {
    let statuses = system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
    let name = format!("source:{oracle_id}");
    statuses.into_iter().find(|status| status.oracle_id.as_str() == name).expect("it is watched").status
}

/// The logged calls: the source, whether the answer came from the cache, and whether it was stale.
fn logged_source_calls(system: &ActorSystem, execution_id: &str) -> Vec<(String, bool, bool)> {
    let entries = entries(system, execution_id).into_iter().filter(|entry| entry["event"] == "source_asked");
    let flag = |entry: &Json, field: &str| entry[field].as_bool().expect("a flag");
    let summarize = |entry: Json| {
        let oracle_id = entry["oracle_id"].as_str().expect("a valid id").to_owned();
        (oracle_id, flag(&entry, "cache_hit"), flag(&entry, "stale_data_used"))
    };
    entries.map(summarize).collect()
}

#[test]
fn circuit_opens_after_failures_reports_retry_time_and_closes_by_trials() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            scene.upstream.set_script("live", &[ScriptedCall::DEAD]);
            for _ in 0..3 {
                let envelope = verified(system).await;
                assert_eq!((envelope.kind, retry_after(&envelope)), (EnvelopeKind::Blocked, Some(5_000)));
                assert_eq!(envelope.candidates[0].outcome, CallOutcome::Failed);
            }
            assert_eq!(health(system, "live").await, OracleHealthLevel::CircuitOpen);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.candidates[0].outcome, took_ms), (CallOutcome::CircuitOpen, 0));
            assert_eq!((retry_after(&envelope), scene.upstream.calls("live")), (Some(30_000), 3));
            assert_eq!(envelope.reasons, [AxisReason::OracleUnreachable].into());
            // the source was not called, so no call is logged
            assert_eq!(
                logged_source_calls(system, &envelope.execution_id),
                [("archive".to_owned(), false, false)]
            );
            after_s(12).await;
            assert_eq!(retry_after(&*verified(system).await), Some(18_000));

            // the circuit's timeout has passed, and the source still fails
            after_s(18).await;
            assert_eq!(verified(system).await.candidates[0].outcome, CallOutcome::Failed);
            assert_eq!(retry_after(&*verified(system).await), Some(30_000));
            assert_eq!(scene.upstream.calls("live"), 4);

            // the source recovers: one call at a time is permitted, and two successes close the circuit
            after_s(30).await;
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(700, ScriptedSourceReply::People("54208"))]);
            let trial = actix_rt::spawn({
                let system = system.clone();
                async move { verified(&system).await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            let others = verified(system).await;
            assert_eq!((others.kind, retry_after(&others)), (EnvelopeKind::Blocked, Some(1_000)));
            let trial = trial.await.expect("the call succeeds");
            assert_eq!((trial.kind, trial.candidates[0].latency_ms), (EnvelopeKind::Authoritative, 700));
            assert_eq!(health(system, "live").await, OracleHealthLevel::Unhealthy);
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            assert_eq!(health(system, "live").await, OracleHealthLevel::Healthy);
        },
    );
}

#[test]
fn source_that_fails_every_other_call_is_still_called_each_time() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            let flapping: Vec<_> =
                (0..12).map(|call| if call % 2 == 0 { ScriptedCall::DEAD } else { HONEST }).collect();
            scene.upstream.set_script("live", &flapping);
            for call in 0..12 {
                let expected =
                    if call % 2 == 0 { EnvelopeKind::Blocked } else { EnvelopeKind::Authoritative };
                assert_eq!(verified(system).await.kind, expected);
            }
            assert_eq!(scene.upstream.calls("live"), 12);
            assert_ne!(health(system, "live").await, OracleHealthLevel::CircuitOpen);
        },
    );
}

#[test]
fn hanging_source_is_left_alone_if_no_budget_reaches_its_timeout() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, within(3_000)).await;
            scene.upstream.set_script("live", &[ScriptedCall::HANGS]);
            for _ in 0..3 {
                let (envelope, took_ms) = timed(verified(system)).await;
                assert_eq!((&envelope.reasons, took_ms), (&[AxisReason::BudgetExceeded].into(), 2_980));
            }
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.candidates[0].outcome, took_ms), (CallOutcome::CircuitOpen, 0));
        },
    );
}

#[test]
fn hanging_source_is_left_alone_if_a_budget_ends_before_its_timeout() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, within(2_000)).await;
            let latency = json!({"soft_timeout_ms": 500_000, "hard_timeout_ms": 600_000,
                                 "on_timeout": "FAIL_CLOSED_BLOCK"});
            let patient = json!({"workflow_id": "patient", "oracle_latency": latency});
            workflow(system, &["live", "archive"], patient).await;
            scene.upstream.set_script("live", &[ScriptedCall::HANGS]);
            for _ in 0..3 {
                assert_eq!(verified(system).await.candidates[0].outcome, CallOutcome::TimedOut);
            }
            assert_eq!(verified(system).await.candidates[0].outcome, CallOutcome::CircuitOpen);
        },
    );
}

#[test]
fn workflow_with_short_timeouts_does_not_open_the_circuit() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            let latency =
                json!({"soft_timeout_ms": 20, "hard_timeout_ms": 50, "on_timeout": "FAIL_CLOSED_BLOCK"});
            let hasty = json!({"workflow_id": "hasty", "oracle_latency": latency});
            workflow(system, &["live", "archive"], hasty).await;
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(700, ScriptedSourceReply::People("54208"))]);
            for _ in 0..12 {
                let envelope =
                    verify_population(system, json!({"workflow": "hasty"})).await.expect("an envelope");
                assert_eq!(envelope.candidates[0].outcome, CallOutcome::TimedOut);
            }
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            assert_eq!(health(system, "live").await, OracleHealthLevel::Healthy);
        },
    );
}

#[test]
fn cached_answer_is_served_with_time_and_warning_within_tolerance() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, serves_stale()).await;
            scene.upstream.set_script(
                "live",
                &[ScriptedCall::after(10, ScriptedSourceReply::People("54208")), ScriptedCall::DEAD],
            );
            let first = verified(system).await;
            let observed_at = first.candidates[0].observed_at.expect("the oracle has answered");
            assert_eq!(observed_at, first.decided_at);
            for (wait_s, age) in [
                (0, "0 seconds"),
                (0, "0 seconds"),
                (0, "0 seconds"),
                (300, "5 minutes"),
                (300, "10 minutes"),
            ] {
                after_s(wait_s).await;
                let envelope = verified(system).await;
                assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{age}: {envelope:#?}");
                let evidence = &envelope.axes["population"].evidence[0];
                assert_eq!((evidence.stale, evidence.observed_at), (true, observed_at));
                let message = format!(
                    "live: its cached answer from {observed_at} is used, {age} old; the workflow allows 10 minutes"
                );
                assert_eq!(envelope.warnings.last(), Some(&message));
                let is_asked = envelope.candidates[0].outcome != CallOutcome::CircuitOpen;
                let live = is_asked.then(|| ("live".to_owned(), false, true));
                let message: Vec<_> =
                    live.into_iter().chain([("archive".to_owned(), false, false)]).collect();
                assert_eq!(logged_source_calls(system, &envelope.execution_id), message);
            }
            after_s(1).await;
            let beyond = verified(system).await;
            assert_eq!(
                (beyond.kind, &beyond.reasons),
                (EnvelopeKind::Blocked, &[AxisReason::OracleUnreachable].into())
            );
            assert!(!beyond.candidates[0].stale && beyond.candidates[0].observed_at.is_none());
            let message = beyond.warnings.last().expect("a warning");
            assert!(message.ends_with("601 seconds old; the workflow allows 600 seconds"), "{message}");

            after_s(60).await;
            scene.upstream.set_script("live", &[HONEST]);
            let back = verified(system).await;
            assert_eq!(
                (back.kind, back.candidates[0].observed_at),
                (EnvelopeKind::Authoritative, Some(back.decided_at))
            );
            assert!(back.warnings.is_empty());
        },
    );
}

#[test]
fn cached_answer_is_served_when_the_request_ends_before_the_source() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, serves_stale()).await;
            scene
                .upstream
                .set_script("live", &[HONEST, ScriptedCall::after(4_900, ScriptedSourceReply::GaveUp)]);
            let first = verified(system).await;
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 4_900), "{envelope:#?}");
            assert_eq!(envelope.candidates[0].outcome, CallOutcome::TimedOut);
            let evidence = &envelope.axes["population"].evidence[0];
            assert_eq!((evidence.stale, evidence.observed_at), (true, first.decided_at));
            let reported = logged_source_calls(system, &envelope.execution_id);
            assert_eq!(reported, [("live".to_owned(), false, true), ("archive".to_owned(), false, false)]);
        },
    );
}

#[test]
fn cached_answer_of_a_replaced_adapter_is_not_served() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, serves_stale()).await;
            scene.upstream.set_script("live", &[HONEST, ScriptedCall::HANGS]);
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            let on_its_way = actix_rt::spawn({
                let system = system.clone();
                async move { verified(&system).await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            adapter(system, "live", json!({"endpoint": "https://elsewhere.example/{area}/{year}"})).await;
            let envelope = on_its_way.await.expect("the call succeeds");
            assert_eq!(envelope.kind, EnvelopeKind::Blocked, "{envelope:#?}");
            assert!(!envelope.candidates[0].stale);
        },
    );
}

#[test]
fn untrusted_source_that_hangs_is_awaited_to_the_soft_timeout() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            live(system, "scraper", json!({"oracle_tier": "unverified"})).await;
            two_sources(&scene, json!({})).await;
            workflow(system, &["scraper", "live", "archive"], json!({})).await;
            scene.upstream.set_script("scraper", &[ScriptedCall::HANGS]);
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(700, ScriptedSourceReply::People("54208"))]);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 2_000));
            assert_eq!(envelope.candidates[0].outcome, CallOutcome::NotAwaited);
            assert_eq!((envelope.candidates[0].latency_ms, envelope.warnings.len()), (2_000, 0));
            let logged = entries(system, &envelope.execution_id);
            assert_eq!(
                (&logged[0]["oracle_id"], &logged[0]["latency_ms"]),
                (&json!("scraper"), &json!(2_000))
            );
            assert_eq!(
                (&logged[0]["status"], &logged[0]["error_code"]),
                (&json!("error"), &json!("not_awaited"))
            );
            // a registered source that is slower than the soft timeout is awaited, and the untrusted one meanwhile, too
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(3_000, ScriptedSourceReply::People("54208"))]);
            scene
                .upstream
                .set_script("scraper", &[ScriptedCall::after(2_900, ScriptedSourceReply::People("1"))]);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 3_000));
            assert_eq!(envelope.candidates[0].outcome, CallOutcome::Answered);
            // the untrusted source does not cause an exceeded budget
            workflow(system, &["scraper", "live", "archive"], within(2_000)).await;
            scene.upstream.set_script("scraper", &[ScriptedCall::HANGS]);
            scene.upstream.set_script("live", &[HONEST]);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 1_980));
            scene.upstream.set_script("scraper", &[ScriptedCall::HANGS]);
            // if only the untrusted source is queried, it is awaited, but decides nothing
            workflow(system, &["scraper"], json!({})).await;
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Blocked, 5_000));
            assert_eq!(envelope.reasons, [AxisReason::NoValue].into());
        },
    );
}

#[test]
fn cached_answer_is_used_for_its_ttl_unless_declared_stale() {
    const FOR_A_MINUTE: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::People("54208"));
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            adapter(system, "live", json!({"ttl_seconds": 60})).await;
            scene.upstream.set_script(
                "live",
                &[FOR_A_MINUTE, ScriptedCall::DEAD, ScriptedCall::DEAD, ScriptedCall::DEAD, FOR_A_MINUTE],
            );
            let first = verified(system).await;
            // three failures for another subject open the circuit; a cached answer needs no lease
            for _ in 0..3 {
                verify_population(system, json!({"where": {"area": "ZZZ", "year": 1960}}))
                    .await
                    .expect("an envelope");
            }
            assert_eq!(health(system, "live").await, OracleHealthLevel::CircuitOpen);
            after_s(60).await;
            let cached = verified(system).await;
            assert_eq!((cached.kind, scene.upstream.calls("live")), (EnvelopeKind::Authoritative, 4));
            assert_eq!(cached.candidates[0].observed_at, Some(first.decided_at));
            assert!(!cached.candidates[0].stale, "it is still fresh");
            let reported = logged_source_calls(system, &cached.execution_id);
            assert_eq!(reported, [("live".to_owned(), true, false), ("archive".to_owned(), false, false)]);
            after_s(1).await;
            let second = verified(system).await;
            assert_eq!((second.kind, scene.upstream.calls("live")), (EnvelopeKind::Authoritative, 5));
            assert_eq!(second.candidates[0].observed_at, Some(second.decided_at));

            // a source that was declared stale is queried again, although its answer has not expired
            assert!(logged_source_calls(system, &verified(system).await.execution_id)[0].1);
            after_s(1).await;
            invalidation_count(system, "live").await;
            after_s(1).await;
            let second = verified(system).await;
            assert_eq!((second.kind, scene.upstream.calls("live")), (EnvelopeKind::Authoritative, 6));
        },
    );
}

/// Declares the earlier statements of a source stale.
async fn invalidation_count(system: &ActorSystem, oracle_id: &str) {
    let (mut state, _) = system
        .store
        .source(&source_id(oracle_id))
        .expect("the source is readable")
        .expect("the source exists");
    state = state.invalidated(system.clock.now());
    commit_write(system, oracled_store::RowWrite::put::<SourceState>(&state)).await;
}

#[test]
fn decision_is_logged_after_its_caller_has_disconnected() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(900, ScriptedSourceReply::People("54208"))]);
            // the daemon runs each request in such a task
            let request = actix_rt::spawn({
                let system = system.clone();
                async move { verified(&system).await }
            });
            let gone = tokio::time::timeout(Duration::from_millis(300), request).await;
            assert!(gone.is_err(), "the caller has disconnected");
            after_s(2).await;
            let decided = oracled_store::LogQuery {
                events: vec!["verification_decided".into()],
                limit: 9,
                ..oracled_store::LogQuery::default()
            };
            let lines = system.store.log(&decided).expect("the log is read");
            assert_eq!(lines.len(), 1);
            let entry: Json = serde_json::from_str(&lines[0].json).expect("valid JSON");
            assert_eq!(entry["kind"], "authoritative");
            assert_eq!(entry["inputs"]["elapsed_ms"], 900);
        },
    );
}

#[test]
fn question_without_a_slot_in_its_budget_is_refused_if_it_needs_one() {
    with_scene(
        |outside| outside.at_once = Some(1),
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            scene.upstream.set_script("live", &[ScriptedCall::HANGS]);
            let first = actix_rt::spawn({
                let system = system.clone();
                async move { verified(&system).await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            workflow(system, &["live", "archive"], within(3_000)).await;
            let (refused, took_ms) = timed(verify_population(system, json!({}))).await;
            assert!(matches!(refused, Err(VerifyError::Busy)), "{refused:?}");
            assert_eq!(took_ms, 2_980);
            let narrative = json!({"authority_latency": {"authority_latency_budget_ms": 150,
                                   "enforcement_mode": "NON_AUTHORITATIVE_ONLY", "on_timeout_behavior": "FAIL_CLOSED"}});
            workflow(system, &["live", "archive"], narrative).await;
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::NarrativeOnly, 0));
            assert_eq!(first.await.expect("the call succeeds").kind, EnvelopeKind::Blocked);
        },
    );
}

#[test]
fn wait_for_a_slot_counts_toward_the_budget() {
    with_scene(
        |outside| outside.at_once = Some(1),
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, within(3_000)).await;
            scene.upstream.set_script(
                "live",
                &[ScriptedCall::after(2_200, ScriptedSourceReply::People("54208")), ScriptedCall::HANGS],
            );
            let first = actix_rt::spawn({
                let system = system.clone();
                async move { verified(&system).await }
            });
            tokio::task::yield_now().await;
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!(first.await.expect("the call succeeds").kind, EnvelopeKind::Authoritative);
            assert_eq!((&envelope.reasons, took_ms), (&[AxisReason::BudgetExceeded].into(), 2_980));
            assert_eq!(
                envelope.candidates[0].latency_ms, 780,
                "the latency of the call excludes the wait for a slot"
            );
            assert!(!envelope.candidates[0].late);
            assert_eq!(
                health(system, "live").await,
                OracleHealthLevel::Healthy,
                "the wait was too short to count as a failure"
            );
        },
    );
}

/// Settings by which a conflict invalidates all values of its sources, so that they are queried again.
fn requery_settings() -> Json {
    json!({
        "conflict_resolution": {"same_tier_strategy": "most_recent", "scope": {"partial_conflict_behavior": "invalidate_all"}},
        "authority_latency": {"authority_latency_budget_ms": 3000, "enforcement_mode": "INLINE", "on_timeout_behavior": "FAIL_CLOSED"}
    })
}

#[test]
fn conflicting_sources_are_queried_once_more_within_the_same_budget() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, requery_settings()).await;
            // the source corrects its mistake in the second call
            scene.upstream.set_script(
                "live",
                &[ScriptedCall::after(400, ScriptedSourceReply::People("54209")), HONEST],
            );
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 400));
            assert!(envelope.steps.is_empty() && envelope.reverify.is_empty());
            let reported = logged_source_calls(system, &envelope.execution_id);
            let requests: Vec<_> = reported.iter().map(|(oracle_id, ..)| oracle_id.as_str()).collect();
            assert_eq!(requests, ["live", "archive", "live", "archive"]);
            let statuses: Vec<_> = entries(system, &envelope.execution_id);
            let status = |entry: &Json| entry["status"].as_str().unwrap_or_default().to_owned();
            let statuses: Vec<_> = statuses.iter().map(status).collect();
            assert_eq!(statuses, ["conflict", "conflict", "success", "success", ""]);
            let decisions = rebuilt(system, &envelope.execution_id);
            assert!(decisions.len() == 1 && decisions[0].0.inputs.reverified);

            // the source repeats its value: the conflict is settled, and no source is queried a third time
            scene
                .upstream
                .set_script("live", &[ScriptedCall::after(400, ScriptedSourceReply::People("54209"))]);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 800));
            assert_eq!((envelope.steps.len(), scene.upstream.calls("live")), (1, 2));

            // the source hangs in the second call: both calls together stay within the budget
            scene.upstream.set_script(
                "live",
                &[ScriptedCall::after(1_000, ScriptedSourceReply::People("54209")), ScriptedCall::HANGS],
            );
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((&envelope.reasons, took_ms), (&[AxisReason::BudgetExceeded].into(), 2_980));
            assert_eq!(envelope.candidates[0].latency_ms, 1_980);
        },
    );
}

#[test]
fn repeated_query_bypasses_the_cache() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, requery_settings()).await;
            adapter(system, "live", json!({"ttl_seconds": 60})).await;
            let cached = candidate("live", subject_identity(ARUBA_CODE), "54209", system.clock.now());
            cache_candidate(system, ARUBA_CODE, cached).await;
            scene.upstream.set_script("live", &[HONEST]);
            let envelope = verified(system).await;
            assert_eq!((envelope.kind, scene.upstream.calls("live")), (EnvelopeKind::Authoritative, 1));
            let reported: Vec<_> =
                logged_source_calls(system, &envelope.execution_id).iter().map(|request| request.1).collect();
            assert_eq!(reported, [true, false, false, false]);
        },
    );
}

#[test]
fn expired_answer_is_queried_again_within_its_cache_time() {
    const STALE_BY_ITSELF: ScriptedCall =
        ScriptedCall::at_once(ScriptedSourceReply::Changed("54208", |candidate| {
            candidate.observed_at -= SignedDuration::from_secs(61);
        }));
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            let ontology = json!({"ontology_id": "population", "version": "2"});
            register_short_lived(system).await;
            live(system, "live", json!({"ontology": ontology})).await;
            scene.time.start_clock();
            workflow(system, &["live"], json!({"ontology": ontology})).await;
            scene.upstream.set_script("live", &[STALE_BY_ITSELF, HONEST]);
            let envelope = verified(system).await;
            assert_eq!((envelope.kind, scene.upstream.calls("live")), (EnvelopeKind::Authoritative, 2));
            assert_eq!(logged_source_calls(system, &envelope.execution_id).len(), 2);
            scene.upstream.set_script("live", &[STALE_BY_ITSELF]);
            let before = cached_answer_time(system, ARUBA_CODE);
            let envelope = verified(system).await;
            assert_eq!(envelope.kind, EnvelopeKind::Blocked);
            assert!(envelope.reasons.contains(&AxisReason::Expired), "{:?}", envelope.reasons);
            assert_eq!(
                (envelope.reverify.len(), scene.upstream.calls("live")),
                (0, 2),
                "there is no third query"
            );
            assert_eq!(
                cached_answer_time(system, ARUBA_CODE),
                before,
                "an older answer does not replace the cached one"
            );
        },
    );
}

/// Registers the gallery's ontology with a ttl of one minute for populations.
async fn register_short_lived(system: &ActorSystem) {
    let mut document = ontology();
    document["version"] = json!("2");
    for axis in document["axes"].as_array_mut().expect("axes") {
        if axis["axis"] == "population" {
            axis["state_sensitive"] = json!(true);
            axis["max_ttl_seconds"] = json!(60);
        }
    }
    let ontology: Ontology = serde_json::from_value(document).expect("a valid ontology");
    let registered = system.registry.register(ontology, PEER).await;
    registered.expect("the registration succeeds");
}

#[test]
fn many_questions_at_once_are_each_answered_in_their_own_time() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, within(3_000)).await;
            let slower: Vec<_> = (0..40)
                .map(|call| ScriptedCall::after(50 * call, ScriptedSourceReply::People("54208")))
                .collect();
            scene.upstream.set_script("live", &slower);
            let asking: Vec<_> = (0..40)
                .map(|_| {
                    let system = system.clone();
                    actix_rt::spawn(async move { timed(verified(&system)).await })
                })
                .collect();
            let mut times = Vec::new();
            for asking in asking {
                let (envelope, took_ms) = asking.await.expect("the call succeeds");
                assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
                assert_eq!(envelope.candidates[0].latency_ms, took_ms);
                times.push(took_ms);
            }
            times.sort_unstable();
            assert_eq!(times, (0..40).map(|call| 50 * call).collect::<Vec<_>>());
        },
    );
}

/// A request as a caller sends it.
fn request() -> VerifyRequest {
    let document =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    serde_json::from_value(document).expect("a valid request")
}

#[test]
fn decision_that_cannot_be_logged_is_not_returned() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            two_sources(&scene, json!({})).await;
            scene.upstream.set_script("live", &[HONEST]);
            scene.world.break_store();
            let refused = system.verification.verify(&request()).await;
            assert!(matches!(refused, Err(VerifyError::Commit(_) | VerifyError::Store(_))), "{refused:?}");
            scene.world.mend_store();
        },
    );
}
