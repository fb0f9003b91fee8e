//! Every audit event, with the seed's field names.
//!
//! An event reports what was decided or changed, by whom and when; it never contains the text of a rejected
//! verdict. Its JSON is one line of `oracle_log.jsonl`, to which the journal adds `seq` and, if a request
//! caused it, `caller`.

mod backup;
mod caller;
mod common;
mod crosscheck;
mod erasable;
mod erasure;
pub mod ground;
mod json;
mod query;
mod retention;
mod rules;
pub mod verification;

pub use backup::BackupEntry;
pub use caller::{CallerSocket, DecidingUser, PeerCredentials, REQUEST_ID_MAX_CHARS, RequestCaller};
pub use common::{EventSeverity, LOST_ROWS, LostRow, ValueChange, read_open};
pub use crosscheck::CrosscheckEntry;
pub use erasure::{ErasureEndEntry, ErasureStartEntry};
pub use query::{QueryEntry, SourceReadKind, SourceReadOutcome};
pub use retention::{DueData, DueKind, RetentionEndEntry, RetentionStartEntry, SessionExpiryEntry};
pub use rules::{FactOriginEntry, FactsFromEntry, RuleEntry, RulesEntry};

use crate::base::application::ApplicationName;
use crate::base::decimal::Decimal;
use crate::base::digest::Sha256Hex;
use crate::verdict::divergence::{DivergenceCheck, OriginalLabel, RegenVariance};
use crate::verdict::gate_path::GatePath;
use crate::verdict::generation::VerdictGeneration;
use crate::verdict::generation_outcome::GenerationOutcome;
use crate::verdict::health::OracleHealthLevel;
use crate::verdict::interaction::OracleInteractionLog;
use crate::verdict::label::{ProductTier, VerdictLabel};
use crate::verdict::lookup::LookupEntry;
use crate::verdict::mail::{MailId, MailKind};
use crate::verdict::oracle::OracleId;
use crate::verdict::order::{OrderState, OrderStopCause};
use crate::verdict::policy::AppliedPolicy;
use crate::verdict::rejection::AnswerRejection;
use crate::verdict::session::SessionId;
use crate::verdict::webhook::WebhookEntry;
use ground::{
    ConfirmationEntry, DocumentEntry, InvalidationEntry, PruneEntry, PullEndedEntry, PullFailedEntry,
    PullStartedEntry, RebuildEntry, RunEntry, SourceEntry,
};
use jiff::{Timestamp, civil};
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumString, IntoStaticStr, VariantArray, VariantNames};
use verification::{
    AnswerRemovalEntry, CommentEntry, DismissalEntry, ResolutionEntry, ReviewEntry, RevocationEntry,
    SourceCallEntry, VerificationEntry,
};

/// One entry of the log, as its cause reports it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AuditEvent {
    /// The kind, with its details.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The session that the event is about; `None` if its id was erased.
    #[serde(default, deserialize_with = "read_open")]
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
}

