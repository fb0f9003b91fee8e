//! The audit entry of a read of a source: the request and the versions that answered, without values.

use crate::base::digest::Sha256Hex;
use crate::ground::freshness::AnswerHandling;
use crate::ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One read of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryEntry {
    /// The way in which the source was read. `query` includes entries of `facts_from`.
    pub read: SourceReadKind,
    /// The source; absent for the change feed of all sources, and if no such record exists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_id: Option<SourceId>,
    /// The id of the query.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query_id: Option<String>,
    /// The SHA-256 of the canonical JSON (RFC 8785) of the query's `request`, with `filters`, `include_provenance` and
    /// `explain` always present. For the other reads it is the digest of `{"record_id"}`, of
    /// `{"limit", "oracle_id", "since"}` (null if omitted), or of `{"oracle_id"}`.
    pub request_sha256: Sha256Hex,
    /// The valid time that was asked about; absent for the time of the read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub point_in_time: Option<Timestamp>,
    /// The system time that the answer is limited to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known_at: Option<Timestamp>,
    /// The result: `answered`, or the code of the problem. An export has two entries: `started`, and its end.
    pub outcome: SourceReadOutcome,
    /// The versions of the source that the answer comes from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub data_version: Option<String>,
    /// The number of records, or of changes.
    pub records_returned: u64,
    /// The decision of the freshness policy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub freshness: Option<AnswerHandling>,
    /// The time until the answer was ready, in milliseconds.
    pub latency_ms: f64,
}

/// A way to read a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceReadKind {
    /// `POST /v1/query`, or an entry of `facts_from`.
    Query,
    /// A record by its id.
    Record,
    /// The provenance of a record.
    Provenance,
    /// The change feed.
    Changes,
    /// All records of a source.
    Export,
    /// The history of a value on both axes of time.
    History,
}

/// The result of a read; other than `answered` and `started`, the problem code of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceReadOutcome {
    /// Records were returned, or there are none.
    Answered,
    /// An export began; a second entry reports its end.
    Started,
    /// No such source is registered.
    SourceUnknown,
    /// The source is live and has no stored records.
    SourceLive,
    /// The source is not approved, or its deprecation date has passed.
    SourceSilent,
    /// The data is too old for the freshness policy.
    SourceStale,
    /// No such record exists.
    RecordUnknown,
    /// The query names a time in the future.
    TimeInFuture,
    /// The query is invalid.
    InvalidQuery,
    /// The limit of concurrent answers is reached.
    Overloaded,
    /// The query exceeds the work limit.
    QueryTooCostly,
    /// The scan reached its deadline, or the caller closed the connection.
    QueryStopped,
    /// Reading failed.
    Failed,
}
