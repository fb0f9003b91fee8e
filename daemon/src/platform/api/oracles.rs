//! `/v1/health/oracles`: the health of the upstream systems. Both sockets have this path.

use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use oracled_actors::upstream::oracle_health::ListHealthStatuses;
use oracled_domain::verdict::health::OracleHealthStatus;
use std::sync::Arc;

/// The health of every oracle, in the order of their names.
///
/// An oracle is a model, a mail service, or a source that a verification has asked. Latencies are of the last 256
/// successful calls.
///
/// # Errors
/// If the actor does not answer.
#[utoipa::path(
    get,
    path = "/v1/health/oracles",
    responses(
        (status = 200, description = "A list with one object per oracle; empty without oracles", body = Vec<Object>),
        (status = "5XX", description = "The health is not available now", body = ProblemDocument),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<OracleHealthStatus>>, Problem> {
    Ok(Json(service.system.oracle_health.ask(ListHealthStatuses).await?))
}
