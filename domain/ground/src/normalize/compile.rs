//! Compiles a definition for an ontology, and reports the location of every fault.

mod definition_compiler;
mod steps;

use super::mapping::CompiledMapping;
use super::steps::NormalizationStep;
use super::{RecordNormalizer, ValidTimePaths};
use crate::axis::Axis;
use crate::normalize::expression::CelExpression;
use crate::normalize::steps::DateFormats;
use crate::normalize::{CompiledConstraint, CompiledValueCheck};
use crate::ontology::Ontology;
use crate::pipeline::{
    CheckFailureHandling, NormalizerType, PipelineDefinition, ValueCheck, ValueCheckType, WordTable,
};
use crate::value::TypedValue;
use definition_compiler::DefinitionCompiler;
use domain_base::moment::{AmbiguousTimeHandling, LocalTimeZone, PeriodFormat, PeriodLength};
use domain_base::text_form::{is_blank, to_nfc};
use domain_base::time_format::TimeFormat;
use domain_base::wording::{compile_pattern, reword_serde_error};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {fault}")]
pub struct PipelineDefinitionError {
    location: String,
    fault: String,
}

impl PipelineDefinitionError {
    fn new(location: impl Into<String>, fault: impl std::fmt::Display) -> Self {
        Self { location: location.into(), fault: fault.to_string() }
    }
}

/// The faults of a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PipelineDefinitionErrors(pub Vec<PipelineDefinitionError>);

impl RecordNormalizer {
    /// Compiles `definition` for `ontology`. The source provides the axes `axes_provided`.
    ///
    /// # Errors
    /// The faults, with their locations in the definition.
    pub fn new(
        definition: &PipelineDefinition,
        ontology: Arc<Ontology>,
        axes_provided: &[String],
    ) -> Result<Self, PipelineDefinitionErrors> {
        let parts = DefinitionCompiler { definition, ontology: &ontology, axes_provided };
        let mut faults = DefinitionFaults::default();
        let mut mappings = parts.compile_mappings(&mut faults);
        let (steps, transformations) = parts.compile_steps(&mut mappings, &mut faults);
        let mut checks = Vec::new();
        for (index, check) in definition.normalization.post_normalization_checks.iter().enumerate() {
            let location = format!("normalization.post_normalization_checks[{index}]");
            checks.extend(faults.note(parts.check(check, &location)));
        }
        let pipeline = &definition.pipeline;
        let record_key = faults.note(parts.record_key(&mappings)).unwrap_or_default();
        let schema = faults.note(parts.schema()).flatten();
        let required_fields = parts.paths(&pipeline.validation.required_fields, "required_fields");
        let required_fields = faults.note(required_fields).unwrap_or_default();
        let valid_time = faults.note(parts.valid_time()).flatten();
        let reject_on_schema_fail = pipeline.validation.reject_on_schema_fail;
        if !faults.0.is_empty() {
            return Err(PipelineDefinitionErrors(faults.0));
        }
        Ok(Self {
            ontology,
            schema,
            reject_on_schema_fail,
            required_fields,
            mappings,
            steps,
            checks,
            record_key,
            valid_time,
            transformations,
        })
    }

    /// The ontology of the normalized records.
    #[must_use]
    pub fn ontology(&self) -> &Arc<Ontology> {
        &self.ontology
    }
}

/// The faults that were found so far.
#[derive(Default)]
struct DefinitionFaults(Vec<PipelineDefinitionError>);

impl DefinitionFaults {
    /// The part, if it has no fault.
    fn note<T>(&mut self, part: Result<T, PipelineDefinitionError>) -> Option<T> {
        part.map_err(|fault| self.0.push(fault)).ok()
    }
}

