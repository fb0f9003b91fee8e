use crate::testing::model::register;
use crate::testing::{
    TestClock, TestServices, TestSystem, id, logged_events, test_model_id, with_services, with_system,
};
use actors_audit::logger::CommitError;
use actors_platform::shared_calls::{CallMeter, SharedCalls, TakeCall};
use actors_verdict::rate_limiter::*;
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_base::session_id::ApplicationName;
use domain_verdict::generation::{GenerationSettings, VerdictGeneration};
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::ModelPrompt;
use oracled_store::{JournalRecord, StoreError};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

fn request_regen(session_id: &str) -> RequestRegen {
    let prompt = ModelPrompt::of_text(ProductTier::Quick, "prompt".to_owned());
    let generation = VerdictGeneration::new(&prompt, GenerationSettings::locked("model".into()));
    RequestRegen {
        session_id: id(session_id),
        oracle_id: test_model_id(),
        tier: ProductTier::Quick,
        generation,
    }
}

#[test]
fn attempt_is_durable_before_the_call_and_the_next_one_has_its_time() {
    with_system(|world| async move {
        for session_id in ["cs_1", "cs_2"] {
            register(&world, session_id, None).await;
        }
        let TestSystem { system, time, .. } = world;
        let limiter = &system.rate_limiter;
        limiter.ask(request_regen("cs_1")).await.expect("the actor answers").expect("the request is allowed");
        let attempts =
            || logged_events(&system.store).iter().filter(|event| *event == "regen_attempted").count();
        assert_eq!(attempts(), 1);
        let unknown = limiter.ask(request_regen("cs_3")).await.expect("the actor answers");
        assert!(matches!(unknown, Err(CallPermitError::Commit(CommitError::Stale(_)))), "{unknown:?}");
        time.advance(1);
        let limited = limiter.ask(request_regen("cs_1")).await.expect("the actor answers");
        let Err(CallPermitError::Limited(CallLimitError::Session { wait })) = limited else {
            panic!("{limited:?}")
        };
        assert_eq!(wait, Duration::from_secs(299));
        limiter.ask(request_regen("cs_2")).await.expect("the actor answers").expect("it is another session");
        time.advance(299);
        limiter
            .ask(request_regen("cs_1"))
            .await
            .expect("the actor answers")
            .expect("five minutes have passed");
        assert_eq!(attempts(), 3, "a refusal is no event");
    });
}

#[test]
fn trials_get_half_of_the_limits_and_give_way_to_refused_calls() {
    with_system(|TestSystem { system, .. }| async move {
        let limiter = &system.rate_limiter;
        let first = async || {
            let (oracle_id, application) = (test_model_id(), ApplicationName::default());
            limiter.ask(RequestFirstCall { oracle_id, application }).await.expect("the actor answers")
        };
        let trial = async || limiter.ask(RequestTrialCall(test_model_id())).await.expect("the actor answers");
        let mut trials = vec![trial().await.expect("a slot"), trial().await.expect("a slot")];
        let third = trial().await;
        assert!(
            matches!(third, Err(CallPermitError::Limited(CallLimitError::Places { calls_at_once: 2, .. }))),
            "{third:?}"
        );
        let calls = [first().await.expect("a slot"), first().await.expect("a slot")];
        assert!(first().await.is_err(), "all four slots are taken");
        trials.pop();
        drop(calls);
        let waits = trial().await;
        assert!(
            matches!(waits, Err(CallPermitError::Limited(CallLimitError::Places { calls_at_once: 4, .. }))),
            "the refused call comes first: {waits:?}"
        );
        first().await.expect("a slot is free");
    });
}

#[test]
fn one_of_simultaneous_attempts_is_permitted() {
    with_system(|world| async move {
        register(&world, "cs_1", None).await;
        let TestSystem { system, .. } = world;
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let handle = system.rate_limiter.clone();
                actix_rt::spawn(async move {
                    handle.ask(request_regen("cs_1")).await.expect("the actor answers").is_ok()
                })
            })
            .collect();
        let mut let_through = 0;
        for task in tasks {
            let_through += usize::from(task.await.expect("the task does not panic"));
        }
        let events = logged_events(&system.store);
        let attempts = events.iter().filter(|event| *event == "regen_attempted").count();
        assert_eq!((let_through, attempts), (1, 1));
    });
}

#[test]
fn attempt_that_did_not_reach_the_model_can_be_undone() {
    with_system(|world| async move {
        register(&world, "cs_1", None).await;
        let TestSystem { system, .. } = world;
        let taken = system.rate_limiter.ask(request_regen("cs_1")).await.expect("the actor answers");
        let (taken, _slot) = taken.expect("the request is allowed");
        let mut record = JournalRecord::from(AuditEvent::new(system.clock.now(), None, ServiceStopped {}));
        taken.remove_attempt(&mut record);
        system.log.commit(record).await.expect("the commit succeeds");
        system
            .rate_limiter
            .ask(request_regen("cs_1"))
            .await
            .expect("the actor answers")
            .expect("it counts for nothing");
    });
}

#[test]
fn calls_of_a_cluster_take_from_its_meters_and_fail_without_them() {
    let ((takes, taken), (_hosts, live_hosts)) = (mpsc::channel(), watch::channel(2));
    let shared_calls = Some(SharedCalls { host: "a".to_owned(), takes, live_hosts });
    let wait = Duration::from_secs(7);
    let server = thread::spawn(move || {
        let mut meters = Vec::new();
        // a server that goes away after three answers
        for answer in [Duration::ZERO, Duration::ZERO, wait] {
            let TakeCall { meters: wanted, reply } = taken.recv().expect("a call");
            meters.extend(wanted);
            reply.send(Ok(vec![answer])).expect("the caller waits");
        }
        meters
    });
    let outside = TestServices { shared_calls, ..TestServices::default() };
    with_services(TestClock::new(), outside, |TestSystem { system, .. }| async move {
        let call = async || {
            let (oracle_id, application) = (test_model_id(), ApplicationName::default());
            let call = RequestFirstCall { oracle_id, application };
            system.rate_limiter.ask(call).await.expect("the actor answers")
        };
        let (first, second) = (call().await.expect("a slot"), call().await.expect("a slot"));
        let third = call().await;
        assert!(
            matches!(third, Err(CallPermitError::Limited(CallLimitError::Places { calls_at_once: 2, .. }))),
            "half of four: {third:?}"
        );
        drop((first, second));
        let limited = call().await;
        assert!(
            matches!(limited, Err(CallPermitError::Limited(CallLimitError::Budget { wait: found, .. })) if found == wait),
            "{limited:?}"
        );
        let unanswered = call().await;
        assert!(
            matches!(unanswered, Err(CallPermitError::Store(StoreError::Unavailable { .. }))),
            "{unanswered:?}"
        );
        let meters = server.join().expect("all were asked");
        let [CallMeter { name, every, burst }, ..] = &meters[..] else { panic!("three calls") };
        assert_eq!((name.as_str(), *burst), ("model/gemini", 250));
        assert_eq!(*every, Duration::from_millis(80), "the rest of 1000 in a minute");
    });
}
