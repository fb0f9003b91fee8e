//! Pipelines: declarative descriptions of how a payload becomes records.
//!
//! Source: RFC-0002, "Data Ingestion Pipeline" and "Schema Normalization", with its field names. A pipeline
//! is registered as one [`PipelineDefinition`] that contains its schemas and tables, so that its digest
//! covers everything that the outcome of a run depends on besides the raw bytes.

use super::format::{PayloadCompression, PayloadFormat, TextEncoding};
use super::gates::ReleaseGates;
use super::id::{OntologyId, PipelineId, SourceId};
use crate::record::RecordContent;
use domain_base::decimal::{Decimal, DecimalText};
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::document::{Document, DocumentVersions};
use domain_base::moment::AmbiguousTimeHandling;
use domain_base::payload::given;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use domain_base::text_form::to_nfc;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The only storage destination.
pub const DESTINATION: &str = "store";

/// A pipeline document: a pipeline with its normalization, schemas and tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct PipelineDefinition {
    /// The pipeline.
    pub pipeline: IngestionPipeline,
    /// The normalization of its records.
    #[serde(default)]
    pub normalization: NormalizationSpec,
    /// JSON Schemas by their ids, for `validation.schema_id`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub schemas: BTreeMap<String, Json>,
    /// Lookup tables by their ids, for mappings and normalizers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, LookupTable>,
}

impl<'de> Deserialize<'de> for PipelineDefinition {
    /// Reads a definition. An absent `normalizer_id` is the other one, or the pipeline's id if both are absent.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut definition = Self::deserialize(deserializer)?;
        let transformation = &mut definition.pipeline.transformation.normalizer_id;
        let normalization = &mut definition.normalization.normalizer_id;
        let given = transformation.clone().or_else(|| normalization.clone());
        let normalizer_id = given.unwrap_or_else(|| definition.pipeline.pipeline_id.to_string());
        transformation.get_or_insert_with(|| normalizer_id.clone());
        normalization.get_or_insert(normalizer_id);
        Ok(definition)
    }
}

impl Serialize for PipelineDefinition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl Document for PipelineDefinition {
    const KIND: &'static str = "pipeline";
    const DISTINGUISHING_MEMBER: &'static str = "pipeline";
    const VERSIONS: DocumentVersions = DocumentVersions::None;

    fn document_id(&self) -> String {
        self.pipeline.pipeline_id.to_string()
    }

    fn endpoint(&self) -> Option<&str> {
        self.pipeline.retrieval.endpoint.as_deref()
    }
}

impl PipelineDefinition {
    /// The sources of its tables of words, by the ids of the tables.
    pub fn word_sources(&self) -> impl Iterator<Item = (&str, &WordSource)> {
        self.tables.iter().filter_map(|(id, table)| match table {
            LookupTable::WordsFrom(source) => Some((id.as_str(), source)),
            LookupTable::Words(_) | LookupTable::Conversions(_) => None,
        })
    }

    /// The definition with the words that `read` returns for each source of words.
    ///
    /// # Errors
    /// That of `read`.
    pub fn with_words<E>(
        mut self,
        mut read: impl FnMut(&str, &WordSource) -> Result<WordTable, E>,
    ) -> Result<Self, E> {
        for (id, table) in &mut self.tables {
            if let LookupTable::WordsFrom(source) = table {
                *table = LookupTable::Words(read(id, source)?);
            }
        }
        Ok(self)
    }
}

/// The state of a registered pipeline. A list of all pipelines reads it in place of their definitions, which may be long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineState {
    pub pipeline_id: PipelineId,
    /// The id of the source that it feeds.
    pub oracle_id: SourceId,
    /// The digest of its definition.
    pub pipeline_sha256: Sha256Hex,
    /// The time of the registration of its definition.
    pub registered_at: Timestamp,
    /// The last pull, with any definition of the pipeline; `None` if it was never pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pull: Option<LastPullTimes>,
}

