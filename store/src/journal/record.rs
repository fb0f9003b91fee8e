//! The unit of writing: events and the changes that they report, as plain data.

use crate::audit::log::RecordCallers;
use crate::ground::state::SourceState;
use oracled_domain::documents::{DocumentKind, RegisteredDocument, RegistryDocument};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::pipeline::PipelineDefinition;
use oracled_domain::ground::run::IngestionRun;
use oracled_domain::verdict::held::HeldVerdict;
use oracled_domain::verdict::session::RejectingCheck;
use oracled_domain::verification::review::ReviewState;
use oracled_domain::verification::{CachedAnswer, CachedAnswerKey, DecisionInputs, SubjectKey, SubjectState};
use oracled_domain::{
    AuditEvent, MailId, OutboxMail, OutboxWebhook, RegenAttempt, SessionId, SessionRecord, Sha256Hex,
    VerdictDelivery, WebhookId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// Events and changes that are committed together: all of them, or none.
///
/// A record is plain data, and applying one to equal stores gives equal stores, except for the salts in its entries and the
/// hashes of these. It contains its own times, and its entry numbers depend only on the order of the records.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JournalRecord {
    /// The rows on which the record depends, with their revisions.
    pub expect: Vec<RowExpectation>,
    /// The events for the audit log, in this order.
    pub events: Vec<AuditEvent>,
    /// The changes of the tables.
    pub writes: Vec<TableWrite>,
    /// The callers that caused the events. No table depends on them.
    pub callers: RecordCallers,
}

impl From<AuditEvent> for JournalRecord {
    fn from(event: AuditEvent) -> Self {
        Self { events: vec![event], ..Self::default() }
    }
}

/// A row that must be unchanged since it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowExpectation {
    pub row: RowKey,
    /// Its revision: the number of the entry that wrote it; `None` if the row must not exist.
    pub revision: Option<u64>,
}

/// The name of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RowKey {
    /// A cached verdict.
    Verdict(SessionId),
    Session(SessionId),
    /// The latest attempt to regenerate a session's verdict.
    Regen(SessionId),
    /// The check that rejected a verdict of an unknown session.
    Refusal(SessionId),
    /// The verdict of a session that the policy holds.
    Held(SessionId),
    /// A mail in the outbox.
    Mail(MailId),
    /// A webhook in the outbox.
    Webhook(WebhookId),
    /// A registered document, by its kind and its id. Sources and their freshness policies have the row `Source`.
    Document(DocumentKind, String),
    Source(SourceId),
    /// A pipeline's definition, by its digest.
    Definition(Sha256Hex),
    /// A run, by its id.
    Run(Sha256Hex),
    /// A review, by its id.
    Review(String),
    /// The open reviews, locks and baselines of a subject in a workflow.
    Subject(SubjectKey),
    /// The cached answer of a live source about a subject.
    Kept(CachedAnswerKey),
    /// A pending decision, by its execution id.
    Pending(String),
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(id) => write!(f, "the cached verdict of session {id}"),
            Self::Session(id) => write!(f, "session {id}"),
            Self::Regen(id) => write!(f, "the regeneration of session {id}"),
            Self::Refusal(id) => write!(f, "the rejection of session {id}"),
            Self::Held(id) => write!(f, "the held verdict of session {id}"),
            Self::Mail(id) => write!(f, "mail {id}"),
            Self::Webhook(id) => write!(f, "webhook {id}"),
            Self::Document(kind, id) => write!(f, "{kind} {id}"),
            Self::Source(id) => write!(f, "source {id}"),
            Self::Definition(sha256) => write!(f, "the pipeline definition {sha256}"),
            Self::Run(id) => write!(f, "run {id}"),
            Self::Review(id) => write!(f, "review {id}"),
            Self::Subject(SubjectKey { workflow_id, about }) => {
                write!(f, "the subject {about} of workflow {workflow_id}")
            }
            Self::Kept(CachedAnswerKey { oracle_id, about }) => {
                write!(f, "the cached answer of {oracle_id} about {about}")
            }
            Self::Pending(id) => write!(f, "the pending decision {id}"),
        }
    }
}

