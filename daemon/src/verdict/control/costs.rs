//! `GET /v1/costs`: the costs of the models.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use axum::Json;
use axum::extract::State;
use domain_verdict::cost::day_of;
use oracled_api::verdict::{CostsParams, CostsResponse};
use std::sync::Arc;

problems!(CostsProblems: STORE);

/// Read the costs of the models by UTC day, application, model and tier.
#[utoipa::path(
    get,
    path = "/v1/costs",
    operation_id = "read_costs",
    tag = "verdict",
    params(CostsParams),
    responses(
        CostsProblems,
        (status = 200, description = "The costs, the earliest day first, and the daily budgets", body = CostsResponse),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<CostsParams>,
) -> Result<Json<CostsResponse>, Problem> {
    let (since, until) = (params.since.map(day_of), params.until.map(day_of));
    let store = service.system.store.clone();
    let costs = run_blocking(move || store.costs(since, until)).await?;
    let costs = costs.into_iter().flat_map(|day| day.sums).collect();
    Ok(Json(CostsResponse { costs, budgets: service.system.daily_budgets()? }))
}
