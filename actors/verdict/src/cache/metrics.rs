//! The metrics of the cache.

use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use domain_verdict::divergence::{DivergenceCheck, DivergenceLevel, OriginalLabel};
use domain_verdict::label::VerdictLabel;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use strum::{IntoStaticStr, VariantArray};

/// The labels of a comparison with the first verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DivergenceLabels {
    original: MetricLabelValue,
    regenerated: MetricLabelValue,
    level: MetricLabelValue,
}

impl DivergenceLabels {
    fn new(original: OriginalLabel, regenerated: VerdictLabel, level: Option<DivergenceLevel>) -> Self {
        Self {
            original: MetricLabelValue(original.as_str()),
            regenerated: MetricLabelValue(regenerated.into_str()),
            level: MetricLabelValue(level.map_or("unknown", Into::into)),
        }
    }

    /// All combinations of labels.
    fn all() -> impl Iterator<Item = Self> {
        let originals: Vec<_> =
            VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel).collect();
        let levels: Vec<_> = DivergenceLevel::ALL.map(Some).into_iter().chain([None]).collect();
        let labels: Vec<_> = pairs(&originals, &VerdictLabel::ALL).collect();
        let all: Vec<_> = pairs(&labels, &levels).collect();
        all.into_iter().map(|((original, regenerated), level)| Self::new(original, regenerated, level))
    }
}

/// The metrics of comparisons with the first verdict.
#[derive(Debug, Clone)]
pub struct ComparisonMetrics(Family<DivergenceLabels, Counter>);

impl ComparisonMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self(registry.add(
            "regens_compared",
            "regenerated verdicts, by original label, regenerated label and divergence level",
            init_counters(DivergenceLabels::all()),
        ))
    }

    /// Counts a regenerated verdict by its divergence from the first.
    pub(super) fn count_comparison(&self, check: &DivergenceCheck) {
        let labels =
            DivergenceLabels::new(check.original_verdict, check.regen_verdict, check.divergence_level);
        self.0.get_or_create(&labels).inc();
    }
}

/// Where a cached verdict was found.
#[derive(Debug, Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum CacheReadResult {
    HitMemory,
    HitStore,
    Miss,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheReadLabels {
    result: MetricLabelValue,
}

impl CacheReadLabels {
    const fn new(result: CacheReadResult) -> Self {
        Self { result: MetricLabelValue(result.into_str()) }
    }
}

/// The metrics of reads of cached verdicts.
#[derive(Debug, Clone)]
pub struct CacheReadMetrics(Family<CacheReadLabels, Counter>);

impl CacheReadMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self(registry.add(
            "cache_reads",
            "reads of cached verdicts, by where they were found",
            init_counters(CacheReadResult::VARIANTS.iter().copied().map(CacheReadLabels::new)),
        ))
    }

    pub(super) fn count_read(&self, result: CacheReadResult) {
        self.0.get_or_create(&CacheReadLabels::new(result)).inc();
    }
}
