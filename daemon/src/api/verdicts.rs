//! `/v1/verdicts/{session_id}`: hands a verdict in for delivery, and reads it back.

use super::request::{self, JsonBody, SessionInPath, SubmitRequest};
use crate::problem::{Problem, ProblemDocument};
use crate::service::Service;
use actors::cache::{Cached, Find, Known, Read};
use actors::crosscheck::{Judge, Outcome};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::session::Mismatch;
use domain::{Decision, GatePath, SessionId};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::sync::Arc;

/// Judges a verdict and, if it passes, delivers it.
///
/// # Errors
/// A [`Problem`] where nothing was delivered.
#[utoipa::path(
    post,
    path = "/v1/verdicts/{session_id}",
    params(("session_id" = String, Path, description = "1 to 255 of `A-Z a-z 0-9 _ . : -`")),
    request_body = SubmitRequest,
    responses(
        (status = 201, description = "It passed, is durable, and may be delivered", body = Object),
        (status = 200, description = "The session has a verdict already: that one, with `replayed`", body = Object),
        (status = 409, description = "`session_mismatch`: another tier or query", body = ProblemDocument),
        (status = 422, description = "`crosscheck_rejected`, with the decision", body = ProblemDocument),
        (status = "4XX", description = "The request is refused", body = ProblemDocument),
        (status = "5XX", description = "Nothing is delivered for now", body = ProblemDocument),
    ),
)]
pub async fn post(
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let SubmitRequest { tier, query, customer_email, verdict, raw } = body.parse()?;
    let limits = &service.config.limits;
    let judge = Judge {
        session_id,
        tier: request::tier(&tier)?,
        query: request::query(query, limits)?,
        payload: request::payload(verdict.as_deref(), raw.as_deref())?,
        customer_email: request::email(customer_email)?,
        path: GatePath::Submit,
        made: None,
    };
    deliver(service, judge).await
}

/// Reads the cached verdict of a session.
///
/// # Errors
/// A [`Problem`], `verdict_not_cached` above all.
#[utoipa::path(
    get,
    path = "/v1/verdicts/{session_id}",
    params(("session_id" = String, Path, description = "1 to 255 of `A-Z a-z 0-9 _ . : -`")),
    responses(
        (status = 200, description = "The verdict as it was delivered", body = Object),
        (status = 404, description = "`verdict_not_cached`", body = ProblemDocument),
        (status = "5XX", description = "It cannot be read for now", body = ProblemDocument),
    ),
)]
pub async fn get(
    State(service): State<Arc<Service>>,
    SessionInPath(session_id): SessionInPath,
) -> Result<Response, Problem> {
    match service.system.cache.ask(Read(session_id.clone())).await?? {
        Some(cached) => Ok(document(StatusCode::OK, cached.body.clone())),
        None => Err(Problem::VerdictNotCached(session_id.to_string())),
    }
}

/// What submitting and writing to the cache have in common: nothing is judged where the session has its verdict
/// already, and else the gate decides.
pub(super) async fn deliver(service: Arc<Service>, judge: Judge) -> Result<Response, Problem> {
    let session_id = judge.session_id.clone();
    let (crosscheck, cache) = (service.system.crosscheck.clone(), service.system.cache.clone());
    let outcome = service.work(async move {
        let Judge { session_id, tier, query, .. } = &judge;
        let find = Find { session_id: session_id.clone(), tier: *tier, query: query.clone() };
        match cache.ask(find).await?? {
            Known::Cached(cached) => Ok(Outcome::Replayed(cached)),
            Known::Mismatch(what) => Ok(Outcome::Mismatch(what)),
            Known::Nothing => Ok(crosscheck.ask(judge).await??),
        }
    });
    match outcome.await? {
        Outcome::Delivered(cached) | Outcome::Regenerated(cached, _) => {
            Ok(document(StatusCode::CREATED, cached.body.clone()))
        }
        Outcome::Replayed(cached) => Ok(document(StatusCode::OK, replayed(&cached))),
        Outcome::Mismatch(what) => Err(mismatch(&session_id, what)),
        Outcome::Rejected(decision) => Err(rejected(&service, &session_id, decision)),
        Outcome::Checked(_) => Err(Problem::Internal("a delivery ended as a check".into())),
    }
}

fn mismatch(session_id: &SessionId, what: Mismatch) -> Problem {
    Problem::SessionMismatch { session_id: session_id.to_string(), what }
}

fn rejected(service: &Service, session_id: &SessionId, decision: Decision) -> Problem {
    let contact = service.config.contact.clone();
    Problem::CrosscheckRejected { session_id: session_id.to_string(), decision: Box::new(decision), contact }
}

/// The document with `"replayed":true` as its last member.
fn replayed(cached: &Cached) -> Bytes {
    let members = cached.body.strip_suffix(b"}").expect("the document is an object");
    [members, br#","replayed":true}"#].concat().into()
}

/// An answer that is a JSON document already.
pub(super) fn document(status: StatusCode, body: Bytes) -> Response {
    let mut response = (status, Body::from(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
