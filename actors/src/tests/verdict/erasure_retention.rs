use crate::testing::{TestSystem, id, logged_events, with_system};
use actors_verdict::cache::{RegisterSession, RegisterSessionOutcome};
use actors_verdict::erasure::{ErasureError, *};
use domain_audit::checkpoint::{LogKey, LogSigner};
use domain_audit::event::{DueData, RetentionStartEntry, RetentionStarted};
use domain_base::event::AuditEvent;
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionCaller;
use oracled_store::LogQuery;

const DAY_S: i64 = 86_400;

async fn register(world: &TestSystem, session: &str) {
    let message = RegisterSession {
        session_id: id(session),
        caller: SessionCaller::Application,
        tier: ProductTier::Quick,
        query: CustomerQuery::new(format!("Question of {session}?")),
        customer_email: Some(format!("{session}@example.org").try_into().expect("an address")),
        original_verdict: None,
        prompt: None,
        look_up: None,
    };
    let outcome = world.system.cache.ask(message).await.expect("the actor answers");
    drop::<RegisterSessionOutcome>(outcome.expect("the commit succeeds"));
}

async fn apply(world: &TestSystem, days: RetentionDays) -> RetentionReport {
    let erasure = &world.system.erasure;
    let turn = erasure.wait_for_turn().await;
    erasure.apply_retention(turn, days, None, &log_key()).await.expect("the files are writable")
}

fn log_key() -> LogKey {
    LogSigner::new("oracled/1", &[1; 32]).key().clone()
}

fn counts(due: &DueData) -> [Option<u64>; 3] {
    [&due.verdicts, &due.log_values, &due.verifications].map(|kind| kind.as_ref().map(|kind| kind.count))
}

#[test]
fn retention_removes_old_sessions_and_values_and_keeps_newer_ones() {
    with_system(|world| async move {
        let days = RetentionDays { verdicts: Some(20), log_values: Some(10), ..RetentionDays::default() };
        register(&world, "old").await;
        world.time.advance(15 * DAY_S);
        register(&world, "middle").await;
        world.time.advance(6 * DAY_S);
        register(&world, "new").await;
        let due = world.system.erasure.due_data(days).await.expect("the store is readable");
        assert_eq!(counts(&due), [Some(1), Some(1), None]);
        assert!(!logged_events(&world.system.store).contains(&"retention_started".to_owned()));

        let report = apply(&world, days).await;
        assert_eq!(report.due, due);
        let store = &world.system.store;
        let is_stored = |session: &str| store.session(&id(session)).expect("readable").is_some();
        assert_eq!(["old", "middle", "new"].map(is_stored), [false, true, true]);
        let log = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("readable");
        let has = |text: &str| log.iter().any(|line| line.json.contains(text));
        assert!(!has("Question of old?") && has("Question of middle?") && has("Question of new?"));
        let ended = log.iter().find(|line| line.json.contains("retention_applied")).expect("it is logged");
        assert!(ended.json.contains("\"sessions\":1"), "{}", ended.json);
        drop(world.system.erasure.hold().await.expect("the retention is complete"));

        // the same time again: nothing is due, and nothing is logged
        let before = log.len();
        let again = apply(&world, days).await;
        assert_eq!(counts(&again.due), [Some(0), Some(0), None]);
        assert_eq!(logged_events(store).len(), before);
    });
}

#[test]
fn retention_drops_old_entries_of_the_log_once() {
    with_system(|world| async move {
        let days = RetentionDays { log: Some(20), ..RetentionDays::default() };
        for n in 0..400 {
            register(&world, &format!("old-{n}")).await;
        }
        world.time.advance(30 * DAY_S);
        register(&world, "new").await;
        let store = &world.system.store;
        let report = apply(&world, days).await;
        let dropped = report.due.dropped_up_to().expect("entries are due");
        assert!((200..400).contains(&dropped), "{dropped}");
        assert_eq!(store.first_seq().expect("readable"), dropped + 1);
        let log = store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() }).expect("readable");
        assert_eq!(log.first().map(|line| line.seq), Some(dropped + 1));
        let started = log.iter().find(|line| line.json.contains("retention_started")).expect("it is logged");
        assert!(started.json.contains(&format!("\"log_key\":\"{}\"", log_key())), "{}", started.json);
        assert!(store.session(&id("old-0")).expect("readable").is_some(), "the state stays");

        let again = apply(&world, days).await;
        assert_eq!(again.due.dropped_up_to(), None);
        assert_eq!(store.first_seq().expect("readable"), dropped + 1);
    });
}

#[test]
fn age_of_sessions_whose_entries_were_dropped_is_unknown() {
    with_system(|world| async move {
        for n in 0..400 {
            register(&world, &format!("old-{n}")).await;
        }
        world.time.advance(30 * DAY_S);
        register(&world, "new").await;
        let log = RetentionDays { log: Some(20), ..RetentionDays::default() };
        let dropped = apply(&world, log).await.due.dropped_up_to().expect("entries are due");
        // 30 days old, but the entries that are left do not show whether they are older than 35 days
        let verdicts = RetentionDays { verdicts: Some(35), ..RetentionDays::default() };
        let due = world.system.erasure.due_data(verdicts).await.expect("the store is readable");
        assert_eq!(due.verdicts.map(|kind| (kind.count, kind.last_seq)), Some((0, 0)), "{dropped}");
    });
}

#[test]
fn interrupted_retention_is_completed_after_a_restart() {
    with_system(|world| async move {
        register(&world, "old").await;
        // the resumption at the start would complete what this test leaves incomplete
        drop(world.system.erasure.wait_for_turn().await);
        world.time.advance(30 * DAY_S);
        let days = RetentionDays { verdicts: Some(20), log_values: Some(20), ..RetentionDays::default() };
        let erasure = world.system.erasure.clone();
        let due = erasure.due_data(days).await.expect("the store is readable");
        let started = RetentionStarted(RetentionStartEntry { due: due.clone(), peer: None, log_key: None });
        let started = AuditEvent::new(world.system.clock.now(), None, started);
        let receipt = world.system.log.commit(started.into()).await.expect("the commit succeeds");
        erasure.expire_sessions(receipt.last_seq, &due).await.expect("the commits succeed");
        assert!(matches!(erasure.hold().await, Err(ErasureError::Incomplete)), "a backup has to wait");

        let world = world.restarted_after(1).await;
        drop(world.system.erasure.wait_for_turn().await);
        // the system's own resumption may have its turn later
        let turn = world.system.erasure.wait_for_turn().await;
        world
            .system
            .erasure
            .apply_retention(turn, days, None, &log_key())
            .await
            .expect("the files are writable");
        world.system.erasure.clone().resume().await;
        let events = logged_events(&world.system.store);
        assert!(events.contains(&"retention_applied".to_owned()), "{events:?}");
        let log = world.system.store.log(&LogQuery { limit: usize::MAX, ..LogQuery::default() });
        let log = log.expect("readable");
        assert!(log.iter().all(|line| !line.json.contains("Question of old?")));
    });
}
