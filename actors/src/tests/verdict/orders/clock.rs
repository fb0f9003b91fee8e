//! Orders while the system's clock is set forward or back.

use super::*;

fn outage() -> Result<String, ModelTextError> {
    failure(RequestFailureKind::Status(503))
}

/// Places an order whose first attempt fails. The next one is due after 5 s.
async fn place_failing(world: &TestSystem) -> watch::Receiver<Order> {
    let (mut progress, _) = place_order(world, submission_of_query("Sell honey?")).await;
    let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 1;
    progress.wait_for(is_queued).await.expect("the attempt fails");
    progress
}

#[test]
fn clock_that_was_set_back_delays_no_order() {
    for back_s in [2, 600, 25 * 3600] {
        let model = ScriptedModel::with_answers([outage(), verdict(VerdictLabel::Green)]);
        with_model(model, |world, model| async move {
            let mut progress = place_failing(&world).await;
            world.time.step(-back_s);
            world.time.advance(6);
            let order = wait_for(&mut progress, OrderState::Delivered).await;
            assert_eq!((order.attempts, model.calls()), (2, 2), "{back_s}");
        });
    }
}

#[test]
fn clock_that_was_set_back_before_a_restart_delays_no_order() {
    let model = ScriptedModel::with_answers([outage()]);
    with_model(model, |world, _| async move {
        place_failing(&world).await;
        world.time.step(-600);
        let again = ScriptedModel::with_answers([verdict(VerdictLabel::Green)]);
        let services = outside(&again, &world.time);
        let world = world.restarted(services).await;
        while stored(&world, "cs_1").state.is_open() {
            tokio::task::yield_now().await;
        }
        assert_eq!(stored(&world, "cs_1").state, OrderState::Delivered);
    });
}

#[test]
fn clock_that_was_set_ahead_makes_no_order_too_old() {
    let model = ScriptedModel::with_answers([outage(), outage(), verdict(VerdictLabel::Green)]);
    with_model(model, |world, model| async move {
        let mut progress = place_failing(&world).await;
        world.time.step(25 * 3600);
        let is_queued = |order: &Order| order.state == OrderState::Queued && order.attempts == 2;
        world.time.advance(5);
        let order = progress.wait_for(is_queued).await.expect("a further attempt").clone();
        assert!(!order.last_attempts[1].is_last, "{order:?}");
        world.time.advance(10);
        let order = wait_for(&mut progress, OrderState::Delivered).await;
        assert_eq!((order.attempts, model.calls()), (3, 3));
    });
}
