//! Control of the whole daemon.

pub mod control_request;
#[cfg(debug_assertions)]
pub mod inject_panic;

use super::api::{health, serving};
use super::openapi::Routes;
use crate::platform::api::request::JsonBody;
use crate::platform::openapi::{CommonProblems, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::platform::telemetry;
use actors_ground::ingestion;
use actors_upstream::oracle_health::{ApplyCircuitAction, ListHealthStatuses};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use control_request::{log_control_action, parse_name};
use domain_base::actor_report::ActorReport;
use domain_base::caller::PeerCredentials;
use domain_upstream::health::CircuitAction;
use domain_upstream::oracle::OracleId;
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::{
    CircuitRequest, CircuitResponse, DrainRequest, DrainResponse, LogLevel, ProbeReport,
};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(serving::read_document))
        .routes(routes!(list_actors))
        .routes(routes!(health::list_oracles_with_errors))
        .routes(routes!(steer_circuit))
        .routes(routes!(read_log_level, set_log_level))
        .routes(routes!(set_draining))
}

problems!(DrainProblems: JSON_BODY STORE);

/// Start or end draining.
///
/// While the daemon drains, it rejects new work. Cached verdicts can still be read.
#[utoipa::path(
    post,
    path = "/v1/drain",
    operation_id = "set_draining",
    tag = "platform",
    request_body = DrainRequest,
    responses(
        DrainProblems,
        (status = 200, description = "The state of draining", body = DrainResponse),
    ),
)]
pub async fn set_draining(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<DrainResponse>, Problem> {
    let DrainRequest { draining } = body.parse()?;
    run_to_end(async move {
        // one request at a time, so that the order in the log is the order of the changes
        let _guard = service.lock_control().await;
        log_control_action(&service, "drain", format!("draining: {draining}"), Some(peer)).await?;
        service.set_draining(draining);
        service.system.ingestion.ask(ingestion::SetDraining(draining)).await?;
        Ok(Json(DrainResponse { draining, in_flight: service.in_flight() }))
    })
    .await
}

problems!(SteerProblems: JSON_BODY STORE; OracleUnknown);

/// Open or close the circuit of an oracle, or probe the oracle.
///
/// The change takes effect after its log entry is durable. A source can be named with or without `source:`.
#[utoipa::path(
    post,
    path = "/v1/health/oracles/{oracle_id}",
    operation_id = "steer_circuit",
    tag = "platform",
    params(("oracle_id" = OracleId, Path)),
    request_body = CircuitRequest,
    responses(
        SteerProblems,
        (status = 200, description = "The health of the oracle now", body = CircuitResponse),
    ),
)]
pub async fn steer_circuit(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<CircuitResponse>, Problem> {
    let oracle_id: OracleId = parse_name(oracle_id)?;
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
async fn full_id(service: &DaemonService, oracle_id: OracleId) -> Result<OracleId, Problem> {
    let known = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let is_known = |id: &OracleId| known.iter().any(|status| status.oracle_id == *id);
    let of_source = format!("source:{oracle_id}").parse().ok().filter(|of_source| is_known(of_source));
    Ok(of_source.filter(|_| !is_known(&oracle_id)).unwrap_or(oracle_id))
}

/// Maximum length of the directives, in bytes. Each change is stored in the audit log.
const LEVEL_MAX_BYTES: usize = 1024;

/// Read the level of the service log.
#[utoipa::path(
    get,
    path = "/v1/log-level",
    operation_id = "read_log_level",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The current level", body = LogLevel),
    ),
)]
pub async fn read_log_level(State(service): State<Arc<DaemonService>>) -> Json<LogLevel> {
    Json(LogLevel { level: service.log_level.get() })
}

problems!(SetProblems: JSON_BODY STORE);

/// Set the level of the service log until the next reload or start.
#[utoipa::path(
    put,
    path = "/v1/log-level",
    operation_id = "set_log_level",
    tag = "platform",
    request_body = LogLevel,
    responses(
        SetProblems,
        (status = 200, description = "The new level", body = LogLevel),
    ),
)]
pub async fn set_log_level(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<LogLevel>, Problem> {
    let LogLevel { level } = body.parse()?;
    if level.len() > LEVEL_MAX_BYTES {
        let text = format!("`level` has {} bytes; at most {LEVEL_MAX_BYTES} are allowed", level.len());
        return Err(Problem::new(ProblemCode::InvalidRequest, text));
    }
    telemetry::parse_filter(&level)
        .map_err(|error| Problem::new(ProblemCode::InvalidRequest, format!("`{level}`: {error}")))?;
    run_to_end(async move {
        let _guard = service.lock_control().await;
        let before = service.log_level.get();
        log_control_action(&service, "log_level", format!("from {before} to {level}"), Some(peer)).await?;
        service.log_level.set(&level).map_err(|error| Problem::new(ProblemCode::InternalError, error))?;
        Ok(Json(LogLevel { level: service.log_level.get() }))
    })
    .await
}

/// List the reports of the actors, the gate first.
#[utoipa::path(
    get,
    path = "/v1/actors",
    operation_id = "list_actors",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The reports", body = Vec<ActorReport>),
    ),
)]
pub async fn list_actors(State(service): State<Arc<DaemonService>>) -> Json<Vec<ActorReport>> {
    Json(service.system.reports())
}
