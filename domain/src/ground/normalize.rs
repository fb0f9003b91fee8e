//! Normalization: a raw record becomes a record of the ontology, or is rejected with a reason.
//!
//! Source: RFC-0002, "Schema Normalization". A [`Normalizer`] is a definition made ready for an ontology: whatever cannot work
//! is told when it is made, and what is left depends on the raw record alone, so that the same bytes always come to the same
//! record.

mod checks;
mod compile;
mod mapping;
mod schema;
mod steps;

pub use compile::{BadDefinition, Normalizer};

use super::ontology::Axis;
use super::path::Path;
use super::pipeline::Audit;
use super::raw::Raw;
use super::record::{Content, Identity, source_record_id};
use super::rejection::{Rejection, Rule};
use super::value::Typed;
use jiff::Timestamp;
use mapping::Draft;
use std::collections::BTreeMap;

/// A record as it comes out of normalization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalized {
    /// What it says.
    pub content: Content,
    /// Which thing it speaks of.
    pub identity: Identity,
    /// What the source knows it by.
    pub source_record_id: String,
    /// From when on it is valid, where the record says so.
    pub valid_from: Option<Timestamp>,
    /// Until when, where the record says so.
    pub valid_until: Option<Timestamp>,
    /// What was noted and did not keep it out.
    pub warnings: Vec<Rejection>,
}

/// A value on its way, with where it came from.
pub(crate) struct Mapped<'n> {
    axis: &'n Axis,
    /// The axis's path, with the key in a group's place.
    path: String,
    draft: Draft,
    /// The unit that the record itself names for it.
    unit: Option<String>,
}

impl Normalizer {
    /// The record that `raw` comes to.
    ///
    /// # Errors
    /// Why it is not taken.
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
        let mut values = BTreeMap::new();
        for mapped in self.mapped(raw, &mut warnings)? {
            let Mapped { axis, path, .. } = &mapped;
            let (axis, path) = (*axis, path.clone());
            let Some(typed) = self.stepped(mapped, &mut warnings)? else { continue };
            let typed =
                typed.map_err(|error| Rejection::new(Rule::AxisType, Some(&path), error.to_string()))?;
            values.insert(path, (axis, typed));
        }
        self.check_all(&mut values, &mut warnings)?;
        self.finish(raw, values, warnings)
    }

    /// Puts the record together out of values that hold.
    fn finish(
        &self,
        raw: &Raw,
        values: BTreeMap<String, (&Axis, Typed)>,
        warnings: Vec<Rejection>,
    ) -> Result<Normalized, Rejection> {
        let mut identity = Vec::new();
        for axis in self.ontology.identity() {
            let missing =
                || Rejection::new(Rule::Mapping, Some(&axis.axis), "nothing says what the record speaks of");
            identity.push(values.get(&axis.axis).ok_or_else(missing)?.1.clone());
        }
        let mut content = Content::default();
        for (path, (axis, typed)) in &values {
            if let Some(definition) = self.definition(axis, &values) {
                content.definitions.insert(path.clone(), definition);
            }
            content.axes.insert(path.clone(), typed.to_value());
        }
        let (valid_from, valid_until) = self.valid_time(raw)?;
        let source_record_id = self.record_id(raw, &identity)?;
        let identity = Identity::new(identity);
        Ok(Normalized { content, identity, source_record_id, valid_from, valid_until, warnings })
    }

    /// What the source knows the record by.
    fn record_id(&self, raw: &Raw, identity: &[Typed]) -> Result<String, Rejection> {
        if self.record_key.is_empty() {
            let parts: Vec<_> = identity.iter().map(|value| value.to_value().to_string()).collect();
            return Ok(source_record_id(parts.iter().map(String::as_str)));
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
        Ok(source_record_id(parts.iter().map(String::as_str)))
    }

    /// From when until when the record itself says that it is valid.
    fn valid_time(&self, raw: &Raw) -> Result<(Option<Timestamp>, Option<Timestamp>), Rejection> {
        let Some(valid_time) = &self.valid_time else { return Ok((None, None)) };
        let read = |path: &Path| {
            let Some(text) = path.find(raw).and_then(text_of) else { return Ok(None) };
            let moment = valid_time.dates.moment(&text);
            let fault =
                || Rejection::new(Rule::ValidTime, Some(path.as_str()), format!("`{text}` is not a date"));
            moment.map(Some).ok_or_else(fault)
        };
        let from = read(&valid_time.from)?;
        let until = valid_time.until.as_ref().map_or(Ok(None), read)?;
        if let (Some(from), Some(until)) = (from, until)
            && until <= from
        {
            let reason = format!("it would be valid until {until}, and only from {from} on");
            return Err(Rejection::new(Rule::ValidTime, Some(valid_time.from.as_str()), reason));
        }
        Ok((from, until))
    }

    /// The normalizers that a record passes, by the name of each, as provenance tells of them.
    #[must_use]
    pub fn transformations(&self, audit: Audit) -> &[String] {
        if audit.log_transformations { &self.transformations } else { &[] }
    }
}

/// What a scalar says in words; nothing for null, blank text, a list or an object.
fn text_of(raw: &Raw) -> Option<String> {
    match raw {
        Raw::Bool(value) => Some(value.to_string()),
        Raw::Number(text) => Some(text.clone()),
        Raw::Text(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Raw::Null | Raw::List(_) | Raw::Object(_) => None,
    }
}

/// Whether there is something: neither null nor blank, nor a list or an object of nothing.
fn is_filled(raw: &Raw) -> bool {
    text_of(raw).is_some() || !raw.items().is_empty() || !raw.members().is_empty()
}
