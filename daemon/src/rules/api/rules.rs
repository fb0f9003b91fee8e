//! `/v1/rules`: Oracle-A. Checks text against facts.

mod batch;

pub use batch::*;

use crate::platform::api::held::document;
use crate::platform::api::held::{self, Held};
use crate::platform::api::request::{EvaluateRequest, Gathered, JsonBody};
use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use oracled_actors::rules::Evaluate;
use oracled_domain::Sha256Hex;
use oracled_domain::rules::{Rule, RuleId};
use serde::Serialize;
use std::sync::Arc;
use strum::VariantArray;

/// The answer of `GET /v1/rules`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Registry {
    /// Every rule that there is.
    rules: Vec<Registered>,
    /// How many claims may be without support where a request does not say.
    unsupported_max: u64,
}

/// One rule of the registry.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Registered {
    /// Its definition: `id`, `invariant`, `check_type`, `description`, `version`, `parameters`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rule: &'static Rule,
    /// The SHA-256 of the definition's canonical JSON.
    sha256: Sha256Hex,
    /// Whether it applies where a request names no rules.
    in_profile: bool,
}

/// The rules that there are, and what is configured of them.
#[utoipa::path(
    get,
    path = "/v1/rules",
    responses((status = 200, description = "The registry of rules", body = Registry)),
)]
pub async fn list(State(service): State<Arc<Service>>) -> Json<Registry> {
    let settings = service.config.rules.settings();
    let registered = |id: &RuleId| {
        let rule = id.rule();
        Registered { rule, sha256: rule.sha256(), in_profile: settings.profile.contains(id) }
    };
    let rules = RuleId::VARIANTS.iter().map(registered).collect();
    Json(Registry { rules, unsupported_max: settings.unsupported_max })
}

/// Checks a text against facts, and logs what came of it.
///
/// # Errors
/// A [`Problem`] where the request cannot be read, or the evaluation not logged.
#[utoipa::path(
    post,
    path = "/v1/rules/evaluate",
    request_body = EvaluateRequest,
    responses(
        (status = 200, description = "The evaluation, as canonical JSON, whatever its verdict", body = Object),
        (status = 409, description = "`facts_unavailable`, `source_silent`: a source of `facts_from` gives no facts", body = ProblemDocument),
        (status = 503, description = "`source_stale`: what a source of `facts_from` says is too old", body = ProblemDocument),
        (status = "4XX", description = "The request is refused", body = ProblemDocument),
        (status = "5XX", description = "Nothing could be evaluated for now", body = ProblemDocument),
    ),
)]
pub async fn evaluate(State(service): State<Arc<Service>>, body: JsonBody) -> Result<Response, Problem> {
    let case = body.parse::<EvaluateRequest>()?.case(&service.config.rules.settings())?;
    let Gathered { wanted: case, held } = case.gathered(&service).await?;
    let room = held::room_for(body.bytes() + held.bytes(), &service).await?;
    let rules = service.system.rules.clone();
    let mut evaluations = service.work(async move { Ok(rules.ask(Evaluate(vec![case])).await??) }).await?;
    let evaluation = evaluations.pop().ok_or_else(|| Problem::Internal("no evaluation came back".into()))?;
    let json = serde_json::to_vec(&evaluation).expect("an evaluation is plain data with string keys");
    Ok(document(StatusCode::OK, Held::new(json, Some(room))))
}
