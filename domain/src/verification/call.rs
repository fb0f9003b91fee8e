//! What came of asking one oracle.

use super::candidate::Candidate;
use crate::ground::source::OracleTier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// One oracle of the workflow, and what came of asking it; of several attempts the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// How far it is trusted, as registered.
    pub oracle_tier: OracleTier,
    /// The axes that it was asked for, by their paths; of those it has.
    pub axes: Vec<String>,
    /// When it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// When it answered, in whatever way; nothing where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long that took, or the waiting for it, in milliseconds.
    pub latency_ms: u64,
    /// Whether the answer comes from a cache in which it is still fresh.
    #[serde(default)]
    pub cache_hit: bool,
    /// What came.
    pub reply: Reply,
    /// The last good answer to the same question that is kept, for `SERVE_STALE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<Candidate>>,
    /// What whoever uses it should know: that the source is deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What an oracle replied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reply {
    /// It says something of the thing. After the soft timeout that is late; after the hard one it is none.
    Answered {
        /// What.
        candidate: Box<Candidate>,
    },
    /// It knows nothing of the thing.
    NoRecord,
    /// It knows several things that could be meant.
    Several {
        /// How many.
        records: u64,
    },
    /// It did not answer in time.
    TimedOut {
        /// What ended the call.
        cut: Cut,
    },
    /// It could not be asked, or did not answer the question.
    Failed {
        /// In which way.
        failure: Failure,
        /// In words.
        cause: String,
    },
    /// It failed so often that it is left alone for a while.
    CircuitOpen {
        /// For so long, in milliseconds; nothing where that is up to an administrator.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// It answered, and that cannot be trusted.
    Refused {
        /// For what.
        refusal: Refusal,
        /// In words.
        cause: String,
    },
    /// The decision did not wait for it any longer: it is `unverified`, the registered oracles had answered, and the
    /// soft timeout had passed.
    NotAwaited,
    /// It was not asked: it is not approved, or no more; or it has none of the axes.
    NotAsked {
        /// Why.
        cause: String,
    },
}

/// What came of asking, without the answer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallOutcome {
    /// It says something of the thing.
    Answered,
    /// It knows nothing of it.
    NoRecord,
    /// It knows several things that could be meant.
    Several,
    /// It did not answer in time.
    TimedOut,
    /// It could not be asked, or did not answer the question.
    Failed,
    /// It is left alone for a while.
    CircuitOpen,
    /// It answered, and that cannot be trusted.
    Refused,
    /// The decision did not wait for it any longer: it is `unverified`, the registered oracles had answered, and the
    /// soft timeout had passed.
    NotAwaited,
    /// It was not asked.
    NotAsked,
}

impl Reply {
    /// Whether it is an answer that jumps away from what its source has said before.
    #[must_use]
    pub fn deviates(&self) -> bool {
        matches!(self, Self::Answered { candidate } if !candidate.deviations.is_empty())
    }

    /// Which it is.
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

/// What ended a call without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The oracle's hard timeout.
    HardTimeout,
    /// The budget of the whole decision.
    Budget,
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Failure {
    /// It is unreachable, or out of order (a status of 500 and above).
    Unavailable,
    /// It will not answer such a question (a status of 400 to 499), or cannot be asked it: one that knows the present alone is not
    /// asked about the past.
    Rejected,
    /// Its current release has the record, and the ingestion rejected it.
    RecordRejected,
    /// Something is wrong on this side.
    Internal,
}

/// Why an answer cannot be trusted (RFC, "Failure Modes": poisoning).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Refusal {
    /// Its signature is missing or does not hold.
    Signature,
    /// It was given before.
    Replay,
    /// It speaks of another thing, or for another oracle.
    Identity,
    /// It is not of the form agreed on.
    Schema,
}
