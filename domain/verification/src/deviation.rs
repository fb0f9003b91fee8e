//! Deviations: values that differ from their source's baseline by more than the workflow allows. A trusted
//! source can be compromised, too (RFC-0002, "Failure Modes": poisoning).

use super::envelope::Envelope;
use super::inputs::DecisionInputs;
use super::oracle_call::OracleReply;
use super::review::PriorBaselines;
use super::stored_state::{AxisBaseline, SourceBaselines};
use super::workflow::{DeviationLimit, Workflow};
use crate::statements::delta;
use crate::verification_record::CandidateAnswer;
use domain_base::decimal::Decimal;
use domain_ground::axis::Axis;
use domain_ground::id::SourceId;
use domain_ground::value::TypedValue;
use std::collections::BTreeMap;

/// The axes on which `candidate` differs from its `baseline` by more than the workflow allows, each with the reason in
/// words for the reviewer.
#[must_use]
pub fn find_deviations(
    workflow: &Workflow,
    axes: &BTreeMap<String, Axis>,
    baseline: impl Fn(&str) -> Option<AxisBaseline>,
    candidate: &CandidateAnswer,
) -> BTreeMap<String, String> {
    let looked_at = axes.iter().filter_map(|(path, axis)| {
        let limit = workflow.deviation_limit(axis)?;
        let (before, now) = (baseline(path)?, candidate.values.get(path)?);
        let was = &before.stated.value;
        let rule = limit.describe_exceeded_limit(&was.typed(axis).ok()?, &now.value.typed(axis).ok()?)?;
        let of = before.source_version.map_or_else(String::new, |version| format!(" in {version}"));
        let is = &now.value;
        Some((path.clone(), format!("it was {was}{of} and is {is}; the difference exceeds {rule}")))
    });
    looked_at.collect()
}

/// `baselines` after a decision about the present; `None` if nothing changes. Each source that answered gets
/// new baselines on the requested axes that are authoritative by sources and have a limit. A person's
/// decision confirms no value of a source.
#[must_use]
pub fn advance_baselines(
    inputs: &DecisionInputs,
    envelope: &Envelope,
    baselines: &SourceBaselines,
) -> Option<SourceBaselines> {
    if !inputs.question.is_about_the_present() {
        return None;
    }
    let mut advanced = baselines.clone();
    for outcome in envelope.candidates.iter().filter(|outcome| outcome.tier.is_some() && !outcome.stale) {
        let call = inputs.calls.get(&outcome.oracle_id);
        let Some(OracleReply::Answered { candidate }) = call.map(|call| &call.reply) else { continue };
        // only an authoritative axis has a basis
        let is_by_sources = |path: &&String| {
            let basis = envelope.axes.get(*path).and_then(|axis| axis.basis);
            basis.is_some_and(|basis| !basis.is_human())
        };
        for path in inputs.question.axes.iter().filter(is_by_sources) {
            let limit = inputs.axes.get(path).and_then(|axis| inputs.workflow.deviation_limit(axis));
            let baseline = limit.and_then(|_| AxisBaseline::of(candidate, path));
            let known = baselines.get(&outcome.oracle_id).and_then(|known| known.get(path));
            // the same value in another version keeps the baseline, so that no row is written for it
            if let Some(baseline) =
                baseline.filter(|baseline| known.is_none_or(|known| known.stated != baseline.stated))
            {
                advanced.entry(outcome.oracle_id.clone()).or_default().insert(path.clone(), baseline);
            }
        }
    }
    (advanced != *baselines).then_some(advanced)
}

/// Records the values `before` a deviation as baselines of sources that have none yet. The next values are then not
/// compared with the deviating ones.
pub fn record_baselines(
    inputs: &DecisionInputs,
    before: &BTreeMap<SourceId, CandidateAnswer>,
    baselines: &mut SourceBaselines,
) {
    for (oracle_id, before) in before {
        let Some(OracleReply::Answered { candidate }) = inputs.calls.get(oracle_id).map(|call| &call.reply)
        else {
            continue;
        };
        for path in candidate.deviations.keys() {
            if let Some(baseline) = AxisBaseline::of(before, path) {
                baselines.entry(oracle_id.clone()).or_default().entry(path.clone()).or_insert(baseline);
            }
        }
    }
}

/// Restores the baselines from before a review confirmed deviations, on the axes for which `ends` is true:
/// that decision no longer counts.
pub fn restore_baselines(
    baselines: &mut SourceBaselines,
    before: &PriorBaselines,
    ends: impl Fn(&str) -> bool,
) {
    for (oracle_id, before) in before {
        let of_source = baselines.entry(oracle_id.clone()).or_default();
        for (path, before) in before.iter().filter(|(path, _)| ends(path)) {
            match before.clone() {
                Some(before) => drop(of_source.insert(path.clone(), before)),
                None => drop(of_source.remove(path)),
            }
        }
    }
    baselines.retain(|_, of_source| !of_source.is_empty());
}

impl Workflow {
    /// The maximum change of a value on `axis`, if the workflow has one.
    #[must_use]
    pub fn deviation_limit(&self, axis: &Axis) -> Option<&DeviationLimit> {
        self.deviation_limits.get(&axis.axis)
    }
}

impl DeviationLimit {
    /// The limit that a change from `was` to `is` exceeds, in words.
    fn describe_exceeded_limit(&self, was: &TypedValue, is: &TypedValue) -> Option<String> {
        let change = delta(was, is)?;
        if let Some(most) = self.max_change.as_ref().filter(|most| change > **most) {
            return Some(most.to_string());
        }
        let (TypedValue::Number(was), Some(part)) = (was, &self.max_change_ratio) else { return None };
        let factor = if *was < Decimal::from(0) { Decimal::from(-1) } else { Decimal::from(1) };
        // each change from 0 exceeds a ratio, and so does a change that cannot be computed
        let allowed = was.checked_mul(&factor).and_then(|size| size.checked_mul(part));
        let is_kept_to = allowed.is_ok_and(|allowed| change <= allowed);
        (!is_kept_to).then(|| format!("{part} of it"))
    }
}
