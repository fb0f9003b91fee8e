//! The audit log.

pub mod backup;
pub mod proofs;

use crate::base::page::PageLimit;
use jiff::Timestamp;
use oracled_domain::audit::event::RequestCaller;
use oracled_domain::{EventKind, SessionId};
use serde::{Deserialize, Serialize};

/// The highest number of entries in one answer: 10,000; by default 100.
pub type LogLimit = PageLimit<100, 10_000>;

/// An entry of the audit log: one line of `oracle_log.jsonl`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LogEntry {
    /// The number of the entry, from 1 without gaps.
    pub seq: u64,
    /// The salt of the hashes in place of erasable values in the entry's leaf of the Merkle tree; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[0-9a-f]{32}$")]
    pub salt: Option<String>,
    /// The event, with its details.
    #[serde(flatten)]
    pub event: EventKind,
    /// The session that the event is about; null for an evaluation of a text without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The process whose request caused it; absent if the daemon acted on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub caller: Option<RequestCaller>,
}

/// The query of `GET /v1/log` and `GET /v1/log/follow`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// Only entries of this session.
    pub session: Option<String>,
    /// Only entries of the verification with this execution id.
    pub execution: Option<String>,
    /// Only entries that the request with this id caused.
    pub request_id: Option<String>,
    /// Only events of this name.
    pub event: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Only entries with a higher `seq`; without it, the newest.
    pub after: Option<u64>,
    /// The highest number of entries in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: LogLimit,
}
