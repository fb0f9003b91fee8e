use crate::testing::{
    GOOD, TestClock, TestServices, TestSystem, id, logged_events, mail_of, regenerated, with_services,
};
use actix::{Context, Handler, Message};
use actors_platform::actor_handle::StartedActor;
use actors_platform::per_application::PerApplication;
use actors_platform::work::{RemoveWork, StopWork, WakeWork};
use actors_upstream::BoxFuture;
use actors_upstream::mail::MailService;
use actors_upstream::oracle_health::{ListHealthStatuses, MonitoredOracle, OracleProbe};
use actors_verdict::notifier::*;
use domain_audit::event::ServiceStopped;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::{CircuitCallOutcome, OracleHealthConfig, OracleHealthLevel};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::MessageQueued;
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::mail::{MailFailureCause, MailId, MailKind, MailSendFailure, MailState, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::outbox::{MessageChannel, MessageReceiver, MessageState, OutboxMessage};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, LogQuery, RowWrite};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs a tick at once.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct TickNotifier;

impl Handler<TickNotifier> for Notifier {
    type Result = ();

    fn handle(&mut self, _: TickNotifier, ctx: &mut Context<Self>) {
        self.tick(ctx);
    }
}

const PEER: PeerCredentials = PeerCredentials { uid: 1, gid: 2, pid: Some(3) };
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// The scripted behavior of the mail service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum MailServiceScript {
    #[default]
    Takes,
    /// Accepts mails, but returns a neutral outcome for probes.
    TakesMailAlone,
    Fails,
    Refuses,
    /// Fails with an error that quotes the recipient's address.
    Quotes,
    Hangs,
    Panics,
}

/// A mail service with a scripted behavior that counts the attempts.
#[derive(Debug, Default)]
struct ScriptedMailService {
    mood: Mutex<MailServiceScript>,
    /// Number of attempts for each mail.
    tried: Mutex<BTreeMap<String, usize>>,
    sending: AtomicUsize,
    at_once: AtomicUsize,
}

impl ScriptedMailService {
    fn new(mood: MailServiceScript) -> Arc<Self> {
        Arc::new(Self { mood: Mutex::new(mood), ..Self::default() })
    }

    fn set_script(&self, mood: MailServiceScript) {
        *self.mood.lock().expect("the lock is not poisoned") = mood;
    }

    fn current_script(&self) -> MailServiceScript {
        *self.mood.lock().expect("the lock is not poisoned")
    }

    fn attempt_counts(&self) -> BTreeMap<String, usize> {
        self.tried.lock().expect("the lock is not poisoned").clone()
    }

    fn attempts(&self) -> usize {
        self.attempt_counts().values().sum()
    }

    async fn accept_mail(&self, mail: &OutboxMail) -> Result<(), MailSendFailure> {
        let at_once = self.sending.fetch_add(1, Ordering::Relaxed) + 1;
        self.at_once.fetch_max(at_once, Ordering::Relaxed);
        *self
            .tried
            .lock()
            .expect("the lock is not poisoned")
            .entry(mail.state.mail_id.to_string())
            .or_default() += 1;
        tokio::task::yield_now().await;
        while self.current_script() == MailServiceScript::Hangs {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.sending.fetch_sub(1, Ordering::Relaxed);
        let failure = |fault| MailSendFailure {
            kind: RequestFailureKind::Status(502),
            cause: "status 502".into(),
            fault,
            retry_after: None,
        };
        match self.current_script() {
            MailServiceScript::Takes | MailServiceScript::TakesMailAlone | MailServiceScript::Hangs => Ok(()),
            MailServiceScript::Fails => Err(failure(MailFailureCause::Service)),
            MailServiceScript::Refuses => Err(failure(MailFailureCause::MailForGood)),
            MailServiceScript::Quotes => Err(MailSendFailure {
                kind: RequestFailureKind::SmtpStatus(451),
                cause: UpstreamText::new(format!(
                    "451 4.7.1 <{}>: Greylisted",
                    mail.state.to.as_str().to_uppercase()
                )),
                ..failure(MailFailureCause::Service)
            }),
            MailServiceScript::Panics => panic!("scripted panic"),
        }
    }
}

impl OracleProbe for ScriptedMailService {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(async {
            match self.current_script() {
                MailServiceScript::Takes => CircuitCallOutcome::Success { latency_ms: None },
                MailServiceScript::TakesMailAlone => CircuitCallOutcome::Neutral,
                _ => CircuitCallOutcome::Failure(RequestFailureKind::Status(502)),
            }
        })
    }
}

