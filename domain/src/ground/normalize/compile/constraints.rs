//! Checks made ready.

use super::BadDefinition;
use super::parts::Parts;
use crate::ground::normalize::checks::{Checked, Constraint, Expression};
use crate::ground::ontology::Axis;
use crate::ground::pipeline::{Check, CheckType, OnFailure};
use crate::ground::value::Typed;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value as Json;

/// The longest expression or pattern, in bytes.
const EXPRESSION_MAX_BYTES: usize = 4096;
/// A compiled pattern takes so much memory at the most.
const PATTERN_MAX_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeConfig {
    min: Option<Json>,
    max: Option<Json>,
}

impl Parts<'_> {
    /// The check that `check` is.
    pub(super) fn check(&self, check: &Check, place: &str) -> Result<Checked, BadDefinition> {
        let (index, axis) = self.axis(&check.axis, &format!("{place}.axis"))?;
        if axis.identity && check.on_failure == OnFailure::Nullify {
            let fault = format!("`{}` says what a record speaks of: it cannot be taken away", axis.axis);
            return Err(BadDefinition::new(format!("{place}.on_failure"), fault));
        }
        let place = &format!("{place}.constraint");
        let constraint = match check.check_type {
            CheckType::Range => range(&check.constraint, axis, place)?,
            CheckType::Enum => {
                let list = check.constraint.as_array().filter(|list| !list.is_empty());
                let list = list.ok_or_else(|| BadDefinition::new(place, "a list of values is taken"))?;
                Constraint::Enum(
                    list.iter().map(|value| typed(value, axis, place)).collect::<Result<_, _>>()?,
                )
            }
            CheckType::Regex => Constraint::Regex(whole_text(expression(&check.constraint, place)?, place)?),
            CheckType::Custom => {
                let source = expression(&check.constraint, place)?;
                let expression = Expression::new(source).map_err(|fault| BadDefinition::new(place, fault))?;
                let known = |name: &str| {
                    let first = |axis: &Axis| axis.axis.split('.').next() == Some(name);
                    name == "value" || self.ontology.axes.iter().any(first)
                };
                if let Some(name) = expression.names().into_iter().find(|name| !known(name)) {
                    let fault = format!(
                        "it speaks of `{name}`, which is no axis; `value` is the value that is checked"
                    );
                    return Err(BadDefinition::new(place, fault));
                }
                Constraint::Custom(expression)
            }
        };
        Ok(Checked { axis: index, constraint, on_failure: check.on_failure })
    }
}

fn range(constraint: &Json, axis: &Axis, place: &str) -> Result<Constraint, BadDefinition> {
    let config = RangeConfig::deserialize(constraint).map_err(|error| BadDefinition::new(place, error))?;
    let bound = |bound: Option<Json>| bound.map(|bound| typed(&bound, axis, place)).transpose();
    let (min, max) = (bound(config.min)?, bound(config.max)?);
    match (&min, &max) {
        (None, None) => Err(BadDefinition::new(place, "`min` or `max` is missing")),
        (Some(min), Some(max)) if min > max => Err(BadDefinition::new(place, "`min` is above `max`")),
        _ => Ok(Constraint::Range { min, max }),
    }
}

/// A value of `axis` that stands in a definition.
pub(super) fn typed(value: &Json, axis: &Axis, place: &str) -> Result<Typed, BadDefinition> {
    let typed = match value {
        Json::Bool(value) => Typed::of_bool(*value, axis),
        Json::String(text) => Typed::of_text(text, axis),
        // serde_json writes a number as short as it reads back: what was written with up to 17 digits
        Json::Number(number) => Typed::of_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(BadDefinition::new(place, format!("a {} is taken", axis.kind.as_str())));
        }
    };
    typed.map_err(|error| BadDefinition::new(place, error))
}

fn expression<'c>(constraint: &'c Json, place: &str) -> Result<&'c str, BadDefinition> {
    let text = constraint.as_str().filter(|text| (1..=EXPRESSION_MAX_BYTES).contains(&text.len()));
    text.ok_or_else(|| {
        BadDefinition::new(place, format!("a text of 1 to {EXPRESSION_MAX_BYTES} bytes is taken"))
    })
}

/// A pattern that has to match the whole text.
fn whole_text(pattern: &str, place: &str) -> Result<Regex, BadDefinition> {
    let whole = RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(PATTERN_MAX_BYTES)
        .dfa_size_limit(PATTERN_MAX_BYTES)
        .build();
    whole.map_err(|error| BadDefinition::new(place, error))
}
