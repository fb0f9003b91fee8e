//! `/v1/sessions/{session_id}`: shows, corrects or removes one session.

use crate::platform::api::request::{self, JsonBody, PathSessionId};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use axum::extract::State;
use axum::{Extension, Json};
use oracled_actors::verdict::cache::{CorrectSession, CorrectSessionOutcome, RemoveSession};
use oracled_actors::verdict::notifier::HoldMails;
use oracled_api::base::problem::ProblemCode;
use oracled_api::verdict::{CorrectSessionRequest, SessionReport};
use oracled_domain::{MailId, PeerCredentials, SessionId};
use std::sync::Arc;

fn session_unknown(session_id: &SessionId) -> Problem {
    Problem::new(ProblemCode::SessionUnknown, format!("no session {session_id} is registered"))
}

problems!(ReadProblems: SESSION STORE; SessionUnknown);

/// Read a session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}",
    operation_id = "read_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The session", body = SessionReport),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<SessionReport>, Problem> {
    let session = service.system.store.session(&session_id)?;
    session.map(|(session, _)| Json(session.into())).ok_or_else(|| session_unknown(&session_id))
}

problems!(CorrectProblems: JSON_BODY SESSION STORE; SessionUnknown SessionMismatch);

/// Correct a session.
///
/// An absent member leaves its value unchanged.
#[utoipa::path(
    patch,
    path = "/v1/sessions/{session_id}",
    operation_id = "correct_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = CorrectSessionRequest,
    responses(
        CorrectProblems,
        (status = 200, description = "The corrected session", body = SessionReport),
    ),
)]
pub async fn patch(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<SessionReport>, Problem> {
    let CorrectSessionRequest { customer_email, original_verdict } = body.parse()?;
    let correct = CorrectSession {
        session_id: session_id.clone(),
        customer_email: request::parse_email(customer_email)?,
        original_verdict: request::parse_label(original_verdict)?,
        peer,
    };
    let cache = service.system.cache.clone();
    match run_to_end(async move { Ok(cache.ask(correct).await??) }).await? {
        CorrectSessionOutcome::Done(session) => Ok(Json((*session).into())),
        CorrectSessionOutcome::Unknown => Err(session_unknown(&session_id)),
        CorrectSessionOutcome::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}

/// The mails of a session that are still in the outbox.
fn list_queued_mails(service: &DaemonService, session_id: &SessionId) -> Result<Vec<MailId>, Problem> {
    let store = &service.system.store;
    let verdict = MailId::verdict(session_id);
    let mut mails: Vec<_> = store.mail_standing(&verdict)?.map(|_| verdict).into_iter().collect();
    let prefix = format!("divergence:{session_id}:");
    let after = MailId::try_from(prefix.clone())
        .map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?;
    store.visit_mails(Some(&after), |standing| {
        let is_of_session = standing.mail_id.as_str().starts_with(&prefix);
        if is_of_session && standing.session_id == *session_id {
            mails.push(standing.mail_id);
        }
        is_of_session
    })?;
    Ok(mails)
}

problems!(RemoveProblems: SESSION STORE; SessionUnknown MailInFlight);

/// Remove a session with its cached verdict and its queued mail.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session_id}",
    operation_id = "remove_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        RemoveProblems,
        (status = 200, description = "The last state of the session", body = SessionReport),
    ),
)]
pub async fn delete(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<SessionReport>, Problem> {
    let mails = list_queued_mails(&service, &session_id)?;
    let (cache, notifier) = (service.system.cache.clone(), service.system.notifier.clone());
    let session = session_id.clone();
    let removed = run_to_end(async move {
        let mails = if mails.is_empty() { None } else { Some(notifier.ask(HoldMails(mails)).await??) };
        Ok(cache.ask(RemoveSession { session_id: session, mails, peer }).await??)
    });
    let removed = removed.await?;
    removed.map(|session| Json(session.into())).ok_or_else(|| session_unknown(&session_id))
}
