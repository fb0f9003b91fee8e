//! Only the uid that opened a session may change it.

use super::*;
use crate::platform::caller::run_as_caller;
use oracled_domain::RequestCaller;
use oracled_domain::verdict::session::RejectingCheckKey;

const OWNER: u32 = 1001;
const OTHER: u32 = 1002;

/// Runs `work` as a request from a process of user `uid`.
async fn run_as_uid<F: Future>(uid: u32, work: F) -> F::Output {
    let peer = PeerCredentials { uid, gid: uid, pid: Some(1) };
    run_as_caller(RequestCaller { peer, request_id: "r".into() }, work).await
}

fn other_address() -> Option<CustomerEmail> {
    Some("thief@b".to_owned().try_into().expect("an address"))
}

/// The session's address and its original verdict.
fn stored(system: &ActorSystem) -> (Option<CustomerEmail>, Option<VerdictLabel>) {
    let (session, _) =
        system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
    (session.customer_email, session.original.map(|original| original.verdict_label))
}

#[test]
fn registration_by_another_uid_is_a_mismatch_and_changes_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, register(&system, None, address())).await;
        for (original, email) in [(None, other_address()), (Some(VerdictLabel::Red), None), (None, None)] {
            let answer = run_as_uid(OTHER, register(&system, original, email)).await;
            assert!(matches!(answer, RegisterSessionOutcome::Mismatch(SessionMismatch::Owner)), "{answer:?}");
        }
        assert_eq!(stored(&system), (address(), None));
        let answer = run_as_uid(OWNER, register(&system, Some(VerdictLabel::Green), None)).await;
        assert!(matches!(answer, RegisterSessionOutcome::Updated(_)), "{answer:?}");
    });
}

#[test]
fn delivery_by_another_uid_to_a_registered_session_is_a_mismatch() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, register(&system, None, address())).await;
        for path in [GatePath::Submit, GatePath::CacheWrite] {
            let message = test_submission("cs_1", GOOD, path);
            let outcome = run_as_uid(OTHER, judge_submission(&system, message)).await;
            assert!(matches!(outcome, SubmissionOutcome::Mismatch(SessionMismatch::Owner)), "{outcome:?}");
        }
        let known = run_as_uid(OTHER, find(&system, other_address())).await;
        assert!(matches!(known, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{known:?}");
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert_eq!(stored(&system), (address(), None));
        assert!(!logged_events(&system.store).contains(&"mail_queued".to_owned()));
    });
}

#[test]
fn address_of_a_delivered_session_is_not_set_by_another_uid() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit))).await;
        let known = run_as_uid(OTHER, find(&system, other_address())).await;
        assert!(matches!(known, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{known:?}");
        assert_eq!(stored(&system).0, None);
        let known = run_as_uid(OTHER, find(&system, None)).await;
        assert!(matches!(known, FindSessionOutcome::Cached(_)), "a replay changes nothing: {known:?}");
        let known = run_as_uid(OWNER, find(&system, address())).await;
        assert!(matches!(known, FindSessionOutcome::Cached(_)), "{known:?}");
        assert_eq!(stored(&system).0, address());
    });
}

#[test]
fn lost_verdict_is_not_replaced_by_another_uid_but_may_be_read() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit))).await;
        let purged = system.cache.ask(PurgeVerdict { session_id: id("cs_1"), peer: PEER }).await;
        assert!(purged.expect("the actor answers").expect("the commit succeeds"));
        let message = test_submission("cs_1", &verdict(VerdictLabel::Red), GatePath::Submit);
        let outcome = run_as_uid(OTHER, judge_submission(&system, message)).await;
        assert!(matches!(outcome, SubmissionOutcome::Mismatch(SessionMismatch::Owner)), "{outcome:?}");
        // a read regenerates the verdict for any reader
        let outcome = run_as_uid(OTHER, regenerated(&system, None, VerdictLabel::Green)).await;
        assert!(matches!(outcome, SubmissionOutcome::Regenerated(..)), "{outcome:?}");
    });
}

#[test]
fn session_opened_by_a_delivery_belongs_to_the_uid_that_delivered() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit))).await;
        let answer = run_as_uid(OTHER, register(&system, None, other_address())).await;
        assert!(matches!(answer, RegisterSessionOutcome::Mismatch(SessionMismatch::Owner)), "{answer:?}");
        assert_eq!(stored(&system).0, None);
    });
}

#[test]
fn check_of_a_known_session_is_not_set_by_another_uid() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, register(&system, None, None)).await;
        let check = Some(Arc::new(oracled_domain::rules::CandidateCheck::default()));
        let query = CustomerQuery::new("Sell honey?".into());
        let (session_id, tier, customer_email) = (id("cs_1"), ProductTier::Quick, None);
        let find = FindSession(Submission {
            session_id,
            tier,
            query,
            customer_email,
            check,
            payload: None,
            path: GatePath::Submit,
            generation_trace: None,
        });
        let known = run_as_uid(OTHER, system.cache.ask(find))
            .await
            .expect("the actor answers")
            .expect("the read succeeds");
        assert!(matches!(known, FindSessionOutcome::Mismatch(SessionMismatch::Owner)), "{known:?}");
        let (session, _) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert!(session.check.is_none());
    });
}

