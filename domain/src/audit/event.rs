//! Every audit event, with the seed's field names.
//!
//! An event says what was decided or changed, by whom and when; it never holds a rejected verdict's text. Its
//! JSON is one line of `oracle_log.jsonl`, to which the journal adds `seq` and, where a request caused it, `caller`.

mod about;
mod caller;
mod crosscheck;
pub mod ground;
mod query;
mod rules;
pub mod verification;

pub use caller::{Caller, REQUEST_ID_MAX_CHARS};
pub use crosscheck::CrosscheckEntry;
pub use query::{QueryEntry, ReadKind, ReadOutcome};
pub use rules::{FactsFromEntry, OriginEntry, RuleEntry, RulesEntry};

use crate::base::digest::Sha256Hex;
use crate::verdict::crosscheck::Judgement;
use crate::verdict::divergence::{DivergenceCheck, OriginalLabel, Variance};
use crate::verdict::gate_path::GatePath;
use crate::verdict::generation::Generation;
use crate::verdict::health::Status;
use crate::verdict::interaction::Interaction;
use crate::verdict::label::{Label, Tier};
use crate::verdict::mail::{MailId, MailKind};
use crate::verdict::oracle::OracleId;
use crate::verdict::session::{Query, SessionId};
use ground::{
    AdapterEntry, ConfirmationEntry, FreshnessEntry, InvalidationEntry, OntologyEntry, PipelineEntry,
    PruneEntry, PullEnd, PullEntry, PullFailure, RebuildEntry, RunEntry, SourceEntry,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use verification::{
    DismissalEntry, KeptRemovedEntry, OracleInteraction, ResolutionEntry, ReviewEntry, RevocationEntry,
    VerificationEntry, WorkflowEntry,
};

/// Who sent a control message, as the kernel tells it (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; absent where the kernel names none.
    pub pid: Option<i32>,
}

