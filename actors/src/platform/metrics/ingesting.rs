//! The metrics of ingestion.

use super::{Word, expect};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::run::{Run, RunState};
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
pub(super) struct EndedAs {
    oracle: String,
    state: Word,
}

/// The labels of records that were read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReadAs {
    oracle: String,
    result: Word,
}

/// The metrics of ingestion.
#[derive(Debug, Clone)]
pub(crate) struct Ingesting {
    runs: Family<EndedAs, Counter>,
    records: Family<ReadAs, Counter>,
    running: Gauge,
    pulls_failed: Counter,
    seconds: Histogram,
}

impl Default for Ingesting {
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

impl Ingesting {
    /// Creates the counters of a registered source at 0.
    pub(crate) fn expects(&self, oracle_id: &SourceId) {
        let oracle = || oracle_id.as_str().to_owned();
        let ended = RunState::VARIANTS.iter().filter(|state| **state != RunState::Running);
        expect(&self.runs, ended.map(|state| EndedAs { oracle: oracle(), state: Word(state.into_str()) }));
        expect(&self.records, RESULTS.map(|result| ReadAs { oracle: oracle(), result: Word(result) }));
    }

    /// Counts a run that has begun.
    pub(crate) fn started(&self) {
        self.running.inc();
    }

    /// Counts a pull that failed before there was a run.
    pub(crate) fn pull_failed(&self) {
        self.pulls_failed.inc();
    }

    /// Counts a run that an operator ended and that read no payload: a discarded run, or an undo.
    pub(crate) fn decided(&self, run: &Run) {
        let (oracle, state) = (run.oracle_id.as_str().into(), Word(run.state.into_str()));
        self.runs.get_or_create(&EndedAs { oracle, state }).inc();
    }

    /// Counts a run that has ended, with its records.
    pub(crate) fn ended(&self, run: &Run) {
        let oracle = run.oracle_id.as_str();
        self.running.dec();
        self.decided(run);
        if let Some(ended_at) = run.ended_at {
            // an approved run is read again after its approval
            let began_at = run.decision.as_ref().map_or(run.started_at, |decision| decision.decided_at);
            self.seconds.observe(ended_at.duration_since(began_at).as_secs_f64().max(0.0));
        }
        if run.state == RunState::Completed {
            let counts = &run.counts;
            let counts = [counts.records, counts.collapsed, counts.rejected];
            for (result, count) in RESULTS.into_iter().zip(counts) {
                let read_as = ReadAs { oracle: oracle.into(), result: Word(result) };
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
