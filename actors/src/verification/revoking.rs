//! What people take back: the locks of a review end, and the next question is decided anew.

use super::Verifier;
use super::case::{Case, Closed};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::CommitError;
use jiff::Timestamp;
use oracled_domain::audit::event::verification::RevocationEntry;
use oracled_domain::verification::HumanLock;
use oracled_domain::verification::deviation::put_back;
use oracled_domain::verification::review::{BadResolution, ReviewState, Revocation, Revoked};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, StoreError};

/// Takes back what was decided of a review.
#[derive(Debug)]
pub struct Revoke {
    /// Which.
    pub review_id: String,
    /// Why.
    pub revocation: Revocation,
    /// By whom.
    pub peer: Peer,
}

/// Why a resolution is not taken back. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// There is no such review.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// Nobody has resolved it.
    #[error("review {0} is open: there is nothing to take back")]
    Open(String),
    /// It was closed without deciding anything.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// It was taken back before.
    #[error("review {review_id} was revoked by uid {verifier_id} at {revoked_at}")]
    Revoked {
        /// Which.
        review_id: String,
        /// By whom.
        verifier_id: String,
        /// When.
        revoked_at: Timestamp,
    },
    /// Nothing of it is in force.
    #[error(
        "nothing that was decided of review {0} is in force: it has expired, or was decided by a review that is resolved \
         beside it or since then"
    )]
    Gone(String),
    /// The reason is none.
    #[error(transparent)]
    Bad(#[from] BadResolution),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The revocation could not be made durable.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Verifier {
    pub(super) async fn revoke(&self, message: &Revoke) -> Result<ReviewState, RevokeError> {
        message.revocation.check()?;
        let (state, _) = self
            .doors
            .log
            .decide_and_commit(|| {
                let (state, record) = self.revoked(message)?;
                Ok::<_, RevokeError>(Decided::Change(state, record))
            })
            .await?;
        self.metrics.verifying.revoked();
        Ok(state)
    }

    /// The review with its locks taken back, and what makes that durable.
    fn revoked(
        &self,
        Revoke { review_id, revocation, peer }: &Revoke,
    ) -> Result<(ReviewState, Record), RevokeError> {
        let mut case = self.case(review_id, RevokeError::Unknown)?;
        case.check_not_dismissed()?;
        let Case { state, subject, .. } = &mut case;
        if let Some(Revoked { verifier_id, revoked_at, .. }) = &state.revoked {
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
        // a jump that was confirmed is none that sources are held against any more
        put_back(&mut subject.baselines, &resolved.held_against, |path| {
            locks.iter().any(|lock| lock.axis == path)
        });
        let revoked = Revoked {
            reason: revocation.reason.trim().to_owned(),
            verifier_id: peer.uid.to_string(),
            revoked_at: now,
        };
        let entry = RevocationEntry {
            review_id: review_id.clone(),
            reason: revoked.reason.clone(),
            locks,
            peer: *peer,
        };
        state.revoked = Some(revoked);
        Ok(case.recorded(Event::new(now, None, EventKind::ReviewRevoked(entry))))
    }
}
