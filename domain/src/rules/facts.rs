//! The facts of a check, compiled: normalized once, and searched in both directions.

use super::forms::Forms;
use super::normal::normalize;
use crate::digest::Sha256Hex;
use serde::{Deserialize, Serialize};

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

/// A set of facts, ready to be searched. It depends on nothing but the facts, and can be kept for as long as they are
/// asked about.
#[derive(Debug)]
pub struct FactSet {
    /// Normalized; a blank one is empty.
    facts: Vec<String>,
    sha256: Sha256Hex,
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
        Self::normalized(facts, normalize, Self::sha256_of(facts))
    }

    /// The same facts in another form. `facts` are those that were compiled, as they came.
    pub(super) fn rewritten(&self, facts: &[String], form: impl Fn(&str) -> String) -> Self {
        Self::normalized(facts, form, self.sha256.clone())
    }

    fn normalized(facts: &[String], form: impl Fn(&str) -> String, sha256: Sha256Hex) -> Self {
        Self { facts: facts.iter().map(|fact| form(fact)).collect(), sha256, forms: Forms::default() }
    }

    pub(super) const fn forms(&self) -> &Forms {
        &self.forms
    }

    /// The SHA-256 of the facts as they came: of their JSON array.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// The memory that it takes, or will once it is searched, in bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.facts.iter().map(|fact| fact.len() + size_of::<String>()).sum::<usize>() as u64
    }

    /// How many facts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The places of the blank facts, which support nothing.
    pub(super) fn blank(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.facts).filter(|(_, fact)| fact.is_empty()).map(|(place, _)| place)
    }

    /// A fact, normalized.
    pub(super) fn normal(&self, place: u32) -> &str {
        self.facts.get(place as usize).map_or("", String::as_str)
    }

    /// All facts, normalized, in their order.
    pub(super) fn normals(&self) -> impl Iterator<Item = &str> {
        self.facts.iter().map(String::as_str)
    }

    /// What supports each of `claims`, which are normalized and not blank.
    pub(super) fn supports(&self, claims: &[&str]) -> Vec<Option<Support>> {
        claims.iter().map(|claim| self.support(claim)).collect()
    }

    /// The first fact that supports `claim`, by comparing it with one after the other.
    fn support(&self, claim: &str) -> Option<Support> {
        let supports = |fact: &str| {
            if fact.len() >= claim.len() {
                fact.contains(claim).then_some(Direction::ClaimInFact)
            } else {
                (!fact.is_empty() && claim.contains(fact)).then_some(Direction::FactInClaim)
            }
        };
        let supported =
            |(fact, text): (u32, &String)| supports(text).map(|direction| Support { fact, direction });
        (0..).zip(&self.facts).find_map(supported)
    }
}
