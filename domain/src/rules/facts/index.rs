//! The index of many facts. A search takes time independent of their number.

use super::super::lines::NormalizedLines;
use super::super::needles::NeedleAutomaton;
use super::suffixes::SuffixArray;
use super::{FactSupport, SupportDirection};

/// The index of facts, in both directions: facts that contain a claim, and facts within a claim.
#[derive(Debug)]
pub(super) struct FactIndex {
    needles: NeedleAutomaton,
    suffixes: SuffixArray,
}

impl FactIndex {
    /// Creates the index of `facts`; `None` if they are too long for it.
    pub(super) fn of(facts: &NormalizedLines) -> Option<Self> {
        Some(Self { needles: NeedleAutomaton::of(facts)?, suffixes: SuffixArray::of(facts.text())? })
    }

    /// The first of `facts` that supports `claim`.
    pub(super) fn support(&self, facts: &NormalizedLines, claim: &str) -> Option<FactSupport> {
        let around = self.suffixes.find(facts.text(), claim).map(|at| facts.place_at(at));
        let within = self.needles.ends(facts, claim).map(|(_, fact)| self.needles.lowest(fact)).min();
        let around = around.map(|fact| FactSupport { fact, direction: SupportDirection::ClaimInFact });
        let within = within.map(|fact| FactSupport { fact, direction: SupportDirection::FactInClaim });
        // if both are the same fact, it equals the claim, and `min_by_key` returns the first
        around.into_iter().chain(within).min_by_key(|support| support.fact)
    }
}

/// The cost of creating the index of `facts`, in units of one compared byte.
pub(super) const fn cost(facts: &NormalizedLines) -> u64 {
    NeedleAutomaton::cost(facts).saturating_add(SuffixArray::cost(facts.text()))
}

/// The maximum memory of the index of `facts`, in bytes.
pub(super) const fn weight_bytes(facts: &NormalizedLines) -> u64 {
    NeedleAutomaton::weight_bytes(facts) + SuffixArray::weight_bytes(facts.text())
}
