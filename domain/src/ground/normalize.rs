//! Normalization: a raw record becomes a record of the ontology, or is rejected with a reason.
//!
//! Source: RFC-0002, "Schema Normalization". A [`Normalizer`] is a definition compiled for an ontology. Compilation
//! reports every fault of the definition. The result of a normalization depends only on the raw record, so the same
//! bytes always give the same record.

mod checks;
mod compile;
mod expression;
mod mapping;
mod paths;
mod schema;
mod size;
mod steps;
mod units;

pub use compile::BadDefinition;
pub use paths::{MissingColumn, PathUse};

use super::ontology::Ontology;
use super::path::Path;
use super::pipeline::Audit;
use super::record::{Content, Identity, source_record_id};
use super::rejection::{Rejection, Rule};
use super::row::put_value;
use super::value::Typed;
use crate::base::blank::is_blank;
use crate::base::decimal::Decimal;
use crate::base::raw::Raw;
use checks::Checked;
use jiff::Timestamp;
use mapping::{Found, Mapping, definitions_of};
use schema::Schema;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use steps::{Dates, Step};

/// A normalized record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalized {
    /// The content of the record.
    pub content: Content,
    /// The canonical JSON of the content.
    pub json: Vec<u8>,
    /// The row of the content (`Content::to_row`).
    pub row: Vec<u8>,
    /// The values by which the record is indexed: the indexes of their axes, and their key bytes.
    pub index: Vec<(u16, Vec<u8>)>,
    /// The identity of the record.
    pub identity: Identity,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The time from which it is valid, if the record names it.
    pub valid_from: Option<Timestamp>,
    /// The time until which it is valid, if the record names it.
    pub valid_until: Option<Timestamp>,
    /// Warnings; they do not reject the record.
    pub warnings: Vec<Rejection>,
}

/// A compiled definition.
#[derive(Debug)]
pub struct Normalizer {
    ontology: Arc<Ontology>,
    schema: Option<Schema>,
    reject_on_schema_fail: bool,
    required_fields: Vec<Path>,
    mappings: Vec<Mapping>,
    steps: Vec<Step>,
    checks: Vec<Checked>,
    /// The fields that identify the record within its source; empty if its identity does.
    record_key: Vec<Path>,
    valid_time: Option<ValidTimes>,
    transformations: Vec<String>,
}

/// The fields with the period of validity of a record.
#[derive(Debug)]
struct ValidTimes {
    from: Path,
    until: Option<Path>,
    dates: Dates,
}

/// A value between mapping and normalization, with its origin.
struct Mapped<'n, 'r> {
    mapping: &'n Mapping,
    /// The path of the axis, with the key in place of `*` for a group.
    path: Cow<'n, str>,
    found: Found<'n, 'r>,
    /// The unit that the record itself names for the value.
    unit: Option<Cow<'r, str>>,
}

