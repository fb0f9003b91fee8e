//! Filters: what must hold of a record, typed by the axis.

use super::BadQuery;
use super::written::{Written, as_written, typed};
use crate::base::wording::of_pattern;
use crate::ground::axis::{Axis, AxisType};
use crate::ground::value::{Typed, Value};
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use strum::IntoStaticStr;
use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The longest pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 1024;
/// The most memory of all compiled patterns of a query, in bytes; each pattern gets an equal part. It bounds the time to
/// compile, which the deadline of a scan does not stop.
const COMPILED_MAX_BYTES: usize = 512 * 1024;
/// The work of a filter for each KiB of a record. One unit is about 0.15 µs.
const WORK: u64 = 1;
/// The work of a `regex` for each KiB of a record.
const REGEX_WORK: u64 = 16;
/// The most values of one `in`.
const IN_MAX: usize = 1000;

/// A filter as it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryFilter {
    /// On which axis; on one of a group, or on any of it.
    pub axis: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; a number is taken as it is written, or not at all.
    #[serde(deserialize_with = "as_written")]
    #[schema(schema_with = one_or_several)]
    pub value: Json,
}

/// The description of what a filter compares with.
fn one_or_several() -> RefOr<Schema> {
    let several = ArrayBuilder::new().items(Written::schema()).min_items(Some(1)).max_items(Some(IN_MAX));
    let several = several.description(Some("For `in`: the values."));
    let description = "With what; a number is taken as it is written, or not at all.";
    OneOfBuilder::new().item(Written::schema()).item(several).description(Some(description)).into()
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Operator {
    /// The same.
    Eq,
    /// Another.
    Ne,
    /// Above.
    Gt,
    /// Above, or the same.
    Gte,
    /// Below.
    Lt,
    /// Below, or the same.
    Lte,
    /// One of several.
    In,
    /// A text with this in it.
    Contains,
    /// A text in which the pattern matches.
    Regex,
}

/// A filter that can be meant. A value that is missing fails every filter, `ne` too.
#[derive(Debug)]
pub struct Filter {
    axis: Axis,
    /// As it was asked for: a group's path stands for any of its values.
    path: String,
    operator: Operator,
    with: With,
    /// What stands in the canonical JSON of every record of which it holds; nothing where nothing does.
    needle: Option<Finder<'static>>,
}

#[derive(Debug)]
enum With {
    One(Typed),
    /// In their order: they are looked up for each value of each record.
    Some(Vec<Typed>),
    Text(String),
    Pattern(Regex),
}

impl Filter {
    /// `patterns` is the number of patterns in the query.
    pub(super) fn new(asked: &QueryFilter, axis: &Axis, patterns: usize) -> Result<Self, BadQuery> {
        let bad = |fault: String| BadQuery::Filter { axis: asked.axis.clone(), fault };
        let (operator, kind) = (asked.operator, axis.kind);
        let text_only = matches!(operator, Operator::Contains | Operator::Regex);
        let ordered_only = matches!(operator, Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte);
        let is_ordered = kind.is_numeric() || kind == AxisType::Date;
        if (text_only && !matches!(kind, AxisType::String | AxisType::Enum)) || (ordered_only && !is_ordered)
        {
            let wanted = if text_only { "string or enum" } else { "number, integer or date" };
            let (operator, kind) = (operator.into_str(), kind.into_str());
            return Err(bad(format!(
                "`{operator}` compares axes of type {wanted}, and this one is of type {kind}"
            )));
        }
        let typed = |value: &Json| typed(value, axis).map_err(bad);
        let with = match operator {
            Operator::In => {
                let list = asked.value.as_array().filter(|list| (1..=IN_MAX).contains(&list.len()));
                let list = list.ok_or_else(|| bad(format!("`in` takes a list of 1 to {IN_MAX} values")))?;
                let mut values = list.iter().map(typed).collect::<Result<Vec<_>, _>>()?;
                values.sort_unstable();
                With::Some(values)
            }
            Operator::Contains | Operator::Regex => {
                let text = asked.value.as_str();
                let text = text.ok_or_else(|| bad(format!("`{}` takes a text", operator.into_str())))?;
                if operator == Operator::Contains {
                    With::Text(text.to_owned())
                } else {
                    With::Pattern(pattern(text, patterns).map_err(bad)?)
                }
            }
            _ => With::One(typed(&asked.value)?),
        };
        let path = asked.axis.clone();
        let needle = needle(axis, &path, operator, &with).map(|needle| Finder::new(&needle).into_owned());
        Ok(Self { axis: axis.clone(), path, operator, with, needle })
    }

    /// Whether it holds of the values `axes`.
    pub(super) fn holds(&self, axes: &BTreeMap<String, Value>) -> bool {
        if self.axis.is_group() && self.path == self.axis.axis {
            return axes.iter().any(|(path, value)| self.axis.key_in(path).is_some() && self.compares(value));
        }
        axes.get(&self.path).is_some_and(|value| self.compares(value))
    }

    fn compares(&self, value: &Value) -> bool {
        value.typed(&self.axis).is_ok_and(|typed| self.takes(&typed))
    }

    fn takes(&self, typed: &Typed) -> bool {
        match &self.with {
            With::One(other) => match self.operator {
                Operator::Eq => typed == other,
                Operator::Ne => typed != other,
                Operator::Gt => typed > other,
                Operator::Gte => typed >= other,
                Operator::Lt => typed < other,
                Operator::Lte => typed <= other,
                Operator::In | Operator::Contains | Operator::Regex => false,
            },
            With::Some(others) => others.binary_search(typed).is_ok(),
            With::Text(part) => typed.text().contains(part.as_str()),
            With::Pattern(pattern) => pattern.is_match(&typed.text()),
        }
    }

    /// The one value that it leaves `axis`, if it does.
    pub(super) fn fixes(&self, axis: &Axis) -> Option<&Typed> {
        match &self.with {
            With::One(value) if self.operator == Operator::Eq && self.axis.axis == axis.axis => Some(value),
            _ => None,
        }
    }

    /// The axis and the only value that it leaves it, where records are looked up by that.
    #[must_use]
    pub fn indexed(&self) -> Option<(&Axis, &Typed)> {
        self.fixes(&self.axis).filter(|_| self.axis.indexed).map(|value| (&self.axis, value))
    }

    /// Whether it may hold of the record with this canonical JSON: where it says no, the JSON need not be read.
    #[must_use]
    pub fn may_hold(&self, json: &[u8]) -> bool {
        let Some(needle) = &self.needle else { return true };
        let Some(at) = needle.find(json) else { return false };
        if matches!(self.operator, Operator::Eq | Operator::Contains) {
            return true;
        }
        // behind the name of an axis of texts without an escape the value is plain to see
        let behind = json.get(at + needle.needle().len()..).and_then(|rest| rest.strip_prefix(b"\""));
        let text = behind.and_then(|rest| rest.get(..memchr::memchr2(b'"', b'\\', rest)?));
        let is_whole = |text: &[u8]| behind.and_then(|rest| rest.get(text.len())) == Some(&b'"');
        let text = text.filter(|text| is_whole(text)).and_then(|text| str::from_utf8(text).ok());
        text.is_none_or(|text| Typed::of_text(text, &self.axis).is_ok_and(|typed| self.takes(&typed)))
    }

    /// The work to check a record with `json_bytes` of JSON, in units.
    #[must_use]
    pub const fn work(&self, json_bytes: usize) -> u64 {
        let each = if matches!(self.with, With::Pattern(_)) { REGEX_WORK } else { WORK };
        each.saturating_mul(json_bytes as u64 / 1024 + 1)
    }

    /// It in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("{} {}", self.path, self.operator.into_str())
    }
}

