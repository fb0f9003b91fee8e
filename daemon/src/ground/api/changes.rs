//! `GET /v1/changes`: records that became valid, were superseded or were withdrawn, in the order in which
//! that became known.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_ground::queries::{ChangesPage, QueryError};
use axum::Json;
use axum::extract::State;
use oracled_api::ground::ChangesParams;
use std::sync::Arc;

problems!(ChangesProblems: STORE; SourceUnknown SourceLive SourceSilent SourceDamaged);

/// List the changes of records after a position.
///
/// Changes are in the order in which they became known: a version became valid, was superseded, was withdrawn, and so on.
/// `next` is the `since` for the next request, even at the end, since more changes may follow. `withheld` names sources
/// that do not answer, whose changes are left out. Once such a source is approved, a request with its `oracle_id` returns
/// its changes from the beginning.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "list_changes",
    tag = "ground",
    params(ChangesParams),
    responses(
        ChangesProblems,
        (status = 200, description = "The changes", body = ChangesPage),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<ChangesParams>,
) -> Result<Json<ChangesPage>, Problem> {
    let ChangesParams { since, oracle_id, limit } = params;
    let since = since.as_deref().map(str::parse).transpose().map_err(QueryError::Position)?;
    let queries = service.system.queries.clone();
    let page = service.run_work(async move { Ok(queries.changes(since, oracle_id, *limit).await?) }).await?;
    Ok(Json(page))
}
