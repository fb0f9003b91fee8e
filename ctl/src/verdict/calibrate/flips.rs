//! Which single flag decides: each judgement is asked what it would be with one flag less, or one more.
//!
//! The question is about a flag's weight in the formula and nothing else, so it is put this way:
//!
//! - V_t stays as it is. (To repair the cause of `empty_analysis`, say, would also add evidence to V_t.)
//! - **One less**: V_r loses the flag's weight; E_D is the largest of the flags that remain. Flags that stand
//!   beside it for the same cause remain: a missing analysis is flagged `field_missing` and `empty_analysis`,
//!   and each is taken away by itself.
//! - **One more**: V_r gains the flag's weight; E_D is the flag's own where that is larger. Tried are the flags
//!   that the verdict does not carry and that the mapping can raise in its tier ([`Flag::first_tier`]), whether or
//!   not this verdict's text could give rise to them.
//! - The changed values go through [`oracled_domain::verdict::crosscheck::decide`], and `approved` is the answer. So a refusal
//!   for `malformed_json` always flips: nothing else of such a text is weighed.

use super::by_flag::{ByFlag, Places};
use super::by_tier::ByTier;
use oracled_domain::verdict::crosscheck::{Inspection, decide};
use oracled_domain::{Flag, Judgement, Tier};
use serde::Serialize;

/// What single flags decide, over a whole corpus.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Flips {
    /// Of the refused verdicts: those that one flag less would approve.
    pub to_approval: ToApproval,
    /// Of the approved verdicts: those that one flag more would refuse.
    pub to_refusal: ToRefusal,
}

/// Refused verdicts, each of their flags taken away by itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct ToApproval {
    /// Refused verdicts.
    pub refused: ByTier<u64>,
    /// Those of them that at least one flag, taken away by itself, turns into an approval. The others hang on
    /// two or more flags.
    pub by_one_flag: ByTier<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the refused ones that carry the flag.
    pub flags: ByFlag<Trials>,
}

/// Approved verdicts, each flag that their tier knows and they do not carry added by itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct ToRefusal {
    /// Approved verdicts.
    pub approved: ByTier<u64>,
    /// Those of them that at least one flag with a weight in V_r turns into a refusal. (A flag with an E_D
    /// refuses every verdict, so there is nothing to count.)
    pub by_one_v_r_flag: ByTier<u64>,
    /// By flag name, in the order of the flags: `verdicts` are the approved ones that the flag could be
    /// added to.
    pub flags: ByFlag<Trials>,
}

/// What became of the decisions when single flags of one name were taken away or added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Trials {
    /// Verdicts that the question was put to.
    pub verdicts: u64,
    /// Those of them whose decision flips by one flag of this name, at whichever place.
    pub flips: u64,
    /// How many decisions flip at each place.
    #[serde(flatten)]
    pub places: Places,
}

impl Flips {
    pub(crate) fn add(&mut self, judgement: &Judgement) {
        let Judgement { tier, inspection, decision, .. } = judgement;
        if decision.approved {
            self.to_refusal.add(*tier, inspection);
        } else {
            self.to_approval.add(*tier, inspection);
        }
    }
}

impl ToApproval {
    fn add(&mut self, tier: Tier, inspection: &Inspection) {
        self.refused.count(tier);
        let flags = || inspection.flags.iter().filter(|flag| weighs(flag));
        let trials: Vec<(&Flag, bool)> =
            flags().map(|flag| (flag, decide(&without(inspection, flag)).approved)).collect();
        if trials.iter().any(|(_, flips)| *flips) {
            self.by_one_flag.count(tier);
        }
        tally(&mut self.flags, &trials);
    }
}

impl ToRefusal {
    fn add(&mut self, tier: Tier, inspection: &Inspection) {
        self.approved.count(tier);
        let raisable = raisable(tier);
        let trials: Vec<(&Flag, bool)> = raisable
            .iter()
            .filter(|flag| !inspection.flags.contains(flag))
            .map(|flag| (flag, !decide(&with(inspection, flag)).approved))
            .collect();
        if trials.iter().any(|(flag, flips)| *flips && flag.v_r() > 0.0) {
            self.by_one_v_r_flag.count(tier);
        }
        tally(&mut self.flags, &trials);
    }
}

/// The inspection as it would be without `flag`, at the same V_t.
fn without(inspection: &Inspection, flag: &Flag) -> Inspection {
    let flags: Vec<Flag> = inspection.flags.iter().filter(|other| *other != flag).cloned().collect();
    Inspection {
        // weights are multiples of 0.5: the difference is exact
        v_r: inspection.v_r - flag.v_r(),
        e_d: flags.iter().map(Flag::e_d).fold(0.0, f64::max),
        flags,
        ..inspection.clone()
    }
}

/// The inspection as it would be with `flag` in addition, at the same V_t.
fn with(inspection: &Inspection, flag: &Flag) -> Inspection {
    let mut flags = inspection.flags.clone();
    flags.push(flag.clone());
    flags.sort();
    Inspection {
        v_r: inspection.v_r + flag.v_r(),
        e_d: inspection.e_d.max(flag.e_d()),
        flags,
        ..inspection.clone()
    }
}

fn weighs(flag: &Flag) -> bool {
    flag.v_r() > 0.0 || flag.e_d() > 0.0
}

/// Counts the trials of one verdict: once for each name, and each place that flips.
fn tally(flags: &mut ByFlag<Trials>, trials: &[(&Flag, bool)]) {
    // flags come in their fixed order, so those of one name stand together
    for of_one_name in trials.chunk_by(|(one, _), (other, _)| one.into_str() == other.into_str()) {
        let Some((flag, _)) = of_one_name.first() else { continue };
        let count = flags.of(flag);
        count.verdicts += 1;
        count.flips += u64::from(of_one_name.iter().any(|(_, flips)| *flips));
        for (flag, _) in of_one_name.iter().filter(|(_, flips)| *flips) {
            count.places.count(flag);
        }
    }
}

/// All flags with a weight that the mapping can raise in `tier`, in the order of the flags.
fn raisable(tier: Tier) -> Vec<Flag> {
    let mut flags: Vec<Flag> =
        Flag::all().filter(|flag| flag.first_tier().is_some_and(|first| first <= tier)).collect();
    flags.sort();
    flags
}

#[cfg(test)]
mod tests;
