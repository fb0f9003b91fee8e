//! Revoking the resolution of a review: its locks end, and the next question is decided again.

use super::VerificationContext;
use super::loaded_review::{LoadedReview, ReviewClosedError};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::CommitError;
use domain_base::caller::DecidingUser;
use domain_base::event::AuditEvent;
use domain_verification::HumanLock;
use domain_verification::deviation::restore_baselines;
use domain_verification::event::{ReviewRevoked, RevocationEntry};
use domain_verification::review::{ReviewResolutionError, ReviewState, RevocationRecord, RevocationRequest};
use jiff::Timestamp;
use oracled_store::{JournalRecord, StoreError};

/// Revokes the resolution of a review.
#[derive(Debug)]
pub struct RevokeResolution {
    pub review_id: String,
    /// The reason of the revocation.
    pub revocation: RevocationRequest,
    /// The reviewer.
    pub user: DecidingUser,
}

/// Why a resolution is not revoked. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review is not resolved.
    #[error("review {0} is open; only a resolved review can be revoked")]
    Open(String),
    /// The review was dismissed without a decision.
    #[error(transparent)]
    Closed(#[from] ReviewClosedError),
    /// The resolution was already revoked.
    #[error("review {review_id} was revoked by uid {verifier_id} at {revoked_at}")]
    Revoked {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the resolution was revoked.
        revoked_at: Timestamp,
    },
    /// No lock of the review is in force.
    #[error(
        "no decision of review {0} is in force: it has expired, or another review that was resolved with it or later \
         replaced it"
    )]
    Gone(String),
    /// The reason is empty or too long.
    #[error(transparent)]
    Bad(#[from] ReviewResolutionError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The revocation could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl VerificationContext {
    pub(super) async fn revoke(&self, message: &RevokeResolution) -> Result<ReviewState, RevokeError> {
        message.revocation.check()?;
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_revocation(message)?;
                Ok::<_, RevokeError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_revocation();
        Ok(state)
    }

    /// Returns the review with its locks revoked, and the record that stores it.
    fn build_revocation(
        &self,
        RevokeResolution { review_id, revocation, user }: &RevokeResolution,
    ) -> Result<(ReviewState, JournalRecord), RevokeError> {
        let mut case = self.load_review(review_id, RevokeError::Unknown)?;
        case.check_not_dismissed()?;
        let LoadedReview { state, subject, .. } = &mut case;
        if let Some(RevocationRecord { verifier_id, revoked_at, .. }) = &state.revoked {
            let (review_id, verifier_id) = (review_id.clone(), verifier_id.clone());
            return Err(RevokeError::Revoked { review_id, verifier_id, revoked_at: *revoked_at });
        }
        let resolved = state.resolved.as_ref().ok_or_else(|| RevokeError::Open(review_id.clone()))?;
        let now = self.clock.now();
        let (mut locks, others): (Vec<HumanLock>, Vec<_>) =
            std::mem::take(&mut subject.locks).into_iter().partition(|lock| lock.review_id == *review_id);
        locks.retain(|lock| now < lock.valid_until);
        if locks.is_empty() {
            return Err(RevokeError::Gone(review_id.clone()));
        }
        subject.locks = others;
        // the values that the review confirmed are no longer baselines
        restore_baselines(&mut subject.baselines, &resolved.held_against, |path| {
            locks.iter().any(|lock| lock.axis == path)
        });
        let revoked = RevocationRecord {
            reason: revocation.reason.trim().to_owned(),
            verifier_id: user.peer.uid.to_string(),
            verifier_name: user.name.clone(),
            revoked_at: now,
        };
        let entry = RevocationEntry {
            review_id: review_id.clone(),
            reason: revoked.reason.clone(),
            locks,
            verifier_name: user.name.clone(),
            peer: user.peer,
        };
        state.revoked = Some(revoked);
        Ok(case.into_record(AuditEvent::new(now, None, ReviewRevoked(entry))))
    }
}