/// One change of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TableWrite {
    /// Caches a delivered verdict. Replaces any other verdict of its session.
    PutVerdict(Arc<VerdictDelivery>),
    /// Removes a cached verdict.
    RemoveVerdict(SessionId),
    /// Stores a session. Replaces any other with its id.
    PutSession(Arc<SessionRecord>),
    /// Removes a session.
    RemoveSession(SessionId),
    /// Stores an attempt to regenerate a verdict. Replaces the previous one.
    PutRegen(RegenAttempt),
    /// Removes an attempt, since the model was not reached.
    RemoveRegen(SessionId),
    /// Stores the check that rejected a verdict. Replaces any earlier one of the session and the user id.
    PutRefusal(RejectingCheck),
    /// Removes the check that rejected a verdict.
    RemoveRefusal(SessionId),
    /// Stores a verdict that the policy holds.
    PutHeld(Arc<HeldVerdict>),
    /// Removes a verdict that the policy held.
    RemoveHeld(SessionId),
    /// Puts a mail into the outbox. Replaces any other with its id.
    PutMail(Arc<OutboxMail>),
    /// Removes a mail from the outbox.
    RemoveMail(MailId),
    /// Puts a webhook into the outbox. Replaces any other with its id.
    PutWebhook(Arc<OutboxWebhook>),
    /// Removes a webhook from the outbox.
    RemoveWebhook(WebhookId),
    /// Stores the row of a registered document. Replaces any other of its kind and id.
    PutDocument(DocumentKind, String, Arc<RawValue>),
    /// Stores a source. Replaces any other with its id.
    PutSource(Arc<SourceState>),
    /// Stores a pipeline's definition under its digest.
    PutDefinition(Arc<PipelineDefinition>),
    /// Stores a run. Replaces any other with its id.
    PutRun(Arc<IngestionRun>),
    /// Stores a review. Replaces any other with its id. The review is listed as open until it is resolved or dismissed.
    PutReview(Arc<ReviewState>),
    /// Stores the open reviews, locks and baselines of a subject. Replaces the previous ones.
    PutSubject(SubjectKey, Arc<SubjectState>),
    /// Removes a subject, since it has no open reviews, locks or baselines.
    RemoveSubject(SubjectKey),
    /// Caches an answer. Replaces the previous one.
    PutKept(CachedAnswerKey, Arc<CachedAnswer>),
    /// Removes a cached answer.
    RemoveKept(CachedAnswerKey),
    /// Stores a pending decision.
    PutPending(Arc<DecisionInputs>),
    /// Removes a pending decision.
    RemovePending(String),
}

impl TableWrite {
    /// The source whose state it replaces.
    pub(super) fn changed_source(&self) -> Option<&SourceId> {
        match self {
            Self::PutSource(state) => Some(state.entry.oracle_id()),
            _ => None,
        }
    }

    /// Stores a registered document.
    #[must_use]
    pub fn registered<D: RegistryDocument>(registered: &RegisteredDocument<D>) -> Self {
        Self::document(D::KIND, registered.document.document_id(), registered)
    }

    /// Stores the row of a registered document.
    #[must_use]
    pub fn document(kind: DocumentKind, document_id: impl ToString, row: &impl Serialize) -> Self {
        let row = serde_json::value::to_raw_value(row).expect("a row is plain data with string keys");
        Self::PutDocument(kind, document_id.to_string(), row.into())
    }

    /// Whether the write is new work if its row does not exist yet. Low disk space rejects new work. Writes
    /// that follow from accepted work, such as mail or the review of a pending decision, continue until the
    /// disk is full.
    pub(crate) const fn is_new_work(&self) -> bool {
        matches!(
            self,
            Self::PutVerdict(_)
                | Self::PutSession(_)
                | Self::PutDocument(..)
                | Self::PutSource(_)
                | Self::PutRun(_)
                | Self::PutPending(_)
                | Self::PutReview(_)
                | Self::PutRefusal(_)
        )
    }

