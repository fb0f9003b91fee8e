//! Orders and regenerations with several models.

use super::*;
use crate::testing::model::{configured, lose_verdict};
use crate::testing::{TestClock, TestServices, test_model_id, with_services};
use actors_upstream::oracle_health::{ApplyCircuitAction, ListHealthStatuses, RequestCallPermit};
use actors_verdict::rate_limiter::{CallLimitError, RequestFirstCall};
use domain_base::session_id::ApplicationName;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::{CircuitAction, CircuitCallOutcome, OracleHealthLevel};
use domain_upstream::upstream_id::UpstreamId;

/// The name of the second model.
const BACKUP: &str = "claude-made-up";

fn backup_id() -> UpstreamId {
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

pub(super) async fn open_circuit(world: &TestSystem, oracle_id: UpstreamId) {
    for _ in 0..3 {
        let permit = world.system.oracle_health.ask(RequestCallPermit(oracle_id.clone())).await;
        let lease = permit.expect("the actor answers").expect("the circuit is closed");
        lease.report(CircuitCallOutcome::Failure(RequestFailureKind::Broken));
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

/// A failure of the caller: the key is not accepted.
fn no_key() -> Result<String, ModelTextError> {
    failure(RequestFailureKind::Status(401))
}

async fn level(world: &TestSystem, oracle_id: &UpstreamId) -> OracleHealthLevel {
    let statuses = world.system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
    let found = statuses.into_iter().find(|status| status.oracle_id == *oracle_id);
    found.expect("the oracle is known").status
}

#[test]
fn model_that_rejects_the_key_is_refusing_and_the_next_one_is_asked_at_once() {
    with_two_models(ScriptedModel::with_answers([no_key()]), |world, first, backup| async move {
        for (n, first_calls) in [(1, 1), (2, 1), (3, 1)] {
            let delivered = order(&world, &format!("cs_{n}"), "Sell honey?").await.expect("it is accepted");
            assert_eq!(delivered.state, OrderState::Delivered);
            assert_eq!((first.calls(), backup.calls()), (first_calls, n));
            assert_eq!(level(&world, &test_model_id()).await, OracleHealthLevel::Refusing);
        }
        let order = stored(&world, "cs_1");
        let outcomes: Vec<_> = order.last_attempts.iter().filter_map(|attempt| attempt.outcome).collect();
        assert_eq!(outcomes, [GenerationOutcome::RequestRefused, GenerationOutcome::Delivered]);
        assert_eq!(order.last_attempts[1].oracle_id, Some(backup_id()));
    });
}

#[test]
fn order_does_not_wait_for_a_model_that_asked_for_a_wait_while_another_is_free() {
    let busy = RequestFailure {
        retry_after: Some(Duration::from_secs(600)),
        ..RequestFailure::new(RequestFailureKind::Status(429), String::new())
    };
    let busy = Err(ModelTextError::Failed(busy));
    for failed in [busy, failure(RequestFailureKind::Status(503)), failure(RequestFailureKind::Timeout)] {
        with_two_models(ScriptedModel::with_answers([failed]), |world, first, backup| async move {
            let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
            assert_eq!((delivered.state, first.calls(), backup.calls()), (OrderState::Delivered, 1, 1));
            assert_eq!(delivered.generations, 0);
        });
    }
}

#[test]
fn declined_prompt_passes_to_the_next_model() {
    let declined = Err(ModelTextError::Refused(ModelRefusal::Declined("no".into())));
    with_two_models(ScriptedModel::with_answers([declined]), |world, first, backup| async move {
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((delivered.state, first.calls(), backup.calls()), (OrderState::Delivered, 1, 1));
        assert_eq!(delivered.generations, 1);
    });
}

#[test]
fn model_without_a_free_slot_leaves_the_order_to_the_next_one() {
    with_two_models(ScriptedModel::with_answers([]), |world, first, backup| async move {
        let mut slots = Vec::new();
        for _ in 0..4 {
            let call =
                RequestFirstCall { oracle_id: test_model_id(), application: ApplicationName::default() };
            let taken = world.system.rate_limiter.ask(call).await.expect("the actor answers");
            slots.push(taken.expect("a slot is free"));
        }
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((delivered.state, first.calls(), backup.calls()), (OrderState::Delivered, 0, 1));
    });
}

#[test]
fn orders_at_their_last_attempt_share_one_call_of_a_refusing_model() {
    let model = ScriptedModel::with_answers((0..9).map(|_| no_key()));
    with_model(model, |world, model| async move {
        order_until_queued(&world, "cs_0").await;
        let mut all = Vec::new();
        for n in 1..6 {
            let submission =
                Submission { session_id: id(&format!("cs_{n}")), ..submission_of_query("Sell honey?") };
            all.push(place_order(&world, submission).await.0);
        }
        assert_eq!(model.calls(), 1, "the model is refusing");
        world.time.advance(3600);
        // the pause of 30 s is over, too: the call of all of them is that for the first one
        for progress in &mut all {
            let order = wait_for(progress, OrderState::Failed).await;
            assert_eq!(order.stop_cause, Some(OrderStopCause::Expired));
            let last = order.last_attempts.last().expect("a last attempt");
            assert_eq!((last.is_last, last.outcome), (true, Some(GenerationOutcome::RequestRefused)));
        }
        assert_eq!(model.calls(), 2);
    });
}

async fn reject_caller(world: &TestSystem, oracle_id: UpstreamId) {
    let permit = world.system.oracle_health.ask(RequestCallPermit(oracle_id.clone())).await;
    let lease = permit.expect("the actor answers").expect("the circuit is closed");
    lease.report(CircuitCallOutcome::Refusal(RequestFailureKind::Status(401)));
    assert_eq!(level(world, &oracle_id).await, OracleHealthLevel::Refusing);
}

#[test]
fn last_attempt_waits_for_the_call_of_a_refusing_model_at_any_place_of_the_list() {
    for is_first in [true, false] {
        let (tried, other, time) = (held_model([]), ScriptedModel::with_answers([]), TestClock::new());
        let (outside, tried_id, other_id) = if is_first {
            (two_models(&tried, &other, &time), test_model_id(), backup_id())
        } else {
            (two_models(&other, &tried, &time), backup_id(), test_model_id())
        };
        with_services(time, outside, |world| async move {
            let open = ApplyCircuitAction { oracle_id: other_id, action: CircuitAction::Open, peer: PEER };
            let opened = world.system.oracle_health.ask(open).await.expect("the actor answers");
            opened.expect("the circuit is opened");
            reject_caller(&world, tried_id).await;
            let mut all = Vec::new();
            for session_id in ["cs_1", "cs_2"] {
                let submission =
                    Submission { session_id: id(session_id), ..submission_of_query("Sell honey?") };
                all.push(place_order(&world, submission).await.0);
            }
            assert_eq!(tried.calls(), 0);
            world.time.advance(3600);
            until_called(&tried, 1).await;
            tokio::time::sleep(TICK * 2).await;
            let state = |progress: &watch::Receiver<Order>| progress.borrow().state;
            assert!(all.iter().any(|progress| state(progress) == OrderState::Queued), "one order waits");
            while all.iter().any(|progress| state(progress) != OrderState::Delivered) {
                assert!(all.iter().all(|progress| state(progress) != OrderState::Failed));
                answer_one(&tried);
                world.time.advance(1);
                tokio::time::sleep(TICK).await;
            }
            assert_eq!((tried.calls(), other.calls()), (2, 0));
        });
    }
}

#[test]
fn order_at_its_age_waits_for_its_prompt_template_and_gets_its_last_attempt() {
    with_house_template(ScriptedModel::with_answers([]), |world, model| async move {
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        world.time.advance(2 * 24 * 3600);
        tokio::time::sleep(TICK * 2).await;
        let waiting = stored(&world, "cs_1");
        assert_eq!((waiting.state, waiting.attempts, model.calls()), (OrderState::Queued, 0, 0));
        register_template(&world, 1, json!({"quick": "Judge: {{query}}"})).await;
        world.time.advance(60);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        let is_last: Vec<_> = order.last_attempts.iter().map(|attempt| attempt.is_last).collect();
        assert_eq!((is_last, model.calls()), (vec![true], 1));
    });
}

#[test]
fn regeneration_asks_a_refusing_model_in_place_of_one_that_is_gone() {
    with_model(ScriptedModel::with_answers([]), |world, _| async move {
        order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        lose_verdict(&world, "cs_1").await;
        let again = ScriptedModel::with_answers([failure(RequestFailureKind::Status(404))]);
        let mut services = outside(&again, &world.time);
        let (oracle, model) = configured(&again, "gemini", BACKUP, &world.time);
        (services.oracles, services.models.order) = (vec![oracle], vec![model]);
        let world = world.restarted(services).await;
        reject_caller(&world, test_model_id()).await;
        let read = world.system.regen.ask(RegenerateVerdict(id("cs_1"))).await;
        let regenerated = read.expect("the actor answers").expect("the verdict is regenerated");
        assert!(matches!(regenerated, SubmissionOutcome::Regenerated(..)), "{regenerated:?}");
        assert_eq!(again.calls(), 2);
    });
}

#[test]
fn blocked_prompt_passes_to_the_next_model_and_leaves_the_first_healthy() {
    let blocked = Err(ModelTextError::Refused(ModelRefusal::PromptBlocked("violence".into())));
    with_two_models(ScriptedModel::with_answers([blocked]), |world, first, backup| async move {
        let delivered = order(&world, "cs_1", "Sell honey?").await.expect("it is accepted");
        assert_eq!((delivered.generations, first.calls(), backup.calls()), (1, 1, 1));
        assert_eq!(level(&world, &test_model_id()).await, OracleHealthLevel::Healthy);
        order(&world, "cs_2", "Sell honey?").await.expect("it is accepted");
        assert_eq!((first.calls(), backup.calls()), (2, 1));
    });
}

/// Places an order, and waits until its first attempt has failed.
async fn order_until_queued(world: &TestSystem, session_id: &str) {
    let submission = Submission { session_id: id(session_id), ..submission_of_query("Sell honey?") };
    let (mut progress, _) = place_order(world, submission).await;
    let failed = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
    progress.wait_for(failed).await.expect("the attempt fails");
}

#[test]
fn last_attempt_asks_each_model_of_the_list() {
    let outage = || failure(RequestFailureKind::Status(503));
    with_two_models(ScriptedModel::with_answers([outage(), outage()]), |world, first, backup| async move {
        backup.answers.lock().expect("the lock is not poisoned").push_back(outage());
        let (mut progress, _) = place_order(&world, submission_of_query("Sell honey?")).await;
        let failed = |order: &Order| order.state == OrderState::Queued && order.attempts == 2;
        progress.wait_for(failed).await.expect("both models fail");
        world.time.advance(3600);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, first.calls(), backup.calls()), (4, 2, 2));
        let asked: Vec<_> = order.last_asked.iter().map(ToString::to_string).collect();
        assert_eq!(asked, ["gemini", "backup"]);
    });
}
