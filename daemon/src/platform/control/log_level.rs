//! `/v1/log-level`: the level of the service log.

use super::control_request::log_control_action;
use crate::platform::api::request::JsonBody;
use crate::platform::openapi::{CommonProblems, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::platform::telemetry;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::LogLevel;
use std::sync::Arc;

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
pub async fn get(State(service): State<Arc<DaemonService>>) -> Json<LogLevel> {
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
pub async fn put(
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
