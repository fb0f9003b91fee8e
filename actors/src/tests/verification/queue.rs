//! The queue of open reviews and its limits.

use super::support::*;
use crate::system::ActorSystem;
use crate::testing::ground::PEER;
use crate::testing::{TestSystem, with_system};
use actors_verification::{DismissReview, ResolveReview};
use domain_base::event::AuditEvent;
use domain_verification::event::{ReviewEntry, ReviewOpened};
use domain_verification::review::{
    CALLERS_QUEUE_MAX, DismissalRequest, QUEUE_MAX, ReviewResolution, ReviewState,
};
use domain_verification::{AxisReason, EnvelopeKind, ReviewCase};
use oracled_store::{JournalRecord, RowWrite};
use serde_json::json;
use std::sync::Arc;

/// Number of reviews in one commit.
const AT_ONCE: usize = 500;

/// Opens `number` more reviews with the content of `state`.
async fn open_copies(system: &ActorSystem, state: &ReviewState, number: u64) {
    let copies: Vec<_> = (0..number)
        .map(|number| {
            let mut state = state.clone();
            state.review.review_id = format!("w-{number:05}");
            Arc::new(state)
        })
        .collect();
    for states in copies.chunks(AT_ONCE) {
        let ReviewCase { review_id, opened_at, .. } = &states[0].review;
        let review = Box::new(states[0].review.clone());
        let entry = ReviewEntry { review_id: review_id.clone(), review };
        let mut record = JournalRecord::from(AuditEvent::new(*opened_at, None, ReviewOpened(entry)));
        record.writes.extend(states.iter().map(|state| RowWrite::put::<ReviewState>(state)));
        system.log.commit(record).await.expect("the commit succeeds");
    }
}

#[test]
fn full_review_queue_blocks_until_reviews_are_closed() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        source(system, "office", json!({})).await;
        ingest_source_rows(
            system,
            "office",
            "2020-04-14",
            &["Aruba,ABW,1960,54208", "Aruba,ABW,1961,55434", "Aruba,ABW,1962,56234"],
        )
        .await;
        let always = json!({"conflict_resolution": {"always_human_axes": ["population"]}});
        workflow(system, &["office"], always).await;
        let first = verified(system).await;
        assert_eq!(first.kind, EnvelopeKind::HumanReview);
        let review_id = first.review_id.clone().expect("the envelope has a review");
        let (state, _) = system.store.review(&review_id).expect("read").expect("the review is open");
        open_copies(system, &state, QUEUE_MAX - 1).await;
        let of_another = json!({"where": {"area": "ABW", "year": 1961}});
        let blocked = verify_population(system, of_another.clone()).await.expect("the verification succeeds");
        assert_eq!((blocked.kind, &blocked.review_id), (EnvelopeKind::Blocked, &None));
        assert!(blocked.reasons.contains(&AxisReason::QueueFull), "{:?}", blocked.reasons);
        assert_eq!(rebuilt(system, &blocked.execution_id)[0].1, *blocked);
        // another workflow has its own pool
        let always = json!({"conflict_resolution": {"always_human_axes": ["population"]},
                            "workflow_id": "other"});
        workflow(system, &["office"], always).await;
        let elsewhere =
            verify_population(system, json!({"workflow": "other"})).await.expect("the verification succeeds");
        assert_eq!(elsewhere.kind, EnvelopeKind::HumanReview, "{:?}", elsewhere.reasons);
        let again = verified(system).await;
        assert_eq!(again.review_id.as_ref(), Some(&review_id), "the open review stays open");

        let resolution = ReviewResolution {
            values: [("population".to_owned(), json!("54208"))].into(),
            definitions: [].into(),
            own_value: true,
            reason: "seen on paper".into(),
            valid_for_seconds: 60,
            rule: None,
        };
        let resolve = ResolveReview { review_id, resolution, user: PEER.into() };
        system.verification.resolve(&resolve).await.expect("the resolution succeeds");
        let waits = verify_population(system, of_another).await.expect("the verification succeeds");
        assert_eq!(waits.kind, EnvelopeKind::HumanReview, "{:?}", waits.reasons);
        let of_a_third = json!({"where": {"area": "ABW", "year": 1962}});
        let blocked = verify_population(system, of_a_third.clone()).await.expect("the verification succeeds");
        assert_eq!(blocked.kind, EnvelopeKind::Blocked, "the queue is full again");
        let dismissal = DismissalRequest { reason: "nobody has to".into() };
        let review_id = waits.review_id.clone().expect("the envelope has a review");
        let dismiss = DismissReview { review_id, dismissal, user: PEER.into() };
        system.verification.dismiss(&dismiss).await.expect("the dismissal succeeds");
        let waits = verify_population(system, of_a_third).await.expect("the verification succeeds");
        assert_eq!(waits.kind, EnvelopeKind::HumanReview, "{:?}", waits.reasons);
    });
}

