//! `/v1/sources/{oracle_id}/freshness`: the age of a source's data, and the allowed age.

use super::source;
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_ground::registry::{RegistryError, policy_of};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_ground::id::SourceId;
use oracled_api::ground::FreshnessReport;
use std::sync::Arc;

problems!(FreshnessProblems: STORE; SourceUnknown OntologyUnknown);

/// Read the freshness of a source by the policy in force.
#[utoipa::path(
    get,
    path = "/v1/sources/{oracle_id}/freshness",
    operation_id = "read_freshness",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        FreshnessProblems,
        (status = 200, description = "The freshness", body = FreshnessReport),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<FreshnessReport>, Problem> {
    let state = source::find_source(&service, &parse_name(oracle_id)?)?;
    let registration = &state.entry.registration;
    let reference = &registration.ontology;
    let ontology = service.system.store.ontology(reference)?;
    let unknown = || RegistryError::OntologyUnknown(reference.clone());
    let policy = policy_of(&state, &ontology.ok_or_else(unknown)?);
    let axes: Vec<_> = registration.axes_provided.iter().map(String::as_str).collect();
    let (invalidated_at, now) = (state.stale_since(), service.system.clock.now());
    let in_force = state.entry.version_in_force(state.present(now));
    let released_at = in_force.map(|version| version.released_at);
    Ok(Json(FreshnessReport {
        now: policy.evaluate(&axes, released_at, invalidated_at, now),
        current_version: in_force.map(|version| version.version.clone()),
        released_at,
        is_default: state.policy.is_none(),
        invalidated_at,
        policy,
    }))
}
