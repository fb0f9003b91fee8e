//! Whom an event is about, and whether it has happened without its commit.

use super::verification::{
    DismissalEntry, OracleInteraction, ResolutionEntry, ReviewEntry, RevocationEntry, VerificationEntry,
};
use super::{CrosscheckEntry, Event, RulesEntry};
use crate::verdict::divergence::DivergenceCheck;
use crate::verdict::interaction::Interaction;
use crate::verdict::session::SessionId;

impl Event {
    /// The session it speaks of, if any.
    #[must_use]
    pub const fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::TmmCrosscheck(CrosscheckEntry { session_id, .. })
            | Self::OracleInteraction(Interaction { session_id, .. })
            | Self::RegenDivergenceCheck(DivergenceCheck { session_id, .. })
            | Self::CrosscheckError { session_id, .. }
            | Self::RefusalDropped { session_id, .. }
            | Self::VerdictCached { session_id, .. }
            | Self::VerdictPurged { session_id, .. }
            | Self::SessionRegistered { session_id, .. }
            | Self::SessionAddressChanged { session_id, .. }
            | Self::SessionCorrected { session_id, .. }
            | Self::SessionRemoved { session_id, .. }
            | Self::RegenAttempted { session_id, .. }
            | Self::MailQueued { session_id, .. }
            | Self::MailSent { session_id, .. }
            | Self::MailFailed { session_id, .. }
            | Self::MailRequeued { session_id, .. }
            | Self::MailDropped { session_id, .. } => Some(session_id),
            Self::RulesEvaluated(RulesEntry { session_id, .. }) => session_id.as_ref(),
            Self::InfrastructureVariance { .. }
            | Self::ControlAction { .. }
            | Self::OracleHealthChanged { .. }
            | Self::OntologyRegistered(_)
            | Self::SourceChanged(_)
            | Self::FreshnessPolicySet(_)
            | Self::SourceInvalidated(_)
            | Self::SourceConfirmed(_)
            | Self::PipelineRegistered(_)
            | Self::AdapterRegistered(_)
            | Self::PullStarted(_)
            | Self::PullEnded(_)
            | Self::PullFailed(_)
            | Self::IngestionStarted(_)
            | Self::IngestionEnded(_)
            | Self::SourcePruned(_)
            | Self::SourceRebuilt(_)
            | Self::SourceQueried(_)
            | Self::WorkflowRegistered(_)
            | Self::SourceAsked(_)
            | Self::VerificationDecided(_)
            | Self::ReviewOpened(_)
            | Self::ReviewResolved(_)
            | Self::KeptAnswersRemoved(_)
            | Self::ReviewRevoked(_)
            | Self::ReviewDismissed(_)
            | Self::StorageRecovered { .. }
            | Self::ServiceStarted { .. }
            | Self::ServiceStopped { .. } => None,
        }
    }

    /// The verification that it is part of, if any.
    #[must_use]
    pub fn execution_id(&self) -> Option<&str> {
        match self {
            Self::SourceAsked(OracleInteraction { execution_id, .. })
            | Self::VerificationDecided(VerificationEntry { execution_id, .. })
            // a review has the name of the decision that it comes of
            | Self::ReviewOpened(ReviewEntry { review_id: execution_id, .. })
            | Self::ReviewResolved(ResolutionEntry { review_id: execution_id, .. })
            | Self::ReviewRevoked(RevocationEntry { review_id: execution_id, .. })
            | Self::ReviewDismissed(DismissalEntry { review_id: execution_id, .. }) => Some(execution_id),
            _ => None,
        }
    }

    /// Whether it has happened even where it cannot be committed: a verdict was judged whatever becomes of its entry,
    /// but it is not cached unless the entry that says so is durable, and no circuit is opened or closed by hand.
    #[must_use]
    pub const fn holds_uncommitted(&self) -> bool {
        !matches!(
            self,
            Self::VerdictCached { .. }
                | Self::VerdictPurged { .. }
                | Self::SessionRegistered { .. }
                | Self::SessionAddressChanged { .. }
                | Self::SessionCorrected { .. }
                | Self::SessionRemoved { .. }
                | Self::RegenAttempted { .. }
                | Self::RegenDivergenceCheck(_)
                | Self::MailQueued { .. }
                | Self::MailRequeued { .. }
                | Self::MailDropped { .. }
                | Self::OracleHealthChanged { peer: Some(_), .. }
                | Self::OntologyRegistered(_)
                | Self::SourceChanged(_)
                | Self::FreshnessPolicySet(_)
                | Self::SourceInvalidated(_)
                | Self::SourceConfirmed(_)
                | Self::PipelineRegistered(_)
                | Self::AdapterRegistered(_)
                | Self::PullStarted(_)
                | Self::IngestionStarted(_)
                | Self::IngestionEnded(_)
                | Self::SourcePruned(_)
                | Self::WorkflowRegistered(_)
                | Self::VerificationDecided(_)
                | Self::ReviewOpened(_)
                | Self::ReviewResolved(_)
                | Self::KeptAnswersRemoved(_)
                | Self::RefusalDropped { .. }
                | Self::ReviewRevoked(_)
                | Self::ReviewDismissed(_)
        )
    }
}
