//! `/v1/sessions/{session_id}`: registers a session so that a lost verdict can be regenerated.

use crate::platform::api::request::{self, JsonBody, PathSessionId};
use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use oracled_actors::verdict::cache::{RegisterSession, RegisterSessionOutcome};
use oracled_api::verdict::RegisterSessionRequest;
use oracled_api::verdict::RegisterSessionResponse;
use std::sync::Arc;

/// Registers a session, or adds data to a registered one.
///
/// A later read needs this data to regenerate a lost verdict. The e-mail address is never returned on this socket.
///
/// # Errors
/// A [`Problem`]; `session_mismatch` if the session is known with other data.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session_id}",
    params(("session_id" = String, Path, description = "1 to 255 of `A-Z a-z 0-9 _ . : -`")),
    request_body = RegisterSessionRequest,
    responses(
        (status = 201, description = "The session is new, and durable", body = RegisterSessionResponse),
        (status = 200, description = "The session was known; its current data", body = RegisterSessionResponse),
        (status = 409, description = "`session_mismatch`: another tier, query, original verdict or owner", body = ProblemDocument),
        (status = "4XX", description = "The request is rejected", body = ProblemDocument),
        (status = "5XX", description = "The session cannot be registered now", body = ProblemDocument),
    ),
)]
pub async fn put(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<(StatusCode, Json<RegisterSessionResponse>), Problem> {
    let RegisterSessionRequest { tier, query, customer_email, original_verdict } = body.parse()?;
    let register = RegisterSession {
        session_id: session_id.clone(),
        tier: request::parse_tier(&tier)?,
        query: request::parse_model_query(query, &service.config.limits)?,
        customer_email: request::parse_email(customer_email)?,
        original_verdict: request::parse_label(original_verdict)?,
    };
    let cache = service.system.cache.clone();
    match service.run_work(async move { Ok(cache.ask(register).await??) }).await? {
        RegisterSessionOutcome::Created(session) => Ok((StatusCode::CREATED, Json(session.into()))),
        RegisterSessionOutcome::Updated(session) => Ok((StatusCode::OK, Json(session.into()))),
        RegisterSessionOutcome::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}