/// The values of a record by their paths, each with its mapping.
type Values<'n> = BTreeMap<Cow<'n, str>, (&'n Mapping, Typed)>;

impl Normalizer {
    /// Normalizes `raw`.
    ///
    /// # Errors
    /// The reason of the rejection.
    pub fn normalize(&self, raw: &Raw) -> Result<Normalized, Rejection> {
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
                return Err(Rejection::new(
                    Rule::RequiredField,
                    Some(path.as_str()),
                    "it is missing or empty",
                ));
            }
        }
        let mut values = Values::new();
        for Mapped { mapping, path, found, unit } in self.mapped(raw, &mut warnings)? {
            let value = match found {
                Found::Draft(draft) => self.stepped(mapping, &path, draft, unit.as_deref(), &mut warnings)?,
                Found::Default(value) => Some(value.clone()),
            };
            let Some(value) = value else { continue };
            if values.contains_key(&path) {
                return Err(Rejection::new(Rule::Mapping, Some(&path), "two elements have this name"));
            }
            values.insert(path, (mapping, value));
        }
        self.check_all(&mut values, &mut warnings)?;
        self.finish(raw, values, warnings)
    }

    /// The identity and the source record id of a rejected record, if they can be read without the rest of the record.
    #[must_use]
    pub fn identify(&self, raw: &Raw) -> Option<(Identity, String)> {
        let mut identity = Vec::new();
        for (place, _) in self.ontology.axes.iter().enumerate().filter(|(_, axis)| axis.identity) {
            identity.push(self.identity_value(raw, place)?);
        }
        let source_record_id = self.record_id(raw, &identity).ok()?;
        size::check_id(&source_record_id).ok()?;
        Some((Identity::new(identity), source_record_id))
    }

    /// The value of the identity axis with this index in the ontology.
    fn identity_value(&self, raw: &Raw, place: usize) -> Option<Typed> {
        let axis = self.ontology.axes.get(place)?;
        let mappings = || self.mappings.iter().filter(move |mapping| mapping.axis == place);
        let found = mappings().find_map(|mapping| mapping.one(raw, axis).transpose());
        let Some(found) = found else { return mappings().find_map(|mapping| mapping.default.clone()) };
        let Mapped { mapping, path, found, unit } = found.ok()?;
        match found {
            Found::Draft(draft) => {
                self.stepped(mapping, &path, draft, unit.as_deref(), &mut Vec::new()).ok().flatten()
            }
            Found::Default(value) => Some(value.clone()),
        }
    }

    /// Builds the record from values that passed all checks.
    fn finish(
        &self,
        raw: &Raw,
        values: Values<'_>,
        mut warnings: Vec<Rejection>,
    ) -> Result<Normalized, Rejection> {
        let mut identity = Vec::new();
        for axis in self.ontology.identity() {
            let missing =
                || Rejection::new(Rule::Mapping, Some(&axis.axis), "no value identifies the record's entity");
            identity.push(values.get(axis.axis.as_str()).ok_or_else(missing)?.1.clone());
        }
        let (valid_from, valid_until) = self.valid_time(raw)?;
        let source_record_id = self.record_id(raw, &identity)?;
        size::check_id(&source_record_id)?;
        let definitions = definitions_of(&values, &mut warnings)?;
        size::check_values(&values, &definitions, &self.ontology)?;
        let (mut cells, mut index) = (Vec::with_capacity(128), Vec::new());
        for (path, (mapping, value)) in &values {
            let axis = self.ontology.axes.get(mapping.axis);
            put_value(&mut cells, mapping.axis, axis.and_then(|axis| axis.key_in(path)), value);
            if axis.is_some_and(|axis| axis.indexed && axis.axis == *path) {
                let mut key = Vec::new();
                value.append_key(&mut key);
                index.extend(u16::try_from(mapping.axis).ok().map(|place| (place, key)));
            }
        }
        let axes = values.into_iter().map(|(path, (_, value))| (path.into_owned(), value.into_value()));
        let content = Content { axes: axes.collect(), definitions };
        let json = content.to_json();
        let row = content.row_of(json.len(), &cells, &self.ontology).expect("a definition is one of a value");
        let identity = Identity::new(identity);
        Ok(Normalized {
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

    /// The source's own id of the record.
    fn record_id(&self, raw: &Raw, identity: &[Typed]) -> Result<String, Rejection> {
        if self.record_key.is_empty() {
            let parts: Vec<_> = identity.iter().map(Typed::text).collect();
            return Ok(source_record_id(parts.iter().map(AsRef::as_ref)));
        }
        let part = |path: &Path| {
            let missing = || {
                Rejection::new(
                    Rule::RequiredField,
                    Some(path.as_str()),
                    "a part of the record's key is missing",
                )
            };
            path.find(raw).and_then(text_of).ok_or_else(missing)
        };
        let parts = self.record_key.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        Ok(source_record_id(parts.iter().map(AsRef::as_ref)))
    }

    /// The period of validity that the record itself names.
    fn valid_time(&self, raw: &Raw) -> Result<(Option<Timestamp>, Option<Timestamp>), Rejection> {
        let Some(valid_time) = &self.valid_time else { return Ok((None, None)) };
        let read = |path: &Path| {
            let fault = |what: &str| {
                Rejection::new(Rule::ValidTime, Some(path.as_str()), format!("{what} is not a date"))
            };
            match path.find(raw) {
                Some(found @ (Raw::List(_) | Raw::Object(_))) => Err(fault(found.kind())),
                found => match found.and_then(text_of) {
                    Some(text) => {
                        let moment = valid_time.dates.moment(&text);
                        moment.map(Some).ok_or_else(|| fault(&format!("`{text}`")))
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
            return Err(Rejection::new(Rule::ValidTime, Some(valid_time.from.as_str()), reason));
        }
        Ok((from, until))
    }

    /// The normalizers of a record by name, as provenance lists them.
    #[must_use]
    pub fn transformations(&self, audit: Audit) -> &[String] {
        if audit.log_transformations { &self.transformations } else { &[] }
    }
}

/// The text of a scalar; `None` for null, a blank text, a list or an object. Different spellings of a number give the
/// same text.
fn text_of(raw: &Raw) -> Option<Cow<'_, str>> {
    match raw {
        Raw::Bool(value) => Some(if *value { "true" } else { "false" }.into()),
        Raw::Number(digits) => {
            Some(digits.parse().map_or(digits.into(), |number: Decimal| number.to_string().into()))
        }
        Raw::Text(text) => Some(text.into()).filter(|_| !is_blank(text)),
        Raw::Null | Raw::List(_) | Raw::Object(_) => None,
    }
}

/// Whether the value is neither null nor blank nor an empty list or object.
fn is_filled(raw: &Raw) -> bool {
    match raw {
        Raw::Bool(_) | Raw::Number(_) => true,
        Raw::Text(text) => !is_blank(text),
        Raw::Null => false,
        Raw::List(items) => !items.is_empty(),
        Raw::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests;
