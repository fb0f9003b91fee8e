//! `/v1/pipelines`: how payloads become records.

use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::PipelineDetails;
use oracled_domain::Peer;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::{Definition, RegisteredPipeline};
use std::sync::Arc;

/// Every pipeline, in the order of their ids.
///
/// # Errors
/// Where the store cannot be read.
pub async fn list(State(service): State<Arc<Service>>) -> Result<Json<Vec<RegisteredPipeline>>, Problem> {
    Ok(Json(service.system.store.pipelines()?))
}

/// A pipeline with its definition.
///
/// # Errors
/// `PipelineUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    pipeline_id: Result<Path<String>, PathRejection>,
) -> Result<Json<PipelineDetails>, Problem> {
    known(&service, &named(pipeline_id)?).map(Json)
}

/// Registers a pipeline, or another definition of one.
///
/// # Errors
/// `InvalidDocument`, `SourceUnknown`; `DocumentFixed` where it brings the data of another source; where the entry cannot
/// be committed, and then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    pipeline_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<RegisteredPipeline>>, Problem> {
    let pipeline_id: PipelineId = named(pipeline_id)?;
    let definition: Box<Definition> = document.read()?;
    check_named("pipeline.pipeline_id", &pipeline_id, &definition.pipeline.pipeline_id)?;
    act(async move { Ok(registered(service.system.registry.register(&*definition, peer).await?)) }).await
}

/// A pipeline as the store has it.
pub(crate) fn known(service: &Service, pipeline_id: &PipelineId) -> Result<PipelineDetails, Problem> {
    let unknown =
        || Problem::new(ProblemCode::PipelineUnknown, format!("no pipeline {pipeline_id} is registered"));
    let store = &service.system.store;
    let (registered, _) = store.pipeline(pipeline_id)?.ok_or_else(unknown)?;
    let definition = store.definition(&registered.pipeline_sha256)?.ok_or_else(unknown)?;
    Ok(PipelineDetails { registered, definition })
}
