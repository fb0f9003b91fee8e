//! Finds the single flags that decide: each judgment is repeated with one flag less, or one flag more.
//!
//! Only the flag's weight in the formula changes:
//!
//! - V_t stays the same. (Repairing the cause of `empty_analysis`, for example, would also add evidence to V_t.)
//! - **One less**: V_r loses the flag's weight; E_D is the largest of the remaining flags. Other flags with the same
//!   cause remain: a missing analysis has `field_missing` and `empty_analysis`, and each is removed separately.
//! - **One more**: V_r gains the flag's weight; E_D becomes the flag's own if that is larger. The trials cover the
//!   flags that the verdict lacks and that the mapping can raise in its tier ([`Flag::first_tier`]), even if this
//!   verdict's text cannot cause them.
//! - [`oracled_domain::verdict::crosscheck::decide`] decides on the changed values, and `approved` is the result. So a
//!   rejection for `malformed_json` always flips: such a text has no other flags.

use super::by_flag::{FlagPlaces, FlagTotals};
use super::by_tier::TierTotals;
use oracled_domain::verdict::crosscheck::{CrosscheckInspection, decide};
use oracled_domain::{CrosscheckJudgment, Flag, ProductTier};
use serde::Serialize;

/// The effect of single flags on the decisions over a whole corpus.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct DecisionFlips {
    /// Rejected verdicts that would be approved with one flag less.
    pub to_approval: ApprovalFlips,
    /// Approved verdicts that would be rejected with one flag more.
    pub to_refusal: RefusalFlips,
}

/// Rejected verdicts, with each of their flags removed separately.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct ApprovalFlips {
    /// Rejected verdicts.
    pub refused: TierTotals<u64>,
    /// Rejected verdicts that are approved if one certain flag is removed. The others depend on two or more flags.
    pub by_one_flag: TierTotals<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the rejected ones with the flag.
    pub flags: FlagTotals<FlagTrials>,
}

/// Approved verdicts, with each missing flag of their tier added separately.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct RefusalFlips {
    /// Approved verdicts.
    pub approved: TierTotals<u64>,
    /// Approved verdicts that are rejected if one certain flag with a weight in V_r is added. (A flag with an
    /// E_D rejects every verdict, so it is not counted.)
    pub by_one_v_r_flag: TierTotals<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the approved ones that the flag can be added to.
    pub flags: FlagTotals<FlagTrials>,
}

/// The effect of removing or adding single flags of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct FlagTrials {
    /// Verdicts in the trial.
    pub verdicts: u64,
    /// Verdicts whose decision flips by one flag of this name, at any place.
    pub flips: u64,
    /// Number of flipped decisions by place.
    #[serde(flatten)]
    pub places: FlagPlaces,
}

impl DecisionFlips {
    pub(crate) fn add(&mut self, judgment: &CrosscheckJudgment) {
        let CrosscheckJudgment { tier, inspection, decision, .. } = judgment;
        if decision.approved {
            self.to_refusal.add(*tier, inspection);
        } else {
            self.to_approval.add(*tier, inspection);
        }
    }
}

impl ApprovalFlips {
    fn add(&mut self, tier: ProductTier, inspection: &CrosscheckInspection) {
        self.refused.count(tier);
        let flags = || inspection.flags.iter().filter(|flag| has_weight(flag));
        let trials: Vec<(&Flag, bool)> =
            flags().map(|flag| (flag, decide(&remove_flag(inspection, flag)).approved)).collect();
        if trials.iter().any(|(_, flips)| *flips) {
            self.by_one_flag.count(tier);
        }
        count_trials(&mut self.flags, &trials);
    }
}

impl RefusalFlips {
    fn add(&mut self, tier: ProductTier, inspection: &CrosscheckInspection) {
        self.approved.count(tier);
        let raisable = raisable_flags(tier);
        let trials: Vec<(&Flag, bool)> = raisable
            .iter()
            .filter(|flag| !inspection.flags.contains(flag))
            .map(|flag| (flag, !decide(&add_flag(inspection, flag)).approved))
            .collect();
        if trials.iter().any(|(flag, flips)| *flips && flag.v_r() > 0.0) {
            self.by_one_v_r_flag.count(tier);
        }
        count_trials(&mut self.flags, &trials);
    }
}

/// The inspection without `flag`, at the same V_t.
fn remove_flag(inspection: &CrosscheckInspection, flag: &Flag) -> CrosscheckInspection {
    let flags: Vec<Flag> = inspection.flags.iter().filter(|other| *other != flag).cloned().collect();
    CrosscheckInspection {
        // weights are multiples of 0.5, so the difference is exact
        v_r: inspection.v_r - flag.v_r(),
        e_d: flags.iter().map(Flag::e_d).fold(0.0, f64::max),
        flags,
        ..inspection.clone()
    }
}

/// The inspection with `flag` added, at the same V_t.
fn add_flag(inspection: &CrosscheckInspection, flag: &Flag) -> CrosscheckInspection {
    let mut flags = inspection.flags.clone();
    flags.push(flag.clone());
    flags.sort();
    CrosscheckInspection {
        v_r: inspection.v_r + flag.v_r(),
        e_d: inspection.e_d.max(flag.e_d()),
        flags,
        ..inspection.clone()
    }
}

fn has_weight(flag: &Flag) -> bool {
    flag.v_r() > 0.0 || flag.e_d() > 0.0
}

/// Counts the trials of one verdict: once for each name, and once for each place that flips.
fn count_trials(flags: &mut FlagTotals<FlagTrials>, trials: &[(&Flag, bool)]) {
    // flags are in their fixed order, so flags of one name are adjacent
    for of_one_name in trials.chunk_by(|(one, _), (other, _)| one.into_str() == other.into_str()) {
        let Some((flag, _)) = of_one_name.first() else { continue };
        let count = flags.get_or_insert(flag);
        count.verdicts += 1;
        count.flips += u64::from(of_one_name.iter().any(|(_, flips)| *flips));
        for (flag, _) in of_one_name.iter().filter(|(_, flips)| *flips) {
            count.places.count(flag);
        }
    }
}

/// All flags with a weight that the mapping can raise in `tier`, in the order of the flags.
fn raisable_flags(tier: ProductTier) -> Vec<Flag> {
    let mut flags: Vec<Flag> =
        Flag::all().filter(|flag| flag.first_tier().is_some_and(|first| first <= tier)).collect();
    flags.sort();
    flags
}

#[cfg(test)]
mod tests;
