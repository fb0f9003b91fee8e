//! Control of the whole daemon, and what the handlers of the control socket share.

mod cluster;

use super::routes::{Routes, routes};
use crate::platform::api::request::{self, JsonBody};
use crate::platform::openapi::{CommonProblems, JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::platform::{api, series, telemetry};
use actors_audit::logger::CommitError;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::{Extension, Json};
use domain_audit::event::ControlAction;
use domain_base::caller::{DecidingUser, OPERATOR_REASON_MAX_BYTES, PeerCredentials};
use domain_base::event::AuditEvent;
use domain_base::problem::{INTERNAL_ERROR, INVALID_DOCUMENT, INVALID_REQUEST};
use domain_base::service::{ActorReport, DrainRequest, DrainResponse, LogLevel};
use domain_base::session_id::ApplicationName;
use domain_base::text_form::is_blank;
#[cfg(debug_assertions)]
use hyper::StatusCode;
use hyper::http::request::Parts;
use nix::unistd::{Uid, User};
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![api::read_document, list_actors, read_log_level, set_log_level, set_draining]
        .merge(series::routes())
        .merge(cluster::routes())
}

problems!(DrainProblems: JSON_BODY STORE);

/// Start or end draining.
///
/// While the daemon drains, it rejects new work. Cached verdicts can still be read.
#[utoipa::path(
    post,
    path = "/v1/drain",
    operation_id = "set_draining",
    tag = "platform",
    request_body = DrainRequest,
    responses(
        DrainProblems,
        (status = 200, description = "The state of draining", body = DrainResponse),
    ),
)]
pub async fn set_draining(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<DrainResponse>, Problem> {
    let DrainRequest { draining } = body.parse()?;
    run_to_end(async move {
        // one request at a time, so that the order in the log is the order of the changes
        let _guard = service.lock_control().await;
        log_control_action(&service, "drain", format!("draining: {draining}"), Some(peer)).await?;
        service.set_draining(draining);
        service.system.set_draining(draining).await?;
        Ok(Json(DrainResponse { draining, in_flight: service.in_flight() }))
    })
    .await
}

/// Maximum length of the directives, in bytes. Each change is stored in the audit log.
const LEVEL_MAX_BYTES: usize = 1024;

/// Read the level of the service log.
#[utoipa::path(
    get,
    path = "/v1/log-level",
    operation_id = "read_log_level",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The current level", body = LogLevel),
    ),
)]
async fn read_log_level(State(service): State<Arc<DaemonService>>) -> Json<LogLevel> {
    Json(LogLevel { level: service.log_level.get() })
}

problems!(SetProblems: JSON_BODY STORE);

/// Set the level of the service log until the next reload or start.
#[utoipa::path(
    put,
    path = "/v1/log-level",
    operation_id = "set_log_level",
    tag = "platform",
    request_body = LogLevel,
    responses(
        SetProblems,
        (status = 200, description = "The new level", body = LogLevel),
    ),
)]
async fn set_log_level(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<LogLevel>, Problem> {
    let LogLevel { level } = body.parse()?;
    if level.len() > LEVEL_MAX_BYTES {
        let text = format!("`level` has {} bytes; at most {LEVEL_MAX_BYTES} are allowed", level.len());
        return Err(Problem::new(INVALID_REQUEST, text));
    }
    telemetry::parse_filter(&level)
        .map_err(|error| Problem::new(INVALID_REQUEST, format!("`{level}`: {error}")))?;
    run_to_end(async move {
        let _guard = service.lock_control().await;
        let before = service.log_level.get();
        log_control_action(&service, "log_level", format!("from {before} to {level}"), Some(peer)).await?;
        service.log_level.set(&level).map_err(|error| Problem::new(INTERNAL_ERROR, error))?;
        Ok(Json(LogLevel { level: service.log_level.get() }))
    })
    .await
}

/// List the reports of the actors, the gate first.
#[utoipa::path(
    get,
    path = "/v1/actors",
    operation_id = "list_actors",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The reports", body = Vec<ActorReport>),
    ),
)]
pub async fn list_actors(State(service): State<Arc<DaemonService>>) -> Json<Vec<ActorReport>> {
    Json(service.system.reports())
}

