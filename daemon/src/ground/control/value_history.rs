//! `POST /v1/sources/{oracle_id}/history`: the history of a value on both axes of time.

use crate::platform::control::control_request::{ControlBody, parse_name};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_ground::id::SourceId;
use domain_ground::query::QueryRequest;
use domain_ground::query::answer::ValueHistory;
use oracled_api::ground::ValueHistoryRequest;
use std::sync::Arc;

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
pub async fn post(
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
