//! `GET /v1/actors`: the state of every actor.

use crate::platform::openapi::CommonProblems;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use domain_base::actor_report::ActorReport;
use std::sync::Arc;

/// List the reports of the actors, the gate first.
#[utoipa::path(
    get,
    path = "/v1/actors",
    operation_id = "list_actors",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The reports", body = Vec<ActorReport>),
    ),
)]
pub async fn get(State(service): State<Arc<DaemonService>>) -> Json<Vec<ActorReport>> {
    Json(service.system.reports())
}
