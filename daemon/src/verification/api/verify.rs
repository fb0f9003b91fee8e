//! `/v1/verify`: what registered sources come to about one thing, and whether that may be told (RFC-0002, Part II).

use crate::platform::api::held::document;
use crate::platform::api::request::JsonBody;
use crate::platform::problem::{Problem, ProblemDocument};
use crate::platform::service::Service;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use oracled_api::base::problem::ProblemCode;
use oracled_domain::audit::event::verification::VerificationEntry;
use oracled_domain::base::wording::excerpt;
use oracled_domain::verification::{Envelope, EnvelopeKind, VerifyRequest};
use oracled_store::Store;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Puts a question to the sources of a workflow. The envelope is in the log before it is answered; only where its `kind` is
/// `authoritative` have its axes values.
///
/// # Errors
/// A [`Problem`] where there is no envelope: nothing was decided.
#[utoipa::path(
    post,
    path = "/v1/verify",
    request_body = VerifyRequest,
    responses(
        (status = 200, description = "The envelope, of whatever `kind`; `Retry-After` where it says when to ask again", body = Envelope),
        (status = 202, description = "An envelope of kind `provisional`: the decision will be at `Location`", body = Envelope),
        (status = "4XX", description = "The request is refused", body = ProblemDocument),
        (status = "5XX", description = "Nothing can be decided for now", body = ProblemDocument),
    ),
)]
pub async fn post(State(service): State<Arc<Service>>, body: JsonBody) -> Result<Response, Problem> {
    let request: VerifyRequest = body.parse_strictly()?;
    let verification = service.system.verification.clone();
    let envelope = service.work(async move { Ok(verification.verify(&request).await?) });
    Ok(answer(&*envelope.await?))
}

/// The envelope of the latest decision that was taken under an execution id, as the log has it.
///
/// # Errors
/// `execution_unknown`; `decision_altered` where the log holds another one than was told.
#[utoipa::path(
    get,
    path = "/v1/verify/{execution_id}",
    params(("execution_id" = String, Path, description = "As the envelope has it")),
    responses(
        (status = 200, description = "The envelope, to the byte as it was answered", body = Envelope),
        (status = 202, description = "The decision is still to be taken: the `provisional` envelope", body = Envelope),
        (status = "4XX", description = "There is no such decision", body = ProblemDocument),
        (status = "5XX", description = "It cannot be told", body = ProblemDocument),
    ),
)]
pub async fn get(
    State(service): State<Arc<Service>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    // escapes that are no UTF-8
    let Path(execution_id) =
        execution_id.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    let latest = decisions(&service.system.store, execution_id).await?.pop();
    let latest = latest.expect("where there is none that is an error");
    Ok(answer(latest.told()?))
}

/// What the log holds of an execution: at least one decision, the first one first.
///
/// # Errors
/// `execution_unknown`.
pub(crate) async fn decisions(
    store: &Store,
    execution_id: String,
) -> Result<Vec<VerificationEntry>, Problem> {
    let told = excerpt(&execution_id);
    let store = store.clone();
    let decisions = spawn_blocking(move || store.decisions(&execution_id)).await;
    let decisions =
        decisions.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))??;
    if decisions.is_empty() { Err(Problem::execution_unknown(told)) } else { Ok(decisions) }
}

/// An envelope, to the byte, with what HTTP has to say of it.
fn answer(envelope: &Envelope) -> Response {
    let is_provisional = envelope.kind == EnvelopeKind::Provisional;
    let status = if is_provisional { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = document(status, envelope.to_json());
    let headers = response.headers_mut();
    if is_provisional {
        let place = HeaderValue::try_from(format!("/v1/verify/{}", envelope.execution_id));
        headers.insert(LOCATION, place.expect("an execution id is hexadecimal digits and hyphens"));
    }
    let after_ms = envelope.retry.as_ref().and_then(|retry| retry.after_ms);
    if let Some(after_ms) = after_ms {
        // a wait of 200 ms is over in 1 s, not in 0
        headers.insert(RETRY_AFTER, after_ms.div_ceil(1000).into());
    }
    response
}
