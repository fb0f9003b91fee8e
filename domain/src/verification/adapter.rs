//! Adapters: how a live source is asked by HTTP, and how its answer is read, declared and not coded.
//!
//! Source: RFC-0002, Part II: "Oracle Definition" (APIs), "Oracle Integrity Requirements" and "Failure Modes" (poisoning). A
//! live source is registered like any other; its adapter says where it is asked about one thing, what proves that the answer is
//! its own and of now, and how that becomes values of the ontology, by the same normalization that ingested records go
//! through.
//!
//! Nothing fails open: an answer that does not say of which thing it speaks, that does not prove what the adapter wants
//! proved, or that does not have the form agreed on is refused as a whole.

mod error;
mod places;
mod point;
mod reading;
mod replay;
mod signature;
mod template;
mod validate;

pub use error::BadAdapter;
pub use reading::{Asked, Reading, Received, Said};
pub use signature::{Algorithm, Curve, Jwk, KeyMaterial, KeyType, KeyUse, PublicKey, SignaturePolicy};
pub use template::{BadTemplate, Unasked};
pub use validate::Ready;

use crate::ground::format::RecordsPath;
use crate::ground::id::SourceId;
use crate::ground::pipeline::tables::Table;
use crate::ground::pipeline::{Authentication, NormalizationSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

const DAY_S: u64 = 86_400;

/// The longest endpoint, as it stands in the document and with values in it, in bytes.
pub const ENDPOINT_MAX_BYTES: usize = 2048;
/// An answer is kept at most so long, in seconds: a year.
pub const KEEP_MAX_S: u64 = 366 * DAY_S;
/// So long an answer may take at most from its issue to its use, in seconds: a year.
pub const ISSUE_AGE_MAX_S: u64 = 366 * DAY_S;

/// How one live source is asked and read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Whose.
    pub oracle_id: SourceId,
    /// Where it is asked about one thing: a URL in which `{axis}` stands for the value of that identity axis, `{point_in_time}`
    /// for the moment asked for, and `{nonce}` for a text that is another one each time.
    pub endpoint: String,
    /// How the daemon shows who it is there; the credentials are the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Where the record is in the JSON document that comes, or the list of records.
    pub records: RecordsPath,
    /// What must hold of a raw record: the schema, by its id; behind a `#`, a JSON pointer to the part of it that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// Fields of a raw record that must be there, and not null or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_fields: Vec<String>,
    /// How a raw record becomes values.
    pub normalization: NormalizationSpec,
    /// JSON Schemas by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schemas: BTreeMap<String, Json>,
    /// Tables by the ids by which mappings and normalizers name them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
    /// Where the answer says of which version it is; else that is its `ETag`, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Place>,
    /// Where it says as of when it holds; else that is the moment at which it was asked for, or issued where that was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Place>,
    /// Where it says when it was issued. What was issued before the last answer that was taken is a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Place>,
    /// An answer that was issued longer ago is a replay, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_issue_age_seconds: Option<u64>,
    /// Where the nonce that was sent comes back; an answer with another one is a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Place>,
    /// How it is signed, where it is: then it counts with a signature that holds, and else not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignaturePolicy>,
    /// So long an answer is taken for the same question without asking again, in seconds; it is asked for each time where
    /// this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// So long the last good answer about the present is kept, in seconds, for `SERVE_STALE`; one about the past for `ttl_seconds`.
    #[serde(default = "keep_seconds")]
    pub keep_seconds: u64,
}

const fn keep_seconds() -> u64 {
    30 * DAY_S
}

/// Where an answer says something of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// In the header of this name.
    Header(String),
    /// In its body, by a path from the whole document on.
    Path(String),
}

#[cfg(test)]
mod tests;
