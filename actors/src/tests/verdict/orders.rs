mod budget;
mod cancel;
mod clock;
mod fallbacks;
mod opinions;
mod policy;
mod reask;

use crate::testing::model::{
    PEER, ScriptedModel, failure, lose_verdict, order, outside, place, register, submission_of_query,
    verdict, with_model,
};
use crate::testing::{GOOD, TestClock, TestServices, TestSystem, id, logged_events, with_services};
use actors_platform::work::{StopWork, TICK};
use actors_upstream::failure::{RequestFailure, RequestFailureKind};
use actors_upstream::{ModelRefusal, ModelTextError};
use actors_verdict::cache::{FindSession, FindSessionOutcome, RemoveSession, StoreRejectingCheck};
use actors_verdict::crosscheck::JudgeVerdict;
use actors_verdict::erasure::ErasureError;
use actors_verdict::generation::{GenerationError, PromptError};
use actors_verdict::orders::*;
use actors_verdict::regen::RegenerateVerdict;
use actors_verdict::submission::{Submission, SubmissionOutcome};
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::ApplicationName;
use domain_rules::CandidateCheck;
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::label::VerdictLabel;
use domain_verdict::order::{Order, OrderAction, OrderPosition, OrderState, OrderStopCause};
use domain_verdict::prompt::PromptTemplate;
use domain_verdict::session::{CustomerEmail, SessionMismatch, SessionRecord};
use jiff::SignedDuration;
use oracled_store::{JournalRecord, LogQuery, OrderQuery};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;

/// A model that answers after a notification.
fn held_model(answers: impl Into<VecDeque<Result<String, ModelTextError>>>) -> Arc<ScriptedModel> {
    let answers = Mutex::new(answers.into());
    Arc::new(ScriptedModel { answers, held: Some(Notify::new()), ..ScriptedModel::default() })
}

/// Lets the model answer one call.
fn answer_one(model: &ScriptedModel) {
    model.held.as_ref().expect("`held` is set").notify_one();
}

async fn until_called(model: &ScriptedModel, calls: usize) {
    while model.calls() < calls {
        tokio::task::yield_now().await;
    }
}

async fn place_order(world: &TestSystem, submission: Submission) -> (watch::Receiver<Order>, bool) {
    match place(world, submission).await.expect("the order is accepted") {
        PlacedOrder::Order { progress, is_new } => (progress, is_new),
        other => panic!("{other:?}"),
    }
}

async fn wait_for(progress: &mut watch::Receiver<Order>, state: OrderState) -> Order {
    progress.wait_for(|order| order.state == state).await.expect("the order has this state").clone()
}

fn stored(world: &TestSystem, session_id: &str) -> Order {
    let session = world.system.store.session(&id(session_id)).expect("the session is readable");
    session.and_then(|(session, _)| session.order).expect("the session has an order")
}

async fn change(
    world: &TestSystem,
    session_id: &str,
    action: OrderAction,
) -> Result<SessionRecord, OrderChangeError> {
    let reason = "a reason".to_owned();
    let message = ChangeOrder {
        session_id: id(session_id),
        action,
        reason,
        held_only: false,
        changed_at: None,
        user: PEER.into(),
    };
    world.system.orders.ask(message).await.expect("the actor answers")
}

/// Whether `text` is the label of the delivered verdict of the session.
/// Submits [`GOOD`] for the session `cs_1`, which delivers it.
async fn submit_good(world: &TestSystem) {
    let submitted = Submission {
        payload: Some(VerdictPayload::raw(GOOD)),
        path: GatePath::Submit,
        ..submission_of_query("Sell honey?")
    };
    let outcome = world.system.crosscheck.ask(JudgeVerdict(submitted)).await.expect("the actor answers");
    assert!(matches!(outcome, Ok(SubmissionOutcome::Stored(_))), "{outcome:?}");
}

