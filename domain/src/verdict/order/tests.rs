use super::*;
use crate::verdict::flag::Flag;

const POLICY: OrderPolicy =
    OrderPolicy { max_age: SignedDuration::from_hours(24), generations_max: 3, holds_stopped: false };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

fn settings() -> GenerationSettings {
    GenerationSettings::locked("m".to_owned())
}

fn failure(outcome: GenerationOutcome) -> OrderAttemptFailure {
    OrderAttemptFailure {
        outcome,
        cause: "why".to_owned(),
        rejection: None,
        usage: None,
        cost: None,
        retry_after: None,
    }
}

fn change(action: OrderAction, second: i64) -> OperatorAction {
    OperatorAction { action, at: at(second), uid: 1000, user_name: None, reason: "refunded".to_owned() }
}

/// The order after an attempt at `second` that fails with `outcome`.
fn fail(order: Order, outcome: GenerationOutcome, second: i64) -> Order {
    order.attempted(settings(), at(second)).attempt_failed(failure(outcome), &POLICY, at(second))
}

#[test]
fn order_waits_longer_after_each_failure_in_a_row() {
    let mut order = Order::placed(at(0));
    for (n, pause) in [5, 10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
        order = fail(order, GenerationOutcome::ModelUnavailable, 1000);
        assert_eq!((order.state, order.next_attempt_at), (OrderState::Queued, Some(at(1000 + pause))), "{n}");
    }
    assert_eq!((order.attempts, order.generations), (8, 0));
    let order = fail(order, GenerationOutcome::Rejected, 2000);
    assert_eq!((order.generations, order.next_attempt_at), (1, Some(at(2000))));
    let order = fail(order, GenerationOutcome::ModelTimeout, 3000);
    assert_eq!((order.generations, order.next_attempt_at), (1, Some(at(3005))));
}

#[test]
fn order_respects_the_wait_that_the_model_requested() {
    for (requested_s, pause_s) in [(1, 5), (90, 90), (7200, 3600)] {
        let retry_after = Some(SignedDuration::from_secs(requested_s));
        let failure = OrderAttemptFailure { retry_after, ..failure(GenerationOutcome::ModelUnavailable) };
        let order = Order::placed(at(0)).attempted(settings(), at(0)).attempt_failed(failure, &POLICY, at(0));
        assert_eq!(order.next_attempt_at, Some(at(pause_s)), "{requested_s}");
    }
}

#[test]
fn order_stops_after_its_unusable_answers_and_can_be_retried() {
    for (holds_stopped, state) in [(false, OrderState::Failed), (true, OrderState::Held)] {
        let policy = OrderPolicy { holds_stopped, ..POLICY };
        let mut order = Order::placed(at(0));
        for second in 1..=3 {
            assert_eq!(order.state, OrderState::Queued);
            order = order.attempted(settings(), at(second)).attempt_failed(
                failure(GenerationOutcome::Rejected),
                &policy,
                at(second),
            );
        }
        assert_eq!((order.state, order.next_attempt_at), (state, None));
        assert_eq!((order.stop_cause, order.generations), (Some(OrderStopCause::GenerationsUsedUp), 3));
        let order = order.changed_by_operator(change(OrderAction::Retry, 99));
        assert_eq!((order.state, order.stop_cause, order.generations), (OrderState::Queued, None, 0));
        assert_eq!((order.next_attempt_at, order.tried_since), (Some(at(99)), at(99)));
        assert_eq!((order.attempts, order.placed_at), (3, at(0)));
    }
}

#[test]
fn order_stops_if_its_next_attempt_would_be_too_late() {
    let day = 24 * 3600;
    let order = fail(Order::placed(at(0)), GenerationOutcome::ModelUnavailable, day - 5);
    assert_eq!(order.state, OrderState::Queued);
    let order = fail(Order::placed(at(0)), GenerationOutcome::ModelUnavailable, day - 4);
    assert_eq!((order.state, order.stop_cause), (OrderState::Failed, Some(OrderStopCause::Expired)));
    assert!(!Order::placed(at(0)).is_expired(&POLICY, at(day)));
    assert!(Order::placed(at(0)).is_expired(&POLICY, at(day + 1)));
}

#[test]
fn order_lists_its_last_ten_attempts() {
    let mut order = Order::placed(at(0));
    for second in 0..12 {
        order = fail(order, GenerationOutcome::ModelTimeout, second);
    }
    let listed: Vec<_> = order.last_attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(listed, (3..=12).collect::<Vec<_>>());
    assert!(
        order.last_attempts.iter().all(|attempt| attempt.outcome == Some(GenerationOutcome::ModelTimeout))
    );
}

