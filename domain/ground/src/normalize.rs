//! Normalization: a raw record becomes a record of the ontology, or is rejected with a reason.
//!
//! Source: RFC-0002, "Schema Normalization". A [`RecordNormalizer`] is a definition compiled for an ontology.
//! Compilation reports every fault of the definition. The result of a normalization depends only on the raw
//! record, so the same bytes always give the same record.

mod checks;
mod compile;
mod coverage;
mod expression;
mod mapping;
mod paths;
mod schema;
mod steps;

pub use compile::{PipelineDefinitionError, PipelineDefinitionErrors};
pub use coverage::DefinitionCoverage;
pub use paths::{DefinitionPath, MissingColumnError};

use super::ontology::Ontology;
use super::path::RawFieldPath;
use super::pipeline::PipelineAudit;
use super::record::{RecordContent, RecordIdentity, source_record_id};
use super::rejection::{RecordRejection, RecordRule};
use super::row::put_value;
use super::value::TypedValue;
use checks::CompiledValueCheck;
use domain_base::blank::is_blank;
use domain_base::decimal::Decimal;
use domain_base::raw::SourceValue;
use domain_base::text_form::to_nfc;
use domain_base::wording::excerpt;
use jiff::Timestamp;
use mapping::{CompiledMapping, FoundAxisValue, definitions_of};
use schema::CompiledSchema;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use steps::{DateFormats, NormalizationStep};

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

#[cfg(test)]
mod tests;
