//! `GET /v1/changes`: records that became valid, were superseded or were withdrawn, in the order in which that became known.

use crate::platform::api::request::QueryParams;
use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use oracled_actors::ground::queries::ChangesPage;
use oracled_api::base::problem::ProblemCode;
use oracled_api::ground::ChangesParams;
use std::sync::Arc;

/// The changes after `since`. `next` is the `since` for the next request, even at the end, since more changes may follow.
///
/// Changes are in the order in which they became known: a version became valid, was superseded, was withdrawn, and so on.
/// `withheld` names sources that do not answer, whose changes are left out. Once such a source is approved, a request
/// with its `oracle_id` returns its changes from the beginning.
///
/// # Errors
/// `invalid_request` if `since` is invalid; `source_unknown`, `source_silent`.
#[utoipa::path(
    get,
    path = "/v1/changes",
    params(ChangesParams),
    responses(
        (status = 200, description = "`{changes: [{kind, oracle_id, run_id, source_version, known_at, record_id, source_record_id, valid_from, valid_until, superseded_by}], next, more, withheld?}`: `withheld` names sources that do not answer, whose changes are left out", body = Object),
        (status = "4XX", description = "The request is invalid, the source is not registered, or it does not answer", body = ProblemDocument),
        (status = "5XX", description = "The changes are not available now", body = ProblemDocument),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<ChangesParams>,
) -> Result<Json<ChangesPage>, Problem> {
    let ChangesParams { since, oracle_id, limit } = params;
    let since = since.as_deref().map(str::parse).transpose();
    let since = since.map_err(|error: oracled_actors::ground::queries::FeedPositionError| {
        Problem::new(ProblemCode::InvalidRequest, format!("`since`: {error}"))
    })?;
    let queries = service.system.queries.clone();
    let page = service.run_work(async move { Ok(queries.changes(since, oracle_id, *limit).await?) }).await?;
    Ok(Json(page))
}
