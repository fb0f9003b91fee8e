use crate::testing::{GOOD, TestSystem, id, logged_events, test_submission, with_system};
use actix::Actor;
use actors_audit::logger::CommitError;
use actors_platform::actor_handle::StartedActor;
use actors_verdict::cache::{ReadVerdict, VerdictCacheError};
use actors_verdict::crosscheck::*;
use actors_verdict::submission::{Submission, SubmissionOutcome};
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_rules::CandidateCheck;
use domain_verdict::crosscheck::{CrosscheckDecision, CrosscheckReason, UnexpectedFieldHandling};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{CrosscheckEntry, TmmCrosscheck};
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionMismatch;
use prometheus_client::registry::Registry;
use std::sync::Arc;

#[test]
fn vc_4_pass_and_fail_are_logged_on_every_path() {
    with_system(|TestSystem { system, dir, .. }| async move {
        for path in [GatePath::Check, GatePath::Submit, GatePath::CacheWrite] {
            for raw in [GOOD, "{}"] {
                let session = format!("cs_{}_{}", path.into_str(), raw.len());
                system
                    .crosscheck
                    .ask(JudgeVerdict(test_submission(&session, raw, path)))
                    .await
                    .expect("the actor answers")
                    .expect("the judgment succeeds");
                let mirror =
                    std::fs::read_to_string(dir.join("oracle_log.jsonl")).expect("the mirror exists");
                let entry =
                    mirror.lines().rev().find(|line| line.contains("tmm_crosscheck")).expect("an entry");
                let entry: serde_json::Value = serde_json::from_str(entry).expect("valid JSON");
                assert_eq!(entry["session_id"], session.as_str());
                assert_eq!(entry["path"], path.into_str());
                assert_eq!(entry["approved"], raw == GOOD);
                for field in [
                    "tier",
                    "query_preview",
                    "verdict_label",
                    "coherence_score",
                    "threshold",
                    "phi",
                    "flags",
                    "crosscheck_reason",
                    "timestamp",
                    "v_t",
                    "v_r",
                    "e_d",
                    "seq",
                ] {
                    assert!(entry.get(field).is_some(), "{field} is there");
                }
            }
        }
    });
}

#[test]
fn vc_5_the_gate_is_before_delivery() {
    with_system(|TestSystem { system, .. }| async move {
        for path in [GatePath::Submit, GatePath::CacheWrite, GatePath::Check] {
            let outcome = system
                .crosscheck
                .ask(JudgeVerdict(test_submission("cs_1", "{}", path)))
                .await
                .expect("the actor answers");
            match outcome.expect("the judgment succeeds") {
                SubmissionOutcome::RejectedByCrosscheck { decision, .. }
                | SubmissionOutcome::Checked(decision) => {
                    assert_eq!(decision.crosscheck_reason, CrosscheckReason::FieldMissing);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(
            system
                .cache
                .ask(ReadVerdict(id("cs_1")))
                .await
                .expect("the actor answers")
                .expect("the call succeeds")
                .is_none()
        );
        assert!(
            system.store.session(&id("cs_1")).expect("the session is readable").is_none(),
            "no session either"
        );
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck"; 3], "nothing but judgments");
        assert_eq!(system.cache.report().handled, 1, "the cache was asked to read and nothing else");
    });
}

#[test]
fn check_path_delivers_nothing_even_for_an_approved_verdict() {
    with_system(|TestSystem { system, .. }| async move {
        let outcome = system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Check)))
            .await
            .expect("the actor answers");
        assert!(
            matches!(outcome, Ok(SubmissionOutcome::Checked(CrosscheckDecision { approved: true, .. }))),
            "{outcome:?}"
        );
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
    });
}

#[test]
fn panic_while_judging_is_logged_as_an_error_and_approves_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        let handles = (system.cache.clone(), system.rules.clone());
        let (log, clock) = (system.log.clone(), system.clock.clone());
        let metrics = CrosscheckMetrics::register(&mut Registry::default(), &[]);
        let gate = (UnexpectedFieldHandling::default(), Arc::default());
        let mut broken = CrosscheckActor::new(gate, handles, log, clock, metrics);
        broken.judge = |_, _, _| panic!("a fault in the mapping");
        let broken = Actor::start(broken);
        let outcome = broken
            .send(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers");
        assert!(
            matches!(&outcome, Err(GateError::Judging(cause)) if cause.contains("mapping")),
            "{outcome:?}"
        );
        assert_eq!(logged_events(&system.store), ["crosscheck_error"]);
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
    });
}

