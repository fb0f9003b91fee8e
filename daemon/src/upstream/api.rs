//! `/v1/health/oracles`: the health of the upstream systems. Both sockets have this path. Only the control socket shows the last
//! error, which can name a session of any application.

use crate::platform::openapi::{CommonProblems, Routes};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_upstream::oracle_health::ListHealthStatuses;
use axum::Json;
use axum::extract::State;
use domain_upstream::health::OracleHealthStatus;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list_oracles))
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
