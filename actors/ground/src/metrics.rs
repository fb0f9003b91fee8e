//! The metrics of ingestion and of queries.

use crate::registry::DocumentCounters;
use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, init_missing_counters};
use domain_base::document::AnyDocument;
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source::SourceRegistration;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

/// The values of the label `result` of a completed run's records.
const RESULTS: [&str; 3] = ["taken", "collapsed", "rejected"];

/// The labels of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    oracle: String,
    state: MetricLabelValue,
}

/// The labels of records that were read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecordLabels {
    oracle: String,
    result: MetricLabelValue,
}

#[derive(Debug, Clone)]
pub struct IngestionMetrics {
    runs: Family<RunLabels, Counter>,
    records: Family<RecordLabels, Counter>,
    running: Gauge,
    pulls_failed: Counter,
    seconds: Histogram,
}

impl DocumentCounters for IngestionMetrics {
    fn init_counters_of(&self, document: &AnyDocument) {
        if let Some(SourceRegistration { oracle_id, .. }) = document.get() {
            self.init_counters_of_source(oracle_id);
        }
    }
}

impl IngestionMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            runs: registry.add(
                "ingestion_runs",
                "runs that have ended, by source and state",
                Family::default(),
            ),
            records: registry.add(
                "ingestion_records",
                "records of completed runs, by source and result",
                Family::default(),
            ),
            running: registry.add("ingestion_running", "runs in progress or waiting", Gauge::default()),
            pulls_failed: registry.add(
                "ingestion_pulls_failed",
                "pulls that failed before a run began",
                Counter::default(),
            ),
            seconds: registry.add_seconds(
                "ingestion",
                "time from a run's beginning to its end",
                Histogram::new(exponential_buckets(0.01, 4.0, 10)),
            ),
        }
    }

    /// Creates the counters of a registered source at 0.
    pub(super) fn init_counters_of_source(&self, oracle_id: &SourceId) {
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
    pub(super) fn count_started_run(&self) {
        self.running.inc();
    }

    /// Counts a pull that failed before there was a run.
    pub(super) fn count_failed_pull(&self) {
        self.pulls_failed.inc();
    }

    /// Counts a run that an operator ended and that read no payload: a discarded run, or an undo.
    pub(super) fn count_operator_decision(&self, run: &IngestionRun) {
        let (oracle, state) = (run.oracle_id.as_str().into(), MetricLabelValue(run.state.into_str()));
        self.runs.get_or_create(&RunLabels { oracle, state }).inc();
    }

    /// Counts a run that has ended, with its records.
    pub(super) fn count_ended_run(&self, run: &IngestionRun) {
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
}

#[derive(Debug, Clone, Copy, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum QueryOutcome {
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
struct QueryLabels {
    result: MetricLabelValue,
}

impl QueryLabels {
    const fn new(outcome: QueryOutcome) -> Self {
        Self { result: MetricLabelValue(outcome.into_str()) }
    }
}

#[derive(Debug, Clone)]
pub struct QueryMetrics {
    queries: Family<QueryLabels, Counter>,
    seconds: Histogram,
}

impl QueryMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            queries: registry.add(
                "source_queries",
                "queries of sources, by result",
                init_counters(QueryOutcome::VARIANTS.iter().copied().map(QueryLabels::new)),
            ),
            seconds: registry.add_seconds(
                "source_query",
                "time to answer a query",
                Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            ),
        }
    }

    pub(super) fn count_query(&self, took: Duration, outcome: QueryOutcome) {
        self.queries.get_or_create(&QueryLabels::new(outcome)).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
