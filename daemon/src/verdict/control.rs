//! Handlers of verdicts and sessions on the control socket.

pub mod erasures;
pub mod held_orders;
pub mod orders;
pub mod outbox;
pub mod prompts;
pub mod retention;
pub mod session;

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::STORE;
use crate::platform::openapi::{Routes, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::regen::ReadVariance;
use axum::Json;
use axum::extract::State;
use domain_base::event::{Event, LoggedEvent};
use domain_verdict::cost::day_of;
use domain_verdict::divergence::DivergenceTable;
use domain_verdict::event::RegenDivergenceCheck;
use domain_verdict::wire::{CostsParams, CostsResponse, DivergenceParams, DivergenceResponse};
use jiff::Timestamp;
use oracled_store::{LogQuery, Store, StoreError};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(read_costs))
        .routes(routes!(read_divergence))
        .routes(routes!(outbox::list_mails))
        .routes(routes!(outbox::requeue_mail, outbox::drop_mail))
        .routes(routes!(outbox::list_webhooks))
        .routes(routes!(outbox::test_webhook))
        .routes(routes!(outbox::requeue_webhook, outbox::drop_webhook))
        .routes(routes!(orders::list))
        .routes(routes!(orders::get, orders::post))
        .routes(routes!(orders::read_held))
        .routes(routes!(session::purge_verdict))
        .routes(routes!(session::export_session))
        .routes(routes!(erasures::post))
        .routes(routes!(retention::get, retention::post))
        .routes(routes!(session::read_session, session::correct_session, session::remove_session))
        .routes(routes!(prompts::post))
}

/// The routes of the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(held_orders::list))
        .routes(routes!(held_orders::get, held_orders::post))
        .routes(routes!(held_orders::read_held))
}

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
pub async fn read_costs(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<CostsParams>,
) -> Result<Json<CostsResponse>, Problem> {
    let (since, until) = (params.since.map(day_of), params.until.map(day_of));
    let store = service.system.store.clone();
    let costs = run_blocking(move || store.costs(since, until)).await?;
    let costs = costs.into_iter().flat_map(|day| day.sums).collect();
    Ok(Json(CostsResponse { costs, budgets: service.system.daily_budgets()? }))
}

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
pub async fn read_divergence(
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