impl DefinitionCompiler<'_> {
    fn compile_mappings(&self, faults: &mut DefinitionFaults) -> Vec<CompiledMapping> {
        let pipeline = &self.definition.pipeline;
        faults.note(self.check_header());
        for (name, fault) in pipeline.gates.faults(self.ontology) {
            faults.0.push(PipelineDefinitionError::new(format!("pipeline.gates.{name}"), fault));
        }
        let (mut mappings, faults_before) = (Vec::new(), faults.0.len());
        for (index, mapping) in pipeline.transformation.field_mappings.iter().enumerate() {
            let location = format!("pipeline.transformation.field_mappings[{index}]");
            mappings.extend(faults.note(self.field(mapping, &location)));
        }
        for (index, mapping) in self.definition.normalization.axis_mappings.iter().enumerate() {
            let location = format!("normalization.axis_mappings[{index}]");
            mappings.extend(faults.note(self.mapping(mapping, &location)));
        }
        // a mapping with a fault would count as missing
        if faults.0.len() == faults_before {
            faults.note(self.check_mappings(&mappings));
        }
        mappings
    }

    /// The steps, and their names in provenance.
    fn compile_steps(
        &self,
        mappings: &mut [CompiledMapping],
        faults: &mut DefinitionFaults,
    ) -> (Vec<NormalizationStep>, Vec<String>) {
        let pipeline = &self.definition.pipeline;
        let (mut steps, mut applied) =
            (Vec::new(), Vec::from_iter(pipeline.transformation.normalizer_id.clone()));
        for (index, mapping) in pipeline.transformation.field_mappings.iter().enumerate() {
            let Some(conversion) = &mapping.unit_conversion else { continue };
            let location = format!("pipeline.transformation.field_mappings[{index}].unit_conversion");
            steps.extend(faults.note(self.fixed_conversion(conversion, &mapping.target_axis, &location)));
            applied.push(transformation(&mapping.target_axis, NormalizerType::UnitConversion));
        }
        for (index, normalizer) in self.definition.normalization.value_normalizers.iter().enumerate() {
            let location = format!("normalization.value_normalizers[{index}]");
            steps.extend(faults.note(self.step(normalizer, mappings, &location)));
            applied.push(transformation(&normalizer.axis, normalizer.normalizer_type));
        }
        (steps, applied)
    }
}

/// The name of a normalizer of an axis in provenance.
fn transformation(axis: &str, kind: NormalizerType) -> String {
    format!("{axis}:{}", kind.into_str())
}

/// The maximum length of an expression, in bytes.
const EXPRESSION_MAX_BYTES: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeConstraintConfig {
    min: Option<Json>,
    max: Option<Json>,
}

impl DefinitionCompiler<'_> {
    /// Compiles a check.
    fn check(
        &self,
        check: &ValueCheck,
        location: &str,
    ) -> Result<CompiledValueCheck, PipelineDefinitionError> {
        let (index, axis) = self.axis(&check.axis, &format!("{location}.axis"))?;
        if axis.identity && check.on_failure == CheckFailureHandling::Nullify {
            let fault = format!("`{}` is an identity axis; its value cannot be nullified", axis.axis);
            return Err(PipelineDefinitionError::new(format!("{location}.on_failure"), fault));
        }
        let location = &format!("{location}.constraint");
        let constraint = match check.check_type {
            ValueCheckType::Range => range(&check.constraint, axis, location)?,
            ValueCheckType::Enum => {
                let list = check.constraint.as_array().filter(|list| !list.is_empty());
                let list = list.ok_or_else(|| {
                    PipelineDefinitionError::new(location, "a non-empty list of values is required")
                })?;
                CompiledConstraint::Enum(
                    list.iter().map(|value| typed(value, axis, location)).collect::<Result<_, _>>()?,
                )
            }
            ValueCheckType::Regex => {
                let pattern = compile_pattern(expression(&check.constraint, location)?);
                CompiledConstraint::Regex(
                    pattern.map_err(|fault| PipelineDefinitionError::new(location, fault))?,
                )
            }
            ValueCheckType::Custom => {
                let source = expression(&check.constraint, location)?;
                let expression = CelExpression::new(source, self.ontology, index);
                CompiledConstraint::Custom(
                    expression.map_err(|fault| PipelineDefinitionError::new(location, fault))?,
                )
            }
        };
        Ok(CompiledValueCheck { axis: index, constraint, on_failure: check.on_failure })
    }
}

fn range(
    constraint: &Json,
    axis: &Axis,
    location: &str,
) -> Result<CompiledConstraint, PipelineDefinitionError> {
    let config = RangeConstraintConfig::deserialize(constraint)
        .map_err(|error| PipelineDefinitionError::new(location, reword_serde_error(&error.to_string())))?;
    let bound = |bound: Option<Json>| bound.map(|bound| typed(&bound, axis, location)).transpose();
    let (min, max) = (bound(config.min)?, bound(config.max)?);
    match (&min, &max) {
        (None, None) => Err(PipelineDefinitionError::new(location, "`min` or `max` is missing")),
        (Some(min), Some(max)) if min > max => {
            Err(PipelineDefinitionError::new(location, "`min` is above `max`"))
        }
        _ => Ok(CompiledConstraint::Range { min, max }),
    }
}

