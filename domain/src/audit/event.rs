//! Every audit event, with the seed's field names.
//!
//! An event reports what was decided or changed, by whom and when; it never contains the text of a rejected verdict. Its JSON
//! is one line of `oracle_log.jsonl`, to which the journal adds `seq` and, if a request caused it, `caller`.

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
use crate::verdict::divergence::{DivergenceCheck, OriginalLabel, Variance};
use crate::verdict::gate_path::GatePath;
use crate::verdict::generation::Generation;
use crate::verdict::health::Status;
use crate::verdict::interaction::Interaction;
use crate::verdict::label::{Label, Tier};
use crate::verdict::mail::{MailId, MailKind};
use crate::verdict::oracle::OracleId;
use crate::verdict::session::SessionId;
use ground::{
    AdapterEntry, ConfirmationEntry, FreshnessEntry, InvalidationEntry, OntologyEntry, PipelineEntry,
    PruneEntry, PullEndedEntry, PullFailedEntry, PullStartedEntry, RebuildEntry, RunEntry, SourceEntry,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use strum::{IntoStaticStr, VariantNames};
use verification::{
    DismissalEntry, KeptRemovedEntry, ResolutionEntry, ReviewEntry, RevocationEntry, SourceAskedEntry,
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

/// One entry of the log, as its cause reports it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Event {
    /// The kind, with its details.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The session that the event is about.
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
}

/// The kind of an event, with its details; its name is the `event` field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr, VariantNames)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    /// A verdict was judged.
    TmmCrosscheck(CrosscheckEntry),
    /// Judging failed inside; nothing was approved.
    CrosscheckError {
        /// On which path it came.
        path: GatePath,
        /// Always `ERROR`.
        level: EventSeverity,
        /// What went wrong.
        cause: String,
    },
    /// A text, or what a verdict says in words, was checked against facts.
    RulesEvaluated(RulesEntry),
    /// The check that refused a session's verdict was dropped to make room for newer ones.
    RefusalDropped {
        /// The user id that submitted the refused verdict.
        owner_uid: Option<u32>,
    },
    /// An approved verdict was stored and may be answered from now on.
    VerdictCached {
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
    },
    /// A cached verdict was removed by an administrator; its session stays.
    VerdictPurged {
        /// The SHA-256 of the removed text; null if the text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// By whom.
        peer: Peer,
    },
    /// A route told of a session, or more of one, that a later read may need.
    SessionRegistered {
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
    },
    /// The address of a known session was set or changed.
    SessionAddressChanged {
        /// The user id that owns the session.
        owner_uid: Option<u32>,
        /// The address before, as its HMAC-SHA-256 under a key that only the store has; null where there was none.
        before: Option<Sha256Hex>,
        /// The address after, likewise.
        after: Option<Sha256Hex>,
    },
    /// An administrator corrected a session: its address, its original verdict or its owner.
    SessionCorrected {
        /// The owner before and after.
        owner_uid: ValueChange<Option<u32>>,
        /// The original verdict before and after.
        original_verdict: ValueChange<OriginalLabel>,
        /// Whether the address changed; `session_address_changed` has the digests.
        address_changed: bool,
        /// By whom.
        peer: Peer,
    },
    /// An administrator removed a session with its cached verdict.
    SessionRemoved {
        /// The user id that owned the session.
        owner_uid: Option<u32>,
        /// The SHA-256 of the cached verdict that was removed with it; null if it had none, or if its text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// By whom.
        peer: Peer,
    },
    /// A lost verdict is about to be regenerated: written down before the model is asked, so that the limit on
    /// regenerations holds over a restart.
    RegenAttempted {
        /// Of which tier.
        tier: Tier,
        /// How it is made.
        generation: Generation,
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
        level: EventSeverity,
    },
    /// A mail was put into the outbox.
    MailQueued {
        /// Which.
        mail_id: MailId,
        /// What it is for.
        kind: MailKind,
    },
    /// The mail service has taken a mail.
    MailSent {
        /// Which.
        mail_id: MailId,
        /// What it is for.
        kind: MailKind,
        /// At which attempt.
        attempt: u32,
    },
    /// A mail could not be sent.
    MailFailed {
        /// Which.
        mail_id: MailId,
        /// What it is for.
        kind: MailKind,
        /// At which attempt.
        attempt: u32,
        /// What went wrong.
        cause: String,
        /// When it is tried again; null if it is not: it is a dead letter now.
        next_attempt_at: Option<Timestamp>,
    },
    /// An administrator had a mail tried anew.
    MailRequeued {
        /// Which.
        mail_id: MailId,
        /// By whom.
        peer: Peer,
    },
    /// An administrator took a mail out of the outbox unsent.
    MailDropped {
        /// Which.
        mail_id: MailId,
        /// By whom.
        peer: Peer,
    },
    /// An administrator changed how the daemon runs.
    ControlAction {
        /// Which verb.
        action: String,
        /// What it was asked to do.
        detail: String,
        /// By whom; null for a signal, whose sender the kernel does not name.
        peer: Option<Peer>,
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
    PullStarted(PullStartedEntry),
    /// A payload was pulled, or there was nothing new.
    PullEnded(PullEndedEntry),
    /// A payload could not be pulled.
    PullFailed(PullFailedEntry),
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
    SourceAsked(SourceAskedEntry),
    /// It was decided what is told of a question.
    VerificationDecided(VerificationEntry),
    /// A question was put before a person.
    ReviewOpened(ReviewEntry),
    /// A person has decided.
    ReviewResolved(ResolutionEntry),
    /// Answers of live sources are not kept any more.
    KeptAnswersRemoved(KeptRemovedEntry),
    /// A person has taken back what was decided.
    ReviewRevoked(RevocationEntry),
    /// A person has closed a review without deciding anything.
    ReviewDismissed(DismissalEntry),
    /// The journal takes entries again after a time in which it could not.
    StorageRecovered {
        /// What had failed.
        cause: String,
        /// Since when.
        failed_at: Timestamp,
        /// How many entries went to the service log as `log_fallback` meanwhile.
        fallback_entries: u64,
    },
    /// The daemon began to serve.
    ServiceStarted {
        /// Its version.
        version: String,
    },
    /// The daemon ended in good order.
    ServiceStopped,
}

/// A value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange<T> {
    /// Before.
    pub before: T,
    /// After.
    pub after: T,
}