#[test]
fn verdict_is_not_delivered_if_it_cannot_be_logged() {
    with_system(|world| async move {
        world.break_store();
        let outcome = world
            .system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers");
        assert!(matches!(&outcome, Err(GateError::Commit(CommitError::Unavailable(_)))), "{outcome:?}");
        assert!(
            world.system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none(),
            "not even read as cached"
        );
        let lines = world.fallback_lines.lock().expect("the lock is not poisoned").clone();
        assert_eq!(lines.len(), 1, "the judgment, and not the caching that did not happen: {lines:?}");
        assert!(
            lines.iter().all(
                |line| line.contains("\"log_fallback\":true,\"fallback_cause\"") && line.contains("tmm_")
            )
        );
    });
}

#[test]
fn submission_with_another_query_is_a_mismatch() {
    with_system(|TestSystem { system, .. }| async move {
        system
            .crosscheck
            .ask(JudgeVerdict(test_submission("cs_1", GOOD, GatePath::Submit)))
            .await
            .expect("the actor answers")
            .expect("the judgment succeeds");
        let mut other = test_submission("cs_1", GOOD, GatePath::Submit);
        other.query = CustomerQuery::new("Sell wax?".into());
        let outcome = system.crosscheck.ask(JudgeVerdict(other)).await.expect("the actor answers");
        assert!(matches!(outcome, Ok(SubmissionOutcome::Mismatch(SessionMismatch::Query))), "{outcome:?}");
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck", "verdict_cached", "tmm_crosscheck"]);
    });
}

#[test]
fn judgment_is_logged_even_if_its_commit_stays_stale() {
    with_system(|TestSystem { system, .. }| async move {
        let stale = || {
            VerdictCacheError::Commit(CommitError::Stale(oracled_store::RowName::of::<VerdictDelivery>(&id(
                "cs_1",
            ))))
        };
        let judgment = domain_verdict::crosscheck::judge(ProductTier::Quick, VerdictPayload::raw(GOOD));
        let message = test_submission("cs_1", GOOD, GatePath::Submit);
        let entry = TmmCrosscheck(CrosscheckEntry::of(&judgment, &message.query, message.path));
        let entry = AuditEvent::new(system.clock.now(), id("cs_1"), entry);
        let admitted =
            commit_unless_committed::<SubmissionOutcome>(Ok(Err(stale())), entry.into(), &system.log).await;
        assert!(matches!(admitted, Err(GateError::Cache(_) | GateError::Commit(_))), "{admitted:?}");
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck"]);
    });
}

/// A submission with a check against `facts`.
fn checked(session_id: &str, facts: &[&str]) -> Submission {
    let facts = facts.iter().map(|fact| (*fact).to_owned()).collect();
    let check = Some(Arc::new(CandidateCheck { facts, ..CandidateCheck::default() }));
    Submission { check, ..test_submission(session_id, GOOD, GatePath::Submit) }
}

#[test]
fn verdict_refused_by_the_rules_is_not_delivered_and_both_are_logged() {
    with_system(|TestSystem { system, .. }| async move {
        let reported = system
            .crosscheck
            .ask(JudgeVerdict(checked("cs_1", &["The plan is another."])))
            .await
            .expect("the actor answers");
        let Ok(SubmissionOutcome::RejectedByRules { evaluation, .. }) = reported else {
            panic!("{reported:?}")
        };
        assert_eq!(evaluation.metrics.unsupported_claims, 1);
        assert!(system.store.verdict(&id("cs_1")).expect("the verdict is readable").is_none());
        assert!(system.store.session(&id("cs_1")).expect("the session is readable").is_none());
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck", "rules_evaluated"]);
    });
}

#[test]
fn verdict_passed_by_the_rules_is_delivered_in_one_commit_with_its_check() {
    with_system(|TestSystem { system, .. }| async move {
        let message = checked("cs_1", &["It is a sound and simple plan."]);
        let check = message.check.clone();
        let reported = system.crosscheck.ask(JudgeVerdict(message)).await.expect("the actor answers");
        assert!(matches!(reported, Ok(SubmissionOutcome::Stored(_))), "{reported:?}");
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck", "rules_evaluated", "verdict_cached"]);
        let (session, revision) =
            system.store.session(&id("cs_1")).expect("the session is readable").expect("the session exists");
        assert_eq!((session.check, revision), (check, 3));
    });
}

#[test]
fn rules_are_not_evaluated_after_a_failed_crosscheck() {
    with_system(|TestSystem { system, .. }| async move {
        let payload = Some(VerdictPayload::raw("no verdict"));
        let reported = system
            .crosscheck
            .ask(JudgeVerdict(Submission { payload, ..checked("cs_1", &[]) }))
            .await
            .expect("the actor answers");
        assert!(matches!(reported, Ok(SubmissionOutcome::RejectedByCrosscheck { .. })), "{reported:?}");
        assert_eq!(logged_events(&system.store), ["tmm_crosscheck"]);
    });
}
