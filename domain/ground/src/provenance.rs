//! Provenance: the chain from a record to the source's own bytes (RFC-0002, "Provenance Chain").

use super::id::{PipelineId, SourceId};
use domain_base::digest::Sha256Hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The origin of one version of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProvenanceRecord {
    /// The id of the normalized record.
    pub record_id: String,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The version of the source.
    pub source_version: String,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The URL from which the payload was pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// The time at which the daemon ingested it.
    pub ingested_at: Timestamp,
    /// The id of the pipeline that ingested it.
    pub ingestion_pipeline_id: PipelineId,
    /// The id of the run that ingested it.
    pub ingestion_run_id: Sha256Hex,
    /// The SHA-256 of the raw record.
    pub raw_hash: Sha256Hex,
    /// The SHA-256 of the normalized record's canonical JSON; kept when that JSON is pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized_hash: Option<Sha256Hex>,
    /// The transformations applied to the raw record.
    pub transformations_applied: Vec<String>,
    /// The time from which it is valid.
    pub valid_from: Timestamp,
    /// The time until which it is valid; null while it is valid.
    pub valid_until: Option<Timestamp>,
    /// The id of the record that superseded it.
    pub superseded_by: Option<String>,
    /// The later source version that does not confirm the statement, because it rejected this record, or a record that
    /// cannot be identified. The statement stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_by: Option<String>,
    /// How it was verified.
    pub verification_status: RecordVerificationStatus,
    /// Who verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<String>,
    /// When it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// The location of the raw record.
    pub raw: RawRecordLocation,
    /// Whether its content was pruned because it was no longer valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

/// The location of a raw record in its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RawRecordLocation {
    /// The SHA-256 of the payload.
    pub raw_sha256: Sha256Hex,
    /// The number of the record in the payload, from 0.
    pub position: u64,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// How a record was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordVerificationStatus {
    /// Not verified: the pipeline recorded warnings about it.
    Unverified,
    /// Verified by the pipeline: its schema and its checks hold.
    AutoVerified,
}
