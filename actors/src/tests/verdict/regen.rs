use crate::testing::model::{
    ScriptedModel, failure, lose_verdict, order, outside, register, submission_of_query, verdict, with_model,
};
use crate::testing::{TestClock, TestServices, TestSystem, id, logged_events, with_services};
use actors_platform::actor_handle::StartedActor;
use actors_upstream::failure::RequestFailureKind;
use actors_upstream::oracle_health::RequestCallPermit;
use actors_upstream::{ModelError, ModelRefusal, ModelTextError};
use actors_verdict::cache::{FindSession, FindSessionOutcome};
use actors_verdict::crosscheck::GateError;
use actors_verdict::generation::{ConfiguredModel, GenerationError, GenerationResult};
use actors_verdict::rate_limiter::CallLimitError;
use actors_verdict::regen::*;
use actors_verdict::submission::{Submission, SubmissionOutcome};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_rules::CandidateCheck;
use domain_verdict::divergence::DivergenceLevel;
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::order::OrderState;
use domain_verdict::query::CustomerQuery;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

async fn read(world: &TestSystem, session_id: &str) -> GenerationResult {
    world.system.regen.ask(RegenerateVerdict(id(session_id))).await.expect("the actor answers")
}

#[test]
fn regeneration_uses_locked_settings_and_the_same_prompt() {
    let model = ScriptedModel::with_answers([verdict(VerdictLabel::Green), verdict(VerdictLabel::Red)]);
    with_model(model, |world, model| async move {
        let first = order(&world, "cs_1", "Sell honey?").await.expect("the order is accepted");
        assert_eq!(first.state, OrderState::Delivered);
        lose_verdict(&world, "cs_1").await;
        let second = read(&world, "cs_1").await;
        let Ok(SubmissionOutcome::Regenerated(_, check)) = second else { panic!("{second:?}") };
        assert_eq!(check.divergence_level, Some(DivergenceLevel::Significant));
        assert_eq!((check.prompt_changed, check.settings_changed), (Some(false), Some(true)));

        let requests = model.requests.lock().expect("the lock is not poisoned").clone();
        let [(prompt, _), (prompt_again, _)] = requests.as_slice() else { panic!("two calls: {requests:?}") };
        assert_eq!(prompt, prompt_again);
        let [original, regen] = model.settings().try_into().expect("two calls");
        assert_eq!(
            (original.temperature, regen),
            (Some(0.7), GenerationSettings::locked(LOCKED_MODEL.into()))
        );
        assert_eq!(
            logged_events(&world.system.store),
            [
                "order_placed",
                "order_attempted",
                "oracle_interaction",
                "tmm_crosscheck",
                "verdict_cached",
                "order_delivered",
                "verdict_purged",
                "regen_attempted",
                "oracle_interaction",
                "tmm_crosscheck",
                "verdict_cached",
                "regen_divergence_check"
            ]
        );
    });
}

#[test]
fn thousand_reads_of_one_missing_verdict_are_one_call() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let reads: Vec<_> = (0..1000)
            .map(|_| {
                let regen = world.system.regen.clone();
                actix_rt::spawn(async move {
                    regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
                })
            })
            .collect();
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        model.held.as_ref().expect("`held` is set").notify_one();
        let mut bodies = Vec::new();
        for read in reads {
            match read.await.expect("the task does not panic") {
                Ok(SubmissionOutcome::Regenerated(cached, _)) => bodies.push(cached),
                other => panic!("{other:?}"),
            }
        }
        assert!(bodies.iter().all(|body| Arc::ptr_eq(body, &bodies[0])));
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn model_is_not_called_if_the_verdict_could_not_be_stored() {
    let model = ScriptedModel::with_answers([]);
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        world.break_store();
        let lost = AuditEvent::new(world.system.clock.now(), None, ServiceStopped {});
        assert!(world.system.log.commit(lost.into()).await.is_err());
        let refused = order(&world, "cs_2", "Sell honey?").await;
        assert!(matches!(refused, Err(GenerationError::Commit(_))), "{refused:?}");
        let refused = read(&world, "cs_1").await.expect_err("the attempt cannot be stored");
        assert!(matches!(*refused, GenerationError::Commit(_)), "{refused:?}");
        assert_eq!(model.calls(), 0);
        world.mend_store();
    });
}

#[test]
fn rate_limit_is_reported_before_an_open_circuit() {
    let model = ScriptedModel::with_answers((0..3).map(|_| failure(RequestFailureKind::Status(503))));
    with_model(model, |world, _| async move {
        for n in 0..3 {
            register(&world, &format!("cs_{n}"), None).await;
            assert!(read(&world, &format!("cs_{n}")).await.is_err());
        }
        let again = read(&world, "cs_0").await.expect_err("the limit rejects the request");
        assert!(matches!(&*again, GenerationError::Limited(CallLimitError::Session { .. })), "{again:?}");
    });
}

