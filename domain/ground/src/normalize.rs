//! Normalization: a raw record becomes a record of the ontology, or is rejected with a reason.
//!
//! Source: RFC-0002, "Schema Normalization". A [`RecordNormalizer`] is a definition compiled for an ontology.
//! Compilation reports every fault of the definition. The result of a normalization depends only on the raw
//! record, so the same bytes always give the same record.

mod compile;
mod expression;
mod mapping;
mod schema;
mod steps;

use super::ontology::Ontology;
use super::path::RawFieldPath;
use super::pipeline::PipelineAudit;
use super::record::{RecordContent, RecordIdentity, source_record_id};
use super::rejection::{RecordRejection, RecordRule};
use super::value::TypedValue;
use crate::axis::Axis;
use crate::normalize::expression::{CelExpression, ValueFault};
use crate::pipeline::CheckFailureHandling;
use crate::record::put_value;
use crate::run::{AxisCoverage, RunCounts, RunWarning};
use crate::value::AxisValue;
pub use compile::{PipelineDefinitionError, PipelineDefinitionErrors};
use domain_base::decimal::Decimal;
use domain_base::raw::SourceValue;
use domain_base::text_form::{find_mixed_script_word, is_blank, is_hiding, to_nfc};
use domain_base::wording::excerpt;
use jiff::Timestamp;
use mapping::{CompiledMapping, FoundAxisValue, definitions_of};
use regex::Regex;
use schema::CompiledSchema;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use steps::{DateFormats, NormalizationStep};
use strum::IntoStaticStr;

/// A normalized record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalizerOutput {
    pub content: RecordContent,
    /// The canonical JSON of the content.
    pub json: Vec<u8>,
    /// The row of the content (`RecordContent::to_row`).
    pub row: Vec<u8>,
    /// The values by which the record is indexed: the indexes of their axes, and their key bytes.
    pub index: Vec<(u16, Vec<u8>)>,
    pub identity: RecordIdentity,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The time from which the record is valid, if the record names it.
    pub valid_from: Option<Timestamp>,
    /// The time until which the record is valid, if the record names it.
    pub valid_until: Option<Timestamp>,
    /// Warnings; they do not reject the record.
    pub warnings: Vec<RecordRejection>,
}

/// A compiled definition.
#[derive(Debug)]
pub struct RecordNormalizer {
    ontology: Arc<Ontology>,
    schema: Option<CompiledSchema>,
    reject_on_schema_fail: bool,
    required_fields: Vec<RawFieldPath>,
    mappings: Vec<CompiledMapping>,
    steps: Vec<NormalizationStep>,
    checks: Vec<CompiledValueCheck>,
    /// The fields that identify the record within its source. Empty if the identity axes identify it.
    record_key: Vec<RawFieldPath>,
    valid_time: Option<ValidTimePaths>,
    transformations: Vec<String>,
}

/// The fields with the period of validity of a record.
#[derive(Debug)]
struct ValidTimePaths {
    from: RawFieldPath,
    until: Option<RawFieldPath>,
    dates: DateFormats,
}

/// A value between mapping and normalization, with its origin.
struct MappedValue<'n, 'r> {
    mapping: &'n CompiledMapping,
    /// The path of the axis, with the key in place of `*` for a group.
    path: Cow<'n, str>,
    found: FoundAxisValue<'n, 'r>,
    /// The unit that the record itself names for the value.
    unit: Option<Cow<'r, str>>,
}

