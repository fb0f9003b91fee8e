//! Proofs over the Merkle tree of the log.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use oracled_domain::audit::log_tree::TreeHash;
use serde::{Deserialize, Serialize};

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
