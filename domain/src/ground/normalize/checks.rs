//! Checks of normalized records: the RFC's four types of checks.

use super::expression::{Expression, Fault};
use super::{Normalizer, Values};
use crate::ground::pipeline::OnFailure;
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::Typed;
use regex::Regex;

/// The maximum number of allowed values that a message lists.
const ALLOWED_TOLD_MAX: usize = 16;

/// A compiled check.
#[derive(Debug)]
pub(super) struct Checked {
    /// The index of the axis in the ontology.
    pub(super) axis: usize,
    pub(super) constraint: Constraint,
    pub(super) on_failure: OnFailure,
}

#[derive(Debug)]
pub(super) enum Constraint {
    Range { min: Option<Typed>, max: Option<Typed> },
    Enum(Vec<Typed>),
    Regex(Regex),
    Custom(Expression),
}

impl Normalizer {
    /// Applies the checks to the values, and removes values that a failed check nullifies.
    pub(super) fn check_all(
        &self,
        values: &mut Values<'_>,
        warnings: &mut Vec<Rejection>,
    ) -> Result<(), Rejection> {
        for check in &self.checks {
            let mut failed = Vec::new();
            let of_axis = values.iter().filter(|(_, (mapping, _))| mapping.axis == check.axis);
            if let Constraint::Custom(expression) = &check.constraint {
                let context = expression.context(&self.ontology, values);
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(expression.fault(&context, value)));
                }
            } else {
                for (path, (_, value)) in of_axis {
                    failed.extend(Some(path.clone()).zip(check.constraint.fault(value)));
                }
            }
            for (path, Fault { reason, bound }) in failed {
                let rejection = Rejection::new(Rule::Check, Some(&path), reason).of_bound(bound);
                match check.on_failure {
                    OnFailure::Reject => return Err(rejection),
                    OnFailure::Warn => {}
                    OnFailure::Nullify => drop(values.remove(&path)),
                }
                warnings.push(rejection);
            }
        }
        Ok(())
    }
}

impl Constraint {
    /// The fault of `value` on its own, if any.
    fn fault(&self, value: &Typed) -> Option<Fault> {
        let broken = match self {
            Self::Range { min: Some(min), .. } if value < min => format!("is below {}", min.text()),
            Self::Range { max: Some(max), .. } if value > max => format!("is above {}", max.text()),
            Self::Enum(allowed) if !allowed.contains(value) => {
                let told: Vec<_> = allowed.iter().take(ALLOWED_TOLD_MAX).map(Typed::text).collect();
                let more = if allowed.len() > ALLOWED_TOLD_MAX { ", …" } else { "" };
                format!("is not one of the allowed values: {}{more}", told.join(", "))
            }
            Self::Regex(regex) if !regex.is_match(&value.text()) => format!("does not match {regex}"),
            Self::Range { .. } | Self::Enum(_) | Self::Regex(_) | Self::Custom(_) => return None,
        };
        Some(Fault { reason: format!("{} {broken}", value.text()), bound: format!("it {broken}") })
    }
}
