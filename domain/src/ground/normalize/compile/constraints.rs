//! Compiles checks.

use super::BadDefinition;
use super::parts::Parts;
use super::values::typed;
use crate::base::wording::{of_pattern, plain};
use crate::ground::axis::Axis;
use crate::ground::normalize::checks::{Checked, Constraint};
use crate::ground::normalize::expression::Expression;
use crate::ground::pipeline::{Check, CheckType, OnFailure};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value as Json;

/// The maximum length of an expression or a pattern, in bytes.
const EXPRESSION_MAX_BYTES: usize = 1024;
/// The maximum memory of a compiled pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 256 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeConfig {
    min: Option<Json>,
    max: Option<Json>,
}

impl Parts<'_> {
    /// Compiles a check.
    pub(super) fn check(&self, check: &Check, place: &str) -> Result<Checked, BadDefinition> {
        let (index, axis) = self.axis(&check.axis, &format!("{place}.axis"))?;
        if axis.identity && check.on_failure == OnFailure::Nullify {
            let fault = format!("`{}` is an identity axis; its value cannot be nullified", axis.axis);
            return Err(BadDefinition::new(format!("{place}.on_failure"), fault));
        }
        let place = &format!("{place}.constraint");
        let constraint = match check.check_type {
            CheckType::Range => range(&check.constraint, axis, place)?,
            CheckType::Enum => {
                let list = check.constraint.as_array().filter(|list| !list.is_empty());
                let list =
                    list.ok_or_else(|| BadDefinition::new(place, "a non-empty list of values is required"))?;
                Constraint::Enum(
                    list.iter().map(|value| typed(value, axis, place)).collect::<Result<_, _>>()?,
                )
            }
            CheckType::Regex => Constraint::Regex(whole_text(expression(&check.constraint, place)?, place)?),
            CheckType::Custom => {
                let source = expression(&check.constraint, place)?;
                let expression = Expression::new(source, self.ontology, index);
                Constraint::Custom(expression.map_err(|fault| BadDefinition::new(place, fault))?)
            }
        };
        Ok(Checked { axis: index, constraint, on_failure: check.on_failure })
    }
}

fn range(constraint: &Json, axis: &Axis, place: &str) -> Result<Constraint, BadDefinition> {
    let config = RangeConfig::deserialize(constraint)
        .map_err(|error| BadDefinition::new(place, plain(&error.to_string())))?;
    let bound = |bound: Option<Json>| bound.map(|bound| typed(&bound, axis, place)).transpose();
    let (min, max) = (bound(config.min)?, bound(config.max)?);
    match (&min, &max) {
        (None, None) => Err(BadDefinition::new(place, "`min` or `max` is missing")),
        (Some(min), Some(max)) if min > max => Err(BadDefinition::new(place, "`min` is above `max`")),
        _ => Ok(Constraint::Range { min, max }),
    }
}

fn expression<'c>(constraint: &'c Json, place: &str) -> Result<&'c str, BadDefinition> {
    let text = constraint.as_str().filter(|text| (1..=EXPRESSION_MAX_BYTES).contains(&text.len()));
    text.ok_or_else(|| {
        BadDefinition::new(place, format!("a text of 1 to {EXPRESSION_MAX_BYTES} bytes is required"))
    })
}

/// Compiles a pattern that must match the whole text.
fn whole_text(pattern: &str, place: &str) -> Result<Regex, BadDefinition> {
    let built = |pattern: &str| {
        RegexBuilder::new(pattern).size_limit(PATTERN_MAX_BYTES).dfa_size_limit(PATTERN_MAX_BYTES).build()
    };
    // the pattern alone first: it must not close the added parentheses
    let whole = built(pattern).and_then(|_| built(&format!("^(?:{pattern})$")));
    whole.map_err(|error| BadDefinition::new(place, of_pattern(&error)))
}
