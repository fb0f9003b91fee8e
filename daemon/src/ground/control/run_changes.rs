//! `GET /v1/runs/{run_id}/changes`: what a run changes, or would change if it is approved.

use super::run;
use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use oracled_api::base::page::ListPage;
use oracled_api::ground::{RunChangeReport, RunChangesParams};
use oracled_store::StoreError;
use std::sync::Arc;

problems!(ChangesProblems: RUN STORE; SourceDamaged);

/// List the changes of a run, with the raw records before and after them.
///
/// A held run has the changes that it would make to the records at the end of its reading. To find their raw records, its payload is
/// read from the beginning.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/changes",
    operation_id = "list_run_changes",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits"), RunChangesParams),
    responses(
        ChangesProblems,
        (status = 200, description = "A page of changes", body = ListPage<RunChangeReport>),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    run_id: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<RunChangesParams>,
) -> Result<Json<ListPage<RunChangeReport>>, Problem> {
    let RunChangesParams { after, limit } = params;
    let store = service.system.store.clone();
    let run = run::find_run(&store, run_id)?;
    let read = run_blocking(move || -> Result<_, StoreError> {
        let changes = store.run_changes(&run, after, *limit + 1)?.into_iter();
        let changes = changes.map(|change| RunChangeReport {
            number: change.ordinal,
            kind: change.entry.kind,
            source_record_id: change.entry.source_record_id,
            record_id: change.record_id,
            valid_from: change.entry.valid_from,
            valid_until: change.entry.valid_until,
            before: change.before,
            after: change.after,
        });
        Ok(ListPage::from_items(changes.collect(), *limit, |change: &RunChangeReport| {
            change.number.to_string()
        }))
    });
    Ok(Json(read.await?))
}
