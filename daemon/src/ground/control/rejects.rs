//! `GET /v1/runs/{run_id}/rejects`: the records that a run rejected, with the reasons.

use super::run;
use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_ground::run::IngestionRun;
use oracled_api::base::page::ListPage;
use oracled_api::ground::{RejectReport, RejectsParams};
use oracled_store::{Store, StoreError};
use std::iter;
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
        (status = 200, description = "A page of rejects", body = ListPage<RejectReport>),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    run_id: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<RejectsParams>,
) -> Result<Json<ListPage<RejectReport>>, Problem> {
    let store = service.system.store.clone();
    let run = run::find_run(&store, run_id)?;
    Ok(Json(run_blocking(move || read_page(&store, &run, params)).await?))
}

fn read_page(
    store: &Store,
    run: &IngestionRun,
    RejectsParams { after, raw, limit }: RejectsParams,
) -> Result<ListPage<RejectReport>, StoreError> {
    let rejects = store.rejects(run, after, *limit + 1)?;
    let ListPage { items, next } =
        ListPage::from_items(rejects, *limit, |reject| reject.position.to_string());
    let texts = if raw {
        let places = items.iter().map(|reject| (reject.offset, reject.len));
        store.raw_texts(&run.oracle_id, &run.input.raw_sha256, places)?
    } else {
        Vec::new()
    };
    let texts = texts.into_iter().map(Some).chain(iter::repeat(None));
    let items = items.into_iter().zip(texts).map(|(reject, raw_text)| RejectReport { reject, raw_text });
    Ok(ListPage { items: items.collect(), next })
}
