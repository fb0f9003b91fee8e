//! Pipelines: how a payload becomes records, declared and not coded.
//!
//! Source: RFC-0002, "Data Ingestion Pipeline" and "Schema Normalization", with its fields under its names. A pipeline is
//! registered as one [`Definition`] that holds everything it names, schemas and tables included, so that its digest says all
//! that a run's outcome depends on beside the raw bytes.

pub mod tables;

use super::digest_of_json;
use super::format::Format;
use super::gates::Gates;
use super::id::{OntologyId, PipelineId, SourceId};
use crate::base::digest::Sha256Hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use strum::IntoStaticStr;
use tables::Table;

/// A pipeline with everything that it names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The pipeline.
    pub pipeline: IngestionPipeline,
    /// What `transformation.normalizer_id` names.
    pub normalization: NormalizationSpec,
    /// JSON Schemas by the ids by which `schema_id` and `source_schema_id` name them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schemas: BTreeMap<String, Json>,
    /// Tables by the ids by which mappings and normalizers name them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
}

impl Definition {
    /// The SHA-256 of its canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Sha256Hex {
        digest_of_json(self)
    }
}

/// Which definition a pipeline has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredPipeline {
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// Whose data it brings.
    pub oracle_id: SourceId,
    /// The digest of its definition.
    pub pipeline_sha256: Sha256Hex,
    /// When that was registered.
    pub registered_at: Timestamp,
    /// By whom: the peer's user.
    pub registered_by: String,
    /// When it was last pulled, by whatever definition, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pull: Option<LastPull>,
}

/// A pull, as far as it must be known after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastPull {
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended, one way or another; null while it goes on, and where the daemon's end has cut it short.
    pub ended_at: Option<Timestamp>,
}

/// Where a source's data comes from, and what happens to it on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngestionPipeline {
    /// Its id.
    pub pipeline_id: PipelineId,
    /// Whose data it is.
    pub oracle_id: SourceId,
    /// Where it comes from.
    pub retrieval: Retrieval,
    /// What must hold of a raw record.
    pub validation: Validation,
    /// The limits for a release; the defaults where absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gates: Gates,
    /// How it is normalized.
    pub transformation: Transformation,
    /// Where it goes.
    pub storage: Storage,
    /// What is kept for audits.
    pub audit: Audit,
}

fn is_default(gates: &Gates) -> bool {
    *gates == Gates::default()
}

/// Where data comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// How.
    pub method: Method,
    /// The address that is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How the daemon shows who it is there; the credentials are the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// When it is pulled by itself: a cron expression, with a time zone's name behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// What the payload is written in.
    pub format: Format,
}

/// How data comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Pulled from an endpoint that answers with records.
    ApiPull,
    /// Pulled from an endpoint that answers with a file.
    FileDownload,
    /// Uploaded by an administrator, as a file or as a stream.
    ManualUpload,
}

impl Method {
    /// Whether the daemon itself goes and gets it.
    #[must_use]
    pub const fn is_pull(self) -> bool {
        matches!(self, Self::ApiPull | Self::FileDownload)
    }
}

/// How the daemon shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// A key in a header.
    ApiKey,
    /// A bearer's token, or client credentials that one is asked for with.
    Oauth,
    /// A certificate of its own.
    Mtls,
    /// Not at all.
    None,
}

/// What must hold of a raw record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// The schema, by its id; behind a `#`, a JSON pointer to the part of it that speaks of one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// Fields that must be there, and not null or empty.
    #[serde(default)]
    pub required_fields: Vec<String>,
    /// Whether a record that fails the schema is rejected; else it is kept, and marked.
    pub reject_on_schema_fail: bool,
    /// The fields by which the source knows a record; those of the identity axes where it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deduplication_key: Vec<String>,
}

/// How records are normalized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformation {
    /// The normalization, by its id.
    pub normalizer_id: String,
    /// What comes out: the ontology, as `id@version`.
    pub output_schema_id: String,
    /// Fields that become axes as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_mappings: Vec<FieldMapping>,
}

/// A field that becomes an axis as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldMapping {
    /// Where it stands in the raw record.
    pub source_path: String,
    /// Which axis it becomes.
    pub target_axis: String,
    /// What is done to it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<Transform>,
    /// From which unit into which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_conversion: Option<FixedConversion>,
}

