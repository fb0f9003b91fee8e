//! `/metrics`: the metrics for Prometheus.

mod process;

use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, request_panics};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use oracled_actors::upstream::oracle_health::ListHealthStatuses;
use oracled_actors::verdict::regen::ReadVariance;
use oracled_api::base::problem::ProblemCode;
use oracled_domain::base::actor_report::ActorReport;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::ground::check::SourceCheck;
use oracled_domain::ground::id::WorkflowId;
use oracled_domain::ground::source::VersionRecord;
use oracled_domain::verdict::cost_budget::DailyBudget;
use oracled_domain::verdict::health::{OracleHealthLevel, OracleHealthStatus};
use oracled_domain::verification::workflow::Workflow;
use oracled_store::Store;
use oracled_store::ground::state::SourceState;
use prometheus_client::encoding::text;
use std::fmt::{self, Display, Write};
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
pub async fn get(State(service): State<Arc<DaemonService>>) -> Result<Response, Problem> {
    let oracles = service.system.oracle_health.ask(ListHealthStatuses).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the oracles' health");
        Vec::new()
    });
    let variance = service.system.regen.ask(ReadVariance).await.inspect_err(|error| {
        tracing::warn!(%error, "the metrics lack the divergence of regenerated verdicts");
    });
    let sources = read_source_files(&service.system.store).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the sources");
        Vec::new()
    });
    let oldest_review_at = read_oldest_review_at(&service.system.store).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the oldest review");
        None
    });
    let open_reviews = count_open_reviews(&service.system.store).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the open reviews of workflows");
        Vec::new()
    });
    let space = read_disk_space(&service).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the disk space");
        Vec::new()
    });
    let budgets = read_budgets(&service).await;
    let mut body = String::new();
    let written = text::encode(&mut body, &service.registry).and_then(|()| {
        let counted = body.strip_suffix(END).map_or(body.len(), str::len);
        body.truncate(counted);
        write_gauges(&mut body, &service)?;
        if let Ok(variance) = &variance {
            let (help, escalated) = ("whether regenerated verdicts differ too often", variance.escalated);
            write_gauge(&mut body, "infrastructure_variance", help, u64::from(escalated))?;
        }
        process::write_process_metrics(&mut body, service.system.clock.now())?;
        write_oracle_gauges(&mut body, &oracles)?;
        write_source_gauges(&mut body, &sources)?;
        for (name, help, value) in space {
            write_gauge(&mut body, name, help, value)?;
        }
        match &budgets {
            Ok(budgets) => write_budgets(&mut body, budgets)?,
            Err(error) => tracing::warn!(%error, "the metrics lack the daily budgets"),
        }
        write_oldest_review_gauge(&mut body, oldest_review_at)?;
        write_open_review_gauges(&mut body, &open_reviews)?;
        body.write_str(END)
    });
    written.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], body).into_response())
}

/// A source with the state of its files.
struct SourceFiles {
    state: SourceState,
    /// Number of its files that are missing or truncated.
    missing: usize,
    last_check: Option<SourceCheck>,
}

async fn read_source_files(store: &Store) -> Result<Vec<SourceFiles>, Problem> {
    let store = store.clone();
    let files = tokio::task::spawn_blocking(move || {
        let with_files = |state: SourceState| {
            let missing = store.files().faults(&state).len();
            let last_check = store.source_check(state.entry.oracle_id());
            Ok(SourceFiles { state, missing, last_check })
        };
        store.sources()?.into_iter().map(with_files).collect()
    });
    files.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?
}

/// The free space on the disk of the state directory, and its limit.
async fn read_disk_space(
    service: &Arc<DaemonService>,
) -> Result<Vec<(&'static str, &'static str, u64)>, Problem> {
    let service = Arc::clone(service);
    let space = tokio::task::spawn_blocking(move || {
        let free = service.system.store.free_space().bytes()?;
        Ok(vec![
            ("storage_free_bytes", "free space on the disk of the state directory", free),
            (
                "storage_min_free_bytes",
                "free space below which new work is rejected",
                service.config.storage.min_free_bytes,
            ),
        ])
    });
    space.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?
}

/// When the oldest open review was opened.
async fn read_oldest_review_at(store: &Store) -> Result<Option<Timestamp>, Problem> {
    let store = store.clone();
    let oldest = tokio::task::spawn_blocking(move || Ok(store.oldest_open_review_at()?));
    oldest.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?
}

