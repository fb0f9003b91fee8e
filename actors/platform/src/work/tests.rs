use super::*;

const LIMITS: WorkLimits =
    WorkLimits { at_once: usize::MAX, lane_at_once: usize::MAX, lane_in_memory: 10, survey_period: None };

type TestQueue = WorkQueue<&'static str, &'static str>;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a valid time")
}

/// The queue with work in the lane that the first letter of its id names.
fn queue(limits: WorkLimits, work: &[(i64, &'static str)]) -> TestQueue {
    let mut queue = WorkQueue::new(&limits);
    for (due, id) in work {
        queue.insert(&id[..1], *id, at(*due));
    }
    queue
}

fn take(queue: &mut TestQueue, now: i64) -> Option<DueWork<&'static str, &'static str>> {
    queue.take_due(at(now), |_| true)
}

/// The ids of the work that is due, in turn. Each leaves the queue.
fn taken(queue: &mut TestQueue, now: i64) -> Vec<&'static str> {
    let mut ids = Vec::new();
    while let Some(work) = take(queue, now) {
        ids.push(work.id);
        queue.end(work, WorkOutcome::Left);
    }
    ids
}

/// Takes the work `id`, which is blocked.
fn block(queue: &mut TestQueue, now: i64, id: &str) {
    let work = take(queue, now).expect("work is due");
    assert_eq!(work.id, id);
    queue.end(work, WorkOutcome::Blocked);
}

#[test]
fn lanes_take_turns_and_work_of_one_keeps_its_order() {
    let flood = [(1, "a1"), (2, "a2"), (3, "a3"), (4, "b1"), (5, "b2"), (6, "c1"), (99, "c2")];
    let mut queue = queue(LIMITS, &flood);
    assert_eq!((queue.total(), queue.total_of(&"a")), (7, 3));
    assert_eq!(taken(&mut queue, 10), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    assert_eq!((queue.total(), queue.is_free(&"c", at(10)), queue.is_free(&"c", at(99))), (1, true, false));
}

#[test]
fn blocked_lane_leaves_its_turns_to_others_until_it_is_unblocked() {
    let mut queue = queue(LIMITS, &[(1, "a1"), (2, "b1"), (3, "b2")]);
    block(&mut queue, 10, "a1");
    assert_eq!(taken(&mut queue, 10), ["b1", "b2"]);
    assert!(!queue.is_free(&"a", at(10)), "new work may not overtake the blocked one");
    queue.unblock();
    assert_eq!(taken(&mut queue, 10), ["a1"]);
}

#[test]
fn blocked_lane_keeps_its_turn() {
    let mut queue = queue(LIMITS, &[(1, "a1"), (2, "a2"), (3, "a3"), (4, "b1")]);
    assert_eq!(take(&mut queue, 10).map(|work| work.id), Some("a1"));
    block(&mut queue, 10, "b1");
    block(&mut queue, 10, "a2");
    queue.unblock();
    assert_eq!(taken(&mut queue, 10), ["b1", "a2", "a3"]);
}

#[test]
fn work_is_not_taken_beyond_the_limits() {
    let limits = WorkLimits { at_once: 3, lane_at_once: 2, ..LIMITS };
    let mut queue = queue(limits, &[(1, "a1"), (1, "a2"), (1, "a3"), (1, "b1"), (1, "b2")]);
    let running: Vec<_> = std::iter::from_fn(|| take(&mut queue, 1)).collect();
    assert_eq!(running.iter().map(|work| work.id).collect::<Vec<_>>(), ["a1", "b1", "a2"]);
    assert_eq!((queue.running(), queue.total_of(&"a")), (3, 3));
    for work in running {
        queue.end(work, WorkOutcome::Left);
    }
    assert!(queue.take_due(at(1), |lane| *lane == "c").is_none(), "no lane of these may start");
    assert_eq!(taken(&mut queue, 1), ["b2", "a3"]);
}

#[test]
fn work_counts_once_and_not_after_its_removal() {
    let mut queue = queue(LIMITS, &[(1, "a1"), (3, "a2"), (4, "a2")]);
    queue.remove(&"a1");
    queue.remove(&"a9");
    assert_eq!((queue.total(), queue.total_of(&"a"), queue.contains(&"a1")), (1, 1, false));
    assert!(take(&mut queue, 2).is_none());
    assert_eq!(taken(&mut queue, 3), ["a2"]);
}

#[test]
fn full_lane_keeps_the_earliest_work() {
    let ids = ["a00", "a01", "a02", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "a11"];
    let mut queue = queue(LIMITS, &[]);
    for (due, id) in ids.into_iter().enumerate().rev() {
        queue.insert("a", id, at(due as i64));
    }
    assert_eq!((queue.total(), queue.amount_of(|_| true)), (10, None));
    // the last two are only on disk: work that is due at the same time or later must not overtake them
    queue.insert("a", "a50", at(11));
    assert!(!queue.contains(&"a50") && !queue.is_running_low());
    let mut early = Vec::new();
    while let Some(work) = take(&mut queue, 4) {
        early.push(work.id);
        queue.end(work, WorkOutcome::Left);
    }
    assert_eq!(early, ids[..5]);
    assert!(queue.is_running_low());
}

#[test]
fn survey_replaces_the_work_except_for_what_changed_during_it() {
    let mut older = queue(LIMITS, &[(1, "a1"), (2, "a2"), (1, "b1"), (1, "c1"), (1, "c2")]);
    let running = take(&mut older, 1).expect("work is due");
    older.begin_survey();
    older.remove(&"c1");
    older.insert("d", "d1", at(2));
    // the survey has read c1 before it was removed; b1 has left the store
    older.replace(queue(LIMITS, &[(7, "a2"), (1, "c1"), (1, "c2")]));
    assert_eq!(older.running(), 1, "attempts continue");
    older.end(running, WorkOutcome::Due(at(5)));
    assert_eq!(taken(&mut older, 3), ["c2", "d1"]);
    assert_eq!(taken(&mut older, 7), ["a1", "a2"]);
    assert_eq!(older.changed, None, "changes are kept only during a survey");
}

#[test]
fn wake_up_during_an_attempt_is_not_lost() {
    let mut queue = queue(LIMITS, &[(1, "a1")]);
    let running = take(&mut queue, 1).expect("work is due");
    queue.insert("a", "a1", at(2));
    assert_eq!((queue.total(), queue.holds(&"a1")), (1, true), "it counts once");
    let again = take(&mut queue, 2).expect("work is due");
    queue.end(again, WorkOutcome::Due(at(3)));
    assert_eq!(queue.running(), 1, "the attempt continues");
    queue.end(running, WorkOutcome::Due(at(300)));
    assert_eq!(taken(&mut queue, 3), ["a1"]);
}

#[test]
fn amount_is_unknown_before_the_first_survey() {
    let mut queue = queue(LIMITS, &[(1, "a1")]);
    assert_eq!(queue.amount_of(|_| true), None);
    queue.begin_survey();
    queue.replace(WorkQueue::new(&LIMITS));
    assert_eq!(queue.amount_of(|_| true), Some(0));
}

#[test]
fn item_is_taken_by_one_holder_until_dropped() {
    let in_flight = InFlight::default();
    let taken = in_flight.claim("1").expect("the item is free");
    assert!(in_flight.claim("1").is_none());
    assert!(in_flight.claim("2").is_some(), "another is free");
    assert_eq!(in_flight.count(|_| true), 1);
    assert!(in_flight.claim_below("2", 1).is_none() && in_flight.claim_below("2", 2).is_some());
    drop(taken);
    assert!(in_flight.claim("1").is_some());
}

#[tokio::test]
async fn wait_until_empty_ends_when_the_last_claim_is_dropped() {
    let in_flight = InFlight::default();
    let taken = in_flight.claim("1").expect("the item is free");
    let waiting = tokio::spawn(in_flight.clone().wait_until_empty());
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(taken);
    waiting.await.expect("the wait ends");
}