/// Injects a fault for tests: the name of an actor lets it panic, and `stale-reads` lets reads no longer wait for the shared log.
///
/// # Errors
/// `NotFound` if the fault does not exist.
#[cfg(debug_assertions)]
pub async fn inject_fault(
    State(service): State<Arc<DaemonService>>,
    Path(fault): Path<String>,
) -> Result<StatusCode, Problem> {
    if fault == "stale-reads" {
        service.read_stale();
    } else if !service.system.inject_panic(&fault).await {
        return Err(Problem::not_found(PATHS));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The list of the paths of the control socket, for errors.
pub(crate) const PATHS: &str = "/openapi.json, or use `oraclectl`: this is the control socket";

/// Parses the name in a path.
pub(crate) fn parse_name<T: TryFrom<String, Error: Display>>(
    path: Result<Path<String>, PathRejection>,
) -> Result<T, Problem> {
    // the path has escapes that are not UTF-8
    let Path(name) = path.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    T::try_from(name).map_err(|error| Problem::new(INVALID_REQUEST, error.to_string()))
}

/// Checks that the application `name` is configured.
pub(crate) fn require_application(service: &DaemonService, name: &ApplicationName) -> Result<(), Problem> {
    let names = service.applications.names();
    if names.contains(name) {
        return Ok(());
    }
    let names: Vec<_> = names.iter().map(ApplicationName::as_str).collect();
    let detail = format!("the application `{name}` is not configured; configured: {}", names.join(", "));
    Err(Problem::new(INVALID_REQUEST, detail))
}

/// Checks a reason that is logged.
pub(crate) fn check_reason(reason: &str) -> Result<(), Problem> {
    if !is_blank(reason) && reason.len() <= OPERATOR_REASON_MAX_BYTES {
        return Ok(());
    }
    let detail = format!(
        "`reason` has {} bytes; it must have visible text of at most {OPERATOR_REASON_MAX_BYTES} bytes",
        reason.len()
    );
    Err(Problem::new(INVALID_REQUEST, detail))
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
        request::read_strict_json(self.0.as_bytes(), "a document", INVALID_DOCUMENT)
    }
}

/// Maximum length of a recorded name, in bytes.
const NAME_MAX_BYTES: usize = 256;
/// Time limit for the look-up of a name. A directory service may not answer, and a decision must not fail with it.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// Maximum number of look-ups at a time. Each takes a thread until the directory service answers.
static LOOKUPS: Semaphore = Semaphore::const_new(4);

/// The user who sent the request. The name is looked up for each request, because it can change.
#[derive(Debug)]
pub struct IdentifiedUser(pub DecidingUser);

impl<S: Sync> FromRequestParts<S> for IdentifiedUser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let peer = parts.extensions.get::<PeerCredentials>().copied();
        let peer = peer.ok_or_else(|| Problem::new(INTERNAL_ERROR, "the request has no peer"))?;
        Ok(Self(DecidingUser { peer, name: look_up_name(peer.uid).await }))
    }
}

/// The name of a user; `None` if the system has no usable one, or does not return it in time.
async fn look_up_name(uid: u32) -> Option<String> {
    let lookup = async {
        let permit = LOOKUPS.acquire().await.ok()?;
        let found = spawn_blocking(move || {
            let found = User::from_uid(Uid::from_raw(uid));
            drop(permit);
            found
        });
        match found.await.ok()? {
            Ok(user) => user.map(|user| user.name).filter(|name| is_usable(name)),
            Err(error) => {
                tracing::warn!(uid, %error, "could not look up the name of a user");
                None
            }
        }
    };
    timeout(LOOKUP_MAX, lookup).await.unwrap_or_else(|_| {
        tracing::warn!(uid, limit = ?LOOKUP_MAX, "the name of a user was not found in time");
        None
    })
}

fn is_usable(name: &str) -> bool {
    !is_blank(name) && name.len() <= NAME_MAX_BYTES && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_is_that_of_the_user_id_and_absent_for_an_unknown_one() {
        assert_eq!(look_up_name(0).await.as_deref(), Some("root"));
        // user ids below 2^32 - 1 are valid; no system has this one
        assert_eq!(look_up_name(u32::MAX - 7).await, None);
    }

    #[test]
    fn name_that_is_blank_long_or_has_control_characters_is_not_usable() {
        for name in ["anna", r"DOMAIN\anna", "anna@example.org", &"a".repeat(NAME_MAX_BYTES)] {
            assert!(is_usable(name), "{name}");
        }
        for name in ["", " ", "an\na", "\u{1b}[31m", &"a".repeat(NAME_MAX_BYTES + 1)] {
            assert!(!is_usable(name), "{name:?}");
        }
    }
}
