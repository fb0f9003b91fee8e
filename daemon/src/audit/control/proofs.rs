//! Checkpoints of the log, and proofs over its Merkle tree.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::State;
use oracled_api::audit::proofs::{ContinuationParams, EntryProofParams, LogProof};
use oracled_api::base::problem::ProblemCode;
use oracled_domain::audit::log_tree::TreeHash;
use oracled_store::StoreError;
use std::sync::Arc;
use tokio::task::spawn_blocking;

problems!(CheckpointProblems: STORE);

/// Sign a checkpoint of the log: its size and the root of its Merkle tree.
///
/// It is a signed note, in the formats C2SP `tlog-checkpoint` and `signed-note`.
#[utoipa::path(
    get,
    path = "/v1/log/checkpoint",
    operation_id = "read_log_checkpoint",
    tag = "audit",
    responses(
        CheckpointProblems,
        (status = 200, description = "The checkpoint", body = String, content_type = "text/plain"),
    ),
)]
pub async fn checkpoint(State(service): State<Arc<DaemonService>>) -> String {
    let (size, root) = service.system.store.log_head();
    service.log_signer.sign(size, root)
}

problems!(ProofProblems: STORE; InvalidRequest);

/// Prove that the log has an entry.
///
/// The proof is for the tree of the first `size` entries, by RFC 6962.
#[utoipa::path(
    get,
    path = "/v1/log/proof",
    operation_id = "prove_log_entry",
    tag = "audit",
    params(EntryProofParams),
    responses(
        ProofProblems,
        (status = 200, description = "The proof", body = LogProof),
    ),
)]
pub async fn prove_entry(
    State(service): State<Arc<DaemonService>>,
    QueryParams(EntryProofParams { seq, size }): QueryParams<EntryProofParams>,
) -> Result<Json<LogProof>, Problem> {
    let store = service.system.store.clone();
    let unknown = move || format!("the log has no entry {seq} among its first {size}");
    answer(spawn_blocking(move || store.prove_entry(seq, size)).await, unknown)
}

/// Prove that the log continues an earlier one.
///
/// The proof is for the trees of the first `old_size` and of the first `size` entries, by RFC 6962.
#[utoipa::path(
    get,
    path = "/v1/log/continuation",
    operation_id = "prove_log_continuation",
    tag = "audit",
    params(ContinuationParams),
    responses(
        ProofProblems,
        (status = 200, description = "The proof", body = LogProof),
    ),
)]
pub async fn prove_continuation(
    State(service): State<Arc<DaemonService>>,
    QueryParams(ContinuationParams { old_size, size }): QueryParams<ContinuationParams>,
) -> Result<Json<LogProof>, Problem> {
    let store = service.system.store.clone();
    let unknown = move || format!("the log has no first {old_size} of {size} entries");
    answer(spawn_blocking(move || store.prove_continuation(old_size, size)).await, unknown)
}

fn answer(
    proof: Result<Result<Option<Vec<TreeHash>>, StoreError>, tokio::task::JoinError>,
    unknown: impl FnOnce() -> String,
) -> Result<Json<LogProof>, Problem> {
    let proof = proof.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))??;
    let hashes = proof.ok_or_else(|| Problem::new(ProblemCode::InvalidRequest, unknown()))?;
    Ok(Json(LogProof::of(&hashes)))
}