fn delivered_label(world: &TestSystem, session_id: &str) -> VerdictLabel {
    let verdict = world.system.store.verdict(&id(session_id)).expect("the verdict is readable");
    verdict.expect("a verdict is cached").0.approved.label()
}

fn house_template(version: u32, tiers: serde_json::Value) -> PromptTemplate {
    let template = json!({"template_id": "house", "version": version, "language": "en", "tiers": tiers});
    serde_json::from_value(template).expect("a template")
}

fn with_house_template<F: Future<Output = ()>>(
    model: Arc<ScriptedModel>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>) -> F,
) {
    let time = TestClock::new();
    let prompt_template = Some("house".parse().expect("a name"));
    let outside = TestServices { prompt_template, ..outside(&model, &time) };
    with_services(time, outside, |world| test(world, model));
}

async fn register_template(world: &TestSystem, version: u32, tiers: serde_json::Value) {
    let registered = world.system.registry.register(house_template(version, tiers), PEER).await;
    registered.expect("the registration succeeds");
}

#[test]
fn order_waits_until_its_prompt_template_is_registered() {
    with_house_template(ScriptedModel::with_answers([]), |world, model| async move {
        let (mut progress, is_new) = place_order(&world, submission_of_query("Sell honey?")).await;
        assert!(is_new && progress.borrow().state == OrderState::Queued);
        register_template(&world, 2, json!({"quick": "Second: {{query}}"})).await;
        register_template(&world, 1, json!({"quick": "First: {{query}}"})).await;
        // the order is due again after a pause
        loop {
            world.time.advance(60);
            tokio::time::sleep(Duration::from_millis(100)).await;
            if progress.borrow_and_update().state == OrderState::Delivered {
                break;
            }
        }
        let requests = model.requests.lock().expect("the lock is not poisoned").clone();
        assert_eq!(requests[0].0, "Second: \"Sell honey?\"", "the newest version");
        let session = world.system.store.session(&id("cs_1")).expect("the session is readable");
        let original = session.and_then(|(session, _)| session.original).expect("a first verdict");
        let template = original.prompt.and_then(|prompt| prompt.template);
        assert_eq!(template.map(|template| template.to_string()).as_deref(), Some("house@2"));
    });
}

#[test]
fn request_for_a_tier_without_a_text_is_an_error() {
    with_house_template(ScriptedModel::with_answers([]), |world, model| async move {
        register_template(&world, 1, json!({"full": "{{query}}"})).await;
        let placed = place(&world, submission_of_query("Sell honey?")).await;
        assert!(matches!(placed, Err(GenerationError::Prompt(PromptError::Tier(_)))), "{placed:?}");
        assert!(world.system.store.session(&id("cs_1")).expect("the session is readable").is_none());
        assert_eq!(model.calls(), 0);
    });
}

#[test]
fn regeneration_uses_the_version_of_the_first_verdict() {
    with_house_template(ScriptedModel::with_answers([]), |world, model| async move {
        register_template(&world, 1, json!({"quick": "First: {{query}}"})).await;
        order(&world, "cs_1", "Sell honey?").await.expect("the order is accepted");
        register_template(&world, 2, json!({"quick": "Second: {{query}}"})).await;
        lose_verdict(&world, "cs_1").await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        let Ok(SubmissionOutcome::Regenerated(_, check)) = read else { panic!("{read:?}") };
        assert_eq!(check.prompt_changed, Some(false));
        let prompts: Vec<_> = model
            .requests
            .lock()
            .expect("the lock is not poisoned")
            .iter()
            .map(|(text, _)| text.clone())
            .collect();
        assert_eq!(prompts, ["First: \"Sell honey?\""; 2]);
    });
}

