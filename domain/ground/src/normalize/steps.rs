//! The steps that transform a value: the RFC's six normalizers, `reciprocal` and `number_parsing`, in the order of the definition.

use super::RecordNormalizer;
use super::mapping::{CompiledMapping, DraftValue, number};
use crate::axis::AxisType;
use crate::pipeline::{UnknownWordHandling, WordTable};
use crate::rejection::{RecordRejection, RecordRule};
use crate::value::{AxisValueError, TypedValue};
use domain_base::decimal::{Decimal, Rounding};
use domain_base::moment::{Date, LocalTimeZone, PeriodFormat, PeriodLength};
use domain_base::number_notation::NumberNotation;
use domain_base::time_format::{ParsedTime, TimeFormat};
use domain_base::unit::{ConversionFactor, SubstanceEquivalence, UcumUnit, UnitError};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// A step that is applied to the values of an axis.
#[derive(Debug)]
pub(super) struct NormalizationStep {
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) kind: NormalizationStepKind,
}

#[derive(Debug)]
pub(super) enum NormalizationStepKind {
    Units(UnitConverter),
    Words(WordTable),
    Dates(DateFormats),
    Periods(PeriodLength, Vec<PeriodFormat>),
    Numbers(NumberNotation),
    Precision(DecimalPrecision),
    Reciprocal(DecimalPrecision),
    Text(TextNormalization),
    Identity,
}

/// Dates in other formats than RFC 3339.
#[derive(Debug)]
pub(super) struct DateFormats {
    pub(super) formats: Vec<TimeFormat>,
    /// The zone of times without an offset.
    pub(super) zone: Option<LocalTimeZone>,
}

/// Rounding to a number of decimal places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecimalPrecision {
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
pub(super) struct TextNormalization {
    #[serde(default)]
    pub(super) trim: bool,
    #[serde(default)]
    pub(super) collapse_whitespace: bool,
    pub(super) case: Option<LetterCase>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LetterCase {
    Lower,
    Upper,
}

impl RecordNormalizer {
    /// The value after the steps of its axis; `None` if a table of words drops it.
    pub(super) fn apply_steps<'r>(
        &'r self,
        mapping: &CompiledMapping,
        path: &str,
        mut draft: DraftValue<'r>,
        unit: Option<&str>,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<Option<TypedValue>, RecordRejection> {
        let Some(axis) = self.ontology.axes.get(mapping.axis) else { return Ok(None) };
        let no_value = |error: String| RecordRejection::new(RecordRule::AxisType, Some(path), error);
        for step in self.steps.iter().filter(|step| step.axis == mapping.axis) {
            draft = match &step.kind {
                NormalizationStepKind::Units(units) => {
                    let substance = axis.key_in(path).unwrap_or(path);
                    DraftValue::Typed(TypedValue::Number(units.convert(draft, unit, substance, path)?))
                }
                NormalizationStepKind::Words(words) => match translate_word(words, draft, path, warnings)? {
                    Some(draft) => draft,
                    None => return Ok(None),
                },
                NormalizationStepKind::Dates(dates) => dates.read(&draft, path)?,
                NormalizationStepKind::Periods(length, formats) => {
                    read_period(*length, formats, &draft, path)?
                }
                NormalizationStepKind::Numbers(notation) => read_number(notation, draft, path)?,
                NormalizationStepKind::Precision(precision) => {
                    let rounded = number(draft, path)?.round(precision.digits, precision.mode);
                    DraftValue::Typed(TypedValue::Number(
                        rounded.map_err(|error| no_value(error.to_string()))?,
                    ))
                }
                NormalizationStepKind::Reciprocal(precision) => {
                    DraftValue::Typed(TypedValue::Number(reciprocal(draft, precision, path)?))
                }
                NormalizationStepKind::Text(form) => form.normalize_text(draft),
                NormalizationStepKind::Identity => draft,
            };
        }
        let typed = match draft {
            DraftValue::Text(text) => TypedValue::from_text(&text, axis),
            DraftValue::Typed(TypedValue::Number(number)) => TypedValue::from_number(number, axis),
            DraftValue::Typed(TypedValue::Bool(value)) => TypedValue::from_bool(value, axis),
            DraftValue::Typed(typed) => TypedValue::from_text(&typed.text(), axis),
        };
        typed.map(Some).map_err(|error| match axis.kind {
            kind if kind == AxisType::Date || kind.period().is_some() => {
                no_value(format!("{error}; the normalizer `date_parsing` reads other forms"))
            }
            _ => no_value(error.to_string()),
        })
    }
}

/// Parses a text as a number. A number of a JSON payload has no notation of its own.
fn read_number<'r>(
    notation: &NumberNotation,
    draft: DraftValue<'r>,
    path: &str,
) -> Result<DraftValue<'r>, RecordRejection> {
    let DraftValue::Text(text) = &draft else { return Ok(draft) };
    let number = notation.parse(text).map(|number| DraftValue::Typed(TypedValue::Number(number)));
    number.ok_or_else(|| {
        let reason = AxisValueError::new(text, "a number in the notation of `number_parsing`").to_string();
        RecordRejection::new(RecordRule::NumberParsing, Some(path), reason)
    })
}

