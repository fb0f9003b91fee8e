//! Compiles a definition for an ontology, and reports the location of every fault.

mod constraints;
mod parts;
mod steps;
mod values;

use super::{RecordNormalizer, ValidTimePaths};
use crate::ground::ontology::Ontology;
use crate::ground::pipeline::{NormalizerType, PipelineDefinition};
use parts::DefinitionCompiler;
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

impl RecordNormalizer {
    /// Compiles `definition` for `ontology`. The source provides the axes `axes_provided`.
    ///
    /// # Errors
    /// The first fault, with its location in the definition.
    pub fn new(
        definition: &PipelineDefinition,
        ontology: Arc<Ontology>,
        axes_provided: &[String],
    ) -> Result<Self, PipelineDefinitionError> {
        let parts = DefinitionCompiler { definition, ontology: &ontology, axes_provided };
        parts.check_header()?;
        let pipeline = &definition.pipeline;
        if let Some((name, ratio)) = pipeline.gates.invalid_ratio() {
            let fault = format!("{ratio} is not a share of records (0 to 1 allowed)");
            return Err(PipelineDefinitionError::new(format!("pipeline.gates.{name}"), fault));
        }
        let mut mappings = Vec::new();
        for (index, mapping) in pipeline.transformation.field_mappings.iter().enumerate() {
            mappings.push(parts.field(mapping, &format!("pipeline.transformation.field_mappings[{index}]"))?);
        }
        for (index, mapping) in definition.normalization.axis_mappings.iter().enumerate() {
            mappings.push(parts.mapping(mapping, &format!("normalization.axis_mappings[{index}]"))?);
        }
        parts.check_mappings(&mappings)?;
        let normalizer_id = pipeline.transformation.normalizer_id.clone();
        let (mut steps, mut applied) = (Vec::new(), Vec::from_iter(normalizer_id));
        for (index, mapping) in pipeline.transformation.field_mappings.iter().enumerate() {
            let Some(conversion) = &mapping.unit_conversion else { continue };
            let location = format!("pipeline.transformation.field_mappings[{index}].unit_conversion");
            steps.push(parts.fixed_conversion(conversion, &mapping.target_axis, &location)?);
            applied.push(transformation(&mapping.target_axis, NormalizerType::UnitConversion));
        }
        for (index, normalizer) in definition.normalization.value_normalizers.iter().enumerate() {
            let location = format!("normalization.value_normalizers[{index}]");
            steps.push(parts.step(normalizer, &mut mappings, &location)?);
            applied.push(transformation(&normalizer.axis, normalizer.normalizer_type));
        }
        let mut checks = Vec::new();
        for (index, check) in definition.normalization.post_normalization_checks.iter().enumerate() {
            checks.push(parts.check(check, &format!("normalization.post_normalization_checks[{index}]"))?);
        }
        let record_key = parts.record_key(&mappings)?;
        let schema = parts.schema()?;
        let required_fields = parts.paths(&pipeline.validation.required_fields, "required_fields")?;
        let valid_time = parts.valid_time()?;
        let reject_on_schema_fail = pipeline.validation.reject_on_schema_fail;
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
            transformations: applied,
        })
    }

    /// The ontology of the normalized records.
    #[must_use]
    pub fn ontology(&self) -> &Arc<Ontology> {
        &self.ontology
    }
}

/// The name of a normalizer of an axis in provenance.
fn transformation(axis: &str, kind: NormalizerType) -> String {
    format!("{axis}:{}", kind.into_str())
}
