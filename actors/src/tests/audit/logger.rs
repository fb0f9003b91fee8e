use crate::testing::{TestSystem, logged_events, with_system};
use actors_audit::logger::CommitError;
use actors_platform::actor_handle::StartedActor;
use domain_audit::event::ServiceStopped;
use domain_base::event::{AuditEvent, EventSeverity};
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_verdict::event::CrosscheckError;
use std::time::Duration;

fn stopped() -> AuditEvent {
    AuditEvent::new("2026-11-20T10:00:00Z".parse().expect("a valid time"), None, ServiceStopped {})
}

#[test]
fn records_that_arrive_together_share_commits() {
    with_system(|world| async move {
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let log = world.system.log.clone();
                actix_rt::spawn(async move { log.commit(stopped().into()).await })
            })
            .collect();
        let mut seqs = Vec::new();
        for task in tasks {
            seqs.push(task.await.expect("the task does not panic").expect("the commit succeeds").first_seq);
        }
        assert_eq!(seqs, (1..=64).collect::<Vec<_>>(), "in the order of the calls");
        let metrics = world.metrics();
        let count = |name: &str| {
            let line = metrics.lines().find(|line| line.starts_with(name)).expect("it is counted");
            line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number")
        };
        assert_eq!(count("journal_records_total"), 64.0);
        assert!(count("journal_group_records_count") < 16.0, "{metrics}");
    });
}

#[test]
fn records_of_3_mib_that_arrive_together_are_committed_in_order() {
    with_system(|TestSystem { system, .. }| async move {
        let long = AuditEvent::new(
            "2026-11-20T10:00:00Z".parse().expect("a valid time"),
            "long".parse::<SessionId>().expect("a valid id"),
            CrosscheckError {
                path: GatePath::Submit,
                level: EventSeverity::Error,
                cause: "x".repeat(3 * 1024 * 1024),
            },
        );
        // more bytes than one group may have
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (log, record) = (system.log.clone(), long.clone().into());
                actix_rt::spawn(async move { log.commit(record).await })
            })
            .collect();
        for (seq, task) in (1..).zip(tasks) {
            let receipt = task.await.expect("the task does not panic").expect("the commit succeeds");
            assert_eq!((receipt.first_seq, receipt.last_seq), (seq, seq));
        }
    });
}

#[test]
fn rejected_entry_goes_to_the_service_log_whole() {
    with_system(|world| async move {
        let log = &world.system.log;
        world.break_store();
        let error = log.commit(stopped().into()).await.expect_err("the disk rejects it");
        assert!(matches!(error, CommitError::Unavailable(_)), "{error}");
        let again = log.commit(stopped().into()).await.expect_err("the disk rejects this too");
        assert!(matches!(again, CommitError::Unavailable(_)), "{again}");
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        assert_eq!(lines.len(), 2);
        let line: serde_json::Value = serde_json::from_str(&lines[0]).expect("a line of JSON");
        assert_eq!(line["log_fallback"], true);
        assert_eq!(line["event"], "service_stopped");
        assert_eq!(line["timestamp"], "2026-11-20T10:00:00Z");
        assert!(line["fallback_cause"].as_str().is_some_and(|cause| !cause.is_empty()));
        let mut report = log.report();
        report.wait_for(|report| report.failure.is_some()).await.expect("the logger reports");

        world.mend_store();
        let mended = report.wait_for(|report| report.failure.is_none());
        tokio::time::timeout(Duration::from_secs(30), mended)
            .await
            .expect("in time")
            .expect("the logger reports");
        log.commit(stopped().into()).await.expect("it is accepted again");
        let events = logged_events(&world.system.store);
        assert_eq!(events.last().map(String::as_str), Some("service_stopped"));
        assert!(
            events.contains(&"storage_recovered".to_owned()),
            "the log has an entry for the gap: {events:?}"
        );
    });
}

#[test]
fn logger_loses_no_acknowledged_record_in_a_panic() {
    with_system(|TestSystem { system, fallback_lines, .. }| async move {
        let mut acknowledged = 0;
        let mut lost = 0;
        for round in 0..8 {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let log = system.log.clone();
                    actix_rt::spawn(async move { log.commit(stopped().into()).await })
                })
                .collect();
            if round % 2 == 1 {
                system.log.actor_handle().inject_panic().await;
            }
            for task in tasks {
                match task.await.expect("the task does not panic") {
                    Ok(_) => acknowledged += 1,
                    Err(_) => lost += 1,
                }
            }
        }
        let logged = logged_events(&system.store).len();
        assert!(logged >= acknowledged && acknowledged + lost == 64, "{logged} {acknowledged} {lost}");
        assert_eq!(
            fallback_lines.lock().expect("the lock is not poisoned").len(),
            lost,
            "each is in the service log"
        );
        assert_eq!(system.log.actor_handle().report().restarts, 4);
    });
}

#[test]
fn closed_logger_rejects_records() {
    with_system(|TestSystem { system, .. }| async move {
        system.log.commit(stopped().into()).await.expect("the commit succeeds");
        system.log.close().await;
        assert!(system.log.commit(stopped().into()).await.is_err());
    });
}