/// The values of a record by their paths, each with its mapping.
type ValuesByPath<'n> = BTreeMap<Cow<'n, str>, (&'n CompiledMapping, TypedValue)>;

impl RecordNormalizer {
    /// Normalizes `raw`.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn normalize(&self, raw: &SourceValue) -> Result<NormalizerOutput, RecordRejection> {
        let mut warnings = Vec::new();
        if let Some(schema) = &self.schema
            && let Err(rejection) = schema.check(raw)
        {
            if self.reject_on_schema_fail {
                return Err(rejection);
            }
            warnings.push(rejection);
        }
        for path in &self.required_fields {
            if !path.find(raw).is_some_and(is_filled) {
                return Err(RecordRejection::new(
                    RecordRule::RequiredField,
                    Some(path.as_str()),
                    "it is missing or empty",
                ));
            }
        }
        let mut values = ValuesByPath::new();
        for MappedValue { mapping, path, found, unit } in self.map_values(raw, &mut warnings)? {
            let value = match found {
                FoundAxisValue::Draft(draft) => {
                    self.apply_steps(mapping, &path, draft, unit.as_deref(), &mut warnings)?
                }
                FoundAxisValue::Default(value) => Some(value.clone()),
            };
            let Some(value) = value else { continue };
            if values.contains_key(&path) {
                return Err(RecordRejection::new(
                    RecordRule::Mapping,
                    Some(&path),
                    "two elements have this name",
                ));
            }
            values.insert(path, (mapping, value));
        }
        self.check_all(&mut values, &mut warnings)?;
        self.finish(raw, values, warnings)
    }

    /// The identity and the source record id of a rejected record, if they can be read without the rest of the record.
    #[must_use]
    pub fn identify(&self, raw: &SourceValue) -> Option<(RecordIdentity, String)> {
        let mut identity = Vec::new();
        for (index, _) in self.ontology.axes.iter().enumerate().filter(|(_, axis)| axis.identity) {
            identity.push(self.identity_value(raw, index)?);
        }
        let source_record_id = self.record_id(raw, &identity).ok()?;
        check_id_size(&source_record_id).ok()?;
        Some((RecordIdentity::new(identity), source_record_id))
    }

    /// The value of the identity axis with this index in the ontology.
    fn identity_value(&self, raw: &SourceValue, index: usize) -> Option<TypedValue> {
        let axis = self.ontology.axes.get(index)?;
        let mappings = || self.mappings.iter().filter(move |mapping| mapping.axis == index);
        let found = mappings().find_map(|mapping| mapping.map_single(raw, axis).transpose());
        let Some(found) = found else { return mappings().find_map(|mapping| mapping.default.clone()) };
        let MappedValue { mapping, path, found, unit } = found.ok()?;
        match found {
            FoundAxisValue::Draft(draft) => {
                self.apply_steps(mapping, &path, draft, unit.as_deref(), &mut Vec::new()).ok().flatten()
            }
            FoundAxisValue::Default(value) => Some(value.clone()),
        }
    }

    /// Builds the record from values that passed the checks of the pipeline.
    fn finish(
        &self,
        raw: &SourceValue,
        values: ValuesByPath<'_>,
        mut warnings: Vec<RecordRejection>,
    ) -> Result<NormalizerOutput, RecordRejection> {
        let mut identity = Vec::new();
        for axis in self.ontology.identity() {
            let missing = || {
                RecordRejection::new(
                    RecordRule::Mapping,
                    Some(&axis.axis),
                    "no value identifies the record's subject",
                )
            };
            identity.push(values.get(axis.axis.as_str()).ok_or_else(missing)?.1.clone());
        }
        let (valid_from, valid_until) = self.valid_time(raw)?;
        let source_record_id = self.record_id(raw, &identity)?;
        check_id_size(&source_record_id)?;
        let definitions = definitions_of(&values, &mut warnings)?;
        check_value_sizes(&values, &definitions, &self.ontology)?;
        let (mut cells, mut index) = (Vec::with_capacity(128), Vec::new());
        for (path, (mapping, value)) in &values {
            let axis = self.ontology.axes.get(mapping.axis);
            put_value(&mut cells, mapping.axis, axis.and_then(|axis| axis.key_in(path)), value);
            if axis.is_some_and(|axis| axis.indexed && axis.axis == *path) {
                let mut key = Vec::new();
                value.append_key(&mut key);
                index.extend(u16::try_from(mapping.axis).ok().map(|axis_index| (axis_index, key)));
            }
        }
        let axes = values.into_iter().map(|(path, (_, value))| (path.into_owned(), value.into_value()));
        let content = RecordContent { axes: axes.collect(), definitions };
        let json = content.to_json();
        let row =
            content.row_of(json.len(), &cells, &self.ontology).expect("every definition belongs to a value");
        let identity = RecordIdentity::new(identity);
        Ok(NormalizerOutput {
            content,
            json,
            row,
            index,
            identity,
            source_record_id,
            valid_from,
            valid_until,
            warnings,
        })
    }

    /// The source's own id of the record: the values of `record_key`, or of the identity axes.
    fn record_id(&self, raw: &SourceValue, identity: &[TypedValue]) -> Result<String, RecordRejection> {
        if self.record_key.is_empty() {
            let parts: Vec<_> = identity.iter().map(TypedValue::text).collect();
            return Ok(source_record_id(parts.iter().map(AsRef::as_ref)));
        }
        let part = |path: &RawFieldPath| {
            let missing = || {
                RecordRejection::new(
                    RecordRule::RequiredField,
                    Some(path.as_str()),
                    "a part of the record's key is missing",
                )
            };
            path.find(raw).and_then(text_of).ok_or_else(missing)
        };
        let parts = self.record_key.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        Ok(to_nfc(&source_record_id(parts.iter().map(AsRef::as_ref))).into_owned())
    }

    /// The period of validity that the record itself names.
    fn valid_time(
        &self,
        raw: &SourceValue,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), RecordRejection> {
        let Some(valid_time) = &self.valid_time else { return Ok((None, None)) };
        let read = |path: &RawFieldPath| {
            let fault = |found: &str, expected: &str| {
                let reason = format!("{found} is not {expected}");
                RecordRejection::new(RecordRule::ValidTime, Some(path.as_str()), reason)
            };
            match path.find(raw) {
                Some(found @ (SourceValue::List(_) | SourceValue::Object(_))) => {
                    Err(fault(found.kind(), "a date"))
                }
                found => match found.and_then(text_of) {
                    Some(text) => {
                        let moment = valid_time.dates.moment(&text).map(Some);
                        moment.map_err(|expected| fault(&format!("`{}`", excerpt(&text)), &expected))
                    }
                    None => Ok(None),
                },
            }
        };
        let from = read(&valid_time.from)?;
        let until = valid_time.until.as_ref().map_or(Ok(None), read)?;
        if let (Some(from), Some(until)) = (from, until)
            && until <= from
        {
            let reason = format!("it is valid until {until}, which is not after its start, {from}");
            return Err(RecordRejection::new(RecordRule::ValidTime, Some(valid_time.from.as_str()), reason));
        }
        Ok((from, until))
    }

    /// The names of the normalizers, as provenance lists them. Empty if the pipeline does not log them.
    #[must_use]
    pub fn transformations(&self, audit: PipelineAudit) -> &[String] {
        if audit.log_transformations { &self.transformations } else { &[] }
    }
}

