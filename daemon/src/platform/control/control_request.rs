//! Helpers that the control handlers share.

use crate::platform::problem::{Problem, ProblemCode};
use crate::platform::service::DaemonService;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use oracled_actors::audit::logger::CommitError;
use oracled_domain::{AuditEvent, EventKind, PeerCredentials};
use std::fmt::Display;

/// The list of the paths of the control socket, for errors.
pub(crate) const PATHS: &str = "/openapi.json, or use `oraclectl`: this is the control socket";

/// Parses the name in a path.
pub(crate) fn parse_name<T: TryFrom<String, Error: Display>>(
    path: Result<Path<String>, PathRejection>,
) -> Result<T, Problem> {
    // the path has escapes that are not UTF-8
    let Path(name) = path.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    T::try_from(name).map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.to_string()))
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
