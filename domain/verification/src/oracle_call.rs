//! The call of one oracle, and its result.

use crate::verification_record::CandidateAnswer;
use domain_ground::source::OracleTier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// The call of one oracle of the workflow. After several attempts, the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleCall {
    /// The registered tier.
    pub oracle_tier: OracleTier,
    /// The paths of the requested axes that the oracle provides.
    pub axes: Vec<String>,
    /// The time of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// The time of the answer, of any kind; null if none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The time until the answer, or until the wait for it ended, in milliseconds.
    pub latency_ms: u64,
    /// Whether the answer is a cached one that was still fresh.
    #[serde(default)]
    pub cache_hit: bool,
    /// The reply.
    pub reply: OracleReply,
    /// The last accepted answer to the same question, for `SERVE_STALE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<CandidateAnswer>>,
    /// Warnings for the user of the answer, for example that the source is deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The reply of an oracle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum OracleReply {
    /// The oracle has a record of the subject. The answer is late after the soft timeout, and does not count after the hard
    /// timeout.
    Answered {
        /// The answer.
        candidate: Box<CandidateAnswer>,
    },
    /// The oracle has no record of the subject.
    NoRecord,
    /// The oracle has several matching records.
    Several {
        /// The number of records.
        records: u64,
    },
    /// The oracle did not answer in time.
    TimedOut {
        /// The limit that ended the call.
        cut: CallTimeLimit,
    },
    /// The oracle could not be queried, or did not answer the question.
    Failed {
        /// The kind of failure.
        failure: CallFailure,
        /// The cause in words.
        cause: String,
    },
    /// The oracle was not called, because its circuit is open after repeated failures.
    CircuitOpen {
        /// The time until the next attempt, in milliseconds; null if an administrator holds the circuit open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The answer was rejected, because it cannot be trusted.
    Refused {
        /// The kind of fault.
        refusal: AnswerFault,
        /// The cause in words.
        cause: String,
    },
    /// The decision did not wait for the oracle: it is `unverified`, the registered oracles had answered, and the soft
    /// timeout had passed.
    NotAwaited,
    /// The oracle was not queried: it is not, or no longer, approved, or it provides none of the axes.
    NotAsked {
        /// The cause in words.
        cause: String,
    },
}

/// The result of a call, without the answer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallOutcome {
    /// The oracle has a record of the subject.
    Answered,
    /// The oracle has no record of the subject.
    NoRecord,
    /// The oracle has several matching records.
    Several,
    /// The oracle did not answer in time.
    TimedOut,
    /// The oracle could not be queried, or did not answer the question.
    Failed,
    /// The oracle was not called, because its circuit is open after repeated failures.
    CircuitOpen,
    /// The answer was rejected, because it cannot be trusted.
    Refused,
    /// The decision did not wait for the oracle: it is `unverified`, the registered oracles had answered, and the soft
    /// timeout had passed.
    NotAwaited,
    /// The oracle was not queried.
    NotAsked,
}

impl OracleReply {
    /// Whether this is an answer with a deviation from its source's baseline.
    #[must_use]
    pub fn is_deviating(&self) -> bool {
        matches!(self, Self::Answered { candidate } if !candidate.deviations.is_empty())
    }

    #[must_use]
    pub const fn outcome(&self) -> CallOutcome {
        match self {
            Self::Answered { .. } => CallOutcome::Answered,
            Self::NoRecord => CallOutcome::NoRecord,
            Self::Several { .. } => CallOutcome::Several,
            Self::TimedOut { .. } => CallOutcome::TimedOut,
            Self::Failed { .. } => CallOutcome::Failed,
            Self::CircuitOpen { .. } => CallOutcome::CircuitOpen,
            Self::Refused { .. } => CallOutcome::Refused,
            Self::NotAwaited => CallOutcome::NotAwaited,
            Self::NotAsked { .. } => CallOutcome::NotAsked,
        }
    }
}

/// The limit that ended a call without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallTimeLimit {
    /// The oracle's hard timeout.
    HardTimeout,
    /// The budget of the whole decision.
    Budget,
}

/// The kind of failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallFailure {
    /// The oracle is unreachable, or reports a server error (status 500 and above).
    Unavailable,
    /// The oracle rejects the question (status 400 to 499), or cannot answer it: an adapter that only covers the present is
    /// not queried about the past.
    Rejected,
    /// The current release of the source contains the record, but the ingestion rejected it.
    RecordRejected,
    /// The source is not registered, not approved yet, has another ontology than the workflow, or has no release for the
    /// requested time.
    NotReady,
    /// The daemon has an internal error.
    Internal,
}

/// Why an answer cannot be trusted.
// RFC-0002, "Failure Modes": poisoning
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AnswerFault {
    /// The signature is missing or invalid.
    Signature,
    /// The answer was given before.
    Replay,
    /// The answer is about another subject, or from another oracle.
    Identity,
    /// The answer does not have the form that the adapter defines.
    Schema,
}
