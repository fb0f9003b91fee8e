//! `POST /v1/inject-panic/{actor}`: makes an actor panic, for tests of supervision. Debug builds only.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_platform::guardian::InjectPanic;
use axum::extract::{Path, State};
use hyper::StatusCode;
use std::sync::Arc;

/// Makes the actor with the name `actor` panic.
///
/// # Errors
/// `NotFound` if the actor does not exist.
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Path(actor): Path<String>,
) -> Result<StatusCode, Problem> {
    let system = &service.system;
    // every request fails, since the actor panics
    match actor.as_str() {
        "crosscheck" => system.crosscheck.ask(InjectPanic).await,
        "regen" => system.regen.ask(InjectPanic).await,
        "orders" => system.orders.ask(InjectPanic).await,
        "rate_limiter" => system.rate_limiter.ask(InjectPanic).await,
        "cache" => system.cache.ask(InjectPanic).await,
        "notifier" => system.notifier.ask(InjectPanic).await,
        "oracle_health" => system.oracle_health.ask(InjectPanic).await,
        "verification_upkeep" => system.verification_upkeep.ask(InjectPanic).await,
        "ingestion" => system.ingestion.ask(InjectPanic).await,
        "logger" => system.log.actor_handle().ask(InjectPanic).await,
        _ => return Err(Problem::not_found(super::control_request::PATHS)),
    }
    .expect_err("an actor that panics does not answer");
    Ok(StatusCode::NO_CONTENT)
}
