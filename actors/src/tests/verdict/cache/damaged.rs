//! Verdicts whose stored text does not match the SHA-256 in their session.

use super::*;
use crate::testing::mail_of;
use actors_verdict::notifier::{ChangeMessage, OutboxAction};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::MessageQueued;
use domain_verdict::outbox::OutboxMessage;

/// Replaces the text of the cached verdict of `cs_1` but not its session, and queues it as a mail.
async fn damage(system: &ActorSystem) {
    let mail = mail_of(MailKind::Verdict, ProductTier::Quick, &verdict(VerdictLabel::Amber), None);
    let delivery = RowWrite::put::<VerdictDelivery>(&mail.delivery);
    let mail = OutboxMessage::from(mail);
    let event = AuditEvent::new(system.clock.now(), id("cs_1"), MessageQueued(mail.state().entry()));
    let writes = vec![delivery, RowWrite::put(&mail)];
    let record = JournalRecord { events: vec![event], writes, ..JournalRecord::default() };
    system.log.commit(record).await.expect("the commit succeeds");
    for damaged in [
        system.store.verdict(&id("cs_1")).map(drop),
        system.store.mail(&MailId::verdict(&id("cs_1"))).map(drop),
    ] {
        assert!(matches!(damaged, Err(StoreError::Corrupt { .. })), "{damaged:?}");
    }
}

fn last_entry(system: &ActorSystem) -> serde_json::Value {
    let lines =
        system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
    let line = lines.expect("the read succeeds").pop().expect("the log has entries");
    serde_json::from_str(&line.json).expect("valid JSON")
}

#[test]
fn damaged_verdict_is_purged_and_logged_without_a_digest() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
        damage(&system).await;
        let purged = system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER }).await;
        let purged = purged.expect("the actor answers").expect("the commit succeeds");
        assert_eq!(purged, PurgeOutcome::RemovedDamaged);
        let entry = last_entry(&system);
        assert_eq!(entry["event"], "verdict_purged");
        assert_eq!(entry["verdict_sha256"], serde_json::Value::Null);
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
    });
}

#[test]
fn session_with_a_damaged_verdict_and_mail_is_removed() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
        damage(&system).await;
        let drop_mail =
            ChangeMessage { id: MailId::verdict(&id("cs_1")).into(), action: OutboxAction::Drop, peer: PEER };
        system.notifier.ask(drop_mail).await.expect("the actor answers").expect("the commit succeeds");
        let removed =
            system.cache.ask(RemoveSession { session_id: id("cs_1"), mails: None, peer: PEER }).await;
        assert!(removed.expect("the actor answers").expect("the commit succeeds").is_some());
        assert_eq!(last_entry(&system)["event"], "session_removed");
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert!(system.store.session(&id("cs_1")).expect("the session is readable").is_none());
    });
}
