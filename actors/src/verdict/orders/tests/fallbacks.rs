//! Orders and regenerations with several models.

use super::*;
use crate::testing::model::{configured, lose_verdict};
use crate::testing::{TestClock, TestServices, test_model_id, with_services};
use crate::upstream::oracle_health::RequestCallPermit;
use crate::verdict::rate_limiter::{CallLimitError, RequestFirstCall};
use oracled_domain::verdict::health::CircuitCallOutcome;
use oracled_domain::{ApplicationName, OracleId};

/// The name of the second model.
const BACKUP: &str = "claude-made-up";

fn backup_id() -> OracleId {
    "backup".parse().expect("an id")
}

/// The services with two models: `first` and `backup`, in this order.
fn two_models(first: &Arc<ScriptedModel>, backup: &Arc<ScriptedModel>, time: &TestClock) -> TestServices {
    let mut outside = outside(first, time);
    let (oracle, model) = configured(backup, "backup", BACKUP, time);
    outside.oracles.push(oracle);
    outside.models.order.push(model);
    outside
}

fn with_two_models<F: Future<Output = ()>>(
    first: Arc<ScriptedModel>,
    test: impl FnOnce(TestSystem, Arc<ScriptedModel>, Arc<ScriptedModel>) -> F,
) {
    let (backup, time) = (ScriptedModel::with_answers([]), TestClock::new());
    let outside = two_models(&first, &backup, &time);
    with_services(time, outside, |world| test(world, first, backup));
}

async fn open_circuit(world: &TestSystem, oracle_id: OracleId) {
    for _ in 0..3 {
        let permit = world.system.oracle_health.ask(RequestCallPermit(oracle_id.clone())).await;
        let lease = permit.expect("the actor answers").expect("the circuit is closed");
        lease.report(CircuitCallOutcome::Failure("made up".into()));
    }
}

#[test]
fn next_model_makes_first_verdicts_while_the_circuit_of_the_first_is_open() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        open_circuit(&world, test_model_id()).await;
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((delivered.state, first.calls(), backup.calls()), (OrderState::Delivered, 0, 1));
        assert_eq!(delivered.last_attempts[0].generation.model, BACKUP);

        world.time.advance(60);
        order(&world, "cs_2", "Sell honey?").await.expect("it is accepted");
        assert_eq!((first.calls(), backup.calls()), (1, 1), "the circuit of the first model is half-open");
    });
}

#[test]
fn regeneration_asks_the_model_of_the_original() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        open_circuit(&world, test_model_id()).await;
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        world.time.advance(60);
        order(&world, "cs_2", "Sell honey?").await.expect("it is accepted");
        for session_id in ["cs_1", "cs_2"] {
            lose_verdict(&world, session_id).await;
            let read = world.system.regen.ask(RegenerateVerdict(id(session_id))).await;
            let regenerated = read.expect("the actor answers").expect("the verdict is regenerated");
            assert!(matches!(regenerated, SubmissionOutcome::Regenerated(..)), "{regenerated:?}");
        }
        assert_eq!((first.calls(), backup.calls()), (2, 2));
        let again = backup.settings().pop().expect("a call");
        assert_eq!((again.model.as_str(), again.temperature), (BACKUP, Some(0.0)));
    });
}

#[test]
fn regeneration_asks_the_first_model_if_the_provider_has_no_longer_that_of_the_original() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        open_circuit(&world, test_model_id()).await;
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        world.time.advance(60);
        lose_verdict(&world, "cs_1").await;
        let gone = failure(RequestFailureKind::Status(404));
        backup.answers.lock().expect("the lock is not poisoned").push_back(gone);
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await;
        let Ok(Ok(SubmissionOutcome::Regenerated(_, check))) = read else { panic!("{read:?}") };
        assert_eq!((first.calls(), backup.calls(), check.settings_changed), (1, 2, Some(true)));
    });
}

#[test]
fn model_in_place_of_one_that_is_gone_needs_a_slot_of_its_own() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        open_circuit(&world, test_model_id()).await;
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        world.time.advance(60);
        lose_verdict(&world, "cs_1").await;
        let gone = failure(RequestFailureKind::Status(404));
        backup.answers.lock().expect("the lock is not poisoned").push_back(gone);
        // all four slots of the first model are taken
        let mut slots = Vec::new();
        for _ in 0..4 {
            let call =
                RequestFirstCall { oracle_id: test_model_id(), application: ApplicationName::default() };
            let taken = world.system.rate_limiter.ask(call).await.expect("the actor answers");
            slots.push(taken.expect("a slot is free"));
        }
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await;
        let Ok(Err(error)) = read else { panic!("{read:?}") };
        assert!(matches!(*error, GenerationError::Limited(CallLimitError::Places { .. })), "{error:?}");
        assert_eq!((first.calls(), backup.calls()), (0, 2));
        // the refused attempt does not count for the rate limit of the session
        drop(slots);
        let gone = failure(RequestFailureKind::Status(404));
        backup.answers.lock().expect("the lock is not poisoned").push_back(gone);
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await;
        assert!(matches!(read, Ok(Ok(_))), "{read:?}");
        assert_eq!((first.calls(), backup.calls()), (1, 3));
        let call =
            || RequestFirstCall { oracle_id: test_model_id(), application: ApplicationName::default() };
        let mut free = Vec::new();
        for _ in 0..4 {
            free.push(world.system.rate_limiter.ask(call()).await.expect("the actor answers"));
        }
        assert!(free.iter().all(Result::is_ok), "the slots of the first model are free again");
    });
}

#[test]
fn order_waits_while_the_circuits_of_all_models_are_open() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        open_circuit(&world, test_model_id()).await;
        open_circuit(&world, backup_id()).await;
        let placed = place(&world, submission_of_query("Sell honey?")).await.expect("it is accepted");
        let PlacedOrder::Order { mut progress, .. } = placed else { panic!("the session has an order") };
        assert_eq!((progress.borrow().state, first.calls(), backup.calls()), (OrderState::Queued, 0, 0));
        world.time.advance(60);
        progress.wait_for(|order| order.state == OrderState::Delivered).await.expect("the order ends");
        assert_eq!((first.calls(), backup.calls()), (1, 0));
    });
}

#[test]
fn application_with_models_of_its_own_does_not_wait_for_those_of_others() {
    let (first, backup) = (ScriptedModel::with_answers([]), ScriptedModel::with_answers([]));
    let time = TestClock::new();
    let mut outside = two_models(&first, &backup, &time);
    let own = outside.models.order.pop().expect("the second model");
    outside.models.own_orders.insert("shop".parse().expect("a name"), vec![Arc::clone(&own)]);
    outside.models.others.push(own);
    with_services(time, outside, |world| async move {
        open_circuit(&world, test_model_id()).await;
        let placed = place(&world, submission_of_query("Sell honey?")).await.expect("it is accepted");
        let PlacedOrder::Order { progress, .. } = placed else { panic!("the session has an order") };
        assert_eq!((progress.borrow().state, backup.calls()), (OrderState::Queued, 0));
        let delivered = order(&world, "shop/cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((delivered.state, first.calls(), backup.calls()), (OrderState::Delivered, 0, 1));
    });
}
