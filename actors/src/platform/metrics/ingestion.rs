//! The metrics of ingestion.

use super::{MetricLabelValue, init_missing_counters};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::run::{IngestionRun, RunState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use strum::VariantArray;

/// The values of the label `result` of a completed run's records.
const RESULTS: [&str; 3] = ["taken", "collapsed", "rejected"];

/// The labels of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RunLabels {
    oracle: String,
    state: MetricLabelValue,
}

/// The labels of records that were read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RecordLabels {
    oracle: String,
    result: MetricLabelValue,
}

#[derive(Debug, Clone)]
pub(crate) struct IngestionMetrics {
    runs: Family<RunLabels, Counter>,
    records: Family<RecordLabels, Counter>,
    running: Gauge,
    pulls_failed: Counter,
    seconds: Histogram,
}

impl Default for IngestionMetrics {
    fn default() -> Self {
        Self {
            runs: Family::default(),
            records: Family::default(),
            running: Gauge::default(),
            pulls_failed: Counter::default(),
            seconds: Histogram::new(exponential_buckets(0.01, 4.0, 10)),
        }
    }
}

impl IngestionMetrics {
    /// Creates the counters of a registered source at 0.
    pub(crate) fn init_counters_of_source(&self, oracle_id: &SourceId) {
        let oracle = || oracle_id.as_str().to_owned();
        let ended = RunState::VARIANTS.iter().filter(|state| **state != RunState::Running);
        init_missing_counters(
            &self.runs,
            ended.map(|state| RunLabels { oracle: oracle(), state: MetricLabelValue(state.into_str()) }),
        );
        init_missing_counters(
            &self.records,
            RESULTS.map(|result| RecordLabels { oracle: oracle(), result: MetricLabelValue(result) }),
        );
    }

    /// Counts a run that has begun.
    pub(crate) fn count_started_run(&self) {
        self.running.inc();
    }

    /// Counts a pull that failed before there was a run.
    pub(crate) fn count_failed_pull(&self) {
        self.pulls_failed.inc();
    }

    /// Counts a run that an operator ended and that read no payload: a discarded run, or an undo.
    pub(crate) fn count_operator_decision(&self, run: &IngestionRun) {
        let (oracle, state) = (run.oracle_id.as_str().into(), MetricLabelValue(run.state.into_str()));
        self.runs.get_or_create(&RunLabels { oracle, state }).inc();
    }

    /// Counts a run that has ended, with its records.
    pub(crate) fn count_ended_run(&self, run: &IngestionRun) {
        let oracle = run.oracle_id.as_str();
        self.running.dec();
        self.count_operator_decision(run);
        if let Some(ended_at) = run.ended_at {
            // an approved run is read again after its approval
            let began_at = run.decision.as_ref().map_or(run.started_at, |decision| decision.decided_at);
            self.seconds.observe(ended_at.duration_since(began_at).as_secs_f64().max(0.0));
        }
        if run.state == RunState::Completed {
            let counts = &run.counts;
            let counts = [counts.records, counts.collapsed, counts.rejected];
            for (result, count) in RESULTS.into_iter().zip(counts) {
                let read_as = RecordLabels { oracle: oracle.into(), result: MetricLabelValue(result) };
                self.records.get_or_create(&read_as).inc_by(count);
            }
        }
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("ingestion_runs", "runs that have ended, by source and state", self.runs.clone());
        registry.register(
            "ingestion_records",
            "records of completed runs, by source and result",
            self.records.clone(),
        );
        registry.register("ingestion_running", "runs in progress or waiting", self.running.clone());
        registry.register(
            "ingestion_pulls_failed",
            "pulls that failed before a run began",
            self.pulls_failed.clone(),
        );
        registry.register_with_unit(
            "ingestion",
            "time from a run's beginning to its end",
            Unit::Seconds,
            self.seconds.clone(),
        );
    }
}
