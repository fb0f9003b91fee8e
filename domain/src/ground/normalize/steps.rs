//! What is done to a value on its way: the RFC's six normalizers, in the order in which they are listed.

use super::mapping::Draft;
use super::{Mapped, Normalizer};
use crate::ground::date;
use crate::ground::decimal::{Decimal, DecimalError, Rounding};
use crate::ground::ontology::Axis;
use crate::ground::pipeline::tables::{Otherwise, Words};
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::unit::{Equivalence, Factor, Unit, UnitError};
use crate::ground::value::{NotOfAxis, Typed};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A step that the values of an axis go through.
#[derive(Debug)]
pub(super) struct Step {
    /// The axis's place in the ontology.
    pub(super) axis: usize,
    pub(super) kind: StepKind,
}

#[derive(Debug)]
pub(super) enum StepKind {
    Units(Units),
    Words(Words),
    Dates(Dates),
    Precision(Precision),
    Text(TextForm),
    Identity,
}

/// Into the unit of the axis.
#[derive(Debug)]
pub(super) struct Units {
    /// The unit of every value; else each has its own beside it.
    pub(super) from: Option<String>,
    pub(super) to: Unit,
    /// What units come to that no unit knows, by the substance.
    pub(super) table: BTreeMap<String, Vec<Equivalence>>,
    /// Digits behind the point, where a value would else not end.
    pub(super) digits: Option<i32>,
}

/// Dates in other forms than RFC 3339's.
#[derive(Debug, Clone, Default)]
pub(super) struct Dates {
    pub(super) formats: Vec<String>,
}

/// Rounded to so many digits behind the point.
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

/// What a value comes to behind its steps: nothing where it is knowingly not taken.
type Stepped = Option<Result<Typed, NotOfAxis>>;

impl Normalizer {
    /// Takes a value through the steps of its axis.
    pub(super) fn stepped(
        &self,
        mapped: Mapped<'_>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<Stepped, Rejection> {
        let Mapped { axis, path, mut draft, unit } = mapped;
        for step in self.steps.iter().filter(|step| self.ontology.axes.get(step.axis) == Some(axis)) {
            draft = match &step.kind {
                StepKind::Units(units) => {
                    let substance = axis.key_in(&path).unwrap_or(&path);
                    Draft::Typed(Typed::Number(units.convert(draft, unit.as_deref(), substance, &path)?))
                }
                StepKind::Words(words) => match translated(words, draft, &path, warnings)? {
                    Some(draft) => draft,
                    None => return Ok(None),
                },
                StepKind::Dates(dates) => dates.read(draft, &path)?,
                StepKind::Precision(precision) => {
                    let number = number(draft, Rule::AxisType, &path)?;
                    let rounded = number.round(precision.digits, precision.mode);
                    let fault =
                        |error: DecimalError| Rejection::new(Rule::AxisType, Some(&path), error.to_string());
                    Draft::Typed(Typed::Number(rounded.map_err(fault)?))
                }
                StepKind::Text(form) => form.put(draft),
                StepKind::Identity => draft,
            };
        }
        Ok(Some(typed(draft, axis)))
    }
}

fn typed(draft: Draft, axis: &Axis) -> Result<Typed, NotOfAxis> {
    match draft {
        Draft::Bool(value) => Typed::of_bool(value, axis),
        Draft::Text(text) => Typed::of_text(&text, axis),
        Draft::Typed(Typed::Number(number)) => Typed::of_number(number, axis),
        Draft::Typed(Typed::Bool(value)) => Typed::of_bool(value, axis),
        Draft::Typed(Typed::Text(text)) => Typed::of_text(&text, axis),
    }
}

/// The text of a value, whatever it is.
fn text(draft: &Draft) -> String {
    match draft {
        Draft::Bool(value) => value.to_string(),
        Draft::Text(text) => text.clone(),
        Draft::Typed(typed) => typed.to_value().to_string(),
    }
}

