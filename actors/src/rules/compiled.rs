//! Compiled fact sets, by the digest of their facts, within a bound of bytes.

use crate::platform::metrics::Checking;
use oracled_domain::Sha256Hex;
use oracled_domain::rules::FactSet;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::sync::{Arc, Mutex, PoisonError};

/// The size by which the number of sets that fit is guessed.
const TYPICAL_BYTES: u64 = 16 * 1024;

/// The sets that were compiled last.
#[derive(Debug)]
pub(super) struct Compiled {
    sets: Mutex<Cache<Sha256Hex, Kept, ByBytes>>,
    metrics: Checking,
}

/// A set with the weight that it had when it was put here: the cache relies on that.
#[derive(Debug, Clone)]
struct Kept {
    set: Arc<FactSet>,
    weight_bytes: u64,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Sha256Hex, Kept> for ByBytes {
    fn weight(&self, _: &Sha256Hex, kept: &Kept) -> u64 {
        kept.weight_bytes
    }
}

impl Compiled {
    pub(super) fn new(bytes: u64, metrics: Checking) -> Self {
        let sets = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { sets: Mutex::new(Cache::with_weighter(sets, bytes, ByBytes)), metrics }
    }

    /// `facts`, compiled: now, or when they were asked about before.
    pub(super) fn of(&self, facts: &[String]) -> Arc<FactSet> {
        let sha256 = FactSet::sha256_of(facts);
        // whoever panics holding it has changed nothing half-way that would matter: at worst a set is compiled anew
        let kept = self.sets.lock().unwrap_or_else(PoisonError::into_inner).get(&sha256).cloned();
        let kept = kept.map(|kept| kept.set);
        self.metrics.looked_up(kept.is_some());
        kept.unwrap_or_else(|| {
            let set = Arc::new(FactSet::compile(facts));
            self.keep(&set);
            set
        })
    }

    /// Keeps `set`, by its weight as it is now: a rule that searches facts in a form of its own adds to it.
    pub(super) fn keep(&self, set: &Arc<FactSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept { set: Arc::clone(set), weight_bytes: set.weight_bytes() };
        sets.insert(set.sha256().clone(), kept);
    }

    /// The memory that all of them take, in bytes.
    #[cfg(test)]
    pub(super) fn weight_bytes(&self) -> u64 {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).weight()
    }
}
