use super::*;
use crate::flag::Flag;
use crate::label::ProductTier;
use crate::prompt::ModelPrompt;

const POLICY: OrderPolicy =
    OrderPolicy { max_age: SignedDuration::from_hours(24), generations_max: 3, holds_stopped: false };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a valid time")
}

fn models<const N: usize>(names: [&str; N]) -> [UpstreamId; N] {
    names.map(|name| name.parse().expect("a valid id"))
}

fn start(model: &str) -> OrderAttemptStart {
    let [oracle_id] = models([model]);
    let settings = GenerationSettings::locked("m".to_owned());
    let prompt = ModelPrompt::of_text(ProductTier::Quick, "Judge it.".to_owned());
    let generation = VerdictGeneration::new(&prompt, settings);
    OrderAttemptStart { oracle_id, generation, is_last: false, time_limit: SignedDuration::from_secs(28) }
}

fn last(model: &str) -> OrderAttemptStart {
    OrderAttemptStart { is_last: true, ..start(model) }
}

fn failure(outcome: GenerationOutcome) -> OrderAttemptFailure {
    OrderAttemptFailure {
        outcome,
        cause: "why".into(),
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
    fail_with(order, start("a"), failure(outcome), &["a"], second)
}

/// The order after `attempt` at `second`, of which `failure` is the end.
fn fail_with(
    order: Order,
    attempt: OrderAttemptStart,
    failure: OrderAttemptFailure,
    list: &[&str],
    second: i64,
) -> Order {
    let list: Vec<_> = list.iter().map(|name| name.parse().expect("a valid id")).collect();
    order.attempted(attempt, at(second)).attempt_failed(failure, &list, &POLICY, at(second))
}

#[test]
fn action_is_allowed_only_in_the_states_that_can_take_it() {
    use OrderAction::{Cancel, Fail, Release, Retry};
    let queued = Order::placed(at(0));
    let stopped = |is_held| queued.clone().stopped(OrderStopCause::Expired, is_held, at(1));
    let answered = (GenerationOutcome::Delivered, None, None);
    let held_by_policy = queued.clone().held_by_policy(Vec::new(), answered.clone(), at(1));
    for (order, allowed) in [
        (queued.clone(), vec![Retry, Fail, Cancel]),
        (queued.clone().attempted(start("a"), at(1)), vec![Cancel]),
        (stopped(true), vec![Retry, Fail, Cancel]),
        (held_by_policy, vec![Retry, Fail, Release, Cancel]),
        (stopped(false), vec![Retry]),
        (queued.clone().delivered(answered, at(1)), vec![]),
        (queued.cancelled(at(1)), vec![]),
    ] {
        let found: Vec<_> =
            OrderAction::VARIANTS.iter().copied().filter(|action| order.allows(*action)).collect();
        assert_eq!(found, allowed, "{:?}", order.state);
    }
}

#[test]
fn attempt_has_a_deadline_until_it_ends() {
    let order = Order::placed(at(0)).attempted(start("a"), at(1));
    assert_eq!((order.state, order.attempt_deadline), (OrderState::Generating, Some(at(29))));
    let list = models(["a"]);
    let failed =
        order.clone().attempt_failed(failure(GenerationOutcome::ModelUnavailable), &list, &POLICY, at(5));
    assert_eq!((failed.state, failed.attempt_deadline), (OrderState::Queued, None));
    assert_eq!(order.cancelled(at(5)).attempt_deadline, None);
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
        let order = fail_with(Order::placed(at(0)), start("a"), failure, &["a"], 0);
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
            order = order.attempted(start("a"), at(second)).attempt_failed(
                failure(GenerationOutcome::Rejected),
                &models(["a"]),
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
fn order_gets_one_last_attempt_at_its_maximum_age() {
    let day = 24 * 3600;
    for second in [day - 600, day - 5, day - 4, day - 1] {
        let failure = OrderAttemptFailure {
            retry_after: Some(SignedDuration::from_secs(900)),
            ..failure(GenerationOutcome::ModelUnavailable)
        };
        let order = fail_with(Order::placed(at(0)), start("a"), failure, &["a"], second);
        assert_eq!((order.state, order.next_attempt_at), (OrderState::Queued, Some(at(day))), "{second}");
    }
    // an attempt that began before and ends after the maximum age is not the last one
    let order = fail(Order::placed(at(0)), GenerationOutcome::ModelUnavailable, day + 9);
    assert_eq!((order.state, order.next_attempt_at), (OrderState::Queued, Some(at(day + 9))));
    assert!(!order.is_expired(&POLICY, at(day - 1)) && order.is_expired(&POLICY, at(day)));
    for outcome in
        [GenerationOutcome::ModelUnavailable, GenerationOutcome::Rejected, GenerationOutcome::Interrupted]
    {
        let order = fail_with(order.clone(), last("a"), failure(outcome), &["a"], day + 20);
        assert_eq!((order.state, order.stop_cause), (OrderState::Failed, Some(OrderStopCause::Expired)));
        assert_eq!(order.last_attempts.last().map(|attempt| attempt.is_last), Some(true));
    }
}

#[test]
fn each_model_gets_one_last_attempt_even_after_an_interruption() {
    let day = 24 * 3600;
    let order =
        fail_with(Order::placed(at(0)), last("a"), failure(GenerationOutcome::Interrupted), &["a", "b"], day);
    assert_eq!((order.state, order.next_attempt_at), (OrderState::Queued, Some(at(day))));
    assert_eq!(order.last_asked, models(["a"]));
    let order = fail_with(order, last("b"), failure(GenerationOutcome::ModelTimeout), &["a", "b"], day + 1);
    assert_eq!(order.stop_cause, Some(OrderStopCause::Expired));
    let retried = order.changed_by_operator(change(OrderAction::Retry, day + 2));
    assert!(retried.last_asked.is_empty() && !retried.is_expired(&POLICY, at(day + 2)));
}

#[test]
fn wait_of_a_model_binds_the_model_and_not_the_order() {
    let busy = OrderAttemptFailure {
        retry_after: Some(SignedDuration::from_secs(600)),
        ..failure(GenerationOutcome::ModelUnavailable)
    };
    let order = fail_with(Order::placed(at(0)), start("a"), busy, &["a", "b"], 0);
    assert_eq!(order.next_attempt_at, Some(at(0)), "the second model is free");
    let [a, b] = models(["a", "b"]);
    assert_eq!((order.paused_until(&a, at(0)), order.paused_until(&b, at(0))), (Some(at(600)), None));
    let order = fail_with(order, start("b"), failure(GenerationOutcome::ModelTimeout), &["a", "b"], 1);
    assert_eq!(order.next_attempt_at, Some(at(11)), "the pause of the second model ends first");
    // the clock was set back
    assert_eq!(order.paused_until(&a, at(-4000)), None);
}

#[test]
fn model_that_declines_leaves_the_order_to_another_one() {
    for (list, due) in [(&["a", "b"][..], 0), (&["a"][..], 0)] {
        let order =
            fail_with(Order::placed(at(0)), start("a"), failure(GenerationOutcome::Declined), list, 0);
        let [a] = models(["a"]);
        assert_eq!((order.generations, order.next_attempt_at), (1, Some(at(due))));
        assert_eq!(order.paused_until(&a, at(0)).is_some(), list.len() > 1, "{list:?}");
    }
}

#[test]
fn interruption_is_no_answer_and_has_a_limit_and_a_pause_of_its_own() {
    let mut order = Order::placed(at(0));
    for (n, pause) in (1..20).zip([5, 10, 20, 40, 80, 160].into_iter().chain(std::iter::repeat(300))) {
        order = fail_with(order, start("a"), failure(GenerationOutcome::Interrupted), &["a", "b"], 1000);
        assert_eq!((order.state, order.next_attempt_at), (OrderState::Queued, Some(at(1000 + pause))));
        assert_eq!((order.interruptions, order.generations), (n, 0));
    }
    let order = fail(order, GenerationOutcome::Interrupted, 1001);
    assert_eq!((order.state, order.stop_cause), (OrderState::Failed, Some(OrderStopCause::Interrupted)));
}

#[test]
fn unreadable_answer_counts_only_if_it_was_paid_for() {
    let unreadable = failure(GenerationOutcome::UnreadableAnswer);
    let usage = ModelTokenUsage::default();
    let paid = OrderAttemptFailure { usage: Some(usage), ..unreadable.clone() };
    for (failure, generations) in [(unreadable, 0), (paid, 1)] {
        let order = fail_with(Order::placed(at(0)), start("a"), failure, &["a"], 0);
        assert_eq!((order.generations, order.next_attempt_at), (generations, Some(at(5))));
    }
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
        .attempted(start("a"), at(1))
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
    let attempted = Order::placed(at(0)).attempted(start("a"), at(1));
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
    let at_limit = order.stopped(OrderStopCause::Expired, true, at(4));
    assert!(!at_limit.is_held_by_policy());
}

#[test]
fn outcome_of_a_held_attempt_says_what_became_of_the_verdict() {
    let hold = |order: Order, second| {
        let attempted = order.attempted(start("a"), at(second));
        attempted.held_by_policy(Vec::new(), (GenerationOutcome::Held, None, None), at(second))
    };
    let outcomes = |order: &Order| {
        order.last_attempts.iter().map(|attempt| order.outcome_of(attempt)).collect::<Vec<_>>()
    };
    let held = hold(Order::placed(at(0)), 1);
    assert_eq!(outcomes(&held), ["held"]);
    for action in [OrderAction::Fail, OrderAction::Cancel, OrderAction::Retry] {
        let changed = held.clone().changed_by_operator(change(action, 2));
        assert_eq!(outcomes(&changed), ["held, then destroyed"], "{action:?}");
    }
    let again = hold(held.changed_by_operator(change(OrderAction::Retry, 2)), 3);
    assert_eq!(outcomes(&again), ["held, then destroyed", "held"]);
    let released = again.changed_by_operator(change(OrderAction::Release, 4));
    assert_eq!(outcomes(&released), ["held, then destroyed", "held, then released"]);
    assert_eq!(released.last_attempts[1].outcome, Some(GenerationOutcome::Held), "the record stays");
    let asked = released.attempted(start("a"), at(5));
    assert_eq!(asked.last_attempts.last().map(|attempt| asked.outcome_of(attempt)), Some("in progress"));
}

#[test]
fn order_says_why_it_is_not_delivered() {
    let failed = fail(Order::placed(at(0)), GenerationOutcome::ModelTimeout, 1);
    assert_eq!(failed.reason().as_deref(), Some("why"));
    let ended = failed.clone().changed_by_operator(change(OrderAction::Fail, 2));
    assert_eq!((ended.stop_cause, ended.changed_at), (Some(OrderStopCause::Operator), at(2)));
    assert_eq!(ended.reason().as_deref(), Some("operator: refunded"));
    let expired = Order::placed(at(0)).stopped(OrderStopCause::Expired, false, at(9));
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
        fail_with(order, start("a"), failure, &["a"], second)
    };
    let order = rejected(Order::placed(at(0)), Flag::ShortSummary, 1);
    assert_eq!(order.open_rejection, Some(rejection(Flag::ShortSummary)));
    let order = fail(order, GenerationOutcome::ModelTimeout, 2);
    assert_eq!(order.open_rejection, Some(rejection(Flag::ShortSummary)));
    let order = rejected(order, Flag::VerdictConflict, 3);
    assert_eq!(order.open_rejection, Some(rejection(Flag::VerdictConflict)));
    let rejections: Vec<_> = order.last_attempts.iter().map(|attempt| attempt.rejection.is_some()).collect();
    assert_eq!(rejections, [true, false, true]);
    let attempted = order.clone().attempted(start("a"), at(4));
    let ended = [
        rejected(order.clone(), Flag::ShortSummary, 4),
        order.clone().changed_by_operator(change(OrderAction::Fail, 4)),
        order.clone().changed_by_operator(change(OrderAction::Retry, 4)),
        order.cancelled(at(4)),
        attempted.clone().delivered((GenerationOutcome::Delivered, None, None), at(4)),
        attempted.held_by_policy(Vec::new(), (GenerationOutcome::Held, None, None), at(4)),
    ];
    for order in ended {
        assert_eq!(order.open_rejection, None, "{:?}", order.state);
    }
}
