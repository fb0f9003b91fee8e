//! Compiles value normalizers with their configurations.

use super::PipelineDefinitionError;
use super::definition_compiler::{DefinitionCompiler, format_group_mismatch};
use crate::axis::{Axis, AxisType};
use crate::normalize::compile::{check_translations, dates, periods};
use crate::normalize::mapping::CompiledMapping;
use crate::normalize::steps::{
    DecimalPrecision, NormalizationStep, NormalizationStepKind, TextNormalization, UnitConverter,
};
use crate::pipeline::{
    FixedUnitConversion, LookupTable, NormalizerType, PipelineDefinition, UnitEquivalent,
    UnknownWordHandling, ValueNormalizer, WordTable,
};
use crate::value::TypedValue;
use domain_base::moment::{AmbiguousTimeHandling, PeriodLength};
use domain_base::number_notation::NumberNotation;
use domain_base::unit::{SubstanceEquivalence, UcumUnit, UnitError};
use domain_base::wording::reword_serde_error;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The range of decimal places for rounding.
const DIGITS: RangeInclusive<i32> = -30..=30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitConversionConfig {
    from_unit: Option<String>,
    from_unit_field: Option<String>,
    to_unit: String,
    conversion_table: Option<String>,
    digits: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnumMappingConfig {
    table: Option<String>,
    map: Option<BTreeMap<String, Option<String>>>,
    otherwise: Option<UnknownWordHandling>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DateParsingConfig {
    formats: Vec<String>,
    timezone: Option<String>,
    ambiguous: Option<AmbiguousTimeHandling>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NumberParsingConfig {
    #[serde(default = "decimal_point")]
    decimal_mark: char,
    thousands_separator: Option<char>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
    #[serde(default)]
    accounting: bool,
}

impl NumberParsingConfig {
    fn notation(&self) -> Result<NumberNotation, String> {
        NumberNotation::new(self.decimal_mark, self.thousands_separator)?.with_affixes(
            &self.prefix,
            &self.suffix,
            self.accounting,
        )
    }
}

const fn decimal_point() -> char {
    '.'
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyNormalizerConfig {}

impl DefinitionCompiler<'_> {
    /// Compiles a normalizer. If the unit comes from a field of the record, its path is added to the mappings of the
    /// axis.
    pub(super) fn step(
        &self,
        normalizer: &ValueNormalizer,
        mappings: &mut [CompiledMapping],
        location: &str,
    ) -> Result<NormalizationStep, PipelineDefinitionError> {
        let (index, axis) = self.axis(&normalizer.axis, &format!("{location}.axis"))?;
        let location = &format!("{location}.config");
        let bad = |fault: &str| PipelineDefinitionError::new(location, fault);
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
                NormalizationStepKind::Units(self.units(read(config, location)?, axis, mappings, location)?)
            }
            kind @ (NormalizerType::NumericPrecision | NormalizerType::Reciprocal) if numeric => {
                let precision: DecimalPrecision = read(config, location)?;
                check_digits(precision.digits, location)?;
                match kind {
                    NormalizerType::Reciprocal => NormalizationStepKind::Reciprocal(precision),
                    _ => NormalizationStepKind::Precision(precision),
                }
            }
            NormalizerType::EnumMapping => {
                let words = self.words(read(config, location)?, location)?;
                let steps = &self.definition.normalization.value_normalizers;
                let last = steps.iter().rfind(|step| step.axis == normalizer.axis);
                if last.is_some_and(|last| std::ptr::eq(last, normalizer)) {
                    check_words(&words, axis, location)?;
                }
                NormalizationStepKind::Words(words)
            }
            NormalizerType::DateParsing if axis.kind == AxisType::Date || axis.kind.period().is_some() => {
                date_step(read(config, location)?, axis.kind.period(), location)?
            }
            NormalizerType::NumberParsing if numeric => {
                let config: NumberParsingConfig = read(config, location)?;
                NormalizationStepKind::Numbers(config.notation().map_err(|fault| bad(&fault))?)
            }
            NormalizerType::StringNormalization if !numeric => {
                NormalizationStepKind::Text(read::<TextNormalization>(config, location)?)
            }
            NormalizerType::Identity => {
                let EmptyNormalizerConfig {} = read(config, location)?;
                NormalizationStepKind::Identity
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
        Ok(NormalizationStep { axis: index, kind })
    }

    fn units(
        &self,
        config: UnitConversionConfig,
        axis: &Axis,
        mappings: &mut [CompiledMapping],
        location: &str,
    ) -> Result<UnitConverter, PipelineDefinitionError> {
        let UnitConversionConfig { from_unit, from_unit_field, to_unit, conversion_table, digits } = config;
        let to = to_axis_unit(&to_unit, axis, location)?;
        if from_unit.is_some() == from_unit_field.is_some() {
            return Err(PipelineDefinitionError::new(
                location,
                "exactly one of `from_unit` and `from_unit_field` is required",
            ));
        }
        digits.map_or(Ok(()), |digits| check_digits(digits, location))?;
        if let Some(field) = from_unit_field {
            let path = self.path(&field, &format!("{location}.from_unit_field"))?;
            let of_axis = |mapping: &CompiledMapping| {
                self.ontology.axes.get(mapping.axis).is_some_and(|other| other.axis == axis.axis)
            };
            for mapping in mappings.iter_mut().filter(|mapping| of_axis(mapping)) {
                if !path.is_same_group(&mapping.source) {
                    let fault = format_group_mismatch(&field, &mapping.source);
                    return Err(PipelineDefinitionError::new(location, fault));
                }
                mapping.unit = Some(path.clone());
            }
        }
        let table =
            conversion_table.map(|id| self.equivalences(&id, location)).transpose()?.unwrap_or_default();
        units(from_unit, to, table, digits, axis, location)
    }

    /// The unit equivalences of each substance in a table.
    fn equivalences(
        &self,
        id: &str,
        location: &str,
    ) -> Result<BTreeMap<String, Vec<SubstanceEquivalence>>, PipelineDefinitionError> {
        let LookupTable::Conversions(table) = self.table(id, location)? else {
            return Err(PipelineDefinitionError::new(location, format!("table `{id}` has no `conversions`")));
        };
        let bad = |error: UnitError| PipelineDefinitionError::new(format!("tables.{id}"), error);
        let equivalence = |(one, amount): (&String, &UnitEquivalent)| {
            let (one, of) = (one.parse().map_err(bad)?, amount.unit.parse().map_err(bad)?);
            SubstanceEquivalence::new(&one, &amount.factor, &of).map_err(bad)
        };
        let substance = |(name, amounts): (&String, &BTreeMap<String, UnitEquivalent>)| {
            Ok((name.clone(), amounts.iter().map(equivalence).collect::<Result<_, _>>()?))
        };
        table.iter().map(substance).collect()
    }

    fn words(&self, config: EnumMappingConfig, location: &str) -> Result<WordTable, PipelineDefinitionError> {
        match config {
            EnumMappingConfig { table: Some(id), map: None, otherwise: None } => {
                self.find_word_table(&id, location)
            }
            EnumMappingConfig { table: None, map: Some(entries), otherwise } => {
                let words = WordTable { entries, otherwise: otherwise.unwrap_or_default(), from: None };
                check_translations(&words, location)?;
                Ok(words.in_nfc())
            }
            _ => {
                let fault = "either `table`, which has its own `otherwise`, or `map` with an optional `otherwise` is required";
                Err(PipelineDefinitionError::new(location, fault))
            }
        }
    }

    /// The unit conversion of a field mapping, as the first step of its axis.
    pub(super) fn fixed_conversion(
        &self,
        conversion: &FixedUnitConversion,
        target_axis: &str,
        location: &str,
    ) -> Result<NormalizationStep, PipelineDefinitionError> {
        let (index, axis) = self.axis(target_axis, location)?;
        let to = to_axis_unit(&conversion.to_unit, axis, location)?;
        let units = units(Some(conversion.from_unit.clone()), to, BTreeMap::new(), None, axis, location)?;
        Ok(NormalizationStep { axis: index, kind: NormalizationStepKind::Units(units) })
    }

    /// The number of unit conversions of an axis.
    fn conversions_of(&self, name: &str) -> usize {
        let PipelineDefinition { pipeline, normalization, .. } = self.definition;
        let fields = pipeline.transformation.field_mappings.iter();
        let steps = normalization.value_normalizers.iter();
        fields.filter(|field| field.target_axis == name && field.unit_conversion.is_some()).count()
            + steps
                .filter(|step| step.axis == name && step.normalizer_type == NormalizerType::UnitConversion)
                .count()
    }
}

/// The parsing of dates, or of periods of this length.
fn date_step(
    config: DateParsingConfig,
    period: Option<PeriodLength>,
    location: &str,
) -> Result<NormalizationStepKind, PipelineDefinitionError> {
    let DateParsingConfig { formats, timezone, ambiguous } = config;
    match period {
        Some(_) if timezone.is_some() || ambiguous.is_some() => {
            let fault = "a period has no time zone; remove `timezone` and `ambiguous`";
            Err(PipelineDefinitionError::new(location, fault))
        }
        Some(length) => Ok(NormalizationStepKind::Periods(length, periods(length, &formats, location)?)),
        None => {
            let zone = (timezone.as_deref(), ambiguous);
            Ok(NormalizationStepKind::Dates(dates(&formats, zone, false, location)?))
        }
    }
}

/// A conversion to the unit of `axis`. If all values have the same unit, a conversion from it must exist.
fn units(
    from: Option<String>,
    to: UcumUnit,
    table: BTreeMap<String, Vec<SubstanceEquivalence>>,
    digits: Option<i32>,
    axis: &Axis,
    location: &str,
) -> Result<UnitConverter, PipelineDefinitionError> {
    let spelling = from.clone();
    // a table may apply to only some keys of a group
    let is_for_some = axis.is_group() && !table.is_empty();
    let units = UnitConverter::new(from, to, table, digits);
    match spelling.map(|from| units.factor(&from, &axis.axis)) {
        Some(Err(error)) if !is_for_some || matches!(error, UnitError::Inverse { .. }) => {
            Err(PipelineDefinitionError::new(location, error))
        }
        _ => Ok(units),
    }
}

/// Checks that `digits` is in range.
fn check_digits(digits: i32, location: &str) -> Result<(), PipelineDefinitionError> {
    if DIGITS.contains(&digits) {
        return Ok(());
    }
    let fault = format!("`digits` is {digits} ({} to {} allowed)", DIGITS.start(), DIGITS.end());
    Err(PipelineDefinitionError::new(location, fault))
}

/// Checks that the translations of an axis's last step are values of the axis.
fn check_words(words: &WordTable, axis: &Axis, location: &str) -> Result<(), PipelineDefinitionError> {
    let called = words.entries.iter().filter_map(|(word, called)| Some((word, called.as_ref()?)));
    for (word, called) in called {
        TypedValue::from_text(called, axis)
            .map_err(|error| PipelineDefinitionError::new(location, format!("`{word}`: {error}")))?;
    }
    Ok(())
}

fn to_axis_unit(code: &str, axis: &Axis, location: &str) -> Result<UcumUnit, PipelineDefinitionError> {
    if axis.unit.as_deref() != Some(code) {
        let unit = axis.unit.as_deref().unwrap_or("none");
        let fault = format!("`to_unit` is `{code}`, but the unit of `{}` is {unit}", axis.axis);
        return Err(PipelineDefinitionError::new(location, fault));
    }
    code.parse::<UcumUnit>().map_err(|error| PipelineDefinitionError::new(location, error))
}

/// Deserializes the configuration of a normalizer.
fn read<T: DeserializeOwned>(
    config: Map<String, Json>,
    location: &str,
) -> Result<T, PipelineDefinitionError> {
    serde_path_to_error::deserialize(Json::Object(config)).map_err(|error| {
        let (path, fault) = (error.path(), reword_serde_error(&error.inner().to_string()));
        let is_of_all = path.iter().next().is_none();
        PipelineDefinitionError::new(location, if is_of_all { fault } else { format!("`{path}`: {fault}") })
    })
}
