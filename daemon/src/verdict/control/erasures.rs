//! `/v1/erasures` erases the data of sessions, and `/v1/retention` the data that are older than configured.

use crate::platform::api::request::JsonBody;
use crate::platform::control::check_reason;
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use crate::verdict::api::parse_email;
use crate::verdict::retention::{RetentionSection, prune_old_content};
use actors_verdict::erasure::{ErasureReport, RetentionReport};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::problem::{FACTS_NOT_HERE, IN_CLUSTER, INVALID_REQUEST, SOURCE_DAMAGED};
use domain_base::session_id::SessionId;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::problem::{MAIL_IN_FLIGHT, SESSION_ON_HOLD, SESSION_UNKNOWN};
use domain_verdict::session::CustomerEmail;
use domain_verdict::wire::{ErasedSession, ErasureRequest, ErasureResponse, RetentionResponse};
use hyper::{Method, Request};
use oracled_store::{LogQuery, SessionsWithAddress, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The paths, for the time limit.
const ERASURES: &str = "/v1/erasures";
const RETENTION: &str = "/v1/retention";

/// Whether a request has no time limit, because it erases data, or reads all sessions and the log.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    path == RETENTION || path == ERASURES && request.method() == Method::POST
}

/// The sessions of a request.
enum ErasureSubject {
    Session(SessionId),
    Address(CustomerEmail),
}

/// The sessions that are erased, and those that had the address before its correction.
type FoundSessions = (BTreeSet<SessionId>, BTreeSet<SessionId>);

problems!(EraseProblems: JSON_BODY STORE; SESSION_UNKNOWN SESSION_ON_HOLD MAIL_IN_FLIGHT);

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
pub async fn erase_sessions(
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
        let ErasureReport { sessions, unread_files, waiting_hosts, .. } = erased;
        let sessions = sessions.into_iter().map(|(session_id, data)| ErasedSession { session_id, data });
        let unread_files = unread_files.iter().filter_map(|path| path.file_name());
        Ok(Json(ErasureResponse {
            sessions: sessions.collect(),
            former_sessions,
            unread_files: unread_files.map(|name| name.to_string_lossy().into_owned()).collect(),
            waiting_hosts,
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

problems!(RetentionProblems: STORE; IN_CLUSTER SOURCE_DAMAGED FACTS_NOT_HERE);

/// Read which data are older than configured, without removing them.
#[utoipa::path(
    get,
    path = "/v1/retention",
    operation_id = "read_due_data",
    tag = "verdict",
    responses(
        RetentionProblems,
        (status = 200, description = "The data that are due", body = RetentionResponse),
    ),
)]
pub async fn read_due_data(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<RetentionResponse>, Problem> {
    let due = service.system.erasure.due_data(service.section::<RetentionSection>().to_days()).await?;
    let payloads = prune_old_content(&service, None, true).await?;
    let legal_holds = read_holds(&service).await?;
    Ok(Json(RetentionResponse { due, legal_holds, unread_files: Vec::new(), payloads }))
}

/// Remove the data that are older than configured from all files of the state directory.
///
/// The daemon responds when the data are removed. It reads all segments and rebuilds the database, and serves other requests
/// meanwhile. If the connection breaks or the daemon stops before the end, the removal continues.
#[utoipa::path(
    post,
    path = "/v1/retention",
    operation_id = "apply_retention",
    tag = "verdict",
    responses(
        RetentionProblems,
        (status = 200, description = "The removed data", body = RetentionResponse),
    ),
)]
pub async fn apply_retention(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
) -> Result<Json<RetentionResponse>, Problem> {
    service.require_turn("old data are removed")?;
    run_to_end(async move {
        let erasure = &service.system.erasure;
        let turn = erasure.wait_for_turn().await;
        let log_key = service.log_signer.key();
        let days = service.section::<RetentionSection>().to_days();
        let RetentionReport { due, unread_files } =
            erasure.apply_retention(turn, days, Some(peer), log_key).await?;
        let unread_files = unread_files.iter().filter_map(|path| path.file_name());
        let unread_files = unread_files.map(|name| name.to_string_lossy().into_owned()).collect();
        let payloads = prune_old_content(&service, Some(peer), false).await?;
        let legal_holds = read_holds(&service).await?;
        Ok(Json(RetentionResponse { due, legal_holds, unread_files, payloads }))
    })
    .await
}

async fn read_holds(service: &DaemonService) -> Result<Vec<LegalHold>, Problem> {
    let store = service.system.store.clone();
    run_blocking(move || store.legal_holds()).await
}
