//! `/v1/sources/{oracle_id}`: the state of a source, its freshness, the history of its values, and the operations of administrators on it.

use super::upkeep::SourceChecks;
use crate::ground::problem::QUERY;
use crate::platform::control::control_request::{ControlBody, check_reason, parse_name};
use crate::platform::openapi::problems;
use crate::platform::openapi::{DOCUMENT_BODY, STORE};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_ground::registry::{RegistryError, SourceInvalidation, SourceReviewDecision, policy_of};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::moment::Moment;
use domain_ground::event::InvalidationCause;
use domain_ground::id::SourceId;
use domain_ground::problem::{NOT_INVALIDATED, ONTOLOGY_UNKNOWN, REVIEW_REFUSED, SOURCE_UNKNOWN};
use domain_ground::query::{QueryRequest, ValueHistory};
use domain_ground::source::SourceRegistryEntry;
use domain_ground::source_state::SourceState;
use domain_ground::wire::{
    FreshnessReport, ReasonRequest, SourceReport, SourceReviewRequest, ValueHistoryRequest,
};
use std::sync::Arc;

problems!(ReadProblems: STORE; SOURCE_UNKNOWN);

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
pub async fn read_source(
    State(service): State<Arc<DaemonService>>,
    Extension(checks): Extension<SourceChecks>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<SourceReport>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let entry = find_source(&service, &oracle_id)?.entry;
    let last_check = service.system.store.source_check(&oracle_id);
    Ok(Json(SourceReport { entry, last_check, checking: checks.get(&oracle_id) }))
}

problems!(ReviewProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN REVIEW_REFUSED);

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
pub async fn review_source(
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

problems!(InvalidateProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN);

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
pub async fn invalidate_source(
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

problems!(ConfirmProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN NOT_INVALIDATED);

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
pub async fn confirm_source(
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
    let unknown = || Problem::new(SOURCE_UNKNOWN, format!("no source {oracle_id} is registered"));
    Ok(known.ok_or_else(unknown)?.0)
}

problems!(FreshnessProblems: STORE; SOURCE_UNKNOWN ONTOLOGY_UNKNOWN);

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
pub async fn read_freshness(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<FreshnessReport>, Problem> {
    let state = find_source(&service, &parse_name(oracle_id)?)?;
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

problems!(HistoryProblems: DOCUMENT_BODY QUERY);

/// Read the history of a value: when it is valid, and when this daemon knew it so.
///
/// The filters fix all identity axes with `eq`. A question with `point_in_time` and `known_at` gets the value whose two
/// periods contain these times. Freshness is not checked. The log has one entry for it.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/history",
    operation_id = "read_value_history",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ValueHistoryRequest,
    responses(
        HistoryProblems,
        (status = 200, description = "The values with their periods", body = ValueHistory),
    ),
)]
pub async fn read_value_history(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<ValueHistory>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let ValueHistoryRequest { axis, filters } = body.read()?;
    let request = QueryRequest { axes_requested: vec![axis], filters, ..QueryRequest::default() };
    let queries = service.system.queries.clone();
    let read = service.run_work(async move { Ok(queries.value_history(&oracle_id, request).await?) });
    Ok(Json(read.await?))
}
