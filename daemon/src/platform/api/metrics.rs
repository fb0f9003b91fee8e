//! `/metrics`: the metrics for Prometheus, and those whose values are read at each scrape. Each feature has its own.

use crate::platform::access_log;
use crate::platform::config::StorageSection;
use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, request_panics, run_blocking};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain_base::cluster::ClusterReport;
use domain_base::problem::INTERNAL_ERROR;
use domain_base::series::MetricSeries;
use domain_base::service::ActorReport;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use prometheus_client::encoding::text;
use std::fmt::{self, Display, Write};
use std::fs;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const END: &str = "# EOF\n";

/// Read the metrics as OpenMetrics text.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "read_metrics",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"),
    ),
)]
pub(crate) async fn get(
    State(service): State<Arc<DaemonService>>,
    Extension(ScrapedMetrics(features)): Extension<ScrapedMetrics>,
) -> Result<Response, Problem> {
    let body = collect(&service, features).await;
    let body = body.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// The metrics of the whole daemon and of `features`, as OpenMetrics text.
///
/// # Errors
/// A metric cannot be written as text.
pub(crate) async fn collect(
    service: &Arc<DaemonService>,
    features: &'static [FeatureMetrics],
) -> Result<String, fmt::Error> {
    let mut body = String::new();
    text::encode(&mut body, &service.registry)?;
    body.truncate(body.strip_suffix(END).map_or(body.len(), str::len));
    write_process_metrics(&mut body, service.system.clock.now())?;
    for FeatureMetrics { name, read, .. } in [PLATFORM].iter().chain(features) {
        match read(service).await {
            Ok(text) => body.push_str(text.as_str()),
            Err(error) => tracing::warn!(%error, feature = name, "the metrics of a feature are missing"),
        }
    }
    body.push_str(END);
    Ok(body)
}

/// The metrics of the whole daemon.
const PLATFORM: FeatureMetrics = FeatureMetrics {
    name: "platform",
    read: |service| Box::pin(read(service)),
    series: &[access_log::SERIES],
};

/// The series of the whole daemon and of `features`.
pub(crate) fn declared_series(features: &[FeatureMetrics]) -> Vec<&'static MetricSeries> {
    let declared =
        [PLATFORM].iter().chain(features).flat_map(|feature| feature.series.iter().copied().flatten());
    declared.collect()
}

/// Reads the metrics of the whole daemon.
async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let mut text = MetricsText::default();
    write_gauges(&mut text, service);
    if let Some(report) = service.cluster_report().await {
        write_cluster_gauges(&mut text, &report, service.journal_report().counts.entries);
    }
    write_actor_metrics(&mut text, &service.system.reports());
    let store = service.system.store.clone();
    match run_blocking(move || store.free_space().bytes()).await {
        Ok(free) => {
            text.gauge("storage_free_bytes", "free space on the disk of the state directory", free);
            let min = service.section::<StorageSection>().min_free_bytes;
            text.gauge("storage_min_free_bytes", "free space below which new work is rejected", min);
        }
        Err(error) => tracing::warn!(%error, "the metrics lack the disk space"),
    }
    Ok(text)
}

