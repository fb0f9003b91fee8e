//! `/v1/sources/{oracle_id}/adapter`: how a live source is asked, and how its answer is read.

use super::source;
use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use oracled_domain::Peer;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verification::adapter::{Adapter, RegisteredAdapter};
use std::sync::Arc;

/// The adapter of a source.
///
/// # Errors
/// `SourceUnknown`; `AdapterUnknown` where it has none.
pub async fn get(
    State(service): State<Arc<Service>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RegisteredAdapter>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    source::known(&service, &oracle_id)?;
    let unknown = || Problem::new(ProblemCode::AdapterUnknown, format!("source {oracle_id} has no adapter"));
    let (registered, _) = service.system.store.adapter(&oracle_id)?.ok_or_else(unknown)?;
    Ok(Json(registered))
}

/// Gives a live source an adapter, or another one.
///
/// # Errors
/// `InvalidDocument`, `SourceUnknown`; `DocumentFixed` where the source is not live; where the entry cannot be committed, and
/// then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<RegisteredAdapter>>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let adapter: Box<Adapter> = document.read()?;
    check_named("oracle_id", &oracle_id, &adapter.oracle_id)?;
    act(async move { Ok(registered(service.system.registry.register(&*adapter, peer).await?)) }).await
}
