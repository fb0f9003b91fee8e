//! Queries of a source: parsing and validation (RFC-0002, "Query Contract").

mod filter;

use super::freshness::AnswerFreshness;
use super::id::SourceId;
use super::ontology::Ontology;
use super::record::RecordIdentity;
use super::source::OracleTier;
use super::value::AxisValue;
use crate::axis::Axis;
use crate::record::{ContentRow, ProvenanceRecord};
use crate::value::TypedValue;
use domain_base::decimal::Decimal;
use domain_base::moment::{self, Moment};
use domain_base::wording::excerpt;
pub use filter::{FilterOperator, QueryFilter, ValidatedFilter};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// The number of records returned by default.
pub const MAX_RESULTS_DEFAULT: usize = 100;
/// The maximum number of records in one answer.
pub const MAX_RESULTS_MAX: usize = 10_000;
/// The approximate maximum size of the record contents in one page, in bytes.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
/// The bytes of a page for each of its maximum number of records, so that a page with few records is small.
const PAGE_BYTES_A_RECORD: usize = 16 << 10;
/// The least size of a page with the latest records of each subject, since a page has all of them of a subject.
const SUBJECT_BYTES: usize = 1 << 20;
/// The maximum number of filters in a query.
const FILTERS_MAX: usize = 64;
/// The maximum number of requested axes.
const AXES_MAX: usize = 256;

/// A query of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OracleQuery {
    /// The caller's id of the query; generated if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The request.
    pub request: QueryRequest,
}

/// The request of a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    /// The axes to return. Identity axes are always returned.
    pub axes_requested: Vec<String>,
    /// The filters; a record must match all of them.
    #[serde(default)]
    pub filters: Vec<QueryFilter>,
    /// The time for which valid records are requested; now if absent.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub point_in_time: Option<Timestamp>,
    /// The time as of which data must have been known; all data if absent.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub known_at: Option<Timestamp>,
    /// Whether to return the provenance of each record.
    #[serde(default)]
    pub include_provenance: bool,
    /// The maximum number of records to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<usize>,
    /// The cursor of an earlier answer to the same query, to continue after its last record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether to return only the latest record of each subject: of the records that match and differ only on the last identity
    /// axis of the ontology, the one with the greatest value there. The axis must be a date, a period or an integer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latest: bool,
    /// Whether to explain how the query was answered.
    #[serde(default)]
    pub explain: bool,
}

impl QueryRequest {
    /// Whether the query has regular expressions, which take milliseconds to compile.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.filters.iter().any(|filter| filter.operator == FilterOperator::Regex)
    }

    /// The maximum size of a page of the query, in bytes ([`ValidatedQuery::page_bytes`]).
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        page_bytes(self.max_results.unwrap_or(MAX_RESULTS_DEFAULT), self.latest)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryAnswer {
    /// The id of the query.
    pub query_id: String,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The response.
    pub response: QueryResponse,
}

/// The response of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryResponse {
    /// The records, in the order of their identities.
    pub records: Vec<NormalizedRecord>,
    /// The provenance of the records, in the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Vec<ProvenanceRecord>>,
    /// Information about the execution.
    pub query_metadata: QueryMetadata,
    /// The cursor of the next page; null on the last page.
    pub cursor: Option<String>,
    /// Warnings for the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How the query was answered, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<QueryExplanation>,
}

/// A record in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NormalizedRecord {
    /// The id of the record.
    pub record_id: String,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The requested values, by the paths of their axes; null if the record has no value.
    #[schema(value_type = BTreeMap<String, ValueOrNull>)]
    pub axes: BTreeMap<String, Option<AxisValue>>,
    /// The UCUM codes of the units, by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// The definitions by which the values were measured, by the same paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
    /// The time from which it is valid.
    pub valid_from: Timestamp,
    /// The time until which it is valid; null if it has no end.
    pub valid_until: Option<Timestamp>,
    /// The later source version that does not confirm the values, because it rejected this record, or a record that
    /// cannot be identified. The values are those of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_by: Option<String>,
}

impl NormalizedRecord {
    /// The values that are not null, by the paths of their axes.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, AxisValue> {
        self.axes.iter().filter_map(|(path, value)| Some((path.clone(), value.clone()?))).collect()
    }
}

/// Information about the execution of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryMetadata {
    /// The id of the query.
    pub query_id: String,
    /// The time at which it was answered.
    pub executed_at: Timestamp,
    /// The time that it took, in milliseconds.
    pub latency_ms: f64,
    /// The number of records examined.
    pub records_scanned: u64,
    /// The number of records returned.
    pub records_returned: u64,
    /// The source versions of the records. Without records, the version in force, or empty.
    pub data_version: String,
    /// The `known_at` of the query.
    pub known_at: Option<Timestamp>,
    /// The trust in the source. It is one tier lower than registered if the data is stale and the policy requires it.
    pub oracle_tier: OracleTier,
    /// The age of the data.
    pub freshness: QueryFreshness,
}