#[test]
fn order_is_stored_before_the_model_is_asked() {
    with_model(held_model([]), |world, model| async move {
        let (mut progress, is_new) = place_order(&world, submission_of_query("Sell honey?")).await;
        assert!(is_new);
        until_called(&model, 1).await;
        assert_eq!(stored(&world, "cs_1").state, OrderState::Generating);
        assert_eq!(logged_events(&world.system.store), ["order_placed", "order_attempted"]);
        answer_one(&model);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, order.next_attempt_at), (1, None));
        assert_eq!(stored(&world, "cs_1"), order);
        assert_eq!(
            logged_events(&world.system.store)[2..],
            ["oracle_interaction", "tmm_crosscheck", "verdict_cached", "order_delivered"]
        );
    });
}

#[test]
fn repeated_order_is_the_same_one_and_other_facts_or_another_query_are_a_mismatch() {
    with_model(held_model([]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let check = Some(Arc::new(CandidateCheck { facts: vec!["x".into()], ..CandidateCheck::default() }));
        let other_facts = Submission { check, ..submission_of_query("Sell honey?") };
        let (_, is_new) = place_order(&world, submission_of_query("Sell honey?")).await;
        assert!(!is_new);
        let other = place(&world, other_facts).await;
        assert!(matches!(other, Ok(PlacedOrder::Mismatch(SessionMismatch::Facts))), "{other:?}");
        let other = place(&world, submission_of_query("Sell wax?")).await;
        assert!(matches!(other, Ok(PlacedOrder::Mismatch(SessionMismatch::Query))), "{other:?}");
        until_called(&model, 1).await;
        answer_one(&model);
        wait_for(&mut progress, OrderState::Delivered).await;
        let replayed = place(&world, submission_of_query("Sell honey?")).await;
        assert!(matches!(replayed, Ok(PlacedOrder::Replayed(_))), "{replayed:?}");
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn address_of_a_repeated_request_is_stored_with_the_open_order() {
    with_model(held_model([]), |world, _| async move {
        place_order(&world, submission_of_query("Sell honey?")).await;
        let address = |text: &str| Some(CustomerEmail::try_from(text.to_owned()).expect("an address"));
        for (given, stored) in [("a@b", "a@b"), ("c@d", "a@b")] {
            let again = Submission { customer_email: address(given), ..submission_of_query("Sell honey?") };
            assert!(!place_order(&world, again).await.1, "the order is the same");
            let (session, _) = world.system.store.session(&id("cs_1")).expect("readable").expect("it exists");
            assert_eq!(session.customer_email, address(stored));
        }
        let events = logged_events(&world.system.store);
        assert_eq!(events.iter().filter(|event| *event == "session_address_changed").count(), 1);
    });
}

#[test]
fn unusable_answer_is_tried_again_until_the_limit() {
    let unusable = || Ok(UNUSABLE.to_owned());
    with_model(
        ScriptedModel::with_answers([unusable(), verdict(VerdictLabel::Red)]),
        |world, model| async move {
            let order = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
            assert_eq!((order.state, order.attempts, order.generations), (OrderState::Delivered, 2, 1));
            assert_eq!((delivered_label(&world, "cs_1"), model.calls()), (VerdictLabel::Red, 2));
            let settings = model.settings();
            let sampling: Vec<_> = settings.iter().map(|sent| (sent.temperature, sent.top_k)).collect();
            assert_eq!(sampling, [(Some(0.7), Some(1)), (Some(0.4), None)]);
            let (session, _) = world.system.store.session(&id("cs_1")).expect("readable").expect("it exists");
            let original = session.original.and_then(|original| original.settings);
            assert_eq!(original, settings.get(1).cloned());
        },
    );
    with_model(ScriptedModel::with_answers([unusable(), unusable()]), |world, model| async move {
        let failed = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((failed.state, failed.attempts), (OrderState::Failed, 2));
        assert_eq!(failed.stop_cause, Some(OrderStopCause::GenerationsUsedUp));
        assert!(failed.last_attempts.iter().all(|a| a.outcome == Some(GenerationOutcome::Rejected)));
        assert!(world.system.store.verdict(&id("cs_1")).expect("the store is readable").is_none());
        // a repeated request gets the failed order, and calls no model
        let (progress, is_new) = place_order(&world, submission_of_query("Sell honey?")).await;
        assert_eq!((progress.borrow().state, is_new, model.calls()), (OrderState::Failed, false, 2));
        let log = world.system.store.log(&LogQuery { limit: 100, ..Default::default() });
        let log = log.expect("the log is readable");
        assert!(!log.iter().any(|line| line.json.contains("\\\" \\\"")), "{log:?}");
    });
}

#[test]
fn order_survives_an_outage_of_the_model() {
    let outage = || failure(RequestFailureKind::Status(503));
    let model = ScriptedModel::with_answers([outage(), outage(), verdict(VerdictLabel::Green)]);
    with_model(model, |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        for (calls, wait_s) in [(1, 5), (2, 10)] {
            let failed = |order: &Order| order.state == OrderState::Queued && order.attempts == calls;
            let order = progress.wait_for(failed).await.expect("the attempt fails").clone();
            let due = order.next_attempt_at.expect("the order is queued");
            assert_eq!(due.duration_since(order.changed_at), SignedDuration::from_secs(wait_s));
            assert_eq!(
                (order.failures_in_a_row, order.generations, model.calls()),
                (calls, 0, calls as usize)
            );
            world.time.advance(wait_s);
        }
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, model.calls()), (3, 3));
    });
}

