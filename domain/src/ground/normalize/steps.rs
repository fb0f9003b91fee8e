//! The steps that transform a value: the RFC's six normalizers and `reciprocal`, in the order of the definition.

use super::Normalizer;
use super::mapping::{Draft, Mapping, number};
use super::units::Units;
use crate::base::date::Date;
use crate::base::decimal::{Decimal, Rounding};
use crate::ground::pipeline::tables::{Otherwise, Words};
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::{NotOfAxis, Typed};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde::Deserialize;

/// A step that is applied to the values of an axis.
#[derive(Debug)]
pub(super) struct Step {
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) kind: StepKind,
}

#[derive(Debug)]
pub(super) enum StepKind {
    Units(Units),
    Words(Words),
    Dates(Dates),
    Precision(Precision),
    Reciprocal(Precision),
    Text(TextForm),
    Identity,
}

/// Dates in other formats than RFC 3339.
#[derive(Debug, Clone, Default)]
pub(super) struct Dates {
    pub(super) formats: Vec<String>,
}

/// Rounding to a number of decimal places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Precision {
    pub(super) digits: i32,
    #[serde(default = "half_even")]
    pub(super) mode: Rounding,
}

const fn half_even() -> Rounding {
    Rounding::HalfEven
}

/// Case and white space.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextForm {
    #[serde(default)]
    pub(super) trim: bool,
    #[serde(default)]
    pub(super) collapse_whitespace: bool,
    pub(super) case: Option<Case>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Case {
    Lower,
    Upper,
}

impl Normalizer {
    /// The value after the steps of its axis; `None` if a table of words drops it.
    pub(super) fn stepped<'r>(
        &'r self,
        mapping: &Mapping,
        path: &str,
        mut draft: Draft<'r>,
        unit: Option<&str>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Option<Typed>, Rejection> {
        let Some(axis) = self.ontology.axes.get(mapping.axis) else { return Ok(None) };
        let no_value = |error: String| Rejection::new(Rule::AxisType, Some(path), error);
        for step in self.steps.iter().filter(|step| step.axis == mapping.axis) {
            draft = match &step.kind {
                StepKind::Units(units) => {
                    let substance = axis.key_in(path).unwrap_or(path);
                    Draft::Typed(Typed::Number(units.convert(draft, unit, substance, path)?))
                }
                StepKind::Words(words) => match translated(words, draft, path, warnings)? {
                    Some(draft) => draft,
                    None => return Ok(None),
                },
                StepKind::Dates(dates) => dates.read(&draft, path)?,
                StepKind::Precision(precision) => {
                    let rounded = number(draft, path)?.round(precision.digits, precision.mode);
                    Draft::Typed(Typed::Number(rounded.map_err(|error| no_value(error.to_string()))?))
                }
                StepKind::Reciprocal(precision) => {
                    Draft::Typed(Typed::Number(reciprocal(draft, precision, path)?))
                }
                StepKind::Text(form) => form.put(draft),
                StepKind::Identity => draft,
            };
        }
        let typed = match draft {
            Draft::Text(text) => Typed::of_text(&text, axis),
            Draft::Typed(Typed::Number(number)) => Typed::of_number(number, axis),
            Draft::Typed(Typed::Bool(value)) => Typed::of_bool(value, axis),
            Draft::Typed(typed) => Typed::of_text(&typed.text(), axis),
        };
        typed.map(Some).map_err(|error| no_value(error.to_string()))
    }
}

/// One divided by the number in `draft`. A reciprocal is never zero, so a result that rounds to zero is rejected.
fn reciprocal(draft: Draft<'_>, precision: &Precision, path: &str) -> Result<Decimal, Rejection> {
    let value = number(draft, path)?;
    let refuse = |reason: String| Rejection::new(Rule::Reciprocal, Some(path), reason);
    let divided = Decimal::from(1).div_rounded(&value, precision.digits, precision.mode);
    match divided.map_err(|error| refuse(format!("1/{value} has no value here: {error}")))? {
        zero if zero == Decimal::from(0) => Err(refuse(format!(
            "1/{value} is zero when rounded to {} digits after the point",
            precision.digits
        ))),
        reciprocal => Ok(reciprocal),
    }
}

fn translated<'r>(
    words: &'r Words,
    draft: Draft<'r>,
    path: &str,
    warnings: &mut Vec<Rejection>,
) -> Result<Option<Draft<'r>>, Rejection> {
    let word = draft.text();
    match (words.entries.get(&*word), words.otherwise) {
        (Some(called), _) => Ok(called.as_deref().map(|called| Draft::Text(called.into()))),
        (None, Otherwise::Keep) => {
            drop(word);
            Ok(Some(draft))
        }
        (None, otherwise) => {
            let quoted = NotOfAxis::new(&word, "a word of the table").to_string();
            let rejection = Rejection::new(Rule::EnumMapping, Some(path), quoted);
            if otherwise == Otherwise::Reject {
                return Err(rejection);
            }
            warnings.push(rejection);
            Ok(None)
        }
    }
}

impl Dates {
    fn read(&self, draft: &Draft<'_>, path: &str) -> Result<Draft<'static>, Rejection> {
        let text = draft.text();
        let wanted = || format!("a date of RFC 3339 or in the form {}", self.formats.join(" or "));
        let read = self.date(&text).map(|date| Draft::Typed(Typed::Date(date)));
        read.ok_or_else(|| {
            Rejection::new(Rule::DateParsing, Some(path), NotOfAxis::new(&text, wanted()).to_string())
        })
    }

    /// Parses `text` as a day or a time in any of the formats; a time without an offset is in UTC.
    pub(super) fn date(&self, text: &str) -> Option<Date> {
        Date::read(text).or_else(|| self.formats.iter().find_map(|format| in_format(format, text)))
    }

    /// Parses `text` as a time; a day begins at midnight UTC.
    pub(super) fn moment(&self, text: &str) -> Option<Timestamp> {
        self.date(text)?.moment()
    }
}

/// Parses `text` in `format`; the result is a day if no hour is named.
fn in_format(format: &str, text: &str) -> Option<Date> {
    let parts = strtime::parse(format, text).ok()?;
    if let Ok(moment) = parts.to_timestamp() {
        return Date::of_moment(moment);
    }
    if parts.hour().is_none() {
        return Date::of_day(parts.to_date().ok()?);
    }
    let time = parts.to_datetime().ok()?;
    Date::of_moment(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

impl TextForm {
    fn put<'r>(&self, draft: Draft<'r>) -> Draft<'r> {
        let Draft::Text(text) = draft else { return draft };
        let text = match (self.collapse_whitespace, self.trim) {
            (true, _) => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
            (false, true) => text.trim().to_owned().into(),
            (false, false) => text,
        };
        Draft::Text(match self.case {
            Some(Case::Lower) => text.to_lowercase().into(),
            Some(Case::Upper) => text.to_uppercase().into(),
            None => text,
        })
    }
}
