//! Queries: what is asked of a source, and whether that can be meant (RFC-0002, "Query Contract").

pub mod answer;
mod filter;
mod written;

pub use filter::{Filter, Operator, QueryFilter};
pub(crate) use written::{Written, as_written, typed};

use super::freshness::Freshness;
use super::id::SourceId;
use super::ontology::Ontology;
use super::provenance::ProvenanceRecord;
use super::record::Identity;
use super::row::Row;
use super::source::OracleTier;
use super::value::Value;
use crate::base::moment::{self, Moment};
use crate::ground::axis::Axis;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// So many records are given where nothing is said.
pub const MAX_RESULTS_DEFAULT: usize = 100;
/// The most records in one answer.
pub const MAX_RESULTS_MAX: usize = 10_000;
/// A page holds at most about so many bytes of what records say.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
/// And so many for each record that it is to have at the most, so that the room for a small one is small.
const PAGE_BYTES_A_RECORD: usize = 16 << 10;
/// The most filters of a query.
const FILTERS_MAX: usize = 64;
/// The most axes that are asked for by name.
const AXES_MAX: usize = 256;

/// A query as it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleQuery {
    /// What the caller calls it; made up where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// Whom it is asked.
    pub oracle_id: SourceId,
    /// What is asked.
    pub request: QueryRequest,
}

/// What is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    /// Which axes to give; those that say what a record speaks of are given in any case.
    pub axes_requested: Vec<String>,
    /// What must hold of a record.
    #[serde(default)]
    pub filters: Vec<QueryFilter>,
    /// As it was valid then; now where it is left out.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub point_in_time: Option<Timestamp>,
    /// As it was known then; all that is known where it is left out.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub known_at: Option<Timestamp>,
    /// Whether to give each record's provenance.
    #[serde(default)]
    pub include_provenance: bool,
    /// How many records to give at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<usize>,
    /// Where an earlier answer to the same query left off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether to tell how it was answered.
    #[serde(default)]
    pub explain: bool,
}

impl QueryRequest {
    /// Whether the query has patterns, which take milliseconds to compile.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.filters.iter().any(|filter| filter.operator == Operator::Regex)
    }

    /// The most bytes of a page of the query ([`Query::page_bytes`]).
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        page_bytes(self.max_results.unwrap_or(MAX_RESULTS_DEFAULT))
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryAnswer {
    /// What the query is called.
    pub query_id: String,
    /// Who answers.
    pub oracle_id: SourceId,
    /// What.
    pub response: QueryResponse,
}

/// What a source answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryResponse {
    /// Records in the order of what they speak of.
    pub records: Vec<NormalizedRecord>,
    /// Their provenance, in the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Vec<ProvenanceRecord>>,
    /// How it was come by.
    pub query_metadata: QueryMetadata,
    /// Where to go on; nothing where there is no more.
    pub cursor: Option<String>,
    /// What whoever uses this should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How it was answered, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explain>,
}

/// A record as it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormalizedRecord {
    /// Its id.
    pub record_id: String,
    /// What the source knows it by.
    pub source_record_id: String,
    /// The values that were asked for, by the paths of their axes; null where the record has none.
    pub axes: BTreeMap<String, Option<Value>>,
    /// The UCUM codes of their units, by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// By which definitions they were measured, by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
    /// From when on it is valid.
    pub valid_from: Timestamp,
    /// Until when; nothing while it is.
    pub valid_until: Option<Timestamp>,
    /// The later source version that does not confirm the values, because it rejected this record, or a record that
    /// cannot be identified. The values are those of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_by: Option<String>,
}

impl NormalizedRecord {
    /// The values that are not null, by the paths of their axes.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, Value> {
        self.axes.iter().filter_map(|(path, value)| Some((path.clone(), value.clone()?))).collect()
    }
}

/// How an answer was come by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryMetadata {
    /// What the query is called.
    pub query_id: String,
    /// When it was answered.
    pub executed_at: Timestamp,
    /// How long that took, in milliseconds.
    pub latency_ms: f64,
    /// How many records were looked at.
    pub records_scanned: u64,
    /// How many are given.
    pub records_returned: u64,
    /// The versions of the source that were used; where there are no records the one in force, or none.
    pub data_version: String,
    /// As it was known then.
    pub known_at: Option<Timestamp>,
    /// How far the source is trusted with it: one tier less than is registered where it is stale and its policy says so.
    pub oracle_tier: OracleTier,
    /// How old the data is.
    pub freshness: QueryFreshness,
}

/// How old the data of an answer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryFreshness {
    /// The newest release among the records; nothing where there are none.
    pub data_as_of: Option<Timestamp>,
    /// How long ago the oldest release among them was, or the one in force where there are none, in seconds: to now, whatever
    /// time is asked for. Nothing where none was in force.
    pub staleness_seconds: Option<u64>,
    /// What the policy says of the axes asked for, and of those filtered by that are no identity.
    #[serde(flatten)]
    pub policy: Freshness,
}

/// How a query was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explain {
    /// `identity`, `identity_prefix`, `index:<axis>` or `scan`.
    pub access: String,
    /// What was looked at one by one.
    pub filters: Vec<String>,
    /// The releases that counted, by their versions: those that were known, and of one that was read anew the last reading.
    pub releases: Vec<String>,
    /// How many files were looked into.
    pub files: usize,
}

