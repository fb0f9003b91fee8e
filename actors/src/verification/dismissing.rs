//! Dismissing: closing a review without a decision. The next question is decided again.

use super::Verifier;
use super::case::Closed;
use crate::audit::commit_loop::Decided;
use crate::audit::logger::CommitError;
use oracled_domain::audit::event::verification::DismissalEntry;
use oracled_domain::verification::review::{BadResolution, Dismissal, Dismissed, ReviewState};
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::{Record, StoreError};

/// Closes a review without a decision.
#[derive(Debug)]
pub struct Dismiss {
    /// Id of the review.
    pub review_id: String,
    /// The reason of the dismissal.
    pub dismissal: Dismissal,
    /// The reviewer.
    pub peer: Peer,
}

/// Why a review is not dismissed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum DismissError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review is already closed.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The reason is empty or too long.
    #[error(transparent)]
    Bad(#[from] BadResolution),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dismissal could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Verifier {
    pub(super) async fn dismiss(&self, message: &Dismiss) -> Result<ReviewState, DismissError> {
        let (state, _) = self
            .doors
            .log
            .decide_and_commit(|| {
                let (state, record) = self.dismissed(message)?;
                Ok::<_, DismissError>(Decided::Change(state, record))
            })
            .await?;
        self.metrics.verifying.dismissed();
        Ok(state)
    }

    /// Returns the dismissed review, and the record that stores it. Locks and baselines are unchanged.
    fn dismissed(
        &self,
        Dismiss { review_id, dismissal, peer }: &Dismiss,
    ) -> Result<(ReviewState, Record), DismissError> {
        let reason = dismissal.checked()?;
        let mut case = self.case(review_id, DismissError::Unknown)?;
        case.check_open()?;
        case.close();
        let now = self.clock.now();
        case.state.dismissed = Some(Dismissed {
            reason: reason.to_owned(),
            verifier_id: peer.uid.to_string(),
            dismissed_at: now,
        });
        Ok(case.recorded(Event::new(
            now,
            None,
            EventKind::ReviewDismissed(DismissalEntry {
                review_id: review_id.clone(),
                reason: reason.to_owned(),
                peer: *peer,
            }),
        )))
    }
}