/// A verdict for the session `cs_1` with a fact that does not support it.
fn unsupported() -> Submission {
    let facts = vec!["The plan is another.".to_owned()];
    let check = Some(Arc::new(oracled_domain::rules::CandidateCheck {
        facts,
        ..oracled_domain::rules::CandidateCheck::default()
    }));
    Submission { check, ..test_submission("cs_1", GOOD, GatePath::Submit) }
}

/// Submits a verdict without facts, as the route does: the check in force for the session applies.
async fn submitted(system: &ActorSystem) -> SubmissionOutcome {
    match find(system, None).await {
        FindSessionOutcome::Nothing(check) => {
            judge_submission(system, Submission { check, ..test_submission("cs_1", GOOD, GatePath::Submit) })
                .await
        }
        FindSessionOutcome::Cached(cached) => SubmissionOutcome::Replayed(cached),
        FindSessionOutcome::Mismatch(mismatch) => SubmissionOutcome::Mismatch(mismatch),
    }
}

async fn removed(system: &ActorSystem) {
    let remove = RemoveSession { session_id: id("cs_1"), mails: None, peer: PEER };
    let removed = system.cache.ask(remove).await.expect("the actor answers").expect("the commit succeeds");
    assert!(removed.is_some());
}

#[test]
fn rejection_for_an_unknown_session_is_stored_with_the_callers_uid() {
    with_system(|TestSystem { system, .. }| async move {
        let outcome = run_as_uid(OWNER, judge_submission(&system, unsupported())).await;
        assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
        let stored = |uid| {
            let key = RejectingCheckKey { session_id: id("cs_1"), owner_uid: Some(uid) };
            system.store.rejecting_check(&key).expect("the read succeeds").map(|(stored, _)| stored.key)
        };
        assert_eq!(stored(OWNER).and_then(|key| key.owner_uid), Some(OWNER));
        assert_eq!(stored(OTHER), None);
        let lines =
            system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
        let lines = lines.expect("the read succeeds");
        let callers = lines.iter().map(|line| {
            let entry: serde_json::Value = serde_json::from_str(&line.json).expect("valid JSON");
            (entry["event"].as_str().map(str::to_owned), entry["caller"]["uid"].as_u64())
        });
        let entry = |event: &str| (Some(event.to_owned()), Some(u64::from(OWNER)));
        assert_eq!(callers.collect::<Vec<_>>(), ["tmm_crosscheck", "rules_evaluated"].map(entry));
    });
}

#[test]
fn rejection_for_an_unknown_session_applies_only_to_its_uid() {
    for registers in [true, false] {
        with_system(|TestSystem { system, .. }| async move {
            run_as_uid(OWNER, judge_submission(&system, unsupported())).await;
            if registers {
                run_as_uid(OTHER, register(&system, None, None)).await;
            }
            let outcome = run_as_uid(OTHER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "registered: {registers}: {outcome:?}");
            // the session and its verdict are removed; the rejecting check of the other uid stays
            removed(&system).await;
            let outcome = run_as_uid(OWNER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
            run_as_uid(OWNER, register(&system, None, None)).await;
            let outcome = run_as_uid(OWNER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
        });
    }
}

#[test]
fn rejection_of_one_uid_does_not_replace_that_of_another() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, unsupported())).await;
        let facts = vec!["A third plan.".to_owned()];
        let check = Some(Arc::new(oracled_domain::rules::CandidateCheck {
            facts,
            ..oracled_domain::rules::CandidateCheck::default()
        }));
        run_as_uid(OTHER, judge_submission(&system, Submission { check: check.clone(), ..unsupported() }))
            .await;
        for (uid, expected) in [(OWNER, unsupported().check), (OTHER, check)] {
            let known = run_as_uid(uid, find(&system, None)).await;
            assert!(matches!(known, FindSessionOutcome::Nothing(check) if check == expected), "uid {uid}");
        }
    });
}

#[test]
fn new_owner_keeps_own_rejecting_check_for_undelivered_session() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, unsupported())).await;
        run_as_uid(OTHER, register(&system, None, None)).await;
        let correct = CorrectSession {
            session_id: id("cs_1"),
            customer_email: None,
            original_verdict: None,
            owner_uid: Some(OWNER),
            peer: PEER,
        };
        let corrected =
            system.cache.ask(correct).await.expect("the actor answers").expect("the commit succeeds");
        assert!(matches!(corrected, CorrectSessionOutcome::Done(_)), "{corrected:?}");
        let outcome = run_as_uid(OWNER, submitted(&system)).await;
        assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
    });
}