/// Parses a month, a quarter or a year in one of the formats, or in canonical form.
fn read_period(
    length: PeriodLength,
    formats: &[PeriodFormat],
    draft: &DraftValue<'_>,
    path: &str,
) -> Result<DraftValue<'static>, RecordRejection> {
    let text = draft.text();
    if length.is_canonical(&text) {
        return Ok(DraftValue::Text(text.into_owned().into()));
    }
    let parsed = formats.iter().find_map(|format| format.parse(&text));
    parsed.map(|period| DraftValue::Text(period.into())).ok_or_else(|| {
        let formats = formats.iter().map(PeriodFormat::as_str).collect::<Vec<_>>().join(" or ");
        let expected = format!("{} or in a form of `date_parsing`: {formats}", length.example());
        let reason = AxisValueError::new(&text, expected).to_string();
        RecordRejection::new(RecordRule::DateParsing, Some(path), reason)
    })
}

/// One divided by the number in `draft`. A reciprocal is never zero, so a result that rounds to zero is rejected.
fn reciprocal(
    draft: DraftValue<'_>,
    precision: &DecimalPrecision,
    path: &str,
) -> Result<Decimal, RecordRejection> {
    let value = number(draft, path)?;
    let refuse = |reason: String| RecordRejection::new(RecordRule::Reciprocal, Some(path), reason);
    let divided = Decimal::from(1).div_rounded(&value, precision.digits, precision.mode);
    match divided.map_err(|error| refuse(format!("1/{value} has no value here: {error}")))? {
        zero if zero == Decimal::from(0) => Err(refuse(format!(
            "1/{value} is zero when rounded to {} digits after the point",
            precision.digits
        ))),
        reciprocal => Ok(reciprocal),
    }
}

fn translate_word<'r>(
    words: &'r WordTable,
    draft: DraftValue<'r>,
    path: &str,
    warnings: &mut Vec<RecordRejection>,
) -> Result<Option<DraftValue<'r>>, RecordRejection> {
    let word = draft.text();
    match (words.find(&word), words.otherwise) {
        (Some(called), _) => Ok(called.map(|called| DraftValue::Text(called.into()))),
        (None, UnknownWordHandling::Keep) => {
            drop(word);
            Ok(Some(draft))
        }
        (None, otherwise) => {
            let quoted = AxisValueError::new(&word, "a word of the table").to_string();
            let rejection = RecordRejection::new(RecordRule::EnumMapping, Some(path), quoted);
            if otherwise == UnknownWordHandling::Reject {
                return Err(rejection);
            }
            warnings.push(rejection);
            Ok(None)
        }
    }
}

impl DateFormats {
    fn read(&self, draft: &DraftValue<'_>, path: &str) -> Result<DraftValue<'static>, RecordRejection> {
        let text = draft.text();
        let date = self.date(&text).map_err(|expected| {
            let reason = AxisValueError::new(&text, expected).to_string();
            RecordRejection::new(RecordRule::DateParsing, Some(path), reason)
        })?;
        Ok(DraftValue::Typed(TypedValue::Date(date)))
    }

    /// Parses `text` as a day or a time by the first format that it has. An error describes a valid text.
    fn date(&self, text: &str) -> Result<Date, String> {
        if let Some(date) = Date::read(text) {
            return Ok(date);
        }
        let parsed = self.formats.iter().find_map(|format| format.parse(text)).ok_or_else(|| {
            let formats: String =
                self.formats.iter().map(|format| format!(" or {}", format.as_str())).collect();
            format!("a date of RFC 3339{formats}")
        })?;
        let date = match (parsed, &self.zone) {
            (ParsedTime::Day(day), _) => Date::from_day(day),
            (ParsedTime::Moment(moment), _) => Date::from_moment(moment),
            (ParsedTime::Local(local), Some(zone)) => {
                Date::from_moment(zone.moment(local).map_err(|error| error.to_string())?)
            }
            (ParsedTime::Local(_), None) => None,
        };
        date.ok_or_else(|| "a time with an offset, in the years 0000 to 9999 of UTC".to_owned())
    }

    /// Parses `text` as a time. A day begins at midnight of the zone, or of UTC without one.
    pub(super) fn moment(&self, text: &str) -> Result<Timestamp, String> {
        let date = self.date(text)?;
        let moment = match (date.day(), &self.zone) {
            (Some(day), Some(zone)) => zone.start_of(day),
            _ => date.moment(),
        };
        moment.ok_or_else(|| "a time from the year 0000 to 9999-12-30".to_owned())
    }
}

impl TextNormalization {
    fn normalize_text<'r>(&self, draft: DraftValue<'r>) -> DraftValue<'r> {
        let DraftValue::Text(text) = draft else { return draft };
        let text = match (self.collapse_whitespace, self.trim) {
            (true, _) => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
            (false, true) => text.trim().to_owned().into(),
            (false, false) => text,
        };
        DraftValue::Text(match self.case {
            Some(LetterCase::Lower) => text.to_lowercase().into(),
            Some(LetterCase::Upper) => text.to_uppercase().into(),
            None => text,
        })
    }
}