impl Row for PipelineState {
    type Key = PipelineId;
    const TABLE: &'static Table = &Table {
        name: "pipelines",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: true,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for PipelineState {
    fn key(&self) -> PipelineId {
        self.pipeline_id.clone()
    }
}

/// A pull, as it must be known after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastPullTimes {
    /// The time at which the pull began.
    pub began_at: Timestamp,
    /// The time at which it ended, with any outcome. Null while it is in progress, or if a stop of the daemon
    /// interrupted it.
    pub ended_at: Option<Timestamp>,
}

/// How the data of a source is retrieved, validated, transformed and stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestionPipeline {
    /// The id of the pipeline.
    pub pipeline_id: PipelineId,
    /// The id of the source.
    pub oracle_id: SourceId,
    /// How the data is retrieved.
    pub retrieval: PipelineRetrieval,
    /// The validation of raw records.
    pub validation: RecordValidation,
    /// The limits for one release.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gates: ReleaseGates,
    /// How records are transformed.
    #[serde(default)]
    pub transformation: PipelineTransformation,
    /// How records are stored.
    pub storage: PipelineStorage,
    /// The data that is kept for audits.
    pub audit: PipelineAudit,
}

fn is_default(gates: &ReleaseGates) -> bool {
    *gates == ReleaseGates::default()
}

/// How data is retrieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineRetrieval {
    /// The method.
    pub method: RetrievalMethod,
    /// The URL; required for `api_pull` and `file_download`, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The kind of authentication; the credential is in the configuration.
    #[serde(default, skip_serializing_if = "SourceAuthentication::is_none")]
    pub authentication: SourceAuthentication,
    /// The schedule of pulls: a cron expression of five fields, optionally followed by the name of a time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The compression of the payload; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<PayloadCompression>,
    /// The encoding of its text; UTF-8 by default.
    #[serde(default, skip_serializing_if = "TextEncoding::is_utf_8")]
    pub encoding: TextEncoding,
    /// The format of the payload.
    pub format: PayloadFormat,
}

/// How data is retrieved: `api_pull` and `file_download` by the daemon, `manual_upload` by an administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetrievalMethod {
    /// Pull from an API that returns records.
    ApiPull,
    /// Download of a file.
    FileDownload,
    /// Upload by an administrator, as a file or as a stream.
    ManualUpload,
}

impl RetrievalMethod {
    /// Whether the daemon retrieves the data itself.
    #[must_use]
    pub const fn is_pull(self) -> bool {
        matches!(self, Self::ApiPull | Self::FileDownload)
    }
}

/// The kind of authentication to a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceAuthentication {
    /// A key in a header.
    ApiKey,
    /// A bearer token, or OAuth client credentials to request one.
    Oauth,
    /// A client certificate.
    Mtls,
    /// No authentication.
    #[default]
    None,
}

impl SourceAuthentication {
    /// Whether requests have no credential.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The validation of raw records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordValidation {
    /// The id of the JSON Schema, optionally followed by `#` and a JSON Pointer to the part for one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// The fields that must be present, and neither null nor empty.
    #[serde(default)]
    pub required_fields: Vec<String>,
    /// Whether a record that fails the schema is rejected; if false, it is kept with a warning.
    pub reject_on_schema_fail: bool,
    /// The fields that identify a record within the source; by default those of the identity axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deduplication_key: Vec<String>,
}

/// The transformation of raw records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineTransformation {
    /// The id of the normalization; by default that of `normalization`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub normalizer_id: Option<String>,
    /// The ontology of the records as `id@version`. It must be the source's, which is used if this is absent.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_schema_id: Option<String>,
    /// Fields that become axes without a normalization.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_mappings: Vec<FieldMapping>,
}

/// A field that becomes an axis without a normalization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldMapping {
    /// The path of the field in the raw record.
    pub source_path: String,
    /// The path of the axis.
    pub target_axis: String,
    /// A transformation of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<TextTransform>,
    /// A unit conversion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_conversion: Option<FixedUnitConversion>,
}

/// A transformation of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextTransform {
    /// Remove white space at both ends.
    Trim,
    /// Convert to lower case.
    Lowercase,
    /// Convert to upper case.
    Uppercase,
}

/// A conversion between two units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedUnitConversion {
    /// The unit of the source.
    pub from_unit: String,
    /// The unit of the axis.
    pub to_unit: String,
}

