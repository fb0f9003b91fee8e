//! `POST /v1/drain`: rejects new work before a stop, or accepts it again.

use super::control_request::log_control_action;
use crate::platform::api::request::JsonBody;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_ground::ingestion;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use oracled_api::base::service::{DrainRequest, DrainResponse};
use std::sync::Arc;

problems!(DrainProblems: JSON_BODY STORE);

/// Start or end draining.
///
/// While the daemon drains, it rejects new work. Cached verdicts can still be read.
#[utoipa::path(
    post,
    path = "/v1/drain",
    operation_id = "set_draining",
    tag = "platform",
    request_body = DrainRequest,
    responses(
        DrainProblems,
        (status = 200, description = "The state of draining", body = DrainResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<DrainResponse>, Problem> {
    let DrainRequest { draining } = body.parse()?;
    run_to_end(async move {
        // one request at a time, so that the order in the log is the order of the changes
        let _guard = service.lock_control().await;
        log_control_action(&service, "drain", format!("draining: {draining}"), Some(peer)).await?;
        service.set_draining(draining);
        service.system.ingestion.ask(ingestion::SetDraining(draining)).await?;
        Ok(Json(DrainResponse { draining, in_flight: service.in_flight() }))
    })
    .await
}
