//! Handlers of verification on the routes' socket.

use super::VERIFY;
use crate::platform::api::batch;
use crate::platform::api::body::{ReservedBody, json_response};
use crate::platform::api::request::{BatchLine, JsonBody, parse_strictly};
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_blocking};
use actors_platform::caller::current_caller;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use domain_base::caller::RequestOwner;
use domain_base::problem::{INVALID_REQUEST, UNSUPPORTED_MEDIA_TYPE};
use domain_base::wording::excerpt;
use domain_verification::problem::{DECISION_ALTERED, DECISION_ERASED, EXECUTION_UNKNOWN};
use domain_verification::replay::{LoggedExecution, LoggedVerification};
use domain_verification::wire::VerifyBatchAnswer;
use domain_verification::{Envelope, EnvelopeKind, VerifyRequest};
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use oracled_store::Store;
use std::sync::Arc;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![verify_values, verify_values_in_batch, read_verification]
}

problems!(VerifyProblems: JSON_BODY VERIFY);

/// Verify values with the sources of a workflow.
///
/// The envelope is logged before it is returned. Its axes have values only if its `kind` is `authoritative`. An envelope
/// of another kind is an answer too, and not an error: each axis has its own `kind`.
#[utoipa::path(
    post,
    path = "/v1/verify",
    operation_id = "verify_values",
    tag = "verification",
    request_body = VerifyRequest,
    responses(
        VerifyProblems,
        (status = 200, description = "The envelope, of any `kind`", body = Envelope, headers(("Retry-After" = u64))),
        (status = 202, description = "An envelope of kind `provisional`: the decision is pending", body = Envelope, headers(("Location" = String, description = "The path of the pending decision."), ("Retry-After" = u64))),
    ),
)]
pub async fn verify_values(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let request: VerifyRequest = body.parse_strictly()?;
    let verification = service.system.verification.clone();
    let envelope = service.run_work(async move { Ok(verification.verify(&request).await?) });
    Ok(envelope_response(&*envelope.await?))
}

problems!(BatchProblems: STORE; UNSUPPORTED_MEDIA_TYPE);

/// Verifications of a batch that run at the same time: a live source can take seconds.
const VERIFIED_AT_ONCE: usize = 16;

/// Verify many values, one request per line.
///
/// Each line is a request as of `POST /v1/verify`. The answer has one line for each, in the same order. An invalid line gets a
/// problem as its answer, and the other lines are still verified.
#[utoipa::path(
    post,
    path = "/v1/verify:batch",
    operation_id = "verify_values_in_batch",
    tag = "verification",
    request_body(content = VerifyRequest, content_type = "application/x-ndjson", description = "One request per line"),
    responses(
        BatchProblems,
        (status = 200, description = "One answer per line", body = VerifyBatchAnswer, content_type = "application/x-ndjson"),
    ),
)]
pub async fn verify_values_in_batch(
    State(service): State<Arc<DaemonService>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::respond(&service, request, |lines, sender| {
        let verifying = Arc::clone(&service);
        batch::answer_each(Arc::clone(&service), lines, sender, VERIFIED_AT_ONCE, move |line| {
            verify_line(Arc::clone(&verifying), line)
        })
    })
}

async fn verify_line(
    service: Arc<DaemonService>,
    BatchLine { number: line, text }: BatchLine,
) -> ReservedBody {
    let request = text.and_then(|text| parse_strictly::<VerifyRequest>(&text));
    let verified = match request {
        Ok(request) => {
            let verification = service.system.verification.clone();
            let verify = async move { Ok(verification.verify(&request).await?) };
            service.run_work_queued(verify).await
        }
        Err(problem) => Err(problem),
    };
    // byte for byte as it is logged
    let to_raw = |envelope: &Envelope| serde_json::from_slice(&envelope.to_json()).expect("valid JSON");
    let answer = match &verified {
        Ok(envelope) => VerifyBatchAnswer { line, envelope: Some(to_raw(envelope)), problem: None },
        Err(problem) => VerifyBatchAnswer { line, envelope: None, problem: Some(problem.to_raw()) },
    };
    ReservedBody::new(batch::to_line(&answer), None)
}

problems!(ReadProblems: STORE; EXECUTION_UNKNOWN DECISION_ERASED DECISION_ALTERED);

/// Read the envelope of a verification.
///
/// This is the envelope of the latest decision with this execution id, from the log. A verification of another application, or without
/// applications of another user id, is unknown, unless its application shares its verifications.
#[utoipa::path(
    get,
    path = "/v1/verify/{execution_id}",
    operation_id = "read_verification",
    tag = "verification",
    params(("execution_id" = String, Path, description = "The `execution_id` of the envelope")),
    responses(
        ReadProblems,
        (status = 200, description = "The envelope, byte for byte as it was returned", body = Envelope, headers(("Retry-After" = u64))),
        (status = 202, description = "The decision is pending: the `provisional` envelope", body = Envelope, headers(("Location" = String, description = "The path of the pending decision."), ("Retry-After" = u64))),
    ),
)]
pub async fn read_verification(
    State(service): State<Arc<DaemonService>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    // the path has escapes that are not UTF-8
    let Path(execution_id) =
        execution_id.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    let reader = current_caller().and_then(|caller| caller.owner());
    let may_read = |owner: Option<&RequestOwner>| {
        let known = reader.as_ref().zip(owner);
        known.is_some_and(|(reader, owner)| service.applications.may_read_verification(reader, owner))
    };
    let latest = read_decisions(&service.system.store, execution_id, may_read).await?.pop();
    let latest = latest.expect("`read_decisions` returns at least one");
    match latest {
        LoggedVerification::Whole(entry) => Ok(envelope_response(entry.read_envelope()?)),
        LoggedVerification::Erased(erased) => Err(Problem::decision_erased(&erased)),
    }
}

/// The logged decisions of an execution: at least one, the first one first. `may_read` gets the owner if it is known.
///
/// # Errors
/// `execution_unknown` if there is none, or the reader may not read it.
pub(crate) async fn read_decisions(
    store: &Store,
    execution_id: String,
    may_read: impl FnOnce(Option<&RequestOwner>) -> bool,
) -> Result<Vec<LoggedVerification>, Problem> {
    let shown_id = excerpt(&execution_id);
    let store = store.clone();
    let LoggedExecution { owner, decisions } = run_blocking(move || store.decisions(&execution_id)).await?;
    if decisions.is_empty() || !may_read(owner.as_ref()) {
        return Err(Problem::execution_unknown(shown_id));
    }
    Ok(decisions)
}

/// An envelope, byte for byte, with its HTTP status and headers.
fn envelope_response(envelope: &Envelope) -> Response {
    let is_provisional = envelope.kind == EnvelopeKind::Provisional;
    let status = if is_provisional { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = json_response(status, envelope.to_json());
    let headers = response.headers_mut();
    if is_provisional {
        let place = HeaderValue::try_from(format!("/v1/verify/{}", envelope.execution_id));
        headers.insert(LOCATION, place.expect("an execution id is hexadecimal digits and hyphens"));
    }
    let after_ms = envelope.retry.as_ref().and_then(|retry| retry.after_ms);
    if let Some(after_ms) = after_ms {
        // a wait of 200 ms is rounded up to 1 s
        headers.insert(RETRY_AFTER, after_ms.div_ceil(1000).into());
    }
    response
}
