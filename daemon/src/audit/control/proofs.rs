//! Checkpoints of the log, and proofs over its Merkle tree.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_audit::log_tiles::{TileContent, TileFile, TilePathError, TilePlace};
use domain_audit::log_tree::TreeHash;
use hyper::header::{CONTENT_TYPE, HeaderName};
use oracled_api::audit::{CheckpointParams, ContinuationParams, EntryProofParams, LogProof};
use oracled_api::base::problem::ProblemCode;
use oracled_store::{Store, StoreError};
use std::sync::Arc;
use tokio::task::spawn_blocking;

problems!(CheckpointProblems: STORE; InvalidRequest);

/// Sign a checkpoint of the log: its size and the root of its Merkle tree.
///
/// It is a signed note, in the formats C2SP `tlog-checkpoint` and `signed-note`. It has the cosignatures of the witnesses (C2SP
/// `tlog-cosignature`) that have cosigned a checkpoint of this size.
#[utoipa::path(
    get,
    path = "/v1/log/checkpoint",
    operation_id = "read_log_checkpoint",
    tag = "audit",
    params(CheckpointParams),
    responses(
        CheckpointProblems,
        (status = 200, description = "The checkpoint", body = String, content_type = "text/plain"),
    ),
)]
pub async fn checkpoint(
    State(service): State<Arc<DaemonService>>,
    QueryParams(CheckpointParams { cosigned }): QueryParams<CheckpointParams>,
) -> String {
    service.log_checkpoint(if cosigned.is_some() { 0 } else { u64::MAX }).note
}

problems!(TileProblems: STORE; EntryDropped InvalidRequest);

/// Read a tile of the log's Merkle tree, or the leaves under one.
///
/// The path and the content are those of C2SP `tlog-tiles`. The leaves have hashes in place of the values that can be erased.
#[utoipa::path(
    get,
    path = "/v1/log/tile/{*path}",
    operation_id = "read_log_tile",
    tag = "audit",
    params(("path" = String, Path, description = "The path of the tile, such as `0/x001/067` or `entries/005.p/8`")),
    responses(
        TileProblems,
        (status = 200, description = "The tile", body = Vec<u8>, content_type = "application/octet-stream"),
    ),
)]
pub async fn tile(
    State(service): State<Arc<DaemonService>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<([(HeaderName, &'static str); 1], Vec<u8>), Problem> {
    let Path(path) = path.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    let file: TileFile = path
        .parse()
        .map_err(|error: TilePathError| Problem::new(ProblemCode::InvalidRequest, error.to_string()))?;
    let store = service.system.store.clone();
    let read = spawn_blocking(move || read_tile(&store, file)).await;
    let content = read.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))??;
    let unknown = || Problem::new(ProblemCode::InvalidRequest, format!("the log has no tile {file}"));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], content.ok_or_else(unknown)?))
}

/// The content of a file of the log in tiles; `None` if the log has fewer entries.
fn read_tile(store: &Store, file: TileFile) -> Result<Option<Vec<u8>>, Problem> {
    let TileFile { content, index, width } = file;
    if let TileContent::Hashes(level) = content {
        let hashes = store.log_tile(TilePlace { level, index }, width)?;
        return Ok(hashes.map(|hashes| hashes.as_flattened().to_vec()));
    }
    let first = store.first_seq()?;
    if file.entries().start + 1 < first {
        return Err(Problem::entry_dropped(format!("an entry of {file}"), first));
    }
    let Some(leaves) = store.log_leaves(file.entries())? else { return Ok(None) };
    let mut bundle = Vec::new();
    for leaf in leaves {
        let too_long = |_| {
            let detail = format!("an entry of {file} is too long for a tile: {} bytes", leaf.len());
            Problem::new(ProblemCode::InternalError, detail)
        };
        bundle.extend_from_slice(&u16::try_from(leaf.len()).map_err(too_long)?.to_be_bytes());
        bundle.extend_from_slice(leaf.as_bytes());
    }
    Ok(Some(bundle))
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