#[test]
fn order_that_grew_too_old_while_the_host_was_off_gets_exactly_one_last_attempt() {
    let outage = || failure(RequestFailureKind::Status(503));
    for (last_answer, state) in
        [(verdict(VerdictLabel::Green), OrderState::Delivered), (outage(), OrderState::Failed)]
    {
        let model = ScriptedModel::with_answers([outage()]);
        with_model(model, |world, _| async move {
            let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
            let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
            progress.wait_for(is_queued).await.expect("the attempt fails");
            world.time.advance(2 * 24 * 3600);
            let again = ScriptedModel::with_answers([last_answer]);
            let services = outside(&again, &world.time);
            let world = world.restarted(services).await;
            while stored(&world, "cs_1").state.is_open() {
                tokio::task::yield_now().await;
            }
            let order = stored(&world, "cs_1");
            assert_eq!((order.state, order.attempts, again.calls()), (state, 2, 1));
            let is_last: Vec<_> = order.last_attempts.iter().map(|attempt| attempt.is_last).collect();
            assert_eq!(is_last, [false, true]);
            let cause = (state == OrderState::Failed).then_some(OrderStopCause::Expired);
            assert_eq!(order.stop_cause, cause);
        });
    }
}

#[test]
fn last_attempt_that_a_restart_cut_off_is_not_repeated() {
    let model = held_model([failure(RequestFailureKind::Status(503))]);
    with_model(model, |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        answer_one(&model);
        let failed = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        progress.wait_for(failed).await.expect("the attempt fails");
        world.time.advance(3601);
        until_called(&model, 2).await;
        let again = ScriptedModel::with_answers([]);
        let services = outside(&again, &world.time);
        let world = world.restarted(services).await;
        while stored(&world, "cs_1").state.is_open() {
            tokio::task::yield_now().await;
        }
        let order = stored(&world, "cs_1");
        assert_eq!((order.state, order.stop_cause), (OrderState::Failed, Some(OrderStopCause::Expired)));
        assert_eq!((order.attempts, again.calls()), (2, 0));
        let last = order.last_attempts.last().expect("an attempt");
        assert_eq!((last.is_last, last.outcome), (true, Some(GenerationOutcome::Interrupted)));
    });
}

