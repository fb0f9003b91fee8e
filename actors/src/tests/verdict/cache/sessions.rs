//! Sessions of applications, and what operators change.

use super::*;

fn other_address() -> Option<CustomerEmail> {
    Some("other@b".to_owned().try_into().expect("an address"))
}

/// The session's address and its original verdict.
fn stored(system: &ActorSystem) -> (Option<CustomerEmail>, Option<VerdictLabel>) {
    let (session, _) =
        system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
    (session.customer_email, session.original.map(|original| original.verdict_label))
}

#[test]
fn sessions_of_two_applications_with_the_same_local_id_are_different() {
    with_system(|TestSystem { system, .. }| async move {
        let red = verdict(VerdictLabel::Red);
        for (session_id, text) in [("cs_1", GOOD), ("shop/cs_1", red.as_str())] {
            let outcome =
                judge_submission(&system, test_submission(session_id, text, GatePath::Submit)).await;
            assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "{outcome:?}");
        }
        for (session_id, label) in [("cs_1", "GREEN"), ("shop/cs_1", "RED")] {
            let read = system.cache.ask(ReadVerdict(id(session_id))).await.expect("the actor answers");
            let cached = read.expect("the read succeeds").expect("the verdict is cached");
            let document: serde_json::Value = serde_json::from_slice(&cached.body).expect("valid JSON");
            assert_eq!(
                (&document["session_id"], &document["verdict"]["verdict"]),
                (&"cs_1".into(), &label.into())
            );
        }
        let purged = system.cache.ask(PurgeVerdict { session_id: id("shop/cs_1"), peer: PEER }).await;
        assert_eq!(purged.expect("the actor answers").expect("the commit succeeds"), PurgeOutcome::Removed);
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_some());
    });
}

/// A verdict for `session_id` with a fact that does not support it.
fn unsupported(session_id: &str) -> Submission {
    let facts = vec!["The plan is another.".to_owned()];
    let check =
        Some(Arc::new(domain_rules::CandidateCheck { facts, ..domain_rules::CandidateCheck::default() }));
    Submission { check, ..test_submission(session_id, GOOD, GatePath::Submit) }
}

/// Submits a verdict without facts, as the route does: the check in force for the session applies.
async fn submitted(system: &ActorSystem, session_id: &str) -> SubmissionOutcome {
    let submission = test_submission(session_id, GOOD, GatePath::Submit);
    let find = FindSession(Submission { payload: None, ..submission.clone() });
    match system.cache.ask(find).await.expect("the actor answers").expect("the read succeeds") {
        FindSessionOutcome::Nothing(check) => {
            judge_submission(system, Submission { check, ..submission }).await
        }
        FindSessionOutcome::Cached(cached) => SubmissionOutcome::Replayed(cached),
        FindSessionOutcome::Mismatch(mismatch) => SubmissionOutcome::Mismatch(mismatch),
        FindSessionOutcome::Held => SubmissionOutcome::Held,
        FindSessionOutcome::Cancelled => SubmissionOutcome::Cancelled,
    }
}

#[test]
fn rejection_for_an_unknown_session_applies_only_to_its_application() {
    with_system(|TestSystem { system, .. }| async move {
        judge_submission(&system, unsupported("shop/cs_1")).await;
        let outcome = submitted(&system, "cs_1").await;
        assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "{outcome:?}");
        for _ in 0..2 {
            let outcome = submitted(&system, "shop/cs_1").await;
            assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
            register_session(&system, "shop/cs_1").await;
        }
    });
}

async fn register_session(system: &ActorSystem, session_id: &str) {
    let register = RegisterSession {
        caller: SessionCaller::Application,
        session_id: id(session_id),
        tier: ProductTier::Quick,
        query: CustomerQuery::new("Sell honey?".into()),
        customer_email: None,
        prompt: None,
        original_verdict: None,
        look_up: None,
    };
    let registered = system.cache.ask(register).await.expect("the actor answers");
    registered.expect("the commit succeeds");
}

#[test]
fn change_of_address_leaves_an_entry_with_keyed_digests_of_both() {
    with_system(|TestSystem { system, .. }| async move {
        let change = |email| register(&system, None, email);
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
        for (entry, email) in [(first, "a@b"), (second, "other@b")] {
            assert_eq!(entry["after"].as_str().map(str::len), Some(64), "{entry}");
            let plain = Sha256Hex::of(email.as_bytes());
            assert_ne!(entry["after"], plain.as_str(), "a digest without a key can be guessed");
            assert!(!entry.to_string().contains(email), "{entry}");
        }
    });
}

fn correction() -> CorrectSession {
    CorrectSession {
        session_id: id("cs_1"),
        customer_email: None,
        original_verdict: None,
        owner_uid: None,
        peer: PEER,
    }
}

async fn corrected(system: &ActorSystem, correct: CorrectSession) -> CorrectSessionOutcome {
    system.cache.ask(correct).await.expect("the actor answers").expect("the commit succeeds")
}

#[test]
fn operator_corrects_address_and_original_verdict() {
    with_system(|TestSystem { system, .. }| async move {
        assert!(matches!(corrected(&system, correction()).await, CorrectSessionOutcome::Unknown));
        register(&system, Some(VerdictLabel::Red), address()).await;
        let correct = CorrectSession {
            customer_email: other_address(),
            original_verdict: Some(VerdictLabel::Green),
            ..correction()
        };
        assert!(matches!(corrected(&system, correct.clone()).await, CorrectSessionOutcome::Done(_)));
        assert_eq!(stored(&system), (other_address(), Some(VerdictLabel::Green)));
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
        judge_submission(&system, test_submission("cs_1", GOOD, GatePath::Submit)).await;
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
        assert!(remove().await.is_some());
        assert!(remove().await.is_none() && read().await.is_none());
        assert!(system.store.session(&id("cs_1")).expect("the session is readable").is_none());
        // a regeneration that was running finds no session
        let message = test_submission("cs_1", GOOD, GatePath::Regen);
        assert!(system.crosscheck.ask(JudgeVerdict(message)).await.expect("the actor answers").is_err());
        assert!(read().await.is_none());
        let answer = register(&system, None, None).await;
        assert!(matches!(answer, RegisterSessionOutcome::Created(_)), "{answer:?}");
    });
}
