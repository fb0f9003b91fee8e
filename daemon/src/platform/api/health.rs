//! `/healthz` and `/readyz`: whether the daemon is alive, and whether it accepts verdicts.

use crate::platform::openapi::CommonProblems;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain_base::service::{LivenessResponse, ReadinessResponse};
use hyper::StatusCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::IntoResponses;
use utoipa::openapi::{Content, Ref, RefOr};

/// Report that the daemon is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "read_liveness",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The daemon is alive", body = LivenessResponse),
    ),
)]
pub async fn read_liveness() -> Json<LivenessResponse> {
    Json(LivenessResponse { status: "alive", version: env!("CARGO_PKG_VERSION") })
}

/// The problems of the readiness route, one of which has the status of a daemon that is not ready.
struct ReadyProblems;

impl IntoResponses for ReadyProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut responses = CommonProblems::responses();
        if let Some(RefOr::T(response)) = responses.get_mut("503") {
            let report = Content::new(Some(Ref::from_schema_name("ReadinessResponse")));
            response.content.insert("application/json".to_owned(), report.into());
            let own = "The daemon does not accept verdicts, for the given reasons";
            response.description = format!("{own}; or {}", response.description);
        }
        responses
    }
}

/// Report whether the daemon accepts verdicts.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "read_readiness",
    tag = "platform",
    responses(
        ReadyProblems,
        (status = 200, description = "The daemon accepts verdicts", body = ReadinessResponse),
    ),
)]
pub async fn read_readiness(State(service): State<Arc<DaemonService>>) -> Response {
    let reasons = service.unready_reasons();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadinessResponse { ready, reasons })).into_response()
}
