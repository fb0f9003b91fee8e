//! The facts of a check, compiled: normalized once, and searched in both directions.

mod direct;
mod index;
mod suffixes;

use super::forms::Forms;
use super::lines::Lines;
use crate::digest::Sha256Hex;
use index::Index;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which of claim and fact contains the other. Where they are equal, the claim is in the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The claim is a part of the fact.
    ClaimInFact,
    /// The fact is a part of the claim.
    FactInClaim,
}

/// The fact that supports a claim: the first that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Support {
    /// Its place among the facts, from 0.
    pub(super) fact: u32,
    pub(super) direction: Direction,
}

/// A set of facts, ready to be searched. What it finds depends on nothing but the facts, and it can be kept for as long as
/// they are asked about.
#[derive(Debug)]
pub struct FactSet {
    facts: Lines,
    sha256: Sha256Hex,
    /// What may still be spent on searches without the index.
    left: AtomicU64,
    /// Without anything in it where the facts are too long for one.
    index: OnceLock<Option<Index>>,
    forms: Forms,
}

impl FactSet {
    /// The SHA-256 of facts as they came: of their JSON array.
    #[must_use]
    pub fn sha256_of(facts: &[String]) -> Sha256Hex {
        Sha256Hex::of_json(&facts)
    }

    /// Compiles `facts`, in their order.
    #[must_use]
    pub fn compile(facts: &[String]) -> Self {
        Self::of(Lines::normalized(facts), Self::sha256_of(facts))
    }

    /// The same facts in another form. `facts` are those that were compiled, as they came.
    pub(super) fn rewritten(&self, facts: &[String], form: impl Fn(&str) -> String) -> Self {
        Self::of(Lines::of(facts.iter().map(|fact| form(fact))), self.sha256.clone())
    }

    fn of(facts: Lines, sha256: Sha256Hex) -> Self {
        let left = AtomicU64::new(index::cost(&facts));
        Self { facts, sha256, left, index: OnceLock::new(), forms: Forms::default() }
    }

    pub(super) const fn forms(&self) -> &Forms {
        &self.forms
    }

    /// The SHA-256 of the facts as they came: of their JSON array.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// How many facts there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.facts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the set takes at the most, be its index made already or not. The forms that only rules after the
    /// published ones search count once they have been made.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let forms = self.forms.weight_bytes();
        size_of::<Self>() as u64 + self.facts.weight_bytes() + index::weight_bytes(&self.facts) + forms
    }

    /// The places of the blank facts, which support nothing.
    pub(super) fn blank(&self) -> impl Iterator<Item = u32> {
        self.facts.iter().filter(|(_, fact)| fact.is_empty()).map(|(place, _)| place)
    }

    /// A fact, normalized.
    pub(super) fn normal(&self, place: u32) -> &str {
        self.facts.get(place)
    }

    /// All facts, normalized, in their order.
    pub(super) fn normals(&self) -> impl Iterator<Item = &str> {
        self.facts.iter().map(|(_, fact)| fact)
    }

    /// What supports each of `claims`, which are normalized and not blank.
    pub(super) fn supports(&self, claims: &[&str]) -> Vec<Option<Support>> {
        claims.iter().map(|claim| self.support(claim)).collect()
    }

    /// The first fact that supports `claim`.
    ///
    /// It is searched for without the index until that has cost as much as making the index does: so nothing ever costs more
    /// than twice what would have been best, however much or little is asked.
    fn support(&self, claim: &str) -> Option<Support> {
        if self.index.get().is_none() {
            let mut left = self.left.load(Ordering::Relaxed);
            let support = direct::support(&self.facts, claim, &mut left);
            self.left.store(left, Ordering::Relaxed);
            if let Ok(support) = support {
                return support;
            }
        }
        match self.index.get_or_init(|| Index::of(&self.facts)) {
            Some(index) => index.support(&self.facts, claim),
            None => direct::support(&self.facts, claim, &mut { u64::MAX }).ok().flatten(),
        }
    }
}

#[cfg(test)]
mod tests;
