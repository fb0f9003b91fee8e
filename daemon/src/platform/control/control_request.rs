//! Helpers that the control handlers share.

use crate::platform::problem::{Problem, ProblemCode};
use crate::platform::service::DaemonService;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use oracled_actors::audit::logger::CommitError;
use oracled_domain::base::blank::is_blank;
use oracled_domain::{ApplicationName, AuditEvent, EventKind, PeerCredentials};
use std::fmt::Display;

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
    let event = AuditEvent::new(
        timestamp,
        None,
        EventKind::ControlAction { action: action.to_owned(), detail, peer },
    );
    service.system.log.commit(event.into()).await.map(|_| ())
}