/// The text of a scalar; `None` for null, a blank text, a list or an object. Different spellings of a number give the
/// same text.
fn text_of(raw: &SourceValue) -> Option<Cow<'_, str>> {
    match raw {
        SourceValue::Bool(value) => Some(if *value { "true" } else { "false" }.into()),
        SourceValue::Number(digits) => {
            Some(digits.parse().map_or(digits.into(), |number: Decimal| number.to_string().into()))
        }
        SourceValue::Text(text) => Some(text.into()).filter(|_| !is_blank(text)),
        SourceValue::Null | SourceValue::List(_) | SourceValue::Object(_) => None,
    }
}

/// Whether the value is neither null nor blank nor an empty list or object.
fn is_filled(raw: &SourceValue) -> bool {
    match raw {
        SourceValue::Bool(_) | SourceValue::Number(_) => true,
        SourceValue::Text(text) => !is_blank(text),
        SourceValue::Null => false,
        SourceValue::List(items) => !items.is_empty(),
        SourceValue::Object(members) => !members.is_empty(),
    }
}

/// The maximum length of a text that is part of a key or an index, in bytes.
const KEY_MAX_BYTES: usize = 2048;
/// The maximum size of all paths, values and definitions of a record, in bytes; its JSON is at most six times as large.
const CONTENT_MAX_BYTES: usize = 512 * 1024;

