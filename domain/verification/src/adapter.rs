//! Adapters: declarative descriptions of how a live source is queried by HTTP and how its answer is read.
//!
//! Source: RFC-0002, Part II: "Oracle Definition" (APIs), "Oracle Integrity Requirements" and "Failure Modes"
//! (poisoning). A live source is registered like any other source. Its adapter defines the URL of a query
//! about one subject, the proof that an answer is authentic and current, and the conversion to values of the
//! ontology. The conversion uses the same normalization as ingested records.
//!
//! Adapters fail closed: an answer is rejected as a whole if it does not name its subject, lacks a required proof, or
//! has another form than the adapter defines.

mod error;
mod reading;
mod signature;
pub mod template;
mod validate;

pub use error::AdapterError;
pub use reading::{AnswerContent, AnswerReadOutcome, ReceivedAnswer, SourceQuestion};
pub use signature::{
    JsonWebKey, KeyCurve, KeyMaterial, KeyType, KeyUse, PublicKey, SignatureAlgorithm, SignaturePolicy,
};
pub use template::{EndpointError, UnsupportedQuestionError};
pub use validate::ValidatedAdapter;

use domain_base::document::{Document, DocumentVersions};
use domain_ground::format::RecordsPath;
use domain_ground::id::SourceId;
use domain_ground::pipeline::LookupTable;
use domain_ground::pipeline::{NormalizationSpec, SourceAuthentication};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use utoipa::ToSchema;

const DAY_S: u64 = 86_400;

/// The maximum length of an endpoint, in the document and with inserted values, in bytes.
pub const ENDPOINT_MAX_BYTES: usize = 2048;
/// The maximum of `keep_seconds`, in seconds: a year.
pub const KEEP_MAX_S: u64 = 366 * DAY_S;
/// The maximum of `max_issue_age_seconds`, in seconds: a year.
pub const ISSUE_AGE_MAX_S: u64 = 366 * DAY_S;

/// An adapter document: how a live source is queried and how its answer is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Adapter {
    /// The id of the source.
    pub oracle_id: SourceId,
    /// The URL of a query. `{axis}` is replaced by the value of that identity axis, `{point_in_time}` by the requested time,
    /// and `{nonce}` by a text that is different in each request.
    pub endpoint: String,
    /// The kind of authentication; the credential is in the configuration.
    #[serde(default, skip_serializing_if = "SourceAuthentication::is_none")]
    pub authentication: SourceAuthentication,
    /// The JSON Pointer to the record, or to the list of records, in the answer.
    pub records: RecordsPath,
    /// The id of the JSON Schema for raw records, optionally followed by `#` and a JSON Pointer to a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// The fields of a raw record that must be present, and neither null nor empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_fields: Vec<String>,
    /// The normalization of a raw record.
    pub normalization: NormalizationSpec,
    /// JSON Schemas by their ids, for `schema_id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub schemas: BTreeMap<String, Json>,
    /// Lookup tables by their ids, for mappings and normalizers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, LookupTable>,
    /// The location of the version of the answer; by default its `ETag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<AnswerLocation>,
    /// The location of the time as of which the answer holds; by default the earlier of the request time and `issued_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<AnswerLocation>,
    /// The location of the time of issue. An answer that was issued before the last accepted one is rejected as a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<AnswerLocation>,
    /// The maximum time since the issue, in seconds. An older answer is rejected as a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_issue_age_seconds: Option<u64>,
    /// The location of the returned nonce. An answer with another nonce is rejected as a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<AnswerLocation>,
    /// The signature of answers. If it is set, answers without a valid signature are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignaturePolicy>,
    /// How long an answer is reused for the same question, in seconds; by default the source is queried each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// How long the last good answer about the present is cached for `SERVE_STALE`, in seconds; 30 days by default. An answer
    /// about the past is cached for `ttl_seconds`.
    #[serde(default = "keep_seconds")]
    pub keep_seconds: u64,
}

const fn keep_seconds() -> u64 {
    30 * DAY_S
}

/// The location of metadata in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AnswerLocation {
    /// The name of a header.
    Header(String),
    /// A path in the body.
    Path(String),
}

/// Under the id of the live source.
impl Document for Adapter {
    const KIND: &'static str = "adapter";
    const DISTINGUISHING_MEMBER: &'static str = "endpoint";
    const VERSIONS: DocumentVersions = DocumentVersions::None;

    fn document_id(&self) -> String {
        self.oracle_id.to_string()
    }

    fn endpoint(&self) -> Option<&str> {
        Some(&self.endpoint)
    }
}

impl<'de> Deserialize<'de> for Adapter {
    /// Reads an adapter. An absent `normalizer_id` is the source's id.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut adapter = Self::deserialize(deserializer)?;
        adapter.normalization.normalizer_id.get_or_insert_with(|| adapter.oracle_id.to_string());
        Ok(adapter)
    }
}

impl Serialize for Adapter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

#[cfg(test)]
mod tests;
