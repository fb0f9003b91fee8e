//! `/v1/log-level`: the level of the service log.

use super::order::audit;
use crate::platform::api::request::JsonBody;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use crate::platform::telemetry;
use axum::extract::State;
use axum::{Extension, Json};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::LogLevel;
use oracled_domain::Peer;
use std::sync::Arc;

/// Maximum length of the directives, which are logged, in bytes.
const LEVEL_MAX_BYTES: usize = 1024;

/// The current level.
pub async fn get(State(service): State<Arc<Service>>) -> Json<LogLevel> {
    Json(LogLevel { level: service.log_level.get() })
}

/// Sets the level until the next reload or start.
///
/// # Errors
/// `InvalidRequest` if the directives cannot be parsed.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    body: JsonBody,
) -> Result<Json<LogLevel>, Problem> {
    let LogLevel { level } = body.parse()?;
    if level.len() > LEVEL_MAX_BYTES {
        let text = format!("`level` has {} bytes; at most {LEVEL_MAX_BYTES} are allowed", level.len());
        return Err(Problem::new(ProblemCode::InvalidRequest, text));
    }
    telemetry::filter(&level)
        .map_err(|error| Problem::new(ProblemCode::InvalidRequest, format!("`{level}`: {error}")))?;
    act(async move {
        let _turn = service.control_turn().await;
        let before = service.log_level.get();
        audit(&service, "log_level", format!("from {before} to {level}"), Some(peer)).await?;
        service.log_level.set(&level).map_err(|error| Problem::new(ProblemCode::InternalError, error))?;
        Ok(Json(LogLevel { level: service.log_level.get() }))
    })
    .await
}