#[test]
fn await_generations_waits_for_those_in_progress() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        world.system.regen.ask(AwaitGenerations::default()).await.expect("no call is in flight");
        let regen = world.system.regen.clone();
        let reading = actix_rt::spawn(async move { regen.ask(RegenerateVerdict(id("cs_1"))).await });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let regen = world.system.regen.clone();
        let rest = actix_rt::spawn(async move { regen.ask(AwaitGenerations::default()).await });
        tokio::task::yield_now().await;
        assert!(!rest.is_finished());
        model.held.as_ref().expect("`held` is set").notify_one();
        rest.await.expect("the task does not panic").expect("the call succeeds");
        assert!(logged_events(&world.system.store).contains(&"verdict_cached".to_owned()));
        drop(reading.await);
    });
}

#[test]
fn second_regeneration_within_5_minutes_is_refused_after_any_outcome() {
    for first in [
        failure(RequestFailureKind::Status(500)),
        Err(ModelTextError::Refused(ModelRefusal::Empty)),
        Ok("no JSON".into()),
    ] {
        let model = ScriptedModel::with_answers([first]);
        with_model(model, |world, model| async move {
            register(&world, "cs_1", None).await;
            let refused = read(&world, "cs_1").await;
            assert!(!matches!(refused, Ok(SubmissionOutcome::Regenerated(..))), "{refused:?}");
            let again = read(&world, "cs_1").await.expect_err("the limit rejects the request");
            let GenerationError::Limited(CallLimitError::Session { wait }) = &*again else {
                panic!("{again:?}")
            };
            assert_eq!((*wait, model.calls()), (Duration::from_secs(300), 1));
            world.time.advance(300);
            let third = read(&world, "cs_1").await;
            assert!(matches!(third, Ok(SubmissionOutcome::Regenerated(..))), "{third:?}");
        });
    }
}

#[test]
fn attempt_that_did_not_reach_the_model_does_not_count() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Connect)]);
    with_model(model, |world, _| async move {
        register(&world, "cs_1", None).await;
        let unreached = read(&world, "cs_1").await.expect_err("the model is unreachable");
        let GenerationError::Model { error: ModelError::Unavailable { .. }, retry_after } = &*unreached
        else {
            panic!("{unreached:?}")
        };
        assert!(retry_after.is_some_and(|wait| wait < Duration::from_secs(60)), "{retry_after:?}");
        assert!(matches!(read(&world, "cs_1").await, Ok(SubmissionOutcome::Regenerated(..))));
    });
}

#[test]
fn session_limit_survives_a_restart() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Status(500))]);
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        assert!(read(&world, "cs_1").await.is_err());
        let outside = outside(&model, &world.time);
        let again = world.restarted(outside).await;
        let refused = read(&again, "cs_1").await.expect_err("the limit rejects the request");
        assert!(matches!(&*refused, GenerationError::Limited(CallLimitError::Session { .. })), "{refused:?}");
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn unknown_or_delivered_session_gets_no_generation() {
    let model = ScriptedModel::with_answers([]);
    with_model(model, |world, model| async move {
        let unknown = read(&world, "cs_1").await.expect_err("the session is unknown");
        assert!(matches!(&*unknown, GenerationError::SessionUnknown), "{unknown:?}");
        register(&world, "cs_1", Some(VerdictLabel::Green)).await;
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect_err("it has its verdict");
        assert!(matches!(delivered, GenerationError::DeliveredAlready), "{delivered:?}");
        assert_eq!((model.calls(), logged_events(&world.system.store).len()), (0, 1));
    });
}

#[test]
fn model_is_not_called_after_three_failures_open_the_circuit() {
    let model = ScriptedModel::with_answers((0..3).map(|_| failure(RequestFailureKind::Status(503))));
    with_model(model, |world, model| async move {
        for n in 0..4 {
            register(&world, &format!("cs_{n}"), None).await;
        }
        for n in 0..3 {
            assert!(read(&world, &format!("cs_{n}")).await.is_err());
        }
        let open = read(&world, "cs_3").await.expect_err("the circuit is open");
        let GenerationError::NotPermitted { retry_after, .. } = &*open else { panic!("{open:?}") };
        assert_eq!((*retry_after, model.calls()), (Duration::from_secs(30), 3));
        assert_eq!(
            world.system.store.regen_attempt(&id("cs_3")).expect("the regeneration attempt is readable"),
            None,
            "not attempted"
        );

        world.time.advance(30);
        assert!(
            matches!(read(&world, "cs_3").await, Ok(SubmissionOutcome::Regenerated(..))),
            "one call is let through"
        );
        let permit = world.system.oracle_health.ask(RequestCallPermit("gemini".parse().expect("a valid id")));
        drop(permit.await.expect("the actor answers").expect("it is closing"));
    });
}

