//! Only the uid that opened a session may change it.

use super::*;
use crate::platform::caller::called_by;
use oracled_domain::Caller;
use oracled_domain::verdict::session::RefusalKey;

const OWNER: u32 = 1001;
const OTHER: u32 = 1002;

/// Runs `work` as a request from a process of user `uid`.
async fn by<F: Future>(uid: u32, work: F) -> F::Output {
    let peer = Peer { uid, gid: uid, pid: Some(1) };
    called_by(Caller { peer, request_id: "r".into() }, work).await
}

fn other_address() -> Option<Email> {
    Some("thief@b".to_owned().try_into().expect("an address"))
}

/// The session's address and its original verdict.
fn stored(system: &System) -> (Option<Email>, Option<Label>) {
    let (session, _) = system.store.session(&id("cs_1")).expect("it is read").expect("it exists");
    (session.customer_email, session.original.map(|original| original.verdict_label))
}

#[test]
fn registration_by_another_uid_is_a_mismatch_and_changes_nothing() {
    with_world(|World { system, .. }| async move {
        by(OWNER, register(&system, None, address())).await;
        for (original, email) in [(None, other_address()), (Some(Label::Red), None), (None, None)] {
            let answer = by(OTHER, register(&system, original, email)).await;
            assert!(matches!(answer, Registered::Mismatch(Mismatch::Owner)), "{answer:?}");
        }
        assert_eq!(stored(&system), (address(), None));
        let answer = by(OWNER, register(&system, Some(Label::Green), None)).await;
        assert!(matches!(answer, Registered::Updated(_)), "{answer:?}");
    });
}

#[test]
fn delivery_by_another_uid_to_a_registered_session_is_a_mismatch() {
    with_world(|World { system, .. }| async move {
        by(OWNER, register(&system, None, address())).await;
        for path in [GatePath::Submit, GatePath::Generate, GatePath::CacheWrite] {
            let message = judge("cs_1", GOOD, path);
            let outcome = by(OTHER, judged(&system, message)).await;
            assert!(matches!(outcome, SubmissionOutcome::Mismatch(Mismatch::Owner)), "{outcome:?}");
        }
        let known = by(OTHER, find(&system, other_address())).await;
        assert!(matches!(known, Known::Mismatch(Mismatch::Owner)), "{known:?}");
        assert!(system.store.verdict(&id("cs_1")).expect("it is read").is_none());
        assert_eq!(stored(&system), (address(), None));
        assert!(!logged(&system.store).contains(&"mail_queued".to_owned()));
    });
}

#[test]
fn address_of_a_delivered_session_is_not_set_by_another_uid() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, judge("cs_1", GOOD, GatePath::Submit))).await;
        let known = by(OTHER, find(&system, other_address())).await;
        assert!(matches!(known, Known::Mismatch(Mismatch::Owner)), "{known:?}");
        assert_eq!(stored(&system).0, None);
        let known = by(OTHER, find(&system, None)).await;
        assert!(matches!(known, Known::Cached(_)), "a replay changes nothing: {known:?}");
        let known = by(OWNER, find(&system, address())).await;
        assert!(matches!(known, Known::Cached(_)), "{known:?}");
        assert_eq!(stored(&system).0, address());
    });
}

#[test]
fn lost_verdict_is_not_replaced_by_another_uid_but_may_be_read() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, judge("cs_1", GOOD, GatePath::Submit))).await;
        let purged = system.cache.ask(Purge { session_id: id("cs_1"), peer: PEER }).await;
        assert!(purged.expect("it answers").expect("it is committed"));
        let message = judge("cs_1", &verdict(Label::Red), GatePath::Submit);
        let outcome = by(OTHER, judged(&system, message)).await;
        assert!(matches!(outcome, SubmissionOutcome::Mismatch(Mismatch::Owner)), "{outcome:?}");
        // a read regenerates the verdict for any reader
        let outcome = by(OTHER, regenerated(&system, None, Label::Green)).await;
        assert!(matches!(outcome, SubmissionOutcome::Regenerated(..)), "{outcome:?}");
    });
}

#[test]
fn session_opened_by_a_delivery_belongs_to_the_uid_that_delivered() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, judge("cs_1", GOOD, GatePath::Submit))).await;
        let answer = by(OTHER, register(&system, None, other_address())).await;
        assert!(matches!(answer, Registered::Mismatch(Mismatch::Owner)), "{answer:?}");
        assert_eq!(stored(&system).0, None);
    });
}

