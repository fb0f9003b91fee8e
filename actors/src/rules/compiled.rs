//! Compiled fact sets, by the digest of their facts, within a bound of bytes.

use crate::metrics::Checking;
use domain::Sha256Hex;
use domain::rules::FactSet;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use std::sync::{Arc, Mutex, PoisonError};

/// The size by which the number of sets that fit is guessed.
const TYPICAL_BYTES: u64 = 16 * 1024;

/// The sets that were compiled last.
#[derive(Debug)]
pub(super) struct Compiled {
    sets: Mutex<Cache<Sha256Hex, Arc<FactSet>, ByBytes>>,
    metrics: Checking,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Sha256Hex, Arc<FactSet>> for ByBytes {
    fn weight(&self, _: &Sha256Hex, set: &Arc<FactSet>) -> u64 {
        set.weight_bytes()
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
        self.metrics.looked_up(kept.is_some());
        kept.unwrap_or_else(|| {
            let set = Arc::new(FactSet::compile(facts));
            self.sets.lock().unwrap_or_else(PoisonError::into_inner).insert(sha256, Arc::clone(&set));
            set
        })
    }
}