#[test]
fn last_attempt_overrides_the_wait_that_the_model_requested() {
    let busy = RequestFailure {
        retry_after: Some(Duration::from_secs(3600)),
        ..RequestFailure::new(RequestFailureKind::Status(429), String::new())
    };
    let model = ScriptedModel::with_answers([Err(ModelTextError::Failed(busy))]);
    with_model(model, |world, model| async move {
        world.time.advance(100);
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let failed = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        let order = progress.wait_for(failed).await.expect("the attempt fails").clone();
        let due = order.next_attempt_at.expect("it is queued");
        assert_eq!(
            due.duration_since(order.placed_at),
            SignedDuration::from_hours(1),
            "not later than its age"
        );
        world.time.advance(3600 - 5);
        tokio::time::sleep(TICK + Duration::from_millis(200)).await;
        assert_eq!((progress.borrow().state, model.calls()), (OrderState::Queued, 1));
        world.time.advance(5);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, model.calls()), (2, 2));
    });
}

#[test]
fn attempt_cut_off_by_a_restart_is_made_again_after_a_pause() {
    with_model(held_model([]), |world, model| async move {
        place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        // the first system continues to wait for the model: only the store connects the two
        let again = ScriptedModel::with_answers([verdict(VerdictLabel::Amber)]);
        let services = outside(&again, &world.time);
        let world = world.restarted(services).await;
        while stored(&world, "cs_1").state != OrderState::Queued {
            tokio::task::yield_now().await;
        }
        let order = stored(&world, "cs_1");
        let due = order.next_attempt_at.expect("it is queued");
        assert_eq!(due.duration_since(order.changed_at), SignedDuration::from_secs(5));
        world.time.advance(5);
        while stored(&world, "cs_1").state.is_open() {
            tokio::task::yield_now().await;
        }
        let order = stored(&world, "cs_1");
        assert_eq!((order.state, order.attempts), (OrderState::Delivered, 2));
        assert_eq!((order.generations, order.interruptions), (0, 1));
        assert_eq!(order.last_attempts[0].outcome, Some(GenerationOutcome::Interrupted));
        assert_eq!(again.calls(), 1);
    });
}

#[test]
fn operator_retries_a_failed_order_and_fails_a_queued_one() {
    let refusal = || Err(ModelTextError::Refused(ModelRefusal::Empty));
    let model = ScriptedModel::with_answers([
        refusal(),
        refusal(),
        verdict(VerdictLabel::Green),
        failure(RequestFailureKind::Status(503)),
    ]);
    with_model(model, |world, _| async move {
        let failed = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!(failed.state, OrderState::Failed);
        let refused = change(&world, "cs_1", OrderAction::Fail).await;
        assert!(
            matches!(refused, Err(OrderChangeError::State { state: OrderState::Failed, .. })),
            "{refused:?}"
        );
        change(&world, "cs_1", OrderAction::Retry).await.expect("a failed order can be retried");
        while stored(&world, "cs_1").state.is_open() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            (stored(&world, "cs_1").state, stored(&world, "cs_1").attempts),
            (OrderState::Delivered, 3)
        );
        let refused = change(&world, "cs_1", OrderAction::Retry).await;
        assert!(matches!(refused, Err(OrderChangeError::State { state: OrderState::Delivered, .. })));

        let submission = Submission { session_id: id("cs_2"), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, submission).await;
        let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        progress.wait_for(is_queued).await.expect("the attempt fails");
        change(&world, "cs_2", OrderAction::Fail).await.expect("a queued order can be failed");
        let failed = wait_for(&mut progress, OrderState::Failed).await;
        assert_eq!(failed.stop_cause, Some(OrderStopCause::Operator));
        let unknown = change(&world, "cs_3", OrderAction::Retry).await;
        assert!(matches!(unknown, Err(OrderChangeError::Unknown(_))), "{unknown:?}");
        let events = logged_events(&world.system.store);
        assert_eq!(events.iter().filter(|event| *event == "order_retried").count(), 1);
        assert_eq!(events.last().map(String::as_str), Some("order_stopped"));
    });
}

