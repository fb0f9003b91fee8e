//! `/v1/sessions/{session_id}`: tells of a session what a later read will need to have its verdict made again.

use super::verdicts::mismatch;
use crate::platform::api::request::{self, JsonBody, RegisterRequest, SessionInPath};
use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::Service;
use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use oracled_actors::verdict::cache::{Register, Registered};
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::{Session, SessionId, Tier};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is known of a session.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KnownSession {
    /// Whose.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Of which tier.
    #[schema(value_type = String)]
    pub tier: Tier,
    /// What was asked.
    pub query: String,
    /// Whether there is an address to mail to; the address itself is never answered here.
    pub has_email: bool,
    /// The verdict that was delivered first; `UNKNOWN` while there is none, or none that is known.
    #[schema(value_type = String)]
    pub original_verdict: OriginalLabel,
}

impl From<Session> for KnownSession {
    fn from(session: Session) -> Self {
        let Session { session_id, tier, query, customer_email, original, .. } = session;
        Self {
            session_id,
            tier,
            query: query.as_str().to_owned(),
            has_email: customer_email.is_some(),
            original_verdict: OriginalLabel(original.map(|original| original.verdict_label)),
        }
    }
}

/// Registers a session, or tells more of one.
///
/// # Errors
/// A [`Problem`]; `session_mismatch` where the session is known as something else.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session_id}",
    params(("session_id" = String, Path, description = "1 to 255 of `A-Z a-z 0-9 _ . : -`")),
    request_body = RegisterRequest,
    responses(
        (status = 201, description = "It is new, and durable", body = KnownSession),
        (status = 200, description = "It was known, and is as it is told now", body = KnownSession),
        (status = 409, description = "`session_mismatch`: another tier, query, original verdict or owner", body = ProblemDocument),
        (status = "4XX", description = "The request is refused", body = ProblemDocument),
        (status = "5XX", description = "Nothing is registered for now", body = ProblemDocument),
    ),
)]
pub async fn put(
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
    body: JsonBody,
) -> Result<(StatusCode, Json<KnownSession>), Problem> {
    let RegisterRequest { tier, query, customer_email, original_verdict } = body.parse()?;
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
        Registered::Mismatch(what) => Err(mismatch(&session_id, what)),
    }
}
