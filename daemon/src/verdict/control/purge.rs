//! `DELETE /v1/verdicts/{session_id}`: removes the cached verdict of one session.

use crate::platform::api::request::PathSessionId;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use axum::extract::State;
use axum::{Extension, Json};
use oracled_actors::verdict::cache::PurgeVerdict;
use oracled_api::verdict::PurgeResponse;
use oracled_domain::PeerCredentials;
use std::sync::Arc;

/// Removes the cached verdict. Its session stays.
///
/// # Errors
/// `VerdictNotCached` if no verdict is cached.
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