impl MailService for ScriptedMailService {
    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        _: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        Box::pin(self.accept_mail(mail))
    }
}

/// The mail service as an oracle without a probe of its own.
fn oracle() -> MonitoredOracle {
    MonitoredOracle {
        id: "mail".parse().expect("a valid id"),
        config: OracleHealthConfig::default(),
        probe: None,
    }
}

/// An environment with this mail service, or with none.
fn outside(service: Option<&Arc<ScriptedMailService>>) -> TestServices {
    let service = service.map(|service| Arc::clone(service) as Arc<dyn MailService>);
    let mailing = Some(NotifierConfig {
        service,
        max_age: MAX_AGE,
        templates: PerApplication::default(),
        contacts: PerApplication::default(),
    });
    TestServices { oracles: vec![oracle()], mailing, ..TestServices::default() }
}

fn with_service<F: Future<Output = ()>>(
    mood: MailServiceScript,
    test: impl FnOnce(TestSystem, TestClock, Arc<ScriptedMailService>) -> F,
) {
    let (hand, service) = (TestClock::new(), ScriptedMailService::new(mood));
    with_services(hand.clone(), outside(Some(&service)), |world| test(world, hand, service));
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// A mail of `kind` that is due now.
fn mail(kind: MailKind, session: &str, now: Timestamp) -> OutboxMail {
    let regen = if kind == MailKind::DivergenceNotice { regenerated(VerdictLabel::Red) } else { None };
    let created = mail_of(kind, ProductTier::Quick, GOOD, regen);
    let delivery = VerdictDelivery {
        session_id: id(session),
        cached_at: now,
        ..VerdictDelivery::clone(&created.delivery)
    };
    OutboxMail::queued(kind, Arc::new(delivery), created.state.to)
}

impl TestSystem {
    /// Queues a mail.
    async fn queue(&self, kind: MailKind, session: &str) -> MailId {
        self.queue_since(kind, session, self.system.clock.now()).await
    }

    /// Queues a mail that waits since `queued_at`.
    async fn queue_since(&self, kind: MailKind, session: &str, queued_at: Timestamp) -> MailId {
        self.queue_mail(mail(kind, session, queued_at)).await
    }

    async fn wake(&self, mail_id: MailId) {
        let (lane, id, due) = (MessageReceiver::Mails, mail_id.into(), Some(self.system.clock.now()));
        let wake = WakeWork::<OutboxWork> { lane, id, due, unblocks: false };
        self.system.notifier.ask(wake).await.expect("the actor answers");
    }

    async fn queue_mail(&self, mail: OutboxMail) -> MailId {
        let (mail_id, session_id) = (mail.state.mail_id.clone(), mail.state.session_id.clone());
        let message = OutboxMessage::from(mail);
        let queued = MessageQueued(message.state().entry());
        let event = AuditEvent::new(self.system.clock.now(), session_id, queued);
        let record = JournalRecord { writes: vec![RowWrite::put(&message)], ..JournalRecord::from(event) };
        self.system.log.commit(record).await.expect("the commit succeeds");
        mail_id
    }

    async fn queue_and_wake(&self, kind: MailKind, session: &str) -> MailId {
        let mail_id = self.queue(kind, session).await;
        self.wake(mail_id.clone()).await;
        mail_id
    }

    async fn tick(&self) {
        self.system.notifier.ask(TickNotifier).await.expect("the actor answers");
    }

    /// Advances the clock second by second, with a tick after each.
    async fn advance_time(&self, hand: &TestClock, seconds: i64) {
        for _ in 0..seconds {
            hand.advance(1);
            self.tick().await;
            // the attempts in flight end
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn list(&self, dead_only: bool) -> Vec<MailState> {
        let mut mails = Vec::new();
        let listed = self.system.store.visit_messages(Some(MessageChannel::Mail), None, |state| {
            if let MessageState::Mail(mail) = state {
                mails.extend(Some(mail).filter(|mail| !dead_only || mail.tries.is_dead()));
            }
            true
        });
        listed.expect("the outbox is readable");
        mails
    }

    /// The log entries about mails: each event with its attempt, if it has one.
    fn logged_mail_events(&self) -> Vec<(String, Value)> {
        let query = LogQuery { limit: usize::MAX, ..LogQuery::default() };
        let lines = self.system.store.log(&query).expect("the log is read");
        let entries = lines.iter().map(|line| serde_json::from_str::<Value>(&line.json).expect("valid JSON"));
        let of_mails = entries.filter(|entry| entry.get("message_id").is_some());
        of_mails
            .map(|entry| (entry["event"].as_str().expect("a name").to_owned(), entry["attempt"].clone()))
            .collect()
    }

    /// Waits until the log contains exactly these events: a mail's removal is visible shortly before its log entry.
    async fn wait_for_mail_events(&self, events: &[(&str, Option<u32>)]) {
        let events: Vec<_> =
            events.iter().map(|(event, attempt)| ((*event).to_owned(), json!(attempt))).collect();
        eventually(&format!("{events:?}"), async || self.logged_mail_events() == events).await;
    }

    async fn wait_until_outbox_empty(&self) {
        eventually("the outbox is empty", async || self.list(false).is_empty()).await;
    }
}

#[test]
fn queued_mail_is_sent_at_once_and_removed_from_the_outbox() {
    with_service(MailServiceScript::Takes, |world, _, service| async move {
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        world.wait_until_outbox_empty().await;
        world.wait_for_mail_events(&[("message_queued", None), ("message_sent", Some(1))]).await;
        assert_eq!(service.attempts(), 1);
        world.tick().await;
        let text = world.metrics();
        assert!(text.contains("mails_total{kind=\"verdict\",outcome=\"sent\"} 1\n"), "{text}");
        assert!(text.contains("outbox_depth{state=\"queued\"} 0\n"), "{text}");
    });
}

#[test]
fn address_quoted_by_the_mail_service_is_redacted() {
    with_service(MailServiceScript::Quotes, |world, _, _| async move {
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it has failed", async || logged_events(&world.system.store).len() == 3).await;
        let query = LogQuery { limit: usize::MAX, ..LogQuery::default() };
        let log = world.system.store.log(&query).expect("the log is read");
        let lines = log.into_iter().map(|line| line.json);
        let statuses = world.system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
        let queued = world.list(false)[0].tries.last_error.clone();
        let queued = queued.map(|error| error.reveal().to_owned());
        let shown = [queued, statuses[0].last_error.clone()];
        let texts: Vec<_> = lines.chain(shown.into_iter().flatten()).collect();
        let hidden = texts.iter().filter(|text| text.contains("451 4.7.1 <[address]>: Greylisted"));
        assert_eq!(
            hidden.count(),
            2,
            "message_failed and the outbox, but neither oracle_health_changed nor the health: {texts:?}"
        );
        assert!(texts.iter().all(|text| !text.to_lowercase().contains("a@example.org")), "{texts:?}");
    });
}

#[test]
fn regen_gap_04_notice_is_retried_after_60_s_and_then_dead_in_the_log() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        let mail_id = world.queue_and_wake(MailKind::DivergenceNotice, "cs_1").await;
        eventually("the first attempt fails", async || world.logged_mail_events().len() == 2).await;
        world.advance_time(&hand, 59).await;
        assert_eq!(service.attempts(), 1, "not before 60 s");
        world.advance_time(&hand, 1).await;
        eventually("the second attempt fails", async || world.logged_mail_events().len() == 3).await;
        world.advance_time(&hand, 300).await;
        let failed = [("message_queued", None), ("message_failed", Some(1)), ("message_failed", Some(2))];
        world.wait_for_mail_events(&failed).await;
        let dead = world.list(true);
        assert_eq!((dead.len(), &dead[0].mail_id, dead[0].tries.next_attempt_at), (1, &mail_id, None));
        assert_eq!(dead[0].tries.last_error, Some("status 502".into()));
        let text = world.metrics();
        for line in [
            "mails_total{kind=\"divergence_notice\",outcome=\"failed\"} 1\n",
            "mails_total{kind=\"divergence_notice\",outcome=\"dead\"} 1\n",
            "outbox_depth{state=\"dead\"} 1\n",
            "outbox_depth{state=\"queued\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    });
}

#[test]
fn notice_older_than_max_age_is_not_sent() {
    with_service(MailServiceScript::Takes, |world, _, service| async move {
        let queued_at = world.system.clock.now() - MAX_AGE - SignedDuration::from_secs(1);
        let mail_id = world.queue_since(MailKind::DivergenceNotice, "cs_old", queued_at).await;
        world.wake(mail_id).await;
        let failed = [("message_queued", None), ("message_failed", Some(0))];
        world.wait_for_mail_events(&failed).await;
        assert_eq!((service.attempts(), world.list(true).len()), (0, 1));
    });
}

#[test]
fn verdict_mail_is_retried_with_backoff_until_accepted() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        let mail_id = world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("the first attempt fails", async || world.logged_mail_events().len() == 2).await;
        world.wake(mail_id).await;
        world.advance_time(&hand, 1).await;
        assert_eq!(service.attempts(), 1, "an early wake-up sends nothing");
        world.advance_time(&hand, 1).await;
        eventually("the second attempt fails", async || world.logged_mail_events().len() == 3).await;
        service.set_script(MailServiceScript::Takes);
        world.advance_time(&hand, 3).await;
        assert_eq!(service.attempts(), 2);
        world.advance_time(&hand, 1).await;
        world.wait_until_outbox_empty().await;
        let failed = ("message_failed", Some(1));
        world
            .wait_for_mail_events(&[
                ("message_queued", None),
                failed,
                ("message_failed", Some(2)),
                ("message_sent", Some(3)),
            ])
            .await;
    });
}

