//! The Prometheus metrics of the actors.

mod checking;
mod ingesting;
mod making;
mod querying;
mod sending;
mod verifying;

pub(crate) use checking::Checking;
pub(crate) use making::MadeOutcome;
pub(crate) use querying::QueryOutcome;
pub(crate) use sending::MailOutcome;

use ingesting::Ingesting;
use making::Making;
use querying::Querying;
use sending::Sending;
use verifying::Verifying;

use oracled_domain::verdict::crosscheck::Reason;
use oracled_domain::verdict::tmm::OMEGA;
use oracled_domain::{GatePath, Tier};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Debug, Write};
use std::hash::Hash;
use strum::VariantArray;

/// A domain term as a label's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0)
    }
}

/// A family with a counter at 0 for each of `labels`. If a series began at 1, its `increase()` would be 0, and an alert
/// would miss the first event.
fn counters<L: Clone + Debug + Eq + Hash>(labels: impl IntoIterator<Item = L>) -> Family<L, Counter> {
    let family = Family::default();
    expect(&family, labels);
    family
}

/// Creates a counter at 0 for each of `labels` that `family` does not have yet.
fn expect<L: Clone + Debug + Eq + Hash>(family: &Family<L, Counter>, labels: impl IntoIterator<Item = L>) {
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
}

/// Every pair of an element of `first` and an element of `second`.
fn pairs<A: Clone, B: Clone>(first: &[A], second: &[B]) -> impl Iterator<Item = (A, B)> {
    first.iter().flat_map(|one| second.iter().map(|other| (one.clone(), other.clone())))
}

/// The labels of a judgment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JudgedAs {
    tier: Word,
    path: Word,
    reason: Word,
}

impl JudgedAs {
    pub(crate) const fn new(tier: Tier, path: GatePath, reason: Reason) -> Self {
        Self { tier: Word(tier.into_str()), path: Word(path.into_str()), reason: Word(reason.into_str()) }
    }
}

/// Where a cached verdict was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FoundIn {
    result: Word,
}

/// The verdict was in memory.
pub(crate) const HIT_MEMORY: FoundIn = FoundIn { result: Word("hit_memory") };
/// The verdict was in the store.
pub(crate) const HIT_STORE: FoundIn = FoundIn { result: Word("hit_store") };
/// There is no cached verdict.
pub(crate) const MISS: FoundIn = FoundIn { result: Word("miss") };

/// All metrics of the actors. Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) judged: Family<JudgedAs, Counter>,
    pub(crate) coherence: Histogram,
    pub(crate) checking: Checking,
    pub(crate) ingesting: Ingesting,
    pub(crate) querying: Querying,
    pub(crate) making: Making,
    pub(crate) sending: Sending,
    pub(crate) verifying: Verifying,
    pub(crate) cache_reads: Family<FoundIn, Counter>,
    pub(crate) committed_records: Counter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) group_records: Histogram,
    pub(crate) fallback_entries: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            judged: counters(pairs(&Tier::ALL, GatePath::VARIANTS).flat_map(|(tier, path)| {
                Reason::VARIANTS.iter().map(move |reason| JudgedAs::new(tier, path, *reason))
            })),
            coherence: Histogram::new([0.0, 0.25, 0.5, 0.75, 0.9, OMEGA, 0.99, 1.0]),
            checking: Checking::default(),
            ingesting: Ingesting::default(),
            querying: Querying::default(),
            making: Making::default(),
            sending: Sending::default(),
            verifying: Verifying::default(),
            cache_reads: counters([HIT_MEMORY, HIT_STORE, MISS]),
            committed_records: Counter::default(),
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            group_records: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            fallback_entries: Counter::default(),
        }
    }
}

impl Metrics {
    /// Adds all metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "crosscheck_judgements",
            "verdicts judged, by tier, path and reason",
            self.judged.clone(),
        );
        registry.register(
            "coherence",
            "coherence of the verdicts judged, a negative one as 0",
            self.coherence.clone(),
        );
        self.checking.register(registry);
        self.ingesting.register(registry);
        self.querying.register(registry);
        self.making.register(registry);
        self.sending.register(registry);
        self.verifying.register(registry);
        registry.register(
            "cache_reads",
            "reads of cached verdicts, by where they were found",
            self.cache_reads.clone(),
        );
        registry.register("journal_records", "records made durable", self.committed_records.clone());
        registry.register_with_unit(
            "journal_commit",
            "time to make one group of records durable",
            Unit::Seconds,
            self.commit_seconds.clone(),
        );
        registry.register(
            "journal_group_records",
            "records made durable at once",
            self.group_records.clone(),
        );
        registry.register(
            "log_fallback_entries",
            "entries that went to the service log because the journal rejected them",
            self.fallback_entries.clone(),
        );
    }
}
