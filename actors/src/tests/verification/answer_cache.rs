//! The caching of live sources' answers, and their issue times as a guard against replays.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, adapter, after_s, cached_answer_time, key, live,
    subject_identity, with_scene,
};
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use actors_ground::registry::SourceInvalidation;
use domain_ground::event::InvalidationCause;
use domain_ground::value::AxisValue;
use domain_verification::verification_record::StatedValue;
use domain_verification::{CachedAnswerKey, EnvelopeKind};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

const HONEST: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::People("54208"));
/// The source's clock is 30 s ahead.
const AHEAD: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::Changed("54208", |candidate| {
    candidate.observed_at += SignedDuration::from_secs(30);
}));
/// An answer with a value on an axis that was not requested, which is too long to be cached.
const LONG: ScriptedCall = ScriptedCall::at_once(ScriptedSourceReply::Changed("54208", |candidate| {
    let stated = StatedValue { value: AxisValue::Text("x".repeat(64 << 10)), definition: None };
    drop(candidate.values.insert("area_name".into(), stated));
}));

/// A live source that answers about the past, with these adapter settings.
async fn register_source_of_past_answers(scene: &TestScenario, settings: Json) {
    let system = &scene.world.system;
    live(system, "live", json!({})).await;
    let mut all = json!({"endpoint": "https://office.example/{area}/{year}?at={point_in_time}"});
    all.as_object_mut().expect("fields").extend(settings.as_object().expect("fields").clone());
    adapter(system, "live", all).await;
    scene.time.start_clock();
    workflow(system, &["live"], json!({})).await;
    scene.upstream.set_script("live", &[HONEST]);
}

/// Adapter settings for answers with an issue time.
fn issued() -> Json {
    json!({"issued_at": {"path": "issued"}, "max_issue_age_seconds": 7200})
}

async fn verified_of(system: &ActorSystem, point_in_time: Timestamp) {
    let envelope =
        verify_population(system, json!({"point_in_time": point_in_time})).await.expect("an envelope");
    assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{envelope:#?}");
}

/// Asks twenty questions, each about another time.
async fn ask_about_twenty_times(system: &ActorSystem) {
    for _ in 0..20 {
        after_s(1).await;
        verified_of(system, system.clock.now()).await;
    }
}

fn count_cached_answers(system: &ActorSystem) -> usize {
    system.store.cached_answer_page(None, 100).expect("the read succeeds").answers.len()
}

#[test]
fn questions_about_many_times_do_not_fill_the_cache() {
    for (settings, rows) in [(json!({}), 0), (json!({"ttl_seconds": 3600}), 1), (issued(), 1)] {
        with_scene(
            |_| {},
            async |scene: TestScenario| {
                let system = &scene.world.system;
                register_source_of_past_answers(&scene, settings.clone()).await;
                ask_about_twenty_times(system).await;
                assert_eq!(
                    (count_cached_answers(system), scene.upstream.calls("live")),
                    (rows, 20),
                    "{settings}"
                );
                after_s(4 * 3600).await;
                assert_eq!(count_cached_answers(system), 0, "{settings}");
            },
        );
    }
}

#[test]
fn answer_about_the_past_is_reused_within_its_ttl_for_its_time_only() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_source_of_past_answers(&scene, json!({"ttl_seconds": 60})).await;
            let moment = system.clock.now() - SignedDuration::from_hours(24);
            for (wait_s, of, calls) in [
                (0, moment, 1),
                (60, moment, 1),
                (1, moment, 2),
                (0, moment - SignedDuration::from_secs(1), 3),
                (0, moment, 4),
            ] {
                after_s(wait_s).await;
                verified_of(system, of).await;
                assert_eq!(scene.upstream.calls("live"), calls);
            }
            // an answer about the past is not used for the present, and the other way round
            verified(system).await;
            verified_of(system, moment).await;
            assert_eq!(scene.upstream.calls("live"), 5);
        },
    );
}

#[test]
fn issue_time_of_a_past_answer_is_guarded_after_the_answer_is_gone() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_source_of_past_answers(&scene, issued()).await;
            ask_about_twenty_times(system).await;
            let last = system.clock.now();
            let past = CachedAnswerKey::of(&source_id("live"), &subject_identity("ABW"), Some(last));
            let (row, _) = system
                .store
                .cached_answer(&past)
                .expect("the cached answer is readable")
                .expect("the cached answer exists");
            assert_eq!((row.candidate, row.issued_at), (None, Some(last)));
            // the upkeep has run meanwhile
            after_s(3700).await;
            verified_of(system, last - SignedDuration::from_hours(24)).await;
            assert_eq!(scene.upstream.guarded_by("live"), Some(last));
        },
    );
}

#[test]
fn too_long_answer_counts_but_is_not_cached_and_removes_the_older_one() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_source_of_past_answers(&scene, json!({})).await;
            scene.upstream.set_script("live", &[LONG]);
            assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
            assert_eq!(count_cached_answers(system), 0);
            scene.upstream.set_script("live", &[HONEST, LONG]);
            verified(system).await;
            assert_eq!(cached_answer_time(system, "ABW"), Some(system.clock.now()));
            after_s(1).await;
            verified(system).await;
            assert_eq!(cached_answer_time(system, "ABW"), None);

            adapter(system, "live", issued()).await;
            verified(system).await;
            let (row, _) = system
                .store
                .cached_answer(&key("ABW"))
                .expect("the cached answer is readable")
                .expect("the cached answer exists");
            assert_eq!((row.candidate, row.issued_at), (None, Some(system.clock.now())));
        },
    );
}

#[test]
fn answer_from_before_its_source_was_declared_stale_is_not_reused() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            register_source_of_past_answers(&scene, json!({"ttl_seconds": 3600})).await;
            scene.upstream.set_script("live", &[AHEAD]);
            for calls in [1, 1] {
                verified(system).await;
                assert_eq!(scene.upstream.calls("live"), calls);
            }
            let (trigger, detail) = (InvalidationCause::Manual, "it is wrong".to_owned());
            system
                .registry
                .invalidate(SourceInvalidation { oracle_id: source_id("live"), trigger, detail, peer: PEER })
                .await
                .expect("it is stale");
            verified(system).await;
            assert_eq!(scene.upstream.calls("live"), 2);
        },
    );
}
