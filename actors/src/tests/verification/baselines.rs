//! The baselines of sources, with questions of other workflows and about other times in between.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, adapter, after_s, cached_answer_time, live, with_scene,
};
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use actors_verification::{DismissReview, ResolveReview, RevokeResolution};
use domain_ground::value::AxisValue;
use domain_verification::review::{DismissalRequest, ReviewResolution, RevocationRequest};
use domain_verification::{AxisReason, Envelope, EnvelopeKind};
use oracled_store::LogQuery;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const HONEST: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::People("54208"));
const POISONED: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::People("99999999"));

fn limits() -> Json {
    json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}})
}

/// A live source that answered 54208 once, and answers 99999999 from then on.
async fn register_deviating_source(scene: &TestScenario) {
    let system = &scene.world.system;
    live(system, "live", json!({})).await;
    let endpoint = "https://office.example/{area}/{year}?at={point_in_time}";
    adapter(system, "live", json!({"endpoint": endpoint, "ttl_seconds": 60})).await;
    scene.time.start_clock();
    workflow(system, &["live"], limits()).await;
    scene.upstream.set_script("live", &[HONEST]);
    assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
    scene.upstream.set_script("live", &[POISONED]);
    after_s(3600).await;
}

async fn verify_expecting_deviation(system: &ActorSystem, more: Json) -> Arc<Envelope> {
    let envelope = verify_population(system, more).await.expect("the verification succeeds");
    assert_eq!(
        (envelope.kind, &envelope.reasons),
        (EnvelopeKind::HumanReview, &[AxisReason::Deviation].into())
    );
    assert!(envelope.axes["population"].value.is_none());
    envelope
}

/// The id of the review of a deviation.
async fn open_deviation_review(system: &ActorSystem) -> String {
    verify_expecting_deviation(system, json!({})).await.review_id.clone().expect("the envelope has a review")
}

/// Resolves a review for a minute. No source needs to have the value.
async fn resolved(system: &ActorSystem, review_id: &str, value: &str) {
    let resolution = ReviewResolution {
        values: [("population".to_owned(), json!(value))].into(),
        definitions: [].into(),
        own_value: true,
        reason: "counted again".into(),
        valid_for_seconds: 60,
        rule: None,
    };
    let resolve = ResolveReview { review_id: review_id.to_owned(), resolution, user: PEER.into() };
    system.verification.resolve(&resolve).await.expect("the resolution succeeds");
}

async fn revoked(system: &ActorSystem, review_id: &str) {
    let revocation = RevocationRequest { reason: "misread".into() };
    let revoke = RevokeResolution { review_id: review_id.to_owned(), revocation, user: PEER.into() };
    system.verification.revoke(&revoke).await.expect("the revocation succeeds");
}

#[test]
fn other_workflow_or_time_does_not_move_a_baseline() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_deviating_source(&scene).await;
            verify_expecting_deviation(system, json!({})).await;
            // a workflow without limits accepts the value, so it is cached, and fresh for a while
            workflow(system, &["live"], json!({"workflow_id": "careless"})).await;
            let careless =
                verify_population(system, json!({"workflow": "careless"})).await.expect("an envelope");
            assert_eq!(careless.kind, EnvelopeKind::Authoritative);
            let cached = verify_expecting_deviation(system, json!({})).await;
            assert_eq!(
                scene.upstream.calls("live"),
                2,
                "the value that `careless` accepted comes from the cache: {cached:?}"
            );
            let now = system.clock.now();
            verify_expecting_deviation(system, json!({"point_in_time": now})).await;
            after_s(3600).await;
            verify_expecting_deviation(system, json!({"point_in_time": now})).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn confirmed_value_is_the_baseline_from_then_on() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_deviating_source(&scene).await;
            let review_id = open_deviation_review(system).await;
            resolved(system, &review_id, "99999999").await;
            // while the lock is valid it covers later times, too; after that the source's own value counts
            let locked = verify_population(system, json!({"point_in_time": system.clock.now()}))
                .await
                .expect("an envelope");
            assert_eq!(locked.kind, EnvelopeKind::Authoritative);
            after_s(3600).await;
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            scene.upstream.set_script("live", &[HONEST]);
            after_s(3600).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn revoked_confirmation_makes_the_value_a_deviation_again() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_deviating_source(&scene).await;
            let review_id = open_deviation_review(system).await;
            resolved(system, &review_id, "99999999").await;
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            revoked(system, &review_id).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn source_value_beside_a_lock_is_not_a_later_baseline() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_deviating_source(&scene).await;
            let review_id = open_deviation_review(system).await;
            resolved(system, &review_id, "54208").await;
            let decided = verified(system).await;
            assert_eq!(decided.axes["population"].value, Some(AxisValue::Text("54208".into())));
            after_s(3600).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn revoked_confirmation_of_the_first_deviation_is_a_deviation_again() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            source(system, "archive", json!({})).await;
            for (version, count) in [("2026-11-01", "54208"), ("2026-11-02", "99999999")] {
                ingest_source_rows(system, "archive", version, &[&format!("Aruba,ABW,1960,{count}")]).await;
            }
            workflow(system, &["archive"], limits()).await;
            let review_id = open_deviation_review(system).await;
            resolved(system, &review_id, "99999999").await;
            revoked(system, &review_id).await;
            verify_expecting_deviation(system, json!({})).await;
            ingest_source_rows(system, "archive", "2026-11-03", &["Aruba,ABW,1960,99999998"]).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn dismissed_deviation_remains_a_deviation() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_deviating_source(&scene).await;
            let review_id = verify_expecting_deviation(system, json!({}))
                .await
                .review_id
                .clone()
                .expect("the envelope has a review");
            let dismissal = DismissalRequest { reason: "a slip".into() };
            let dismiss = DismissReview { review_id: review_id.clone(), dismissal, user: PEER.into() };
            system.verification.dismiss(&dismiss).await.expect("the dismissal succeeds");
            let again = verify_expecting_deviation(system, json!({})).await;
            assert_ne!(again.review_id, Some(review_id));
            scene.upstream.set_script("live", &[HONEST]);
            after_s(3600).await;
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
        },
    );
}

