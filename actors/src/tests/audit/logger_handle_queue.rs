use crate::testing::{TestSystem, logged_events, with_system};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::{GROUP_MAX, GROUP_WAIT, QUEUED_MAX};
use actors_platform::caller::run_as_caller;
use domain_audit::event::ServiceStopped;
use domain_base::caller::{PeerCredentials, RequestCaller};
use domain_base::event::AuditEvent;
use oracled_store::{LogLine, LogQuery, Store};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::task::unconstrained;
use tokio::time::sleep;

fn stopped() -> AuditEvent {
    AuditEvent::new("2026-11-20T10:00:00Z".parse().expect("a valid time"), None, ServiceStopped {})
}

fn caller(request_id: &str) -> RequestCaller {
    RequestCaller {
        peer: PeerCredentials { uid: 1, gid: 2, pid: Some(3) },
        socket: None,
        host: None,
        application: None,
        request_id: request_id.into(),
        trace_id: None,
        is_trace_sampled: false,
        owner_uid: None,
    }
}

fn lines(store: &Store) -> Vec<Value> {
    let lines = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("the log is read");
    lines.iter().map(|LogLine { json, .. }| serde_json::from_str(json).expect("valid JSON")).collect()
}

#[test]
fn queued_entries_are_committed_as_one_group_each_with_its_caller() {
    with_system(|TestSystem { system, .. }| async move {
        for request_id in ["r-1", "r-2"] {
            run_as_caller(caller(request_id), None, system.log.append(stopped()))
                .await
                .expect("the mail is queued");
        }
        system.log.append(stopped()).await.expect("the append succeeds");
        assert!(logged_events(&system.store).is_empty(), "an append does not wait for the commit");
        sleep(GROUP_WAIT).await;
        for _ in 0..1000 {
            if logged_events(&system.store).is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        }
        let lines = lines(&system.store);
        let callers: Vec<_> = lines.iter().map(|line| line.get("caller").cloned()).collect();
        let named = |request_id| Some(json!({"uid": 1, "gid": 2, "pid": 3, "request_id": request_id}));
        assert_eq!(callers, [named("r-1"), named("r-2"), None]);
        let query = LogQuery { request_id: Some("r-2".into()), limit: 9, ..LogQuery::default() };
        let found = system.store.log(&query).expect("the log is read");
        assert_eq!(found.iter().map(|line| line.seq).collect::<Vec<_>>(), [2]);
    });
}

#[test]
fn full_group_is_committed_before_its_wait_ends() {
    with_system(|TestSystem { system, .. }| async move {
        for _ in 0..GROUP_MAX {
            system.log.append(stopped()).await.expect("the append succeeds");
        }
        // the report changes with the commit
        let committed =
            |report: &actors_audit::logger::JournalReport| report.counts.entries == GROUP_MAX as u64;
        let mut report = system.log.report();
        report.wait_for(committed).await.expect("the logger reports");
    });
}

#[test]
fn close_commits_queued_entries() {
    with_system(|TestSystem { system, .. }| async move {
        for _ in 0..3 {
            system.log.append(stopped()).await.expect("the append succeeds");
        }
        system.log.close().await;
        assert_eq!(logged_events(&system.store).len(), 3);
    });
}

#[test]
fn append_waits_while_the_queue_is_full_and_drops_no_entry() {
    with_system(|TestSystem { system, .. }| async move {
        let count = QUEUED_MAX + 2 * GROUP_MAX;
        let log = system.log.clone();
        let mut all = pin!(unconstrained(async {
            for _ in 0..count {
                log.append(stopped()).await.expect("the append succeeds");
            }
        }));
        // the writer does not run within one poll
        let fit_at_once = poll_fn(|cx| Poll::Ready(all.as_mut().poll(cx).is_ready())).await;
        assert!(!fit_at_once, "{count} entries fit at once");
        all.await;
        system.log.flush().await;
        assert_eq!(logged_events(&system.store).len(), count);
    });
}

#[test]
fn append_to_a_failed_journal_is_rejected_and_falls_back() {
    with_system(|world| async move {
        let log = &world.system.log;
        world.break_store();
        run_as_caller(caller("r-1"), None, log.append(stopped())).await.expect("the failure is not known");
        log.flush().await;
        let mut report = log.report();
        report.wait_for(|report| report.failure.is_some()).await.expect("the logger reports");
        let refused = run_as_caller(caller("r-2"), None, log.append(stopped())).await;
        assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        let lines: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
        let ids: Vec<_> = lines.iter().map(|line| &line["caller"]["request_id"]).collect();
        assert_eq!(ids, [&json!("r-1"), &json!("r-2")]);
        assert!(lines.iter().all(|line| line["log_fallback"] == true), "{lines:?}");
    });
}
