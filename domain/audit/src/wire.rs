//! The audit log, and proofs over its Merkle tree.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

pub mod backup;

use crate::leaf::RowDigests;
use crate::log_tree::TreeHash;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_base::caller::RequestCaller;
use domain_base::digest::Sha256Hex;
use domain_base::moment::{self, Moment};
use domain_base::page::PageLimit;
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The highest number of entries in one answer: 10,000; by default 100.
pub type LogLimit = PageLimit<100, 10_000>;

/// The event of an entry. Its schema, with all events, comes from the crate of all features.
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = EventKind)]
pub struct EventForm {}

/// An entry of the audit log: one line of `oracle_log.jsonl`.
#[derive(Debug, utoipa::ToSchema)]
pub struct LogEntry {
    /// The number of the entry, from 1 without gaps.
    pub seq: u64,
    /// The event, with its details.
    #[serde(flatten)]
    pub event: EventForm,
    /// The session that the event is about; null for an evaluation of a text without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// When it happened.
    pub timestamp: Timestamp,
    /// The process whose request caused it; absent if the daemon acted on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub caller: Option<RequestCaller>,
    /// The SHA-256 of each stored row that was set with the entry, by its table and its name (`sessions/cs_1`); null if the row was
    /// removed. If the value was erased or withheld, it is an object with the one member `sha256`. `oraclectl verify-log` compares them with the rows of a state directory or a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rows_sha256: Option<RowDigests>,
    /// The salts of the erasable values, by the names of their members: 32 hexadecimal digits each. The Merkle tree has hashes of
    /// these values. An erased value is an object with the member `sha256`, and has no salt here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub salts: BTreeMap<String, String>,
}

/// The hash in place of a value that was erased or withheld.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HiddenValue {
    /// The SHA-256 of the value's salt and its JSON.
    pub sha256: Sha256Hex,
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
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
    /// Only entries with a higher `seq`; without it, the newest.
    pub after: Option<u64>,
    /// The highest number of entries in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: LogLimit,
}

/// The query of `GET /v1/log/checkpoint`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CheckpointParams {
    /// Returns the newest checkpoint that a witness has cosigned since the start of the daemon; without one, the newest one.
    #[param(inline)]
    pub cosigned: Option<CosignedCheckpoint>,
}

/// Whether a checkpoint has cosignatures.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
pub enum CosignedCheckpoint {
    /// It has.
    #[serde(rename = "1")]
    Preferred,
}

/// The query of `GET /v1/log/proof`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EntryProofParams {
    /// The number of the entry.
    pub seq: u64,
    /// The number of entries of the tree, as in a checkpoint.
    pub size: u64,
}

/// The query of `GET /v1/log/continuation`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ContinuationParams {
    /// The number of entries of the earlier tree.
    pub old_size: u64,
    /// The number of entries of the later tree.
    pub size: u64,
}

/// A proof over the Merkle tree of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogProof {
    /// The hashes of the proof by RFC 6962, in Base64.
    pub hashes: Vec<String>,
}

impl LogProof {
    /// The proof with these hashes.
    #[must_use]
    pub fn of(hashes: &[TreeHash]) -> Self {
        Self { hashes: hashes.iter().map(|hash| BASE64_STANDARD.encode(hash)).collect() }
    }

    /// The hashes; `None` if one is not 32 bytes in Base64.
    #[must_use]
    pub fn read(&self) -> Option<Vec<TreeHash>> {
        self.hashes.iter().map(|hash| BASE64_STANDARD.decode(hash).ok()?.try_into().ok()).collect()
    }
}

/// Entries of the log with the proof that the log has them. It is verified without a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogBundle {
    /// The signed checkpoint for which the proofs hold.
    pub checkpoint: String,
    /// The entries.
    pub entries: Vec<ProvedEntry>,
    /// The proof that the log continues an earlier one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub continuation: Option<ProvedContinuation>,
}

/// An entry of the log with its proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvedEntry {
    /// The line of the entry, byte for byte.
    pub line: String,
    /// The proof.
    pub proof: LogProof,
}

/// The proof that the log continues an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvedContinuation {
    /// The number of entries of the earlier log.
    pub old_size: u64,
    /// The proof.
    pub proof: LogProof,
}