#[test]
fn deviating_answer_does_not_replace_the_cached_one() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            live(system, "live", json!({})).await;
            adapter(system, "live", json!({})).await;
            scene.time.start_clock();
            let mut settings = limits();
            settings["oracle_latency"] = json!({"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 600});
            workflow(system, &["live"], settings).await;
            scene.upstream.set_script("live", &[HONEST, POISONED, ScriptedCall::DEAD]);
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            after_s(1).await;
            verify_expecting_deviation(system, json!({})).await;
            after_s(1).await;
            let cached = verified(system).await;
            assert_eq!(cached.axes["population"].value, Some(AxisValue::Text("54208".into())), "{cached:#?}");
            assert!(cached.candidates[0].stale);
        },
    );
}

#[test]
fn deviation_under_a_lock_is_one_again_when_the_lock_ends() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            source(system, "archive", json!({})).await;
            ingest_source_rows(system, "archive", "2026-11-01", &["Aruba,ABW,1960,54208"]).await;
            let mut settings = limits();
            settings["conflict_resolution"] = json!({"always_human_axes": ["population"]});
            workflow(system, &["archive"], settings).await;
            let review_id = verified(system).await.review_id.clone().expect("the envelope has a review");
            resolved(system, &review_id, "54208").await;
            for (version, count) in [("2026-11-02", "99999999"), ("2026-11-03", "99999998")] {
                ingest_source_rows(system, "archive", version, &[&format!("Aruba,ABW,1960,{count}")]).await;
                let decided = verified(system).await;
                assert_eq!(decided.axes["population"].value, Some(AxisValue::Text("54208".into())));
            }
            revoked(system, &review_id).await;
            workflow(system, &["archive"], limits()).await;
            verify_expecting_deviation(system, json!({})).await;
        },
    );
}

#[test]
fn deviation_that_is_ingested_twice_remains_a_deviation() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            source(system, "archive", json!({})).await;
            ingest_source_rows(system, "archive", "2026-11-01", &["Aruba,ABW,1960,54208"]).await;
            workflow(system, &["archive"], limits()).await;
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            for (version, count) in [("2026-11-02", "99999999"), ("2026-11-03", "99999998")] {
                ingest_source_rows(system, "archive", version, &[&format!("Aruba,ABW,1960,{count}")]).await;
                verify_expecting_deviation(system, json!({})).await;
            }
        },
    );
}

#[test]
fn useless_cached_answers_are_removed_and_logged() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            live(system, "live", json!({})).await;
            adapter(system, "live", json!({"keep_seconds": 7200})).await;
            scene.time.start_clock();
            workflow(system, &["live"], json!({})).await;
            scene.upstream.set_script("live", &[HONEST]);
            verified(system).await;
            after_s(3601).await;
            assert!(cached_answer_time(system, "ABW").is_some(), "it is kept for two hours");
            after_s(2 * 3600).await;
            assert_eq!(cached_answer_time(system, "ABW"), None);
            let query =
                LogQuery { events: vec!["cached_answers_removed".into()], limit: 9, ..LogQuery::default() };
            assert_eq!(system.store.log(&query).expect("the log is readable").len(), 1);
        },
    );
}