#[test]
fn claims_fill_their_share_and_sources_disputes_still_open() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        source(system, "office", json!({})).await;
        ingest_source_rows(system, "office", "2020-04-14", &["Aruba,ABW,1960,54208", "Aruba,ABW,1961,55434"])
            .await;
        source(system, "other", json!({})).await;
        ingest_source_rows(system, "other", "2020-04-14", &["Aruba,ABW,1960,54208", "Aruba,ABW,1961,99999"])
            .await;
        workflow(system, &["office", "other"], json!({})).await;
        let claim = |value: u64| json!({"claimed": {"population": {"value": value, "claimed_by": "p-1"}}});
        let first = verify_population(system, claim(1)).await.expect("the verification succeeds");
        let (state, _) = system
            .store
            .review(first.review_id.as_ref().expect("the envelope has a review"))
            .expect("read")
            .expect("open");
        assert!(state.review.of_claim);
        open_copies(system, &state, CALLERS_QUEUE_MAX - 1).await;
        let further = verify_population(system, claim(2)).await.expect("the verification succeeds");
        assert_eq!(further.kind, EnvelopeKind::Blocked);
        assert!(further.reasons.contains(&AxisReason::QueueFull), "{:?}", further.reasons);
        assert_eq!(rebuilt(system, &further.execution_id)[0].1, *further);
        let same = verify_population(system, claim(1)).await.expect("the verification succeeds");
        assert_eq!(same.review_id, first.review_id);
        let disputed = verify_population(system, json!({"where": {"area": "ABW", "year": 1961}})).await;
        let disputed = disputed.expect("the verification succeeds");
        assert_eq!(disputed.kind, EnvelopeKind::HumanReview, "{:?}", disputed.reasons);

        let dismissal = DismissalRequest { reason: "nobody has to".into() };
        let dismiss = DismissReview {
            review_id: first.review_id.clone().expect("the envelope has a review"),
            dismissal,
            user: PEER.into(),
        };
        system.verification.dismiss(&dismiss).await.expect("the dismissal succeeds");
        let room = verify_population(system, claim(3)).await.expect("the verification succeeds");
        assert_eq!(room.kind, EnvelopeKind::HumanReview, "{:?}", room.reasons);
    });
}

#[test]
fn past_reviews_at_their_limit_do_not_block_present_ones() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let system = &system;
        let rows = ["Aruba,ABW,1960,54208", "Aruba,ABW,1961,55434"];
        source(system, "office", json!({})).await;
        ingest_source_rows(system, "office", "2020-04-14", &rows).await;
        let always = json!({"conflict_resolution": {"always_human_axes": ["population"]}});
        workflow(system, &["office"], always).await;
        let past = |year: u32, field: &str| json!({"where": {"area": "ABW", "year": year}, field: "2026-01-01T00:00:00Z"});
        let first =
            verify_population(system, past(1960, "point_in_time")).await.expect("the verification succeeds");
        let (state, _) = system
            .store
            .review(first.review_id.as_ref().expect("the envelope has a review"))
            .expect("read")
            .expect("open");
        open_copies(system, &state, CALLERS_QUEUE_MAX - 1).await;
        let further =
            verify_population(system, past(1961, "point_in_time")).await.expect("the verification succeeds");
        assert_eq!(further.kind, EnvelopeKind::Blocked);
        assert!(further.reasons.contains(&AxisReason::QueueFull), "{:?}", further.reasons);
        let present = json!({"where": {"area": "ABW", "year": 1961}});
        let present = verify_population(system, present).await.expect("the verification succeeds");
        assert_eq!(present.kind, EnvelopeKind::HumanReview, "{:?}", present.reasons);

        open_copies(system, &state, QUEUE_MAX).await;
        let present = verified(system).await;
        assert_eq!(present.kind, EnvelopeKind::HumanReview, "{:?}", present.reasons);
    });
}