/// What can be done to a field as it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// White space around it goes.
    Trim,
    /// Lower case.
    Lowercase,
    /// Upper case.
    Uppercase,
}

/// From one unit into another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedConversion {
    /// The unit in the source.
    pub from_unit: String,
    /// The axis's unit.
    pub to_unit: String,
}

/// Where records go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// `store`: there is one.
    pub destination: String,
    /// How long superseded versions are kept at the least, in days.
    pub retention_days: u32,
}

/// What is kept for audits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// Whether the raw payload is archived.
    pub log_raw_input: bool,
    /// Whether provenance names the normalizers that were applied.
    pub log_transformations: bool,
    /// Whether records have provenance: they must.
    pub provenance_chain: bool,
}

/// How raw records become records of an ontology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizationSpec {
    /// Its id.
    pub normalizer_id: String,
    /// The schema of what comes in; a schema of the definition, or only its name.
    pub source_schema_id: String,
    /// The ontology of what goes out.
    pub target_ontology_id: OntologyId,
    /// Which field becomes which axis.
    pub axis_mappings: Vec<AxisMapping>,
    /// What is done to the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value_normalizers: Vec<ValueNormalizer>,
    /// What must hold of them then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_normalization_checks: Vec<Check>,
    /// Where a record says from when to when it is valid; else its release does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_time: Option<ValidTime>,
}

/// Which field becomes which axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisMapping {
    /// Where it stands in the raw record.
    pub source_field: String,
    /// Which axis it becomes.
    pub target_axis: String,
    /// How many fields become how many axes.
    pub cardinality: Cardinality,
    /// Whether a record without it is rejected.
    pub required: bool,
    /// What stands in where it is missing: a value of the axis, which no normalizer touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Json>,
    /// With `one_to_many`: what the values are keyed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<GroupKey>,
    /// By which definition the value was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Measured>,
}

/// How many fields become how many axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cardinality {
    /// One field, one axis.
    OneToOne,
    /// One list or object, the values of one group.
    OneToMany,
    /// Several fields for one axis: the first that is there counts, in the order of the mappings.
    ManyToOne,
}

/// What the values of a group are keyed by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupKey {
    /// Where the key stands, beside the value in the same element; the member's own name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The table of words that says what each key is called in the ontology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// By which definition a value was measured: sources measure different things under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a text is taken, or `{axis, table}`")]
pub enum Measured {
    /// All values of the axis by the same.
    Always(String),
    /// By a table of words, by the value of another axis.
    ByAxis {
        /// Which axis.
        axis: String,
        /// Which table. Of a word that it does not have its `otherwise` says what becomes: `reject` and `warn` as
        /// anywhere, and with `keep` the value is taken as it is, without a definition.
        table: String,
    },
}

/// What is done to the values of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueNormalizer {
    /// Which axis.
    pub axis: String,
    /// What.
    pub normalizer_type: NormalizerType,
    /// How.
    #[serde(default)]
    pub config: Map<String, Json>,
}

/// What can be done to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NormalizerType {
    /// Into another unit.
    UnitConversion,
    /// Into the ontology's words.
    EnumMapping,
    /// Into dates of RFC 3339.
    DateParsing,
    /// Rounded.
    NumericPrecision,
    /// One divided by the value, rounded to a declared precision.
    Reciprocal,
    /// Case and white space.
    StringNormalization,
    /// Nothing.
    Identity,
}

/// What must hold of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What kind of check it is.
    pub check_type: CheckType,
    /// Of which axis.
    pub axis: String,
    /// What must hold.
    pub constraint: Json,
    /// What becomes of a record of which it does not.
    pub on_failure: OnFailure,
}

/// The kinds of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckType {
    /// `{min?, max?}`: neither below nor above.
    Range,
    /// A list: one of it.
    Enum,
    /// A pattern, all of the text.
    Regex,
    /// An expression (CEL) over all axes.
    Custom,
}

/// What becomes of a record that fails a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is rejected.
    Reject,
    /// It is kept, with a warning.
    Warn,
    /// It is kept without the value, with a warning.
    Nullify,
}

/// Where a record says when it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidTime {
    /// Where it says from when on.
    pub from_field: String,
    /// Where it says until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_field: Option<String>,
    /// In which forms, by `strftime`'s signs; RFC 3339 is always taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
}
