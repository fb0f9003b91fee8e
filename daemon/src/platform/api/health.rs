//! `/healthz` and `/readyz`: whether the daemon is alive, and whether it accepts verdicts.

use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use oracled_api::base::service::{LivenessResponse, ReadinessResponse};
use std::sync::Arc;

/// Whether the daemon is alive.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "The daemon is alive", body = LivenessResponse)))]
pub async fn alive() -> Json<LivenessResponse> {
    Json(LivenessResponse { status: "alive", version: env!("CARGO_PKG_VERSION") })
}

/// Whether the daemon accepts verdicts.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "The daemon accepts verdicts", body = ReadinessResponse),
        (status = 503, description = "The daemon does not accept verdicts, for the given reasons", body = ReadinessResponse),
    ),
)]
pub async fn ready(State(service): State<Arc<DaemonService>>) -> Response {
    let reasons = service.unready_reasons();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadinessResponse { ready, reasons })).into_response()
}
