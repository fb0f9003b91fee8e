//! The answer to a request for one record.

use super::{NormalizedRecord, QueryFreshness};
use crate::id::SourceId;
use crate::source::OracleTier;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use crate::value::AxisValue;
use jiff::Timestamp;
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

/// The history of the values of one subject on an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValueHistory {
    /// The unit of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The values, by record, `valid_from` and `known_from`.
    pub values: Vec<KnownValue>,
}

/// A value with the periods in which a question gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KnownValue {
    /// The record.
    pub record_id: String,
    /// The time from which questions about a time get the value.
    pub valid_from: Timestamp,
    /// The end of that period, exclusive; null without an end.
    pub valid_until: Option<Timestamp>,
    /// The time from which the daemon knew it so.
    pub known_from: Timestamp,
    /// The end of that period, exclusive; null without an end.
    pub known_until: Option<Timestamp>,
    /// The value; null if the record has none, or its content was pruned.
    pub value: Option<AxisValue>,
}

impl KnownValue {
    /// Whether a question about `valid_at` with the knowledge of `known_at` gets the value.
    #[must_use]
    pub fn is_answer_at(&self, valid_at: Timestamp, known_at: Timestamp) -> bool {
        let contains = |from: Timestamp, until: Option<Timestamp>, at: Timestamp| {
            from <= at && until.is_none_or(|until| at < until)
        };
        contains(self.valid_from, self.valid_until, valid_at)
            && contains(self.known_from, self.known_until, known_at)
    }
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