/// One thing that happened and must be known later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr, VariantNames)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Event {
    /// A verdict was judged.
    TmmCrosscheck(CrosscheckEntry),
    /// Judging failed inside; nothing was approved.
    CrosscheckError {
        /// Whose verdict.
        session_id: SessionId,
        /// On which path it came.
        path: GatePath,
        /// Always `ERROR`.
        level: Severity,
        /// What went wrong.
        cause: String,
        /// When.
        timestamp: Timestamp,
    },
    /// A text, or what a verdict says in words, was checked against facts.
    RulesEvaluated(RulesEntry),
    /// The check that refused a session's verdict was dropped to make room for newer ones.
    RefusalDropped {
        /// The session.
        session_id: SessionId,
        /// The user id that submitted the refused verdict.
        owner_uid: Option<u32>,
        /// When.
        timestamp: Timestamp,
    },
    /// An approved verdict was stored and may be answered from now on.
    VerdictCached {
        /// Whose.
        session_id: SessionId,
        /// Of which tier.
        tier: Tier,
        /// Its top-level verdict.
        verdict_label: Label,
        /// The SHA-256 of its text.
        verdict_sha256: Sha256Hex,
        /// On which path it came.
        path: GatePath,
        /// The user id that owns the session.
        owner_uid: Option<u32>,
        /// When.
        timestamp: Timestamp,
    },
    /// A cached verdict was removed by an administrator; its session stays.
    VerdictPurged {
        /// Whose.
        session_id: SessionId,
        /// The SHA-256 of the removed text; null if the text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// A lost verdict is about to be regenerated: written down before the model is asked, so that the limit on
    /// regenerations holds over a restart.
    RegenAttempted {
        /// Whose.
        session_id: SessionId,
        /// Of which tier.
        tier: Tier,
        /// How it is made.
        generation: Generation,
        /// When.
        timestamp: Timestamp,
    },
    /// An upstream was asked something.
    OracleInteraction(Interaction),
    /// A regenerated verdict was held against the one that was delivered first.
    RegenDivergenceCheck(DivergenceCheck),
    /// Regenerations differ from what was delivered more often than chance explains.
    InfrastructureVariance {
        /// How often.
        #[serde(flatten)]
        variance: Variance,
        /// The rate that was exceeded.
        threshold: f64,
        /// Always `ESCALATION`.
        level: Severity,
        /// When.
        timestamp: Timestamp,
    },
    /// A route told of a session, or more of one, that a later read may need.
    SessionRegistered {
        /// Whose.
        session_id: SessionId,
        /// Of which tier.
        tier: Tier,
        /// The first 80 Unicode scalar values of the query.
        query_preview: String,
        /// The verdict that was delivered first, as far as it is known.
        original_verdict: OriginalLabel,
        /// Whether there is an address to mail to.
        has_email: bool,
        /// The user id that owns the session.
        owner_uid: Option<u32>,
        /// When.
        timestamp: Timestamp,
    },
    /// The address of a known session was set or changed.
    SessionAddressChanged {
        /// The session.
        session_id: SessionId,
        /// The user id that owns the session.
        owner_uid: Option<u32>,
        /// The address before, as its HMAC-SHA-256 under a key that only the store has; null where there was none.
        before: Option<Sha256Hex>,
        /// The address after, likewise.
        after: Option<Sha256Hex>,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator corrected a session: its address, its original verdict or its owner.
    SessionCorrected {
        /// The session.
        session_id: SessionId,
        /// The owner before and after.
        owner_uid: Change<Option<u32>>,
        /// The original verdict before and after.
        original_verdict: Change<OriginalLabel>,
        /// Whether the address changed; `session_address_changed` has the digests.
        address_changed: bool,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator removed a session with its cached verdict.
    SessionRemoved {
        /// The session.
        session_id: SessionId,
        /// The user id that owned the session.
        owner_uid: Option<u32>,
        /// The SHA-256 of the cached verdict that was removed with it; null if it had none, or if its text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// A mail was put into the outbox.
    MailQueued {
        /// Which.
        mail_id: MailId,
        /// About whose verdict.
        session_id: SessionId,
        /// What it is for.
        kind: MailKind,
        /// When.
        timestamp: Timestamp,
    },
    /// The mail service has taken a mail.
    MailSent {
        /// Which.
        mail_id: MailId,
        /// About whose verdict.
        session_id: SessionId,
        /// What it is for.
        kind: MailKind,
        /// At which attempt.
        attempt: u32,
        /// When.
        timestamp: Timestamp,
    },
    /// A mail could not be sent.
    MailFailed {
        /// Which.
        mail_id: MailId,
        /// About whose verdict.
        session_id: SessionId,
        /// What it is for.
        kind: MailKind,
        /// At which attempt.
        attempt: u32,
        /// What went wrong.
        cause: String,
        /// When it is tried again; null if it is not: it is a dead letter now.
        next_attempt_at: Option<Timestamp>,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator had a mail tried anew.
    MailRequeued {
        /// Which.
        mail_id: MailId,
        /// About whose verdict.
        session_id: SessionId,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator took a mail out of the outbox unsent.
    MailDropped {
        /// Which.
        mail_id: MailId,
        /// About whose verdict.
        session_id: SessionId,
        /// By whom.
        peer: Peer,
        /// When.
        timestamp: Timestamp,
    },
    /// An administrator changed how the daemon runs.
    ControlAction {
        /// Which verb.
        action: String,
        /// What it was asked to do.
        detail: String,
        /// By whom; null for a signal, whose sender the kernel does not name.
        peer: Option<Peer>,
        /// When.
        timestamp: Timestamp,
    },
    /// An oracle is doing better or worse, or an administrator opened or closed its circuit.
    OracleHealthChanged {
        /// Which one.
        oracle_id: OracleId,
        /// How it was doing.
        from: Status,
        /// How it is doing now.
        to: Status,
        /// Why.
        cause: String,
        /// Failures since its last success.
        consecutive_failures: u32,
        /// By whom; null where it came of calls or of time.
        peer: Option<Peer>,
        /// When.
        timestamp: Timestamp,
    },
    /// A version of an ontology was registered.
    OntologyRegistered(OntologyEntry),
    /// A source was registered, or changed.
    SourceChanged(SourceEntry),
    /// A source has another freshness policy.
    FreshnessPolicySet(FreshnessEntry),
    /// What a source has said was declared stale.
    SourceInvalidated(InvalidationEntry),
    /// What a source has said was declared stale, and holds after all.
    SourceConfirmed(ConfirmationEntry),
    /// A pipeline was registered, or has another definition.
    PipelineRegistered(PipelineEntry),
    /// A live source has an adapter, or another one.
    AdapterRegistered(AdapterEntry),
    /// A payload is about to be pulled: written down before its source is asked, so that schedules hold over a restart.
    PullStarted(PullEntry),
    /// A payload was pulled, or there was nothing new.
    PullEnded(PullEnd),
    /// A payload could not be pulled.
    PullFailed(PullFailure),
    /// An ingestion run has begun.
    IngestionStarted(RunEntry),
    /// An ingestion run has ended: with its records visible, or with nothing.
    IngestionEnded(RunEntry),
    /// Old content and raw payloads of a source were removed.
    SourcePruned(PruneEntry),
    /// Damaged files of a source were made anew.
    SourceRebuilt(RebuildEntry),
    /// A source was read: by a query, by the id of a record, by the change feed, or as a whole.
    SourceQueried(QueryEntry),
    /// A workflow of verification was registered, or has another definition.
    WorkflowRegistered(WorkflowEntry),
    /// A source was asked for a verification.
    SourceAsked(OracleInteraction),
    /// It was decided what is told of a question.
    VerificationDecided(VerificationEntry),
    /// A question was put before a person.
    ReviewOpened(ReviewEntry),
    /// A person has decided.
    ReviewResolved(ResolutionEntry),
    /// A person has taken back what was decided.
    ReviewRevoked(RevocationEntry),
    /// A person has closed a review without deciding anything.
    ReviewDismissed(DismissalEntry),
    /// Answers of live sources are not kept any more.
    KeptAnswersRemoved(KeptRemovedEntry),
    /// The journal takes entries again after a time in which it could not.
    StorageRecovered {
        /// What had failed.
        cause: String,
        /// Since when.
        failed_at: Timestamp,
        /// How many entries went to the service log as `log_fallback` meanwhile.
        fallback_entries: u64,
        /// When.
        timestamp: Timestamp,
    },
    /// The daemon began to serve.
    ServiceStarted {
        /// Its version.
        version: String,
        /// When.
        timestamp: Timestamp,
    },
    /// The daemon ended in good order.
    ServiceStopped {
        /// When.
        timestamp: Timestamp,
    },
}

/// A value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change<T> {
    /// Before.
    pub before: T,
    /// After.
    pub after: T,
}

/// How grave an event is, where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// Something failed.
    Error,
    /// Somebody has to look into it.
    Escalation,
}

impl Event {
    /// The entry for `judgement` of a verdict that came in on `path` at `at`.
    #[must_use]
    pub fn judged(
        judgement: &Judgement,
        session_id: SessionId,
        query: &Query,
        path: GatePath,
        at: Timestamp,
    ) -> Self {
        Self::TmmCrosscheck(CrosscheckEntry::of(judgement, session_id, query, path, at))
    }

    /// When it happened.
    #[must_use]
    pub const fn timestamp(&self) -> Timestamp {
        match self {
            Self::TmmCrosscheck(CrosscheckEntry { timestamp, .. })
            | Self::OracleInteraction(Interaction { timestamp, .. })
            | Self::RegenDivergenceCheck(DivergenceCheck { timestamp, .. })
            | Self::RulesEvaluated(RulesEntry { timestamp, .. })
            | Self::CrosscheckError { timestamp, .. }
            | Self::RefusalDropped { timestamp, .. }
            | Self::VerdictCached { timestamp, .. }
            | Self::VerdictPurged { timestamp, .. }
            | Self::SessionRegistered { timestamp, .. }
            | Self::SessionAddressChanged { timestamp, .. }
            | Self::SessionCorrected { timestamp, .. }
            | Self::SessionRemoved { timestamp, .. }
            | Self::RegenAttempted { timestamp, .. }
            | Self::InfrastructureVariance { timestamp, .. }
            | Self::MailQueued { timestamp, .. }
            | Self::MailSent { timestamp, .. }
            | Self::MailFailed { timestamp, .. }
            | Self::MailRequeued { timestamp, .. }
            | Self::MailDropped { timestamp, .. }
            | Self::ControlAction { timestamp, .. }
            | Self::OracleHealthChanged { timestamp, .. }
            | Self::OntologyRegistered(OntologyEntry { timestamp, .. })
            | Self::SourceChanged(SourceEntry { timestamp, .. })
            | Self::FreshnessPolicySet(FreshnessEntry { timestamp, .. })
            | Self::SourceInvalidated(InvalidationEntry { timestamp, .. })
            | Self::SourceConfirmed(ConfirmationEntry { timestamp, .. })
            | Self::PipelineRegistered(PipelineEntry { timestamp, .. })
            | Self::AdapterRegistered(AdapterEntry { timestamp, .. })
            | Self::PullStarted(PullEntry { timestamp, .. })
            | Self::PullEnded(PullEnd { timestamp, .. })
            | Self::PullFailed(PullFailure { timestamp, .. })
            | Self::IngestionStarted(RunEntry { timestamp, .. })
            | Self::IngestionEnded(RunEntry { timestamp, .. })
            | Self::SourcePruned(PruneEntry { timestamp, .. })
            | Self::SourceRebuilt(RebuildEntry { timestamp, .. })
            | Self::SourceQueried(QueryEntry { timestamp, .. })
            | Self::WorkflowRegistered(WorkflowEntry { timestamp, .. })
            | Self::SourceAsked(OracleInteraction { timestamp, .. })
            | Self::VerificationDecided(VerificationEntry { timestamp, .. })
            | Self::ReviewOpened(ReviewEntry { timestamp, .. })
            | Self::ReviewResolved(ResolutionEntry { timestamp, .. })
            | Self::KeptAnswersRemoved(KeptRemovedEntry { timestamp, .. })
            | Self::ReviewRevoked(RevocationEntry { timestamp, .. })
            | Self::ReviewDismissed(DismissalEntry { timestamp, .. })
            | Self::StorageRecovered { timestamp, .. }
            | Self::ServiceStarted { timestamp, .. }
            | Self::ServiceStopped { timestamp } => *timestamp,
        }
    }
}

#[cfg(test)]
mod tests;
