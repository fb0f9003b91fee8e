//! The log entries of verification. A decision is logged with all of its inputs, so that it can be computed again.

use crate::review::ReviewResolution;
use crate::{
    AxisReason, CallOutcome, CandidateAnswer, DecisionInputs, Envelope, EnvelopeKind, HumanLock, OracleCall,
    OracleReply, ReviewCase, decide,
};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::{EntryMembers, Event, EventClass, EventNotice, EventType};
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use domain_ground::id::{SourceId, WorkflowId};
use domain_upstream::event::InteractionStatus;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

/// The version of an oracle that does not report one.
const UNKNOWN_VERSION: &str = "unknown";

/// A source was queried for a verification. Contains the fields of the RFC's `OracleInteractionLog` ("Versioned Oracle
/// Logging"), and further details of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceCallEntry {
    /// The execution id of the decision.
    pub execution_id: String,
    /// The source.
    pub oracle_id: SourceId,
    /// The version of the source that answered; `unknown` if it does not report one, and `other` if it is no short word or occurs in a
    /// value of the question.
    pub oracle_version: UpstreamText,
    /// The time of the request.
    pub request_timestamp: Timestamp,
    /// The time of the answer, of any kind; null if none arrived.
    pub response_timestamp: Option<Timestamp>,
    /// The time until the answer, or until the wait for it ended, in milliseconds.
    pub latency_ms: u64,
    /// The result of the call.
    pub status: InteractionStatus,
    /// The kind of failure, as one word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of the answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
    /// Whether the answer is a cached one that was still fresh.
    pub cache_hit: bool,
    /// Whether a cached answer replaced a missing one.
    pub stale_data_used: bool,
    /// Whether the call took longer than the soft timeout.
    pub soft_timeout_exceeded: bool,
    /// The workflow.
    pub workflow_id: WorkflowId,
}

/// A verification was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerificationEntry {
    /// The execution id of the decision.
    pub execution_id: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The kind of the envelope.
    pub kind: EnvelopeKind,
    /// The reasons why axes have no value; empty if all axes have one.
    pub reasons: BTreeSet<AxisReason>,
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// The envelope as it was returned. A later version of this program may use other words.
    pub envelope: Box<Envelope>,
    /// All inputs of the decision.
    pub inputs: Box<DecisionInputs>,
}

/// A question was submitted to a reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReviewEntry {
    /// The id of the review.
    pub review_id: String,
    /// The review.
    pub review: Box<ReviewCase>,
}

/// A reviewer decided a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResolutionEntry {
    /// The id of the review.
    pub review_id: String,
    /// The reviewer's decision.
    #[serde(deserialize_with = "as_logged")]
    pub resolution: ReviewResolution,
    /// The resulting locks, one for each axis.
    pub locks: Vec<HumanLock>,
    /// The name of the reviewer; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The process of the reviewer.
    pub peer: PeerCredentials,
}

/// The resolution of a review was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RevocationEntry {
    /// The id of the review.
    pub review_id: String,
    /// The reason.
    pub reason: String,
    /// The locks that end.
    pub locks: Vec<HumanLock>,
    /// The name of the reviewer; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The process of the reviewer.
    pub peer: PeerCredentials,
}

/// A review was closed without a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DismissalEntry {
    /// The id of the review.
    pub review_id: String,
    /// The reason.
    pub reason: String,
    /// The name of the reviewer; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The process of the reviewer.
    pub peer: PeerCredentials,
}

/// A reviewer commented on a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CommentEntry {
    /// The id of the review.
    pub review_id: String,
    /// The comment.
    pub text: String,
    /// The name of the author; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// The process of the author.
    pub peer: PeerCredentials,
}

/// Cached answers that can no longer be used were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AnswerRemovalEntry {
    /// The number of removed answers.
    pub count: u64,
}

/// Reads a resolution from an entry. serde reads the tag of the entry first and then no longer has the text of numbers;
/// that text was checked when the resolution was submitted.
fn as_logged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ReviewResolution, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

/// The log entry of a decision was altered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log entry of the decision {execution_id} was altered: it does not contain the envelope that was returned"
)]
pub struct AlteredEntryError {
    /// The execution id of the decision.
    pub execution_id: String,
}