#[test]
fn change_of_address_leaves_an_entry_with_keyed_digests_of_both() {
    with_system(|TestSystem { system, .. }| async move {
        let change = |email| run_as_uid(OWNER, register(&system, None, email));
        change(None).await;
        change(address()).await;
        change(other_address()).await;
        let lines =
            system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
        let entries: Vec<serde_json::Value> = lines
            .expect("the read succeeds")
            .iter()
            .map(|line| serde_json::from_str(&line.json).expect("valid JSON"))
            .collect();
        let changes: Vec<_> =
            entries.iter().filter(|entry| entry["event"] == "session_address_changed").collect();
        let [first, second] = changes[..] else { panic!("{entries:?}") };
        assert_eq!(first["before"], serde_json::Value::Null);
        assert_eq!(first["after"], second["before"]);
        assert_ne!(second["before"], second["after"]);
        for (entry, email) in [(first, "a@b"), (second, "thief@b")] {
            assert_eq!(entry["owner_uid"], OWNER);
            assert_eq!(entry["after"].as_str().map(str::len), Some(64), "{entry}");
            let plain = Sha256Hex::of(email.as_bytes());
            assert_ne!(entry["after"], plain.as_str(), "a digest without a key can be guessed");
            assert!(!entry.to_string().contains(email), "{entry}");
        }
    });
}

fn correction() -> CorrectSession {
    let (customer_email, original_verdict, owner_uid) = (None, None, None);
    CorrectSession { session_id: id("cs_1"), customer_email, original_verdict, owner_uid, peer: PEER }
}

async fn corrected(system: &ActorSystem, correct: CorrectSession) -> CorrectSessionOutcome {
    system.cache.ask(correct).await.expect("the actor answers").expect("the commit succeeds")
}

#[test]
fn operator_corrects_address_original_verdict_and_owner() {
    with_system(|TestSystem { system, .. }| async move {
        assert!(matches!(corrected(&system, correction()).await, CorrectSessionOutcome::Unknown));
        run_as_uid(OWNER, register(&system, Some(VerdictLabel::Red), address())).await;
        let correct = CorrectSession {
            customer_email: other_address(),
            original_verdict: Some(VerdictLabel::Green),
            owner_uid: Some(OTHER),
            ..correction()
        };
        assert!(matches!(corrected(&system, correct.clone()).await, CorrectSessionOutcome::Done(_)));
        assert_eq!(stored(&system), (other_address(), Some(VerdictLabel::Green)));
        let answer = run_as_uid(OWNER, register(&system, None, address())).await;
        assert!(matches!(answer, RegisterSessionOutcome::Mismatch(SessionMismatch::Owner)), "{answer:?}");
        let answer = run_as_uid(OTHER, register(&system, None, None)).await;
        assert!(matches!(answer, RegisterSessionOutcome::Updated(_)), "{answer:?}");
        corrected(&system, correct).await;
        let expected = ["session_registered", "session_corrected", "session_address_changed"];
        assert_eq!(logged_events(&system.store), expected, "a repeated correction changes nothing");
    });
}

#[test]
fn delivered_original_is_not_corrected() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
        let correct = CorrectSession { original_verdict: Some(VerdictLabel::Red), ..correction() };
        let answer = corrected(&system, correct).await;
        assert!(
            matches!(answer, CorrectSessionOutcome::Mismatch(SessionMismatch::OriginalVerdict)),
            "{answer:?}"
        );
        assert_eq!(stored(&system).1, Some(VerdictLabel::Green));
    });
}

#[test]
fn removed_session_is_gone_with_its_verdict_and_its_id_is_free() {
    with_system(|TestSystem { system, .. }| async move {
        run_as_uid(OWNER, judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit))).await;
        let read = || async {
            system
                .cache
                .ask(ReadVerdict(id("cs_1")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds")
        };
        assert!(read().await.is_some());
        let remove = || async {
            let removed =
                system.cache.ask(RemoveSession { session_id: id("cs_1"), mails: None, peer: PEER }).await;
            removed.expect("the actor answers").expect("the commit succeeds")
        };
        assert_eq!(remove().await.and_then(|session| session.owner_uid), Some(OWNER));
        assert!(remove().await.is_none() && read().await.is_none());
        assert!(system.store.session(&id("cs_1")).expect("the session is readable").is_none());
        // a regeneration that was running finds no session
        let message = test_submission("cs_1", GOOD, GatePath::Regen);
        assert!(system.crosscheck.ask(JudgeVerdict(message)).await.expect("the actor answers").is_err());
        assert!(read().await.is_none());
        let answer = run_as_uid(OTHER, register(&system, None, None)).await;
        assert!(matches!(answer, RegisterSessionOutcome::Created(_)), "{answer:?}");
    });
}
