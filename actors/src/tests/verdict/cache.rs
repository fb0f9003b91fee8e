use crate::system::ActorSystem;
use crate::testing::{GOOD, TestSystem, id, logged_events, test_submission, with_system};
use actors_verdict::cache::*;
use actors_verdict::crosscheck::JudgeVerdict;
use actors_verdict::submission::{GenerationTrace, Submission, SubmissionOutcome};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_verdict::divergence::DivergenceLevel;
use domain_verdict::generation::{GenerationSettings, VerdictGeneration};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::mail::{MailId, MailKind};
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::{CustomerEmail, OriginalVerdict, SessionCaller, SessionMismatch};
use oracled_store::{JournalRecord, RowWrite, StoreError};
use std::sync::Arc;

mod damaged;
mod ownership;
mod sessions;

const PEER: PeerCredentials = PeerCredentials { uid: 7, gid: 8, pid: Some(9) };

#[test]
fn second_read_of_a_verdict_is_served_from_memory() {
    with_system(|world| async move {
        let system = &world.system;
        system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers")
            .expect("the judgment succeeds");
        let read = || async {
            system
                .cache
                .ask(ReadVerdict(id("cs_1")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds")
        };
        let (first, second) =
            (read().await.expect("the file exists"), read().await.expect("the file exists"));
        assert!(Arc::ptr_eq(&first, &second), "the second comes from memory");
        assert!(
            system
                .cache
                .ask(ReadVerdict(id("cs_2")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds")
                .is_none()
        );
        let metrics = world.metrics();
        for result in ["hit_store", "hit_memory", "miss"] {
            assert!(metrics.contains(&format!("cache_reads_total{{result=\"{result}\"}} 1\n")), "{metrics}");
        }
    });
}

#[test]
fn purged_verdict_is_gone_everywhere_and_the_log_names_the_operator() {
    with_system(|TestSystem { system, .. }| async move {
        system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers")
            .expect("the judgment succeeds");
        system
            .cache
            .ask(ReadVerdict(id("cs_1")))
            .await
            .expect("the actor answers")
            .expect("the actor answers")
            .expect("the value exists");
        let purge = || system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER });
        let purged = purge().await.expect("the actor answers").expect("the commit succeeds");
        assert_eq!(purged, PurgeOutcome::Removed);
        let again = purge().await.expect("the actor answers").expect("no row is left");
        assert_eq!(again, PurgeOutcome::NotCached);
        assert!(
            system
                .cache
                .ask(ReadVerdict(id("cs_1")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds")
                .is_none()
        );
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck", "verdict_cached", "verdict_purged"]);
        // the session stays, and accepts a new verdict
        let outcome = system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers");
        assert!(matches!(outcome, Ok(SubmissionOutcome::Stored(_))), "{outcome:?}");
        let (session, revision) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert_eq!(
            (session.original.map(|first| first.verdict_label), revision),
            (Some(VerdictLabel::Green), 2),
            "as it first was"
        );
    });
}

#[test]
fn simultaneous_submissions_of_one_session_store_one_verdict() {
    with_system(|TestSystem { system, .. }| async move {
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let handle = system.crosscheck.clone();
                let verdict = format!(r#"{{"verdict":"AMBER","summary":"The plan in version {n:02}."}}"#);
                actix_rt::spawn(async move {
                    handle.ask(JudgeVerdict(test_submission("cs_1", &verdict, GatePath::Submit))).await
                })
            })
            .collect();
        let (mut stored, mut bodies) = (0, std::collections::HashSet::new());
        for task in tasks {
            match task
                .await
                .expect("the task does not panic")
                .expect("the actor answers")
                .expect("the judgment succeeds")
            {
                SubmissionOutcome::Stored(cached) => {
                    stored += 1;
                    bodies.insert(cached.body.clone());
                }
                SubmissionOutcome::Replayed(cached) => drop(bodies.insert(cached.body.clone())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((stored, bodies.len()), (1, 1), "all get the one that was stored");
        let events = logged_events(&system.store);
        assert_eq!(events.iter().filter(|event| *event == "verdict_cached").count(), 1);
        assert_eq!(events.iter().filter(|event| *event == "tmm_crosscheck").count(), 20);
    });
}

fn address() -> Option<CustomerEmail> {
    Some("a@b".to_owned().try_into().expect("an address"))
}

fn generation_trace(prompt: &str) -> Option<GenerationTrace> {
    let prompt = ModelPrompt::of_text(ProductTier::Quick, prompt.to_owned());
    let settings = GenerationSettings::locked("model".into());
    Some(GenerationTrace { generation: VerdictGeneration::new(&prompt, settings), interactions: Vec::new() })
}

fn verdict(label: VerdictLabel) -> String {
    format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan."}}"#)
}

async fn judge_submission(system: &ActorSystem, message: Submission) -> SubmissionOutcome {
    system
        .crosscheck
        .ask(JudgeVerdict(message))
        .await
        .expect("the actor answers")
        .expect("the judgment succeeds")
}

/// Delivers `first`, if it is given, loses it, and regenerates `second` in its place.
async fn regenerated(
    system: &ActorSystem,
    first: Option<VerdictLabel>,
    second: VerdictLabel,
) -> SubmissionOutcome {
    if let Some(first) = first {
        let message = test_submission("cs_1", &verdict(first), GatePath::Submit);
        judge_submission(
            system,
            Submission { customer_email: address(), generation_trace: generation_trace("prompt"), ..message },
        )
        .await;
        let purged = system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER }).await;
        assert_eq!(purged.expect("the actor answers").expect("the commit succeeds"), PurgeOutcome::Removed);
    }
    let message = test_submission("cs_1", &verdict(second), GatePath::Regen);
    judge_submission(system, Submission { generation_trace: generation_trace("prompt"), ..message }).await
}

#[test]
fn only_the_first_delivery_queues_its_mail_in_the_same_commit() {
    with_system(|TestSystem { system, .. }| async move {
        for path in [GatePath::Submit, GatePath::Submit] {
            let message = test_submission("cs_1", GOOD, path);
            judge_submission(&system, Submission { customer_email: address(), ..message }).await;
            system
                .cache
                .ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER })
                .await
                .expect("the actor answers")
                .ok();
        }
        let (mail, revision) = system
            .store
            .mail(&MailId::verdict(&id("cs_1")))
            .expect("the mail is readable")
            .expect("the mail is in the outbox");
        assert_eq!((mail.state.kind, revision), (MailKind::Verdict, 3), "committed with the verdict");
        assert_eq!(mail.delivery.approved.label(), VerdictLabel::Green);
        assert_eq!(
            logged_events(&system.store),
            [
                "tmm_crosscheck",
                "verdict_cached",
                "message_queued",
                "verdict_purged",
                "tmm_crosscheck",
                "verdict_cached",
                "verdict_purged"
            ]
        );
    });
}

#[test]
fn delivery_without_an_address_queues_no_mail() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck", "verdict_cached"]);
    });
}

