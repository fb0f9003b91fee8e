//! Control of the whole daemon.

pub mod control_request;
#[cfg(debug_assertions)]
pub mod inject_panic;

use super::api::serving;
use super::openapi::Routes;
use crate::platform::api::request::JsonBody;
use crate::platform::openapi::{CommonProblems, JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::platform::telemetry;
use axum::extract::State;
use axum::{Extension, Json};
use control_request::log_control_action;
use domain_base::actor_report::ActorReport;
use domain_base::caller::PeerCredentials;
use domain_base::problem::{INTERNAL_ERROR, INVALID_REQUEST};
use domain_base::service::{DrainRequest, DrainResponse, LogLevel};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(serving::read_document))
        .routes(routes!(list_actors))
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
        service.system.set_draining(draining).await?;
        Ok(Json(DrainResponse { draining, in_flight: service.in_flight() }))
    })
    .await
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
        return Err(Problem::new(INVALID_REQUEST, text));
    }
    telemetry::parse_filter(&level)
        .map_err(|error| Problem::new(INVALID_REQUEST, format!("`{level}`: {error}")))?;
    run_to_end(async move {
        let _guard = service.lock_control().await;
        let before = service.log_level.get();
        log_control_action(&service, "log_level", format!("from {before} to {level}"), Some(peer)).await?;
        service.log_level.set(&level).map_err(|error| Problem::new(INTERNAL_ERROR, error))?;
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
