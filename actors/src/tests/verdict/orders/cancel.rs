//! Orders that their application cancels.

use super::*;
use domain_verdict::order::OrderStopCause;
use domain_verdict::session::SessionCaller;

fn cancellation() -> CancelOrder {
    CancelOrder { session_id: id("cs_1"), caller: SessionCaller::Application, peer: PEER }
}

async fn cancel(world: &TestSystem) -> Result<Order, OrderChangeError> {
    let cancelled = world.system.orders.ask(cancellation()).await.expect("the actor answers");
    cancelled.map(|session| session.order.expect("it has an order"))
}

/// Asserts that the session `cs_1` gets no verdict: not by an order, and not by a submission.
async fn assert_final(world: &TestSystem) {
    let (progress, is_new) = place_order(world, submission_of_query("Sell honey?")).await;
    assert!(!is_new && progress.borrow().state == OrderState::Cancelled);
    let submitted = Submission {
        payload: Some(VerdictPayload::raw(GOOD)),
        path: GatePath::Submit,
        ..submission_of_query("Sell honey?")
    };
    let outcome =
        world.system.crosscheck.ask(JudgeVerdict(submitted.clone())).await.expect("the actor answers");
    assert!(matches!(outcome, Ok(SubmissionOutcome::Cancelled)), "{outcome:?}");
    let found = world.system.cache.ask(FindSession(submitted)).await.expect("the actor answers");
    assert!(matches!(found, Ok(FindSessionOutcome::Cancelled)), "{found:?}");
    for action in [OrderAction::Retry, OrderAction::Fail, OrderAction::Release] {
        assert!(change(world, "cs_1", action).await.is_err(), "{action:?}");
    }
    assert_eq!(stored(world, "cs_1").state, OrderState::Cancelled);
    assert!(world.system.store.verdict(&id("cs_1")).expect("the store is readable").is_none());
}

#[test]
fn cancelled_order_discards_the_answer_of_its_call() {
    for answer in [verdict(VerdictLabel::Green), Ok(UNUSABLE.to_owned())] {
        with_model(held_model([answer]), |world, model| async move {
            let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
            until_called(&model, 1).await;
            let cancelled = cancel(&world).await.expect("it is cancelled");
            assert_eq!(
                (cancelled.state, cancelled.stop_cause),
                (OrderState::Cancelled, None::<OrderStopCause>)
            );
            wait_for(&mut progress, OrderState::Cancelled).await;
            assert_eq!(cancel(&world).await.expect("it is cancelled"), cancelled);
            answer_one(&model);
            world.system.orders.ask(StopWork).await.expect("the actor answers");
            let attempt = stored(&world, "cs_1").last_attempts[0].clone();
            assert_eq!(attempt.outcome, Some(GenerationOutcome::Cancelled));
            assert_final(&world).await;
            let events = logged_events(&world.system.store);
            let count = |name: &str| events.iter().filter(|event| *event == name).count();
            assert_eq!((count("order_cancelled"), count("order_attempt_failed")), (1, 1), "{events:?}");
            assert_eq!((count("oracle_interaction"), count("verdict_cached")), (1, 0), "{events:?}");
            assert_eq!(model.calls(), 1);
        });
    }
}

#[test]
fn queued_order_is_cancelled_and_never_attempted_again() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Status(503))]);
    with_model(model, |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        progress.wait_for(is_queued).await.expect("the attempt fails");
        cancel(&world).await.expect("it is cancelled");
        world.time.advance(600);
        tokio::time::sleep(TICK * 2).await;
        assert_final(&world).await;
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn cancelled_order_is_the_answer_to_a_request_of_another_owner_or_with_other_facts() {
    let model = ScriptedModel::with_answers([failure(RequestFailureKind::Status(503))]);
    with_model(model, |world, _| async move {
        let first = Submission { check: check(GOOD_FACT), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, first.clone()).await;
        let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
        progress.wait_for(is_queued).await.expect("the attempt fails");
        cancel(&world).await.expect("it is cancelled");
        for again in [
            Submission { check: check("Cows moo."), ..first.clone() },
            Submission { caller: SessionCaller::User(7), ..first.clone() },
        ] {
            let (progress, is_new) = place_order(&world, again).await;
            assert_eq!((progress.borrow().state, is_new), (OrderState::Cancelled, false));
        }
        let other = place(&world, Submission { check: None, ..submission_of_query("Sell wax?") }).await;
        assert!(matches!(other, Ok(PlacedOrder::Mismatch(SessionMismatch::Query))), "{other:?}");
    });
}

#[test]
fn delivered_failed_or_missing_order_is_not_cancelled() {
    with_model(ScriptedModel::with_answers([verdict(VerdictLabel::Green)]), |world, _| async move {
        let missing = cancel(&world).await;
        assert!(matches!(missing, Err(OrderChangeError::Unknown(_))), "{missing:?}");
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        let delivered = cancel(&world).await;
        let is_refused =
            |state| matches!(&delivered, Err(OrderChangeError::Ended { state: s, .. }) if *s == state);
        assert!(is_refused(OrderState::Delivered), "{delivered:?}");
    });
    let refusal = || Err(ModelTextError::Refused(ModelRefusal::Empty));
    with_model(ScriptedModel::with_answers([refusal(), refusal(), refusal()]), |world, _| async move {
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!(stored(&world, "cs_1").state, OrderState::Failed);
        let failed = cancel(&world).await;
        assert!(
            matches!(failed, Err(OrderChangeError::Ended { state: OrderState::Failed, .. })),
            "{failed:?}"
        );
    });
}