#[test]
fn orders_beyond_the_calls_at_once_wait_in_the_order_of_arrival() {
    with_model(held_model([]), |world, model| async move {
        let mut all = Vec::new();
        for n in 0..8 {
            let submission = Submission {
                session_id: id(&format!("cs_{n}")),
                ..submission_of_query(&format!("Sell {n}?"))
            };
            all.push(place_order(&world, submission).await.0);
            world.time.advance(1);
        }
        until_called(&model, 4).await;
        assert!(all[4..].iter().all(|progress| progress.borrow().state == OrderState::Queued));
        for _ in 0..8 {
            answer_one(&model);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        }
        for progress in &mut all {
            while progress.borrow().state != OrderState::Delivered {
                answer_one(&model);
                tokio::task::yield_now().await;
            }
        }
        let requests = model.requests.lock().expect("the lock is not poisoned").clone();
        let asked: Vec<_> = requests
            .iter()
            .map(|(prompt, _)| (0..8).find(|n| prompt.contains(&format!("Sell {n}?"))))
            .collect();
        assert_eq!(asked, (0..8).map(Some).collect::<Vec<_>>());
    });
}

#[test]
fn order_is_refused_if_too_many_are_open() {
    with_model(held_model([]), |world, _| async move {
        for n in 0..100 {
            let session_id = id(&format!("cs_{n}"));
            place_order(&world, Submission { session_id, ..submission_of_query("Sell honey?") }).await;
        }
        let refused =
            place(&world, Submission { session_id: id("cs_100"), ..submission_of_query("x") }).await;
        assert!(
            matches!(&refused, Err(GenerationError::QueueFull(limit)) if limit.queue_max == 100),
            "{refused:?}"
        );
        // the orders that are open are found again
        let (_, is_new) =
            place_order(&world, Submission { session_id: id("cs_50"), ..submission_of_query("Sell honey?") })
                .await;
        assert!(!is_new);
    });
}

#[test]
fn submitted_verdict_ends_the_order() {
    with_model(held_model([]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        submit_good(&world).await;
        assert_eq!(stored(&world, "cs_1").state, OrderState::Delivered);
        answer_one(&model);
        wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!(logged_events(&world.system.store).iter().filter(|e| *e == "order_delivered").count(), 1);
    });
}

/// A fact by which the rules pass the summary of [`GOOD`].
const GOOD_FACT: &str = "A sound and simple plan.";

fn check(fact: &str) -> Option<Arc<CandidateCheck>> {
    Some(Arc::new(CandidateCheck { facts: vec![fact.into()], ..CandidateCheck::default() }))
}

#[test]
fn facts_of_a_later_submission_do_not_replace_those_of_an_order() {
    with_model(held_model([]), |world, model| async move {
        let submission = Submission { check: check(GOOD_FACT), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, submission.clone()).await;
        until_called(&model, 1).await;
        let other = Submission { check: check("Cows moo."), ..submission };
        let submitted = FindSession(Submission { path: GatePath::Submit, ..other.clone() });
        let found = world.system.cache.ask(submitted).await.expect("the actor answers").expect("it is found");
        assert!(matches!(found, FindSessionOutcome::Nothing(found) if found == check(GOOD_FACT)));
        let ordered = place(&world, other).await;
        assert!(matches!(ordered, Ok(PlacedOrder::Mismatch(SessionMismatch::Facts))), "{ordered:?}");
        answer_one(&model);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, order.generations), (1, 0));
        let (session, _) =
            world.system.store.session(&id("cs_1")).expect("it is readable").expect("it exists");
        assert_eq!(session.check, check(GOOD_FACT));
    });
}

