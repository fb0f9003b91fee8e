//! Filters: typed conditions on the axes of a record.

use super::InvalidQueryError;
use crate::axis::{Axis, AxisType};
use crate::query::{WrittenValue, as_written, typed};
use crate::record::ContentRow;
use crate::value::TypedValue;
use domain_base::text_form::to_nfc;
use domain_base::wording::reword_pattern_error;
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use strum::IntoStaticStr;
use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The longest pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 1024;
/// The maximum memory of all compiled patterns of a query, in bytes; each pattern gets an equal part. This limits the
/// compile time, which the deadline of a scan does not stop.
const COMPILED_MAX_BYTES: usize = 512 * 1024;
/// The work of a filter for each KiB of a record. One unit is about 0.15 µs.
const WORK: u64 = 1;
/// The work of a `regex` for each KiB of a record.
const REGEX_WORK: u64 = 16;
/// The maximum number of values in one `in`.
const IN_MAX: usize = 1000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryFilter {
    /// The path of the axis. The path of a group matches any of its values.
    pub axis: String,
    /// The comparison.
    pub operator: FilterOperator,
    /// The value to compare with. Numbers are exact; a number that would lose digits is rejected.
    #[serde(deserialize_with = "as_written")]
    #[schema(schema_with = one_or_several)]
    pub value: Json,
}

/// The schema of the value of a filter.
fn one_or_several() -> RefOr<Schema> {
    let several =
        ArrayBuilder::new().items(WrittenValue::schema()).min_items(Some(1)).max_items(Some(IN_MAX));
    let several = several.description(Some("For `in`: the values."));
    let description =
        "The value to compare with. Numbers are exact; a number that would lose digits is rejected.";
    OneOfBuilder::new().item(WrittenValue::schema()).item(several).description(Some(description)).into()
}

/// A comparison of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FilterOperator {
    /// Equal to the value.
    Eq,
    /// Different from the value.
    Ne,
    /// Greater than the value.
    Gt,
    /// Greater than or equal to the value.
    Gte,
    /// Less than the value.
    Lt,
    /// Less than or equal to the value.
    Lte,
    /// Equal to one of several values.
    In,
    /// A text that contains the value.
    Contains,
    /// A text in which the pattern matches.
    Regex,
}

/// A validated filter. A missing value fails every filter, also `ne`.
#[derive(Debug)]
pub struct ValidatedFilter {
    axis: Axis,
    /// The index of the axis in the ontology.
    axis_index: usize,
    /// The path as requested. The path of a group matches any of its values.
    path: String,
    /// The key of the value, if the path names one value of a group.
    key: Option<String>,
    operator: FilterOperator,
    with: FilterOperand,
}

#[derive(Debug)]
enum FilterOperand {
    /// A value, and its bytes in a row.
    One(TypedValue, Vec<u8>),
    /// The row bytes of the values, sorted: they are searched for each value of each record.
    Some(Vec<Vec<u8>>),
    Text(Box<Finder<'static>>),
    Pattern(Regex),
}

impl ValidatedFilter {
    /// `patterns` is the number of patterns in the query.
    pub(super) fn new(
        filter: &QueryFilter,
        (axis_index, axis): (usize, &Axis),
        patterns: usize,
    ) -> Result<Self, InvalidQueryError> {
        let bad = |fault: String| InvalidQueryError::Filter { axis: filter.axis.clone(), fault };
        let (operator, kind) = (filter.operator, axis.kind);
        let text_only = matches!(operator, FilterOperator::Contains | FilterOperator::Regex);
        let ordered_only = matches!(
            operator,
            FilterOperator::Gt | FilterOperator::Gte | FilterOperator::Lt | FilterOperator::Lte
        );
        if (text_only && !matches!(kind, AxisType::String | AxisType::Enum))
            || (ordered_only && !kind.is_ordered())
        {
            let allowed =
                if text_only { "string or enum" } else { "number, integer, date, month, quarter or year" };
            let (operator, kind) = (operator.into_str(), kind.into_str());
            return Err(bad(format!(
                "`{operator}` requires an axis of type {allowed}, but this axis is of type {kind}"
            )));
        }
        let typed = |value: &Json| typed(value, axis).map_err(bad);
        let with = match operator {
            FilterOperator::In => {
                let list = filter.value.as_array().filter(|list| (1..=IN_MAX).contains(&list.len()));
                let list =
                    list.ok_or_else(|| bad(format!("`in` requires a list of 1 to {IN_MAX} values")))?;
                let values = list.iter().map(|value| Ok(typed(value)?.row_bytes().into_owned()));
                let mut values = values.collect::<Result<Vec<_>, _>>()?;
                values.sort_unstable();
                FilterOperand::Some(values)
            }
            FilterOperator::Contains | FilterOperator::Regex => {
                let text = filter.value.as_str();
                let text = text.ok_or_else(|| bad(format!("`{}` requires a text", operator.into_str())))?;
                // the texts of records are in this form
                let text = to_nfc(text);
                if operator == FilterOperator::Contains {
                    FilterOperand::Text(Box::new(Finder::new(&*text).into_owned()))
                } else {
                    FilterOperand::Pattern(pattern(&text, patterns).map_err(bad)?)
                }
            }
            _ => {
                let value = typed(&filter.value)?;
                let bytes = value.row_bytes().into_owned();
                FilterOperand::One(value, bytes)
            }
        };
        let (path, key) = (filter.axis.clone(), axis.key_in(&filter.axis).map(str::to_owned));
        Ok(Self { axis: axis.clone(), axis_index, path, key, operator, with })
    }

