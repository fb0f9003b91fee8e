//! `/healthz` and `/readyz`: whether the daemon is alive, and whether it accepts verdicts; `/v1/health/oracles`: the health of the
//! upstream systems. Both sockets have this path. Only the control socket shows the last error, which can name a session of any
//! application.

use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_upstream::oracle_health::ListHealthStatuses;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain_upstream::health::OracleHealthStatus;
use hyper::StatusCode;
use oracled_api::base::service::{LivenessResponse, ReadinessResponse};
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
pub async fn list_oracles(
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
pub async fn list_oracles_with_errors(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<OracleHealthStatus>>, Problem> {
    Ok(Json(service.system.oracle_health.ask(ListHealthStatuses).await?))
}