#[test]
fn regenerated_verdict_is_compared_with_the_unchanged_original() {
    use DivergenceLevel::{Minor, None as Same, Significant};
    for (first, second, level) in [
        (VerdictLabel::Green, VerdictLabel::Green, Same),
        (VerdictLabel::Green, VerdictLabel::Amber, Minor),
        (VerdictLabel::Green, VerdictLabel::Red, Significant),
        (VerdictLabel::Null, VerdictLabel::Green, Significant),
    ] {
        with_system(|TestSystem { system, .. }| async move {
            let outcome = regenerated(&system, Some(first), second).await;
            let SubmissionOutcome::Regenerated(cached, check) = outcome else { panic!("{outcome:?}") };
            assert_eq!(check.divergence_level, Some(level));
            assert_eq!((check.prompt_changed, check.settings_changed), (Some(false), Some(false)));
            let document = std::str::from_utf8(&cached.body).expect("valid JSON");
            let message = format!(
                r#""regen":true,"regen_reason":"cache_miss","original_verdict":"{first}","divergence_level":"{}""#,
                level.into_str()
            );
            assert!(document.contains(&message), "{document}");
            let (session, _) = system
                .store
                .session(&id("cs_1"))
                .expect("the session is readable")
                .expect("the session exists");
            assert_eq!(session.original.map(|original| original.verdict_label), Some(first));
            let notices =
                logged_events(&system.store).iter().filter(|event| *event == "message_queued").count() - 1;
            assert_eq!(notices, usize::from(level == Significant), "one mail brought the first verdict");
            assert!(logged_events(&system.store).contains(&"regen_divergence_check".to_owned()));
        });
    }
}

