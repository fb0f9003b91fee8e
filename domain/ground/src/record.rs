//! Normalized records: their content, their identity, and their digests.

use super::ontology::Ontology;
use super::value::{TypedValue, append_text_key};
use crate::id::{PipelineId, SourceId};
use domain_base::digest::Sha256Hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use super::value::AxisValue;

/// The content of a record: the values of its axes, and the definitions by which they were measured, if any.
///
/// Its JSON is canonical (RFC 8785): members are sorted and there are no fractions, because numbers are texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordContent {
    /// Values by the paths of their axes.
    pub axes: BTreeMap<String, AxisValue>,
    /// Definitions by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
}

/// The identity of the real-world entity of a record: the values of the ontology's identity axes, in the ontology's
/// order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordIdentity(Vec<TypedValue>);

impl RecordContent {
    /// The canonical JSON, which is stored and of which the digest is computed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data with string keys serializes")
    }

    /// The RFC's `normalized_hash`.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        Sha256Hex::of(&self.to_json())
    }

    /// The identity. `None` if a part is missing or is not a value of its axis.
    #[must_use]
    pub fn identity(&self, ontology: &Ontology) -> Option<RecordIdentity> {
        let of_axis = |axis: &crate::axis::Axis| self.axes.get(&axis.axis)?.typed(axis).ok();
        ontology.identity().map(of_axis).collect::<Option<Vec<_>>>().map(RecordIdentity)
    }
}

impl RecordIdentity {
    /// An identity of these values, in the ontology's order.
    #[must_use]
    pub const fn new(values: Vec<TypedValue>) -> Self {
        Self(values)
    }

    /// The values, in the ontology's order.
    #[must_use]
    pub fn values(&self) -> &[TypedValue] {
        &self.0
    }

    /// Bytes that sort like identities. The key of the first values is a prefix of the key of all values.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        self.0.iter().for_each(|value| value.append_key(&mut key));
        key
    }

    /// The key of a source record with this identity. Keys sort by identity, then by the id of the source record. An id
    /// contains no control characters; a 0 byte precedes it and two end it.
    #[must_use]
    pub fn record_key(&self, source_record_id: &str) -> Vec<u8> {
        let mut key = self.key();
        key.push(0);
        append_text_key(source_record_id, &mut key);
        key
    }
}

/// The id of a source record from its `parts`, joined by `/`. Any `/`, `%` and control characters in a part are
/// escaped.
#[must_use]
pub fn source_record_id<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut id = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            id.push('/');
        }
        for letter in part.chars() {
            if letter == '/' || letter == '%' || letter.is_control() {
                id.push_str(&format!("%{:02X}", u32::from(letter)));
            } else {
                id.push(letter);
            }
        }
    }
    id
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn source_record_ids_of_different_parts_differ() {
        let parts: [&[&str]; 7] =
            [&["a", "b"], &["a/b"], &["a%2Fb"], &["a", "", "b"], &["", "a", "b"], &["a", "b", ""], &["a\nb"]];
        let ids: BTreeSet<_> = parts.iter().map(|parts| source_record_id(parts.iter().copied())).collect();
        assert_eq!(ids.len(), parts.len(), "{ids:?}");
        assert_eq!(source_record_id(["ABW", "1960"]), "ABW/1960");
    }
}