/// The severity of an event, where the specification requires one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventSeverity {
    /// Something failed.
    Error,
    /// An operator must act.
    Escalation,
}

impl Event {
    /// An event of `session_id` at `timestamp`.
    #[must_use]
    pub fn new(timestamp: Timestamp, session_id: impl Into<Option<SessionId>>, kind: EventKind) -> Self {
        Self { kind, session_id: session_id.into(), timestamp }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct EventFields<'e> {
            #[serde(flatten)]
            kind: &'e EventKind,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_id: Option<Option<&'e SessionId>>,
            timestamp: Timestamp,
        }
        // an evaluation of a text without a session has `"session_id": null`
        let has_field = self.session_id.is_some() || matches!(self.kind, EventKind::RulesEvaluated(_));
        let session_id = has_field.then_some(self.session_id.as_ref());
        EventFields { kind: &self.kind, session_id, timestamp: self.timestamp }.serialize(serializer)
    }
}

impl EventKind {
    /// The names of all kinds, in the order of their declaration.
    pub const NAMES: &'static [&'static str] = Self::VARIANTS;

    /// The kind's name: the `event` field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The verification that the event is part of.
    #[must_use]
    pub fn execution_id(&self) -> Option<&str> {
        match self {
            Self::SourceAsked(SourceAskedEntry { execution_id, .. })
            | Self::VerificationDecided(VerificationEntry { execution_id, .. })
            // the id of a review is the execution id of its decision
            | Self::ReviewOpened(ReviewEntry { review_id: execution_id, .. })
            | Self::ReviewResolved(ResolutionEntry { review_id: execution_id, .. })
            | Self::ReviewRevoked(RevocationEntry { review_id: execution_id, .. })
            | Self::ReviewDismissed(DismissalEntry { review_id: execution_id, .. }) => Some(execution_id),
            _ => None,
        }
    }

    /// Whether the event did not happen unless its entry was committed. A verdict was judged even if its entry is lost, but
    /// it is cached only by the commit of its entry.
    #[must_use]
    pub const fn needs_commit(&self) -> bool {
        !matches!(
            self,
            Self::TmmCrosscheck(_)
                | Self::CrosscheckError { .. }
                | Self::RulesEvaluated(_)
                | Self::OracleInteraction(_)
                | Self::InfrastructureVariance { .. }
                | Self::MailSent { .. }
                | Self::MailFailed { .. }
                | Self::ControlAction { .. }
                | Self::OracleHealthChanged { peer: None, .. }
                | Self::PullEnded(_)
                | Self::PullFailed(_)
                | Self::SourceRebuilt(_)
                | Self::SourceQueried(_)
                | Self::SourceAsked(_)
                | Self::StorageRecovered { .. }
                | Self::ServiceStarted { .. }
                | Self::ServiceStopped
        )
    }
}

#[cfg(test)]
mod tests;