#[test]
fn answer_is_judged_again_by_the_check_that_refused_another_verdict_meanwhile() {
    with_model(held_model([]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        let refuse = StoreRejectingCheck {
            session_id: id("cs_1"),
            check: check(GOOD_FACT).expect("a check"),
            may_be_new: false,
            record: JournalRecord::default(),
        };
        world.system.cache.ask(refuse).await.expect("the actor answers").expect("the commit succeeds");
        answer_one(&model);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, order.generations, model.calls()), (1, 0, 1));
        let (delivery, _) = world.system.store.verdict(&id("cs_1")).expect("readable").expect("it is stored");
        assert!(delivery.evaluation_sha256.is_some(), "it was checked against the facts");
    });
}

#[test]
fn erasure_waits_for_an_attempt_and_leaves_nothing_of_it() {
    with_model(held_model([]), |world, model| async move {
        let (_, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        let erasure = world.system.erasure.clone();
        let turn = erasure.wait_for_turn().await;
        assert!(matches!(erasure.hold().await, Err(ErasureError::InProgress)), "a backup has to wait");
        let erasing = erasure.erase(turn, [id("cs_1")].into(), "asked".to_owned(), PEER);
        let (erased, ()) = tokio::join!(erasing, async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert!(world.system.store.session(&id("cs_1")).expect("it is readable").is_some());
            answer_one(&model);
        });
        let erased = erased.expect("the session is erased");
        assert!(erased.sessions.contains_key(&id("cs_1")), "{erased:?}");
        assert!(world.system.store.session(&id("cs_1")).expect("it is readable").is_none());
        let query = LogQuery { limit: usize::MAX, ..LogQuery::default() };
        let lines = world.system.store.log(&query).expect("the log is readable");
        assert!(lines.iter().any(|line| line.json.contains("tmm_crosscheck")), "the answer was judged");
        for line in lines {
            assert!(!line.json.contains("Sell honey?"), "{}", line.json);
        }
        drop(erasure.hold().await.expect("the erasure is complete"));
    });
}

#[test]
fn check_of_a_session_that_was_removed_meanwhile_is_not_kept() {
    with_model(held_model([]), |world, _| async move {
        for (may_be_new, is_kept) in [(false, false), (true, true)] {
            let refuse = StoreRejectingCheck {
                session_id: id("cs_1"),
                check: check(GOOD_FACT).expect("a check"),
                may_be_new,
                record: JournalRecord::from(AuditEvent::new(
                    world.system.clock.now(),
                    None,
                    ServiceStopped {},
                )),
            };
            world.system.cache.ask(refuse).await.expect("the actor answers").expect("the commit succeeds");
            let kept = world.system.store.rejecting_check(&id("cs_1")).expect("it is readable");
            assert_eq!(kept.is_some(), is_kept);
        }
    });
}

