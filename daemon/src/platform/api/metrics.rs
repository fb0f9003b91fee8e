//! `/metrics`: the metrics for Prometheus.

mod process;

use crate::platform::config::StorageSection;
use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::scraped::{MetricsReader, MetricsText, ScrapedMetrics};
use crate::platform::service::{DaemonService, request_panics, run_blocking};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use oracled_actors::upstream::oracle_health::ListHealthStatuses;
use oracled_api::base::problem::ProblemCode;
use oracled_domain::base::actor_report::ActorReport;
use oracled_domain::base::row::Row;
use oracled_domain::verdict::health::{OracleHealthLevel, OracleHealthStatus};
use oracled_domain::{SessionRecord, VerdictDelivery};
use prometheus_client::encoding::text;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    let mut body = String::new();
    text::encode(&mut body, &service.registry)
        .and_then(|()| {
            body.truncate(body.strip_suffix(END).map_or(body.len(), str::len));
            process::write_process_metrics(&mut body, service.system.clock.now())
        })
        .map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?;
    let platform: [(&str, MetricsReader); 1] = [("platform", |service| Box::pin(read(service)))];
    for (name, read) in platform.iter().chain(features) {
        match read(&service).await {
            Ok(text) => body.push_str(text.as_str()),
            Err(error) => tracing::warn!(%error, feature = name, "the metrics of a feature are missing"),
        }
    }
    body.push_str(END);
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// Reads the metrics of the whole daemon.
async fn read(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let mut text = MetricsText::default();
    write_gauges(&mut text, service);
    write_actor_metrics(&mut text, &service.system.reports());
    match service.system.oracle_health.ask(ListHealthStatuses).await {
        Ok(oracles) => write_oracle_gauges(&mut text, &oracles),
        Err(error) => tracing::warn!(%error, "the metrics lack the oracles' health"),
    }
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
            "lost_rows",
            "rows that every copy has lost, and that were not set again",
            journal.lost_rows.len() as u64,
        ),
        ("log_entries", "entries in the log", journal.counts.entries),
        ("cached_verdicts", "verdicts in the store", journal.counts.of(VerdictDelivery::TABLE.name)),
        ("sessions", "sessions in the store", journal.counts.of(SessionRecord::TABLE.name)),
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

fn write_oracle_gauges(text: &mut MetricsText, oracles: &[OracleHealthStatus]) {
    let states = oracles.iter().flat_map(|oracle| {
        OracleHealthLevel::ALL.into_iter().map(move |status| {
            let (id, name) = (&oracle.oracle_id, status.into_str());
            (format!("oracle=\"{id}\",status=\"{name}\""), u64::from(status == oracle.status))
        })
    });
    let help = "state of an oracle's circuit: 1 for its current status, else 0";
    text.gauges("oracle_circuit_state", help, states);
    let each = |read: fn(&OracleHealthStatus) -> f64| {
        oracles.iter().map(move |oracle| (format!("oracle=\"{}\"", oracle.oracle_id), read(oracle)))
    };
    text.gauges(
        "oracle_consecutive_failures",
        "failures since the last success",
        each(|oracle| oracle.consecutive_failures.into()),
    );
    text.gauges(
        "oracle_latency_p50_seconds",
        "median time to an answer",
        each(|oracle| Duration::from_millis(oracle.latency_p50_ms).as_secs_f64()),
    );
    text.gauges(
        "oracle_latency_p99_seconds",
        "99th percentile of the time to an answer",
        each(|oracle| Duration::from_millis(oracle.latency_p99_ms).as_secs_f64()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_domain::verdict::health::{
        CallPurpose, CircuitBreaker, CircuitCallOutcome, OracleHealthConfig,
    };

    #[test]
    fn circuit_gauge_is_1_for_the_current_status_only() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model = CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        for outcome in [
            CircuitCallOutcome::Success { latency_ms: Some(120) },
            CircuitCallOutcome::Failure("status 500".into()),
        ] {
            let permit = model.permit(at, CallPurpose::Other).expect("the circuit is closed");
            model.report(at, permit, outcome);
        }
        let mut text = MetricsText::default();
        write_oracle_gauges(&mut text, &[model.status()]);
        let samples: Vec<_> = text.as_str().lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"oracled_oracle_circuit_state{oracle="model",status="healthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="degraded"} 1"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="unhealthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="circuit_open"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="refusing"} 0"#,
                r#"oracled_oracle_consecutive_failures{oracle="model"} 1"#,
                r#"oracled_oracle_latency_p50_seconds{oracle="model"} 0.12"#,
                r#"oracled_oracle_latency_p99_seconds{oracle="model"} 0.12"#,
            ]
        );
    }
}
