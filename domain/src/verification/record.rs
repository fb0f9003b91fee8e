//! The verification of one answer, with the RFC's fields ("Oracle Integrity Requirements").

use super::tier::Tier;
use crate::base::digest::Sha256Hex;
use crate::ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which artifact an answer is, and how that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleVerificationRecord {
    /// Whose.
    pub oracle_id: SourceId,
    /// How far it is trusted. In an envelope that is the tier that it counted as.
    pub oracle_tier: Tier,
    /// What suffices to retrieve it again: a URL, a URN, a path, a query.
    pub source_locator: String,
    /// Of which version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source_version: Option<String>,
    /// When it was retrieved.
    pub retrieved_at: Timestamp,
    /// When it was verified.
    pub verified_at: Timestamp,
    /// How: a signature, a checksum, a controlled ingestion.
    pub verification_method: String,
    /// By whom, be it a system or a person.
    pub verifier_id: String,
    /// The SHA-256 of what was retrieved, or of the normalized evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evidence_hash: Option<Sha256Hex>,
    /// How it is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub signature_info: Option<SignatureInfo>,
    /// How long it may be kept, in seconds; where an axis is `state_sensitive` that is enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ttl_seconds: Option<u64>,
    /// Through whose hands it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chain_of_custody: Option<Vec<String>>,
}

/// A signature, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignatureInfo {
    /// Whose key.
    pub signed_by: String,
    /// By which algorithm.
    pub signature_alg: String,
    /// Whether it holds.
    pub signature_valid: bool,
}

impl OracleVerificationRecord {
    /// Whether the same artifact can be told from another one: by its version, or by its hash. What cannot counts one tier
    /// lower.
    #[must_use]
    pub const fn is_pinned(&self) -> bool {
        self.source_version.is_some() || self.evidence_hash.is_some()
    }
}
