//! Compiles a definition for an ontology, and reports the location of every fault.

mod definition_compiler;
mod steps;
mod values;

use super::mapping::CompiledMapping;
use super::steps::NormalizationStep;
use super::{RecordNormalizer, ValidTimePaths};
use crate::axis::Axis;
use crate::normalize::checks::{CompiledConstraint, CompiledValueCheck};
use crate::normalize::expression::CelExpression;
use crate::ontology::Ontology;
use crate::pipeline::{CheckFailureHandling, NormalizerType, PipelineDefinition, ValueCheck, ValueCheckType};
use definition_compiler::DefinitionCompiler;
use domain_base::pattern::compile_pattern;
use domain_base::wording::reword_serde_error;
use serde::Deserialize;
use serde_json::Value as Json;
use std::sync::Arc;
use values::typed;

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
