//! `GET /v1/runs/{run_id}/rejects`: the records that a run rejected, with the reasons.

use super::run;
use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use oracled_api::base::page::ListPage;
use oracled_api::ground::RejectsParams;
use oracled_domain::ground::rejection::RejectedRecord;
use std::sync::Arc;

problems!(RejectsProblems: RUN STORE; SourceDamaged);

/// List the records that a run rejected, with the reasons.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/rejects",
    operation_id = "list_rejects",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits"), RejectsParams),
    responses(
        RejectsProblems,
        (status = 200, description = "A page of rejects", body = ListPage<RejectedRecord>),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    run_id: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<RejectsParams>,
) -> Result<Json<ListPage<RejectedRecord>>, Problem> {
    let RejectsParams { after, limit } = params;
    let run = run::find_run(&service.system.store, run_id)?;
    let rejects = service.system.store.rejects(&run, after, *limit + 1)?;
    Ok(Json(ListPage::from_items(rejects, *limit, |reject| reject.position.to_string())))
}
