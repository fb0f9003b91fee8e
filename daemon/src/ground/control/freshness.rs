//! `/v1/sources/{oracle_id}/freshness`: how old what a source says may be, and how old it is.

use super::source;
use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::ground::registry::{RegistryError, policy_of};
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::FreshnessReport;
use oracled_domain::Peer;
use oracled_domain::ground::freshness::FreshnessPolicy;
use oracled_domain::ground::id::SourceId;
use std::sync::Arc;

/// How fresh a source is by the policy in force.
///
/// # Errors
/// `SourceUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<FreshnessReport>, Problem> {
    let state = source::known(&service, &named(oracle_id)?)?;
    let registration = &state.entry.registration;
    let reference = &registration.ontology;
    let ontology = service.system.store.ontology(reference)?;
    let unknown = || RegistryError::OntologyUnknown(reference.clone());
    let policy = policy_of(&state, &ontology.ok_or_else(unknown)?.0);
    let axes: Vec<_> = registration.axes_provided.iter().map(String::as_str).collect();
    let (invalidated_at, now) = (state.stale_since(), service.system.clock.now());
    // in the order of their releases, some of which may lie ahead
    let present = state.present(now);
    let in_force = state.entry.version_history.iter().rfind(|version| version.released_at <= present);
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

/// Gives a source a policy.
///
/// # Errors
/// `InvalidDocument`, `SourceUnknown`; where the entry cannot be committed, and then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<FreshnessPolicy>>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let policy: FreshnessPolicy = document.read()?;
    check_named("oracle_id", &oracle_id, &policy.oracle_id)?;
    act(async move { Ok(registered(service.system.registry.register(&policy, peer).await?)) }).await
}