/// The maximum number of unit spellings for each substance whose factors are cached; the factors of others are computed
/// each time.
const SPELLINGS_KEPT_MAX: usize = 256;
/// The name in a table that matches every substance.
const ANY_SUBSTANCE: &str = "*";

/// A conversion to the unit of an axis.
#[derive(Debug)]
pub(super) struct UnitConverter {
    /// The unit of every value; `None` if each value has its own unit in a field.
    from: Option<String>,
    to: UcumUnit,
    /// The equivalents of units that have no general conversion, by substance.
    table: BTreeMap<String, Vec<SubstanceEquivalence>>,
    /// The decimal places to round to; by default the result must be exact.
    digits: Option<i32>,
    /// The factors found so far, by substance as named in the table, then by spelling of the unit.
    known: RwLock<BTreeMap<String, HashMap<String, Arc<ConversionFactor>>>>,
}

impl UnitConverter {
    /// A conversion to `to` from `from`, or from the unit of each value.
    pub(super) fn new(
        from: Option<String>,
        to: UcumUnit,
        table: BTreeMap<String, Vec<SubstanceEquivalence>>,
        digits: Option<i32>,
    ) -> Self {
        Self { from, to, table, digits, known: RwLock::default() }
    }

    /// Converts `draft` to the unit of the axis. `unit` is its own unit, which is used if there is no common one.
    pub(super) fn convert(
        &self,
        draft: DraftValue<'_>,
        unit: Option<&str>,
        substance: &str,
        path: &str,
    ) -> Result<Decimal, RecordRejection> {
        let refuse = |reason: String| RecordRejection::new(RecordRule::UnitConversion, Some(path), reason);
        let value = number(draft, path)?;
        let spelling = self.from.as_deref().or(unit).ok_or_else(|| refuse("its unit is not given".into()))?;
        let factor = self.factor(spelling, substance);
        let factor =
            factor.map_err(|error| refuse(format!("{error} (of `{spelling}`, for `{substance}`)")))?;
        let converted = match self.digits {
            Some(digits) => factor.apply_rounded(&value, digits, Rounding::HalfEven),
            None => factor.apply(&value),
        };
        converted.map_err(|error| refuse(error.to_string()))
    }

    /// The factor for a number in the unit with this spelling, for a substance.
    pub(super) fn factor(&self, spelling: &str, substance: &str) -> Result<Arc<ConversionFactor>, UnitError> {
        let substance = self.table.get_key_value(substance).map_or(ANY_SUBSTANCE, |(name, _)| name);
        // the cached factors are valid even if another thread panicked
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(factor) = known.get(substance).and_then(|factors| factors.get(spelling)) {
            return Ok(Arc::clone(factor));
        }
        drop(known);
        let factor = Arc::new(self.find_factor(&UcumUnit::from_spelling(spelling)?, substance)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let factors = known.entry(substance.to_owned()).or_default();
        if factors.len() < SPELLINGS_KEPT_MAX {
            factors.insert(spelling.to_owned(), Arc::clone(&factor));
        }
        Ok(factor)
    }

    /// The factor from `unit`: by the definition of the units, else by the table's entry for the substance or for all
    /// substances.
    fn find_factor(&self, unit: &UcumUnit, substance: &str) -> Result<ConversionFactor, UnitError> {
        let by_table = || {
            let names = [substance, ANY_SUBSTANCE].into_iter();
            let mut known = names.filter_map(|name| self.table.get(name)).flatten();
            known.find_map(|equivalence| UcumUnit::conversion_by(unit, &self.to, equivalence).ok())
        };
        UcumUnit::conversion(unit, &self.to).or_else(|error| by_table().ok_or(error))
    }
}