#[test]
fn permanently_refused_mail_is_dead_until_requeued() {
    with_service(MailServiceScript::Refuses, |world, hand, service| async move {
        let mail_id = world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it is dead", async || !world.list(true).is_empty()).await;
        world.advance_time(&hand, 100).await;
        assert_eq!(service.attempts(), 1);
        service.set_script(MailServiceScript::Takes);
        let requeue = ChangeMessage { id: mail_id.clone().into(), action: OutboxAction::Requeue, peer: PEER };
        let state =
            world.system.notifier.ask(requeue).await.expect("the actor answers").expect("the call succeeds");
        assert_eq!((state.tries().attempts, state.tries().is_dead()), (0, false));
        world.wait_until_outbox_empty().await;
        let events = [
            ("message_queued", None),
            ("message_failed", Some(1)),
            ("message_requeued", None),
            ("message_sent", Some(1)),
        ];
        world.wait_for_mail_events(&events).await;
        let again = || {
            world.system.notifier.ask(ChangeMessage {
                id: mail_id.clone().into(),
                action: OutboxAction::Requeue,
                peer: PEER,
            })
        };
        // the mail stays in flight for a moment after the log entry of its sending
        let is_gone =
            async || matches!(again().await.expect("the call succeeds"), Err(OutboxError::Unknown { .. }));
        eventually("the mail is removed", is_gone).await;
    });
}

