//! Counterfactuals: what the gate would have decided on a verdict with one change.
//!
//! They are calculated from the log entry of the judgment, since the text of a rejected verdict is not stored. So they exist for
//! changes that no other member of the verdict can undo. A missing label, for example, has none: its value is not known.

use crate::crosscheck::{
    CrosscheckDecision, CrosscheckInspection, UnexpectedFieldHandling, V_T_FLOOR, decide_with,
};
use crate::event::CrosscheckEntry;
use crate::flag::{FieldPath, Flag};
use crate::label::VerdictDimension;

/// A change of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerdictChange {
    /// A summary of at least 10 characters.
    Summary,
    /// The label of most dimensions.
    Label,
    /// An analysis of a dimension.
    Analysis(VerdictDimension),
    /// A strategy with a next step, an alternative and two tests.
    Strategy,
    /// A next step of the strategy.
    NextStep,
    /// An alternative in the strategy.
    Alternative,
    /// Two tests in the strategy.
    Tests,
    /// No members that the tier does not have.
    NoUnexpected,
}

impl VerdictChange {
    /// The change after which a verdict does not have this flag, whatever else it says.
    #[must_use]
    pub const fn of(flag: &Flag) -> Option<Self> {
        Some(match flag {
            Flag::ShortSummary | Flag::FieldMissing(FieldPath::Summary) => Self::Summary,
            Flag::VerdictConflict | Flag::ContradictoryNull => Self::Label,
            Flag::EmptyAnalysis(dimension) | Flag::FieldMissing(FieldPath::DimensionAnalysis(dimension)) => {
                Self::Analysis(*dimension)
            }
            Flag::StrategyMissing | Flag::FieldMissing(FieldPath::Strategy) => Self::Strategy,
            Flag::FieldMissing(FieldPath::NextStep) => Self::NextStep,
            Flag::FieldMissing(FieldPath::Alternative) => Self::Alternative,
            Flag::FewTests | Flag::FieldMissing(FieldPath::Tests) => Self::Tests,
            Flag::UnexpectedField(_) => Self::NoUnexpected,
            Flag::MalformedJson
            | Flag::VerdictMissing
            | Flag::VerdictInvalid
            | Flag::FieldMissing(
                FieldPath::Breakdown | FieldPath::Dimension(_) | FieldPath::DimensionVerdict(_),
            )
            | Flag::DimensionVerdictInvalid(_)
            | Flag::DegenerateManifold => return None,
        })
    }
}

/// The decision of the gate on a verdict that differs from a judged one only in `changes`. A change can also add evidence that the entry
/// does not contain, so there are two decisions, which differ only in the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Counterfactual {
    /// One change, or all that are possible.
    pub changes: Vec<VerdictChange>,
    /// The decision with the lowest possible score. It is approved only if each such verdict is.
    pub lowest: CrosscheckDecision,
    /// The decision with the highest possible score. It is rejected only if each such verdict is.
    pub highest: CrosscheckDecision,
}

impl Counterfactual {
    fn new(entry: &CrosscheckEntry, changes: Vec<VerdictChange>) -> Self {
        let stays = |flag: &&Flag| {
            **flag != Flag::DegenerateManifold
                && VerdictChange::of(flag).is_none_or(|change| !changes.contains(&change))
        };
        let flags: Vec<_> = entry.flags.iter().filter(stays).cloned().collect();
        let decide = |unexpected, evidence| {
            decide_with(unexpected, &CrosscheckInspection::of(evidence, entry.verdict_label, flags.clone()))
        };
        let gains = changes.iter().map(|change| change.evidence(entry));
        let (least, most) = gains.fold((0.0, 0.0), |sum, gain| (sum.0 + gain.0, sum.1 + gain.1));
        // at its minimum, V_t does not show how much less the evidence was
        let evidence = if entry.v_t > V_T_FLOOR { entry.v_t } else { 0.0 };
        // the entry of a rejected verdict does not show whether unexpected members would have been refused, too
        let unexpected =
            if entry.approved { UnexpectedFieldHandling::Deliver } else { UnexpectedFieldHandling::Refuse };
        Self {
            lowest: decide(unexpected, evidence + least),
            highest: decide(UnexpectedFieldHandling::Deliver, entry.v_t + most),
            changes,
        }
    }

    /// Whether the score is that of each such verdict.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.lowest.coherence_score == self.highest.coherence_score
    }

    /// The scores and the results.
    fn outcome(&self) -> [(f64, bool); 2] {
        [&self.lowest, &self.highest].map(|decision| (decision.coherence_score, decision.approved))
    }
}

impl VerdictChange {
    /// The least and the most evidence that the change adds to V_t.
    fn evidence(self, entry: &CrosscheckEntry) -> (f64, f64) {
        let has = |flag: &Flag| entry.flags.contains(flag);
        match self {
            Self::Label | Self::NoUnexpected => (0.0, 0.0),
            // a short summary counts, an empty one does not
            Self::Summary if has(&Flag::FieldMissing(FieldPath::Summary)) => (1.0, 1.0),
            Self::Summary => (0.0, 1.0),
            // an analysis counts only beside a valid label
            Self::Analysis(dimension) if has(&Flag::EmptyAnalysis(dimension)) => (1.0, 1.0),
            Self::Analysis(_) => (0.0, 0.0),
            Self::NextStep | Self::Alternative => (1.0, 1.0),
            // up to three tests count half each, and the verdict can have one already
            Self::Tests if has(&Flag::FieldMissing(FieldPath::Tests)) => (1.0, 1.5),
            Self::Tests => (0.5, 1.5),
            Self::Strategy => (3.0, 3.5),
        }
    }
}

/// The counterfactuals of a judgment with another score or result: one for each change, and one for all of them if it differs from each.
#[must_use]
pub fn counterfactuals(entry: &CrosscheckEntry) -> Vec<Counterfactual> {
    let mut changes: Vec<_> = entry.flags.iter().filter_map(VerdictChange::of).collect();
    changes.sort_unstable();
    changes.dedup();
    let mut outcomes = vec![[(entry.coherence_score, entry.approved); 2]];
    let mut found = Vec::new();
    for change in &changes {
        let single = Counterfactual::new(entry, vec![*change]);
        if single.outcome() != [(entry.coherence_score, entry.approved); 2] {
            outcomes.push(single.outcome());
            found.push(single);
        }
    }
    let all = (changes.len() > 1).then(|| Counterfactual::new(entry, changes));
    found.extend(all.filter(|all| !outcomes.contains(&all.outcome())));
    found
}

#[cfg(test)]
mod tests;
