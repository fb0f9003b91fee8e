//! Reviews that are closed without a resolution.

use super::register_two_sources;
use super::support::*;
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use crate::testing::{TestSystem, with_system};
use actors_verification::{DismissReview, ResolveReview, ReviewError, RevokeResolution};
use domain_verification::EnvelopeKind;
use domain_verification::review::{DismissalRequest, ReviewResolution, ReviewState, RevocationRequest};
use domain_verification::stored_state::OPEN_MAX;
use oracled_store::ReviewQuery;
use serde_json::json;

/// Number of repetitions of a race.
const RACES: usize = 8;

/// Asks a question on which two sources disagree, and returns the id of its review.
async fn disputed(system: &ActorSystem) -> String {
    let envelope = verified(system).await;
    assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
    envelope.review_id.clone().expect("the envelope has a review")
}

fn open(system: &ActorSystem) -> Vec<String> {
    let query = ReviewQuery { open_only: true, before: None, limit: 99 };
    let found = system.store.reviews(&query).expect("the reviews are readable");
    found.into_iter().map(|state| state.review.review_id).collect()
}

async fn dismiss(system: &ActorSystem, review_id: &str, reason: &str) -> Result<ReviewState, ReviewError> {
    let dismissal = DismissalRequest { reason: reason.into() };
    let dismiss = DismissReview { review_id: review_id.into(), dismissal, user: PEER.into() };
    system.verification.dismiss(&dismiss).await
}

async fn resolve(system: &ActorSystem, review_id: &str) -> Result<ReviewState, ReviewError> {
    let resolution = ReviewResolution {
        values: [("population".to_owned(), json!("54208"))].into(),
        definitions: [].into(),
        own_value: false,
        reason: "the census of that year".into(),
        valid_for_seconds: 3600,
        rule: None,
    };
    let resolve = ResolveReview { review_id: review_id.into(), resolution, user: PEER.into() };
    system.verification.resolve(&resolve).await
}

async fn revoke(system: &ActorSystem, review_id: &str) -> Result<ReviewState, ReviewError> {
    let revocation = RevocationRequest { reason: "misread".into() };
    let revoke = RevokeResolution { review_id: review_id.into(), revocation, user: PEER.into() };
    system.verification.revoke(&revoke).await
}

#[test]
fn dismissed_review_stays_closed_and_the_next_question_opens_another() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "54208", "54608", json!({})).await;
        let first = disputed(system).await;
        assert_eq!(open(system), [&*first]);
        let dismissed = dismiss(system, &first, " seen on paper ").await.expect("the dismissal succeeds");
        assert!(dismissed.resolved.is_none() && !dismissed.is_open(), "{dismissed:?}");
        let word = dismissed.dismissed.as_ref().expect("the value is present");
        assert_eq!((&*word.reason, &*word.verifier_id), ("seen on paper", "7"));
        assert_eq!(
            system.store.review(&first).expect("the review is readable").expect("the review exists").0,
            dismissed
        );
        assert_eq!(open(system), [""; 0]);
        let reported = events(system, &first);
        assert_eq!(reported[reported.len() - 2..], ["review_opened", "review_dismissed"]);

        let twice = dismiss(system, &first, "again").await;
        assert!(matches!(twice, Err(ReviewError::Dismissed { .. })), "{twice:?}");
        let resolved = resolve(system, &first).await;
        assert!(matches!(resolved, Err(ReviewError::Dismissed { .. })), "{resolved:?}");
        let revoked = revoke(system, &first).await;
        assert!(matches!(revoked, Err(ReviewError::Dismissed { .. })), "{revoked:?}");
        assert_eq!(events(system, &first), reported, "nothing has changed");

        let second = disputed(system).await;
        assert_ne!(second, first);
        assert_eq!(disputed(system).await, second, "the same dispute is one review");
        assert_eq!(open(system), [&*second]);
        resolve(system, &second).await.expect("the resolution succeeds");
        let late = dismiss(system, &second, "too late").await;
        assert!(matches!(late, Err(ReviewError::Resolved { .. })), "{late:?}");
        assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
    });
}

#[test]
fn dismissal_needs_a_valid_reason_and_a_known_review() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54608", json!({})).await;
        let review_id = disputed(&system).await;
        for reason in ["", " \n", &"x".repeat(4097)] {
            let refused = dismiss(&system, &review_id, reason).await;
            assert!(matches!(refused, Err(ReviewError::Bad(_))), "{refused:?}");
        }
        let unknown = dismiss(&system, "v-none", "healed").await;
        assert!(matches!(unknown, Err(ReviewError::Unknown(_))), "{unknown:?}");
        assert_eq!(open(&system), [&*review_id]);
    });
}