#[test]
fn drop_removes_a_mail_unless_it_is_in_flight() {
    with_service(MailServiceScript::Hangs, |world, hand, service| async move {
        let mail_id = world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it is being sent", async || service.attempts() == 1).await;
        let order = || {
            world.system.notifier.ask(ChangeMessage {
                id: mail_id.clone().into(),
                action: OutboxAction::Drop,
                peer: PEER,
            })
        };
        let refused = order().await.expect("the call succeeds");
        assert!(matches!(refused, Err(OutboxError::InFlight { .. })), "{refused:?}");
        service.set_script(MailServiceScript::Fails);
        eventually("it has failed", async || world.logged_mail_events().len() == 2).await;
        eventually("it is dropped", async || order().await.expect("the call succeeds").is_ok()).await;
        world.advance_time(&hand, 100).await;
        let events = [("message_queued", None), ("message_failed", Some(1)), ("message_dropped", None)];
        world.wait_for_mail_events(&events).await;
        assert_eq!(service.attempts(), 1);
    });
}

#[test]
fn dropped_mail_is_not_counted_while_no_mail_service_is_configured() {
    let hand = TestClock::new();
    with_services(hand.clone(), outside(None), |world| async move {
        let depth = async |queued: &str| {
            world.tick().await;
            world.metrics().contains(&format!("outbox_depth{{state=\"queued\"}} {queued}\n"))
        };
        let mail_id = world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it is counted", async || depth("1").await).await;
        let dropping = ChangeMessage { id: mail_id.into(), action: OutboxAction::Drop, peer: PEER };
        assert!(world.system.notifier.ask(dropping).await.expect("the call succeeds").is_ok());
        assert!(depth("0").await, "{}", world.metrics());
    });
}