#[test]
fn check_of_a_known_session_is_not_set_by_another_uid() {
    with_world(|World { system, .. }| async move {
        by(OWNER, register(&system, None, None)).await;
        let check = Some(Arc::new(oracled_domain::rules::Check::default()));
        let query = Query::new("Sell honey?".into());
        let (session_id, tier, customer_email) = (id("cs_1"), Tier::Quick, None);
        let find = Find(Submission {
            session_id,
            tier,
            query,
            customer_email,
            check,
            payload: None,
            path: GatePath::Submit,
            made: None,
        });
        let known = by(OTHER, system.cache.ask(find)).await.expect("it answers").expect("it is read");
        assert!(matches!(known, Known::Mismatch(Mismatch::Owner)), "{known:?}");
        let (session, _) = system.store.session(&id("cs_1")).expect("it is read").expect("it exists");
        assert!(session.check.is_none());
    });
}

/// A verdict for the session `cs_1` with a fact that does not support it.
fn unsupported() -> Submission {
    let facts = vec!["The plan is another.".to_owned()];
    let check =
        Some(Arc::new(oracled_domain::rules::Check { facts, ..oracled_domain::rules::Check::default() }));
    Submission { check, ..judge("cs_1", GOOD, GatePath::Submit) }
}

/// Submits a verdict without facts, as the route does: the check in force for the session applies.
async fn submitted(system: &System) -> SubmissionOutcome {
    match find(system, None).await {
        Known::Nothing(check) => {
            judged(system, Submission { check, ..judge("cs_1", GOOD, GatePath::Submit) }).await
        }
        Known::Cached(cached) => SubmissionOutcome::Replayed(cached),
        Known::Mismatch(mismatch) => SubmissionOutcome::Mismatch(mismatch),
    }
}

async fn removed(system: &System) {
    let remove = Remove { session_id: id("cs_1"), mails: None, peer: PEER };
    let removed = system.cache.ask(remove).await.expect("it answers").expect("it is committed");
    assert!(removed.is_some());
}

#[test]
fn refusal_for_an_unknown_session_keeps_the_uid_of_its_caller() {
    with_world(|World { system, .. }| async move {
        let outcome = by(OWNER, judged(&system, unsupported())).await;
        assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
        let stored = |uid| {
            let key = RefusalKey { session_id: id("cs_1"), owner_uid: Some(uid) };
            system.store.refusal(&key).expect("it is read").map(|(refusal, _)| refusal.key)
        };
        assert_eq!(stored(OWNER).and_then(|key| key.owner_uid), Some(OWNER));
        assert_eq!(stored(OTHER), None);
        let lines =
            system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
        let lines = lines.expect("it is read");
        let callers = lines.iter().map(|line| {
            let entry: serde_json::Value = serde_json::from_str(&line.json).expect("JSON");
            (entry["event"].as_str().map(str::to_owned), entry["caller"]["uid"].as_u64())
        });
        let entry = |event: &str| (Some(event.to_owned()), Some(u64::from(OWNER)));
        assert_eq!(callers.collect::<Vec<_>>(), ["tmm_crosscheck", "rules_evaluated"].map(entry));
    });
}

#[test]
fn refusal_for_an_unknown_session_binds_only_the_uid_refused() {
    for registers in [true, false] {
        with_world(|World { system, .. }| async move {
            by(OWNER, judged(&system, unsupported())).await;
            if registers {
                by(OTHER, register(&system, None, None)).await;
            }
            let outcome = by(OTHER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::Stored(_)), "registered: {registers}: {outcome:?}");
            // the session and its verdict are removed; the refusal of the other uid stays
            removed(&system).await;
            let outcome = by(OWNER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
            by(OWNER, register(&system, None, None)).await;
            let outcome = by(OWNER, submitted(&system)).await;
            assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
        });
    }
}

#[test]
fn refusal_of_one_uid_does_not_replace_that_of_another() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, unsupported())).await;
        let facts = vec!["A third plan.".to_owned()];
        let check =
            Some(Arc::new(oracled_domain::rules::Check { facts, ..oracled_domain::rules::Check::default() }));
        by(OTHER, judged(&system, Submission { check: check.clone(), ..unsupported() })).await;
        for (uid, expected) in [(OWNER, unsupported().check), (OTHER, check)] {
            let known = by(uid, find(&system, None)).await;
            assert!(matches!(known, Known::Nothing(check) if check == expected), "uid {uid}");
        }
    });
}

