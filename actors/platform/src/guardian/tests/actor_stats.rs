use crate::guardian::*;

#[test]
fn report_counts_answered_and_waiting_messages() {
    let stats = ActorStats::new("cache", Clock::system());
    let (one, two) = (stats.count_waiting_message(), stats.count_waiting_message());
    one.count_answered();
    drop(one);
    stats.count_panic("over nothing".into());
    let report = stats.report();
    assert_eq!((report.handled, report.queue_depth, report.restarts), (1, 1, 1));
    assert_eq!(report.last_panic.map(|panic| panic.message).as_deref(), Some("over nothing"));
    drop(two);
    assert_eq!(stats.report().queue_depth, 0);
}

#[test]
fn latencies_expire_after_two_windows() {
    let stats = ActorStats::new("cache", Clock::system());
    let mut latencies = stats.latencies.lock().expect("the lock is not poisoned");
    let start = latencies.current_since;
    latencies.current.saturating_record(1000);
    latencies.rotate_windows(start + WINDOW);
    assert_eq!((latencies.current.len(), latencies.previous.len()), (0, 1));
    latencies.rotate_windows(start + 3 * WINDOW);
    assert_eq!((latencies.current.len(), latencies.previous.len()), (0, 0));
}
