//! Deviations: values that jump away from what their source said before. Who is trusted can be broken into, too (RFC-0002,
//! "Failure Modes": poisoning).

use super::candidate::Candidate;
use super::compare::delta;
use super::inputs::Inputs;
use super::workflow::{DeviationLimit, Workflow};
use crate::ground::decimal::Decimal;
use crate::ground::ontology::Axis;
use crate::ground::value::Typed;
use std::collections::BTreeMap;

/// The axes on which `candidate` says something that lies further from `before` than the workflow allows, each with the
/// reason in words; no value is quoted.
#[must_use]
pub fn deviations(inputs: &Inputs, before: &Candidate, candidate: &Candidate) -> BTreeMap<String, String> {
    let looked_at = inputs.axes.iter().filter_map(|(path, axis)| {
        let limit = inputs.workflow.deviation_limit(axis)?;
        let (was, is) = (before.values.get(path)?, candidate.values.get(path)?);
        let since = before.record.source_version.as_deref().unwrap_or("what was said before");
        let rule = limit.broken(&was.value.typed(axis).ok()?, &is.value.typed(axis).ok()?)?;
        Some((path.clone(), format!("it has changed by more than {rule} since {since}")))
    });
    looked_at.collect()
}

impl Workflow {
    /// How far a value on `axis` may lie from the one before it.
    #[must_use]
    pub fn deviation_limit(&self, axis: &Axis) -> Option<&DeviationLimit> {
        self.deviation_limits.get(&axis.axis)
    }
}

impl DeviationLimit {
    /// The limit that a value that was `was` and is `is` does not keep to, in words.
    fn broken(&self, was: &Typed, is: &Typed) -> Option<String> {
        let change = delta(was, is)?;
        if let Some(most) = self.max_change.as_ref().filter(|most| change > **most) {
            return Some(most.to_string());
        }
        let (Typed::Number(was), Some(part)) = (was, &self.max_change_ratio) else { return None };
        let factor = if *was < Decimal::from(0) { Decimal::from(-1) } else { Decimal::from(1) };
        // what was 0 has no part that it could change by: anything else is a jump; so is what cannot be computed
        let allowed = was.checked_mul(&factor).and_then(|size| size.checked_mul(part));
        let is_kept_to = allowed.is_ok_and(|allowed| change <= allowed);
        (!is_kept_to).then(|| format!("{part} of what it was"))
    }
}
