//! `/v1/ontologies`: which axes there are.

use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::OntologySummary;
use oracled_domain::Peer;
use oracled_domain::ground::ontology::{Ontology, OntologyRef};
use std::sync::Arc;

/// Every version of every ontology, in the order of their names.
///
/// # Errors
/// Where the store cannot be read.
pub async fn list(State(service): State<Arc<Service>>) -> Result<Json<Vec<OntologySummary>>, Problem> {
    let ontologies = service.system.store.ontologies()?;
    let listed = ontologies
        .iter()
        .map(|known| OntologySummary { ontology: known.reference(), axes: known.axes.len() });
    Ok(Json(listed.collect()))
}

/// A version of an ontology.
///
/// # Errors
/// `OntologyUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Ontology>, Problem> {
    let reference = referred(path)?;
    let known = service.system.store.ontology(&reference)?;
    let unknown =
        || Problem::new(ProblemCode::OntologyUnknown, format!("no ontology {reference} is registered"));
    Ok(Json(known.ok_or_else(unknown)?.0))
}

/// Registers a version of an ontology, which then stays as it is.
///
/// # Errors
/// `InvalidDocument`; `DocumentFixed` where the version is registered with other axes; where the entry cannot be
/// committed, and then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    path: Result<Path<(String, String)>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<Ontology>>, Problem> {
    let reference = referred(path)?;
    let ontology: Ontology = document.read()?;
    check_named("ontology_id", &reference.ontology_id, &ontology.ontology_id)?;
    check_named("version", &reference.version, &ontology.version)?;
    act(async move { Ok(registered(service.system.registry.register(&ontology, peer).await?)) }).await
}

fn referred(path: Result<Path<(String, String)>, PathRejection>) -> Result<OntologyRef, Problem> {
    let Path((ontology_id, version)) =
        path.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    Ok(OntologyRef { ontology_id: named(Ok(Path(ontology_id)))?, version })
}