/// The kind of an event, with its details; its name is the `event` field.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Serialize,
    Deserialize,
    EnumDiscriminants,
    IntoStaticStr,
    VariantNames,
    utoipa::ToSchema,
)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[strum_discriminants(
    name(EventName),
    derive(VariantArray, IntoStaticStr, EnumString),
    strum(serialize_all = "snake_case"),
    doc = "The name of an event: the `event` field."
)]
pub enum EventKind {
    /// A verdict was judged.
    TmmCrosscheck(CrosscheckEntry),
    /// The crosscheck failed with an internal error; nothing was approved.
    CrosscheckError {
        /// The path on which the verdict arrived.
        path: GatePath,
        /// Always `ERROR`.
        level: EventSeverity,
        /// The error.
        cause: String,
    },
    /// A text, or the text of a verdict, was checked against facts. `session_id` is null for a text without a session.
    RulesEvaluated(RulesEntry),
    /// The stored check that rejected a session's verdict was discarded to make room for newer ones.
    RefusalDropped,
    /// The policy held or refused a verdict that the crosscheck, and the rules if it has a check, approved.
    PolicyApplied {
        /// The action and its causes.
        #[serde(flatten)]
        policy: AppliedPolicy,
        /// The SHA-256 of the text.
        verdict_sha256: Sha256Hex,
        /// The path on which the verdict arrived.
        path: GatePath,
    },
    /// An approved verdict was stored in the cache and can be delivered.
    VerdictCached {
        /// The tier of the verdict.
        tier: ProductTier,
        /// The top-level verdict.
        verdict_label: VerdictLabel,
        /// The SHA-256 of the text.
        verdict_sha256: Sha256Hex,
        /// The path on which the verdict arrived.
        path: GatePath,
    },
    /// A cached verdict was removed by an administrator; its session stays.
    VerdictPurged {
        /// The SHA-256 of the removed text; null if the text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// A route or a look-up registered a session, or added details to it, so that a lost verdict can be regenerated.
    SessionRegistered {
        /// The tier of the verdict.
        tier: ProductTier,
        /// The first 80 Unicode scalar values of the query.
        query_preview: String,
        /// The label of the verdict that was delivered first, if known.
        original_verdict: OriginalLabel,
        /// Whether the session has an e-mail address.
        has_email: bool,
    },
    /// An unknown session was looked up at the payment service. If it was found, `session_registered` follows in the same
    /// commit, unless another request has registered the session meanwhile.
    SessionLookedUp(LookupEntry),
    /// The e-mail address of a registered session was set or changed.
    SessionAddressChanged {
        /// The HMAC-SHA-256 of the previous address under a key that only the store has; null if there was none.
        before: Option<Sha256Hex>,
        /// The HMAC-SHA-256 of the new address; null if there is none.
        after: Option<Sha256Hex>,
    },
    /// An administrator corrected a session: its address, its original verdict or its owner.
    SessionCorrected {
        /// The original verdict before and after.
        original_verdict: ValueChange<OriginalLabel>,
        /// Whether the address changed; `session_address_changed` has the digests.
        address_changed: bool,
        /// The user id that owns the session from now on; absent if that did not change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        owner_uid: Option<u32>,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// An administrator exported everything that is stored about a session.
    SessionExported {
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// An administrator removed a session with its cached verdict.
    SessionRemoved {
        /// The SHA-256 of the cached verdict that was removed with it; null if it had none, or if its text was damaged.
        verdict_sha256: Option<Sha256Hex>,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// The erasure of a session's data started.
    ErasureStarted(ErasureStartEntry),
    /// The data of a session were erased. Entries about the session have hashes in place of the erased values. `session_id` is
    /// missing if the id was erased, too.
    SessionErased(ErasureEndEntry),
    /// The removal of data that are older than configured started.
    RetentionStarted(RetentionStartEntry),
    /// The rows of old sessions were removed, at most 100 with an entry.
    SessionsExpired(SessionExpiryEntry),
    /// Data that are older than configured were removed. The entries of the log have hashes in place of the removed values.
    RetentionApplied(RetentionEndEntry),
    /// The regeneration of a lost verdict is about to start. This entry is committed before the model is called, so that
    /// the limit on regenerations holds after a restart.
    RegenAttempted {
        /// The tier of the verdict.
        tier: ProductTier,
        /// The digest of the prompt, and the settings of the model.
        generation: VerdictGeneration,
    },
    /// A request for a verdict that the model is to generate was accepted, and stored with its session.
    OrderPlaced {
        /// The tier of the verdict.
        tier: ProductTier,
        /// The first 80 Unicode scalar values of the query.
        query_preview: String,
        /// Whether the session has an e-mail address.
        has_email: bool,
    },
    /// The model is about to be asked for the verdict of an order. This entry is committed before the call, so that the limit
    /// on calls holds after a restart.
    OrderAttempted {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The digest of the prompt, and the settings of the model.
        generation: VerdictGeneration,
        /// The model, by its name among the oracles.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        oracle_id: Option<OracleId>,
        /// Whether it is the last attempt with this model, because the order is older than `orders.max_age_s`.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        is_last: bool,
    },
    /// An attempt brought no verdict that can be delivered.
    OrderAttemptFailed {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The outcome.
        outcome: GenerationOutcome,
        /// The error.
        cause: String,
        /// The faults for which the crosscheck or the rules rejected the answer; absent if they did not.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_open")]
        #[schema(nullable = false)]
        rejection: Option<AnswerRejection>,
        /// The time of the next attempt; null if the order was stopped or cancelled.
        next_attempt_at: Option<Timestamp>,
    },
    /// A limit, the policy or an operator stopped an order. It is held or failed.
    OrderStopped {
        /// The new state: `held` or `failed`.
        state: OrderState,
        /// Why it was stopped.
        cause: OrderStopCause,
        /// The number of attempts.
        attempts: u32,
        /// The operator's reason; null if a limit or the policy stopped the order.
        reason: Option<String>,
        /// The name of the operator; absent if the system had none, or if a limit or the policy stopped the order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_name: Option<String>,
        /// The operator's process; null if a limit or the policy stopped the order.
        peer: Option<PeerCredentials>,
    },
    /// An operator retried an order. Its limits count from now on. If the policy held its verdict, the text was destroyed.
    OrderRetried {
        /// The operator's reason.
        reason: String,
        /// The name of the operator; absent if the system had none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_name: Option<String>,
        /// The operator's process.
        peer: PeerCredentials,
    },
    /// An operator released the verdict that the policy held. `verdict_cached` and `order_delivered` are in the same
    /// commit.
    OrderReleased {
        /// The SHA-256 of the text.
        verdict_sha256: Sha256Hex,
        /// The operator's reason.
        reason: String,
        /// The name of the operator; absent if the system had none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_name: Option<String>,
        /// The operator's process.
        peer: PeerCredentials,
    },
    /// An operator read the text of a verdict that the policy holds.
    HeldVerdictRead {
        /// The SHA-256 of the text.
        verdict_sha256: Sha256Hex,
        /// The operator's process.
        peer: PeerCredentials,
    },
    /// The verdict of an order was delivered.
    OrderDelivered {
        /// The path on which the verdict arrived.
        path: GatePath,
        /// The number of attempts.
        attempts: u32,
    },
    /// The application or an operator cancelled an order. If the model was asked, its answer is discarded, and
    /// `order_attempt_failed` follows when the call ends. If the policy held its verdict, the text was destroyed.
    OrderCancelled {
        /// The state of the order before: `queued`, `generating` or `held`.
        from: OrderState,
        /// The number of attempts.
        attempts: u32,
        /// The operator's reason; absent if the application cancelled the order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The name of the operator; absent if the system had none, or if the application cancelled the order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_name: Option<String>,
        /// The process of the application or the operator; absent if the log is older than this member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<PeerCredentials>,
    },
    /// One request was sent to the model. The entry has the RFC's fields, and further details of the call.
    ///
    /// The entries of a call are committed when the call ends, after its retries, so they can be older than the entries before
    /// them. A kill loses those of calls in progress; `order_attempted` and `regen_attempted` are committed before.
    OracleInteraction(Box<OracleInteractionLog>),
    /// A regenerated verdict was compared with the verdict that was delivered first.
    RegenDivergenceCheck(DivergenceCheck),
    /// More than 5 % of the last 100 regenerated verdicts (of 20 at least) differ from the verdicts that were delivered
    /// first.
    InfrastructureVariance {
        /// The number of regenerations, and how many of them differed.
        #[serde(flatten)]
        variance: RegenVariance,
        /// The rate that was exceeded.
        threshold: f64,
        /// Always `ESCALATION`.
        level: EventSeverity,
    },
    /// The costs of a UTC day have reached a daily budget. No further verdict that it applies to is generated on this day.
    DailyBudgetReached {
        /// The application that has the budget; missing for the budget of all model calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        application: Option<ApplicationName>,
        /// The day.
        #[schema(value_type = String, format = Date)]
        day: civil::Date,
        /// The budget.
        budget: Decimal,
        /// The costs of the day.
        costs: Decimal,
        /// The currency of both.
        currency: String,
        /// Always `ESCALATION`.
        level: EventSeverity,
    },
    /// A mail was put into the outbox.
    MailQueued {
        /// The id of the mail.
        mail_id: MailId,
        /// The purpose of the mail.
        kind: MailKind,
    },
    /// The mail service accepted a mail.
    MailSent {
        /// The id of the mail.
        mail_id: MailId,
        /// The purpose of the mail.
        kind: MailKind,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// An attempt to send a mail failed.
    MailFailed {
        /// The id of the mail.
        mail_id: MailId,
        /// The purpose of the mail.
        kind: MailKind,
        /// The number of the attempt, from 1. For a notice that became too old, the number of its attempts until then.
        attempt: u32,
        /// The error.
        cause: String,
        /// The time of the next attempt; null if the mail is now a dead letter.
        next_attempt_at: Option<Timestamp>,
    },
    /// An administrator requeued a mail.
    MailRequeued {
        /// The id of the mail.
        mail_id: MailId,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// An administrator removed an unsent mail from the outbox.
    MailDropped {
        /// The id of the mail.
        mail_id: MailId,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// A webhook was put into the outbox.
    WebhookQueued(WebhookEntry),
    /// The endpoint accepted a webhook.
    WebhookSent {
        #[serde(flatten)]
        webhook: WebhookEntry,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// An attempt to send a webhook failed.
    WebhookFailed {
        #[serde(flatten)]
        webhook: WebhookEntry,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The error.
        cause: String,
        /// The time of the next attempt; null if the webhook is now a dead letter.
        next_attempt_at: Option<Timestamp>,
    },
    /// An administrator requeued a webhook.
    WebhookRequeued {
        #[serde(flatten)]
        webhook: WebhookEntry,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// An administrator removed an unsent webhook from the outbox.
    WebhookDropped {
        #[serde(flatten)]
        webhook: WebhookEntry,
        /// The administrator's process.
        peer: PeerCredentials,
    },
    /// An administrator drained or reloaded the daemon, set the level of the service log, or probed an oracle; or a signal
    /// reloaded the daemon.
    ControlAction {
        /// The verb.
        action: String,
        /// The details of the request; may be empty.
        detail: String,
        /// The administrator's process; null for a signal, because the kernel does not report its sender.
        peer: Option<PeerCredentials>,
    },
    /// The health status of an oracle changed, or an administrator opened or closed its circuit.
    OracleHealthChanged {
        /// The oracle.
        oracle_id: OracleId,
        /// The previous status.
        from: OracleHealthLevel,
        /// The new status.
        to: OracleHealthLevel,
        /// The cause of the change.
        cause: String,
        /// The number of failures since the last success.
        consecutive_failures: u32,
        /// The administrator's process; null if the result of calls, or elapsed time, caused the change.
        peer: Option<PeerCredentials>,
    },
    /// A document was registered, or changed.
    DocumentRegistered(DocumentEntry),
    /// A source was approved or deprecated.
    SourceChanged(SourceEntry),
    /// All data of a source was marked stale.
    SourceInvalidated(InvalidationEntry),
    /// Data of a source that was marked stale was confirmed as valid.
    SourceConfirmed(ConfirmationEntry),
    /// A payload is about to be pulled. This entry is committed before the source is called, so that schedules hold after a
    /// restart.
    PullStarted(PullStartedEntry),
    /// A payload was pulled, or the source had no new one.
    PullEnded(PullEndedEntry),
    /// A payload could not be pulled.
    PullFailed(PullFailedEntry),
    /// An ingestion run started.
    IngestionStarted(RunEntry),
    /// An ingestion run ended. Its records are visible, or the run has no effect.
    IngestionEnded(RunEntry),
    /// Old content and raw payloads of a source were removed.
    SourcePruned(PruneEntry),
    /// Damaged or missing files of a source were recreated.
    SourceRebuilt(RebuildEntry),
    /// A source was read by a query, by the id of a record, by the change feed, or by an export.
    ///
    /// These entries are written in groups, and the response does not wait for the disk: a crash may lose those of the last
    /// 100 ms. A clean stop loses none. While more than 4,096 of them wait, reads wait too; no entry is dropped. While the
    /// log accepts no entries, reads of sources get 503 `storage_unavailable`, and their entries go to standard error.
    SourceQueried(QueryEntry),
    /// A source was queried for a verification. The entry has the fields of the RFC's `OracleInteractionLog`.
    SourceAsked(SourceCallEntry),
    /// A verification was decided. The entry has all inputs, from which the same envelope can be computed again.
    VerificationDecided(VerificationEntry),
    /// A review was opened: a question that the sources did not settle. The entry has every candidate with its provenance.
    ReviewOpened(ReviewEntry),
    /// A reviewer decided a review.
    ReviewResolved(ResolutionEntry),
    /// Cached answers of live sources were removed: each was too old for its adapter, was read by another adapter, or only
    /// had the time of its issue.
    KeptAnswersRemoved(AnswerRemovalEntry),
    /// The resolution of a review was revoked.
    ReviewRevoked(RevocationEntry),
    /// A review was closed without a decision.
    ReviewDismissed(DismissalEntry),
    /// A reviewer commented on a review, which changes nothing else.
    ReviewCommented(CommentEntry),
    /// A backup of the whole state, or only a part of it, was sent to an administrator. If the disk is full, the entry goes to the
    /// service log.
    BackupTaken(BackupEntry),
    /// `oracle_log.jsonl` differed from the log. The file was moved aside, or missing lines were added to it.
    MirrorRepaired {
        /// The number of the first entry whose line was missing or different.
        damaged_seq: u64,
        /// Where its line was expected, in bytes from the start of the file.
        offset: u64,
    },
    /// The journal accepts entries again after a failure.
    StorageRecovered {
        /// The failure.
        cause: String,
        /// The time when the failure began.
        failed_at: Timestamp,
        /// The number of entries that were written to the service log as `log_fallback` in the meantime.
        fallback_entries: u64,
        /// The rows that every copy has lost.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_open")]
        #[schema(nullable = false)]
        lost_rows: Option<Vec<LostRow>>,
    },
    /// The daemon started to serve.
    ServiceStarted {
        /// The version of the daemon.
        version: String,
        /// The public key with which checkpoints of the log are verified from now on.
        log_key: String,
    },
    /// The key that signs checkpoints is another one than before: the daemon created it after a restore without the previous key,
    /// or an operator replaced it. `service_started` follows in the same commit.
    LogKeyReplaced {
        /// The public key before, the last one that the log names.
        before: String,
        /// The public key from now on.
        after: String,
    },
    /// The daemon shut down cleanly.
    ServiceStopped,
}

impl AuditEvent {
    #[must_use]
    pub fn new(timestamp: Timestamp, session_id: impl Into<Option<SessionId>>, kind: EventKind) -> Self {
        Self { kind, session_id: session_id.into(), timestamp }
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
            Self::SourceAsked(SourceCallEntry { execution_id, .. })
            | Self::VerificationDecided(VerificationEntry { execution_id, .. })
            // the id of a review is the execution id of its decision
            | Self::ReviewOpened(ReviewEntry { review_id: execution_id, .. })
            | Self::ReviewResolved(ResolutionEntry { review_id: execution_id, .. })
            | Self::ReviewRevoked(RevocationEntry { review_id: execution_id, .. })
            | Self::ReviewDismissed(DismissalEntry { review_id: execution_id, .. })
            | Self::ReviewCommented(CommentEntry { review_id: execution_id, .. }) => Some(execution_id),
            _ => None,
        }
    }

    /// The names of the events that name the public key of the log.
    pub const LOG_KEY_NAMES: [&'static str; 3] = ["service_started", "log_key_replaced", "retention_started"];

    /// The public key of the log, if the event names it. It is in use from then on.
    #[must_use]
    pub fn named_log_key(&self) -> Option<&str> {
        match self {
            Self::ServiceStarted { log_key, .. } | Self::LogKeyReplaced { after: log_key, .. } => {
                Some(log_key)
            }
            Self::RetentionStarted(started) => started.log_key.as_deref(),
            _ => None,
        }
    }

    /// Whether the event takes effect only if its entry is committed. A verdict was judged even if its entry
    /// is lost, but it is cached only by the commit of its entry.
    #[must_use]
    pub const fn needs_commit(&self) -> bool {
        !matches!(
            self,
            Self::TmmCrosscheck(_)
                | Self::CrosscheckError { .. }
                | Self::RulesEvaluated(_)
                | Self::PolicyApplied { .. }
                | Self::OracleInteraction(_)
                | Self::InfrastructureVariance { .. }
                | Self::DailyBudgetReached { .. }
                | Self::MailSent { .. }
                | Self::MailFailed { .. }
                | Self::BackupTaken(_)
                | Self::ControlAction { .. }
                | Self::OracleHealthChanged { peer: None, .. }
                | Self::PullEnded(_)
                | Self::PullFailed(_)
                | Self::SourceRebuilt(_)
                | Self::SourceQueried(_)
                | Self::SourceAsked(_)
                | Self::SessionLookedUp(_)
                | Self::MirrorRepaired { .. }
                | Self::StorageRecovered { .. }
                | Self::ServiceStarted { .. }
                | Self::LogKeyReplaced { .. }
                | Self::ServiceStopped
        )
    }
}

#[cfg(test)]
mod tests;
