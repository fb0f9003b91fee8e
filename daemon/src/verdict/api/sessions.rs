//! `/v1/sessions/{session_id}`: registers a session so that a lost verdict can be regenerated.

use crate::platform::api::request::{self, JsonBody, SessionInPath};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use oracled_actors::verdict::cache::{Register, Registered};
use oracled_api::verdict::KnownSession;
use oracled_api::verdict::RegisterSessionRequest;
use oracled_domain::SessionId;
use std::sync::Arc;

problems!(RegisterProblems: JSON_BODY SUBMISSION COMMIT; SessionMismatch);

/// Register a session so that a lost verdict can be regenerated.
///
/// If the session is registered, data that it lacks is added. The e-mail address is never returned on this socket.
///
/// # Errors
/// A [`Problem`]; `session_mismatch` if the session is known with other data.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session_id}",
    operation_id = "register_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = RegisterSessionRequest,
    responses(
        RegisterProblems,
        (status = 201, description = "The session is new, and durable", body = KnownSession),
        (status = 200, description = "The session was known; its current data", body = KnownSession),
    ),
)]
pub async fn put(
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
    body: JsonBody,
) -> Result<(StatusCode, Json<KnownSession>), Problem> {
    let RegisterSessionRequest { tier, query, customer_email, original_verdict } = body.parse()?;
    let register = Register {
        session_id: session_id.clone(),
        tier: request::tier(&tier)?,
        query: request::question(query, &service.config.limits)?,
        customer_email: request::email(customer_email)?,
        original_verdict: request::label(original_verdict)?,
    };
    let cache = service.system.cache.clone();
    match service.work(async move { Ok(cache.ask(register).await??) }).await? {
        Registered::Created(session) => Ok((StatusCode::CREATED, Json(session.into()))),
        Registered::Updated(session) => Ok((StatusCode::OK, Json(session.into()))),
        Registered::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}