/// Checks the size of the values and their definitions, and of the values that become parts of keys.
fn check_value_sizes(
    values: &ValuesByPath<'_>,
    definitions: &BTreeMap<String, String>,
    ontology: &Ontology,
) -> Result<(), RecordRejection> {
    let mut size_bytes: usize =
        definitions.iter().map(|(path, definition)| path.len() + definition.len()).sum();
    let mut identity_bytes = 0;
    for (path, (mapping, value)) in values {
        let text = value.text();
        size_bytes += path.len() + text.len();
        let Some(axis) = ontology.axes.get(mapping.axis).filter(|axis| axis.identity || axis.indexed) else {
            continue;
        };
        identity_bytes += if axis.identity { text.len() } else { 0 };
        if text.len().max(identity_bytes) > KEY_MAX_BYTES {
            let reason = format!("its value, a lookup key, has more than {KEY_MAX_BYTES} bytes");
            return Err(RecordRejection::new(RecordRule::AxisType, Some(path), reason));
        }
    }
    if size_bytes <= CONTENT_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("the record has {size_bytes} bytes (at most {CONTENT_MAX_BYTES} allowed)");
    Err(RecordRejection::new(RecordRule::Mapping, None, reason))
}

/// Checks the size of the id, which is part of keys.
fn check_id_size(id: &str) -> Result<(), RecordRejection> {
    if id.len() <= KEY_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("its id has {} bytes (at most {KEY_MAX_BYTES} allowed)", id.len());
    Err(RecordRejection::new(RecordRule::Mapping, None, reason))
}

/// The maximum number of allowed values that a message lists.
const ALLOWED_SHOWN_MAX: usize = 16;

#[derive(Debug)]
struct CompiledValueCheck {
    /// The index of the axis in the ontology.
    axis: usize,
    constraint: CompiledConstraint,
    on_failure: CheckFailureHandling,
}

#[derive(Debug)]
enum CompiledConstraint {
    Range { min: Option<TypedValue>, max: Option<TypedValue> },
    Enum(Vec<TypedValue>),
    Regex(Regex),
    Custom(CelExpression),
}

impl RecordNormalizer {
    /// Applies the checks to the values, and removes values that a failed check nullifies.
    fn check_all(
        &self,
        values: &mut ValuesByPath<'_>,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<(), RecordRejection> {
        for check in &self.checks {
            let mut failed = Vec::new();
            let of_axis = values.iter().filter(|(_, (mapping, _))| mapping.axis == check.axis);
            if let CompiledConstraint::Custom(expression) = &check.constraint {
                let context = expression.context(&self.ontology, values);
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(expression.fault(&context, value)));
                }
            } else {
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(check.constraint.fault(value)));
                }
            }
            for (path, ValueFault { reason, bound }) in failed {
                let rejection =
                    RecordRejection::new(RecordRule::Check, Some(&path), reason).with_bound(bound);
                match check.on_failure {
                    CheckFailureHandling::Reject => return Err(rejection),
                    CheckFailureHandling::Warn => {}
                    CheckFailureHandling::Nullify => drop(values.remove(&path)),
                }
                warnings.push(rejection);
            }
        }
        Ok(())
    }
}

impl CompiledConstraint {
    /// The fault of `value` on its own, if any.
    fn fault(&self, value: &TypedValue) -> Option<ValueFault> {
        let broken = match self {
            Self::Range { min: Some(min), .. } if value < min => format!("is below {}", min.text()),
            Self::Range { max: Some(max), .. } if value > max => format!("is above {}", max.text()),
            Self::Enum(allowed) if !allowed.contains(value) => {
                let listed: Vec<_> = allowed.iter().take(ALLOWED_SHOWN_MAX).map(TypedValue::text).collect();
                let more = if allowed.len() > ALLOWED_SHOWN_MAX { ", …" } else { "" };
                format!("is not one of the allowed values: {}{more}", listed.join(", "))
            }
            Self::Regex(regex) if !regex.is_match(&value.text()) => format!("does not match {regex}"),
            Self::Range { .. } | Self::Enum(_) | Self::Regex(_) | Self::Custom(_) => return None,
        };
        Some(ValueFault { reason: format!("{} {broken}", value.text()), bound: format!("it {broken}") })
    }
}

