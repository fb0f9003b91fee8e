//! `POST /v1/prompts/try`: tries a prompt template.

use crate::platform::api::request::JsonBody;
use crate::platform::openapi::problems;
use crate::platform::openapi::{JSON_BODY, STORE};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::config::CommonPromptTemplate;
use crate::verdict::problem::MODEL;
use crate::verdict::request::parse_model_query;
use actors_verdict::generation::{
    GenerationError, PromptError, PromptTrial, PromptTrialResult, find_prompt_template,
};
use actors_verdict::orders::TryPrompt;
use axum::Json;
use axum::extract::State;
use domain_base::document::Document;
use domain_base::problem::INVALID_DOCUMENT;
use domain_verdict::problem::QUERY_TOO_LONG;
use domain_verdict::prompt::PromptTemplate;
use domain_verdict::wire::{PromptTryRequest, PromptTryResponse};
use std::sync::Arc;

problems!(TryProblems: JSON_BODY STORE MODEL; INVALID_DOCUMENT QUERY_TOO_LONG);

/// Ask the model once with a prompt template, and judge its answer.
///
/// The model gets the settings of first verdicts. No verdict is stored or delivered; the log has the model's calls and the
/// decision with the path `try`. Trials use at most half of the limits of model calls.
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
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Json<PromptTryResponse>, Problem> {
    let PromptTryRequest { template, tier, query } = body.parse()?;
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
        let tried = orders.ask(TryPrompt(PromptTrial { template, tier, query })).await?;
        tried.map_err(|failed| Problem::model_call_failed(&failed))
    });
    let PromptTrialResult { decision, usage, cost } = tried.await?;
    let (decision, failure) = match decision {
        Ok(decision) => (Some(decision), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(Json(PromptTryResponse { template: reference, decision, failure, usage, cost }))
}
