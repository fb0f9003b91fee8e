//! The verification record of one answer, with the RFC's fields ("Oracle Integrity Requirements").

use domain_base::digest::Sha256Hex;
use domain_ground::freshness::AxisFreshness;
use domain_ground::id::SourceId;
use domain_ground::record::ProvenanceRecord;
use domain_ground::source::OracleTier;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::IntoStaticStr;
use utoipa::ToSchema;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use domain_ground::value::AxisValue;

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

/// The trust in one answer, in ascending order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum VerificationTier {
    /// Untrusted: it decides nothing.
    Unverified,
    /// Valid for a related domain only.
    CrossDomain,
    /// Supplementary.
    Secondary,
    /// Authoritative for the domain.
    Primary,
    /// Decided by a reviewer.
    HumanLock,
}

impl VerificationTier {
    /// The next lower tier. The lowest tier stays, and so does `HumanLock`, which is not a tier of sources.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::HumanLock => Self::HumanLock,
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }

    /// The weight in `weighted_average`: 4, 2 or 1; `None` if the tier takes no part.
    #[must_use]
    pub const fn weight(self) -> Option<i64> {
        match self {
            Self::Primary => Some(4),
            Self::Secondary => Some(2),
            Self::CrossDomain => Some(1),
            Self::Unverified | Self::HumanLock => None,
        }
    }
}

impl From<OracleTier> for VerificationTier {
    fn from(tier: OracleTier) -> Self {
        match tier {
            OracleTier::Unverified => Self::Unverified,
            OracleTier::CrossDomain => Self::CrossDomain,
            OracleTier::Secondary => Self::Secondary,
            OracleTier::Primary => Self::Primary,
        }
    }
}

/// A candidate answer: an answer before it is checked and compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateAnswer {
    /// The subject that the answer names: the values of the ontology's identity axes.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The values, by the paths of the requested axes.
    pub values: BTreeMap<String, StatedValue>,
    /// The verification record. Its tier is ignored: the registered one counts.
    pub record: OracleVerificationRecord,
    /// The time as of which the answer holds: the release of ingested data, or the retrieval. A cached answer keeps it.
    pub observed_at: Timestamp,
    /// The freshness of each requested axis, by the source's policy. A missing axis is not fresh.
    pub freshness: Vec<AxisFreshness>,
    /// The axes whose values deviate from the source's baseline, each with the reason in words. A reviewer must decide
    /// them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, String>,
    /// The provenance of ingested data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<ProvenanceRecord>>,
}

/// A value with its definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatedValue {
    /// The value.
    pub value: AxisValue,
    /// The definition by which the value was measured, if it is not the axis's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub definition: Option<String>,
}
