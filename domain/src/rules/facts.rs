//! The compiled facts of a check: normalized once, and searched in both directions.

mod direct;
mod index;
mod suffixes;

use super::lines::NormalizedLines;
use super::result::SupportDirection;
use crate::base::digest::Sha256Hex;
use index::FactIndex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first fact that supports a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FactSupport {
    /// The index of the fact, from 0.
    pub(super) fact: u32,
    pub(super) direction: SupportDirection,
}

/// Facts in one form, ready to be searched. The results depend only on the facts.
#[derive(Debug)]
pub(super) struct SearchableFacts {
    lines: NormalizedLines,
    /// The digest of the original facts.
    sha256: Sha256Hex,
    /// The remaining budget for searches without the index.
    remaining_budget: AtomicU64,
    /// The index, once it is created; `None` inside if the facts are too long for one.
    index: OnceLock<Option<FactIndex>>,
}

impl SearchableFacts {
    /// Creates the facts from `lines`. `sha256` is the digest of the original facts.
    pub(super) fn of(lines: NormalizedLines, sha256: Sha256Hex) -> Self {
        let remaining_budget = AtomicU64::new(index::cost(&lines));
        Self { lines, sha256, remaining_budget, index: OnceLock::new() }
    }

    /// The SHA-256 of the original facts, as a JSON array.
    pub(super) const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// The number of facts.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// The maximum memory use in bytes, including the index, created or not.
    pub(super) const fn weight_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.lines.weight_bytes() + index::weight_bytes(&self.lines)
    }

    /// The indexes of the blank facts, which support nothing.
    pub(super) fn blank(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter(|(_, fact)| fact.is_empty()).map(|(index, _)| index)
    }

    /// The normalized fact at `place`.
    pub(super) fn normal(&self, index: u32) -> &str {
        self.lines.get(index)
    }

    /// All normalized facts, in their order.
    pub(super) fn normals(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(_, fact)| fact)
    }

    /// The support for each of `claims`, which must be normalized and not blank.
    pub(super) fn supports(&self, claims: &[&str]) -> Vec<Option<FactSupport>> {
        claims.iter().map(|claim| self.support(claim)).collect()
    }

    /// The first fact that supports `claim`.
    ///
    /// It searches without the index until this has cost as much as creating the index. The total cost is therefore at
    /// most twice the optimum, for any number of claims.
    fn support(&self, claim: &str) -> Option<FactSupport> {
        if self.index.get().is_none() {
            let mut left = self.remaining_budget.load(Ordering::Relaxed);
            let support = direct::support(&self.lines, claim, &mut left);
            self.remaining_budget.store(left, Ordering::Relaxed);
            if let Ok(support) = support {
                return support;
            }
        }
        match self.index.get_or_init(|| FactIndex::of(&self.lines)) {
            Some(index) => index.support(&self.lines, claim),
            None => direct::support(&self.lines, claim, &mut { u64::MAX }).ok().flatten(),
        }
    }
}

#[cfg(test)]
mod tests;