/// Why a query cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// No axes are asked for, or too many.
    #[error("`axes_requested` names {0} axes; 1 to {AXES_MAX} are taken")]
    Axes(usize),
    /// The source has no such axis.
    #[error("`{axis}` is no axis of the source; it has {known}")]
    UnknownAxis {
        /// What was asked for.
        axis: String,
        /// What there is.
        known: String,
    },
    /// There are too many filters.
    #[error("there are {0} filters; at most {FILTERS_MAX} are taken")]
    Filters(usize),
    /// A filter cannot be meant.
    #[error("filter on `{axis}`: {fault}")]
    Filter {
        /// On which axis.
        axis: String,
        /// Why.
        fault: String,
    },
    /// Too many records are asked for.
    #[error("`max_results` is {0}; allowed: 1 to {MAX_RESULTS_MAX}")]
    MaxResults(usize),
    /// The cursor is of another query, or none at all.
    #[error("`cursor` is not one of an answer to this query")]
    Cursor,
}

/// A query that can be meant.
#[derive(Debug)]
pub struct Query {
    /// The axes asked for, each by its path in the ontology, with its own where it names one of a group.
    pub axes: Vec<(String, Option<String>)>,
    /// What must hold.
    pub filters: Vec<Filter>,
    /// The values of the first identity axes, as far as filters fix them.
    pub identity: Identity,
    /// Whether that is all of the identity.
    pub identity_is_whole: bool,
    /// How many records to give at the most.
    pub max_results: usize,
}

impl Query {
    /// What `request` means in `ontology`, of whose axes the source has `axes_provided`.
    ///
    /// # Errors
    /// Why it cannot be meant.
    pub fn new(
        request: &QueryRequest,
        ontology: &Ontology,
        axes_provided: &[String],
    ) -> Result<Self, BadQuery> {
        if !(1..=AXES_MAX).contains(&request.axes_requested.len()) {
            return Err(BadQuery::Axes(request.axes_requested.len()));
        }
        if request.filters.len() > FILTERS_MAX {
            return Err(BadQuery::Filters(request.filters.len()));
        }
        let max_results = request.max_results.unwrap_or(MAX_RESULTS_DEFAULT);
        if !(1..=MAX_RESULTS_MAX).contains(&max_results) {
            return Err(BadQuery::MaxResults(max_results));
        }
        let known = |path: &str| {
            let axis = ontology.place(path).filter(|(_, axis)| axes_provided.contains(&axis.axis));
            axis.ok_or_else(|| BadQuery::UnknownAxis {
                axis: path.to_owned(),
                known: axes_provided.join(", "),
            })
        };
        let mut axes = Vec::new();
        for path in &request.axes_requested {
            let (_, axis) = known(path)?;
            axes.push((axis.axis.clone(), (axis.axis != *path).then(|| path.clone())));
        }
        let patterns = request.filters.iter().filter(|filter| filter.operator == Operator::Regex).count();
        let filters =
            request.filters.iter().map(|filter| Filter::new(filter, known(&filter.axis)?, patterns));
        let filters = filters.collect::<Result<Vec<_>, _>>()?;
        let fixed = |axis: &Axis| filters.iter().find_map(|filter: &Filter| filter.fixes(axis)).cloned();
        let identity: Vec<_> = ontology.identity().map_while(fixed).collect();
        let identity_is_whole = identity.len() == ontology.identity().count();
        Ok(Self { axes, filters, identity: Identity::new(identity), identity_is_whole, max_results })
    }

    /// A page ends when what its records say has so many bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        page_bytes(self.max_results)
    }

    /// Whether all filters hold of the values of `row`.
    #[must_use]
    pub fn holds(&self, row: &Row<'_>) -> bool {
        self.filters.iter().all(|filter| filter.holds(row))
    }

    /// The work of all filters to check a record with `json_bytes` of JSON, in units of [`Filter::work`].
    #[must_use]
    pub fn work(&self, json_bytes: usize) -> u64 {
        self.filters.iter().map(|filter| filter.work(json_bytes)).sum()
    }

    /// The requested values, by the paths of their axes; `None` for an axis without a value. A group that was requested
    /// as a whole has one `None` if it has no value at all.
    #[must_use]
    pub fn chosen<'v>(
        &'v self,
        ontology: &Ontology,
        axes: &'v BTreeMap<String, Value>,
    ) -> Vec<(&'v str, Option<&'v Value>)> {
        let wanted = |path: &str| {
            let Some(axis) = ontology.axis(path) else { return false };
            let asked = |(asked, at): &(String, Option<String>)| {
                *asked == axis.axis && at.as_ref().is_none_or(|at| at == path)
            };
            axis.identity || self.axes.iter().any(asked)
        };
        let there = axes.iter().filter(|(path, _)| wanted(path));
        let mut chosen: BTreeMap<_, _> = there.map(|(path, value)| (path.as_str(), Some(value))).collect();
        for (axis, at) in &self.axes {
            let is_filled = |axis: &Axis| chosen.keys().any(|path| axis.key_in(path).is_some());
            if at.is_some() || !ontology.axis(axis).is_some_and(is_filled) {
                chosen.entry(at.as_ref().unwrap_or(axis)).or_default();
            }
        }
        chosen.into_iter().collect()
    }
}

fn page_bytes(max_results: usize) -> usize {
    max_results.saturating_mul(PAGE_BYTES_A_RECORD).min(PAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests;