/// The number of open reviews of each workflow.
async fn count_open_reviews(store: &Store) -> Result<Vec<(WorkflowId, u64)>, Problem> {
    let store = store.clone();
    let counted = tokio::task::spawn_blocking(move || {
        let of = |workflow_id: WorkflowId| Ok((workflow_id.clone(), store.open_reviews_of(&workflow_id)?));
        let workflows = store.all_registered::<Workflow>()?;
        workflows.into_iter().map(|registered| of(registered.document.workflow_id)).collect()
    });
    counted.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?
}

fn write_open_review_gauges(body: &mut String, open: &[(WorkflowId, u64)]) -> fmt::Result {
    let name = "workflow_reviews_open";
    write!(body, "# HELP oracled_{name} open reviews of a workflow.\n# TYPE oracled_{name} gauge\n")?;
    open.iter()
        .try_for_each(|(workflow, count)| writeln!(body, "oracled_{name}{{workflow=\"{workflow}\"}} {count}"))
}

fn write_oldest_review_gauge(body: &mut String, oldest_at: Option<Timestamp>) -> fmt::Result {
    let name = "review_oldest_open_timestamp_seconds";
    write!(
        body,
        "# HELP oracled_{name} when the oldest open review was opened.\n# TYPE oracled_{name} gauge\n"
    )?;
    match oldest_at {
        Some(at) => writeln!(body, "oracled_{name} {}", at.as_second()),
        None => Ok(()),
    }
}

/// Writes the gauges whose values are read on each request.
fn write_gauges(body: &mut String, service: &DaemonService) -> fmt::Result {
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
        ("cached_verdicts", "verdicts in the store", journal.counts.verdicts),
        ("sessions", "sessions in the store", journal.counts.sessions),
        (
            "clock_steps_back",
            "steps back of the system clock by 1 s or more, since the last log entry before the start",
            service.system.clock.steps_back(),
        ),
        ("reviews_open", "open reviews", journal.counts.open_reviews),
        ("verdicts_in_flight", "verdicts being judged", number(service.in_flight())),
        (
            "connections",
            "connections to the routes' socket",
            number(service.connections.load(Ordering::Relaxed)),
        ),
    ] {
        write_gauge(body, name, help, value)?;
    }
    write_counter(body, "request_panics", "requests that failed by a panic", request_panics())?;
    write_actor_metrics(body, &service.system.reports())
}

fn write_counter(body: &mut String, name: &str, help: &str, value: u64) -> fmt::Result {
    write!(
        body,
        "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} counter\noracled_{name}_total {value}\n"
    )
}

/// The daily budgets, and the costs of the day that count toward them.
async fn read_budgets(service: &Arc<DaemonService>) -> Result<Vec<DailyBudget>, Problem> {
    let service = Arc::clone(service);
    let budgets = tokio::task::spawn_blocking(move || Ok(service.system.daily_budgets()?));
    budgets.await.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?
}

/// The budget of all calls has no label.
fn write_budgets(body: &mut String, budgets: &[DailyBudget]) -> fmt::Result {
    type Read = fn(&DailyBudget) -> &Decimal;
    let families: [(&str, &str, Read); 2] = [
        ("daily_budget", "budget for model calls of a UTC day", |budget| &budget.daily),
        ("daily_costs", "costs of the current UTC day that count toward the budget", |budget| {
            &budget.costs_of_today
        }),
    ];
    for (name, help, read) in families {
        if !budgets.is_empty() {
            write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")?;
        }
        for budget in budgets {
            let label = budget.application.as_ref().map(|name| format!("{{application=\"{name}\"}}"));
            writeln!(body, "oracled_{name}{} {}", label.unwrap_or_default(), read(budget))?;
        }
    }
    Ok(())
}

fn write_gauge(body: &mut String, name: &str, help: &str, value: impl Display) -> fmt::Result {
    write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\noracled_{name} {value}\n")
}

fn write_actor_metrics(body: &mut String, reports: &[ActorReport]) -> fmt::Result {
    type Read = fn(&ActorReport) -> f64;
    let families: [(&str, &str, &str, &str, Read); 5] = [
        ("actor_restarts", "counter", "_total", "restarts after a panic", |report| report.restarts as f64),
        ("actor_messages", "counter", "_total", "messages answered", |report| report.handled as f64),
        ("actor_queue_depth", "gauge", "", "messages waiting for an answer", |report| {
            report.queue_depth as f64
        }),
        ("actor_latency_p50_seconds", "gauge", "", "median time to an answer", |report| {
            Duration::from_micros(report.latency_p50_us).as_secs_f64()
        }),
        ("actor_latency_p99_seconds", "gauge", "", "99th percentile of the time to an answer", |report| {
            Duration::from_micros(report.latency_p99_us).as_secs_f64()
        }),
    ];
    for (name, kind, suffix, help, read) in families {
        write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} {kind}\n")?;
        for report in reports {
            writeln!(body, "oracled_{name}{suffix}{{actor=\"{}\"}} {}", report.name, read(report))?;
        }
    }
    Ok(())
}

