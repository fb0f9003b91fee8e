//! The metrics of queries.

use super::{MetricLabelValue, init_counters};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

#[derive(Debug, Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum QueryOutcome {
    Answered,
    Refused,
    Silent,
    Stale,
    Busy,
    TooCostly,
    Stopped,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueryLabels {
    result: MetricLabelValue,
}

impl QueryLabels {
    const fn new(outcome: QueryOutcome) -> Self {
        Self { result: MetricLabelValue(outcome.into_str()) }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct QueryMetrics {
    queries: Family<QueryLabels, Counter>,
    seconds: Histogram,
}

impl Default for QueryMetrics {
    fn default() -> Self {
        Self {
            queries: init_counters(QueryOutcome::VARIANTS.iter().copied().map(QueryLabels::new)),
            seconds: Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
        }
    }
}

impl QueryMetrics {
    pub(crate) fn count_query(&self, took: Duration, outcome: QueryOutcome) {
        self.queries.get_or_create(&QueryLabels::new(outcome)).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("source_queries", "queries of sources, by result", self.queries.clone());
        registry.register_with_unit(
            "source_query",
            "time to answer a query",
            Unit::Seconds,
            self.seconds.clone(),
        );
    }
}
