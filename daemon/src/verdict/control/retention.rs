//! `/v1/retention`: the data that are older than configured.

use crate::platform::openapi::STORE;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::verdict::retention::{RetentionSection, prune_old_content};
use actors_verdict::erasure::RetentionReport;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::problem::SOURCE_DAMAGED;
use domain_verdict::wire::RetentionResponse;
use hyper::Request;
use std::sync::Arc;

/// The path, for the time limit.
const PATH: &str = "/v1/retention";

/// Whether a request has no time limit, because it reads all sessions and the log.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    request.uri().path() == PATH
}

problems!(ReadProblems: STORE; SOURCE_DAMAGED);
problems!(ApplyProblems: STORE; SOURCE_DAMAGED);

/// Read which data are older than configured, without removing them.
#[utoipa::path(
    get,
    path = "/v1/retention",
    operation_id = "read_due_data",
    tag = "verdict",
    responses(
        ReadProblems,
        (status = 200, description = "The data that are due", body = RetentionResponse),
    ),
)]
pub async fn get(State(service): State<Arc<DaemonService>>) -> Result<Json<RetentionResponse>, Problem> {
    let due = service.system.erasure.due_data(service.section::<RetentionSection>().to_days()).await?;
    let payloads = prune_old_content(&service, None, true).await?;
    Ok(Json(RetentionResponse { due, unread_files: Vec::new(), payloads }))
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
        ApplyProblems,
        (status = 200, description = "The removed data", body = RetentionResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
) -> Result<Json<RetentionResponse>, Problem> {
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
        Ok(Json(RetentionResponse { due, unread_files, payloads }))
    })
    .await
}
