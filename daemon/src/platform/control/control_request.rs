//! Helpers that the control handlers share.

use crate::platform::api::request::{JsonBody, strict_json};
use crate::platform::problem::{Problem, ProblemCode};
use crate::platform::service::DaemonService;
use actors_audit::logger::CommitError;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, Path, Request};
use domain_audit::event::ControlAction;
use domain_base::application::ApplicationName;
use domain_base::blank::is_blank;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::sync::Arc;

/// The list of the paths of the control socket, for errors.
pub(crate) const PATHS: &str = "/openapi.json, or use `oraclectl`: this is the control socket";

/// Maximum length of a logged reason, in bytes.
const REASON_MAX_BYTES: usize = 1024;

/// Parses the name in a path.
pub(crate) fn parse_name<T: TryFrom<String, Error: Display>>(
    path: Result<Path<String>, PathRejection>,
) -> Result<T, Problem> {
    // the path has escapes that are not UTF-8
    let Path(name) = path.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    T::try_from(name).map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.to_string()))
}

/// Checks that the application `name` is configured.
pub(crate) fn require_application(service: &DaemonService, name: &ApplicationName) -> Result<(), Problem> {
    let names = service.applications.names();
    if names.contains(name) {
        return Ok(());
    }
    let names: Vec<_> = names.iter().map(ApplicationName::as_str).collect();
    let detail = format!("the application `{name}` is not configured; configured: {}", names.join(", "));
    Err(Problem::new(ProblemCode::InvalidRequest, detail))
}

/// Checks a reason that is logged.
pub(crate) fn check_reason(reason: &str) -> Result<(), Problem> {
    if !is_blank(reason) && reason.len() <= REASON_MAX_BYTES {
        return Ok(());
    }
    let detail = format!(
        "`reason` has {} bytes; it must have visible text of at most {REASON_MAX_BYTES} bytes",
        reason.len()
    );
    Err(Problem::new(ProblemCode::InvalidRequest, detail))
}

/// Commits the audit entry of a control request that changes state.
pub(crate) async fn log_control_action(
    service: &DaemonService,
    action: &str,
    detail: String,
    peer: Option<PeerCredentials>,
) -> Result<(), CommitError> {
    let timestamp = service.system.clock.now();
    let event = AuditEvent::new(timestamp, None, ControlAction { action: action.to_owned(), detail, peer });
    service.system.log.commit(event.into()).await.map(|_| ())
}

/// Maximum length of a body, in bytes: a pipeline contains its schemas and tables.
pub const DOCUMENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// The body of a request on the control socket. It is read strictly: a misspelled member of a document would be missing from
/// every answer that depends on it.
pub struct ControlBody(JsonBody);

impl FromRequest<Arc<DaemonService>> for ControlBody {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        JsonBody::read_within(request, service, DOCUMENT_MAX_BYTES).await.map(Self)
    }
}

impl ControlBody {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Reads the body as a `T`. A name must not occur twice in one object, even if `T` ignores it.
    ///
    /// # Errors
    /// `InvalidJson` if the body is not JSON; `InvalidDocument` with the position of the fault.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        strict_json::read(self.0.as_bytes(), "a document", ProblemCode::InvalidDocument)
    }
}
