//! The values of events that an erasure removes.

use super::EventKind;

impl EventKind {
    /// The members that have personal data, texts about a person, or digests of texts that can be guessed. Every kind is
    /// named, so that a new one cannot be forgotten. A nested value is erased with its member.
    #[must_use]
    pub const fn erasable_members(&self) -> &'static [&'static str] {
        match self {
            // a flag can have the name of a member that the model invented
            Self::TmmCrosscheck(_) => &["query_preview", "flags"],
            Self::PolicyApplied { .. } => &["causes"],
            Self::RulesEvaluated(_) => &[
                "case_id",
                "candidate_sha256",
                "facts_sha256",
                "facts_from",
                "input_sha256",
                "evaluation_sha256",
            ],
            Self::SessionRegistered { .. } | Self::OrderPlaced { .. } => &["query_preview"],
            Self::SessionLookedUp(_) => &["response_hash"],
            Self::SessionAddressChanged { .. } => &["before", "after"],
            // the settings of a generation have the digest of its prompt
            Self::RegenAttempted { .. } | Self::OrderAttempted { .. } => &["generation"],
            Self::OracleInteraction(_) => &["prompt_sha256", "response_hash"],
            Self::CrosscheckError { .. }
            | Self::OrderAttemptFailed { .. }
            | Self::MailFailed { .. }
            | Self::WebhookFailed { .. } => &["cause"],
            Self::OrderStopped { .. }
            | Self::OrderRetried { .. }
            | Self::OrderReleased { .. }
            | Self::ReviewDismissed(_) => &["reason"],
            Self::SourceAsked(_) => &["response_hash"],
            Self::VerificationDecided(_) => &["envelope_sha256", "envelope", "inputs"],
            Self::ReviewOpened(_) => &["review"],
            Self::ReviewResolved(_) => &["resolution", "locks"],
            Self::ReviewRevoked(_) => &["reason", "locks"],
            Self::SourceQueried(_) => &["query_id", "request_sha256"],
            Self::RefusalDropped
            | Self::VerdictCached { .. }
            | Self::VerdictPurged { .. }
            | Self::SessionCorrected { .. }
            | Self::SessionExported { .. }
            | Self::SessionRemoved { .. }
            | Self::ErasureStarted(_)
            | Self::SessionErased(_)
            | Self::HeldVerdictRead { .. }
            | Self::OrderDelivered { .. }
            | Self::RegenDivergenceCheck(_)
            | Self::InfrastructureVariance { .. }
            | Self::DailyBudgetReached { .. }
            | Self::MailQueued { .. }
            | Self::MailSent { .. }
            | Self::MailRequeued { .. }
            | Self::MailDropped { .. }
            | Self::WebhookQueued(_)
            | Self::WebhookSent { .. }
            | Self::WebhookRequeued { .. }
            | Self::WebhookDropped { .. }
            | Self::ControlAction { .. }
            | Self::OracleHealthChanged { .. }
            | Self::DocumentRegistered(_)
            | Self::SourceChanged(_)
            | Self::SourceInvalidated(_)
            | Self::SourceConfirmed(_)
            | Self::PullStarted(_)
            | Self::PullEnded(_)
            | Self::PullFailed(_)
            | Self::IngestionStarted(_)
            | Self::IngestionEnded(_)
            | Self::SourcePruned(_)
            | Self::SourceRebuilt(_)
            | Self::KeptAnswersRemoved(_)
            | Self::MirrorRepaired { .. }
            | Self::StorageRecovered { .. }
            | Self::ServiceStarted { .. }
            | Self::ServiceStopped => &[],
        }
    }
}
