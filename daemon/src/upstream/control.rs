//! Control of circuits.

use crate::platform::api::request::JsonBody;
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::{JSON_BODY, Routes, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_upstream::oracle_health::{ApplyCircuitAction, ListHealthStatuses};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_upstream::health::CircuitAction;
use domain_upstream::problem::ORACLE_UNKNOWN;
use domain_upstream::upstream_id::UpstreamId;
use domain_upstream::wire::{CircuitRequest, CircuitResponse, ProbeReport};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(super::api::list_oracles_with_errors)).routes(routes!(steer_circuit))
}

problems!(SteerProblems: JSON_BODY STORE; ORACLE_UNKNOWN);

/// Open or close the circuit of an oracle, or probe the oracle.
///
/// The change takes effect after its log entry is durable. A source can be named with or without `source:`.
#[utoipa::path(
    post,
    path = "/v1/health/oracles/{oracle_id}",
    operation_id = "steer_circuit",
    tag = "platform",
    params(("oracle_id" = UpstreamId, Path)),
    request_body = CircuitRequest,
    responses(
        SteerProblems,
        (status = 200, description = "The health of the oracle now", body = CircuitResponse),
    ),
)]
pub async fn steer_circuit(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<CircuitResponse>, Problem> {
    let oracle_id: UpstreamId = parse_name(oracle_id)?;
    let CircuitRequest { action } = body.parse()?;
    run_to_end(async move {
        let oracle_id = full_id(&service, oracle_id).await?;
        // a probe is slow, and changes no state that another control request could change too
        let _guard = if action == CircuitAction::Probe { None } else { Some(service.lock_control().await) };
        let response =
            service.system.oracle_health.ask(ApplyCircuitAction { oracle_id, action, peer }).await??;
        Ok(Json(CircuitResponse { oracle: response.status, probe: response.probe.map(ProbeReport::from) }))
    })
    .await
}

/// The id under which the health of an oracle is listed: `source:` precedes the id of a source, unless another oracle
/// has the id without it.
async fn full_id(service: &DaemonService, oracle_id: UpstreamId) -> Result<UpstreamId, Problem> {
    let known = service.system.oracle_health.ask(ListHealthStatuses).await?;
    let is_known = |id: &UpstreamId| known.iter().any(|status| status.oracle_id == *id);
    let of_source = format!("source:{oracle_id}").parse().ok().filter(|of_source| is_known(of_source));
    Ok(of_source.filter(|_| !is_known(&oracle_id)).unwrap_or(oracle_id))
}