/// The maximum number of columns of a header that an error names.
const COLUMNS_NAMED_MAX: usize = 50;
/// The maximum length of a column's name in an error, in characters.
const COLUMN_NAME_MAX_CHARS: usize = 64;

/// A path of a definition, and the part of the definition that contains it.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionPath<'n> {
    path: &'n RawFieldPath,
    field: DefinitionPathField,
    /// The axis that it is for, if any.
    axis: Option<&'n str>,
    /// Whether a default value replaces a missing one.
    has_default: bool,
}

/// The part of a definition that contains a path.
#[derive(Debug, Clone, Copy, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum DefinitionPathField {
    Mapping,
    Key,
    #[strum(to_string = "from_unit_field")]
    Unit,
    RequiredFields,
    DeduplicationKey,
    #[strum(to_string = "valid_time.from_field")]
    ValidFrom,
    #[strum(to_string = "valid_time.until_field")]
    ValidUntil,
}

/// A definition reads a column that the header of a delimited payload does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reader} reads column `{column}`, which the header does not have{hint}; its columns are {columns}")]
pub struct MissingColumnError {
    reader: String,
    column: String,
    hint: String,
    columns: String,
}

impl RecordNormalizer {
    /// Every path that the definition reads from a raw record.
    #[must_use]
    pub fn paths(&self) -> Vec<DefinitionPath<'_>> {
        let mut uses = Vec::new();
        for (mapping, axis) in self.with_axes() {
            let has_default = mapping.default.is_some();
            let of_axis =
                |path, field| DefinitionPath { path, field, axis: Some(axis.axis.as_str()), has_default };
            uses.push(of_axis(&mapping.source, DefinitionPathField::Mapping));
            uses.extend(mapping.key.iter().map(|path| of_axis(path, DefinitionPathField::Key)));
            uses.extend(mapping.unit.iter().map(|path| of_axis(path, DefinitionPathField::Unit)));
        }
        let of_all = |path, field| DefinitionPath { path, field, axis: None, has_default: false };
        uses.extend(
            self.required_fields.iter().map(|path| of_all(path, DefinitionPathField::RequiredFields)),
        );
        uses.extend(self.record_key.iter().map(|path| of_all(path, DefinitionPathField::DeduplicationKey)));
        if let Some(valid_time) = &self.valid_time {
            uses.push(of_all(&valid_time.from, DefinitionPathField::ValidFrom));
            uses.extend(valid_time.until.iter().map(|path| of_all(path, DefinitionPathField::ValidUntil)));
        }
        uses
    }

    /// Checks that the header of a delimited payload has every column that the definition reads.
    ///
    /// # Errors
    /// The first column that it does not have.
    pub fn check_columns(&self, columns: &[&str]) -> Result<(), MissingColumnError> {
        let is_there = |path: &RawFieldPath| {
            path.is_every_column() || path.column().is_some_and(|column| columns.contains(&column))
        };
        match self.paths().into_iter().find(|path_use| !is_there(path_use.path)) {
            Some(path_use) => Err(MissingColumnError::new(&path_use, columns)),
            None => Ok(()),
        }
    }

    /// The axes that the definition maps to, in the ontology's order.
    pub fn mapped_axes(&self) -> impl Iterator<Item = &Axis> {
        let axis_indices: BTreeSet<_> = self.mappings.iter().map(|mapping| mapping.axis).collect();
        axis_indices.into_iter().filter_map(|index| self.ontology.axes.get(index))
    }
}

impl DefinitionPath<'_> {
    /// Whether the path matches anything in `raw`.
    #[must_use]
    pub fn matches(&self, raw: &SourceValue) -> bool {
        self.path.matches(raw)
    }

    /// Whether the path may match nothing. A mapping with a default value may exist only for that value.
    #[must_use]
    pub const fn may_be_unmatched(&self) -> bool {
        self.has_default
    }

    /// The warning that the path matched nothing in any record.
    #[must_use]
    pub fn unmatched(&self) -> RunWarning {
        RunWarning::UnmatchedPath {
            path: self.path.as_str().to_owned(),
            field: self.field.into_str().to_owned(),
            axis: self.axis.map(str::to_owned),
        }
    }
}

