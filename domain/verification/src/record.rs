//! The verification record of one answer, with the RFC's fields ("Oracle Integrity Requirements").

use super::tier::VerificationTier;
use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The artifact of an answer, and how it was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleVerificationRecord {
    /// The oracle.
    pub oracle_id: SourceId,
    /// The tier of the oracle; in an envelope, the tier at which the answer counted.
    pub oracle_tier: VerificationTier,
    /// The location from which the artifact can be retrieved again: a URL, a URN, a path or a query.
    pub source_locator: String,
    /// The version of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source_version: Option<String>,
    /// The time of the retrieval.
    pub retrieved_at: Timestamp,
    /// The time of the verification.
    pub verified_at: Timestamp,
    /// The method of the verification: a signature, a checksum, a controlled ingestion.
    pub verification_method: String,
    /// The verifier: a system or a person.
    pub verifier_id: String,
    /// The SHA-256 of the artifact, or of the normalized evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evidence_hash: Option<Sha256Hex>,
    /// The signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub signature_info: Option<SignatureVerification>,
    /// The time to live, in seconds; enforced on `state_sensitive` axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ttl_seconds: Option<u64>,
    /// The parties through which the artifact passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chain_of_custody: Option<Vec<String>>,
}

/// A signature, and the result of its verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignatureVerification {
    /// The id of the key.
    pub signed_by: String,
    /// The algorithm.
    pub signature_alg: String,
    /// Whether the signature is valid.
    pub signature_valid: bool,
}

impl OracleVerificationRecord {
    /// Whether a version or a hash identifies the artifact. An answer with neither counts one tier lower.
    #[must_use]
    pub const fn is_pinned(&self) -> bool {
        self.source_version.is_some() || self.evidence_hash.is_some()
    }
}
