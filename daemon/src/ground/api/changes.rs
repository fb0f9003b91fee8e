//! `GET /v1/changes`: what became valid, was superseded or withdrawn, in the order in which it became known.

use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::Service;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use oracled_actors::ground::queries::ChangesPage;
use oracled_domain::ground::id::SourceId;
use serde::Deserialize;
use std::sync::Arc;

/// The most changes in one answer.
pub const LIMIT_MAX: usize = 10_000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 1000;

/// Which changes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those behind this place: what an earlier answer gave as `next`; from the beginning where it is left out.
    since: Option<String>,
    /// Only those of this source.
    #[param(value_type = Option<String>)]
    oracle_id: Option<SourceId>,
    /// How many at the most: 1000, or up to 10000.
    limit: Option<usize>,
}

/// The changes behind a place. `next` is where to go on, at the end too, since more will come.
///
/// # Errors
/// `invalid_request` where the place is none; `source_unknown`, `source_silent`.
#[utoipa::path(
    get,
    path = "/v1/changes",
    params(Asked),
    responses(
        (status = 200, description = "`{changes: [{kind, oracle_id, run_id, source_version, known_at, record_id, source_record_id, valid_from, valid_until, superseded_by}], next, more, withheld?}`: `withheld` names sources that do not answer, whose changes are left out", body = Object),
        (status = "4XX", description = "The request is invalid, the source is not registered, or it does not answer", body = ProblemDocument),
        (status = "5XX", description = "It cannot be told for now", body = ProblemDocument),
    ),
)]
pub async fn get(
    State(service): State<Arc<Service>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<ChangesPage>, Problem> {
    let Query(Asked { since, oracle_id, limit }) =
        asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    let since = since.as_deref().map(str::parse).transpose();
    let since = since.map_err(|error: oracled_actors::ground::queries::BadPlace| {
        Problem::InvalidRequest(format!("`since`: {error}"))
    })?;
    let queries = service.system.queries.clone();
    let page = service.work(async move { Ok(queries.changes(since, oracle_id, limit).await?) }).await?;
    Ok(Json(page))
}
