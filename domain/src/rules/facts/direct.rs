//! A linear search through the facts, for few claims: it needs no index.

use super::super::lines::NormalizedLines;
use super::{FactSupport, SupportDirection};
use memchr::memmem;

/// The number of bytes that a substring search passes in the time of one compared byte.
const PASSED: usize = 4;
/// The costs of visiting a fact and of comparing one, in units of one compared byte.
const LOOK: usize = 4;
const COMPARE: usize = 64;

/// The search would exceed its remaining budget.
pub(super) struct SearchBudgetError;

/// The first of `facts` that supports `claim`. Its cost is subtracted from `left`, in units of one compared byte.
pub(super) fn support(
    facts: &NormalizedLines,
    claim: &str,
    left: &mut u64,
) -> Result<Option<FactSupport>, SearchBudgetError> {
    let mut pay = |cost: usize| {
        let paid = left.checked_sub(cost as u64);
        *left = paid.unwrap_or(0);
        paid.ok_or(SearchBudgetError)
    };
    pay(facts.text().len() / PASSED)?;
    let around = memmem::find(facts.text().as_bytes(), claim.as_bytes()).map(|at| facts.place_at(at));
    let pairs = BytePairSet::of(claim);
    for (index, fact) in facts.iter().take(around.map_or(facts.len(), |fact| fact as usize)) {
        pay(LOOK)?;
        if fact.is_empty() || fact.len() >= claim.len() || !pairs.has_all_pairs(fact) {
            continue;
        }
        pay(COMPARE + claim.len())?;
        if claim.contains(fact) {
            return Ok(Some(FactSupport { fact: index, direction: SupportDirection::FactInClaim }));
        }
    }
    Ok(around.map(|fact| FactSupport { fact, direction: SupportDirection::ClaimInFact }))
}

/// The pairs of adjacent bytes in a text, by a few of their bits. A text with any other pair is not a substring.
struct BytePairSet([u64; 64]);

impl BytePairSet {
    fn of(text: &str) -> Self {
        let mut pairs = Self([0; 64]);
        for pair in text.as_bytes().windows(2) {
            let (word, bit) = Self::place(pair);
            if let Some(word) = pairs.0.get_mut(word) {
                *word |= bit;
            }
        }
        pairs
    }

    fn has_all_pairs(&self, text: &str) -> bool {
        text.as_bytes().windows(2).all(|pair| {
            let (word, bit) = Self::place(pair);
            self.0.get(word).is_some_and(|word| word & bit != 0)
        })
    }

    /// The word and the bit of a pair: letters differ in their lower six bits.
    const fn place(pair: &[u8]) -> (usize, u64) {
        match pair {
            [one, other] => ((*one & 63) as usize, 1 << (*other & 63)),
            _ => (0, 0),
        }
    }
}
