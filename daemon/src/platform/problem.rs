//! Every error that a caller can get, as `application/problem+json` (RFC 9457) with a stable code.
//!
//! Each feature maps its errors to codes in its file `problem.rs`.

use actors_audit::logger::CommitError;
use actors_platform::actor_handle::ActorCallError;
use axum::response::{IntoResponse, Response};
use domain_base::problem::{
    BODY_BROKEN, BODY_TOO_LARGE, CLIENT_NOT_READING, DRAINING, FACTS_NOT_HERE, INTERNAL_ERROR, INVALID_JSON,
    METHOD_NOT_ALLOWED, NOT_FOUND, OVERLOADED, RECORD_DAMAGED, REQUEST_TIMEOUT, SOURCE_DAMAGED,
    STORAGE_UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE,
};
use domain_base::problem::{BatchProblem, PROBLEM_MEDIA_TYPE};
pub use domain_base::problem::{ProblemCode, ProblemDocument};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use oracled_store::StoreError;
use serde_json::value::RawValue;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// The answer to a request that fails.
#[derive(Debug)]
pub struct Problem {
    /// The body of the answer. Its detail may have the path of the state directory; the answer has it only for operators.
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
        Self::new(INVALID_JSON, format!("the body is not JSON: {error}"))
    }

    /// The body did not arrive completely.
    pub fn body_broken(error: impl Display) -> Self {
        Self::new(BODY_BROKEN, format!("the body did not arrive: {error}"))
    }

    /// The body is longer than `max_bytes`, the value of the configuration key `key`, if it has one.
    #[must_use]
    pub fn body_too_large(max_bytes: usize, key: Option<&str>) -> Self {
        let key = key.map(|key| format!(" (`{key}`)")).unwrap_or_default();
        let detail = format!("the body has more than {max_bytes} bytes{key}");
        Self::new(BODY_TOO_LARGE, detail)
    }

    /// The content type is `given`; only `allowed` is supported.
    #[must_use]
    pub fn unsupported_media_type(given: &str, allowed: &str) -> Self {
        let detail = format!("the content type is {given}; it must be {allowed}");
        Self::new(UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// The request took longer than `max`.
    #[must_use]
    pub fn request_timeout(max: Duration) -> Self {
        let detail = format!("the request took longer than {} s", max.as_secs());
        Self::new(REQUEST_TIMEOUT, detail)
    }

    /// No bytes of the body arrived for `idle`.
    #[must_use]
    pub fn body_stalled(idle: Duration) -> Self {
        let detail = format!("no bytes of the body arrived for {} s (`limits.idle_s`)", idle.as_secs());
        Self::new(REQUEST_TIMEOUT, detail)
    }

    /// The client of a batch read nothing for `patience` after `answered` lines, while the spool for answers was full.
    #[must_use]
    pub fn client_not_reading(answered: u64, patience: Duration) -> Self {
        let detail = format!(
            "the client read no answer for {} s, and further answers would take too much memory; {answered} lines were \
             answered: read the answers while sending the request, or send fewer lines",
            patience.as_secs_f64()
        );
        let mut problem = Self::new(CLIENT_NOT_READING, detail);
        problem.document.add(&BatchProblem { answered: Some(answered) });
        problem
    }

    /// The path does not exist. `paths` names the list of all paths.
    #[must_use]
    pub fn not_found(paths: &str) -> Self {
        Self::new(NOT_FOUND, format!("this path does not exist; see {paths}"))
    }

    /// The path does not accept the method.
    #[must_use]
    pub fn method_not_allowed(paths: &str) -> Self {
        Self::new(METHOD_NOT_ALLOWED, format!("this path does not support this method; see {paths}"))
    }

    /// The daemon is draining.
    #[must_use]
    pub fn draining() -> Self {
        let detail = "the daemon is draining: only delivered verdicts can be read";
        Self::new(DRAINING, detail)
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
            tracing::error!(code = self.document.code.name, "{self}");
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

impl From<ActorCallError> for Problem {
    fn from(error: ActorCallError) -> Self {
        let code = match error {
            ActorCallError::Full { .. } => return Self::overloaded(error),
            ActorCallError::Failed { .. } => INTERNAL_ERROR,
        };
        Self::new(code, error.to_string())
    }
}

impl Problem {
    /// The daemon is overloaded.
    pub fn overloaded(error: impl Display) -> Self {
        Self::new(OVERLOADED, format!("{error}; try again in a moment"))
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        let code = match error {
            StoreError::Unavailable { .. }
            | StoreError::Io { .. }
            | StoreError::Object { .. }
            | StoreError::ObjectDamaged { .. } => STORAGE_UNAVAILABLE,
            StoreError::Stopped => return Self::draining(),
            StoreError::SourceFile { .. } => SOURCE_DAMAGED,
            StoreError::FactsNotHere { .. } => FACTS_NOT_HERE,
            StoreError::RowLost { .. } => RECORD_DAMAGED,
            StoreError::Corrupt { .. }
            | StoreError::Short { .. }
            | StoreError::Diverged { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::NotUpgraded { .. }
            | StoreError::TooLarge { .. }
            | StoreError::OutOfOrder { .. }
            | StoreError::Locked { .. } => INTERNAL_ERROR,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&CommitError> for Problem {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::Unavailable(_) => Self::new(STORAGE_UNAVAILABLE, error.to_string()),
            CommitError::Stale(_) => Self::overloaded(error),
        }
    }
}

/// Implements `From` for errors by value, which `?` needs.
macro_rules! by_value {
    ($($error:ty),*) => {$(
        impl From<$error> for $crate::platform::problem::Problem {
            fn from(error: $error) -> Self {
                (&error).into()
            }
        }
    )*};
}
pub(crate) use by_value;
by_value!(StoreError, CommitError);

/// The replacement for the path of the state directory.
const STATE_DIR_NAME: &str = "<state_dir>";
static STATE_DIR_PATH: OnceLock<String> = OnceLock::new();

tokio::task_local! {
    /// Whether answers have the path.
    static SHOWS_STATE_DIR: bool;
}

/// Runs `work`. Its answers have the path of the state directory if `is_shown`, as for operators, who have to find the files.
pub(crate) fn show_state_dir<F: Future>(is_shown: bool, work: F) -> impl Future<Output = F::Output> {
    SHOWS_STATE_DIR.scope(is_shown, work)
}

/// Sets the path that the answers to applications and reviewers leave out. The service log keeps it.
pub fn hide_state_dir(dir: &Path) {
    // only a test starts a second daemon in one process
    drop(STATE_DIR_PATH.set(dir.display().to_string()));
}

/// `text` without the path of the state directory, unless the answer is for an operator.
#[must_use]
pub fn without_state_dir(text: String) -> String {
    if SHOWS_STATE_DIR.try_with(|is_shown| *is_shown).unwrap_or_default() {
        return text;
    }
    match STATE_DIR_PATH.get() {
        Some(path) if !path.is_empty() && text.contains(path.as_str()) => {
            text.replace(path.as_str(), STATE_DIR_NAME)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::problem::Problem;
    use oracled_store::StoreError;

    #[test]
    fn answer_does_not_contain_the_path_of_the_state_directory() {
        let dir = Path::new("/var/lib/oracled-hidden");
        hide_state_dir(dir);
        let source = || std::io::Error::other("no");
        for error in [
            StoreError::Corrupt { dir: dir.to_owned(), detail: "a checksum is wrong".into() },
            StoreError::Io { path: dir.join("store"), source: source() },
            StoreError::Unavailable { cause: format!("cannot write {}", dir.join("store/db").display()) },
        ] {
            let problem = Problem::from(error);
            let logged = problem.to_string();
            let response = String::from_utf8(problem.to_json()).expect("a response is UTF-8");
            assert!(!response.contains("oracled-hidden") && response.contains(STATE_DIR_NAME), "{response}");
            assert!(logged.contains("oracled-hidden"), "the service log has the path: {logged}");
        }
    }

    #[tokio::test]
    async fn answer_to_an_operator_contains_the_path_of_the_state_directory() {
        let dir = Path::new("/var/lib/oracled-hidden");
        hide_state_dir(dir);
        for is_shown in [true, false] {
            let problem = Problem::new(INTERNAL_ERROR, format!("no space in {}", dir.display()));
            let response = show_state_dir(is_shown, async move { problem.to_json() }).await;
            let response = String::from_utf8(response).expect("a response is UTF-8");
            assert_eq!(response.contains("oracled-hidden"), is_shown, "{response}");
        }
    }
}
