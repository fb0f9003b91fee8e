//! The names of events.

use super::Event;

impl Event {
    /// The names of all events, for whoever asks the log for one kind.
    pub const KINDS: [&'static str; 34] = [
        "tmm_crosscheck",
        "crosscheck_error",
        "rules_evaluated",
        "verdict_cached",
        "verdict_purged",
        "session_registered",
        "regen_attempted",
        "oracle_interaction",
        "regen_divergence_check",
        "infrastructure_variance",
        "mail_queued",
        "mail_sent",
        "mail_failed",
        "mail_requeued",
        "mail_dropped",
        "control_action",
        "oracle_health_changed",
        "ontology_registered",
        "source_changed",
        "freshness_policy_set",
        "source_invalidated",
        "pipeline_registered",
        "pull_failed",
        "ingestion_started",
        "ingestion_ended",
        "source_pruned",
        "workflow_registered",
        "source_asked",
        "verification_decided",
        "review_opened",
        "review_resolved",
        "storage_recovered",
        "service_started",
        "service_stopped",
    ];

    /// The event's name: its `event` field.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TmmCrosscheck(_) => "tmm_crosscheck",
            Self::CrosscheckError { .. } => "crosscheck_error",
            Self::RulesEvaluated(_) => "rules_evaluated",
            Self::VerdictCached { .. } => "verdict_cached",
            Self::VerdictPurged { .. } => "verdict_purged",
            Self::SessionRegistered { .. } => "session_registered",
            Self::RegenAttempted { .. } => "regen_attempted",
            Self::OracleInteraction(_) => "oracle_interaction",
            Self::RegenDivergenceCheck(_) => "regen_divergence_check",
            Self::InfrastructureVariance { .. } => "infrastructure_variance",
            Self::MailQueued { .. } => "mail_queued",
            Self::MailSent { .. } => "mail_sent",
            Self::MailFailed { .. } => "mail_failed",
            Self::MailRequeued { .. } => "mail_requeued",
            Self::MailDropped { .. } => "mail_dropped",
            Self::ControlAction { .. } => "control_action",
            Self::OracleHealthChanged { .. } => "oracle_health_changed",
            Self::OntologyRegistered(_) => "ontology_registered",
            Self::SourceChanged(_) => "source_changed",
            Self::FreshnessPolicySet(_) => "freshness_policy_set",
            Self::SourceInvalidated(_) => "source_invalidated",
            Self::PipelineRegistered(_) => "pipeline_registered",
            Self::PullFailed(_) => "pull_failed",
            Self::IngestionStarted(_) => "ingestion_started",
            Self::IngestionEnded(_) => "ingestion_ended",
            Self::SourcePruned(_) => "source_pruned",
            Self::WorkflowRegistered(_) => "workflow_registered",
            Self::SourceAsked(_) => "source_asked",
            Self::VerificationDecided(_) => "verification_decided",
            Self::ReviewOpened(_) => "review_opened",
            Self::ReviewResolved(_) => "review_resolved",
            Self::StorageRecovered { .. } => "storage_recovered",
            Self::ServiceStarted { .. } => "service_started",
            Self::ServiceStopped { .. } => "service_stopped",
        }
    }
}
