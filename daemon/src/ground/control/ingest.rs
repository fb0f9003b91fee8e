//! `POST /v1/pipelines/{pipeline_id}/runs`: receives a payload, archives it, and starts a run over it.
//!
//! The size of a payload is only limited by the disk: at most a few pieces are in memory.

use crate::ground::config::IngestionSection;
use crate::platform::api::request::QueryParams;
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::STORE;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_audit::logger::CommitError;
use actors_ground::ingestion::{
    ARCHIVING, IngestionError, ListRunProgress, PayloadArchiver, StartRun, StartRunOutcome,
};
use actors_ground::registry::RegistryError;
use axum::body::{Body, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::moment::Moment;
use domain_base::problem::{BODY_BROKEN, BODY_TOO_LARGE, INVALID_DOCUMENT};
use domain_ground::id::PipelineId;
use domain_ground::ontology::is_version;
use domain_ground::pipeline::PipelineState;
use domain_ground::problem::{
    PAYLOAD_UNDECODABLE, PIPELINE_UNKNOWN, RUN_BUSY, RUN_NOT_IN_FORCE, RUNS_HELD, VERSION_KNOWN,
};
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::wire::{UploadParams, UploadResponse};
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use store_facts::decoding::PayloadEncoding;
use tokio::time::timeout;

/// Whether a request uploads a payload, which has no time limit.
pub fn is_upload<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && path.starts_with("/v1/pipelines/") && path.ends_with("/runs")
}

problems!(UploadProblems: STORE; INVALID_DOCUMENT BODY_BROKEN PAYLOAD_UNDECODABLE PIPELINE_UNKNOWN RUN_BUSY VERSION_KNOWN RUNS_HELD RUN_NOT_IN_FORCE BODY_TOO_LARGE);