impl fmt::Display for DefinitionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, field) = (self.path.as_str(), self.field.into_str());
        match self.axis {
            Some(axis) => write!(f, "the {field} `{path}` of axis `{axis}`"),
            None => write!(f, "`{path}` in `{field}`"),
        }
    }
}

impl MissingColumnError {
    fn new(path_use: &DefinitionPath<'_>, columns: &[&str]) -> Self {
        let text = path_use.path.as_str();
        let name = |name: &str| name.chars().take(COLUMN_NAME_MAX_CHARS).collect::<String>();
        let hint = if path_use.path.column() != Some(text) && columns.contains(&text) {
            let quoted = text.replace('\\', "\\\\").replace('\'', "\\'");
            format!(" (a column called `{text}` is written `['{quoted}']`)")
        } else {
            String::new()
        };
        let named = columns.iter().take(COLUMNS_NAMED_MAX).map(|column| format!("`{}`", name(column)));
        let mut named = named.collect::<Vec<_>>().join(", ");
        let more = columns.len().saturating_sub(COLUMNS_NAMED_MAX);
        if more > 0 {
            named.push_str(&format!(" and {more} more"));
        }
        Self {
            reader: path_use.to_string(),
            column: name(path_use.path.column().unwrap_or(text)),
            hint,
            columns: if named.is_empty() { "none".to_owned() } else { named },
        }
    }
}

/// The maximum number of columns or members that are compared with those of another run.
pub const COLUMNS_MAX: usize = 1024;
/// The longest of their names, in bytes.
const COLUMN_NAME_MAX_BYTES: usize = 256;
/// The maximum number of different records whose members are remembered.
const SHAPES_MAX: usize = 4096;

/// The columns, paths and axes of the definition that a run has found.
#[derive(Debug)]
pub struct DefinitionCoverage<'n> {
    /// The paths that have matched nothing so far.
    unmatched: Vec<DefinitionPath<'n>>,
    /// The target axes of the mappings, each with the number of records that have a value on it.
    filled: Vec<(&'n Axis, u64)>,
    /// The identity axes with words of several scripts, each with the first word and the number of records.
    mixed_scripts: BTreeMap<&'n str, (String, u64)>,
    /// The same for values with characters that are not seen.
    hidden: BTreeMap<&'n str, (String, u64)>,
    columns: ColumnNames,
    /// Records that passed normalization.
    accepted: u64,
    warnings: Vec<RunWarning>,
}

impl<'n> DefinitionCoverage<'n> {
    /// Begins with the columns of the payload's header, if it has one, and the numbers of those without a name.
    ///
    /// # Errors
    /// `MissingColumnError` if the definition reads a column that the header does not have.
    pub fn new(
        normalizer: &'n RecordNormalizer,
        columns: Option<&[String]>,
        unnamed: Vec<usize>,
    ) -> Result<Self, MissingColumnError> {
        let filled = normalizer.mapped_axes().map(|axis| (axis, 0)).collect();
        let (mut unmatched, mut warnings, mut names) = (Vec::new(), Vec::new(), ColumnNames::default());
        match columns {
            Some(columns) => {
                let named = columns.iter().map(String::as_str).filter(|name| !is_blank(name));
                normalizer.check_columns(&named.clone().collect::<Vec<_>>())?;
                names = ColumnNames::of_header(named);
                if !unnamed.is_empty() {
                    warnings.push(RunWarning::UnnamedColumns { columns: unnamed });
                }
            }
            None => unmatched = normalizer.paths(),
        }
        Ok(Self {
            unmatched,
            filled,
            columns: names,
            mixed_scripts: BTreeMap::new(),
            hidden: BTreeMap::new(),
            accepted: 0,
            warnings,
        })
    }

    /// Notes which members `raw` has, and which paths match in it.
    pub fn note_raw_record(&mut self, raw: &SourceValue) {
        self.columns.note(raw);
        self.unmatched.retain(|path| !path.matches(raw));
    }