fn number(draft: Draft, rule: Rule, path: &str) -> Result<Decimal, Rejection> {
    if let Draft::Typed(Typed::Number(number)) = draft {
        return Ok(number);
    }
    let text = text(&draft);
    text.parse().map_err(|error| {
        let reason = NotOfAxis::new(&text, format!("a number: {error}")).to_string();
        Rejection::new(rule, Some(path), reason)
    })
}

impl Units {
    fn convert(
        &self,
        draft: Draft,
        unit: Option<&str>,
        substance: &str,
        path: &str,
    ) -> Result<Decimal, Rejection> {
        let refuse = |reason: String| Rejection::new(Rule::UnitConversion, Some(path), reason);
        let value = number(draft, Rule::AxisType, path)?;
        let spelling =
            self.from.as_deref().or(unit).ok_or_else(|| refuse("nothing says which unit it is in".into()))?;
        let unit = Unit::from_spelling(spelling).map_err(|error| refuse(error.to_string()))?;
        let factor = self.factor(&unit, substance);
        let factor =
            factor.map_err(|error| refuse(format!("{error} (of `{spelling}`, for `{substance}`)")))?;
        let converted = match self.digits {
            Some(digits) => factor.apply_rounded(&value, digits, Rounding::HalfEven),
            None => factor.apply(&value),
        };
        converted.map_err(|error| refuse(error.to_string()))
    }

    /// What a number of `unit` is multiplied by, for a substance.
    fn factor(&self, unit: &Unit, substance: &str) -> Result<Factor, UnitError> {
        let plain = Unit::conversion(unit, &self.to);
        let known = [substance, "*"].into_iter().filter_map(|name| self.table.get(name)).flatten();
        let by =
            known.map(|equivalence| Unit::conversion_by(unit, &self.to, equivalence)).find(Result::is_ok);
        plain.or_else(|error| by.unwrap_or(Err(error)))
    }
}

fn translated(
    words: &Words,
    draft: Draft,
    path: &str,
    warnings: &mut Vec<Rejection>,
) -> Result<Option<Draft>, Rejection> {
    let word = text(&draft);
    match (words.entries.get(&word), words.otherwise) {
        (Some(called), _) => Ok(called.clone().map(Draft::Text)),
        (None, Otherwise::Keep) => Ok(Some(draft)),
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
    fn read(&self, draft: Draft, path: &str) -> Result<Draft, Rejection> {
        let text = text(&draft);
        let wanted = || format!("a date of RFC 3339 or in the form {}", self.formats.join(" or "));
        let read = self.canonical(&text).map(|date| Draft::Typed(Typed::Text(date)));
        read.ok_or_else(|| {
            Rejection::new(Rule::DateParsing, Some(path), NotOfAxis::new(&text, wanted()).to_string())
        })
    }

    /// The canonical form of a day or a moment in any of the forms; a moment without an offset is one of UTC.
    fn canonical(&self, text: &str) -> Option<String> {
        date::canonical(text).or_else(|| {
            self.formats.iter().find_map(|format| {
                let moment = Timestamp::strptime(format, text).ok();
                let civil = || DateTime::strptime(format, text).ok()?.to_zoned(TimeZone::UTC).ok();
                let moment = moment
                    .or_else(|| civil().map(|zoned| zoned.timestamp()))
                    .map(|moment| moment.to_string());
                let day = || Date::strptime(format, text).ok().map(|day| day.to_string());
                moment.or_else(day)
            })
        })
    }

    /// The moment that `text` names; a day begins at midnight UTC.
    pub(super) fn moment(&self, text: &str) -> Option<Timestamp> {
        let canonical = self.canonical(text)?;
        let day =
            || canonical.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        canonical.parse().ok().or_else(day)
    }
}

impl TextForm {
    fn put(&self, draft: Draft) -> Draft {
        let Draft::Text(text) = draft else { return draft };
        let text = match (self.collapse_whitespace, self.trim) {
            (true, _) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            (false, true) => text.trim().to_owned(),
            (false, false) => text,
        };
        Draft::Text(match self.case {
            Some(Case::Lower) => text.to_lowercase(),
            Some(Case::Upper) => text.to_uppercase(),
            None => text,
        })
    }
}
