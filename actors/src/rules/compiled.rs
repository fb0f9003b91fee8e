//! A cache of compiled fact sets, by the digest of their facts, limited in bytes.

use crate::platform::metrics::RuleMetrics;
use oracled_domain::Sha256Hex;
use oracled_domain::rules::FactSet;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::sync::{Arc, Mutex, PoisonError};

/// The assumed size of a set, to estimate how many sets fit.
const TYPICAL_BYTES: u64 = 16 * 1024;

/// The recently used sets.
#[derive(Debug)]
pub(super) struct FactSetCache {
    sets: Mutex<Cache<Sha256Hex, CachedFactSet, FactSetWeighter>>,
    metrics: RuleMetrics,
}

/// A set with its weight at the time of the insertion: the cache relies on a constant weight.
#[derive(Debug, Clone)]
struct CachedFactSet {
    set: Arc<FactSet>,
    weight_bytes: u64,
}

#[derive(Debug, Clone)]
struct FactSetWeighter;

impl Weighter<Sha256Hex, CachedFactSet> for FactSetWeighter {
    fn weight(&self, _: &Sha256Hex, cached: &CachedFactSet) -> u64 {
        cached.weight_bytes
    }
}

impl FactSetCache {
    pub(super) fn new(bytes: u64, metrics: RuleMetrics) -> Self {
        let sets = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { sets: Mutex::new(Cache::with_weighter(sets, bytes, FactSetWeighter)), metrics }
    }

    /// Returns `facts`, compiled: from the cache, or compiled now.
    pub(super) fn get_or_compile(&self, facts: &[String]) -> Arc<FactSet> {
        let sha256 = FactSet::sha256_of(facts);
        // a panic under the lock leaves no harmful state: at worst a set is compiled again
        let cached = self.sets.lock().unwrap_or_else(PoisonError::into_inner).get(&sha256).cloned();
        let set = cached.map(|cached| cached.set);
        self.metrics.count_fact_set_lookup(set.is_some());
        set.unwrap_or_else(|| {
            let set = Arc::new(FactSet::compile(facts));
            self.store_fact_set(&set);
            set
        })
    }

    /// Stores `set` with its current weight: a rule that searches facts in its own form adds to the weight.
    pub(super) fn store_fact_set(&self, set: &Arc<FactSet>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = CachedFactSet { set: Arc::clone(set), weight_bytes: set.weight_bytes() };
        sets.insert(set.sha256().clone(), cached);
    }

    /// The memory of all sets, in bytes.
    #[cfg(test)]
    pub(super) fn weight_bytes(&self) -> u64 {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).weight()
    }
}
