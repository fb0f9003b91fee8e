//! The answer to a request for one record.

use super::{NormalizedRecord, QueryFreshness};
use crate::ground::id::SourceId;
use crate::ground::source::OracleTier;
use serde::{Deserialize, Serialize};

/// A record by its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecordAnswer {
    /// The source.
    pub oracle_id: SourceId,
    /// The version of the source.
    pub source_version: String,
    /// The values and their period of validity.
    #[serde(flatten)]
    pub record: NormalizedRecord,
    /// Its current state.
    pub standing: RecordStatus,
    /// Whether its content was pruned, so that it has no axes here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
    /// The tier of the source: one lower than registered if the record is stale and the policy requires it.
    pub oracle_tier: OracleTier,
    /// Its age now, or the age at the end of its validity.
    pub freshness: QueryFreshness,
    /// Warnings for the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The record that superseded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The earlier record with the same content; it represents both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// The state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordStatus {
    /// It is valid now.
    Valid,
    /// It will be valid later.
    NotYetValid,
    /// Another record superseded it.
    Superseded,
    /// Its source withdrew it.
    Withdrawn,
    /// It was valid until a time that the record itself names.
    Expired,
    /// Its version of the source was read again, and it no longer counts.
    Replaced,
    /// Its run was undone.
    Undone,
}
