use crate::testing::{TestSystem, id, logged_events, with_system};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::*;
use domain_audit::event::ServiceStopped;
use domain_base::event::AuditEvent;
use domain_verdict::session::SessionRecord;
use oracled_store::{JournalRecord, RowExpectation, RowName};

#[test]
fn stale_decision_is_made_again_at_most_8_times() {
    with_system(|TestSystem { system, .. }| async move {
        for (fresh_at, expected_attempts, is_committed) in [(1, 1, true), (8, 8, true), (9, 8, false)] {
            let before = logged_events(&system.store).len();
            let mut attempts = 0;
            let committed = system.log.decide_and_commit(|| {
                attempts += 1;
                let revision = (attempts < fresh_at).then_some(u64::MAX);
                let record = JournalRecord {
                    expect: vec![RowExpectation::new::<SessionRecord>(&id("cs_1"), revision)],
                    ..JournalRecord::from(AuditEvent::new(system.clock.now(), None, ServiceStopped {}))
                };
                Ok::<_, CommitError>(CommitDecision::Change(attempts, record))
            });
            let committed = committed.await;
            let stale = Err(CommitError::Stale(RowName::of::<SessionRecord>(&id("cs_1"))));
            let result = committed.map(|(attempt, receipt)| (attempt, receipt.is_some()));
            assert_eq!(result, if is_committed { Ok((expected_attempts, true)) } else { stale });
            assert_eq!(attempts, expected_attempts);
            assert_eq!(logged_events(&system.store).len() - before, usize::from(is_committed));
        }
    });
}
