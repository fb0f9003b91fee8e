//! `/healthz` and `/readyz`: whether the daemon lives, and whether it takes verdicts.

use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// The answer of `/healthz`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Alive {
    /// Always `alive`.
    status: &'static str,
    /// The daemon's version.
    version: &'static str,
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Readiness {
    /// Whether verdicts are taken.
    ready: bool,
    /// Why not; empty if they are.
    reasons: Vec<String>,
}

/// Whether the daemon lives.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It does", body = Alive)))]
pub async fn alive() -> Json<Alive> {
    Json(Alive { status: "alive", version: env!("CARGO_PKG_VERSION") })
}

/// Whether the daemon takes verdicts.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "It does", body = Readiness),
        (status = 503, description = "It does not, for the reasons given", body = Readiness),
    ),
)]
pub async fn ready(State(service): State<Arc<Service>>) -> Response {
    let reasons = service.unready();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready, reasons })).into_response()
}
