//! A review that a person speaks of, with what is known of its thing: what resolving, revoking and dismissing have in common.

use super::Verifier;
use jiff::Timestamp;
use oracled_domain::Event;
use oracled_domain::base::wording::excerpt;
use oracled_domain::verification::review::{Dismissed, Resolved, ReviewState};
use oracled_domain::verification::{Subject, SubjectKey};
use oracled_store::{Expect, Record, RowKey, StoreError, Write};
use std::sync::Arc;

/// What became of a review that waits for nobody any more.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// Somebody has resolved it.
    #[error(
        "review {review_id} was resolved by uid {verifier_id} at {resolved_at}: what was decided then stays until it expires or is revoked"
    )]
    Resolved {
        /// Which.
        review_id: String,
        /// By whom.
        verifier_id: String,
        /// When.
        resolved_at: Timestamp,
    },
    /// Somebody has dismissed it.
    #[error(
        "review {review_id} was dismissed by uid {verifier_id} at {dismissed_at}: where there is still something to decide, the next question opens another"
    )]
    Dismissed {
        /// Which.
        review_id: String,
        /// By whom.
        verifier_id: String,
        /// When.
        dismissed_at: Timestamp,
    },
}

/// A review and what is known of its thing, each as it was read: what is made of them is committed where both still are so.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) state: ReviewState,
    pub(super) subject: Subject,
    key: SubjectKey,
    expect: Vec<Expect>,
}

impl Verifier {
    /// The case of a review, or that it is `unknown`.
    pub(super) fn case<E: From<StoreError>>(
        &self,
        review_id: &str,
        unknown: impl FnOnce(String) -> E,
    ) -> Result<Case, E> {
        let Some((state, revision)) = self.store.review(review_id)? else {
            return Err(unknown(excerpt(review_id)));
        };
        let review = &state.review;
        let key = SubjectKey::of(&review.workflow_id, &review.thing, review.is_about_the_present());
        let (subject, known_at) = self.store.subject(&key)?.unzip();
        let expect = vec![
            Expect { row: RowKey::Review(review.review_id.clone()), revision: Some(revision) },
            Expect { row: RowKey::Subject(key.clone()), revision: known_at },
        ];
        Ok(Case { state, subject: subject.unwrap_or_default(), key, expect })
    }
}

impl Case {
    /// Whether the review waits for a person.
    ///
    /// # Errors
    /// What became of it where it does not.
    pub(super) fn check_open(&self) -> Result<(), Closed> {
        if let Some(Resolved { verifier_id, resolved_at, .. }) = &self.state.resolved {
            return Err(Closed::Resolved {
                review_id: self.state.review.review_id.clone(),
                verifier_id: verifier_id.clone(),
                resolved_at: *resolved_at,
            });
        }
        self.check_not_dismissed()
    }

    /// Whether nobody has dismissed the review.
    ///
    /// # Errors
    /// Who has.
    pub(super) fn check_not_dismissed(&self) -> Result<(), Closed> {
        let Some(Dismissed { verifier_id, dismissed_at, .. }) = &self.state.dismissed else { return Ok(()) };
        Err(Closed::Dismissed {
            review_id: self.state.review.review_id.clone(),
            verifier_id: verifier_id.clone(),
            dismissed_at: *dismissed_at,
        })
    }

    /// Takes the review out of those of its thing that wait for people.
    pub(super) fn close(&mut self) {
        let Self { state, subject, .. } = self;
        subject.open.retain(|open| open.review_id != state.review.review_id);
    }

    /// The review as it is now, and what makes it and its thing durable, with the entry of it.
    pub(super) fn recorded(self, entry: Event) -> (ReviewState, Record) {
        let Self { state, subject, key, expect } = self;
        let subject = if subject == Subject::default() {
            Write::RemoveSubject(key)
        } else {
            Write::PutSubject(key, Arc::new(subject))
        };
        let writes = vec![Write::PutReview(Arc::new(state.clone())), subject];
        (state, Record { expect, events: vec![entry], writes, ..Record::default() })
    }
}