fn expression<'c>(constraint: &'c Json, location: &str) -> Result<&'c str, PipelineDefinitionError> {
    let text = constraint.as_str().filter(|text| (1..=EXPRESSION_MAX_BYTES).contains(&text.len()));
    text.ok_or_else(|| {
        PipelineDefinitionError::new(
            location,
            format!("a text of 1 to {EXPRESSION_MAX_BYTES} bytes is required"),
        )
    })
}

/// Parses a value of `axis` in a definition.
fn typed(value: &Json, axis: &Axis, location: &str) -> Result<TypedValue, PipelineDefinitionError> {
    let bad = |fault: String| PipelineDefinitionError::new(location, fault);
    let typed = match value {
        Json::Bool(value) => TypedValue::from_bool(*value, axis),
        Json::String(text) if is_blank(text) => return Err(bad("a blank text is not a value".into())),
        Json::String(text) => TypedValue::from_text(text, axis),
        // the JSON reader has converted this number to binary, so its exact digits are lost
        Json::Number(number) if number.is_f64() => {
            let fault = "write a number with a fraction or an exponent, or of more than 64 bits, as a text, like \"0.5\"";
            return Err(bad(fault.into()));
        }
        Json::Number(number) => TypedValue::from_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(bad(format!("a value of type {} is required", axis.kind.into_str())));
        }
    };
    typed.map_err(|error| bad(error.to_string()))
}

/// Compiles formats of dates, each of which must name a day or a time, and the zone of times without an offset.
/// `of_days` is whether the zone has a meaning for days, too.
fn dates(
    formats: &[String],
    (timezone, ambiguous): (Option<&str>, Option<AmbiguousTimeHandling>),
    of_days: bool,
    location: &str,
) -> Result<DateFormats, PipelineDefinitionError> {
    let bad = |fault: String| PipelineDefinitionError::new(location, fault);
    let probe = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    let compile = |given: &String| {
        let bad = |fault: String| bad(format!("`{given}`: {fault}"));
        let format = TimeFormat::new(given).map_err(bad)?;
        let written = strtime::format(given, &probe).map_err(|error| bad(error.to_string()))?;
        format.parse(&written).ok_or_else(|| bad("it names neither a day nor a time".to_owned()))?;
        Ok(format)
    };
    let formats = formats.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let zone = timezone.map(|name| LocalTimeZone::new(name, ambiguous)).transpose().map_err(bad)?;
    match (formats.iter().find(|format| format.is_local()), &zone) {
        (Some(local), None) => Err(bad(format!(
            "`{}` reads times without an offset; `timezone` is required, such as `UTC` or `Europe/Vienna`",
            local.as_str()
        ))),
        (None, Some(_)) if !of_days => {
            Err(bad("`timezone` has no effect, since every format has an offset or reads days; remove it"
                .to_owned()))
        }
        (None, None) if ambiguous.is_some() => {
            Err(bad("`ambiguous` has no effect without `timezone`; remove it".to_owned()))
        }
        _ => Ok(DateFormats { formats, zone }),
    }
}

/// Compiles formats of months, quarters or years, each of which must name a whole period.
fn periods(
    length: PeriodLength,
    formats: &[String],
    location: &str,
) -> Result<Vec<PeriodFormat>, PipelineDefinitionError> {
    let compile = |given: &String| {
        PeriodFormat::new(length, given)
            .map_err(|fault| PipelineDefinitionError::new(location, format!("`{given}`: {fault}")))
    };
    formats.iter().map(compile).collect()
}

/// Checks that no word is listed twice, in two Unicode forms, and that no translation is a blank text, which would be a value
/// without content.
fn check_translations(words: &WordTable, location: &str) -> Result<(), PipelineDefinitionError> {
    let mut seen = BTreeSet::new();
    let words_in_form = words.entries.keys().filter(|word| !word.is_ascii());
    if let Some(word) = words_in_form.into_iter().find(|word| !seen.insert(to_nfc(word))) {
        let fault =
            format!("`{word}` is listed twice, with accents that are written in two ways; remove one");
        return Err(PipelineDefinitionError::new(location, fault));
    }
    let is_empty = |called: &Option<String>| called.as_deref().is_some_and(is_blank);
    match words.entries.iter().find(|(_, called)| is_empty(called)) {
        Some((word, _)) => {
            let fault = format!("the translation of `{word}` is blank; use null to ignore the word");
            Err(PipelineDefinitionError::new(location, fault))
        }
        None => Ok(()),
    }
}
