//! Dismissing: closing a review without a decision. The next question is decided again.

use super::VerificationContext;
use super::loaded_review::ReviewClosedError;
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::CommitError;
use domain_base::caller::DecidingUser;
use domain_base::event::AuditEvent;
use domain_verification::event::{DismissalEntry, ReviewDismissed};
use domain_verification::review::{DismissalRecord, DismissalRequest, ReviewResolutionError, ReviewState};
use oracled_store::{JournalRecord, StoreError};

/// Closes a review without a decision.
#[derive(Debug)]
pub struct DismissReview {
    pub review_id: String,
    /// The reason of the dismissal.
    pub dismissal: DismissalRequest,
    /// The reviewer.
    pub user: DecidingUser,
}

/// Why a review is not dismissed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum DismissError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review is already closed.
    #[error(transparent)]
    Closed(#[from] ReviewClosedError),
    /// The reason is empty or too long.
    #[error(transparent)]
    Bad(#[from] ReviewResolutionError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dismissal could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl VerificationContext {
    pub(super) async fn dismiss(&self, message: &DismissReview) -> Result<ReviewState, DismissError> {
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_dismissal(message)?;
                Ok::<_, DismissError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_dismissal();
        Ok(state)
    }

    /// Returns the dismissed review, and the record that stores it. Locks and baselines are unchanged.
    fn build_dismissal(
        &self,
        DismissReview { review_id, dismissal, user }: &DismissReview,
    ) -> Result<(ReviewState, JournalRecord), DismissError> {
        let reason = dismissal.checked()?;
        let mut case = self.load_review(review_id, DismissError::Unknown)?;
        case.check_open()?;
        case.close();
        let now = self.clock.now();
        case.state.dismissed = Some(DismissalRecord {
            reason: reason.to_owned(),
            verifier_id: user.peer.uid.to_string(),
            verifier_name: user.name.clone(),
            dismissed_at: now,
        });
        Ok(case.into_record(AuditEvent::new(
            now,
            None,
            ReviewDismissed(DismissalEntry {
                review_id: review_id.clone(),
                reason: reason.to_owned(),
                verifier_name: user.name.clone(),
                peer: user.peer,
            }),
        )))
    }
}
