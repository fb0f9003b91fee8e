//! `POST /v1/drain`: rejects new work before a stop, or accepts it again.

use super::order::audit;
use crate::platform::api::request::JsonBody;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::State;
use axum::{Extension, Json};
use oracled_actors::ground::ingestion;
use oracled_api::base::service::{DrainRequest, DrainResponse};
use oracled_domain::Peer;
use std::sync::Arc;

problems!(DrainProblems: JSON_BODY COMMIT; );

/// Start or end draining.
///
/// While the daemon drains, it rejects new work. Cached verdicts can still be read.
///
/// # Errors
/// If the audit entry cannot be committed. Then nothing changes.
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
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    body: JsonBody,
) -> Result<Json<DrainResponse>, Problem> {
    let DrainRequest { draining } = body.parse()?;
    act(async move {
        // one request at a time, so that the order in the log is the order of the changes
        let _turn = service.control_turn().await;
        audit(&service, "drain", format!("draining: {draining}"), Some(peer)).await?;
        service.set_draining(draining);
        service.system.ingestion.ask(ingestion::SetDraining(draining)).await?;
        Ok(Json(DrainResponse { draining, in_flight: service.in_flight() }))
    })
    .await
}
