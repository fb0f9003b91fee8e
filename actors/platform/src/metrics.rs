//! Registration of Prometheus metrics, and the values of their labels. Each feature has its own metrics.

use domain_base::session_id::ApplicationName;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::fmt::{self, Debug, Write};
use std::hash::Hash;

/// A domain term as a label's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricLabelValue(pub &'static str);

impl EncodeLabelValue for MetricLabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0)
    }
}

/// The name of an application as the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApplicationLabelValue(pub ApplicationName);

impl EncodeLabelValue for ApplicationLabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_str())
    }
}

/// A registry that returns a metric which is added to it. Clones of a metric share its value.
pub trait AddMetric {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M;
    /// The same for a metric in seconds, which are the end of its name.
    fn add_seconds<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M;
}

impl AddMetric for Registry {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.register(name, help, metric.clone());
        metric
    }

    fn add_seconds<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }
}

/// A family with a counter at 0 for each of `labels`. If a series began at 1, its `increase()` would be 0, and an alert
/// would miss the first event.
pub fn init_counters<L: Clone + Debug + Eq + Hash>(
    labels: impl IntoIterator<Item = L>,
) -> Family<L, Counter> {
    let family = Family::default();
    init_missing_counters(&family, labels);
    family
}

/// Creates a counter at 0 for each of `labels` that `family` does not have yet.
pub fn init_missing_counters<L: Clone + Debug + Eq + Hash>(
    family: &Family<L, Counter>,
    labels: impl IntoIterator<Item = L>,
) {
    for labels in labels {
        drop(family.get_or_create(&labels));
    }
}

/// Every pair of an element of `first` and an element of `second`.
pub fn pairs<A: Clone, B: Clone>(first: &[A], second: &[B]) -> impl Iterator<Item = (A, B)> {
    first.iter().flat_map(|one| second.iter().map(|other| (one.clone(), other.clone())))
}