/// The age of the data in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryFreshness {
    /// The newest release among the records; null without records.
    pub data_as_of: Option<Timestamp>,
    /// The age of the oldest release among the records, in seconds until now, also for queries of another time. Without
    /// records, the age of the release in force; null if there is none.
    pub staleness_seconds: Option<u64>,
    /// The policy's result for the requested axes and for the filtered axes that are not identities.
    #[serde(flatten)]
    pub policy: AnswerFreshness,
}

/// How a query was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryExplanation {
    /// The access path: `identity`, `identity_prefix`, `index:<axis>` or `scan`.
    pub access: String,
    /// The filters that were checked for each record.
    pub filters: Vec<String>,
    /// The versions of the releases that were considered. Of a version that was read again, only the last reading
    /// counts.
    pub releases: Vec<String>,
    /// The number of files that were read.
    pub files: usize,
}

/// Why a query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQueryError {
    /// The number of requested axes is out of range.
    #[error("`axes_requested` names {0} axes (1 to {AXES_MAX} allowed)")]
    Axes(usize),
    /// The source does not provide the axis.
    #[error("`{axis}` is not an axis of the source; its axes are: {known}")]
    UnknownAxis {
        /// The requested axis.
        axis: String,
        /// The axes of the source, separated by commas.
        known: String,
    },
    /// The number of filters exceeds the limit.
    #[error("`filters` has {0} entries (at most {FILTERS_MAX} allowed)")]
    Filters(usize),
    #[error("filter on `{axis}`: {fault}")]
    Filter {
        /// The axis of the filter.
        axis: String,
        fault: String,
    },
    /// `max_results` is out of range.
    #[error("`max_results` is {0} (1 to {MAX_RESULTS_MAX} allowed)")]
    MaxResults(usize),
    /// The last identity axis has no order.
    #[error(
        "`latest` requires a date, a month, a quarter, a year or an integer as the last identity axis of the ontology, and \
         `{axis}` is of type {kind}"
    )]
    Latest {
        /// The last identity axis.
        axis: String,
        kind: &'static str,
    },
    /// The cursor is invalid or belongs to another query.
    #[error("`cursor` does not come from an answer to this query")]
    Cursor,
}

#[derive(Debug)]
pub struct ValidatedQuery {
    /// The requested axes: the path in the ontology and, for one value of a group, the requested path.
    pub axes: Vec<(String, Option<String>)>,
    /// The filters; a record must match all of them.
    pub filters: Vec<ValidatedFilter>,
    /// The values of the first identity axes that filters fix.
    pub identity: RecordIdentity,
    /// Whether `identity` has all identity axes.
    pub identity_is_whole: bool,
    /// The maximum number of records to return.
    pub max_results: usize,
    /// Whether only the latest record of each subject is returned.
    pub latest: bool,
}

impl ValidatedQuery {
    /// Validates `request` against `ontology`. The source provides the axes `axes_provided`.
    ///
    /// # Errors
    /// The first fault found.
    pub fn new(
        request: &QueryRequest,
        ontology: &Ontology,
        axes_provided: &[String],
    ) -> Result<Self, InvalidQueryError> {
        if !(1..=AXES_MAX).contains(&request.axes_requested.len()) {
            return Err(InvalidQueryError::Axes(request.axes_requested.len()));
        }
        if request.filters.len() > FILTERS_MAX {
            return Err(InvalidQueryError::Filters(request.filters.len()));
        }
        let max_results = request.max_results.unwrap_or(MAX_RESULTS_DEFAULT);
        if !(1..=MAX_RESULTS_MAX).contains(&max_results) {
            return Err(InvalidQueryError::MaxResults(max_results));
        }
        let known = |path: &str| {
            let axis = ontology.place(path).filter(|(_, axis)| axes_provided.contains(&axis.axis));
            axis.ok_or_else(|| InvalidQueryError::UnknownAxis {
                axis: path.to_owned(),
                known: axes_provided.join(", "),
            })
        };
        let mut axes = Vec::new();
        for path in &request.axes_requested {
            let (_, axis) = known(path)?;
            axes.push((axis.axis.clone(), (axis.axis != *path).then(|| path.clone())));
        }
        let patterns =
            request.filters.iter().filter(|filter| filter.operator == FilterOperator::Regex).count();
        let filters =
            request.filters.iter().map(|filter| ValidatedFilter::new(filter, known(&filter.axis)?, patterns));
        let filters = filters.collect::<Result<Vec<_>, _>>()?;
        let fixed = |axis: &Axis| {
            filters.iter().find_map(|filter: &ValidatedFilter| filter.fixed_value(axis)).cloned()
        };
        let identity: Vec<_> = ontology.identity().map_while(fixed).collect();
        let identity_is_whole = identity.len() == ontology.identity().count();
        let last = ontology.identity().last().filter(|axis| request.latest && !axis.kind.is_ordered());
        if let Some(axis) = last {
            return Err(InvalidQueryError::Latest { axis: axis.axis.clone(), kind: axis.kind.into_str() });
        }
        let (identity, latest) = (RecordIdentity::new(identity), request.latest);
        Ok(Self { axes, filters, identity, identity_is_whole, max_results, latest })
    }