/// Upload a payload and start a run that reads it.
///
/// The body may have any media type. The payload is archived while it arrives. If it breaks off, or if no bytes arrive for
/// `limits.idle_s`, it is discarded. It has up to `ingestion.max_payload_bytes`. If the same payload is uploaded again as
/// the same version while its run is in progress, the answer has that run.
#[utoipa::path(
    post,
    path = "/v1/pipelines/{pipeline_id}/runs",
    operation_id = "upload_payload",
    tag = "ground",
    params(("pipeline_id" = PipelineId, Path), UploadParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The payload, as the source released it"),
    responses(
        UploadProblems,
        (status = 202, description = "The run is in progress", body = UploadResponse),
        (status = 200, description = "An identical run has read the same records before", body = UploadResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    pipeline_id: Result<Path<String>, PathRejection>,
    params: Result<QueryParams<UploadParams>, Problem>,
    mut body: Body,
) -> Result<(StatusCode, Json<UploadResponse>), Problem> {
    let upload = check_upload(&service, pipeline_id, params, body.size_hint().lower()).await?;
    let payload = receive(&service, &mut body, &upload).await?;
    run_to_end(start_run(service, upload, payload, peer)).await
}

/// An upload that is accepted.
struct AcceptedUpload {
    pipeline: PipelineState,
    params: UploadParams,
    encoding: PayloadEncoding,
}

/// Rejects what can be rejected before the payload arrives.
async fn check_upload(
    service: &DaemonService,
    pipeline_id: Result<Path<String>, PathRejection>,
    params: Result<QueryParams<UploadParams>, Problem>,
    announced_bytes: u64,
) -> Result<AcceptedUpload, Problem> {
    service.check_new_work()?;
    let pipeline_id = parse_name(pipeline_id)?;
    let QueryParams(params) = params?;
    if !is_version(&params.version) {
        return Err(IngestionError::invalid_version(&params.version).into());
    }
    let max_bytes = max_payload_bytes(service);
    if announced_bytes > max_bytes as u64 {
        return Err(Problem::body_too_large(max_bytes));
    }
    let unknown = || RegistryError::PipelineUnknown(PipelineId::clone(&pipeline_id));
    let (pipeline, _) = service.system.store.pipeline(&pipeline_id)?.ok_or_else(unknown)?;
    let definition = service.system.store.registered_definition(&pipeline_id)?.ok_or_else(unknown)?;
    let encoding = PayloadEncoding::of(&definition.pipeline.retrieval);
    let oracle_id = &pipeline.oracle_id;
    let running = service.system.ingestion.ask(ListRunProgress).await?;
    let Some(run) = running.into_iter().find(|run| run.oracle_id == *oracle_id) else {
        return Ok(AcceptedUpload { pipeline, params, encoding });
    };
    let Moment(released_at) = params.released_at;
    let is_other = |found: &IngestionRun| {
        // a run that has just ended may still be listed for a moment
        found.state == RunState::Running
            // the same upload gets the run in progress once its payload is known to be the same
            && (&found.pipeline_id, &found.input.version, found.input.released_at)
                != (&pipeline_id, &params.version, released_at)
    };
    if service.system.store.run(&run.run_id)?.is_some_and(|(found, _)| is_other(&found)) {
        return Err(IngestionError::Busy { oracle_id: pipeline.oracle_id, run_id: run.run_id }.into());
    }
    Ok(AcceptedUpload { pipeline, params, encoding })
}

/// Maximum size of a payload, in bytes.
fn max_payload_bytes(service: &DaemonService) -> usize {
    usize::try_from(service.section::<IngestionSection>().max_payload_bytes).unwrap_or(usize::MAX)
}

/// Receives a payload piece by piece. If the result is dropped before it is finished, nothing is stored.
async fn receive(
    service: &DaemonService,
    body: &mut Body,
    upload: &AcceptedUpload,
) -> Result<PayloadArchiver, Problem> {
    let (max_bytes, idle_s) = (max_payload_bytes(service), service.limits.idle_s);
    let store = service.system.store.clone();
    let archiving =
        PayloadArchiver::begin(store, upload.pipeline.oracle_id.clone(), upload.encoding, max_bytes as u64);
    let mut left_bytes = max_bytes;
    loop {
        let frame = timeout(Duration::from_secs(idle_s), body.frame()).await;
        let frame = frame.map_err(|_| Problem::body_broken(format!("no bytes arrived for {idle_s} s")))?;
        let Some(frame) = frame else { return Ok(archiving) };
        let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        let left = left_bytes.checked_sub(piece.len());
        left_bytes = left.ok_or(Problem::body_too_large(max_bytes))?;
        if archiving.push(piece).await.is_err() {
            // `finish` returns the error
            return Ok(archiving);
        }
    }
}

/// Stores a payload under its digest, and starts a run over it.
async fn start_run(
    service: Arc<DaemonService>,
    upload: AcceptedUpload,
    payload: PayloadArchiver,
    peer: PeerCredentials,
) -> Result<(StatusCode, Json<UploadResponse>), Problem> {
    let _turn = ARCHIVING.lock().await;
    let payload = payload.finish().await.map_err(IngestionError::from)?;
    let AcceptedUpload { pipeline, params, .. } = upload;
    let PipelineState { pipeline_id, pipeline_sha256, .. } = pipeline;
    let UploadParams { version, released_at: Moment(released_at), replace } = params;
    let begin = StartRun {
        pipeline_id,
        pipeline_sha256,
        version,
        released_at,
        replace,
        payload: payload.clone(),
        source_url: None,
        retrieved_at: None,
        invalidation_count: None,
        requested_by: peer.uid.to_string(),
        peer: Some(peer),
    };
    let outcome = service.system.ingestion.ask(begin).await?;
    match outcome {
        Ok(StartRunOutcome::Started(run)) => {
            Ok((StatusCode::ACCEPTED, Json(UploadResponse { unchanged: false, run: *run })))
        }
        Ok(StartRunOutcome::Unchanged(run)) => {
            service.system.store.remove_new_payload(&payload.sha256)?;
            Ok((StatusCode::OK, Json(UploadResponse { unchanged: true, run: *run })))
        }
        // the entry may be durable: ingestion removes the payload later if it is not
        Err(error @ IngestionError::Commit(CommitError::Unavailable(_))) => Err(error.into()),
        Err(error) => {
            service.system.store.remove_new_payload(&payload.sha256)?;
            Err(error.into())
        }
    }
}
