//! `/v1/rules`: Oracle-A, which checks text against facts.

mod batch;

use crate::platform::openapi::{CommonProblems, problems};
pub use batch::*;
use oracled_api::base::problem::ProblemCode;
use oracled_api::rules::EvaluateTextRequest;

use crate::platform::api::request::{JsonBody, RequestedCase, SourcedCheck};
use crate::platform::api::reserved_body::json_response;
use crate::platform::api::reserved_body::{self, ReservedBody};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use domain_rules::{RuleId, RulesEvaluation};
use hyper::StatusCode;
use oracled_api::rules::{RegisteredRule, RulesResponse};
use std::sync::Arc;
use strum::VariantArray;

/// List the registered rules.
///
/// Every rule has its definition, its digest, and whether it applies if a request names no rules.
#[utoipa::path(
    get,
    path = "/v1/rules",
    operation_id = "list_rules",
    tag = "rules",
    responses(
        CommonProblems,
        (status = 200, description = "The registry of rules", body = RulesResponse),
    ),
)]
pub async fn list(State(service): State<Arc<DaemonService>>) -> Json<RulesResponse> {
    let settings = service.system.rules.settings();
    let registered = |id: &RuleId| {
        let rule = id.rule();
        RegisteredRule { rule, sha256: rule.sha256(), in_profile: settings.profile.contains(id) }
    };
    let rules = RuleId::VARIANTS.iter().map(registered).collect();
    Json(RulesResponse { rules, unsupported_max: settings.unsupported_max })
}

problems!(EvaluateProblems: JSON_BODY STORE QUERY VERIFY FACTS);

/// Check a text against facts.
///
/// The evaluation is logged.
#[utoipa::path(
    post,
    path = "/v1/rules/evaluate",
    operation_id = "evaluate_text",
    tag = "rules",
    request_body = EvaluateTextRequest,
    responses(
        EvaluateProblems,
        (status = 200, description = "The evaluation, as canonical JSON, with any verdict", body = RulesEvaluation),
    ),
)]
pub async fn evaluate(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let case = RequestedCase::from_request(body.parse()?, service.system.rules.settings())?;
    let SourcedCheck { request: case, held } = case.gather_facts(&service).await?;
    let room =
        reserved_body::reserve_rules_response(body.length_bytes() + held.length_bytes(), &service).await?;
    let rules = service.system.rules.clone();
    let mut evaluations = service.run_work(async move { Ok(rules.evaluate(vec![case]).await?) }).await?;
    let evaluation = evaluations
        .pop()
        .ok_or_else(|| Problem::new(ProblemCode::InternalError, "no evaluation was returned"))?;
    let json = serde_json::to_vec(&evaluation).expect("an evaluation is plain data with string keys");
    Ok(json_response(StatusCode::OK, ReservedBody::new(json, Some(room))))
}