    /// The identity axes of `ontology` that no filter fixes.
    #[must_use]
    pub fn open_identity(&self, ontology: &Ontology) -> Vec<String> {
        let is_open = |axis: &&Axis| self.filters.iter().all(|filter| filter.fixed_value(axis).is_none());
        ontology.identity().filter(is_open).map(|axis| axis.axis.clone()).collect()
    }

    /// The size of record contents at which a page ends, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        page_bytes(self.max_results, self.latest)
    }

    /// Whether the values of `row` match all filters.
    #[must_use]
    pub fn is_match(&self, row: &ContentRow<'_>) -> bool {
        self.filters.iter().all(|filter| filter.is_match(row))
    }

    /// The work of all filters to check a record with `json_bytes` of JSON, in units of [`ValidatedFilter::work`].
    #[must_use]
    pub fn work(&self, json_bytes: usize) -> u64 {
        self.filters.iter().map(|filter| filter.work(json_bytes)).sum()
    }

    /// The requested values, by the paths of their axes; `None` for an axis without a value. A group that was requested
    /// as a whole has one `None` if it has no value at all.
    #[must_use]
    pub fn select_values<'v>(
        &'v self,
        ontology: &Ontology,
        axes: &'v BTreeMap<String, AxisValue>,
    ) -> Vec<(&'v str, Option<&'v AxisValue>)> {
        let is_requested = |path: &str| {
            let Some(axis) = ontology.axis(path) else { return false };
            let is_match = |(requested, at): &(String, Option<String>)| {
                *requested == axis.axis && at.as_ref().is_none_or(|at| at == path)
            };
            axis.identity || self.axes.iter().any(is_match)
        };
        let there = axes.iter().filter(|(path, _)| is_requested(path));
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

fn page_bytes(max_results: usize, is_latest: bool) -> usize {
    let least = if is_latest { SUBJECT_BYTES } else { 0 };
    max_results.saturating_mul(PAGE_BYTES_A_RECORD).clamp(least, PAGE_BYTES_MAX)
}

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
    /// What the values are about, in words, such as "Population, Aruba, 2000".
    pub title: String,
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

/// Represents in schemas a value that [`typed`] accepts.
#[derive(Debug)]
pub enum WrittenValue {}

impl PartialSchema for WrittenValue {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Boolean, Type::Number, Type::String]);
        let description =
            "A value of an axis. A number may also be written as a text; a date is always a text.";
        ObjectBuilder::new().schema_type(kinds).description(Some(description)).into()
    }
}

impl ToSchema for WrittenValue {
    fn name() -> Cow<'static, str> {
        "WrittenValue".into()
    }
}

/// Represents in schemas a value of an axis, or null for an axis without a value.
#[derive(Debug)]
pub enum ValueOrNull {}

impl PartialSchema for ValueOrNull {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Boolean, Type::String, Type::Null]);
        let description = "A value of an axis: true, false or a text; null if the record has no value.";
        ObjectBuilder::new().schema_type(kinds).description(Some(description)).into()
    }
}

impl ToSchema for ValueOrNull {}

/// Reads a value or a list of values with exact numbers. It rejects a number that does not fit into 64 bits, of which
/// the JSON reader makes a binary fraction.
pub fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
    let written = Box::<RawValue>::deserialize(deserializer)?;
    let value: Json = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
    match &value {
        Json::Array(values) => {
            let written: Vec<&RawValue> = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
            let mut pairs = values.iter().zip(written);
            pairs.try_for_each(|(value, written)| check_written(value, written.get()))
        }
        value => check_written(value, written.get()),
    }
    .map_err(D::Error::custom)?;
    Ok(value)
}

fn check_written(value: &Json, written: &str) -> Result<(), String> {
    let Json::Number(read) = value else { return Ok(()) };
    let (read, exact) = (read.to_string().parse::<Decimal>(), written.parse::<Decimal>());
    if exact.is_ok() && exact == read {
        return Ok(());
    }
    let quoted = excerpt(written);
    Err(format!(
        "the number {quoted} has more digits than JSON readers keep; write it as a text, like \"0.5\""
    ))
}

/// The typed value of `value` on `axis`, or the fault.
pub fn typed(value: &Json, axis: &Axis) -> Result<TypedValue, String> {
    let typed = match value {
        Json::Bool(value) => TypedValue::from_bool(*value, axis),
        Json::String(text) => TypedValue::from_text(text, axis),
        Json::Number(number) => TypedValue::from_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(format!("a value of type {} is required", axis.kind.into_str()));
        }
    };
    typed.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