impl VerificationEntry {
    /// The entry for `envelope`, which was decided from `inputs`.
    #[must_use]
    pub fn of(inputs: DecisionInputs, envelope: &Envelope) -> Self {
        Self {
            execution_id: envelope.execution_id.clone(),
            workflow_id: envelope.workflow.clone(),
            kind: envelope.kind,
            reasons: envelope.reasons.clone(),
            envelope_sha256: envelope.sha256.clone(),
            envelope: Box::new(envelope.clone()),
            inputs: Box::new(inputs),
        }
    }

    /// The envelope as it was returned, byte for byte.
    ///
    /// # Errors
    /// If the entry was altered.
    pub fn read_envelope(&self) -> Result<&Envelope, AlteredEntryError> {
        let envelope = &*self.envelope;
        let is_unaltered = envelope.sha256 == self.envelope_sha256
            && envelope.is_intact()
            && envelope.execution_id == self.execution_id
            && envelope.inputs_sha256 == self.inputs.digest();
        is_unaltered
            .then_some(envelope)
            .ok_or_else(|| AlteredEntryError { execution_id: self.execution_id.clone() })
    }

    /// Whether the inputs in the entry give the same envelope again, byte for byte.
    #[must_use]
    pub fn is_reproduced(&self) -> bool {
        decide(&self.inputs) == *self.envelope
    }
}

impl SourceCallEntry {
    /// The entries for all oracles that were queried for `envelope`, which was decided from `inputs`, in the workflow's
    /// order.
    #[must_use]
    pub fn all(inputs: &DecisionInputs, envelope: &Envelope) -> Vec<Self> {
        let queried = inputs.workflow.oracles.iter().filter_map(|oracle_id| {
            let call = inputs.calls.get(oracle_id)?;
            Some((oracle_id, call, call.asked_at?))
        });
        queried.map(|(oracle_id, call, at)| Self::of(inputs, envelope, oracle_id, (call, at))).collect()
    }

    fn of(
        inputs: &DecisionInputs,
        envelope: &Envelope,
        oracle_id: &SourceId,
        (call, request_timestamp): (&OracleCall, Timestamp),
    ) -> Self {
        let outcome = envelope.candidates.iter().find(|outcome| outcome.oracle_id == *oracle_id);
        let ended = outcome.map_or(call.reply.outcome(), |outcome| outcome.outcome);
        let is_contested = outcome.is_some_and(|outcome| outcome.contested && !outcome.stale);
        let status = match ended {
            CallOutcome::TimedOut => InteractionStatus::Timeout,
            CallOutcome::Failed
            | CallOutcome::CircuitOpen
            | CallOutcome::Refused
            | CallOutcome::NotAwaited => InteractionStatus::Error,
            _ if is_contested => InteractionStatus::Conflict,
            _ => InteractionStatus::Success,
        };
        let answer: Option<&CandidateAnswer> = match &call.reply {
            OracleReply::Answered { candidate } => Some(candidate),
            _ => None,
        };
        let record = answer.map(|answer| &answer.record);
        let version = record.and_then(|record| record.source_version.clone());
        let subject: Vec<_> = inputs.question.subject.values().map(ToString::to_string).collect();
        Self {
            execution_id: inputs.execution_id.clone(),
            oracle_id: oracle_id.clone(),
            oracle_version: version.map_or_else(
                || UNKNOWN_VERSION.into(),
                |version| UpstreamText::new(version).word(subject.iter().map(String::as_str)),
            ),
            request_timestamp,
            response_timestamp: call.ended_at,
            latency_ms: call.latency_ms,
            status,
            error_code: matches!(status, InteractionStatus::Timeout | InteractionStatus::Error)
                .then(|| ended.into_str().to_owned()),
            response_hash: record.and_then(|record| record.evidence_hash.clone()),
            cache_hit: call.cache_hit,
            stale_data_used: outcome.is_some_and(|outcome| outcome.stale),
            soft_timeout_exceeded: call.latency_ms > inputs.workflow.oracle_latency.soft_timeout_ms,
            workflow_id: inputs.workflow.workflow_id.clone(),
        }
    }
}

