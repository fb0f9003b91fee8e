//! `DELETE /v1/verdicts/{session_id}`: removes the cached verdict of one session.

use crate::platform::api::request::PathSessionId;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_verdict::cache::PurgeVerdict;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::session_id::SessionId;
use oracled_api::verdict::PurgeResponse;
use std::sync::Arc;

problems!(PurgeProblems: SESSION STORE; VerdictNotCached);

/// Remove the cached verdict of a session. The session stays.
#[utoipa::path(
    delete,
    path = "/v1/verdicts/{session_id}",
    operation_id = "purge_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        PurgeProblems,
        (status = 200, description = "The verdict was removed", body = PurgeResponse),
    ),
)]
pub async fn delete(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<PurgeResponse>, Problem> {
    let (cache, purge) =
        (service.system.cache.clone(), PurgeVerdict { session_id: session_id.clone(), peer });
    let purged = run_to_end(async move { Ok(cache.ask(purge).await??) }).await?;
    let session_id = session_id.to_string();
    if purged {
        Ok(Json(PurgeResponse { session_id, purged: true }))
    } else {
        Err(Problem::verdict_not_cached(session_id))
    }
}