    /// Whether any value of `row` matches.
    pub(super) fn is_match(&self, row: &ContentRow<'_>) -> bool {
        let key = self.key.as_deref().map(str::as_bytes);
        let mut values = row.values().filter(|cell| cell.axis_index == self.axis_index);
        values.any(|cell| (key.is_none() || cell.key == key) && self.is_value_match(cell.bytes))
    }

    fn is_value_match(&self, value: &[u8]) -> bool {
        match &self.with {
            FilterOperand::One(_, other) => match self.operator {
                FilterOperator::Eq => value == other,
                FilterOperator::Ne => value != other,
                FilterOperator::Gt => value > other.as_slice(),
                FilterOperator::Gte => value >= other.as_slice(),
                FilterOperator::Lt => value < other.as_slice(),
                FilterOperator::Lte => value <= other.as_slice(),
                FilterOperator::In | FilterOperator::Contains | FilterOperator::Regex => false,
            },
            FilterOperand::Some(others) => {
                others.binary_search_by(|other| other.as_slice().cmp(value)).is_ok()
            }
            FilterOperand::Text(part) => part.find(value).is_some(),
            FilterOperand::Pattern(pattern) => str::from_utf8(value).is_ok_and(|text| pattern.is_match(text)),
        }
    }

    /// The only value of `axis` that matches, if the filter is `eq` on this axis.
    pub(super) fn fixed_value(&self, axis: &Axis) -> Option<&TypedValue> {
        match &self.with {
            FilterOperand::One(value, _)
                if self.operator == FilterOperator::Eq && self.axis.axis == axis.axis =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The axis and its only matching value, if the axis is indexed.
    #[must_use]
    pub fn indexed(&self) -> Option<(&Axis, &TypedValue)> {
        self.fixed_value(&self.axis).filter(|_| self.axis.indexed).map(|value| (&self.axis, value))
    }

    /// The work to check a record with `json_bytes` of JSON, in units.
    #[must_use]
    pub const fn work(&self, json_bytes: usize) -> u64 {
        let each = if matches!(self.with, FilterOperand::Pattern(_)) { REGEX_WORK } else { WORK };
        each.saturating_mul(json_bytes as u64 / 1024 + 1)
    }

    /// The filter in words: its path and its operator.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} {}", self.path, self.operator.into_str())
    }
}

fn pattern(text: &str, patterns: usize) -> Result<Regex, String> {
    if text.len() > PATTERN_MAX_BYTES {
        return Err(format!("the pattern is too long (at most {PATTERN_MAX_BYTES} bytes allowed)"));
    }
    let most = COMPILED_MAX_BYTES / patterns.max(1);
    let built = RegexBuilder::new(text).size_limit(most).dfa_size_limit(most).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!(
            "the compiled pattern takes more than {most} bytes; the {patterns} `regex` of the query may take \
             {COMPILED_MAX_BYTES} in all; use shorter or fewer patterns"
        ),
        error => reword_pattern_error(&error),
    })
}