#[test]
fn regeneration_without_an_original_skips_comparison_and_mail() {
    with_system(|TestSystem { system, .. }| async move {
        register(&system, None, address()).await;
        let outcome = regenerated(&system, None, VerdictLabel::Red).await;
        let SubmissionOutcome::Regenerated(cached, check) = outcome else { panic!("{outcome:?}") };
        assert!(check.skipped && check.divergence_level.is_none());
        let document = std::str::from_utf8(&cached.body).expect("valid JSON");
        assert!(document.contains(r#""divergence_level":null,"notice":"NOTE: "#), "{document}");
        let events = logged_events(&system.store);
        assert_eq!(
            events,
            ["session_registered", "tmm_crosscheck", "verdict_cached", "regen_divergence_check"]
        );
        let (session, _) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert!(session.original.is_none(), "a regenerated verdict is not the first one");
    });
}

async fn register(
    system: &ActorSystem,
    original_verdict: Option<VerdictLabel>,
    email: Option<CustomerEmail>,
) -> RegisterSessionOutcome {
    let query = CustomerQuery::new("Sell honey?".into());
    let (session_id, tier, customer_email) = (id("cs_1"), ProductTier::Quick, email);
    let message = RegisterSession {
        session_id,
        caller: SessionCaller::Application,
        tier,
        query,
        customer_email,
        original_verdict,
        prompt: None,
        look_up: None,
    };
    system.cache.ask(message).await.expect("the actor answers").expect("the commit succeeds")
}

#[test]
fn repeated_registration_updates_the_session() {
    with_system(|TestSystem { system, .. }| async move {
        assert!(matches!(register(&system, None, None).await, RegisterSessionOutcome::Created(_)));
        assert!(matches!(register(&system, None, None).await, RegisterSessionOutcome::Updated(_)));
        let RegisterSessionOutcome::Updated(session) =
            register(&system, Some(VerdictLabel::Amber), address()).await
        else {
            panic!("it is known")
        };
        assert_eq!(session.original, Some(OriginalVerdict::reported(VerdictLabel::Amber)));
        let RegisterSessionOutcome::Updated(session) = register(&system, None, None).await else {
            panic!("it is known")
        };
        assert_eq!(
            (session.customer_email, session.original),
            (address(), Some(OriginalVerdict::reported(VerdictLabel::Amber)))
        );
        let other = register(&system, Some(VerdictLabel::Red), None).await;
        assert!(
            matches!(other, RegisterSessionOutcome::Mismatch(SessionMismatch::OriginalVerdict)),
            "{other:?}"
        );
        let expected = ["session_registered", "session_registered", "session_address_changed"];
        assert_eq!(logged_events(&system.store), expected, "what changes nothing is no event");
    });
}

#[test]
fn first_verdict_of_a_registered_session_is_stored_and_mailed() {
    with_system(|TestSystem { system, .. }| async move {
        register(&system, None, address()).await;
        let outcome = judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
        assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "{outcome:?}");
        let (session, _) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert_eq!(session.original.map(|first| first.verdict_label), Some(VerdictLabel::Green));
        assert_eq!(session.customer_email, address());
        assert!(logged_events(&system.store).contains(&"message_queued".to_owned()));
    });
}

async fn find(system: &ActorSystem, email: Option<CustomerEmail>) -> FindSessionOutcome {
    let query = CustomerQuery::new("Sell honey?".into());
    let message = FindSession(Submission {
        session_id: id("cs_1"),
        caller: SessionCaller::Application,
        tier: ProductTier::Quick,
        query,
        customer_email: email,
        check: None,
        payload: None,
        path: GatePath::Submit,
        prompt: None,
        generation_trace: None,
        evidence: Vec::new(),
    });
    system.cache.ask(message).await.expect("the actor answers").expect("the commit succeeds")
}

/// The cached verdict of the session, as a document.
fn cached(system: &ActorSystem) -> serde_json::Value {
    let (delivery, _) =
        system.store.verdict(&id("cs_1")).expect("the verdict is readable").expect("the verdict exists");
    serde_json::to_value(delivery).expect("plain data serializes")
}

#[test]
fn verdict_read_before_its_delivery_is_delivered_and_mailed_once() {
    with_system(|TestSystem { system, .. }| async move {
        register(&system, None, None).await;
        regenerated(&system, None, VerdictLabel::Red).await;
        assert_eq!(cached(&system)["regen"], true);
        for _ in 0..2 {
            let FindSessionOutcome::Cached(known) = find(&system, address()).await else {
                panic!("it exists")
            };
            let document: serde_json::Value = serde_json::from_slice(&known.body).expect("valid JSON");
            assert_eq!((&document["regen"], &document["notice"]), (&false.into(), &serde_json::Value::Null));
            let read = system
                .cache
                .ask(ReadVerdict(id("cs_1")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds");
            assert_eq!(read.expect("the value exists").body, known.body, "the verdict in memory is removed");
        }
        let (session, _) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert_eq!(session.original.map(|first| first.verdict_label), Some(VerdictLabel::Red));
        assert_eq!(session.customer_email, address());
        let mails = logged_events(&system.store).iter().filter(|event| *event == "message_queued").count();
        assert_eq!(mails, 1);
    });
}

#[test]
fn address_that_comes_with_a_repeated_delivery_gets_the_verdict() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::CacheWrite)).await;
        find(&system, None).await;
        assert!(!logged_events(&system.store).contains(&"message_queued".to_owned()));
        find(&system, address()).await;
        assert!(logged_events(&system.store).contains(&"message_queued".to_owned()));
    });
}

