//! `/v1/sources`: who may be asked, and how far to trust them.

use crate::platform::control::document::{Document, check_named, registered};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::ground::registry::{Invalidation, Review};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::{CheckedSource, ReasonRequest, SourceReviewRequest};
use oracled_domain::Peer;
use oracled_domain::audit::event::ground::InvalidationCause;
use oracled_domain::base::blank::is_blank;
use oracled_domain::base::moment::Moment;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::source::{Registration, SourceRegistryEntry};
use oracled_store::ground::state::SourceState;
use std::sync::Arc;

/// The longest reason for an invalidation or a confirmation, in bytes: it stands in the log.
const REASON_MAX_BYTES: usize = 1024;

/// Every source without its versions, in the order of their ids.
///
/// # Errors
/// Where the store cannot be read.
pub async fn list(State(service): State<Arc<Service>>) -> Result<Json<Vec<SourceRegistryEntry>>, Problem> {
    let sources = service.system.store.sources()?;
    Ok(Json(sources.iter().map(|state| state.entry.without_history()).collect()))
}

/// A source, with its last check and the check in progress.
///
/// # Errors
/// `SourceUnknown`.
pub async fn get(
    State(service): State<Arc<Service>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<CheckedSource>, Problem> {
    let oracle_id = named(oracle_id)?;
    let entry = known(&service, &oracle_id)?.entry;
    let last_check = service.system.store.source_check(&oracle_id)?;
    Ok(Json(CheckedSource { entry, last_check, checking: service.checks.get(&oracle_id) }))
}

/// Registers a source, or describes one otherwise.
///
/// # Errors
/// `InvalidDocument`, `OntologyUnknown`; `DocumentFixed` where its records depend on what would change; where the entry
/// cannot be committed, and then nothing changes.
pub async fn put(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<RegisteredDocument<SourceRegistryEntry>>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let registration: Box<Registration> = document.read()?;
    check_named("oracle_id", &oracle_id, &registration.oracle_id)?;
    act(async move { Ok(registered(service.system.registry.register(&*registration, peer).await?)) }).await
}

/// Lets a source answer, or tells when it will cease to.
///
/// # Errors
/// `SourceUnknown`, `ReviewRefused`, `InvalidRequest`; where the entry cannot be committed, and then nothing changes.
pub async fn review(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id = named(oracle_id)?;
    let review = match document.read()? {
        SourceReviewRequest::Approve {} => Review::Approve,
        SourceReviewRequest::Deprecate(Moment(date)) => Review::Deprecate(date),
    };
    act(async move { Ok(Json(service.system.registry.review(&oracle_id, review, peer).await?)) }).await
}

/// Declares all that a source has said stale, until a run follows. Answers the source.
///
/// # Errors
/// `SourceUnknown`, `InvalidRequest`; where the entry cannot be committed, and then nothing changes.
pub async fn invalidate(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let detail = reason(&document)?;
    act(async move {
        let trigger = InvalidationCause::Manual;
        let invalidation = Invalidation { oracle_id: oracle_id.clone(), trigger, detail, peer };
        service.system.registry.invalidate(invalidation).await?;
        Ok(Json(known(&service, &oracle_id)?.entry))
    })
    .await
}

/// Takes back that all that a source has said counts as stale. Answers the source.
///
/// # Errors
/// `SourceUnknown`, `InvalidRequest`, `NotInvalidated`; where the entry cannot be committed, and then nothing changes.
pub async fn confirm(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let detail = reason(&document)?;
    act(async move {
        service.system.registry.confirm(&oracle_id, detail, peer).await?;
        Ok(Json(known(&service, &oracle_id)?.entry))
    })
    .await
}

/// What a document gives as the reason.
pub(crate) fn reason(document: &Document) -> Result<String, Problem> {
    let ReasonRequest { reason } = document.read()?;
    if is_blank(&reason) || reason.len() > REASON_MAX_BYTES {
        let told = format!(
            "`reason` has {} bytes; it must hold visible text of at most {REASON_MAX_BYTES} bytes",
            reason.len()
        );
        return Err(Problem::new(ProblemCode::InvalidRequest, told));
    }
    Ok(reason)
}

/// A source as the store has it.
pub(crate) fn known(service: &Service, oracle_id: &SourceId) -> Result<SourceState, Problem> {
    let known = service.system.store.source(oracle_id)?;
    let unknown = || Problem::new(ProblemCode::SourceUnknown, format!("no source {oracle_id} is registered"));
    Ok(known.ok_or_else(unknown)?.0)
}
