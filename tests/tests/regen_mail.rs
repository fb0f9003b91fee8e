//! The customer's notice of a divergent regenerated verdict (seed: `regen-consistency`, "Customer Notification",
//! VC-5, the failure mode of its mail, and REGEN-GAP-04).

use domain_audit::event::ControlAction;
use domain_base::event::AuditEvent;
use domain_verdict::divergence::DISCLAIMER;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::mail::MessageAttempts;
use domain_verdict::outbox::{MessageChannel, MessageState};
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_store::{JournalRecord, RowWrite, Store, StoreOptions};
use oracled_tests::generation::{
    QUERY, coherent_answer, event_names, generation_request, purge_verdict, put_session, read_verdict,
    x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, eventually, get, log, post};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The seed's limit on the time of a notice (VC-5).
const NOTIFIED_WITHIN: Duration = Duration::from_secs(60);
const ADDRESS: &str = "customer@example.org";

/// A world with `model` as its model and `mailbox` as its mail service.
fn mailing(model: &ModelServer, mailbox: &ModelServer) -> DaemonWorld {
    model.create_world(&format!(
        "[mail]\ntransport = \"http\"\nbase_url = \"{}\"\nhard_timeout_ms = 20000",
        mailbox.url()
    ))
}

/// Registers a session whose customer has an address and got the verdict `original`.
async fn register_with_address(routes: &mut DaemonClient, session: &str, original: Option<VerdictLabel>) {
    let mut body = generation_request(ProductTier::Quick);
    let members = body.as_object_mut().expect("a body is an object");
    members.insert("customer_email".into(), json!(ADDRESS));
    members.insert("original_verdict".into(), json!(original));
    let answer = put_session(routes, session, &body).await;
    assert!(answer.status.is_success(), "{}", document(&answer));
}

/// Regenerates the verdict of a session as `regen`; the first one was `original`.
async fn regenerate(
    daemon: &DaemonProcess<'_>,
    model: &ModelServer,
    session: &str,
    original: Option<VerdictLabel>,
    regen: VerdictLabel,
) -> DaemonResponse {
    let routes = &mut daemon.routes().await;
    register_with_address(routes, session, original).await;
    model.next([ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, regen))]);
    let answer = read_verdict(routes, session).await;
    assert_eq!((answer.status.as_u16(), x_cache(&answer)), (200, Some("MISS")), "{}", document(&answer));
    answer
}

async fn outbox(daemon: &DaemonProcess<'_>) -> Value {
    at(&get(&mut daemon.control().await, "/v1/outbox").await, "/items")
}

async fn of_event(daemon: &DaemonProcess<'_>, event: &str) -> Vec<Value> {
    log(&mut daemon.control().await, &format!("event={event}&limit=1000")).await
}

/// Sessions of these mails, sorted.
fn sessions(mails: &[ReceivedRequest]) -> Vec<&str> {
    let mut sessions: Vec<_> =
        mails.iter().map(|mail| field(&mail.body, "session_id").as_str().expect("a word")).collect();
    sessions.sort_unstable();
    sessions
}

#[tokio::test]
async fn vc_5_significant_divergence_is_mailed_within_60_s_with_disclaimer() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    for (n, (original, regen)) in
        [(VerdictLabel::Green, VerdictLabel::Red), (VerdictLabel::Red, VerdictLabel::Green)]
            .into_iter()
            .enumerate()
    {
        let session = format!("cs_{n}");
        let began = Instant::now();
        let answer = regenerate(&daemon, &model, &session, Some(original), regen).await;
        assert_eq!(at(&answer, "/disclaimer"), DISCLAIMER);
        eventually("it is mailed", async || mailbox.request_count() == n + 1).await;
        eventually("the log has the entry", async || of_event(&daemon, "message_sent").await.len() == n + 1)
            .await;
        assert!(began.elapsed() < NOTIFIED_WITHIN, "{:?}", began.elapsed());

        let mail = mailbox.requests().pop().expect("at least one");
        let cached_at: Timestamp = at(&answer, "/cached_at").as_str().unwrap().parse().unwrap();
        let mail_id = format!("divergence:{session}:{}", cached_at.as_microsecond());
        assert_eq!((mail.method.as_str(), mail.path.as_str()), ("POST", "/send-verdict-email"));
        assert_eq!(mail.header("idempotency-key"), Some(mail_id.as_str()));
        let body = json!({
            "to": ADDRESS, "session_id": session, "tier": "quick", "query": QUERY,
            "verdict": at(&answer, "/verdict"), "kind": "divergence_notice", "mail_id": mail_id,
            "disclaimer": DISCLAIMER, "original_verdict": original,
        });
        assert_eq!(mail.body, body);
        let events = event_names(&mut daemon.control().await, &session).await;
        let expected = [
            "session_registered",
            "regen_attempted",
            "oracle_interaction",
            "tmm_crosscheck",
            "verdict_cached",
            "regen_divergence_check",
            "message_queued",
            "message_sent",
        ];
        assert_eq!(events, expected);
    }
    assert_eq!(outbox(&daemon).await, json!([]));
}

