//! The facts of a check, compiled: normalized once, and searched in both directions.

mod direct;
mod index;
mod suffixes;

use super::lines::Lines;
use super::result::Direction;
use crate::base::digest::Sha256Hex;
use index::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The fact that supports a claim: the first that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Support {
    /// Its place among the facts, from 0.
    pub(super) fact: u32,
    pub(super) direction: Direction,
}

/// Facts in one form, ready to be searched. What is found depends on nothing but them.
#[derive(Debug)]
pub(super) struct Facts {
    lines: Lines,
    /// Of the facts as they came.
    sha256: Sha256Hex,
    /// What may still be spent on searches without the index.
    left: AtomicU64,
    /// Without anything in it where the facts are too long for one.
    index: OnceLock<Option<Index>>,
}

impl Facts {
    /// `lines`, of facts with this digest.
    pub(super) fn of(lines: Lines, sha256: Sha256Hex) -> Self {
        let left = AtomicU64::new(index::cost(&lines));
        Self { lines, sha256, left, index: OnceLock::new() }
    }

    /// The SHA-256 of the facts as they came: of their JSON array.
    pub(super) const fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// How many facts there are.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// The memory that they take at the most, be their index made already or not.
    pub(super) const fn weight_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.lines.weight_bytes() + index::weight_bytes(&self.lines)
    }

    /// The places of the blank facts, which support nothing.
    pub(super) fn blank(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter(|(_, fact)| fact.is_empty()).map(|(place, _)| place)
    }

    /// A fact, normalized.
    pub(super) fn normal(&self, place: u32) -> &str {
        self.lines.get(place)
    }

    /// All facts, normalized, in their order.
    pub(super) fn normals(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(_, fact)| fact)
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
            let support = direct::support(&self.lines, claim, &mut left);
            self.left.store(left, Ordering::Relaxed);
            if let Ok(support) = support {
                return support;
            }
        }
        match self.index.get_or_init(|| Index::of(&self.lines)) {
            Some(index) => index.support(&self.lines, claim),
            None => direct::support(&self.lines, claim, &mut { u64::MAX }).ok().flatten(),
        }
    }
}

#[cfg(test)]
mod tests;