#[test]
fn verdict_made_while_the_store_is_broken_is_not_delivered_but_logged() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let regen = world.system.regen.clone();
        let read = actix_rt::spawn(async move {
            regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
        });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.break_store();
        model.held.as_ref().expect("`held` is set").notify_one();
        let outcome =
            read.await.expect("the task does not panic").expect_err("the log entry cannot be written");
        assert!(matches!(&*outcome, GenerationError::Gate(_)), "{outcome:?}");
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        let events: Vec<_> = ["oracle_interaction", "tmm_crosscheck"]
            .map(|event| lines.iter().filter(|line| line.contains(event)).count())
            .into();
        assert_eq!((events, lines.len()), (vec![1, 1], 2), "{lines:?}");
        world.mend_store();
    });
}

#[test]
fn regen_gap_06_divergence_is_escalated_once_and_over_a_restart() {
    let regenerated = |n| verdict(if n < 2 { VerdictLabel::Amber } else { VerdictLabel::Green });
    let model =
        ScriptedModel::with_answers((0..20).flat_map(|n| [verdict(VerdictLabel::Green), regenerated(n)]));
    let time = TestClock::new();
    let mut outside = outside(&model, &time);
    for model in &mut outside.models.order {
        let locked = GenerationSettings::locked(LOCKED_MODEL.into());
        *model = Arc::new(ConfiguredModel::new(model.caller.clone(), locked));
    }
    with_services(time, outside, |world| async move {
        for n in 0..20 {
            let first = order(&world, &format!("cs_{n}"), "Sell honey?").await.expect("it is accepted");
            assert_eq!(first.state, OrderState::Delivered);
            lose_verdict(&world, &format!("cs_{n}")).await;
            assert!(matches!(read(&world, &format!("cs_{n}")).await, Ok(SubmissionOutcome::Regenerated(..))));
        }
        let variance = world.system.regen.ask(ReadVariance).await.expect("the actor answers");
        assert_eq!((variance.regens, variance.diverged, variance.escalated), (20, 2, true));
        while !logged_events(&world.system.store).contains(&"infrastructure_variance".to_owned()) {
            tokio::task::yield_now().await;
        }
        // regenerations without an original do not displace the counted ones
        for n in 100..210 {
            register(&world, &format!("cs_{n}"), None).await;
            assert!(matches!(read(&world, &format!("cs_{n}")).await, Ok(SubmissionOutcome::Regenerated(..))));
        }
        let TestSystem { system, .. } = world.restarted(TestServices::default()).await;
        assert_eq!(system.regen.ask(ReadVariance).await.expect("the actor answers"), variance);
        let escalations =
            logged_events(&system.store).iter().filter(|e| *e == "infrastructure_variance").count();
        assert_eq!(escalations, 1);
    });
}

#[test]
fn generation_survives_a_panic_of_its_actor() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let regen = world.system.regen.clone();
        let read_on = actix_rt::spawn(async move { regen.ask(RegenerateVerdict(id("cs_1"))).await });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.system.regen.inject_panic().await;
        let regen = world.system.regen.clone();
        let joined = actix_rt::spawn(async move { regen.ask(RegenerateVerdict(id("cs_1"))).await });
        tokio::task::yield_now().await;
        model.held.as_ref().expect("`held` is set").notify_one();
        assert!(matches!(
            joined.await.expect("the task does not panic"),
            Ok(Ok(SubmissionOutcome::Regenerated(..) | SubmissionOutcome::Replayed(_)))
        ));
        drop(read_on.await);
        assert_eq!(model.calls(), 1, "the one flight was joined");
    });
}

#[test]
fn check_set_during_a_regeneration_makes_its_verdict_stale() {
    let model = Arc::new(ScriptedModel { held: Some(Notify::new()), ..ScriptedModel::default() });
    with_model(model, |world, model| async move {
        register(&world, "cs_1", Some(VerdictLabel::Green)).await;
        let regen = world.system.regen.clone();
        let reading = actix_rt::spawn(async move {
            regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers")
        });
        while model.calls() == 0 {
            tokio::task::yield_now().await;
        }
        let check = Some(Arc::new(CandidateCheck {
            facts: vec!["another plan".into()],
            ..CandidateCheck::default()
        }));
        let (tier, query) = (ProductTier::Quick, CustomerQuery::new("Sell honey?".into()));
        let find = FindSession(Submission { tier, query, check: check.clone(), ..submission_of_query("") });
        let known =
            world.system.cache.ask(find).await.expect("the actor answers").expect("the commit succeeds");
        assert!(matches!(known, FindSessionOutcome::Nothing(cached) if cached == check));
        model.held.as_ref().expect("`held` is set").notify_one();
        let outcome = reading.await.expect("the task does not panic");
        let Err(failed) = &outcome else { panic!("{outcome:?}") };
        assert!(matches!(**failed, GenerationError::Gate(GateError::Cache(_))), "{failed:?}");
        assert!(world.system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert_eq!(logged_events(&world.system.store).last().map(String::as_str), Some("tmm_crosscheck"));
    });
}