/// A source was queried for a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceAsked(pub SourceCallEntry);

impl Event for SourceAsked {
    const NAME: &'static str = "source_asked";
    const ERASABLE: &'static [&'static str] = &["oracle_version", "response_hash"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let call = entry.words(&["execution_id", "oracle_id", "oracle_version", "status", "error_code"]);
        let cached = if entry.is_true("stale_data_used") { " cached" } else { "" };
        format!("{call}{cached} {} ms", entry.text("latency_ms"))
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.execution_id)
    }
}

/// A verification was decided. The entry has all inputs, from which the same envelope can be computed again. `oracle_log.jsonl` has their
/// hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct VerificationDecided(pub VerificationEntry);

impl Event for VerificationDecided {
    const NAME: &'static str = "verification_decided";
    const ERASABLE: &'static [&'static str] = &["envelope_sha256", "envelope", "inputs"];
    // more than half of an entry
    const NOT_MIRRORED: &'static [&'static str] = &["inputs"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let decision = entry.words(&["execution_id", "workflow_id", "kind"]);
        let afterwards = if entry.text("inputs/stage") == "delayed" { " delayed" } else { "" };
        format!("{decision}{afterwards} {}", entry.list("reasons"))
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.execution_id)
    }
}

/// A review was opened: a question that the sources did not settle. The entry has every candidate with its provenance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ReviewOpened(pub ReviewEntry);

impl Event for ReviewOpened {
    const NAME: &'static str = "review_opened";
    const ERASABLE: &'static [&'static str] = &["review"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let review = entry.words(&["review_id", "review/workflow_id"]);
        format!("{review}: {}", entry.list("review/axes"))
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.review_id)
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        let ReviewEntry { review_id, review } = &self.0;
        let data = json!({ "review_id": review_id, "workflow_id": review.workflow_id });
        Some(EventNotice::to_operators("review.opened", data))
    }
}

/// A reviewer decided a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ReviewResolved(pub ResolutionEntry);

impl Event for ReviewResolved {
    const NAME: &'static str = "review_resolved";
    const ERASABLE: &'static [&'static str] = &["resolution", "locks", "verifier_name"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} by {}: {}", entry.text("review_id"), entry.peer(), entry.text("resolution/reason"))
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.review_id)
    }
}

/// Cached answers of live sources were removed: each was too old for its adapter, was read by another adapter, or only
/// had the time of its issue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct CachedAnswersRemoved(pub AnswerRemovalEntry);

impl Event for CachedAnswersRemoved {
    const NAME: &'static str = "cached_answers_removed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.count("count", "answer", "answers")
    }
}

/// The resolution of a review was revoked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ReviewRevoked(pub RevocationEntry);

impl Event for ReviewRevoked {
    const NAME: &'static str = "review_revoked";
    const ERASABLE: &'static [&'static str] = &["reason", "locks", "verifier_name"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.text("review_id"), entry.by_peer())
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.review_id)
    }
}

/// A review was closed without a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ReviewDismissed(pub DismissalEntry);

impl Event for ReviewDismissed {
    const NAME: &'static str = "review_dismissed";
    const ERASABLE: &'static [&'static str] = &["reason", "verifier_name"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.text("review_id"), entry.by_peer())
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.review_id)
    }
}

/// A reviewer commented on a review, which changes nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ReviewCommented(pub CommentEntry);

impl Event for ReviewCommented {
    const NAME: &'static str = "review_commented";
    const ERASABLE: &'static [&'static str] = &["text", "author_name"];
    const CLASS: EventClass = EventClass::Verification;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} by {}: {}", entry.text("review_id"), entry.peer(), entry.text("text"))
    }

    fn execution_id(&self) -> Option<&str> {
        Some(&self.0.review_id)
    }
}

/// The events of the feature.
pub const EVENTS: &[&EventType] = &[
    SourceAsked::TYPE,
    VerificationDecided::TYPE,
    ReviewOpened::TYPE,
    ReviewResolved::TYPE,
    CachedAnswersRemoved::TYPE,
    ReviewRevoked::TYPE,
    ReviewDismissed::TYPE,
    ReviewCommented::TYPE,
];