/// The mails that were queued.
fn queued_mails(system: &ActorSystem) -> usize {
    logged_events(&system.store).iter().filter(|event| *event == "message_queued").count()
}

#[test]
fn registered_original_verdict_does_not_suppress_the_first_mail() {
    for (label, path) in [(VerdictLabel::Green, GatePath::Submit), (VerdictLabel::Red, GatePath::CacheWrite)]
    {
        with_system(|TestSystem { system, .. }| async move {
            register(&system, Some(label), address()).await;
            let outcome = judge_submission(&system, test_submission("cs_1", GOOD, path)).await;
            assert!(matches!(outcome, SubmissionOutcome::Regenerated(..)), "it is compared: {outcome:?}");
            let (mail, _) = system
                .store
                .mail(&MailId::verdict(&id("cs_1")))
                .expect("the mail is readable")
                .expect("the mail is in the outbox");
            assert_eq!(mail.state.kind, MailKind::Verdict);
            let (session, _) = system
                .store
                .session(&id("cs_1"))
                .expect("the session is readable")
                .expect("the session exists");
            assert_eq!(
                session.original,
                Some(OriginalVerdict::reported(label)),
                "the original stays authoritative"
            );

            // the second delivery of the session is not mailed
            let purged = system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER }).await;
            assert_eq!(
                purged.expect("the actor answers").expect("the commit succeeds"),
                PurgeOutcome::Removed
            );
            let before = queued_mails(&system);
            judge_submission(&system, test_submission("cs_1", &verdict(label), path)).await;
            find(&system, address()).await;
            assert_eq!(queued_mails(&system), before);
        });
    }
}

#[test]
fn first_delivery_after_a_read_is_mailed_where_an_original_is_registered() {
    with_system(|TestSystem { system, .. }| async move {
        register(&system, Some(VerdictLabel::Green), None).await;
        regenerated(&system, None, VerdictLabel::Green).await;
        assert_eq!(queued_mails(&system), 0, "reading delivers nothing");
        for _ in 0..2 {
            find(&system, address()).await;
            assert_eq!(queued_mails(&system), 1);
        }
    });
}

#[test]
fn verdict_submitted_in_place_of_a_lost_one_is_compared_with_it() {
    for path in [GatePath::Submit, GatePath::CacheWrite] {
        with_system(|TestSystem { system, .. }| async move {
            let first = test_submission("cs_1", &verdict(VerdictLabel::Green), GatePath::Submit);
            judge_submission(&system, Submission { customer_email: address(), ..first }).await;
            let lose = || system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER });
            assert_eq!(
                lose().await.expect("the actor answers").expect("the commit succeeds"),
                PurgeOutcome::Removed
            );
            let outcome =
                judge_submission(&system, test_submission("cs_1", &verdict(VerdictLabel::Red), path)).await;
            let SubmissionOutcome::Regenerated(_, check) = outcome else { panic!("{outcome:?}") };
            assert_eq!((check.divergence_level, check.path), (Some(DivergenceLevel::Significant), path));
            let document = cached(&system);
            assert!(
                document["disclaimer"].is_string() && document["original_verdict"] == "GREEN",
                "{document}"
            );
            let mails =
                logged_events(&system.store).iter().filter(|event| *event == "message_queued").count();
            assert_eq!(mails, 2, "the verdict and the notice");

            // the original itself, submitted again, counts as stored and not as regenerated
            assert_eq!(
                lose().await.expect("the actor answers").expect("the commit succeeds"),
                PurgeOutcome::Removed
            );
            let outcome =
                judge_submission(&system, test_submission("cs_1", &verdict(VerdictLabel::Green), path)).await;
            assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "{outcome:?}");
            assert_eq!(cached(&system)["regen"], false);
        });
    }
}