#[test]
fn submission_for_an_order_that_waits_for_its_next_attempt_ends_it_at_once() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Status(503))]);
    with_model(model, |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        progress.wait_for(is_queued).await.expect("the attempt fails");
        submit_good(&world).await;
        // the waiting request gets it before the next attempt is due
        wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn attempt_that_a_submission_overtakes_is_reported_as_such_even_if_it_fails() {
    with_model(held_model([failure(RequestFailureKind::Status(503))]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        submit_good(&world).await;
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!(order.last_attempts[0].outcome, Some(GenerationOutcome::Replayed));
        answer_one(&model);
        world.system.orders.ask(StopWork).await.expect("the actor answers");
        assert_eq!(stored(&world, "cs_1").state, OrderState::Delivered);
    });
}

#[test]
fn attempt_delivers_nothing_after_its_session_was_removed() {
    with_model(held_model([]), |world, model| async move {
        place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        let remove = RemoveSession { session_id: id("cs_1"), mails: None, peer: PEER };
        world.system.cache.ask(remove).await.expect("the actor answers").expect("the commit succeeds");
        answer_one(&model);
        world.system.orders.ask(StopWork).await.expect("the actor answers");
        assert!(world.system.store.session(&id("cs_1")).expect("the store is readable").is_none());
        assert!(world.system.store.verdict(&id("cs_1")).expect("the store is readable").is_none());
        let query = OrderQuery { limit: 10, ..OrderQuery::default() };
        assert!(world.system.store.orders(&query).expect("the store is readable").is_empty());
    });
}

#[test]
fn read_during_an_order_does_not_call_the_model() {
    with_model(held_model([]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        let error = read.expect_err("the order is open");
        assert!(matches!(*error, GenerationError::SessionUnknown), "{error:?}");
        answer_one(&model);
        wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn verdict_read_before_the_order_is_delivered_by_it() {
    let model = ScriptedModel::with_answers([verdict(VerdictLabel::Amber)]);
    with_model(model, |world, model| async move {
        register(&world, "cs_1", None).await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await.expect("the actor answers");
        assert!(matches!(read, Ok(SubmissionOutcome::Regenerated(..))), "{read:?}");
        let replayed = place(&world, submission_of_query("Sell honey?")).await;
        assert!(matches!(replayed, Ok(PlacedOrder::Replayed(_))), "{replayed:?}");
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn orders_are_listed_by_state_from_the_latest_on() {
    let refusal = || Err(ModelTextError::Refused(ModelRefusal::Empty));
    let model = ScriptedModel::with_answers([verdict(VerdictLabel::Green), refusal(), refusal()]);
    with_model(model, |world, _| async move {
        for n in 0..5 {
            order(&world, &format!("cs_{n}"), "Sell honey?").await.expect("it is accepted");
            world.time.advance(1);
        }
        let list = |state, before, limit| {
            let query = OrderQuery { application: None, state, before, limit };
            let sessions = world.system.store.orders(&query).expect("the orders are readable");
            sessions.iter().map(|session| session.session_id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(list(None, None, 10), ["cs_4", "cs_3", "cs_2", "cs_1", "cs_0"]);
        assert_eq!(list(Some(OrderState::Failed), None, 10), ["cs_1"]);
        assert_eq!(list(Some(OrderState::Delivered), None, 2), ["cs_4", "cs_3"]);
        let before = OrderPosition::of(&id("cs_3"), stored(&world, "cs_3").placed_at);
        assert_eq!(list(None, Some(before.clone()), 2), ["cs_2", "cs_1"]);
        assert_eq!(list(Some(OrderState::Delivered), Some(before), 2), ["cs_2", "cs_0"]);
        assert!(list(Some(OrderState::Held), None, 10).is_empty());
    });
}

#[test]
fn orders_of_applications_are_listed_apart_and_together() {
    with_model(held_model([]), |world, _| async move {
        // all are placed at the same time
        let placed = ["b/1", "a/2", "2", "b/3", "a/1", "1"];
        for session_id in placed {
            place_order(
                &world,
                Submission { session_id: id(session_id), ..submission_of_query("Sell honey?") },
            )
            .await;
        }
        let list = |application: Option<&str>, before, limit| {
            let application = application.map(|name| name.parse().expect("a valid name"));
            let query = OrderQuery { application, state: None, before, limit };
            let sessions = world.system.store.orders(&query).expect("the orders are readable");
            sessions.into_iter().map(|session| session.session_id).collect::<Vec<_>>()
        };
        let ids = |texts: &[&str]| texts.iter().map(|text| id(text)).collect::<Vec<_>>();
        let all = ids(&["2", "1", "b/3", "b/1", "a/2", "a/1"]);
        assert_eq!(list(None, None, 10), all);
        assert_eq!(list(Some("a"), None, 10), ids(&["a/2", "a/1"]));
        assert_eq!(list(Some("c"), None, 10), ids(&[]));
        let at = stored(&world, "1").placed_at;
        for limit in 1..4 {
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let page = list(None, before.take(), limit);
                let Some(last) = page.last() else { break };
                before = Some(OrderPosition::of(last, at));
                found.extend(page);
            }
            assert_eq!(found, all, "pages of {limit}");
        }
    });
}
