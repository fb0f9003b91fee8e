use crate::testing::{TestSystem, id, with_system};
use actors_verdict::erasure::*;
use actors_verdict::notifier::OutboxError;
use domain_audit::event::{ErasureStartEntry, ErasureStarted};
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_verdict::event::MessageQueued;
use domain_verdict::outbox::OutboxMessage;
use domain_verdict::webhook::{OutboxWebhook, WebhookId, WebhookReceiver, WebhookType};
use oracled_store::{JournalRecord, RowWrite};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;
use tokio::time::sleep;

const PEER: PeerCredentials = PeerCredentials { uid: 0, gid: 0, pid: None };

/// Commits the start of an erasure of session `ada`.
async fn start_erasure(system: &TestSystem, erased: &str) {
    let start = ErasureStartEntry { reason: "asked".to_owned(), peer: PEER };
    let event = AuditEvent::new(system.time.clock().now(), Some(id(erased)), ErasureStarted(start));
    let record = JournalRecord { events: vec![event], ..JournalRecord::default() };
    system.system.erasure.0.log.commit(record).await.expect("the commit succeeds");
}

#[test]
fn webhook_queued_during_the_removal_is_dropped_by_a_resumed_erasure() {
    with_system(async |system: TestSystem| {
        let erasure = system.system.erasure.clone();
        // nothing else completes the erasure meanwhile
        let turn = erasure.wait_for_turn().await;
        start_erasure(&system, "ada").await;
        let now = system.time.clock().now();
        let webhook = OutboxMessage::from(OutboxWebhook::queued(
            WebhookId::new(now, 7),
            WebhookType::OrderFailed,
            WebhookReceiver::default(),
            Some(id("ada")),
            &json!({}),
            now,
        ));
        let event = AuditEvent::new(now, Some(id("ada")), MessageQueued(webhook.state().entry()));
        let record = JournalRecord {
            events: vec![event],
            writes: vec![RowWrite::put(&webhook)],
            ..JournalRecord::default()
        };
        erasure.0.log.commit(record).await.expect("the commit succeeds");
        let erased = loop {
            match erasure.erase_started().await {
                // its first attempt
                Err(ErasureError::Outbox(OutboxError::InFlight { .. })) => {
                    sleep(Duration::from_millis(10)).await;
                }
                ended => break ended.expect("the erasure ends"),
            }
        };
        assert!(erased.sessions.contains_key(&id("ada")), "{erased:?}");
        assert_eq!(erasure.0.store.webhooks_of(&id("ada")).expect("the store is readable"), []);
        assert_eq!(erasure.started().await.expect("the log is readable").erasures.len(), 0);
        drop(turn);
    });
}

#[test]
fn failed_erasures_are_resumed_by_one_loop() {
    with_system(async |system: TestSystem| {
        let erasure = system.system.erasure.clone();
        // the copy of the log cannot be created
        let blocked = system.dir.join("oracle_log.jsonl.erasing");
        fs::create_dir(&blocked).expect("the directory is created");
        let sessions = || BTreeSet::from([id("ada")]);
        for _ in 0..2 {
            let turn = erasure.wait_for_turn().await;
            erasure.erase(turn, sessions(), "asked".to_owned(), PEER).await.expect_err("the copy fails");
        }
        eventually_resuming(&erasure).await;
        // a further loop would wait and try again
        let second = tokio::time::timeout(Duration::from_secs(30), erasure.clone().resume()).await;
        assert!(second.is_ok(), "two loops are running");
        assert!(erasure.0.resuming.try_lock().is_err(), "the first loop goes on");
        fs::remove_dir(&blocked).expect("the removal succeeds");
        let turn = erasure.wait_for_turn().await;
        erasure.erase(turn, sessions(), "asked".to_owned(), PEER).await.expect("the erasure ends");
    });
}

async fn eventually_resuming(erasure: &ErasureService) {
    for _ in 0..1000 {
        if erasure.0.resuming.try_lock().is_err() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("no loop resumes the erasure");
}
