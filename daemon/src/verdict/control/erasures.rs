//! `/v1/erasures`: erases the data of sessions.

use crate::platform::api::request::JsonBody;
use crate::platform::control::control_request::check_reason;
use crate::platform::openapi::problems;
use crate::platform::openapi::{JSON_BODY, STORE};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use crate::verdict::request::parse_email;
use actors_verdict::erasure::ErasureReport;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::problem::INVALID_REQUEST;
use domain_base::session_id::SessionId;
use domain_verdict::problem::{MAIL_IN_FLIGHT, SESSION_UNKNOWN};
use domain_verdict::session::CustomerEmail;
use domain_verdict::wire::{ErasedSession, ErasureRequest, ErasureResponse};
use hyper::{Method, Request};
use oracled_store::{LogQuery, SessionsWithAddress, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The path, for the time limit.
const PATH: &str = "/v1/erasures";

/// Whether a request has no time limit, because it is an erasure.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST && request.uri().path() == PATH
}

/// The sessions of a request.
enum ErasureSubject {
    Session(SessionId),
    Address(CustomerEmail),
}

/// The sessions that are erased, and those that had the address before its correction.
type FoundSessions = (BTreeSet<SessionId>, BTreeSet<SessionId>);

problems!(EraseProblems: JSON_BODY STORE; SESSION_UNKNOWN MAIL_IN_FLIGHT);

/// Erase the data of a session, or of all sessions with an address, from all files of the state directory.
///
/// With an address, sessions that were removed before are erased, too: their data are left in the segments until then.
///
/// The daemon responds when the data are erased. It reads all segments and rebuilds the database, and serves other requests
/// meanwhile. If the connection breaks or the daemon stops before the end, the erasure continues.
#[utoipa::path(
    post,
    path = "/v1/erasures",
    operation_id = "erase_sessions",
    tag = "verdict",
    request_body = ErasureRequest,
    responses(
        EraseProblems,
        (status = 200, description = "The erased sessions", body = ErasureResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<ErasureResponse>, Problem> {
    let ErasureRequest { session_id, customer_email, reason } = body.parse()?;
    check_reason(&reason)?;
    let subject = match (session_id, parse_email(customer_email)?) {
        (Some(session_id), None) => ErasureSubject::Session(
            session_id.parse().map_err(|error| invalid(format!("`session_id`: {error}")))?,
        ),
        (None, Some(address)) => ErasureSubject::Address(address),
        _ => return Err(invalid("give `session_id` or `customer_email`, and not both".to_owned())),
    };
    run_to_end(async move {
        let turn = service.system.erasure.wait_for_turn().await;
        let store = service.system.store.clone();
        let (sessions, former_sessions) = run_blocking(move || find_sessions(&store, subject)).await?;
        let erased = service.system.erasure.erase(turn, sessions, reason, peer).await?;
        let ErasureReport { sessions, unread_files, .. } = erased;
        let sessions = sessions.into_iter().map(|(session_id, data)| ErasedSession { session_id, data });
        let unread_files = unread_files.iter().filter_map(|path| path.file_name());
        Ok(Json(ErasureResponse {
            sessions: sessions.collect(),
            former_sessions,
            unread_files: unread_files.map(|name| name.to_string_lossy().into_owned()).collect(),
        }))
    })
    .await
}

fn invalid(detail: String) -> Problem {
    Problem::new(INVALID_REQUEST, detail)
}

fn find_sessions(store: &Store, subject: ErasureSubject) -> Result<FoundSessions, Problem> {
    let unknown = |detail: String| Problem::new(SESSION_UNKNOWN, detail);
    match subject {
        ErasureSubject::Session(session_id) => {
            let query = LogQuery { session: Some(session_id.clone()), limit: 1, ..LogQuery::default() };
            let is_known = store.has_session_data(&session_id)? || !store.log(&query)?.is_empty();
            if !is_known {
                return Err(unknown(format!("no data of session {session_id} are stored")));
            }
            Ok(([session_id].into(), BTreeSet::new()))
        }
        ErasureSubject::Address(address) => {
            let SessionsWithAddress { present, removed, corrected } =
                store.sessions_with_address(&address)?;
            let erased = &present | &removed;
            if erased.is_empty() {
                let former: Vec<_> = corrected.iter().map(SessionId::as_str).collect();
                let before = if former.is_empty() {
                    String::new()
                } else {
                    format!("; sessions that had it before: {}", former.join(", "))
                };
                return Err(unknown(format!("no session has this address{before}")));
            }
            Ok((erased, corrected))
        }
    }
}