#[test]
fn outage_of_the_mail_service_for_an_hour_loses_no_mail() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        for n in 0..3 {
            world.queue_and_wake(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        eventually("the circuit is open", async || service.attempts() == 3).await;
        // a notice has only two attempts, which must not be used up while the circuit is open
        for n in 0..9 {
            world.queue_and_wake(MailKind::DivergenceNotice, &format!("cs_{n}")).await;
        }
        world.advance_time(&hand, 20).await;
        assert_eq!(service.attempts(), 3, "no attempt is made, and so none is counted");
        for _ in 0..120 {
            hand.advance(29);
            world.advance_time(&hand, 1).await;
        }
        assert_eq!(service.attempts(), 3, "probes check the service, not mails");
        service.set_script(MailServiceScript::Takes);
        eventually("all are sent", async || {
            world.advance_time(&hand, 1).await;
            world.list(false).is_empty()
        })
        .await;
        assert_eq!(service.attempt_counts().len(), 12);
        eventually("the log contains 12 sent mails", async || {
            world.logged_mail_events().iter().filter(|(event, _)| event == "message_sent").count() == 12
        })
        .await;
        assert!(
            world
                .logged_mail_events()
                .iter()
                .all(|(_, attempt)| attempt.as_u64().is_none_or(|attempt| attempt <= 2))
        );
    });
}

#[test]
fn mail_service_without_probe_gets_mail_after_it_recovers() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        for n in 0..3 {
            world.queue_and_wake(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        eventually("three mails have failed", async || world.logged_mail_events().len() == 6).await;
        service.set_script(MailServiceScript::TakesMailAlone);
        world.advance_time(&hand, 40).await;
        world.wait_until_outbox_empty().await;
        assert_eq!(service.attempts(), 6);
    });
}

#[test]
fn one_failing_mail_does_not_open_the_circuit_for_others() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        let health = async || {
            let mut statuses =
                world.system.oracle_health.ask(ListHealthStatuses).await.expect("the actor answers");
            let mail = statuses.pop().expect("a value is present");
            (mail.status, mail.consecutive_failures)
        };
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it has failed five times", async || {
            world.advance_time(&hand, 1).await;
            world.logged_mail_events().len() == 6
        })
        .await;
        assert_eq!((service.attempts(), health().await), (5, (OracleHealthLevel::Degraded, 1)));
        for n in 2..4 {
            world.queue_and_wake(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        eventually("three mails that fail do", async || {
            health().await == (OracleHealthLevel::CircuitOpen, 3)
        })
        .await;
    });
}

#[test]
fn mail_without_a_wake_up_is_found_within_a_minute() {
    with_service(MailServiceScript::Takes, |world, hand, service| async move {
        eventually("the first survey is over", async || {
            world.tick().await;
            world.metrics().contains("outbox_depth{state=\"queued\"} 0\n")
        })
        .await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        // due in 5 s, so that its wake-up is lost before it is sent
        let now = world.system.clock.now();
        let mut later = mail(MailKind::Verdict, "cs_1", now);
        later.state.tries.next_attempt_at = now.checked_add(SignedDuration::from_secs(5)).ok();
        let mail_id = world.queue_mail(later).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let lost = RemoveWork::<OutboxWork>(mail_id.into());
        world.system.notifier.ask(lost).await.expect("the actor answers");
        world.advance_time(&hand, 30).await;
        assert_eq!(service.attempts(), 0);
        world.advance_time(&hand, 31).await;
        world.wait_until_outbox_empty().await;
        assert_eq!(service.attempts(), 1);
    });
}

#[test]
fn clock_that_was_years_ahead_delays_no_mail() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        let years = 10 * 365 * 24 * 3600;
        hand.advance(years);
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("the first attempt fails", async || world.logged_mail_events().len() == 2).await;
        service.set_script(MailServiceScript::Takes);
        hand.advance(-years);
        eventually("it is sent", async || {
            world.advance_time(&hand, 1).await;
            world.list(false).is_empty()
        })
        .await;
        assert_eq!(service.attempts(), 2);
    });
}

