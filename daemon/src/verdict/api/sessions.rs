//! `/v1/sessions/{session_id}`: registers a session so that a lost verdict can be regenerated.

use crate::platform::api::request::{self, JsonBody, PathSessionId, RequestCallerOfSession};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::api::submitted_prompt::parse_prompt;
use actors_verdict::cache::{RegisterSession, RegisterSessionOutcome};
use axum::Json;
use axum::extract::State;
use domain_base::session_id::SessionId;
use hyper::StatusCode;
use oracled_api::base::problem::ProblemCode;
use oracled_api::verdict::{RegisterSessionRequest, RegisterSessionResponse};
use std::sync::Arc;

problems!(RegisterProblems: JSON_BODY SUBMISSION STORE OWNER; SessionMismatch);

/// Register a session so that a lost verdict can be regenerated.
///
/// If the session is registered, data that it lacks is added, and its owner can change the address. The e-mail address is never returned on this socket.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session_id}",
    operation_id = "register_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = RegisterSessionRequest,
    responses(
        RegisterProblems,
        (status = 201, description = "The session is new, and durable", body = RegisterSessionResponse),
        (status = 200, description = "The session was known; its current data", body = RegisterSessionResponse),
    ),
)]
pub async fn put(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestCallerOfSession(caller): RequestCallerOfSession,
    body: JsonBody,
) -> Result<(StatusCode, Json<RegisterSessionResponse>), Problem> {
    let RegisterSessionRequest { tier, query, customer_email, original_verdict, prompt } = body.parse()?;
    if prompt.is_some() && original_verdict.is_none() {
        let detail =
            "`prompt` is given without `original_verdict`; send the verdict that has this prompt, too";
        return Err(Problem::new(ProblemCode::InvalidRequest, detail));
    }
    let tier = request::parse_tier(&tier)?;
    let query = request::parse_model_query(query, &service.limits)?;
    let register = RegisterSession {
        session_id: session_id.clone(),
        caller,
        tier,
        prompt: parse_prompt(&service, prompt, tier, &query)?,
        query,
        customer_email: request::parse_email(customer_email)?,
        original_verdict: request::parse_label(original_verdict)?,
        look_up: None,
    };
    let cache = service.system.cache.clone();
    match service.run_work(async move { Ok(cache.ask(register).await??) }).await? {
        RegisterSessionOutcome::Created(session) => Ok((StatusCode::CREATED, Json(session.into()))),
        RegisterSessionOutcome::Updated(session) => Ok((StatusCode::OK, Json(session.into()))),
        RegisterSessionOutcome::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}
