//! A cache of compiled fact sets, by the digest of their facts, limited in bytes.

use crate::platform::metrics::Checking;
use oracled_domain::Sha256Hex;
use oracled_domain::rules::FactSet;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::sync::{Arc, Mutex, PoisonError};

/// The assumed size of a set, to estimate how many sets fit.
const TYPICAL_BYTES: u64 = 16 * 1024;

/// The recently used sets.
#[derive(Debug)]
pub(super) struct Compiled {
    sets: Mutex<Cache<Sha256Hex, Kept, ByBytes>>,
    metrics: Checking,
}

/// A set with its weight at the time of the insertion: the cache relies on a constant weight.
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

    /// Returns `facts`, compiled: from the cache, or compiled now.
    pub(super) fn of(&self, facts: &[String]) -> Arc<FactSet> {
        let sha256 = FactSet::sha256_of(facts);
        // a panic under the lock leaves no harmful state: at worst a set is compiled again
        let kept = self.sets.lock().unwrap_or_else(PoisonError::into_inner).get(&sha256).cloned();
        let kept = kept.map(|kept| kept.set);
        self.metrics.looked_up(kept.is_some());
        kept.unwrap_or_else(|| {
            let set = Arc::new(FactSet::compile(facts));
            self.keep(&set);
            set
        })
    }

    /// Stores `set` with its current weight: a rule that searches facts in its own form adds to the weight.
    pub(super) fn keep(&self, set: &Arc<FactSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept { set: Arc::clone(set), weight_bytes: set.weight_bytes() };
        sets.insert(set.sha256().clone(), kept);
    }

    /// The memory of all sets, in bytes.
    #[cfg(test)]
    pub(super) fn weight_bytes(&self) -> u64 {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).weight()
    }
}
