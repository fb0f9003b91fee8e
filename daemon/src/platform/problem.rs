//! Every error a caller can get, as `application/problem+json` (RFC 9457) with a stable `code`.

mod causes;
mod facts;
pub mod ground;
mod hidden;
mod verification;

use axum::response::{IntoResponse, Response};
pub use ground::GroundProblem;
pub use hidden::{hide_state_dir, without_state_dir};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use oracled_actors::verdict::rate_limiter::Limited;
use oracled_domain::Decision;
use oracled_domain::rules::Evaluation;
use oracled_domain::verdict::session::Mismatch;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The media type of an error.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    InvalidJson(String),
    /// The body is JSON, but not a request of this kind.
    #[error("{0}")]
    InvalidRequest(String),
    /// The tier is none of the three.
    #[error("{0}")]
    UnknownTier(String),
    /// The session id is not one.
    #[error("{0}")]
    InvalidSessionId(String),
    /// The query is too long.
    #[error("the query has {bytes} bytes; at most {max_bytes} are taken")]
    QueryTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max_bytes: usize,
    },
    /// The body is too long.
    #[error("the body has more than {max_bytes} bytes")]
    BodyTooLarge {
        /// How long it may be.
        max_bytes: usize,
    },
    /// The headers are too many or too long.
    #[error(
        "the request has {headers} headers of {bytes} bytes; at most {max_headers} of {max_bytes} are taken"
    )]
    HeadersTooLarge {
        /// How many there are.
        headers: usize,
        /// How long they are together.
        bytes: usize,
        /// How many there may be.
        max_headers: usize,
        /// How long they may be together.
        max_bytes: usize,
    },
    /// The body is declared to be something else.
    #[error("the content type is {given}; it must be {wanted}")]
    UnsupportedMediaType {
        /// What it is declared to be.
        given: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// The body did not arrive whole.
    #[error("the body did not arrive: {0}")]
    BodyBroken(String),
    /// The request took too long.
    #[error("the request took longer than {max_s} s")]
    RequestTimeout {
        /// How long it may take.
        max_s: u64,
    },
    /// There is no such path. Where those are listed that there are.
    #[error("there is nothing at this path; see {0}")]
    NotFound(&'static str),
    /// There is such a path, for another method. Where that is told.
    #[error("this path is not for this method; see {0}")]
    MethodNotAllowed(&'static str),
    /// No verdict is cached for the session.
    #[error("no verdict is cached for session {0}")]
    VerdictNotCached(String),
    /// There is no such oracle.
    #[error("{0}")]
    OracleUnknown(String),
    /// There is no such mail.
    #[error("no mail {0} is in the outbox")]
    MailUnknown(String),
    /// Somebody has the mail in hand.
    #[error("mail {0} is being sent right now, or changed by somebody else; try again")]
    MailInFlight(String),
    /// The session is known with another tier or query.
    #[error("session {session_id} is known with another {what}")]
    SessionMismatch {
        /// Which one.
        session_id: String,
        /// What differs.
        what: Mismatch,
    },
    /// Nobody knows what the session asked, so its verdict cannot be made again.
    #[error(
        "session {0} has no verdict here and is not known; \
         register it by PUT /v1/sessions/{0} with `tier` and `query` (oraclectl register), then read again"
    )]
    SessionUnknown(String),
    /// The session's first verdict was delivered; another is only made when it is read.
    #[error("the verdict of session {0} was delivered already; read it by GET /v1/verdicts/{0}")]
    DeliveredAlready(String),
    /// The session's verdict was made again a short while ago.
    #[error("the verdict of session {session_id} may be made again in {} s: {limited}", .retry_after.as_secs_f64().ceil())]
    RegenRateLimited {
        /// Whose.
        session_id: String,
        /// The limit.
        limited: Limited,
        /// When to try again.
        retry_after: Duration,
    },
    /// The model is called as much as it may be.
    #[error("{limited}; try again in {} s", .retry_after.as_secs_f64().ceil())]
    ModelBusy {
        /// The limit.
        limited: Limited,
        /// When to try again.
        retry_after: Duration,
    },
    /// The model cannot be had.
    #[error("{cause}")]
    ModelUnavailable {
        /// Why.
        cause: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// The model did not answer in time.
    #[error("{cause}")]
    ModelTimeout {
        /// What was waited for.
        cause: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// The model answered, and gave no verdict.
    #[error("{cause}")]
    ModelRefused {
        /// The cause.
        cause: String,
        /// When the verdict may be regenerated again.
        retry_after: Option<Duration>,
    },
    /// The model refused the request itself, and will refuse the same request again.
    #[error("{0}; check `model.name`, `model.base_url` and the key")]
    ModelRefusedRequest(String),
    /// The verdict did not pass the crosscheck.
    #[error("the verdict did not pass the crosscheck; ask {contact} about session {session_id}")]
    CrosscheckRejected {
        /// Whose verdict.
        session_id: String,
        /// The decision.
        decision: Box<Decision>,
        /// Whom to ask.
        contact: String,
        /// When the verdict may be regenerated again.
        retry_after: Option<Duration>,
    },
    /// The verdict did not pass the rules.
    #[error("the rules did not let the verdict through; ask {contact} about session {session_id}")]
    RulesRejected {
        /// Whose verdict.
        session_id: String,
        /// What they say.
        evaluation: Box<Evaluation>,
        /// Whom to ask.
        contact: String,
        /// When the verdict may be regenerated again.
        retry_after: Option<Duration>,
    },
    /// It concerns ground truth.
    #[error(transparent)]
    Ground(#[from] GroundProblem),
    /// Too much is being done already.
    #[error("{0}; try again in a moment")]
    Overloaded(String),
    /// The daemon takes nothing new, since it is about to stop.
    #[error("the daemon is draining: it reads what was delivered, and takes nothing else")]
    Draining,
    /// The log cannot be written, so nothing is delivered.
    #[error("nothing can be delivered for now: {0}")]
    StorageUnavailable(String),
    /// Something failed inside; the service's log says more.
    #[error("an internal error: {0}")]
    Internal(String),
}

/// The document.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ProblemDocument<'p> {
    /// `urn:oracled:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// What the status means in general.
    title: &'p str,
    /// The HTTP status.
    status: u16,
    /// What went wrong, and what is allowed.
    detail: String,
    /// Stable, for programs.
    code: &'p str,
    /// With `crosscheck_rejected`: the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    decision: Option<&'p Decision>,
    /// With `rules_rejected`: what the rules say, with its evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    evaluation: Option<&'p Evaluation>,
    /// With `crosscheck_rejected` and `rules_rejected`: whom the customer is to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<&'p str>,
    /// With `session_mismatch`: `tier`, `query`, `original_verdict`, `owner` or `facts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    mismatch: Option<Mismatch>,
}

impl Problem {
    /// The status and the code: the one map from error to answer.
    #[must_use]
    pub const fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidJson(_) => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::InvalidRequest(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::UnknownTier(_) => (StatusCode::BAD_REQUEST, "unknown_tier"),
            Self::InvalidSessionId(_) => (StatusCode::BAD_REQUEST, "invalid_session_id"),
            Self::QueryTooLong { .. } => (StatusCode::BAD_REQUEST, "query_too_long"),
            Self::BodyBroken(_) => (StatusCode::BAD_REQUEST, "body_broken"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::HeadersTooLarge { .. } => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large")
            }
            Self::UnsupportedMediaType { .. } => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::RequestTimeout { .. } => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::VerdictNotCached(_) => (StatusCode::NOT_FOUND, "verdict_not_cached"),
            Self::OracleUnknown(_) => (StatusCode::NOT_FOUND, "oracle_unknown"),
            Self::MailUnknown(_) => (StatusCode::NOT_FOUND, "mail_unknown"),
            Self::MailInFlight(_) => (StatusCode::CONFLICT, "mail_in_flight"),
            Self::SessionMismatch { .. } => (StatusCode::CONFLICT, "session_mismatch"),
            Self::SessionUnknown(_) => (StatusCode::NOT_FOUND, "session_unknown"),
            Self::DeliveredAlready(_) => (StatusCode::CONFLICT, "delivered_already"),
            Self::RegenRateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "regen_rate_limited"),
            Self::ModelBusy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "model_busy"),
            Self::ModelUnavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "model_unavailable"),
            Self::ModelTimeout { .. } => (StatusCode::GATEWAY_TIMEOUT, "model_timeout"),
            Self::ModelRefused { .. } => (StatusCode::BAD_GATEWAY, "model_refused"),
            Self::ModelRefusedRequest(_) => (StatusCode::BAD_GATEWAY, "model_refused_request"),
            Self::CrosscheckRejected { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "crosscheck_rejected"),
            Self::RulesRejected { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "rules_rejected"),
            Self::Ground(problem) => problem.status(),
            Self::Overloaded(_) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            Self::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            Self::StorageUnavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        }
    }

    /// When to try again, in seconds, where that makes sense.
    fn retry_after_s(&self) -> Option<u64> {
        // a wait of 0.2 s is over in 1 s, not in 0
        let whole = |wait: &Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        match self {
            Self::Overloaded(_) => Some(1),
            Self::StorageUnavailable(_) | Self::Draining => Some(5),
            Self::Ground(problem) => problem.retry_after_s(),
            Self::RegenRateLimited { retry_after, .. } | Self::ModelBusy { retry_after, .. } => {
                Some(whole(retry_after))
            }
            Self::ModelUnavailable { retry_after, .. }
            | Self::ModelTimeout { retry_after, .. }
            | Self::ModelRefused { retry_after, .. }
            | Self::CrosscheckRejected { retry_after, .. }
            | Self::RulesRejected { retry_after, .. } => retry_after.as_ref().map(whole),
            _ => None,
        }
    }

    /// The document's JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let (status, code) = self.status();
        let (decision, evaluation, contact) = match self {
            Self::CrosscheckRejected { decision, contact, .. } => {
                (Some(&**decision), None, Some(contact.as_str()))
            }
            Self::RulesRejected { evaluation, contact, .. } => {
                (None, Some(&**evaluation), Some(contact.as_str()))
            }
            _ => (None, None, None),
        };
        let mismatch = if let Self::SessionMismatch { what, .. } = self { Some(*what) } else { None };
        let document = ProblemDocument {
            kind: format!("urn:oracled:problem:{code}"),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: without_state_dir(self.to_string()),
            code,
            decision,
            evaluation,
            contact,
            mismatch,
        };
        serde_json::to_vec(&document).expect("a problem is plain data with string keys")
    }

    /// The document, as a member of another one.
    #[must_use]
    pub fn to_raw(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.to_json()).expect("the document is JSON")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code) = self.status();
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(code, "{self}");
        }
        let mut response = (status, self.to_json()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.retry_after_s() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
