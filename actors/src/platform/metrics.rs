//! The Prometheus metrics of the actors.

mod generation;
mod ingestion;
mod mail;
mod orders;
mod queries;
mod rules;
mod verification;
mod webhooks;
mod witnesses;

pub(crate) use mail::OutboxOutcome;
pub(crate) use orders::WAITING;
pub(crate) use queries::QueryOutcome;
pub(crate) use rules::RuleMetrics;
pub(crate) use witnesses::WitnessMetrics;

use generation::GenerationMetrics;
use ingestion::IngestionMetrics;
use mail::MailMetrics;
use orders::OrderMetrics;
use queries::QueryMetrics;
use verification::VerificationMetrics;
use webhooks::WebhookMetrics;

use oracled_domain::verdict::crosscheck::CrosscheckReason;
use oracled_domain::verdict::lookup::LookupOutcome;
use oracled_domain::verdict::tmm::OMEGA;
use oracled_domain::{ApplicationName, GatePath, ProductTier};
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
pub struct MetricLabelValue(&'static str);

impl EncodeLabelValue for MetricLabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0)
    }
}

/// The name of an application as the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ApplicationLabelValue(ApplicationName);

impl EncodeLabelValue for ApplicationLabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_str())
    }
}

/// A family with a counter at 0 for each of `labels`. If a series began at 1, its `increase()` would be 0, and an alert
/// would miss the first event.
fn init_counters<L: Clone + Debug + Eq + Hash>(labels: impl IntoIterator<Item = L>) -> Family<L, Counter> {
    let family = Family::default();
    init_missing_counters(&family, labels);
    family
}

/// Creates a counter at 0 for each of `labels` that `family` does not have yet.
fn init_missing_counters<L: Clone + Debug + Eq + Hash>(
    family: &Family<L, Counter>,
    labels: impl IntoIterator<Item = L>,
) {
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
}

/// Every pair of an element of `first` and an element of `second`.
fn pairs<A: Clone, B: Clone>(first: &[A], second: &[B]) -> impl Iterator<Item = (A, B)> {
    first.iter().flat_map(|one| second.iter().map(|other| (one.clone(), other.clone())))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JudgmentLabels {
    application: ApplicationLabelValue,
    tier: MetricLabelValue,
    path: MetricLabelValue,
    reason: MetricLabelValue,
}

impl JudgmentLabels {
    pub(crate) const fn new(
        application: ApplicationName,
        tier: ProductTier,
        path: GatePath,
        reason: CrosscheckReason,
    ) -> Self {
        Self {
            application: ApplicationLabelValue(application),
            tier: MetricLabelValue(tier.into_str()),
            path: MetricLabelValue(path.into_str()),
            reason: MetricLabelValue(reason.into_str()),
        }
    }
}

/// Where a cached verdict was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CacheReadLabels {
    result: MetricLabelValue,
}

/// The verdict was in memory.
pub(crate) const HIT_MEMORY: CacheReadLabels = CacheReadLabels { result: MetricLabelValue("hit_memory") };
/// The verdict was in the store.
pub(crate) const HIT_STORE: CacheReadLabels = CacheReadLabels { result: MetricLabelValue("hit_store") };
/// There is no cached verdict.
pub(crate) const MISS: CacheReadLabels = CacheReadLabels { result: MetricLabelValue("miss") };

/// The labels of a look-up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    outcome: MetricLabelValue,
}

impl LookupLabels {
    const fn new(outcome: LookupOutcome) -> Self {
        Self { outcome: MetricLabelValue(outcome.into_str()) }
    }
}

/// All metrics of the actors. Clones share the counters.
#[derive(Debug, Clone)]
pub struct ActorMetrics {
    pub(crate) judged: Family<JudgmentLabels, Counter>,
    pub(crate) coherence: Histogram,
    pub(crate) rules: RuleMetrics,
    pub(crate) ingestion: IngestionMetrics,
    pub(crate) queries: QueryMetrics,
    pub(crate) generation: GenerationMetrics,
    pub(crate) mail: MailMetrics,
    pub(crate) webhooks: WebhookMetrics,
    pub(crate) orders: OrderMetrics,
    pub(crate) verification: VerificationMetrics,
    pub(crate) cache_reads: Family<CacheReadLabels, Counter>,
    lookups: Family<LookupLabels, Counter>,
    pub(crate) committed_records: Counter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) group_records: Histogram,
    pub(crate) fallback_entries: Counter,
    pub(crate) mirror_repairs: Counter,
}

impl ActorMetrics {
    /// The metrics of a system that serves `applications`.
    pub(crate) fn new(applications: &[ApplicationName]) -> Self {
        let paths: Vec<_> = pairs(&ProductTier::ALL, GatePath::VARIANTS).collect();
        let judged: Vec<_> = pairs(applications, &paths).collect();
        let judged = pairs(&judged, CrosscheckReason::VARIANTS)
            .map(|((name, (tier, path)), reason)| JudgmentLabels::new(name, tier, path, reason));
        Self {
            judged: init_counters(judged),
            coherence: Histogram::new([0.0, 0.25, 0.5, 0.75, 0.9, OMEGA, 0.99, 1.0]),
            rules: RuleMetrics::default(),
            ingestion: IngestionMetrics::default(),
            queries: QueryMetrics::default(),
            generation: GenerationMetrics::new(applications),
            mail: MailMetrics::default(),
            webhooks: WebhookMetrics::default(),
            orders: OrderMetrics::new(applications),
            verification: VerificationMetrics::default(),
            cache_reads: init_counters([HIT_MEMORY, HIT_STORE, MISS]),
            lookups: init_counters(LookupOutcome::VARIANTS.iter().copied().map(LookupLabels::new)),
            committed_records: Counter::default(),
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            group_records: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            fallback_entries: Counter::default(),
            mirror_repairs: Counter::default(),
        }
    }

    /// Counts a call of the payment service.
    pub(crate) fn count_lookup(&self, outcome: LookupOutcome) {
        self.lookups.get_or_create(&LookupLabels::new(outcome)).inc();
    }

    /// Adds all metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "crosscheck_judgments",
            "verdicts judged, by application, tier, path and reason",
            self.judged.clone(),
        );
        registry.register(
            "coherence",
            "coherence of the verdicts judged, a negative one as 0",
            self.coherence.clone(),
        );
        self.rules.register(registry);
        self.ingestion.register(registry);
        self.queries.register(registry);
        self.generation.register(registry);
        self.mail.register(registry);
        self.webhooks.register(registry);
        self.orders.register(registry);
        self.verification.register(registry);
        registry.register(
            "cache_reads",
            "reads of cached verdicts, by where they were found",
            self.cache_reads.clone(),
        );
        registry.register("session_lookups", "sessions looked up, by outcome", self.lookups.clone());
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
        registry.register(
            "mirror_repairs",
            "times that oracle_log.jsonl differed from the log and was repaired",
            self.mirror_repairs.clone(),
        );
    }
}