    /// Notes which axes a record fills.
    pub fn note_filled_axes(&mut self, content: &RecordContent) {
        self.accepted += 1;
        for (axis, records) in &mut self.filled {
            let has_value = if axis.is_group() {
                content.axes.keys().any(|path| axis.key_in(path).is_some())
            } else {
                content.axes.contains_key(&axis.axis)
            };
            *records += u64::from(has_value);
            if let (true, Some(AxisValue::Text(text))) = (axis.identity, content.axes.get(&axis.axis)) {
                if let Some(word) = find_mixed_script_word(text) {
                    self.mixed_scripts.entry(&axis.axis).or_insert_with(|| (excerpt(word), 0)).1 += 1;
                }
                if text.trim() != text.as_str() || text.chars().any(is_hiding) {
                    self.hidden.entry(&axis.axis).or_insert_with(|| (excerpt(text), 0)).1 += 1;
                }
            }
        }
    }

    /// Stores the number of records that filled each axis, the columns, and the warnings of the run.
    pub fn store_in(self, counts: &mut RunCounts) {
        let Self { unmatched, filled, columns, mixed_scripts, hidden, accepted, mut warnings } = self;
        let unmatched = unmatched.iter().filter(|path_use| !path_use.may_be_unmatched());
        warnings.extend(unmatched.map(DefinitionPath::unmatched));
        let mixed = mixed_scripts.into_iter();
        warnings.extend(mixed.map(|(axis, (word, records))| RunWarning::MixedScripts {
            axis: axis.to_owned(),
            word,
            records,
        }));
        warnings.extend(hidden.into_iter().map(|(axis, (value, records))| RunWarning::HiddenCharacters {
            axis: axis.to_owned(),
            value,
            records,
        }));
        let fill = |(axis, records): (&Axis, u64)| (axis.axis.clone(), AxisCoverage::new(records, accepted));
        counts.axes = filled.into_iter().map(fill).collect();
        (counts.columns, counts.warnings) = (columns.into_names(), warnings);
    }
}

/// The names of the columns of a header, or of the members of records that have none.
#[derive(Debug, Default)]
struct ColumnNames {
    names: BTreeSet<String>,
    /// Whether the names are those of a header, which no record adds to.
    is_complete: bool,
    has_too_many: bool,
    /// The hashes of the names of each record so far. Most records have the same members as another one.
    seen: HashSet<u64>,
}

impl ColumnNames {
    fn of_header<'h>(names: impl Iterator<Item = &'h str>) -> Self {
        let mut columns = Self { is_complete: true, ..Self::default() };
        names.for_each(|name| columns.add(name));
        columns
    }

    /// Adds the paths of the members of `raw`. Elements of lists have none.
    fn note(&mut self, raw: &SourceValue) {
        if self.is_complete || self.has_too_many {
            return;
        }
        let mut hasher = DefaultHasher::new();
        hash_names(raw, &mut hasher);
        let hash = hasher.finish();
        if self.seen.contains(&hash) {
            return;
        }
        if self.seen.len() < SHAPES_MAX {
            self.seen.insert(hash);
        }
        self.add_members(raw, "");
    }

    fn add_members(&mut self, raw: &SourceValue, prefix: &str) {
        let SourceValue::Object(members) = raw else { return };
        for (name, value) in members {
            let path = format!("{prefix}{name}");
            match value {
                SourceValue::Object(_) => self.add_members(value, &format!("{path}.")),
                _ => self.add(&path),
            }
        }
    }

    fn add(&mut self, name: &str) {
        if self.has_too_many || self.names.contains(name) {
            return;
        }
        self.has_too_many = self.names.len() == COLUMNS_MAX || name.len() > COLUMN_NAME_MAX_BYTES;
        if !self.has_too_many {
            self.names.insert(name.to_owned());
        }
    }

    fn into_names(self) -> Vec<String> {
        if self.has_too_many { Vec::new() } else { self.names.into_iter().collect() }
    }
}

fn hash_names(raw: &SourceValue, hasher: &mut DefaultHasher) {
    let SourceValue::Object(members) = raw else { return };
    members.len().hash(hasher);
    for (name, value) in members {
        name.hash(hasher);
        hash_names(value, hasher);
    }
}

#[cfg(test)]
mod tests;
