//! `GET /v1/divergence`: the number of regenerated verdicts by first and regenerated label, counted from the log.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::regen::ReadVariance;
use axum::Json;
use axum::extract::State;
use domain_base::event::{Event, LoggedEvent};
use domain_verdict::divergence::DivergenceTable;
use domain_verdict::event::RegenDivergenceCheck;
use jiff::Timestamp;
use oracled_api::verdict::{DivergenceParams, DivergenceResponse};
use oracled_store::{LogQuery, Store, StoreError};
use std::sync::Arc;

/// Number of log entries that are read at a time.
const AT_ONCE: usize = 1000;

problems!(DivergenceProblems: STORE);

/// Read how often regenerated verdicts differ from the delivered ones.
#[utoipa::path(
    get,
    path = "/v1/divergence",
    operation_id = "read_divergence",
    tag = "verdict",
    params(DivergenceParams),
    responses(
        DivergenceProblems,
        (status = 200, description = "The table, counted from the log, and the latest statistics", body = DivergenceResponse),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<DivergenceParams>,
) -> Result<Json<DivergenceResponse>, Problem> {
    let DivergenceParams { since } = params;
    let store = service.system.store.clone();
    let table = run_blocking(move || count_divergences(&store, since)).await?;
    let variance = service.system.regen.ask(ReadVariance).await?;
    Ok(Json(DivergenceResponse { table, variance }))
}

fn count_divergences(store: &Store, since: Option<Timestamp>) -> Result<DivergenceTable, StoreError> {
    let mut table = DivergenceTable::default();
    let event = Some(RegenDivergenceCheck::NAME.to_owned());
    let mut query = LogQuery { event, since, limit: AT_ONCE, ..LogQuery::default() };
    loop {
        let lines = store.log(&query)?;
        let Some(last) = lines.last() else { return Ok(table) };
        query.after = last.seq;
        for line in &lines {
            if let Ok(Some(entry)) = LoggedEvent::<RegenDivergenceCheck>::read(&line.json) {
                table.count(&entry.event.0);
            }
        }
    }
}
