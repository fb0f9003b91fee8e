//! Upstream systems: the handlers of both sockets for their health and their circuits, their errors and their metrics.
//!
//! `/v1/health/oracles` is a path of both sockets. Only the control socket shows the last error, which can name a
//! session of any application.

use crate::platform::api::metrics::{FeatureMetrics, MetricsText};
use crate::platform::api::request::JsonBody;
use crate::platform::control::parse_name;
use crate::platform::openapi::{CommonProblems, JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_to_end};
use actors_upstream::oracle_health::{ApplyCircuitAction, CircuitActionError, ListHealthStatuses};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::problem::INVALID_REQUEST;
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_upstream::health::{CircuitAction, OracleHealthLevel, OracleHealthStatus};
use domain_upstream::problem::ORACLE_UNKNOWN;
use domain_upstream::upstream_id::UpstreamId;
use domain_upstream::wire::{CircuitRequest, CircuitResponse, ProbeReport};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

impl From<CircuitActionError> for Problem {
    fn from(error: CircuitActionError) -> Self {
        match error {
            CircuitActionError::Unknown(_) => Self::new(ORACLE_UNKNOWN, error.to_string()),
            CircuitActionError::NoProbe(_) => Self::new(INVALID_REQUEST, error.to_string()),
            CircuitActionError::Probing(_) => Self::overloaded(error),
            CircuitActionError::Commit(error) => error.into(),
            CircuitActionError::NoAnswer(error) => error.into(),
        }
    }
}

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![list_oracles]
}