#[test]
fn ended_dispute_is_dismissed_and_opens_no_new_review() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "54208", "54608", json!({})).await;
        let review_id = disputed(system).await;
        ingest_source_rows(system, "office-b", "2020-04-15", &["Aruba,ABW,1960,54208"]).await;
        assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
        assert_eq!(open(system), [&*review_id], "the review is still open");
        dismiss(system, &review_id, "healed").await.expect("the dismissal succeeds");
        assert_eq!(verified(system).await.kind, EnvelopeKind::Authoritative);
        assert_eq!(open(system), [""; 0]);
    });
}

#[test]
fn only_the_named_review_of_a_subject_is_dismissed() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "54208", "54608", json!({})).await;
        let first = disputed(system).await;
        ingest_source_rows(system, "office-b", "2021-04-14", &["Aruba,ABW,1960,54609"]).await;
        let second = disputed(system).await;
        assert_ne!(first, second);
        dismiss(system, &first, "another release came").await.expect("the dismissal succeeds");
        assert_eq!(open(system), [&*second]);
        assert_eq!(disputed(system).await, second);
    });
}

#[test]
fn simultaneous_resolution_and_dismissal_have_one_winner() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54608", json!({})).await;
        for _ in 0..RACES {
            let review_id = disputed(&system).await;
            let (its_system, its_id) = (system.clone(), review_id.clone());
            let other = actix_rt::spawn(async move { dismiss(&its_system, &its_id, "healed").await });
            let resolved = resolve(&system, &review_id).await;
            let dismissed = other.await.expect("the call succeeds");
            let state = system
                .store
                .review(&review_id)
                .expect("the review is readable")
                .expect("the review exists")
                .0;
            let stands = (state.resolved.is_some(), state.dismissed.is_some());
            assert_eq!(stands, (resolved.is_ok(), dismissed.is_ok()));
            assert_ne!(stands.0, stands.1, "{resolved:?} {dismissed:?}");
            let ends: Vec<_> = events(&system, &review_id).split_off(4);
            assert_eq!(ends, [if stands.0 { "review_resolved" } else { "review_dismissed" }]);
            assert_eq!(open(&system), [""; 0]);
            if stands.0 {
                revoke(&system, &review_id).await.expect("the revocation succeeds");
            }
        }
    });
}

#[test]
fn questions_about_different_times_share_one_open_review() {
    with_system(async |TestSystem { system, time, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "54208", "54608", json!({})).await;
        let mut times = Vec::new();
        for _ in 0..3 {
            time.advance(60);
            times.push(time.clock().now());
        }
        let questions = [
            json!({"known_at": times[0]}),
            json!({"known_at": times[1]}),
            json!({"point_in_time": times[0]}),
            json!({"point_in_time": times[1]}),
            json!({"point_in_time": times[0], "known_at": times[0]}),
        ];
        let about = async |question: &serde_json::Value| {
            verify_population(system, question.clone()).await.expect("the verification succeeds")
        };
        let review_id = about(&questions[0]).await.review_id.clone().expect("the envelope has a review");
        for question in &questions {
            assert_eq!(about(question).await.review_id.as_deref(), Some(&*review_id), "{question}");
        }
        assert_eq!(open(system), [&*review_id]);
        let present = disputed(system).await;
        assert_ne!(present, review_id, "the present has a review of its own");
        resolve(system, &review_id).await.expect("the review is open");
        assert_eq!(open(system), [&*present]);
        // a lock covers only the times of its review
        assert_eq!(about(&questions[0]).await.kind, EnvelopeKind::Authoritative);
        for question in &questions[1..] {
            let other = about(question).await;
            assert_eq!(other.kind, EnvelopeKind::HumanReview, "{question}");
            let other = other.review_id.clone().expect("the envelope has a review");
            resolve(system, &other).await.expect("the review is open");
        }
        for question in &questions {
            assert_eq!(
                about(question).await.kind,
                EnvelopeKind::Authoritative,
                "no lock is replaced: {question}"
            );
        }
    });
}

#[test]
fn claim_opens_one_review_for_different_past_times() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "54208", "54208", json!({})).await;
        for day in 1..=20 {
            let claim = json!({"claimed": {"population": {"value": 1, "claimed_by": "p-1"}},
                               "point_in_time": format!("2026-01-{day:02}T00:00:00Z")});
            let envelope = verify_population(system, claim).await.expect("the verification succeeds");
            assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
        }
        assert_eq!(open(system).len(), 1);
    });
}

#[test]
fn disputes_of_many_releases_open_a_bounded_number_of_reviews() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        register_two_sources(system, "1", "2", json!({})).await;
        for day in 1..=20 {
            let row = format!("Aruba,ABW,1960,{}", 100 + day);
            ingest_source_rows(system, "office-a", &format!("2026-01-{day:02}"), &[&row]).await;
        }
        for day in 1..=20 {
            let then = json!({"point_in_time": format!("2026-01-{day:02}T12:00:00Z")});
            let envelope = verify_population(system, then).await.expect("the verification succeeds");
            assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
        }
        assert_eq!(open(system).len(), OPEN_MAX);
        disputed(system).await;
        assert_eq!(open(system).len(), OPEN_MAX + 1, "the present has a limit of its own");
    });
}
