//! `POST /v1/inject-panic/{actor}`: makes an actor panic, for tests of supervision. Debug builds only.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::extract::{Path, State};
use hyper::StatusCode;
use std::sync::Arc;

/// Makes the actor with the name `actor` panic.
///
/// # Errors
/// `NotFound` if the actor does not exist.
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Path(actor): Path<String>,
) -> Result<StatusCode, Problem> {
    let panicked = service.system.inject_panic(&actor).await;
    if panicked { Ok(StatusCode::NO_CONTENT) } else { Err(Problem::not_found(super::control_request::PATHS)) }
}
