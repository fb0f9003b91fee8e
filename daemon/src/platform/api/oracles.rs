//! `/v1/health/oracles`: how what the daemon asks outside is doing. Both sockets have it.

use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use oracled_actors::upstream::oracle_health::Statuses;
use oracled_domain::verdict::health::HealthStatus;
use std::sync::Arc;

/// How every oracle is doing, in the order of their names.
///
/// # Errors
/// Where nobody answers for now.
#[utoipa::path(
    get,
    path = "/v1/health/oracles",
    responses(
        (status = 200, description = "A list with one object an oracle, empty where there is none", body = Vec<Object>),
        (status = "5XX", description = "It cannot be told for now", body = ProblemDocument),
    ),
)]
pub async fn get(State(service): State<Arc<Service>>) -> Result<Json<Vec<HealthStatus>>, Problem> {
    Ok(Json(service.system.oracle_health.ask(Statuses).await?))
}
