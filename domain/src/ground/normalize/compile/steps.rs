//! Compiles value normalizers with their configurations.

use super::BadDefinition;
use super::parts::{Parts, not_beside};
use super::values::{check_called, dates};
use crate::base::unit::{Equivalence, Unit, UnitError};
use crate::base::wording::plain;
use crate::ground::axis::{Axis, AxisType};
use crate::ground::normalize::mapping::Mapping;
use crate::ground::normalize::steps::{Precision, Step, StepKind, TextForm};
use crate::ground::normalize::units::Units;
use crate::ground::pipeline::tables::{Amount, Otherwise, Table, Words};
use crate::ground::pipeline::{Definition, FixedConversion, NormalizerType, ValueNormalizer};
use crate::ground::value::Typed;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The range of decimal places for rounding.
const DIGITS: RangeInclusive<i32> = -30..=30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitConfig {
    from_unit: Option<String>,
    from_unit_field: Option<String>,
    to_unit: String,
    conversion_table: Option<String>,
    digits: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnumConfig {
    table: Option<String>,
    map: Option<BTreeMap<String, Option<String>>>,
    otherwise: Option<Otherwise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DateConfig {
    formats: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

impl Parts<'_> {
    /// Compiles a normalizer. If the unit comes from a field of the record, its path is added to the mappings of the
    /// axis.
    pub(super) fn step(
        &self,
        normalizer: &ValueNormalizer,
        mappings: &mut [Mapping],
        place: &str,
    ) -> Result<Step, BadDefinition> {
        let (index, axis) = self.axis(&normalizer.axis, &format!("{place}.axis"))?;
        let place = &format!("{place}.config");
        let bad = |fault: &str| BadDefinition::new(place, fault);
        let numeric = axis.kind.is_numeric();
        let config = normalizer.config.clone();
        let kind = match normalizer.normalizer_type {
            NormalizerType::UnitConversion if numeric => {
                if self.conversions_of(&axis.axis) > 1 {
                    return Err(bad(&format!(
                        "the values of `{}` are converted twice; use one `unit_conversion`",
                        axis.axis
                    )));
                }
                StepKind::Units(self.units(read(config, place)?, axis, mappings, place)?)
            }
            kind @ (NormalizerType::NumericPrecision | NormalizerType::Reciprocal) if numeric => {
                let precision: Precision = read(config, place)?;
                check_digits(precision.digits, place)?;
                match kind {
                    NormalizerType::Reciprocal => StepKind::Reciprocal(precision),
                    _ => StepKind::Precision(precision),
                }
            }
            NormalizerType::EnumMapping => {
                let words = self.words(read(config, place)?, place)?;
                let steps = &self.definition.normalization.value_normalizers;
                let last = steps.iter().rfind(|step| step.axis == normalizer.axis);
                if last.is_some_and(|last| std::ptr::eq(last, normalizer)) {
                    check_words(&words, axis, place)?;
                }
                StepKind::Words(words)
            }
            NormalizerType::DateParsing if axis.kind == AxisType::Date => {
                let DateConfig { formats } = read(config, place)?;
                StepKind::Dates(dates(formats, place)?)
            }
            NormalizerType::StringNormalization if !numeric => {
                StepKind::Text(read::<TextForm>(config, place)?)
            }
            NormalizerType::Identity => {
                let NoConfig {} = read(config, place)?;
                StepKind::Identity
            }
            other => {
                let fault = format!(
                    "{} cannot be applied to an axis of type {}",
                    other.into_str(),
                    axis.kind.into_str()
                );
                return Err(bad(&fault));
            }
        };
        Ok(Step { axis: index, kind })
    }

    fn units(
        &self,
        config: UnitConfig,
        axis: &Axis,
        mappings: &mut [Mapping],
        place: &str,
    ) -> Result<Units, BadDefinition> {
        let UnitConfig { from_unit, from_unit_field, to_unit, conversion_table, digits } = config;
        let to = to_axis_unit(&to_unit, axis, place)?;
        if from_unit.is_some() == from_unit_field.is_some() {
            return Err(BadDefinition::new(
                place,
                "exactly one of `from_unit` and `from_unit_field` is required",
            ));
        }
        digits.map_or(Ok(()), |digits| check_digits(digits, place))?;
        if let Some(field) = from_unit_field {
            let path = self.path(&field, &format!("{place}.from_unit_field"))?;
            let of_axis = |mapping: &Mapping| {
                self.ontology.axes.get(mapping.axis).is_some_and(|other| other.axis == axis.axis)
            };
            for mapping in mappings.iter_mut().filter(|mapping| of_axis(mapping)) {
                if !path.goes_with(&mapping.source) {
                    let fault = not_beside(&field, &mapping.source);
                    return Err(BadDefinition::new(place, fault));
                }
                mapping.unit = Some(path.clone());
            }
        }
        let table = conversion_table.map(|id| self.equivalences(&id, place)).transpose()?.unwrap_or_default();
        units(from_unit, to, table, digits, axis, place)
    }

    /// The unit equivalences of each substance in a table.
    fn equivalences(
        &self,
        id: &str,
        place: &str,
    ) -> Result<BTreeMap<String, Vec<Equivalence>>, BadDefinition> {
        let Table::Conversions(table) = self.table(id, place)? else {
            return Err(BadDefinition::new(place, format!("table `{id}` has no `conversions`")));
        };
        let bad = |error: UnitError| BadDefinition::new(format!("tables.{id}"), error);
        let equivalence = |(one, amount): (&String, &Amount)| {
            let (one, of) = (one.parse().map_err(bad)?, amount.unit.parse().map_err(bad)?);
            Equivalence::new(&one, &amount.factor, &of).map_err(bad)
        };
        let substance = |(name, amounts): (&String, &BTreeMap<String, Amount>)| {
            Ok((name.clone(), amounts.iter().map(equivalence).collect::<Result<_, _>>()?))
        };
        table.iter().map(substance).collect()
    }

    fn words(&self, config: EnumConfig, place: &str) -> Result<Words, BadDefinition> {
        match config {
            EnumConfig { table: Some(id), map: None, otherwise: None } => self.words_of(&id, place),
            EnumConfig { table: None, map: Some(entries), otherwise } => {
                let words = Words { entries, otherwise: otherwise.unwrap_or_default() };
                check_called(&words, place)?;
                Ok(words)
            }
            _ => {
                let fault = "either `table`, which has its own `otherwise`, or `map` with an optional `otherwise` is required";
                Err(BadDefinition::new(place, fault))
            }
        }
    }

    /// The unit conversion of a field mapping, as the first step of its axis.
    pub(super) fn fixed_conversion(
        &self,
        conversion: &FixedConversion,
        target_axis: &str,
        place: &str,
    ) -> Result<Step, BadDefinition> {
        let (index, axis) = self.axis(target_axis, place)?;
        let to = to_axis_unit(&conversion.to_unit, axis, place)?;
        let units = units(Some(conversion.from_unit.clone()), to, BTreeMap::new(), None, axis, place)?;
        Ok(Step { axis: index, kind: StepKind::Units(units) })
    }

    /// The number of unit conversions of an axis.
    fn conversions_of(&self, name: &str) -> usize {
        let Definition { pipeline, normalization, .. } = self.definition;
        let fields = pipeline.transformation.field_mappings.iter();
        let steps = normalization.value_normalizers.iter();
        fields.filter(|field| field.target_axis == name && field.unit_conversion.is_some()).count()
            + steps
                .filter(|step| step.axis == name && step.normalizer_type == NormalizerType::UnitConversion)
                .count()
    }
}

/// A conversion to the unit of `axis`. If all values have the same unit, a conversion from it must exist.
fn units(
    from: Option<String>,
    to: Unit,
    table: BTreeMap<String, Vec<Equivalence>>,
    digits: Option<i32>,
    axis: &Axis,
    place: &str,
) -> Result<Units, BadDefinition> {
    let spelling = from.clone();
    // a table may apply to only some keys of a group
    let is_for_some = axis.is_group() && !table.is_empty();
    let units = Units::new(from, to, table, digits);
    match spelling.map(|from| units.factor(&from, &axis.axis)) {
        Some(Err(error)) if !is_for_some || matches!(error, UnitError::Inverse { .. }) => {
            Err(BadDefinition::new(place, error))
        }
        _ => Ok(units),
    }
}

/// Checks that `digits` is in range.
fn check_digits(digits: i32, place: &str) -> Result<(), BadDefinition> {
    if DIGITS.contains(&digits) {
        return Ok(());
    }
    let fault = format!("`digits` is {digits} ({} to {} allowed)", DIGITS.start(), DIGITS.end());
    Err(BadDefinition::new(place, fault))
}

/// Checks that the translations of an axis's last step are values of the axis.
fn check_words(words: &Words, axis: &Axis, place: &str) -> Result<(), BadDefinition> {
    let called = words.entries.iter().filter_map(|(word, called)| Some((word, called.as_ref()?)));
    for (word, called) in called {
        Typed::of_text(called, axis)
            .map_err(|error| BadDefinition::new(place, format!("`{word}`: {error}")))?;
    }
    Ok(())
}

fn to_axis_unit(code: &str, axis: &Axis, place: &str) -> Result<Unit, BadDefinition> {
    if axis.unit.as_deref() != Some(code) {
        let unit = axis.unit.as_deref().unwrap_or("none");
        let fault = format!("`to_unit` is `{code}`, but the unit of `{}` is {unit}", axis.axis);
        return Err(BadDefinition::new(place, fault));
    }
    code.parse::<Unit>().map_err(|error| BadDefinition::new(place, error))
}

/// Deserializes the configuration of a normalizer.
fn read<T: DeserializeOwned>(config: Map<String, Json>, place: &str) -> Result<T, BadDefinition> {
    serde_path_to_error::deserialize(Json::Object(config)).map_err(|error| {
        let (path, fault) = (error.path(), plain(&error.inner().to_string()));
        let is_of_all = path.iter().next().is_none();
        BadDefinition::new(place, if is_of_all { fault } else { format!("`{path}`: {fault}") })
    })
}
