//! The metrics of witnesses.

use super::{MetricLabelValue, init_counters, pairs};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The label of a witness: its name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WitnessLabels {
    witness: String,
}

/// The labels of failed submissions to a witness.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    witness: String,
    reason: MetricLabelValue,
}

/// The metrics of all witnesses. Clones share the counters.
#[derive(Debug, Clone)]
pub(crate) struct WitnessMetrics {
    cosigned_at: Family<WitnessLabels, Gauge>,
    conflict: Family<WitnessLabels, Gauge>,
    failures: Family<FailureLabels, Counter>,
}

impl WitnessMetrics {
    /// The metrics of these witnesses. `started_at` counts as their last cosignature, so that its age is known.
    pub(crate) fn new(witnesses: &[String], reasons: &[&'static str], started_at: Timestamp) -> Self {
        let failures = pairs(witnesses, reasons);
        let failures =
            failures.map(|(witness, reason)| FailureLabels { witness, reason: MetricLabelValue(reason) });
        let metrics = Self {
            cosigned_at: Family::default(),
            conflict: Family::default(),
            failures: init_counters(failures),
        };
        for witness in witnesses {
            metrics.set_cosigned(witness, started_at);
        }
        metrics
    }

    /// Sets when `witness` has last cosigned a checkpoint.
    pub(crate) fn set_cosigned(&self, witness: &str, at: Timestamp) {
        let labels = WitnessLabels { witness: witness.to_owned() };
        self.cosigned_at.get_or_create(&labels).set(at.as_second());
        self.conflict.get_or_create(&labels).set(0);
    }

    /// Notes that the log does not continue that of `witness`.
    pub(crate) fn set_conflict(&self, witness: &str) {
        self.conflict.get_or_create(&WitnessLabels { witness: witness.to_owned() }).set(1);
    }

    /// Counts a failed submission.
    pub(crate) fn count_failure(&self, witness: &str, reason: &'static str) {
        let labels = FailureLabels { witness: witness.to_owned(), reason: MetricLabelValue(reason) };
        self.failures.get_or_create(&labels).inc();
    }

    /// Adds the metrics to `registry`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "witness_cosigned_timestamp",
            "when the witness last cosigned a checkpoint; the start of the daemon before the first one",
            Unit::Seconds,
            self.cosigned_at.clone(),
        );
        registry.register(
            "witness_conflict",
            "whether the log does not continue that of the witness",
            self.conflict.clone(),
        );
        registry.register(
            "witness_failures",
            "submissions of checkpoints that the witness did not cosign, by reason",
            self.failures.clone(),
        );
    }
}
