//! Checks of normalized records: the RFC's four types of checks.

use super::expression::{CelExpression, ValueFault};
use super::{RecordNormalizer, ValuesByPath};
use crate::pipeline::CheckFailureHandling;
use crate::rejection::{RecordRejection, RecordRule};
use crate::value::TypedValue;
use regex::Regex;

/// The maximum number of allowed values that a message lists.
const ALLOWED_SHOWN_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct CompiledValueCheck {
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) constraint: CompiledConstraint,
    pub(super) on_failure: CheckFailureHandling,
}

#[derive(Debug)]
pub(super) enum CompiledConstraint {
    Range { min: Option<TypedValue>, max: Option<TypedValue> },
    Enum(Vec<TypedValue>),
    Regex(Regex),
    Custom(CelExpression),
}

impl RecordNormalizer {
    /// Applies the checks to the values, and removes values that a failed check nullifies.
    pub(super) fn check_all(
        &self,
        values: &mut ValuesByPath<'_>,
        warnings: &mut Vec<RecordRejection>,
    ) -> Result<(), RecordRejection> {
        for check in &self.checks {
            let mut failed = Vec::new();
            let of_axis = values.iter().filter(|(_, (mapping, _))| mapping.axis == check.axis);
            if let CompiledConstraint::Custom(expression) = &check.constraint {
                let context = expression.context(&self.ontology, values);
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(expression.fault(&context, value)));
                }
            } else {
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(check.constraint.fault(value)));
                }
            }
            for (path, ValueFault { reason, bound }) in failed {
                let rejection =
                    RecordRejection::new(RecordRule::Check, Some(&path), reason).with_bound(bound);
                match check.on_failure {
                    CheckFailureHandling::Reject => return Err(rejection),
                    CheckFailureHandling::Warn => {}
                    CheckFailureHandling::Nullify => drop(values.remove(&path)),
                }
                warnings.push(rejection);
            }
        }
        Ok(())
    }
}

impl CompiledConstraint {
    /// The fault of `value` on its own, if any.
    fn fault(&self, value: &TypedValue) -> Option<ValueFault> {
        let broken = match self {
            Self::Range { min: Some(min), .. } if value < min => format!("is below {}", min.text()),
            Self::Range { max: Some(max), .. } if value > max => format!("is above {}", max.text()),
            Self::Enum(allowed) if !allowed.contains(value) => {
                let listed: Vec<_> = allowed.iter().take(ALLOWED_SHOWN_MAX).map(TypedValue::text).collect();
                let more = if allowed.len() > ALLOWED_SHOWN_MAX { ", …" } else { "" };
                format!("is not one of the allowed values: {}{more}", listed.join(", "))
            }
            Self::Regex(regex) if !regex.is_match(&value.text()) => format!("does not match {regex}"),
            Self::Range { .. } | Self::Enum(_) | Self::Regex(_) | Self::Custom(_) => return None,
        };
        Some(ValueFault { reason: format!("{} {broken}", value.text()), bound: format!("it {broken}") })
    }
}