fn write_oracle_gauges(body: &mut String, oracles: &[OracleHealthStatus]) -> fmt::Result {
    let family = |body: &mut String, name: &str, help: &str| {
        write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")
    };
    family(body, "oracle_circuit_state", "state of an oracle's circuit: 1 for its current status, else 0")?;
    for oracle in oracles {
        for status in OracleHealthLevel::ALL {
            let (id, value) = (&oracle.oracle_id, u64::from(status == oracle.status));
            let status = status.into_str();
            writeln!(body, "oracled_oracle_circuit_state{{oracle=\"{id}\",status=\"{status}\"}} {value}")?;
        }
    }
    type Read = fn(&OracleHealthStatus) -> f64;
    let families: [(&str, &str, Read); 3] = [
        ("oracle_consecutive_failures", "failures since the last success", |oracle| {
            oracle.consecutive_failures.into()
        }),
        ("oracle_latency_p50_seconds", "median time to an answer", |oracle| {
            Duration::from_millis(oracle.latency_p50_ms).as_secs_f64()
        }),
        ("oracle_latency_p99_seconds", "99th percentile of the time to an answer", |oracle| {
            Duration::from_millis(oracle.latency_p99_ms).as_secs_f64()
        }),
    ];
    for (name, help, read) in families {
        family(body, name, help)?;
        for oracle in oracles {
            writeln!(body, "oracled_{name}{{oracle=\"{}\"}} {}", oracle.oracle_id, read(oracle))?;
        }
    }
    Ok(())
}

/// Writes for each source: when it was last ingested and released (if ever), its held runs, its missing files, and the
/// result of its last check.
fn write_source_gauges(body: &mut String, sources: &[SourceFiles]) -> fmt::Result {
    type Read = fn(&VersionRecord) -> Timestamp;
    let families: [(&str, &str, Read); 2] = [
        ("source_ingested_timestamp_seconds", "when the last run of a source became visible", |version| {
            version.ingested_at
        }),
        (
            "source_released_timestamp_seconds",
            "when the newest version of a source was released",
            |version| version.released_at,
        ),
    ];
    for (name, help, read) in families {
        write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")?;
        for SourceFiles { state: SourceState { entry, .. }, .. } in sources {
            let Some(latest) = entry.version_history.iter().map(read).max() else { continue };
            writeln!(body, "oracled_{name}{{oracle=\"{}\"}} {}", entry.oracle_id(), latest.as_second())?;
        }
    }
    let (name, help) = ("source_runs_held", "runs of a source that are held for an operator's decision");
    write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")?;
    for SourceFiles { state: SourceState { entry, held, .. }, .. } in sources {
        writeln!(body, "oracled_{name}{{oracle=\"{}\"}} {}", entry.oracle_id(), held.len())?;
    }
    let (name, help) = ("source_files_missing", "files of a source that are missing, or have another length");
    write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")?;
    for SourceFiles { state, missing, .. } in sources {
        writeln!(body, "oracled_{name}{{oracle=\"{}\"}} {missing}", state.entry.oracle_id())?;
    }
    type Found = fn(&SourceCheck) -> i64;
    let families: [(&str, &str, Found); 2] = [
        ("source_faults", "faults that the last check of a source found", |check| {
            i64::try_from(check.fault_count).unwrap_or(i64::MAX)
        }),
        ("source_checked_timestamp_seconds", "when the last check of a source ended", |check| {
            check.checked_at.as_second()
        }),
    ];
    for (name, help, read) in families {
        write!(body, "# HELP oracled_{name} {help}.\n# TYPE oracled_{name} gauge\n")?;
        for SourceFiles { state, last_check, .. } in sources {
            let Some(found) = last_check.as_ref().map(read) else { continue };
            writeln!(body, "oracled_{name}{{oracle=\"{}\"}} {found}", state.entry.oracle_id())?;
        }
    }
    Ok(())
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
        let mut body = String::new();
        write_oracle_gauges(&mut body, &[model.status()]).expect("a write to memory succeeds");
        let samples: Vec<_> = body.lines().filter(|line| !line.starts_with('#')).collect();
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