#[tokio::test]
async fn vc_5_only_significant_divergence_with_an_address_is_mailed() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    for original in VerdictLabel::ALL.map(Some).into_iter().chain([None]) {
        for regen in VerdictLabel::ALL {
            let word = original.map_or("UNKNOWN", Into::into);
            regenerate(&daemon, &model, &format!("{word}-{regen}"), original, regen).await;
        }
    }
    let routes = &mut daemon.routes().await;
    oracled_tests::generation::register_session(routes, "no_address", Some(VerdictLabel::Green)).await;
    model.next([ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Red))]);
    assert_eq!(at(&read_verdict(routes, "no_address").await, "/disclaimer"), DISCLAIMER);

    eventually("all is sent", async || mailbox.request_count() >= 8 && outbox(&daemon).await == json!([]))
        .await;
    let significant = [
        "AMBER-NULL",
        "GREEN-NULL",
        "GREEN-RED",
        "NULL-AMBER",
        "NULL-GREEN",
        "NULL-RED",
        "RED-GREEN",
        "RED-NULL",
    ];
    assert_eq!(sessions(&mailbox.requests()), significant);
    assert_eq!(of_event(&daemon, "message_queued").await.len(), significant.len());
    // a second read sends no second notice
    for session in significant {
        assert_eq!(x_cache(&read_verdict(routes, session).await), Some("HIT"));
    }
    assert_eq!(mailbox.request_count(), significant.len());
}

#[tokio::test]
async fn first_verdict_is_mailed_once_and_an_equal_regenerated_one_never() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut order = generation_request(ProductTier::Quick);
    order["customer_email"] = json!(ADDRESS);
    for status in [201, 200, 200] {
        assert_eq!(post(routes, "/v1/verdicts/cs_1", &order).await.status, status);
    }
    purge_verdict(&mut daemon.control().await, "cs_1").await;
    assert_eq!(at(&read_verdict(routes, "cs_1").await, "/divergence_level"), "none");
    eventually("it is sent", async || outbox(&daemon).await == json!([])).await;
    let [mail] = &mailbox.requests()[..] else { panic!("one mail: {:?}", mailbox.requests()) };
    let fields = ["kind", "mail_id", "to", "session_id"].map(|name| mail.body[name].clone());
    assert_eq!(fields, [json!("verdict"), json!("verdict:cs_1"), json!(ADDRESS), json!("cs_1")]);
    assert_eq!((mail.body.get("disclaimer"), mail.body.get("original_verdict")), (None, None));
    assert!(!world.mirror().contains(ADDRESS), "an address is not logged");
}

#[tokio::test]
async fn vc_4_hanging_or_unreachable_mail_service_delays_no_answer() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    for (n, reply) in [ScriptedReply::silence(), ScriptedReply::hang_up()].into_iter().enumerate() {
        mailbox.set_default(reply);
        let began = Instant::now();
        for m in 0..4 {
            regenerate(&daemon, &model, &format!("cs_{n}_{m}"), Some(VerdictLabel::Red), VerdictLabel::Green)
                .await;
        }
        let mut order = generation_request(ProductTier::Quick);
        order["customer_email"] = json!(ADDRESS);
        let ordered = post(&mut daemon.routes().await, &format!("/v1/verdicts/first-{n}"), &order).await;
        assert_eq!(ordered.status, 201);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}: half of the mail timeout", began.elapsed());
        eventually("it is tried", async || mailbox.request_count() > n).await;
    }
    assert_eq!(of_event(&daemon, "message_sent").await.len(), 0);
    assert_eq!(outbox(&daemon).await.as_array().map(Vec::len), Some(10), "no mail is lost");
    assert_eq!(get(&mut daemon.routes().await, "/readyz").await.status, 200);
}

/// Wait until the next attempt, from the log entry of the failed one.
fn retry_wait(failed: &Value) -> SignedDuration {
    let time = |name: &str| -> Timestamp {
        field(failed, name).as_str().expect("a time").parse().expect("a string")
    };
    time("next_attempt_at").duration_since(time("timestamp"))
}

