//! Provenance: the chain from a record to the source's own bytes (RFC-0002, "Provenance Chain").

use super::id::{PipelineId, SourceId};
use crate::base::digest::Sha256Hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a version of a record comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenanceRecord {
    /// The id of the normalized record.
    pub record_id: String,
    /// Whose it is.
    pub oracle_id: SourceId,
    /// Of which version of the source.
    pub source_version: String,
    /// What the source knows it by.
    pub source_record_id: String,
    /// Where the payload was pulled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// When the daemon learnt it.
    pub ingested_at: Timestamp,
    /// By which pipeline.
    pub ingestion_pipeline_id: PipelineId,
    /// By which run.
    pub ingestion_run_id: Sha256Hex,
    /// The SHA-256 of the raw record.
    pub raw_hash: Sha256Hex,
    /// The SHA-256 of the normalized record's canonical JSON, which stays when that is pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized_hash: Option<Sha256Hex>,
    /// What was applied to it.
    pub transformations_applied: Vec<String>,
    /// From when on it is valid.
    pub valid_from: Timestamp,
    /// Until when; nothing while it is.
    pub valid_until: Option<Timestamp>,
    /// Which record has taken its place.
    pub superseded_by: Option<String>,
    /// The later source version that does not confirm the statement, because it rejected this record, or a record that
    /// cannot be identified. The statement stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_by: Option<String>,
    /// Whether somebody has vouched for it.
    pub verification_status: VerificationStatus,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// Where the raw record lies.
    pub raw: RawPlace,
    /// Whether what it said was taken out, as had ceased to hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

/// Where a raw record lies in its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawPlace {
    /// The payload's SHA-256.
    pub raw_sha256: Sha256Hex,
    /// The record's number in it, from 0.
    pub position: u64,
    /// Where its bytes begin.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
}

/// Whether somebody has vouched for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationStatus {
    /// Nobody: something was noted of it on its way.
    Unverified,
    /// The pipeline: its schema and its checks hold.
    AutoVerified,
}
