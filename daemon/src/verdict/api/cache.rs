//! `/cache/{session_id}`: the same cache under the paths of the service that oracled replaces. Writes pass
//! the gate like all other verdicts.

use super::verdicts::deliver;
use crate::platform::api::request::{self, JsonBody, PathSessionId, RequestCallerOfSession};
use crate::platform::api::reserved_body::json_response;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_verdict::cache::ReadVerdict;
use actors_verdict::submission::Submission;
use axum::extract::State;
use axum::response::Response;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use hyper::StatusCode;
use oracled_api::verdict::orders::OrderReport;
use oracled_api::verdict::{CacheVerdictRequest, VerdictResponse};
use std::sync::Arc;

problems!(WriteProblems: JSON_BODY SUBMISSION STORE OWNER; SessionMismatch OrderCancelled CrosscheckRejected RulesRejected PolicyRejected HeldVerdictUnreadable);

/// Write a verdict to the cache if it passes the gate.
///
/// This is the same cache under the path of the service that oracled replaces, and the gate is the same. The fields
/// `cached_at`, `regen` and `regen_reason`, which a response has, are accepted and ignored. On all other routes an
/// unknown field is an error.
#[utoipa::path(
    post,
    path = "/cache/{session_id}",
    operation_id = "write_cached_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = CacheVerdictRequest,
    responses(
        WriteProblems,
        (status = 201, description = "The verdict passed and is cached", body = VerdictResponse),
        (status = 200, description = "The session already has a verdict: that verdict, with `replayed`", body = VerdictResponse),
        (status = 202, description = "The policy holds the verdict: an order that waits for an operator", body = OrderReport, headers(("Location" = String, description = "The path of the order."))),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestCallerOfSession(caller): RequestCallerOfSession,
    body: JsonBody,
) -> Result<Response, Problem> {
    let CacheVerdictRequest { tier, query, verdict, .. } = body.parse()?;
    let limits = &service.limits;
    let submission = Submission {
        session_id,
        caller,
        tier: request::parse_tier(&tier)?,
        query: request::parse_query(query, limits)?,
        payload: Some(request::parse_payload(verdict.as_deref(), None)?),
        customer_email: None,
        path: GatePath::CacheWrite,
        prompt: None,
        generation_trace: None,
        check: None,
    };
    deliver(service, submission).await
}

problems!(ReadProblems: SESSION STORE; VerdictNotCached);

/// Read a cached verdict.
///
/// This route does not regenerate a lost verdict.
#[utoipa::path(
    get,
    path = "/cache/{session_id}",
    operation_id = "read_cached_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The verdict as it was delivered", body = VerdictResponse),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Response, Problem> {
    match service.system.cache.ask(ReadVerdict(session_id.clone())).await?? {
        Some(cached) => Ok(json_response(StatusCode::OK, cached.body.clone())),
        None => Err(Problem::verdict_not_cached(session_id.local())),
    }
}