/// Writes the gauges whose values are read on each request.
fn write_gauges(text: &mut MetricsText, service: &DaemonService) {
    let journal = service.journal_report();
    let flag = |set: bool| u64::from(set);
    let number = |count: usize| count as u64;
    for (name, help, value) in [
        ("ready", "whether verdicts are accepted", flag(service.unready_reasons().is_empty())),
        ("draining", "whether the daemon is draining", flag(service.is_draining())),
        ("journal_failed", "whether the journal rejects entries", flag(journal.failure.is_some())),
        (
            "storage_low",
            "whether new work is rejected for lack of free space",
            flag(journal.low_space.is_some()),
        ),
        ("mirror_lagging", "whether oracle_log.jsonl lags behind", flag(journal.mirror_lag.is_some())),
        (
            "segments_damaged",
            "whether segments are damaged and not written again yet",
            flag(journal.segment_damage.is_some()),
        ),
        (
            "copies_missing",
            "whether the copies of segments cannot be written",
            flag(journal.missing_copies.is_some()),
        ),
        (
            "lost_rows",
            "rows that every copy has lost, and that were not set again",
            journal.lost_rows.len() as u64,
        ),
        ("log_entries", "entries in the log", journal.counts.entries),
        (
            "clock_steps_back",
            "steps back of the system clock by 1 s or more, since the last log entry before the start",
            service.system.clock.steps_back(),
        ),
        ("verdicts_in_flight", "verdicts being judged", number(service.in_flight())),
        (
            "connections",
            "connections to the routes' socket",
            number(service.connections.load(Ordering::Relaxed)),
        ),
    ] {
        text.gauge(name, help, value);
    }
    text.counters("request_panics", "requests that failed by a panic", [("", request_panics())]);
}

/// Writes the gauges of the cluster, as this host with `entries` in its log sees it.
fn write_cluster_gauges(text: &mut MetricsText, report: &ClusterReport, entries: u64) {
    let last = report.hosts.iter().map(|host| host.applied).max().unwrap_or_default();
    let live: Vec<_> = report.hosts.iter().filter(|host| host.is_live()).collect();
    let away = live.iter().filter(|host| host.is_away(report)).count();
    let own = live.iter().find(|host| host.host == report.host);
    let seconds = |milliseconds: f64| milliseconds / 1000.0;
    let turn = "whether this host does the work that one host does at a time";
    text.gauge("cluster_has_work", turn, u64::from(report.has_work));
    text.gauges(
        "cluster_hosts",
        "hosts that have not left and were not removed, by whether they were seen within 10 s",
        [("state=\"live\"", live.len() - away), ("state=\"away\"", away)],
    );
    let lag = "entries of the shared log that this host lacks";
    text.gauge("cluster_lag_entries", lag, last.saturating_sub(entries));
    let contact = "time since this host had all entries of the shared log";
    text.gauge("cluster_contact_age_seconds", contact, seconds(report.contact_ms as f64));
    let different = "live hosts whose configuration differs in a section that all hosts need alike";
    text.gauge("cluster_config_differences", different, report.config_differences.len());
    let offset = own.map_or(0.0, |own| own.clock_offset_ms as f64);
    let ahead = "how far the clock of this host is ahead of the clock of the server";
    text.gauge("cluster_clock_ahead_seconds", ahead, seconds(offset));
}

fn write_actor_metrics(text: &mut MetricsText, reports: &[ActorReport]) {
    let each = |read: fn(&ActorReport) -> f64| {
        reports.iter().map(move |report| (format!("actor=\"{}\"", report.name), read(report)))
    };
    text.counters("actor_restarts", "restarts after a panic", each(|report| report.restarts as f64));
    text.counters("actor_messages", "messages answered", each(|report| report.handled as f64));
    text.gauges(
        "actor_queue_depth",
        "messages waiting for an answer",
        each(|report| report.queue_depth as f64),
    );
    text.gauges(
        "actor_latency_p50_seconds",
        "median time to an answer",
        each(|report| Duration::from_micros(report.latency_p50_us).as_secs_f64()),
    );
    text.gauges(
        "actor_latency_p99_seconds",
        "99th percentile of the time to an answer",
        each(|report| Duration::from_micros(report.latency_p99_us).as_secs_f64()),
    );
}

/// Units of the times in `/proc`: the kernel reports them in hundredths of a second on all supported architectures.
const TICKS_PER_S: f64 = 100.0;

