//! Handlers of Oracle-A on the routes' socket.

use crate::ground::problem::QUERY;
use crate::platform::api::batch::{BatchPart, BatchSender, to_line};
use crate::platform::api::body::{ReservedBody, json_response};
use crate::platform::api::request::{BatchLine, BatchLineReader, JsonBody};
use crate::platform::api::{batch, body, request};
use crate::platform::openapi::{CommonProblems, JSON_BODY, Routes, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::rules::problem::CHECK;
use crate::rules::sourced_check::{RequestedCase, SourcedCheck};
use crate::verification::problem::VERIFY;
use actors_rules::RuleService;
use axum::Json;
use axum::extract::{Request, State};
use axum::response::Response;
use domain_base::problem::{INTERNAL_ERROR, UNSUPPORTED_MEDIA_TYPE};
use domain_rules::wire::{BatchAnswer, EvaluateTextRequest, RegisteredRule, RulesResponse};
use domain_rules::{RuleId, RulesEvaluation};
use hyper::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use strum::VariantArray;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(list_rules)).routes(routes!(evaluate)).routes(routes!(evaluate_batch))
}

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
pub async fn list_rules(State(service): State<Arc<DaemonService>>) -> Json<RulesResponse> {
    let settings = service.system.rules.settings();
    let registered = |id: &RuleId| {
        let rule = id.rule();
        RegisteredRule { rule, sha256: rule.sha256(), in_profile: settings.profile.contains(id) }
    };
    let rules = RuleId::VARIANTS.iter().map(registered).collect();
    Json(RulesResponse { rules, unsupported_max: settings.unsupported_max })
}

problems!(EvaluateProblems: JSON_BODY STORE QUERY VERIFY CHECK);

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
    let case = RequestedCase::from_request(body.parse()?, &service.system.rules)?;
    let SourcedCheck { request: case, held } = case.gather_facts(&service).await?;
    let room = body::reserve_rules_response(body.length_bytes() + held.length_bytes(), &service).await?;
    let rules = service.system.rules.clone();
    let mut evaluations = service.run_work(async move { Ok(rules.evaluate(vec![case]).await?) }).await?;
    let evaluation =
        evaluations.pop().ok_or_else(|| Problem::new(INTERNAL_ERROR, "no evaluation was returned"))?;
    let json = serde_json::to_vec(&evaluation).expect("an evaluation is plain data with string keys");
    Ok(json_response(StatusCode::OK, ReservedBody::new(json, Some(room))))
}

problems!(BatchProblems: STORE; UNSUPPORTED_MEDIA_TYPE);

/// Check many texts against facts, one per line.
///
/// Each line is a request as of `POST /v1/rules/evaluate`. The answer has one line for each, in the same order. An invalid
/// line gets a problem as its answer, and the other lines are still evaluated.
#[utoipa::path(
    post,
    path = "/v1/rules/evaluate:batch",
    operation_id = "evaluate_texts",
    tag = "rules",
    request_body(content = EvaluateTextRequest, content_type = "application/x-ndjson", description = "One request per line"),
    responses(
        BatchProblems,
        (status = 200, description = "One answer per line", body = BatchAnswer, content_type = "application/x-ndjson"),
    ),
)]
pub async fn evaluate_batch(
    State(service): State<Arc<DaemonService>>,
    request: Request,
) -> Result<Response, Problem> {
    service.check_new_work()?;
    batch::respond(&service, request, |lines, sender| answer_all(Arc::clone(&service), lines, sender))
}

/// Answers the lines until the end, or until the client disconnects.
async fn answer_all(service: Arc<DaemonService>, mut lines: BatchLineReader, mut sender: BatchSender) {
    while let Some(some) = lines.next_batch(&service).await {
        let (line, answered) = (some.first().map_or(0, |line| line.number), some.len() as u64);
        let body = answer_batch(&service, some).await;
        if !sender.send(BatchPart { line, lines: answered, body }, &mut lines).await {
            return;
        }
    }
}

/// A parsed line: its id, and the case or the problem with it.
struct ParsedBatchLine {
    line: u64,
    id: Option<String>,
    case: Result<RequestedCase, Problem>,
}

/// The answers to one batch of lines, which are evaluated and logged together.
async fn answer_batch(service: &DaemonService, lines: Vec<BatchLine>) -> ReservedBody {
    let mut bytes = lines.iter().filter_map(|line| line.text.as_ref().ok()).map(Vec::len).sum();
    let (mut cases, mut all_held) = (Vec::new(), Vec::new());
    let mut read: Vec<(u64, Option<String>, Option<Problem>)> = Vec::new();
    let rules = &service.system.rules;
    for ParsedBatchLine { line, id, case } in lines.into_iter().map(|line| parse_line(line, rules)) {
        let gathered = match case {
            Ok(case) => case.gather_facts(service).await,
            Err(problem) => Err(problem),
        };
        match gathered {
            Ok(SourcedCheck { request: case, held }) => {
                bytes += held.length_bytes();
                all_held.push(held);
                cases.push(case);
                read.push((line, id, None));
            }
            Err(problem) => read.push((line, id, Some(problem))),
        }
    }
    let (room, evaluated) = match body::reserve_rules_response(bytes, service).await {
        Ok(room) if cases.is_empty() => (Some(room), Ok(Vec::new())),
        Ok(room) => {
            let rules = service.system.rules.clone();
            let evaluate = async move { Ok(rules.evaluate(cases).await?) };
            (Some(room), service.run_work_queued(evaluate).await)
        }
        Err(problem) => (None, Err(problem)),
    };
    let (evaluations, failure) = match evaluated {
        Ok(evaluations) => (evaluations, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let mut evaluations = evaluations.iter();
    let mut text = Vec::new();
    for (line, id, problem) in read {
        let evaluation = if problem.is_none() { evaluations.next() } else { None };
        let problem = match (&problem, evaluation, &failure) {
            (Some(problem), ..) | (None, None, Some(problem)) => Some(problem.to_raw()),
            (None, None, None) => Some(Problem::new(INTERNAL_ERROR, "no evaluation was returned").to_raw()),
            (None, Some(_), _) => None,
        };
        let answer = BatchAnswer { line, id, evaluation, problem };
        text.extend(to_line(&answer));
    }
    ReservedBody::new(text, room)
}

fn parse_line(BatchLine { number, text }: BatchLine, rules: &RuleService) -> ParsedBatchLine {
    /// The id of a line that is otherwise not a valid request.
    #[derive(Deserialize)]
    struct BatchLineId {
        id: Option<String>,
    }
    let text = match text {
        Ok(text) => text,
        Err(problem) => return ParsedBatchLine { line: number, id: None, case: Err(problem) },
    };
    match request::parse::<EvaluateTextRequest>(&text) {
        Ok(request) => ParsedBatchLine {
            line: number,
            id: request.id.clone(),
            case: RequestedCase::from_request(request, rules),
        },
        Err(problem) => {
            let id = request::parse::<BatchLineId>(&text).ok().and_then(|named| named.id);
            ParsedBatchLine { line: number, id, case: Err(problem) }
        }
    }
}
