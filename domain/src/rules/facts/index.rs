//! The index of many facts. A search takes time independent of their number.

use super::super::lines::Lines;
use super::super::needles::Needles;
use super::suffixes::Suffixes;
use super::{Direction, Support};

/// The index of facts, in both directions: facts that contain a claim, and facts within a claim.
#[derive(Debug)]
pub(super) struct Index {
    needles: Needles,
    suffixes: Suffixes,
}

impl Index {
    /// Creates the index of `facts`; `None` if they are too long for it.
    pub(super) fn of(facts: &Lines) -> Option<Self> {
        Some(Self { needles: Needles::of(facts)?, suffixes: Suffixes::of(facts.text())? })
    }

    /// The first of `facts` that supports `claim`.
    pub(super) fn support(&self, facts: &Lines, claim: &str) -> Option<Support> {
        let around = self.suffixes.find(facts.text(), claim).map(|at| facts.place_at(at));
        let within = self.needles.ends(facts, claim).map(|(_, fact)| self.needles.lowest(fact)).min();
        let around = around.map(|fact| Support { fact, direction: Direction::ClaimInFact });
        let within = within.map(|fact| Support { fact, direction: Direction::FactInClaim });
        // if both are the same fact, it equals the claim, and `min_by_key` returns the first
        around.into_iter().chain(within).min_by_key(|support| support.fact)
    }
}

/// The cost of creating the index of `facts`, in units of one compared byte.
pub(super) const fn cost(facts: &Lines) -> u64 {
    Needles::cost(facts).saturating_add(Suffixes::cost(facts.text()))
}

/// The maximum memory of the index of `facts`, in bytes.
pub(super) const fn weight_bytes(facts: &Lines) -> u64 {
    Needles::weight_bytes(facts) + Suffixes::weight_bytes(facts.text())
}
