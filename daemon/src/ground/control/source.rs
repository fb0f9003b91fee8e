//! `/v1/sources/{oracle_id}`: the state of a source, and the operations of administrators on it.

use crate::platform::control::control_request::{ControlBody, check_reason, parse_name};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_ground::registry::{SourceInvalidation, SourceReviewDecision};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::moment::Moment;
use domain_ground::event::InvalidationCause;
use domain_ground::id::SourceId;
use domain_ground::source::SourceRegistryEntry;
use domain_ground::source_state::SourceState;
use oracled_api::base::problem::ProblemCode;
use oracled_api::ground::{ReasonRequest, SourceReport, SourceReviewRequest};
use std::sync::Arc;

problems!(ReadProblems: STORE; SourceUnknown);

/// Read a source, with its last check and the check in progress.
#[utoipa::path(
    get,
    path = "/v1/sources/{oracle_id}",
    operation_id = "read_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The source", body = SourceReport),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<SourceReport>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let entry = find_source(&service, &oracle_id)?.entry;
    let last_check = service.system.store.source_check(&oracle_id);
    Ok(Json(SourceReport { entry, last_check, checking: service.checks.get(&oracle_id) }))
}

problems!(ReviewProblems: DOCUMENT_BODY STORE; SourceUnknown ReviewRefused);

/// Approve a source, or set its deprecation date.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/review",
    operation_id = "review_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = SourceReviewRequest,
    responses(
        ReviewProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn review(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let review = match body.read()? {
        SourceReviewRequest::Approve {} => SourceReviewDecision::Approve,
        SourceReviewRequest::Deprecate(Moment(date)) => SourceReviewDecision::Deprecate(date),
    };
    run_to_end(async move { Ok(Json(service.system.registry.review(&oracle_id, review, peer).await?)) }).await
}

problems!(InvalidateProblems: DOCUMENT_BODY STORE; SourceUnknown);

/// Mark all data of a source as stale until the next run.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/invalidate",
    operation_id = "invalidate_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ReasonRequest,
    responses(
        InvalidateProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn invalidate(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let detail = parse_reason(&body)?;
    run_to_end(async move {
        let trigger = InvalidationCause::Manual;
        let invalidation = SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer };
        service.system.registry.invalidate(invalidation).await?;
        Ok(Json(find_source(&service, &oracle_id)?.entry))
    })
    .await
}

problems!(ConfirmProblems: DOCUMENT_BODY STORE; SourceUnknown NotInvalidated);

/// Confirm the data of an invalidated source.
///
/// The source no longer counts as stale, unless its data is too old.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/confirm",
    operation_id = "confirm_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ReasonRequest,
    responses(
        ConfirmProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn confirm(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let detail = parse_reason(&body)?;
    run_to_end(async move {
        service.system.registry.confirm(&oracle_id, detail, peer).await?;
        Ok(Json(find_source(&service, &oracle_id)?.entry))
    })
    .await
}

pub(crate) fn parse_reason(body: &ControlBody) -> Result<String, Problem> {
    let ReasonRequest { reason } = body.read()?;
    check_reason(&reason)?;
    Ok(reason)
}

/// The stored state of a source.
pub(crate) fn find_source(service: &DaemonService, oracle_id: &SourceId) -> Result<SourceState, Problem> {
    let known = service.system.store.source(oracle_id)?;
    let unknown = || Problem::new(ProblemCode::SourceUnknown, format!("no source {oracle_id} is registered"));
    Ok(known.ok_or_else(unknown)?.0)
}