#[test]
fn delivered_order_ends_its_attempt() {
    let order = Order::placed(at(0))
        .attempted(settings(), at(1))
        .delivered((GenerationOutcome::Delivered, None, None), at(2));
    assert_eq!((order.state, order.next_attempt_at), (OrderState::Delivered, None));
    let attempt = order.last_attempts.last().expect("an attempt");
    assert_eq!((attempt.outcome, attempt.ended_at), (Some(GenerationOutcome::Delivered), Some(at(2))));
    // a verdict that a route submitted ends no attempt
    assert!(
        Order::placed(at(0))
            .delivered((GenerationOutcome::Delivered, None, None), at(2))
            .last_attempts
            .is_empty()
    );
}

#[test]
fn order_whose_verdict_the_policy_holds_ends_its_attempt_and_waits() {
    let attempted = Order::placed(at(0)).attempted(settings(), at(1));
    let cause = PolicyCause::Flag(Flag::VerdictConflict);
    let order = attempted.held_by_policy(vec![cause], (GenerationOutcome::Held, None, None), at(2));
    assert!(order.is_held_by_policy() && order.due_at(at(3)).is_none());
    let attempt = order.last_attempts.last().expect("an attempt");
    assert_eq!((attempt.outcome, attempt.ended_at), (Some(GenerationOutcome::Held), Some(at(2))));
    assert_eq!(order.reason().as_deref(), Some("policy: verdict_conflict"));
    let stop_causes = [
        order.clone().changed_by_operator(change(OrderAction::Retry, 4)),
        order.clone().delivered((GenerationOutcome::Delivered, None, None), at(4)),
    ];
    assert!(stop_causes.iter().all(|order| order.stop_cause.is_none() && order.policy_causes.is_empty()));
    let at_limit =
        order.stopped(OrderStopCause::Expired, &OrderPolicy { holds_stopped: true, ..POLICY }, at(4));
    assert!(!at_limit.is_held_by_policy());
}

#[test]
fn order_says_why_it_is_not_delivered() {
    let failed = fail(Order::placed(at(0)), GenerationOutcome::ModelTimeout, 1);
    assert_eq!(failed.reason().as_deref(), Some("why"));
    let ended = failed.clone().changed_by_operator(change(OrderAction::Fail, 2));
    assert_eq!((ended.stop_cause, ended.changed_at), (Some(OrderStopCause::Operator), at(2)));
    assert_eq!(ended.reason().as_deref(), Some("operator: refunded"));
    let expired = Order::placed(at(0)).stopped(OrderStopCause::Expired, &POLICY, at(9));
    assert_eq!(expired.reason().as_deref(), Some("expired"));
    let delivered = failed.delivered((GenerationOutcome::Delivered, None, None), at(3));
    let released = delivered.changed_by_operator(change(OrderAction::Release, 3));
    assert_eq!((released.state, released.reason()), (OrderState::Delivered, None));
    assert_eq!(released.operator_action.map(|action| action.action), Some(OrderAction::Release));
}

#[test]
fn order_is_due_at_once_if_the_clock_was_set_back() {
    let order = fail(Order::placed(at(0)), GenerationOutcome::ModelTimeout, 100_000 - 20_000);
    assert_eq!(order.due_at(at(80_000)), Some(at(80_005)));
    assert_eq!(order.due_at(at(0)), Some(at(0)));
}

#[test]
fn rejection_of_an_open_order_is_kept_until_it_is_replaced_or_the_order_ends() {
    let rejection = |flag| OpenRejection {
        rejection: AnswerRejection { flags: vec![flag], rules: Vec::new() },
        sealed_claims: Some("sealed".to_owned()),
    };
    let rejected = |order: Order, flag, second| {
        let rejection = Some(rejection(flag));
        let failure = OrderAttemptFailure { rejection, ..failure(GenerationOutcome::Rejected) };
        order.attempted(settings(), at(second)).attempt_failed(failure, &POLICY, at(second))
    };
    let order = rejected(Order::placed(at(0)), Flag::ShortSummary, 1);
    assert_eq!(order.open_rejection, Some(rejection(Flag::ShortSummary)));
    let order = fail(order, GenerationOutcome::ModelTimeout, 2);
    assert_eq!(order.open_rejection, Some(rejection(Flag::ShortSummary)));
    let order = rejected(order, Flag::VerdictConflict, 3);
    assert_eq!(order.open_rejection, Some(rejection(Flag::VerdictConflict)));
    let rejections: Vec<_> = order.last_attempts.iter().map(|attempt| attempt.rejection.is_some()).collect();
    assert_eq!(rejections, [true, false, true]);
    let attempted = order.clone().attempted(settings(), at(4));
    let ended = [
        rejected(order.clone(), Flag::ShortSummary, 4),
        order.clone().changed_by_operator(change(OrderAction::Fail, 4)),
        order.clone().changed_by_operator(change(OrderAction::Retry, 4)),
        order.cancelled(at(4)).expect("it is open"),
        attempted.clone().delivered((GenerationOutcome::Delivered, None, None), at(4)),
        attempted.held_by_policy(Vec::new(), (GenerationOutcome::Held, None, None), at(4)),
    ];
    for order in ended {
        assert_eq!(order.open_rejection, None, "{:?}", order.state);
    }
}