/// Writes the metrics at the time `now`. A value that the system does not report is left out.
fn write_process_metrics(body: &mut String, now: Timestamp) -> fmt::Result {
    // computed once, since the difference of the two clocks varies a little
    static STARTED_AT: OnceLock<Option<f64>> = OnceLock::new();
    let started_at = *STARTED_AT.get_or_init(|| read_start_time(now));
    let build = concat!("oracled_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
    writeln!(
        body,
        "# HELP oracled_build_info version of oracled.\n# TYPE oracled_build_info gauge\n{build}"
    )?;
    let name = "process_cpu_seconds";
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let used = usage.user_time() + usage.system_time();
        writeln!(body, "# HELP {name} CPU time of the process.\n# TYPE {name} counter")?;
        writeln!(body, "{name}_total {:.6}", used.num_microseconds() as f64 / 1e6)?;
    }
    let files = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64);
    for (name, help, value) in [
        ("process_resident_memory_bytes", "resident memory of the process", status_bytes("VmRSS:")),
        ("process_virtual_memory_bytes", "virtual memory of the process", status_bytes("VmSize:")),
        ("process_open_fds", "open file descriptors", count_open_files()),
        ("process_max_fds", "limit of open file descriptors", files),
        ("process_start_time_seconds", "when the process started, since 1970", started_at),
    ] {
        if let Some(value) = value {
            write_process_gauge(body, name, help, value)?;
        }
    }
    Ok(())
}

fn write_process_gauge(body: &mut String, name: &str, help: &str, value: impl Display) -> fmt::Result {
    write!(body, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}\n")
}

/// A value of `/proc/self/status`, which has KiB.
fn status_bytes(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    Some(kib?.parse::<f64>().ok()? * 1024.0)
}

fn count_open_files() -> Option<f64> {
    // one of them is that of the read itself
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

/// When the process started, in seconds since 1970.
fn read_start_time(now: Timestamp) -> Option<f64> {
    // `/proc/stat` has the time of the boot, but systemd's `ProcSubset=pid` hides it
    let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let booted_at = now.as_duration().as_secs_f64() - since_boot.num_nanoseconds() as f64 / 1e9;
    let process = fs::read_to_string("/proc/self/stat").ok()?;
    // the name of the program, in parentheses, may have spaces
    let after_name = process.rsplit_once(") ")?.1;
    let ticks: f64 = after_name.split(' ').nth(19)?.parse().ok()?;
    Some(booted_at + ticks / TICKS_PER_S)
}

/// Reads the metrics of a feature.
pub(crate) type MetricsReader =
    fn(&Arc<DaemonService>) -> Pin<Box<dyn Future<Output = Result<MetricsText, Problem>> + Send + '_>>;

/// The metrics of a feature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeatureMetrics {
    /// The name of the feature.
    pub(crate) name: &'static str,
    /// Reads those whose values are read at each scrape.
    pub(crate) read: MetricsReader,
    /// The series that the daemon keeps.
    pub(crate) series: &'static [&'static [MetricSeries]],
}

/// The metrics of the features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScrapedMetrics(pub(crate) &'static [FeatureMetrics]);

/// Metrics as OpenMetrics text, without its end.
#[derive(Debug, Default)]
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// Adds a gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [("", value)]);
    }

    /// Adds the samples of a gauge, each with its labels (`oracle="model"`).
    pub(crate) fn gauges<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "gauge", help, samples);
    }

    /// Adds the samples of a counter, each with its labels.
    pub(crate) fn counters<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "counter", help, samples);
    }

    fn family<L: Display, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let mut text = format!("# HELP oracled_{name} {help}.\n# TYPE oracled_{name} {kind}\n");
        for (labels, value) in samples {
            let labels = labels.to_string();
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            writeln!(text, "oracled_{name}{suffix}{labels} {value}").expect("a text can be extended");
        }
        self.0.push_str(&text);
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_platform::clock::Clock;

    #[test]
    fn process_metrics_have_the_values_of_this_process() {
        let mut body = String::new();
        let now = Clock::system().now();
        write_process_metrics(&mut body, now).expect("a write to memory succeeds");
        let value = |name: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {body}"))
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") > value("process_open_fds"));
        // this test process is at most hours old
        let age_s = now.as_second() as f64 - value("process_start_time_seconds");
        assert!((-1.0..1e5).contains(&age_s), "{body}");
        assert!(body.contains(concat!("oracled_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
    }
}