/// The storage of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineStorage {
    /// The destination; only `store`, which is the default, is allowed.
    #[serde(default = "destination")]
    pub destination: String,
    /// The minimum number of days for which superseded content is kept.
    pub retention_days: u32,
}

/// The data that is kept for audits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineAudit {
    /// Whether raw payloads are archived.
    pub log_raw_input: bool,
    /// Whether provenance names the applied normalizers.
    pub log_transformations: bool,
    /// Whether records have provenance; only true, which is the default, is allowed.
    #[serde(default = "provenance_chain")]
    pub provenance_chain: bool,
}

fn destination() -> String {
    DESTINATION.to_owned()
}

const fn provenance_chain() -> bool {
    true
}

/// The normalization of raw records to an ontology.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NormalizationSpec {
    /// The id, by which provenance names the normalization; by default the id of the pipeline, or of an adapter's source.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub normalizer_id: Option<String>,
    /// The name of the schema of raw records, for readers.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source_schema_id: Option<String>,
    /// The id of the ontology. It must be the source's, which is used if this is absent.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub target_ontology_id: Option<OntologyId>,
    /// The mappings of fields to axes.
    #[serde(default)]
    pub axis_mappings: Vec<AxisMapping>,
    /// The normalizers of values, applied in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value_normalizers: Vec<ValueNormalizer>,
    /// The checks of the normalized values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_normalization_checks: Vec<ValueCheck>,
    /// The fields with the period of validity of a record; by default a record is valid from its release on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_time: Option<ValidTime>,
}

/// A mapping of a field to an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisMapping {
    /// The path of the field in the raw record.
    pub source_field: String,
    /// The path of the axis.
    pub target_axis: String,
    /// The cardinality of the mapping; `one_to_one` by default.
    #[serde(default)]
    pub cardinality: MappingCardinality,
    /// Whether a record without the field is rejected; false by default.
    #[serde(default)]
    pub required: bool,
    /// The value for records without the field; normalizers do not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub default_value: Option<Json>,
    /// The words for a missing value, as in the source: `n/a`. A field with one of them counts as absent. White space at both ends
    /// of the field is ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_values: Vec<String>,
    /// The keys of a group, for `one_to_many`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<GroupKey>,
    /// The definition by which the value was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<MeasurementDefinition>,
}

/// The cardinality of a mapping: `one_to_one` maps a field to an axis, `one_to_many` a list or an object to a group, and
/// `many_to_one` the first field that is present to an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MappingCardinality {
    /// One field becomes one axis.
    #[default]
    OneToOne,
    /// A list or an object becomes a group.
    OneToMany,
    /// The first field that is present, in the order of the mappings, becomes the axis.
    ManyToOne,
}

/// The keys of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupKey {
    /// The path of the key in the element of the value; by default the name of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The id of the table that translates keys into the ontology's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// The definition by which a value was measured, since sources measure different things under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, deny_unknown_fields, expecting = "expected a string or `{axis, table}`")]
pub enum MeasurementDefinition {
    /// One definition for all values of the axis.
    #[schema(title = "always")]
    Always(String),
    /// A definition that depends on the value of another axis.
    #[schema(title = "by_axis")]
    ByAxis {
        /// The other axis.
        axis: String,
        /// The id of the table of words. With `otherwise` `keep`, a value without an entry has no definition.
        table: String,
    },
}

/// A normalizer of the values of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueNormalizer {
    /// The path of the axis.
    pub axis: String,
    /// The type of the normalizer.
    pub normalizer_type: NormalizerType,
    /// The options of the normalizer, which depend on its type.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub config: Map<String, Json>,
}

/// The type of a normalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum NormalizerType {
    /// Convert to another unit.
    UnitConversion,
    /// Translate into the ontology's words.
    EnumMapping,
    /// Parse a date.
    DateParsing,
    /// Parse a number in the source's notation.
    NumberParsing,
    /// Round.
    NumericPrecision,
    /// Divide 1 by the value and round.
    Reciprocal,
    /// Normalize case and white space.
    StringNormalization,
    /// Leave the value unchanged.
    Identity,
}

