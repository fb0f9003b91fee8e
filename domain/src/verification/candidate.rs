//! What one oracle says about one thing.

use super::record::OracleVerificationRecord;
use crate::ground::freshness::AxisFreshness;
use crate::ground::provenance::ProvenanceRecord;
// utoipa takes whatever is called `Value` for any JSON
use crate::ground::value::Value as AxisValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An answer, as it came; nothing of it is believed yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Which thing it speaks of, by its own word: the values of the ontology's identity axes.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, AxisValue>,
    /// What it says, by the paths of the axes asked for.
    pub values: BTreeMap<String, Stated>,
    /// How it was verified. Its tier does not count: that is the registry's to say.
    pub record: OracleVerificationRecord,
    /// As of when it holds: the release of what was ingested, or when it was retrieved. It stays what it was in a cache.
    pub observed_at: Timestamp,
    /// How fresh it is by its source's policy, each axis by the path asked for. An axis that is missing here is not fresh.
    pub freshness: Vec<AxisFreshness>,
    /// Axes whose values jump away from what the source said before, with the reason why that is suspicious. A person has to
    /// look at them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deviations: BTreeMap<String, String>,
    /// Where it comes from, for what was ingested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<ProvenanceRecord>>,
}

/// A value, and what it is the value of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// The value.
    pub value: AxisValue,
    /// By which definition it was measured, where that is not the axis's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub definition: Option<String>,
}