/// List the health of every oracle, in the order of their names.
///
/// An oracle is a model, a mail service, or a source that a verification has queried. Latencies are of the last 256
/// successful calls. `last_error` is null on this socket.
#[utoipa::path(
    get,
    path = "/v1/health/oracles",
    operation_id = "list_oracle_health",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "One object per oracle; empty without oracles", body = Vec<OracleHealthStatus>),
    ),
)]
async fn list_oracles(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<OracleHealthStatus>>, Problem> {
    let Json(statuses) = list_oracles_with_errors(State(service)).await?;
    let without_error = |status| OracleHealthStatus { last_error: None, ..status };
    Ok(Json(statuses.into_iter().map(without_error).collect()))
}

/// List the health of every oracle, in the order of their names.
///
/// An oracle is a model, a mail service, or a source that a verification has queried. Latencies are of the last 256
/// successful calls.
#[utoipa::path(
    get,
    path = "/v1/health/oracles",
    operation_id = "list_oracle_health",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "One object per oracle; empty without oracles", body = Vec<OracleHealthStatus>),
    ),
)]
async fn list_oracles_with_errors(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<OracleHealthStatus>>, Problem> {
    Ok(Json(service.system.oracle_health.ask(ListHealthStatuses).await?))
}

/// The routes of the control socket.
pub(crate) fn control_routes() -> Routes {
    routes![list_oracles_with_errors, steer_circuit]
}

problems!(SteerProblems: JSON_BODY STORE; ORACLE_UNKNOWN);

/// Open or close the circuit of an oracle, or probe the oracle.
///
/// The change takes effect after its log entry is durable. A source can be named with or without `source:`.
#[utoipa::path(
    post,
    path = "/v1/health/oracles/{oracle_id}",
    operation_id = "steer_circuit",
    tag = "platform",
    params(("oracle_id" = UpstreamId, Path)),
    request_body = CircuitRequest,
    responses(
        SteerProblems,
        (status = 200, description = "The health of the oracle now", body = CircuitResponse),
    ),
)]
async fn steer_circuit(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<CircuitResponse>, Problem> {
    let oracle_id: UpstreamId = parse_name(oracle_id)?;
    let CircuitRequest { action } = body.parse()?;
    run_to_end(async move {
        let oracle_id = full_id(&service, oracle_id).await?;
        // a probe is slow, and changes no state that another control request could change too
        let _guard = if action == CircuitAction::Probe { None } else { Some(service.lock_control().await) };
        let response =
            service.system.oracle_health.ask(ApplyCircuitAction { oracle_id, action, peer }).await??;
        Ok(Json(CircuitResponse { oracle: response.status, probe: response.probe.map(ProbeReport::from) }))
    })
    .await
}

/// The id under which the health of an oracle is listed: `source:` precedes the id of a source, unless another oracle
/// has the id without it.
async fn full_id(service: &DaemonService, oracle_id: UpstreamId) -> Result<UpstreamId, Problem> {
    let known = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let is_known = |id: &UpstreamId| known.iter().any(|status| status.oracle_id == *id);
    let of_source = format!("source:{oracle_id}").parse().ok().filter(|of_source| is_known(of_source));
    Ok(of_source.filter(|_| !is_known(&oracle_id)).unwrap_or(oracle_id))
}

/// The series of the health of oracles.
const SERIES: &[MetricSeries] = &[MetricSeries {
    name: "oracle_unavailable",
    title: "Part of the time in which the circuit was open",
    unit: SeriesUnit::Ratio,
    metric: "oracle_circuit_state",
    filter: |labels| OPEN_STATES.iter().any(|state| labels.is("status", state.into_str())),
    by: Some("oracle"),
    measure: SeriesMeasure::Mean,
}];
/// The statuses with an open circuit, at least for first verdicts.
const OPEN_STATES: [OracleHealthLevel; 2] = [OracleHealthLevel::CircuitOpen, OracleHealthLevel::Refusing];
/// Replaces the status in the metric while the oracle is not called because it requested a wait.
const PAUSED: &str = "paused";

/// The metrics of the feature.
pub(crate) const METRICS: FeatureMetrics =
    FeatureMetrics { name: "upstream", read: |service| Box::pin(read_metrics(service)), series: &[SERIES] };

/// Reads the health of each oracle.
async fn read_metrics(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let oracles = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let mut text = MetricsText::default();
    write_oracle_gauges(&mut text, &oracles, service.system.clock.now());
    Ok(text)
}

fn write_oracle_gauges(text: &mut MetricsText, oracles: &[OracleHealthStatus], now: Timestamp) {
    let states = oracles.iter().flat_map(|oracle| {
        let id = &oracle.oracle_id;
        let current = if oracle.paused_until(now).is_some() { PAUSED } else { oracle.status.into_str() };
        let statuses = OracleHealthLevel::ALL.into_iter().map(|status| status.into_str()).chain([PAUSED]);
        statuses
            .map(move |status| (format!("oracle=\"{id}\",status=\"{status}\""), u64::from(status == current)))
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
    use domain_upstream::failure::RequestFailureKind;
    use domain_upstream::health::{CallPurpose, CircuitBreaker, CircuitCallOutcome, OracleHealthConfig};

    #[test]
    fn circuit_gauge_is_1_for_the_current_status_only() {
        let at = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model = CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        for outcome in [
            CircuitCallOutcome::Success { latency_ms: Some(120) },
            CircuitCallOutcome::Failure(RequestFailureKind::Status(500)),
        ] {
            let permit = model.permit(at, CallPurpose::Other).expect("the circuit is closed");
            model.report(at, permit, outcome);
        }
        let mut text = MetricsText::default();
        write_oracle_gauges(&mut text, &[model.status()], at);
        let samples: Vec<_> = text.as_str().lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"oracled_oracle_circuit_state{oracle="model",status="healthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="degraded"} 1"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="unhealthy"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="circuit_open"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="refusing"} 0"#,
                r#"oracled_oracle_circuit_state{oracle="model",status="paused"} 0"#,
                r#"oracled_oracle_consecutive_failures{oracle="model"} 1"#,
                r#"oracled_oracle_latency_p50_seconds{oracle="model"} 0.12"#,
                r#"oracled_oracle_latency_p99_seconds{oracle="model"} 0.12"#,
            ]
        );
    }

    #[test]
    fn circuit_gauge_is_1_for_paused_only_during_a_long_requested_wait() {
        let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        let mut model = CircuitBreaker::new("model".parse().expect("an id"), OracleHealthConfig::default());
        model.note_requested_wait(at, Duration::from_secs(60));
        for (second, status) in [(0, "paused"), (29, "paused"), (30, "healthy")] {
            let mut text = MetricsText::default();
            write_oracle_gauges(&mut text, &[model.status()], at + Duration::from_secs(second));
            let states = text.as_str().lines().filter(|line| line.contains("circuit_state{"));
            let current: Vec<_> = states.filter(|line| line.ends_with(" 1")).collect();
            let expected = format!("oracled_oracle_circuit_state{{oracle=\"model\",status=\"{status}\"}} 1");
            assert_eq!(current, [expected], "after {second} s");
        }
    }
}