/// A check of a normalized value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueCheck {
    /// The type of the check.
    pub check_type: ValueCheckType,
    /// The path of the axis.
    pub axis: String,
    /// The constraint, whose form depends on the type of the check.
    #[schema(value_type = Value)]
    pub constraint: Json,
    /// How a record that fails the check is handled.
    pub on_failure: CheckFailureHandling,
}

/// The type of a check: `range` with `{min?, max?}`, `enum` with a list of values, `regex` with a pattern for the whole
/// text, or `custom` with a CEL expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueCheckType {
    /// `{min?, max?}`, both inclusive.
    Range,
    /// A list of allowed values.
    Enum,
    /// A pattern that matches the whole text.
    Regex,
    /// A CEL expression over all axes.
    Custom,
}

/// How a record that fails a check is handled: `reject` rejects it, `warn` keeps it with a warning, `nullify` drops the
/// value with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckFailureHandling {
    /// Reject the record.
    Reject,
    /// Keep the record, with a warning.
    Warn,
    /// Keep the record without the value, with a warning.
    Nullify,
}

/// The fields with the period of validity of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidTime {
    /// The path of the first moment of validity.
    pub from_field: String,
    /// The path of the end of validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_field: Option<String>,
    /// The date formats in `strftime` syntax; RFC 3339 is always accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<String>,
    /// The time zone of days and of times without an offset, by its name in the IANA database; by default days are in UTC, and
    /// no format may read such times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Which of two times a time is that occurs twice in `timezone`; by default its record is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ambiguous: Option<AmbiguousTimeHandling>,
}

/// The definition of runs, which outlives the registered document.
impl Row for PipelineDefinition {
    type Key = Sha256Hex;
    const TABLE: &'static Table = &Table {
        name: "definitions",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: false,
        names_files: true,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for PipelineDefinition {
    fn key(&self) -> Sha256Hex {
        digest_of_json(self)
    }
}

/// The most entries of a table.
pub const ENTRIES_MAX: usize = 100_000;

/// A lookup table of a pipeline or an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LookupTable {
    /// Translates words.
    Words(WordTable),
    /// Translates words by the records of another source. A run uses the records that are valid when it begins; its definition has
    /// them as `words`.
    WordsFrom(WordSource),
    /// Conversion factors by substance, then by source unit; the substance `*` matches every substance.
    Conversions(BTreeMap<String, BTreeMap<String, UnitEquivalent>>),
}

impl LookupTable {
    /// Whether its words were read from the records of a source.
    #[must_use]
    pub fn has_words_of_source(&self) -> bool {
        matches!(self, Self::Words(words) if words.from.is_some())
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        match self {
            Self::Words(words) => words.entries.len(),
            Self::WordsFrom(_) => 0,
            Self::Conversions(substances) => substances.values().map(BTreeMap::len).sum(),
        }
    }
}

/// A table that translates words of the source into words of the ontology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordTable {
    /// The ontology's term for each term of the source; null for a term that is ignored on purpose.
    pub entries: BTreeMap<String, Option<String>>,
    /// How words without an entry are handled; `reject` by default.
    #[serde(default)]
    pub otherwise: UnknownWordHandling,
    /// The records from which the entries were read; absent if the document has them.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<WordSource>,
}

impl WordTable {
    /// The table with its words in Unicode NFC, as [`Self::find`] looks them up.
    #[must_use]
    pub fn in_nfc(mut self) -> Self {
        if !self.entries.keys().all(|word| word.is_ascii()) {
            let entries = self.entries.into_iter();
            self.entries = entries.map(|(word, term)| (to_nfc(&word).into_owned(), term)).collect();
        }
        self
    }

    /// The translation of `word`, if the table has one: null for a word that is ignored.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<Option<&str>> {
        self.entries.get(&*to_nfc(word)).map(Option::as_deref)
    }
}

/// The records of a registered source that translate words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordSource {
    /// The source.
    pub oracle_id: SourceId,
    /// The axis with the words of the payload.
    pub key: String,
    /// The axis with the words of the ontology.
    pub value: String,
    /// How words without a record are handled; `reject` by default.
    #[serde(default)]
    pub otherwise: UnknownWordHandling,
}

