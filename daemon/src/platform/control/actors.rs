//! `GET /v1/actors`: the state of every actor.

use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use oracled_domain::base::actor_report::ActorReport;
use std::sync::Arc;

/// The reports of the actors, the gate first.
pub async fn get(State(service): State<Arc<DaemonService>>) -> Json<Vec<ActorReport>> {
    Json(service.system.reports())
}
