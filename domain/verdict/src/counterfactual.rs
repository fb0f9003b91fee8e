//! Counterfactuals: what the gate would have decided on a verdict with one change.
//!
//! They are calculated from the log entry of the judgment, since the text of a rejected verdict is not stored. So they exist for
//! changes that no other member of the verdict can undo. A missing label, for example, has none: its value is not known.

use crate::crosscheck::{CrosscheckDecision, CrosscheckInspection, UnexpectedFieldHandling, decide_with};
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

/// The decision of the gate on a verdict that differs from a judged one only in `changes`.
#[derive(Debug, Clone, PartialEq)]
pub struct Counterfactual {
    /// One change, or all that are possible.
    pub changes: Vec<VerdictChange>,
    /// The decision. Its score is the lowest possible one, since a change can also add evidence, which the entry does not contain. It is
    /// approved only if each such verdict is.
    pub decision: CrosscheckDecision,
}

impl Counterfactual {
    /// Whether the score is that of each such verdict: none has more than 1.0.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.decision.coherence_score == 1.0
    }
}

/// The counterfactuals of a judgment: one for each change, and one for all of them if there are several.
#[must_use]
pub fn counterfactuals(entry: &CrosscheckEntry) -> Vec<Counterfactual> {
    let mut changes: Vec<_> = entry.flags.iter().filter_map(VerdictChange::of).collect();
    changes.sort_unstable();
    changes.dedup();
    let single = changes.iter().map(|change| vec![*change]);
    let all = (changes.len() > 1).then(|| changes.clone());
    single
        .chain(all)
        .map(|changes| Counterfactual { decision: decide_after(entry, &changes), changes })
        .collect()
}

fn decide_after(entry: &CrosscheckEntry, changes: &[VerdictChange]) -> CrosscheckDecision {
    let stays = |flag: &&Flag| {
        **flag != Flag::DegenerateManifold
            && VerdictChange::of(flag).is_none_or(|change| !changes.contains(&change))
    };
    let flags = entry.flags.iter().filter(stays).cloned().collect();
    // the entry of a rejected verdict does not show whether unexpected members would have been refused, too
    let unexpected =
        if entry.approved { UnexpectedFieldHandling::Deliver } else { UnexpectedFieldHandling::Refuse };
    decide_with(unexpected, &CrosscheckInspection::of(entry.v_t, entry.verdict_label, flags))
}

#[cfg(test)]
mod tests;
