//! `DELETE /v1/verdicts/{session_id}`: removes the cached verdict of one session.

use crate::platform::api::request::SessionInPath;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::State;
use axum::{Extension, Json};
use oracled_actors::verdict::cache::Purge;
use oracled_api::verdict::PurgeResponse;
use oracled_domain::Peer;
use oracled_domain::SessionId;
use std::sync::Arc;

problems!(PurgeProblems: SESSION COMMIT; VerdictNotCached);

/// Remove the cached verdict of a session. The session stays.
///
/// # Errors
/// `VerdictNotCached` if no verdict is cached.
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
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    SessionInPath(session_id): SessionInPath,
) -> Result<Json<PurgeResponse>, Problem> {
    let (cache, purge) = (service.system.cache.clone(), Purge { session_id: session_id.clone(), peer });
    let purged = act(async move { Ok(cache.ask(purge).await??) }).await?;
    let session_id = session_id.to_string();
    if purged {
        Ok(Json(PurgeResponse { session_id, purged: true }))
    } else {
        Err(Problem::verdict_not_cached(session_id))
    }
}