/// Moves the next attempt of the only mail in the outbox one minute back. No daemon may have the store open.
fn advance_retry(world: &DaemonWorld) {
    let options = StoreOptions {
        dir: world.state(),
        cache_bytes: 16 << 20,
        facts_cache_bytes: 1 << 20,
        min_free_bytes: 0,
    };
    let (mut journal, store) = Store::open(options).expect("the store opens");
    let mut waiting = None;
    let only_one = |state| waiting.replace(state).is_none();
    store.visit_messages(Some(MessageChannel::Mail), None, only_one).expect("the store is read");
    let state: MessageState = waiting.expect("the mail waits");
    let id = state.entry().message_id;
    let (mail, _) = store.message(&id).expect("the store is read").expect("the mail exists");
    let next_attempt_at = state.tries().next_attempt_at.map(|at| at - SignedDuration::from_secs(60));
    let mail = mail.with_tries(MessageAttempts { next_attempt_at, ..state.tries().clone() });
    let passed = AuditEvent::new(
        Timestamp::now(),
        None,
        ControlAction { action: "pass".into(), detail: "a minute".into(), peer: None },
    );
    let writes = vec![RowWrite::put(&mail)];
    let record = JournalRecord { events: vec![passed], writes, ..JournalRecord::default() };
    let committed = journal.commit(&[record]).expect("the commit succeeds");
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
}

#[tokio::test]
async fn failure_mode_divergence_mail_fails_and_is_retried_after_a_minute() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    mailbox.set_default(ScriptedReply::error(502, "the mail service is down"));
    let answer = regenerate(&daemon, &model, "cs_1", Some(VerdictLabel::Green), VerdictLabel::Null).await;
    assert_eq!(at(&answer, "/divergence_level"), "significant", "the answer has the divergence");
    eventually("it is logged", async || of_event(&daemon, "message_failed").await.len() == 1).await;
    let failed = of_event(&daemon, "message_failed").await.remove(0);
    let fields = ["session_id", "kind", "attempt"].map(|name| failed[name].clone());
    assert_eq!(fields, [json!("cs_1"), json!("divergence_notice"), json!(1)]);
    assert!(failed["cause"].as_str().unwrap().contains("502"), "{failed}");
    assert_eq!(retry_wait(&failed), SignedDuration::from_secs(60));
    // a restart does not make the next attempt earlier
    daemon.kill();
    let daemon = world.serve().await;
    sleep(Duration::from_millis(1500)).await;
    assert_eq!((mailbox.request_count(), outbox(&daemon).await[0]["attempts"].clone()), (1, json!(1)));
    assert!(daemon.stop().success());

    mailbox.set_default(ScriptedReply::bytes(200, "{}"));
    advance_retry(&world);
    let daemon = world.serve().await;
    eventually("it is sent", async || outbox(&daemon).await == json!([])).await;
    let [first, second] = &mailbox.requests()[..] else { panic!("two attempts") };
    assert_eq!(
        (&first.body, first.header("idempotency-key")),
        (&second.body, second.header("idempotency-key"))
    );
    eventually("the log has the entry", async || of_event(&daemon, "message_sent").await.len() == 1).await;
    assert_eq!(of_event(&daemon, "message_sent").await[0]["attempt"], 2);
}

#[tokio::test]
async fn regen_gap_04_notice_that_fails_twice_is_dead_until_requeued() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    mailbox.set_default(ScriptedReply::error(502, "the mail service is down"));
    regenerate(&daemon, &model, "cs_1", Some(VerdictLabel::Green), VerdictLabel::Red).await;
    eventually("it has failed", async || of_event(&daemon, "message_failed").await.len() == 1).await;
    assert!(daemon.stop().success());
    advance_retry(&world);
    let daemon = world.serve().await;
    eventually("it has failed again", async || of_event(&daemon, "message_failed").await.len() == 2).await;
    let failed = of_event(&daemon, "message_failed").await.remove(1);
    assert_eq!((&failed["attempt"], &failed["next_attempt_at"]), (&json!(2), &Value::Null));
    let dead = world.ctl(&["outbox", "--dead", "--json"]).stdout;
    let dead: Value = serde_json::from_slice(&dead).unwrap();
    assert_eq!(dead["items"][0]["mail_id"], failed["message_id"]);
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(mailbox.request_count(), 2, "a dead letter is not retried");

    mailbox.set_default(ScriptedReply::bytes(200, "{}"));
    assert!(world.ctl_in_thread(&["outbox", "requeue", "--all-dead"]).await.status.success());
    eventually("it is sent", async || outbox(&daemon).await == json!([])).await;
    assert_eq!(mailbox.request_count(), 3);
}

#[tokio::test]
#[ignore = "takes a minute; `just torture`"]
async fn regen_gap_04_failed_notice_is_retried_after_a_minute() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = mailing(&model, &mailbox);
    let daemon = world.serve().await;
    mailbox.next([ScriptedReply::hang_up()]);
    regenerate(&daemon, &model, "cs_1", Some(VerdictLabel::Green), VerdictLabel::Red).await;
    eventually("it has failed", async || mailbox.request_count() == 1).await;
    let failed = Instant::now();
    sleep(Duration::from_secs(55)).await;
    assert_eq!(mailbox.request_count(), 1, "the notice waits");
    eventually("it is sent", async || mailbox.request_count() == 2).await;
    assert!(failed.elapsed() < Duration::from_secs(75), "{:?}", failed.elapsed());
    eventually("the outbox is empty", async || outbox(&daemon).await == json!([])).await;
}