#[test]
fn new_owner_keeps_own_refusal_for_undelivered_session() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, unsupported())).await;
        by(OTHER, register(&system, None, None)).await;
        let correct = Correct {
            session_id: id("cs_1"),
            customer_email: None,
            original_verdict: None,
            owner_uid: Some(OWNER),
            peer: PEER,
        };
        let corrected = system.cache.ask(correct).await.expect("it answers").expect("it is committed");
        assert!(matches!(corrected, Corrected::Done(_)), "{corrected:?}");
        let outcome = by(OWNER, submitted(&system)).await;
        assert!(matches!(outcome, SubmissionOutcome::RejectedByRules { .. }), "{outcome:?}");
    });
}

#[test]
fn change_of_address_leaves_an_entry_with_keyed_digests_of_both() {
    with_world(|World { system, .. }| async move {
        let change = |email| by(OWNER, register(&system, None, email));
        change(None).await;
        change(address()).await;
        change(other_address()).await;
        let lines =
            system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
        let entries: Vec<serde_json::Value> = lines
            .expect("it is read")
            .iter()
            .map(|line| serde_json::from_str(&line.json).expect("JSON"))
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

fn correction() -> Correct {
    let (customer_email, original_verdict, owner_uid) = (None, None, None);
    Correct { session_id: id("cs_1"), customer_email, original_verdict, owner_uid, peer: PEER }
}

async fn corrected(system: &System, correct: Correct) -> Corrected {
    system.cache.ask(correct).await.expect("it answers").expect("it is committed")
}

#[test]
fn operator_corrects_address_original_verdict_and_owner() {
    with_world(|World { system, .. }| async move {
        assert!(matches!(corrected(&system, correction()).await, Corrected::Unknown));
        by(OWNER, register(&system, Some(Label::Red), address())).await;
        let correct = Correct {
            customer_email: other_address(),
            original_verdict: Some(Label::Green),
            owner_uid: Some(OTHER),
            ..correction()
        };
        assert!(matches!(corrected(&system, correct.clone()).await, Corrected::Done(_)));
        assert_eq!(stored(&system), (other_address(), Some(Label::Green)));
        let answer = by(OWNER, register(&system, None, address())).await;
        assert!(matches!(answer, Registered::Mismatch(Mismatch::Owner)), "{answer:?}");
        let answer = by(OTHER, register(&system, None, None)).await;
        assert!(matches!(answer, Registered::Updated(_)), "{answer:?}");
        corrected(&system, correct).await;
        let expected = ["session_registered", "session_corrected", "session_address_changed"];
        assert_eq!(logged(&system.store), expected, "the same again changes nothing");
    });
}

#[test]
fn delivered_original_is_not_corrected() {
    with_world(|World { system, .. }| async move {
        judged(&system, judge("cs_1", GOOD, GatePath::Submit)).await;
        let correct = Correct { original_verdict: Some(Label::Red), ..correction() };
        let answer = corrected(&system, correct).await;
        assert!(matches!(answer, Corrected::Mismatch(Mismatch::OriginalVerdict)), "{answer:?}");
        assert_eq!(stored(&system).1, Some(Label::Green));
    });
}

#[test]
fn removed_session_is_gone_with_its_verdict_and_its_id_is_free() {
    with_world(|World { system, .. }| async move {
        by(OWNER, judged(&system, judge("cs_1", GOOD, GatePath::Submit))).await;
        let read =
            || async { system.cache.ask(Read(id("cs_1"))).await.expect("it answers").expect("it reads") };
        assert!(read().await.is_some());
        let remove = || async {
            let removed = system.cache.ask(Remove { session_id: id("cs_1"), mails: None, peer: PEER }).await;
            removed.expect("it answers").expect("it is committed")
        };
        assert_eq!(remove().await.and_then(|session| session.owner_uid), Some(OWNER));
        assert!(remove().await.is_none() && read().await.is_none());
        assert!(system.store.session(&id("cs_1")).expect("it is read").is_none());
        // a regeneration that was running finds no session
        let message = judge("cs_1", GOOD, GatePath::Regen);
        assert!(system.crosscheck.ask(Judge(message)).await.expect("it answers").is_err());
        assert!(read().await.is_none());
        let answer = by(OTHER, register(&system, None, None)).await;
        assert!(matches!(answer, Registered::Created(_)), "{answer:?}");
    });
}
