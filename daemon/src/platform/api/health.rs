//! `/healthz` and `/readyz`: whether the daemon is alive, and whether it accepts verdicts.

use crate::platform::openapi::CommonProblems;
use crate::platform::problem::ProblemDocument;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use oracled_api::base::service::{AliveResponse, ReadinessResponse};
use std::sync::Arc;

/// Report that the daemon is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "read_liveness",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The daemon is alive", body = AliveResponse),
    ),
)]
pub async fn alive() -> Json<AliveResponse> {
    Json(AliveResponse { status: "alive", version: env!("CARGO_PKG_VERSION") })
}

/// Report whether the daemon accepts verdicts.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "read_readiness",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The daemon accepts verdicts", body = ReadinessResponse),
        (status = 503, description = "The daemon does not accept verdicts, for the given reasons; or `overloaded`", content((ReadinessResponse = "application/json"), (ProblemDocument = "application/problem+json")), headers(("Retry-After" = u64, description = "With `overloaded`: the time before the next attempt, in seconds."))),
    ),
)]
pub async fn ready(State(service): State<Arc<Service>>) -> Response {
    let reasons = service.unready();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadinessResponse { ready, reasons })).into_response()
}
