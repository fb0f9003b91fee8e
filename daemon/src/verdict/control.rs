//! Handlers of verdicts and sessions on the control socket.

pub mod erasures;
pub(crate) mod inbox;
pub mod legal_holds;
pub mod orders;
pub mod outbox;
pub mod recall_notices;
pub mod recalls;
pub mod session;

use crate::platform::api::request::{JsonBody, QueryParams};
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_blocking};
use crate::verdict::MODEL;
use crate::verdict::api::{parse_model_query, verdicts};
use crate::verdict::config::CommonPromptTemplate;
use actors_upstream::oracle_health::PermitError;
use actors_verdict::generation::{
    GenerationError, PromptError, PromptTrial, PromptTrialResult, find_prompt_template,
};
use actors_verdict::orders::TryPrompt;
use actors_verdict::regen::ReadVariance;
use axum::Json;
use axum::extract::State;
use domain_base::document::Document;
use domain_base::event::{Event, LoggedEvent};
use domain_base::problem::INVALID_DOCUMENT;
use domain_verdict::cost::day_of;
use domain_verdict::divergence::DivergenceTable;
use domain_verdict::event::RegenDivergenceCheck;
use domain_verdict::problem::{MODEL_BUSY, QUERY_TOO_LONG};
use domain_verdict::prompt::PromptTemplate;
use domain_verdict::wire::{
    CostsParams, CostsResponse, DivergenceParams, DivergenceResponse, PromptTryRequest, PromptTryResponse,
};
use jiff::Timestamp;
use oracled_store::{LogQuery, Store, StoreError};
use std::sync::Arc;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![
        read_costs,
        read_divergence,
        outbox::list_mails,
        outbox::requeue_mail,
        outbox::drop_mail,
        outbox::list_webhooks,
        outbox::test_webhook,
        outbox::list_webhook_endpoints,
        outbox::resume_webhooks,
        outbox::requeue_webhook,
        outbox::drop_webhook,
        orders::list,
        orders::get,
        orders::change,
        orders::read_held,
        recalls::list_recalls,
        recall_notices::list_notices,
        recall_notices::read_notice,
        recall_notices::decide_notice,
        verdicts::read_verdict_as_operator,
        session::purge_verdict,
        session::export_session,
        erasures::erase_sessions,
        erasures::read_due_data,
        erasures::apply_retention,
        legal_holds::list_holds,
        legal_holds::place_hold,
        legal_holds::release_hold,
        session::read_session,
        session::correct_session,
        session::remove_session,
        try_prompt
    ]
}

/// The routes of the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    routes![
        orders::list_held,
        orders::get_held,
        orders::change_held,
        orders::read_held_for_reviewer,
        recall_notices::list_notices,
        recall_notices::read_notice,
        recall_notices::decide_notice
    ]
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
async fn read_costs(
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
async fn read_divergence(
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
    let events = vec![RegenDivergenceCheck::NAME.to_owned()];
    let mut query = LogQuery { events, since, limit: AT_ONCE, ..LogQuery::default() };
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

problems!(TryProblems: JSON_BODY STORE MODEL; INVALID_DOCUMENT QUERY_TOO_LONG);

/// Ask the first configured model once with a prompt template, and judge its answer.
///
/// The model gets the settings of first verdicts. A wait that it requests is reported as `model_busy`, and no fallback is
/// asked instead. No verdict is stored or delivered; the log has the model's calls and the decision with the path `try`.
/// Trials use at most half of the limits of model calls.
#[utoipa::path(
    post,
    path = "/v1/prompts/try",
    operation_id = "try_prompt",
    tag = "verdict",
    request_body = PromptTryRequest,
    responses(
        TryProblems,
        (status = 200, description = "The result of the trial", body = PromptTryResponse),
    ),
)]
pub async fn try_prompt(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Json<PromptTryResponse>, Problem> {
    let PromptTryRequest { template, tier, query, check_only } = body.parse()?;
    let query = parse_model_query(query, &service.limits)?;
    let template = match template {
        Some(template) if PromptTemplate::built_in_versions().contains(&template) => template,
        Some(template) => {
            let invalid = |error: &dyn ToString| Problem::new(INVALID_DOCUMENT, error.to_string());
            template.validate().map_err(|error| invalid(&error))?;
            template
        }
        None => {
            let CommonPromptTemplate(name) = service.section();
            let found = find_prompt_template(&service.system.store, name);
            found.map_err(|error| match error {
                PromptError::Store(error) => error.into(),
                error => Problem::model_call_failed(&GenerationError::Prompt(error)),
            })?
        }
    };
    let reference = template.reference();
    let orders = service.system.orders.clone();
    let tried = service.run_work(async move {
        let tried = orders.ask(TryPrompt(PromptTrial { template, tier, query, check_only })).await?;
        tried.map_err(|failed| match &failed {
            // as after a limit of calls, the client continues after the wait
            GenerationError::NotPermitted { error: PermitError::RequestedWait { .. }, retry_after } => {
                Problem::new(MODEL_BUSY, failed.to_string()).retry_after(*retry_after)
            }
            failed => Problem::model_call_failed(failed),
        })
    });
    let PromptTrialResult { oracle_id, model, decision, failure, usage, cost } = tried.await?;
    let failure = failure.map(|failure| failure.reveal().to_owned());
    Ok(Json(PromptTryResponse { template: reference, oracle_id, model, decision, failure, usage, cost }))
}
