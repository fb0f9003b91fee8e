//! A review and the state of its subject, as resolving, revoking and dismissing need them.

use super::VerificationContext;
use domain_base::event::AuditEvent;
use domain_base::wording::excerpt;
use domain_verification::review::{DismissalRecord, ResolutionRecord, ReviewState};
use domain_verification::{SubjectKey, SubjectState};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};

/// Why a review is closed.
#[derive(Debug, thiserror::Error)]
pub enum ReviewClosedError {
    /// The review was resolved.
    #[error(
        "review {review_id} was resolved by uid {verifier_id} at {resolved_at}: that decision applies until it expires or is revoked"
    )]
    Resolved {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the review was resolved.
        resolved_at: Timestamp,
    },
    /// The review was dismissed.
    #[error(
        "review {review_id} was dismissed by uid {verifier_id} at {dismissed_at}: if the dispute remains, the next question opens a new review"
    )]
    Dismissed {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the review was dismissed.
        dismissed_at: Timestamp,
    },
}

/// A review and the state of its subject. A change is committed only if neither has changed since they were read.
#[derive(Debug)]
pub(super) struct LoadedReview {
    pub(super) state: ReviewState,
    pub(super) subject: SubjectState,
    key: SubjectKey,
    expect: Vec<RowExpectation>,
}

impl VerificationContext {
    /// Reads the case of a review. `unknown` creates the error for an unknown id.
    pub(super) fn load_review<E: From<StoreError>>(
        &self,
        review_id: &str,
        unknown: impl FnOnce(String) -> E,
    ) -> Result<LoadedReview, E> {
        let Some((state, revision)) = self.store.review(review_id)? else {
            return Err(unknown(excerpt(review_id)));
        };
        let review = &state.review;
        let key = SubjectKey::of(&review.workflow_id, &review.thing, review.is_about_the_present());
        let (subject, known_at) = self.store.subject(&key)?.unzip();
        let expect = vec![
            RowExpectation::new::<ReviewState>(&review.review_id, Some(revision)),
            RowExpectation::new::<SubjectState>(&key, known_at),
        ];
        Ok(LoadedReview { state, subject: subject.unwrap_or_default(), key, expect })
    }
}

impl LoadedReview {
    /// Checks that the review is open.
    ///
    /// # Errors
    /// If the review is resolved or dismissed.
    pub(super) fn check_open(&self) -> Result<(), ReviewClosedError> {
        if let Some(ResolutionRecord { verifier_id, resolved_at, .. }) = &self.state.resolved {
            return Err(ReviewClosedError::Resolved {
                review_id: self.state.review.review_id.clone(),
                verifier_id: verifier_id.clone(),
                resolved_at: *resolved_at,
            });
        }
        self.check_not_dismissed()
    }

    /// Checks that the review is not dismissed.
    ///
    /// # Errors
    /// If the review is dismissed.
    pub(super) fn check_not_dismissed(&self) -> Result<(), ReviewClosedError> {
        let Some(DismissalRecord { verifier_id, dismissed_at, .. }) = &self.state.dismissed else {
            return Ok(());
        };
        Err(ReviewClosedError::Dismissed {
            review_id: self.state.review.review_id.clone(),
            verifier_id: verifier_id.clone(),
            dismissed_at: *dismissed_at,
        })
    }

    /// Removes the review from the open reviews of its subject.
    pub(super) fn close(&mut self) {
        let Self { state, subject, .. } = self;
        subject.open.retain(|open| open.review_id != state.review.review_id);
    }

    /// Returns the review in its current state, and the record that stores it and its subject with the log entry.
    pub(super) fn into_record(self, entry: AuditEvent) -> (ReviewState, JournalRecord) {
        let Self { state, subject, key, expect } = self;
        let subject = if subject == SubjectState::default() {
            RowWrite::remove::<SubjectState>(&key)
        } else {
            RowWrite::put_at(&key, &subject)
        };
        let writes = vec![RowWrite::put::<ReviewState>(&state), subject];
        (state, JournalRecord { expect, events: vec![entry], writes, ..JournalRecord::default() })
    }
}
