//! Compiles checks.

use super::PipelineDefinitionError;
use super::parts::DefinitionCompiler;
use super::values::typed;
use crate::base::pattern::compile_pattern;
use crate::base::wording::reword_serde_error;
use crate::ground::axis::Axis;
use crate::ground::normalize::checks::{CompiledConstraint, CompiledValueCheck};
use crate::ground::normalize::expression::CelExpression;
use crate::ground::pipeline::{CheckFailureHandling, ValueCheck, ValueCheckType};
use serde::Deserialize;
use serde_json::Value as Json;

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
    pub(super) fn check(
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
