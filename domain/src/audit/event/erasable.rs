//! The values of events that an erasure removes.

use super::{EventKind, EventName};

/// The members of an evaluation of rules: each can be the digest of a text that can be guessed.
const RULES_MEMBERS: [&str; 6] =
    ["case_id", "candidate_sha256", "facts_sha256", "facts_from", "input_sha256", "evaluation_sha256"];

impl EventKind {
    /// The members whose values the log commits to, so that they can be erased.
    #[must_use]
    pub fn erasable_members(&self) -> &'static [&'static str] {
        EventName::from(self).erasable_members()
    }
}

impl EventName {
    /// The members that have personal data, texts about a person, or digests of texts that can be guessed. Every kind is
    /// named, so that a new one cannot be forgotten. A nested value is erased with its member.
    #[must_use]
    pub const fn erasable_members(self) -> &'static [&'static str] {
        match self {
            // a flag can have the name of a member that the model invented
            Self::TmmCrosscheck => &["query_preview", "flags"],
            Self::PolicyApplied => &["causes"],
            Self::RulesEvaluated => &RULES_MEMBERS,
            Self::SessionRegistered | Self::OrderPlaced => &["query_preview"],
            Self::SessionLookedUp => &["response_hash"],
            Self::SessionAddressChanged => &["before", "after"],
            // the settings of a generation have the digest of its prompt
            Self::RegenAttempted | Self::OrderAttempted => &["generation"],
            Self::OracleInteraction => &["prompt_sha256", "response_hash"],
            Self::OrderAttemptFailed => &["cause", "rejection"],
            Self::CrosscheckError | Self::MailFailed | Self::WebhookFailed => &["cause"],
            Self::OrderStopped | Self::OrderRetried | Self::OrderReleased | Self::OrderCancelled => {
                &["reason", "user_name"]
            }
            Self::SourceAsked => &["response_hash"],
            Self::VerificationDecided => &["envelope_sha256", "envelope", "inputs"],
            Self::ReviewOpened => &["review"],
            Self::ReviewResolved => &["resolution", "locks", "verifier_name"],
            Self::ReviewRevoked => &["reason", "locks", "verifier_name"],
            Self::ReviewDismissed => &["reason", "verifier_name"],
            Self::ReviewCommented => &["text", "author_name"],
            Self::SourceQueried => &["query_id", "request_sha256"],
            Self::StorageRecovered => &["lost_rows"],
            Self::RefusalDropped
            | Self::VerdictCached
            | Self::VerdictPurged
            | Self::SessionCorrected
            | Self::SessionExported
            | Self::SessionRemoved
            | Self::BackupTaken
            | Self::ErasureStarted
            | Self::SessionErased
            | Self::RetentionStarted
            | Self::SessionsExpired
            | Self::RetentionApplied
            | Self::HeldVerdictRead
            | Self::OrderDelivered
            | Self::RegenDivergenceCheck
            | Self::InfrastructureVariance
            | Self::DailyBudgetReached
            | Self::MailQueued
            | Self::MailSent
            | Self::MailRequeued
            | Self::MailDropped
            | Self::WebhookQueued
            | Self::WebhookSent
            | Self::WebhookRequeued
            | Self::WebhookDropped
            | Self::ControlAction
            | Self::OracleHealthChanged
            | Self::DocumentRegistered
            | Self::SourceChanged
            | Self::SourceInvalidated
            | Self::SourceConfirmed
            | Self::PullStarted
            | Self::PullEnded
            | Self::PullFailed
            | Self::IngestionStarted
            | Self::IngestionEnded
            | Self::SourcePruned
            | Self::SourceRebuilt
            | Self::KeptAnswersRemoved
            | Self::MirrorRepaired
            | Self::ServiceStarted
            | Self::LogKeyReplaced
            | Self::ServiceStopped => &[],
        }
    }
}