/// What stands in the canonical JSON of every record of which such a filter holds; nothing where nothing does.
fn needle(axis: &Axis, path: &str, operator: Operator, with: &With) -> Option<String> {
    let json = |value: &Value| serde_json::to_string(value).expect("plain data has a JSON");
    let is_group = axis.is_group() && path == axis.axis;
    // names of members are paths, which hold nothing that JSON escapes
    let name = format!("\"{path}\":");
    match with {
        With::One(value) if operator == Operator::Eq => {
            let value = json(&value.to_value());
            Some(if is_group { value } else { name + &value })
        }
        With::Text(part) => {
            let quoted = json(&Value::Text(part.clone()));
            quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        }
        With::One(_) | With::Some(_) | With::Pattern(_) => (!is_group).then_some(name),
    }
}

fn pattern(text: &str, patterns: usize) -> Result<Regex, String> {
    if text.len() > PATTERN_MAX_BYTES {
        return Err(format!("a pattern has at most {PATTERN_MAX_BYTES} bytes"));
    }
    let most = COMPILED_MAX_BYTES / patterns.max(1);
    let built = RegexBuilder::new(text).size_limit(most).dfa_size_limit(most).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!(
            "the compiled pattern takes more than {most} bytes; the {patterns} `regex` of the query may take \
             {COMPILED_MAX_BYTES} in all; use shorter or fewer patterns"
        ),
        error => of_pattern(&error),
    })
}