#[test]
fn clock_set_back_by_less_than_an_hour_delays_no_mail() {
    with_service(MailServiceScript::Fails, |world, hand, service| async move {
        hand.advance(3000);
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("the first attempt fails", async || world.logged_mail_events().len() == 2).await;
        service.set_script(MailServiceScript::Takes);
        hand.advance(-3000);
        // one survey of the outbox
        for _ in 0..100 {
            world.advance_time(&hand, 1).await;
        }
        assert_eq!((world.list(false).len(), service.attempts()), (0, 2));
    });
}

#[test]
fn mail_queued_before_a_restart_is_sent_after_it() {
    let (hand, service) = (TestClock::new(), ScriptedMailService::new(MailServiceScript::Fails));
    with_services(hand.clone(), outside(None), |world| async move {
        world.queue_and_wake(MailKind::DivergenceNotice, "cs_1").await;
        world.advance_time(&hand, 100).await;
        assert_eq!(world.list(false).len(), 1, "without a mail service it stays, and is listed");
        let world = world.restarted(outside(Some(&service))).await;
        eventually("the first attempt fails", async || world.logged_mail_events().len() == 2).await;
        world.system.notifier.ask(StopWork).await.expect("the actor answers");
        service.set_script(MailServiceScript::Takes);
        let world = world.restarted(outside(Some(&service))).await;
        world.advance_time(&hand, 59).await;
        assert_eq!(service.attempts(), 1, "the pause holds over a restart");
        world.advance_time(&hand, 1).await;
        world.wait_until_outbox_empty().await;
        let events = [("message_queued", None), ("message_failed", Some(1)), ("message_sent", Some(2))];
        world.wait_for_mail_events(&events).await;
    });
}

