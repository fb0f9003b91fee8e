//! The answer of one oracle about one subject.

use super::record::OracleVerificationRecord;
use domain_ground::freshness::AxisFreshness;
use domain_ground::provenance::ProvenanceRecord;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A candidate answer: an answer before it is checked and compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateAnswer {
    /// The subject that the answer names: the values of the ontology's identity axes.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, AxisValue>,
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
