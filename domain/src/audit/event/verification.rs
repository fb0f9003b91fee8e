//! What happens in verification, for the log. Of every decision it keeps all that went into it, so that it can be taken again.

use super::Peer;
use crate::base::digest::Sha256Hex;
use crate::ground::id::{SourceId, WorkflowId};
use crate::verdict::interaction::Status;
use crate::verification::review::Resolution;
use crate::verification::workflow::Workflow;
use crate::verification::{
    Call, CallOutcome, Candidate, Envelope, EnvelopeKind, HumanLock, Inputs, Reason, Reply, Review, decide,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;

/// What stands for the version of an oracle that has not told it.
const UNKNOWN_VERSION: &str = "unknown";

/// A workflow was registered, or has another definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowEntry {
    /// Which.
    pub workflow_id: WorkflowId,
    /// The digest of what it was; nothing where it is new.
    pub before_sha256: Option<Sha256Hex>,
    /// The digest of what it is.
    pub workflow_sha256: Sha256Hex,
    /// What it is.
    pub workflow: Box<Workflow>,
    /// By whom.
    pub peer: Peer,
}

/// A source was asked for a verification: the RFC's `OracleInteractionLog` ("Versioned Oracle Logging"), and beside it how
/// that ended here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAskedEntry {
    /// For which decision.
    pub execution_id: String,
    /// Who was asked.
    pub oracle_id: SourceId,
    /// Which version of it answered; `unknown` where it did not say.
    pub oracle_version: String,
    /// When it was asked.
    pub request_timestamp: Timestamp,
    /// When its answer, of whatever kind, was there; null where none came.
    pub response_timestamp: Option<Timestamp>,
    /// How long it took to answer, or to give up, in milliseconds.
    pub latency_ms: u64,
    /// How it ended.
    pub status: Status,
    /// What was wrong, in one word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<String>,
    /// The SHA-256 of what it answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_hash: Option<Sha256Hex>,
    /// Whether the answer came from a cache in which it was still fresh.
    pub cache_hit: bool,
    /// Whether what was kept of it took the place of an answer.
    pub stale_data_used: bool,
    /// Whether it took longer than its soft timeout.
    pub soft_timeout_exceeded: bool,
    /// By which workflow.
    pub workflow_id: WorkflowId,
}

/// A decision was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationEntry {
    /// Its name.
    pub execution_id: String,
    /// By which workflow.
    pub workflow_id: WorkflowId,
    /// Of which kind its envelope is.
    pub kind: EnvelopeKind,
    /// Why it has no values; empty where it has.
    pub reasons: BTreeSet<Reason>,
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// The envelope, as it was told: a later version of this program may use other words.
    pub envelope: Box<Envelope>,
    /// Everything that it was decided over.
    pub inputs: Box<Inputs>,
}

/// A question was put before a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewEntry {
    /// Which.
    pub review_id: String,
    /// All of it.
    pub review: Box<Review>,
}

/// A person has decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolutionEntry {
    /// Which review.
    pub review_id: String,
    /// What they decided.
    #[serde(deserialize_with = "as_logged")]
    pub resolution: Resolution,
    /// What that comes to, one lock an axis.
    pub locks: Vec<HumanLock>,
    /// By whom.
    pub peer: Peer,
}

/// A person has taken back what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevocationEntry {
    /// Of which review.
    pub review_id: String,
    /// Why.
    pub reason: String,
    /// The locks that end.
    pub locks: Vec<HumanLock>,
    /// By whom.
    pub peer: Peer,
}

/// A person has closed a review without deciding anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DismissalEntry {
    /// Which review.
    pub review_id: String,
    /// Why.
    pub reason: String,
    /// By whom.
    pub peer: Peer,
}

/// Answers that count for nothing any more were let go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRemovedEntry {
    /// How many.
    pub count: u64,
}

/// A resolution out of an entry: serde reads the entry's tag first, and has no text any more in which to look how numbers are
/// written; that was looked at when it was handed in.
fn as_logged<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resolution, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

/// A decision whose entry was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log does not hold the envelope that was told of the decision {execution_id}: its entry was changed"
)]
pub struct AlteredEntryError {
    /// Which decision.
    pub execution_id: String,
}

impl VerificationEntry {
    /// The entry for `envelope`, which came of `inputs`.
    #[must_use]
    pub fn of(inputs: Inputs, envelope: &Envelope) -> Self {
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

    /// The envelope as it was told, to the byte.
    ///
    /// # Errors
    /// Where it is not the one that was logged.
    pub fn told(&self) -> Result<&Envelope, AlteredEntryError> {
        let envelope = &*self.envelope;
        let is_it = envelope.sha256 == self.envelope_sha256
            && envelope.is_intact()
            && envelope.execution_id == self.execution_id
            && envelope.inputs_sha256 == self.inputs.digest();
        is_it.then_some(envelope).ok_or_else(|| AlteredEntryError { execution_id: self.execution_id.clone() })
    }

    /// Whether the decision, taken again over what the entry holds, comes to the same envelope, to the byte.
    #[must_use]
    pub fn is_reproduced(&self) -> bool {
        decide(&self.inputs) == *self.envelope
    }
}

impl SourceAskedEntry {
    /// The entries for all oracles that were asked for `envelope`, which came of `inputs`, in the workflow's order.
    #[must_use]
    pub fn all(inputs: &Inputs, envelope: &Envelope) -> Vec<Self> {
        let asked = inputs.workflow.oracles.iter().filter_map(|oracle_id| {
            let call = inputs.calls.get(oracle_id)?;
            Some((oracle_id, call, call.asked_at?))
        });
        asked.map(|(oracle_id, call, at)| Self::of(inputs, envelope, oracle_id, (call, at))).collect()
    }

    fn of(
        inputs: &Inputs,
        envelope: &Envelope,
        oracle_id: &SourceId,
        (call, request_timestamp): (&Call, Timestamp),
    ) -> Self {
        let outcome = envelope.candidates.iter().find(|outcome| outcome.oracle_id == *oracle_id);
        let ended = outcome.map_or(call.reply.outcome(), |outcome| outcome.outcome);
        let is_contested = outcome.is_some_and(|outcome| outcome.contested && !outcome.stale);
        let status = match ended {
            CallOutcome::TimedOut => Status::Timeout,
            CallOutcome::Failed
            | CallOutcome::CircuitOpen
            | CallOutcome::Refused
            | CallOutcome::NotAwaited => Status::Error,
            _ if is_contested => Status::Conflict,
            _ => Status::Success,
        };
        let answer: Option<&Candidate> = match &call.reply {
            Reply::Answered { candidate } => Some(candidate),
            _ => None,
        };
        let record = answer.map(|answer| &answer.record);
        let version = record.and_then(|record| record.source_version.clone());
        Self {
            execution_id: inputs.execution_id.clone(),
            oracle_id: oracle_id.clone(),
            oracle_version: version.unwrap_or_else(|| UNKNOWN_VERSION.to_owned()),
            request_timestamp,
            response_timestamp: call.ended_at,
            latency_ms: call.latency_ms,
            status,
            error_code: matches!(status, Status::Timeout | Status::Error)
                .then(|| ended.into_str().to_owned()),
            response_hash: record.and_then(|record| record.evidence_hash.clone()),
            cache_hit: call.cache_hit,
            stale_data_used: outcome.is_some_and(|outcome| outcome.stale),
            soft_timeout_exceeded: call.latency_ms > inputs.workflow.oracle_latency.soft_timeout_ms,
            workflow_id: inputs.workflow.workflow_id.clone(),
        }
    }
}
