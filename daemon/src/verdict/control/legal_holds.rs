//! `/v1/legal-holds`: sessions that no retention and no administrator removes.

use super::session::session_unknown;
use crate::platform::api::request::{JsonBody, PathSessionId};
use crate::platform::control::check_reason;
use crate::platform::openapi::{JSON_BODY, SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_verdict::cache::{PlaceLegalHold, ReleaseLegalHold};
use axum::extract::State;
use axum::{Extension, Json};
use domain_audit::problem::BACKUP_IN_PROGRESS;
use domain_base::caller::PeerCredentials;
use domain_base::session_id::SessionId;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::problem::{NOT_ON_HOLD, SESSION_UNKNOWN};
use domain_verdict::wire::{LegalHoldRequest, LegalHolds, ReleasedLegalHold};
use std::sync::Arc;

problems!(ListProblems: STORE);

/// List the sessions on legal hold.
#[utoipa::path(
    get,
    path = "/v1/legal-holds",
    operation_id = "list_legal_holds",
    tag = "verdict",
    responses(ListProblems, (status = 200, description = "The holds, by session", body = LegalHolds)),
)]
pub async fn list_holds(State(service): State<Arc<DaemonService>>) -> Result<Json<LegalHolds>, Problem> {
    let store = service.system.store.clone();
    let holds = run_blocking(move || store.legal_holds()).await?;
    Ok(Json(LegalHolds { holds }))
}

problems!(PlaceProblems: SESSION JSON_BODY STORE; SESSION_UNKNOWN BACKUP_IN_PROGRESS);

/// Keep a session from erasure, retention, removal and purge.
///
/// The log entries from its first one on stay, too. A session that is on hold already keeps its hold.
#[utoipa::path(
    put,
    path = "/v1/legal-holds/{session_id}",
    operation_id = "place_legal_hold",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = LegalHoldRequest,
    responses(PlaceProblems, (status = 200, description = "The hold", body = LegalHold)),
)]
pub async fn place_hold(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<LegalHold>, Problem> {
    let LegalHoldRequest { reason } = body.parse()?;
    check_reason(&reason)?;
    run_to_end(async move {
        // a removal that has started does not stop
        let _turn = service.system.erasure.hold().await?;
        let place = PlaceLegalHold { session_id: session_id.clone(), reason, peer };
        service.system.cache.ask(place).await??.map(Json).ok_or_else(|| session_unknown(&session_id))
    })
    .await
}

problems!(ReleaseProblems: SESSION JSON_BODY STORE; NOT_ON_HOLD);

/// Release the legal hold of a session.
#[utoipa::path(
    delete,
    path = "/v1/legal-holds/{session_id}",
    operation_id = "release_legal_hold",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = LegalHoldRequest,
    responses(ReleaseProblems, (status = 200, description = "The hold that has ended", body = ReleasedLegalHold)),
)]
pub async fn release_hold(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<ReleasedLegalHold>, Problem> {
    let LegalHoldRequest { reason } = body.parse()?;
    check_reason(&reason)?;
    run_to_end(async move {
        let release = ReleaseLegalHold { session_id: session_id.clone(), reason, peer };
        if !service.system.cache.ask(release).await?? {
            let detail =
                format!("session {session_id} is not on legal hold; `oraclectl hold` lists those that are");
            return Err(Problem::new(NOT_ON_HOLD, detail));
        }
        Ok(Json(ReleasedLegalHold { session_id }))
    })
    .await
}