/// Why records do not translate words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordSourceError {
    /// The source does not have the axis.
    #[error("source {oracle_id} has no axis `{axis}`; its axes are: {known}")]
    Axis { oracle_id: SourceId, axis: String, known: String },
    /// Two records translate a word differently.
    #[error(
        "source {oracle_id} translates `{word}` to `{first}` and to `{second}`; name a `key` whose values are unique"
    )]
    Ambiguous { oracle_id: SourceId, word: String, first: String, second: String },
    /// The source has too many words.
    #[error("source {oracle_id} has more than {ENTRIES_MAX} words, the maximum of a table")]
    TooMany { oracle_id: SourceId },
    /// No record has both axes.
    #[error("no record of source {oracle_id} has both `{key}` and `{value}` now")]
    Empty { oracle_id: SourceId, key: String, value: String },
}

/// The words that are collected from the records of a source.
#[derive(Debug)]
pub struct WordCollector<'s> {
    source: &'s WordSource,
    entries: BTreeMap<String, Option<String>>,
}

impl WordSource {
    /// Checks that a source with the axes `provided` has the axes of the words.
    ///
    /// # Errors
    /// It does not have one of them.
    pub fn check(&self, provided: &[String]) -> Result<(), WordSourceError> {
        let missing = [&self.key, &self.value].into_iter().find(|axis| !provided.contains(axis));
        missing.map_or(Ok(()), |axis| {
            let (oracle_id, axis, known) = (self.oracle_id.clone(), axis.clone(), provided.join(", "));
            Err(WordSourceError::Axis { oracle_id, axis, known })
        })
    }

    /// The table without words, for checks before a run: its words are known when the run begins.
    #[must_use]
    pub fn empty_table(&self) -> WordTable {
        WordTable { entries: BTreeMap::new(), otherwise: self.otherwise, from: None }
    }

    /// Begins to collect words.
    #[must_use]
    pub const fn collector(&self) -> WordCollector<'_> {
        WordCollector { source: self, entries: BTreeMap::new() }
    }
}

impl WordCollector<'_> {
    /// Adds the translation in a record. A record without a value on one of the axes is ignored.
    ///
    /// # Errors
    /// Another record translates the word differently, or there are too many words.
    pub fn add(&mut self, mut record: RecordContent) -> Result<(), WordSourceError> {
        let WordSource { oracle_id, key, value, .. } = self.source;
        let (Some(word), Some(term)) = (record.axes.remove(key), record.axes.remove(value)) else {
            return Ok(());
        };
        let (oracle_id, word, term) = (oracle_id.clone(), word.to_string(), term.to_string());
        let earlier = self.entries.insert(word.clone(), Some(term.clone())).flatten();
        if let Some(first) = earlier.filter(|first| *first != term) {
            return Err(WordSourceError::Ambiguous { oracle_id, word, first, second: term });
        }
        if self.entries.len() > ENTRIES_MAX {
            return Err(WordSourceError::TooMany { oracle_id });
        }
        Ok(())
    }

    /// The table of all words.
    ///
    /// # Errors
    /// There are none: each value would be rejected, dropped, or kept without a translation.
    pub fn into_table(self) -> Result<WordTable, WordSourceError> {
        let source = self.source;
        if self.entries.is_empty() {
            let WordSource { oracle_id, key, value, .. } = source.clone();
            return Err(WordSourceError::Empty { oracle_id, key, value });
        }
        Ok(WordTable { entries: self.entries, otherwise: source.otherwise, from: Some(source.clone()) })
    }
}

/// How a word without an entry is handled: `reject` rejects the record, `warn` drops the value with a warning, `keep` keeps
/// the word unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownWordHandling {
    /// Reject the record.
    #[default]
    Reject,
    /// Drop the value, with a warning.
    Warn,
    /// Keep the word unchanged.
    Keep,
}

/// The equivalent of one source unit for a substance: 1 IU of vitamin D is 0.025 ug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitEquivalent {
    /// The number of target units.
    #[schema(value_type = DecimalText)]
    pub factor: Decimal,
    /// The UCUM code of the target unit.
    pub unit: String,
}