    pub(crate) fn row(&self) -> RowKey {
        match self {
            Self::PutVerdict(delivery) => RowKey::Verdict(delivery.session_id.clone()),
            Self::RemoveVerdict(session_id) => RowKey::Verdict(session_id.clone()),
            Self::PutSession(session) => RowKey::Session(session.session_id.clone()),
            Self::RemoveSession(session_id) => RowKey::Session(session_id.clone()),
            Self::PutRegen(attempt) => RowKey::Regen(attempt.session_id.clone()),
            Self::RemoveRegen(session_id) => RowKey::Regen(session_id.clone()),
            Self::PutRefusal(refusal) => RowKey::Refusal(refusal.session_id.clone()),
            Self::RemoveRefusal(session_id) => RowKey::Refusal(session_id.clone()),
            Self::PutHeld(held) => RowKey::Held(held.session_id.clone()),
            Self::RemoveHeld(session_id) => RowKey::Held(session_id.clone()),
            Self::PutMail(mail) => RowKey::Mail(mail.standing.mail_id.clone()),
            Self::RemoveMail(mail_id) => RowKey::Mail(mail_id.clone()),
            Self::PutWebhook(webhook) => RowKey::Webhook(webhook.standing.webhook_id.clone()),
            Self::RemoveWebhook(webhook_id) => RowKey::Webhook(webhook_id.clone()),
            Self::PutDocument(kind, document_id, _) => RowKey::Document(*kind, document_id.clone()),
            Self::PutSource(state) => RowKey::Source(state.entry.oracle_id().clone()),
            Self::PutDefinition(definition) => RowKey::Definition(definition.digest()),
            Self::PutRun(run) => RowKey::Run(run.run_id.clone()),
            Self::PutReview(state) => RowKey::Review(state.review.review_id.clone()),
            Self::PutSubject(key, _) | Self::RemoveSubject(key) => RowKey::Subject(key.clone()),
            Self::PutKept(key, _) | Self::RemoveKept(key) => RowKey::Kept(key.clone()),
            Self::PutPending(inputs) => RowKey::Pending(inputs.execution_id.clone()),
            Self::RemovePending(execution_id) => RowKey::Pending(execution_id.clone()),
        }
    }

    /// The stored form of the row; `None` if the write removes the row.
    pub(crate) fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::RemoveVerdict(_)
            | Self::RemoveSession(_)
            | Self::RemoveRegen(_)
            | Self::RemoveRefusal(_)
            | Self::RemoveHeld(_)
            | Self::RemoveMail(_)
            | Self::RemoveWebhook(_)
            | Self::RemoveSubject(_)
            | Self::RemoveKept(_)
            | Self::RemovePending(_) => None,
            Self::PutVerdict(delivery) => Some(json(delivery)),
            Self::PutSession(session) => Some(json(session)),
            Self::PutRegen(attempt) => Some(json(attempt)),
            Self::PutRefusal(refusal) => Some(json(refusal)),
            Self::PutHeld(held) => Some(json(held)),
            Self::PutMail(mail) => Some(json(mail)),
            Self::PutWebhook(webhook) => Some(json(webhook)),
            Self::PutDocument(_, _, row) => Some(row.get().as_bytes().to_vec()),
            Self::PutSource(state) => Some(json(state)),
            Self::PutDefinition(definition) => Some(json(definition)),
            Self::PutRun(run) => Some(json(run)),
            Self::PutReview(state) => Some(json(state)),
            Self::PutSubject(_, subject) => Some(json(subject)),
            Self::PutKept(_, answer) => Some(json(answer)),
            Self::PutPending(inputs) => Some(json(inputs)),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a row is plain data with string keys")
}

/// Confirms that a record is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The number of its first entry.
    pub first_seq: u64,
    /// The number of its last entry, which is also the revision of every row it wrote.
    pub last_seq: u64,
}

/// The reason why the store rejected a record. No part of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRejectedError {
    /// A row is no longer as the record expects. The caller must read it again and decide again.
    #[error("{0} was changed by another record meanwhile")]
    Stale(RowKey),
    /// The record is new work, and too little disk space is free.
    #[error("{0}")]
    LowSpace(String),
    /// The record changes state without an event that reports the change.
    #[error("the record has no event")]
    Unlogged,
}
