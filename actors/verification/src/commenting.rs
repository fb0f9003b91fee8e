//! Comments on reviews.

use super::VerificationContext;
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::CommitError;
use domain_base::caller::DecidingUser;
use domain_base::event::AuditEvent;
use domain_base::wording::excerpt;
use domain_verification::event::{CommentEntry, ReviewCommented};
use domain_verification::review::{
    COMMENTS_MAX, CommentRequest, CommentTextError, ReviewComment, ReviewState,
};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};

/// Comments on a review, open or closed.
#[derive(Debug)]
pub struct CommentOnReview {
    pub review_id: String,
    pub comment: CommentRequest,
    /// The author.
    pub user: DecidingUser,
}

/// Why a comment is not stored. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CommentError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The text is blank or too long.
    #[error(transparent)]
    Text(#[from] CommentTextError),
    /// The review has too many comments.
    #[error("review {0} has {COMMENTS_MAX} comments, and more are not allowed")]
    TooMany(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The comment could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl VerificationContext {
    pub(super) async fn comment(&self, message: &CommentOnReview) -> Result<ReviewState, CommentError> {
        let commented = self.handles.log.decide_and_commit(|| {
            let (state, record) = self.build_comment(message)?;
            Ok::<_, CommentError>(CommitDecision::Change(state, record))
        });
        Ok(commented.await?.0)
    }

    /// Returns the review with the comment, and the record that stores it. The subject is unchanged.
    fn build_comment(
        &self,
        CommentOnReview { review_id, comment, user }: &CommentOnReview,
    ) -> Result<(ReviewState, JournalRecord), CommentError> {
        let text = comment.checked()?;
        let known = self.store.review(review_id)?;
        let (mut state, revision) = known.ok_or_else(|| CommentError::Unknown(excerpt(review_id)))?;
        let review_id = state.review.review_id.clone();
        if state.comments.len() >= COMMENTS_MAX {
            return Err(CommentError::TooMany(review_id));
        }
        let now = self.clock.now();
        state.comments.push(ReviewComment {
            text: text.to_owned(),
            author_id: user.peer.uid.to_string(),
            author_name: user.name.clone(),
            commented_at: now,
        });
        let expect = vec![RowExpectation::new::<ReviewState>(&review_id, Some(revision))];
        let entry = CommentEntry {
            review_id,
            text: text.to_owned(),
            author_name: user.name.clone(),
            peer: user.peer,
        };
        let events = vec![AuditEvent::new(now, None, ReviewCommented(entry))];
        let writes = vec![RowWrite::put::<ReviewState>(&state)];
        Ok((state, JournalRecord { expect, events, writes, ..JournalRecord::default() }))
    }
}
