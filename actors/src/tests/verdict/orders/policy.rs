//! Orders whose verdicts the policy holds.

use super::*;
use crate::testing::test_submission;
use actors_verdict::cache::{PlaceLegalHold, VerdictCacheError};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::{DeliveryPolicies, DeliveryPolicy};
use domain_verdict::session::SessionCaller;

/// An approved verdict with the flag `short_summary`.
const FLAGGED: &str = r#"{"verdict":"GREEN","summary":"Sound."}"#;

/// Runs `test` with a policy that holds [`FLAGGED`].
fn with_policy<F: Future<Output = ()>>(model: &Arc<ScriptedModel>, test: impl FnOnce(TestSystem) -> F) {
    let time = TestClock::new();
    let hold = vec!["short_summary".parse().expect("a flag")];
    let policy = DeliveryPolicy { hold, ..DeliveryPolicy::default() };
    let common = [(ProductTier::Quick, policy)].into();
    let policies = DeliveryPolicies { common, ..DeliveryPolicies::default() };
    with_services(time.clone(), TestServices { policies, ..outside(model, &time) }, test);
}

async fn submit(world: &TestSystem, raw: &str) -> SubmissionOutcome {
    let judge = JudgeVerdict(test_submission("cs_1", raw, GatePath::Submit));
    world.system.crosscheck.ask(judge).await.expect("the actor answers").expect("it is judged")
}

async fn release(world: &TestSystem) -> Result<SessionRecord, OrderChangeError> {
    change(world, "cs_1", OrderAction::Release).await
}

#[test]
fn answer_of_an_attempt_in_flight_does_not_replace_a_held_submission() {
    let model = held_model([verdict(VerdictLabel::Red)]);
    with_policy(&model.clone(), |world| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        until_called(&model, 1).await;
        assert!(matches!(submit(&world, FLAGGED).await, SubmissionOutcome::Held));
        answer_one(&model);
        let order = wait_for(&mut progress, OrderState::Held).await;
        assert!(order.is_held_by_policy());
        let released = release(&world).await.expect("it is released").order.expect("it has an order");
        let action = released.operator_action.expect("an operator changed it");
        assert_eq!((action.action, action.uid), (OrderAction::Release, PEER.uid));
        assert_eq!(delivered_label(&world, "cs_1"), VerdictLabel::Green);
        assert_eq!(model.calls(), 1);
    });
}

#[test]
fn concurrent_decisions_have_one_effect() {
    for change_first in [OrderAction::Fail, OrderAction::Retry] {
        let model = ScriptedModel::with_answers([Ok(FLAGGED.to_owned()), verdict(VerdictLabel::Red)]);
        with_policy(&model.clone(), |world| async move {
            let held = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
            assert!(held.is_held_by_policy());
            let (first, second, changed) =
                tokio::join!(release(&world), release(&world), change(&world, "cs_1", change_first));
            let done =
                usize::from(first.is_ok()) + usize::from(second.is_ok()) + usize::from(changed.is_ok());
            assert_eq!(done, 1, "{first:?} {second:?} {changed:?}");
            assert!(!world.system.store.has_held_verdicts().expect("the store is readable"));
            let delivered = logged_events(&world.system.store);
            let count = delivered.iter().filter(|event| *event == "order_released").count();
            assert_eq!(count, usize::from(changed.is_err()));
        });
    }
}

#[test]
fn orders_that_wait_for_the_key_are_woken_when_no_verdict_is_held() {
    let model = ScriptedModel::with_answers([verdict(VerdictLabel::Green)]);
    with_policy(&model, |world| async move {
        assert!(matches!(submit(&world, FLAGGED).await, SubmissionOutcome::Held));
        std::fs::remove_file(world.dir.join("held.key")).expect("the key is there");
        let waiting = Submission { session_id: id("cs_2"), ..submission_of_query("Sell honey?") };
        let (mut progress, _) = place_order(&world, waiting).await;
        let cause = || world.system.order_waits.of(&id("cs_2")).map(|wait| wait.cause);
        while cause() != Some(GenerationOutcome::HeldKeyUnusable) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        change(&world, "cs_1", OrderAction::Fail).await.expect("it is failed");
        wait_for(&mut progress, OrderState::Delivered).await;
    });
}

#[test]
fn held_verdict_is_not_released_after_rules_refused_another_one() {
    let model = held_model([]);
    with_policy(&model.clone(), |world| async move {
        assert!(matches!(submit(&world, FLAGGED).await, SubmissionOutcome::Held));
        let refuse = StoreRejectingCheck {
            session_id: id("cs_1"),
            check: check("x").expect("a check"),
            may_be_new: false,
            record: JournalRecord::default(),
        };
        world.system.cache.ask(refuse).await.expect("the actor answers").expect("the commit succeeds");
        let released = release(&world).await;
        assert!(matches!(released, Err(OrderChangeError::CheckInForce(_))), "{released:?}");
        assert!(world.system.store.has_held_verdicts().expect("the store is readable"));
    });
}

#[test]
fn cancellation_destroys_a_held_verdict() {
    with_policy(&held_model([]), |world| async move {
        assert!(matches!(submit(&world, FLAGGED).await, SubmissionOutcome::Held));
        let cancellation =
            CancelOrder { session_id: id("cs_1"), caller: SessionCaller::Application, peer: PEER };
        let cancelled = world.system.orders.ask(cancellation).await.expect("the actor answers");
        let order = cancelled.expect("it is cancelled").order.expect("it has an order");
        assert_eq!((order.state, order.policy_causes), (OrderState::Cancelled, Vec::new()));
        assert!(!world.system.store.has_held_verdicts().expect("the store is readable"));
        assert!(release(&world).await.is_err());
    });
}

/// Places the session `cs_1` on legal hold.
pub(super) async fn place_hold(world: &TestSystem) {
    let hold = PlaceLegalHold { session_id: id("cs_1"), reason: "case 17".to_owned(), peer: PEER };
    let placed = world.system.cache.ask(hold).await.expect("the actor answers").expect("the commit succeeds");
    assert!(placed.is_some());
}

/// Whether a change was refused because of a legal hold.
pub(super) const fn is_on_hold(refused: &Result<SessionRecord, OrderChangeError>) -> bool {
    matches!(refused, Err(OrderChangeError::Failed(GenerationError::Cache(VerdictCacheError::OnHold(_)))))
}

#[test]
fn held_verdict_of_a_session_on_hold_is_released_and_not_destroyed() {
    with_policy(&held_model([]), |world| async move {
        assert!(matches!(submit(&world, FLAGGED).await, SubmissionOutcome::Held));
        place_hold(&world).await;
        for action in [OrderAction::Retry, OrderAction::Fail, OrderAction::Cancel] {
            let refused = change(&world, "cs_1", action).await;
            assert!(is_on_hold(&refused), "{action:?}: {refused:?}");
        }
        let cancellation =
            CancelOrder { session_id: id("cs_1"), caller: SessionCaller::Application, peer: PEER };
        let refused = world.system.orders.ask(cancellation).await.expect("the actor answers");
        assert!(matches!(refused, Err(OrderChangeError::OnHold(_))), "{refused:?}");
        assert!(stored(&world, "cs_1").is_held_by_policy());
        assert!(world.system.store.has_held_verdicts().expect("the store is readable"));
        release(&world).await.expect("it is released");
        assert_eq!(delivered_label(&world, "cs_1"), VerdictLabel::Green);
    });
}
