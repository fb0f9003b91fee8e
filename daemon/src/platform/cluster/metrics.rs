//! The metrics of a host of a cluster.

#[cfg(feature = "cluster")]
use actors_platform::clock::monotonic;
#[cfg(feature = "cluster")]
use oracled_store::{GroupsEnd, SharedAppend, SharedEnd, SharedGroup, SharedLog, SharedLogError, SharedTail};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The metrics of the shared log.
#[derive(Debug, Clone)]
pub(crate) struct SharedLogMetrics {
    append_seconds: Histogram,
    appends_behind: Counter,
    appended_again: Counter,
    failures: Counter,
    /// The waits of requests for the shared log.
    pub(crate) wait_seconds: Histogram,
}

impl Default for SharedLogMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        Self {
            append_seconds: seconds(),
            appends_behind: Counter::default(),
            appended_again: Counter::default(),
            failures: Counter::default(),
            wait_seconds: seconds(),
        }
    }
}

impl SharedLogMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "cluster_append",
            "time to append a group of records to the shared log",
            Unit::Seconds,
            self.append_seconds.clone(),
        );
        registry.register(
            "cluster_appends_behind",
            "appends that came after one of another host, and were tried again",
            self.appends_behind.clone(),
        );
        registry.register(
            "cluster_appended_again",
            "groups that the shared log had lost, and that this host has appended again",
            self.appended_again.clone(),
        );
        registry.register(
            "cluster_failures",
            "calls of the shared log without an answer",
            self.failures.clone(),
        );
        registry.register_with_unit(
            "cluster_wait",
            "time that a request waited until the store had all entries of the shared log",
            Unit::Seconds,
            self.wait_seconds.clone(),
        );
    }
}

/// A shared log whose appends are measured.
#[cfg(feature = "cluster")]
#[derive(Debug)]
pub(super) struct MeasuredLog<L> {
    pub(super) log: L,
    pub(super) metrics: SharedLogMetrics,
    /// Whether it lacks groups of this host.
    pub(super) lacks_groups: bool,
}

#[cfg(feature = "cluster")]
impl<L> MeasuredLog<L> {
    fn count<T>(&self, answer: Result<T, SharedLogError>) -> Result<T, SharedLogError> {
        if answer.is_err() {
            self.metrics.failures.inc();
        }
        answer
    }
}

#[cfg(feature = "cluster")]
impl<L: SharedLog> SharedLog for MeasuredLog<L> {
    fn connect(&mut self, own: GroupsEnd) -> Result<SharedTail, SharedLogError> {
        let connected = self.log.connect(own);
        self.lacks_groups = matches!(connected, Ok(SharedTail::Lacks(_)));
        self.count(connected)
    }

    fn settle(&mut self) -> Result<(), SharedLogError> {
        self.lacks_groups = false;
        let settled = self.log.settle();
        self.count(settled)
    }

    fn ends(&mut self, up_to: u64) -> Result<Vec<SharedEnd>, SharedLogError> {
        let ends = self.log.ends(up_to);
        self.count(ends)
    }

    fn append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError> {
        let began = monotonic();
        let appended = self.log.append(own, group);
        match &appended {
            Ok(SharedAppend::Appended | SharedAppend::AppendedBefore) => {
                self.metrics.append_seconds.observe(began.elapsed().as_secs_f64());
                self.metrics.appended_again.inc_by(self.lacks_groups.into());
            }
            Ok(SharedAppend::Behind) => {
                self.metrics.appends_behind.inc();
            }
            Err(_) => {}
        }
        self.count(appended)
    }

    fn set_waiting(&mut self, is_waiting: bool) -> Result<(), SharedLogError> {
        let answered = self.log.set_waiting(is_waiting);
        self.count(answered)
    }

    fn read(&mut self, after: u64, max_bytes: usize) -> Result<Vec<SharedGroup>, SharedLogError> {
        let groups = self.log.read(after, max_bytes);
        self.count(groups)
    }

    fn tail(&mut self) -> Result<Option<GroupsEnd>, SharedLogError> {
        let tail = self.log.tail();
        self.count(tail)
    }
}
