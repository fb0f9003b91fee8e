//! Facts as they are searched when there are many: in time that does not grow with their number.

use super::super::lines::Lines;
use super::super::needles::Needles;
use super::suffixes::Suffixes;
use super::{Direction, Support};

/// Facts, searched for claims and for in claims.
#[derive(Debug)]
pub(super) struct Index {
    needles: Needles,
    suffixes: Suffixes,
}

impl Index {
    /// That of `facts`; none if they are too long for it.
    pub(super) fn of(facts: &Lines) -> Option<Self> {
        Some(Self { needles: Needles::of(facts)?, suffixes: Suffixes::of(facts.text())? })
    }

    /// The first of `facts` that supports `claim`.
    pub(super) fn support(&self, facts: &Lines, claim: &str) -> Option<Support> {
        let around = self.suffixes.find(facts.text(), claim).map(|at| facts.place_at(at));
        let within = self.needles.ends(facts, claim).map(|(_, fact)| self.needles.lowest(fact)).min();
        let around = around.map(|fact| Support { fact, direction: Direction::ClaimInFact });
        let within = within.map(|fact| Support { fact, direction: Direction::FactInClaim });
        // where both are one fact, it equals the claim, and the first counts
        around.into_iter().chain(within).min_by_key(|support| support.fact)
    }
}

/// What making the index of `facts` costs, in bytes that a comparison takes in.
pub(super) const fn cost(facts: &Lines) -> u64 {
    Needles::cost(facts).saturating_add(Suffixes::cost(facts.text()))
}

/// The memory that the index of `facts` takes at the most.
pub(super) const fn weight_bytes(facts: &Lines) -> u64 {
    Needles::weight_bytes(facts) + Suffixes::weight_bytes(facts.text())
}
