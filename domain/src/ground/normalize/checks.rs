//! What must hold of a record behind normalization: the RFC's four kinds of checks.

use super::expression::Expression;
use super::{Normalizer, Values};
use crate::ground::pipeline::OnFailure;
use crate::ground::rejection::{Rejection, Rule};
use crate::ground::value::Typed;
use regex::Regex;

/// A check made ready.
#[derive(Debug)]
pub(super) struct Checked {
    /// The axis's place in the ontology.
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
    /// Holds the values against the checks, and takes out what is not to stay.
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
            for (path, fault) in failed {
                let rejection = Rejection::new(Rule::Check, Some(&path), fault);
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
    /// What is wrong with `value` by itself, if anything.
    fn fault(&self, value: &Typed) -> Option<String> {
        match self {
            Self::Range { min: Some(min), .. } if value < min => {
                Some(format!("{} is below {}", value.text(), min.text()))
            }
            Self::Range { max: Some(max), .. } if value > max => {
                Some(format!("{} is above {}", value.text(), max.text()))
            }
            Self::Enum(allowed) if !allowed.contains(value) => {
                Some(format!("{} is none of the values allowed", value.text()))
            }
            Self::Regex(regex) if !regex.is_match(&value.text()) => {
                Some(format!("{} does not match {regex}", value.text()))
            }
            Self::Range { .. } | Self::Enum(_) | Self::Regex(_) | Self::Custom(_) => None,
        }
    }
}