#[test]
fn stop_sending_settles_attempts_in_flight_and_starts_no_more() {
    with_service(MailServiceScript::Hangs, |world, hand, service| async move {
        for n in 0..9 {
            world.queue_and_wake(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        eventually("four are under way", async || service.attempts() == 4).await;
        let rest = world.system.notifier.ask(StopWork);
        let (rested, ()) = tokio::join!(rest, async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            service.set_script(MailServiceScript::Takes);
        });
        rested.expect("the call succeeds");
        world.advance_time(&hand, 5).await;
        assert_eq!((service.attempts(), world.list(false).len()), (4, 5));
    });
}

#[test]
fn at_most_four_mails_are_in_flight_and_none_twice() {
    with_service(MailServiceScript::Hangs, |world, hand, service| async move {
        let mut ids = Vec::new();
        for n in 0..12 {
            ids.push(world.queue_and_wake(MailKind::Verdict, &format!("cs_{n:02}")).await);
        }
        eventually("four are under way", async || service.attempts() == 4).await;
        for mail_id in &ids {
            world.wake(mail_id.clone()).await;
        }
        world.advance_time(&hand, 70).await;
        assert_eq!(service.attempts(), 4, "and none of them twice");
        service.set_script(MailServiceScript::Takes);
        world.wait_until_outbox_empty().await;
        assert_eq!(service.at_once.load(Ordering::Relaxed), 4);
        assert!(service.attempt_counts().values().all(|tried| *tried == 1), "{:?}", service.attempt_counts());
    });
}

#[test]
fn outbox_larger_than_the_head_is_sent_completely() {
    let (hand, service) = (TestClock::new(), ScriptedMailService::new(MailServiceScript::Takes));
    with_services(hand, outside(None), |world| async move {
        for n in 0..5 * LANE_MAX {
            world.queue(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        let world = world.restarted(outside(Some(&service))).await;
        eventually("all are sent", async || {
            world.tick().await;
            world.list(false).is_empty()
        })
        .await;
        assert_eq!((service.attempts(), service.attempt_counts().len()), (5 * LANE_MAX, 5 * LANE_MAX));
    });
}

#[test]
fn sent_mail_is_settled_once_the_log_recovers_and_not_resent() {
    with_service(MailServiceScript::Hangs, |world, hand, service| async move {
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it is being sent", async || service.attempts() == 1).await;
        world.break_store();
        service.set_script(MailServiceScript::Takes);
        is_broken(&world).await;
        world.advance_time(&hand, 100).await;
        world.mend_store();
        world.wait_until_outbox_empty().await;
        assert_eq!(service.attempts(), 1);
        world.wait_for_mail_events(&[("message_queued", None), ("message_sent", Some(1))]).await;
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        assert_eq!(lines, [""; 0], "it is in the log, and nowhere else");
    });
}

/// Waits until the log has found that the disk accepts no writes.
async fn is_broken(world: &TestSystem) {
    let mut report = world.system.log.report();
    report.wait_for(|report| report.failure.is_some()).await.expect("the logger reports");
}

#[test]
fn entries_the_log_never_accepts_go_to_the_service_log_once_at_the_end() {
    let lines = Arc::new(Mutex::new(Arc::default()));
    with_service(MailServiceScript::Hangs, |world, hand, service| {
        let lines = Arc::clone(&lines);
        async move {
            *lines.lock().expect("the lock is not poisoned") = Arc::clone(&world.fallback_lines);
            world.queue_and_wake(MailKind::Verdict, "cs_1").await;
            eventually("it is being sent", async || service.attempts() == 1).await;
            world.break_store();
            service.set_script(MailServiceScript::Takes);
            is_broken(&world).await;
            world.advance_time(&hand, 100).await;
            // one more retry, and then the log is closed for good
            tokio::time::sleep(Duration::from_millis(1100)).await;
            world.system.log.close().await;
            assert!(world.fallback_lines.lock().expect("the lock is not poisoned").is_empty());
        }
    });
    let lines =
        lines.lock().expect("the lock is not poisoned").lock().expect("the lock is not poisoned").clone();
    assert!(lines.len() == 1 && lines[0].contains("message_sent"), "{lines:?}");
}

#[test]
fn no_mail_is_sent_while_the_log_is_unavailable() {
    with_service(MailServiceScript::Takes, |world, hand, service| async move {
        // the mail is due later: on a busy machine the notifier's own tick may run before the log is broken
        let now = world.system.clock.now();
        let mut later = mail(MailKind::Verdict, "cs_1", now);
        later.state.tries.next_attempt_at = now.checked_add(SignedDuration::from_secs(5)).ok();
        let mail_id = world.queue_mail(later).await;
        world.break_store();
        let event = AuditEvent::new(world.system.clock.now(), None, ServiceStopped {});
        world.system.log.commit(event.into()).await.expect_err("the write fails");
        world.wake(mail_id).await;
        world.advance_time(&hand, 8).await;
        assert_eq!(service.attempts(), 0);
        world.mend_store();
        eventually("it is sent", async || {
            world.tick().await;
            service.attempts() == 1
        })
        .await;
        world.wait_until_outbox_empty().await;
    });
}

#[test]
fn panics_lose_no_mail() {
    with_service(MailServiceScript::Hangs, |world, hand, service| async move {
        world.queue_and_wake(MailKind::Verdict, "cs_1").await;
        eventually("it is being sent", async || service.attempts() == 1).await;
        // a restarted notifier surveys the outbox and needs no wake-up
        world.queue(MailKind::Verdict, "cs_2").await;
        world.system.notifier.inject_panic().await;
        service.set_script(MailServiceScript::Takes);
        world.wait_until_outbox_empty().await;
        assert!(service.attempt_counts().values().all(|tried| *tried == 1), "{:?}", service.attempt_counts());
        // a panic of the mail service itself
        service.set_script(MailServiceScript::Panics);
        world.queue_and_wake(MailKind::Verdict, "cs_3").await;
        eventually("it is tried", async || service.attempts() == 3).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.set_script(MailServiceScript::Takes);
        world.advance_time(&hand, 61).await;
        eventually("it is found again", async || {
            world.advance_time(&hand, 1).await;
            world.list(false).is_empty()
        })
        .await;
    });
}

#[test]
fn mails_are_listed_by_id_in_pages() {
    with_services(TestClock::new(), outside(None), |world| async move {
        for n in [3, 1, 2] {
            world.queue(MailKind::Verdict, &format!("cs_{n}")).await;
        }
        let page = |after: Option<&str>, limit| {
            let (after, mut ids) = (after.map(|after| after.parse().expect("a valid id")), Vec::new());
            let visited =
                world.system.store.visit_messages(Some(MessageChannel::Mail), after.as_ref(), |state| {
                    ids.push(state.entry().message_id.to_string());
                    ids.len() < limit
                });
            visited.expect("the outbox is readable");
            ids
        };
        assert_eq!(page(None, 2), ["verdict:cs_1", "verdict:cs_2"]);
        assert_eq!(page(Some("verdict:cs_2"), 2), ["verdict:cs_3"]);
        assert!(world.list(true).is_empty());
    });
}
