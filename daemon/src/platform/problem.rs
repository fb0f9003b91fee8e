//! Every error that a caller can get, as `application/problem+json` (RFC 9457) with a stable code.
//!
//! Each feature maps its errors to codes in its file `problem.rs`.

mod hidden;
mod platform;

pub use hidden::{hide_state_dir, without_state_dir};
pub use oracled_api::base::problem::{ProblemCode, ProblemDocument};
pub(crate) use platform::by_value;

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use serde_json::value::RawValue;
use std::fmt::{self, Display};
use std::time::Duration;

/// The answer to a request that fails.
#[derive(Debug)]
pub struct Problem {
    /// The body of the answer. Its detail may have the path of the state directory; the answer does not.
    pub document: Box<ProblemDocument>,
    /// When to try again, if that may help.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A problem with this code, and its default for `Retry-After`.
    #[must_use]
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let document = Box::new(ProblemDocument::new(code, detail));
        Self { document, retry_after: code.retry_after_s().map(Duration::from_secs) }
    }

    /// The same with another `Retry-After`.
    #[must_use]
    pub fn retry_after(self, retry_after: impl Into<Option<Duration>>) -> Self {
        Self { retry_after: retry_after.into(), ..self }
    }

    /// The body is not JSON.
    pub fn invalid_json(error: impl Display) -> Self {
        Self::new(ProblemCode::InvalidJson, format!("the body is not JSON: {error}"))
    }

    /// The body did not arrive completely.
    pub fn body_broken(error: impl Display) -> Self {
        Self::new(ProblemCode::BodyBroken, format!("the body did not arrive: {error}"))
    }

    /// The body is longer than `max_bytes`.
    #[must_use]
    pub fn body_too_large(max_bytes: usize) -> Self {
        let detail = format!("the body has more than {max_bytes} bytes");
        Self::new(ProblemCode::BodyTooLarge, detail)
    }

    /// The content type is `given`; only `allowed` is supported.
    #[must_use]
    pub fn unsupported_media_type(given: &str, allowed: &str) -> Self {
        let detail = format!("the content type is {given}; it must be {allowed}");
        Self::new(ProblemCode::UnsupportedMediaType, detail)
    }

    /// The request took longer than `max`.
    #[must_use]
    pub fn request_timeout(max: Duration) -> Self {
        let detail = format!("the request took longer than {} s", max.as_secs());
        Self::new(ProblemCode::RequestTimeout, detail)
    }

    /// No bytes of the body arrived for `idle`.
    #[must_use]
    pub fn body_stalled(idle: Duration) -> Self {
        let detail = format!("no bytes of the body arrived for {} s (`limits.idle_s`)", idle.as_secs());
        Self::new(ProblemCode::RequestTimeout, detail)
    }

    /// The client of a batch read nothing for `patience` after `answered` lines, while the spool for answers was full.
    #[must_use]
    pub fn client_not_reading(answered: u64, patience: Duration) -> Self {
        let detail = format!(
            "the client read no answer for {} s, and further answers would take too much memory; {answered} lines were \
             answered: read the answers while sending the request, or send fewer lines",
            patience.as_secs_f64()
        );
        let mut problem = Self::new(ProblemCode::ClientNotReading, detail);
        problem.document.answered = Some(answered);
        problem
    }

    /// The path does not exist. `paths` names the list of all paths.
    #[must_use]
    pub fn not_found(paths: &str) -> Self {
        Self::new(ProblemCode::NotFound, format!("this path does not exist; see {paths}"))
    }

    /// The path does not accept the method.
    #[must_use]
    pub fn method_not_allowed(paths: &str) -> Self {
        Self::new(
            ProblemCode::MethodNotAllowed,
            format!("this path does not support this method; see {paths}"),
        )
    }

    /// The daemon is draining.
    #[must_use]
    pub fn draining() -> Self {
        let detail = "the daemon is draining: only delivered verdicts can be read";
        Self::new(ProblemCode::Draining, detail)
    }

    /// The JSON of the answer.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        self.to_raw().get().into()
    }

    /// The JSON of the answer, as a member of another document.
    #[must_use]
    pub fn to_raw(&self) -> Box<RawValue> {
        let mut document = self.document.clone();
        document.detail = without_state_dir(document.detail);
        serde_json::value::to_raw_value(&document).expect("a problem is plain data with string keys")
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.document.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(code = self.document.code.as_str(), "{self}");
        }
        let mut response = (status, self.to_json()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        if let Some(wait) = self.retry_after {
            // a wait of 0.2 s is rounded up to 1 s
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
