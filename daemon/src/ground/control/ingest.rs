//! `POST /v1/pipelines/{pipeline_id}/runs`: a payload is handed in, archived as it comes, and a run begins over it.
//!
//! A payload is as large as a disk allows: of one that comes, a few pieces are in memory.

use super::pipeline;
use crate::platform::api::request::{QueryParams, discard};
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::body::{Body, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http_body_util::BodyExt;
use hyper::header::EXPECT;
use hyper::{HeaderMap, Method, Request, StatusCode};
use oracled_actors::audit::logger::CommitError;
use oracled_actors::ground::ingestion::{ARCHIVING, Archiving, Begin, Begun, IngestionError, Running};
use oracled_api::ground::{UploadParams, UploadResponse};
use oracled_domain::Peer;
use oracled_domain::base::moment::Moment;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::ontology::is_version;
use oracled_domain::ground::run::RunState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Whether a request hands in a payload, which takes the time that it takes.
pub fn is_upload<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && path.starts_with("/v1/pipelines/") && path.ends_with("/runs")
}

/// Archives the body, whatever it is declared to be, and begins a run over it: 202, or 200 where the same run has brought
/// the same records before.
///
/// # Errors
/// `Draining`; `PipelineUnknown`, `InvalidRequest`; `RunBusy` while another run of the source is in progress;
/// `BodyTooLarge`, `BodyBroken`; `RequestTimeout` if no bytes arrive for too long. The payload is then discarded.
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    pipeline_id: Result<Path<String>, PathRejection>,
    params: Result<QueryParams<UploadParams>, Problem>,
    headers: HeaderMap,
    mut body: Body,
) -> Result<(StatusCode, Json<UploadResponse>), Problem> {
    let (pipeline_id, params) = match checked(&service, pipeline_id, params, body.size_hint().lower()).await {
        Ok(checked) => checked,
        Err(problem) => {
            // who waits to be told to go on has sent nothing, and would be told so by the first look at what comes
            if !headers.contains_key(EXPECT) {
                discard(&mut body).await;
            }
            return Err(problem);
        }
    };
    match receive(&service, &mut body).await {
        Ok(payload) => act(begin(service, pipeline_id, params, payload, peer)).await,
        Err(problem) => {
            discard(&mut body).await;
            Err(problem)
        }
    }
}

/// What can be refused before the payload has come is refused then.
async fn checked(
    service: &Service,
    pipeline_id: Result<Path<String>, PathRejection>,
    params: Result<QueryParams<UploadParams>, Problem>,
    announced_bytes: u64,
) -> Result<(PipelineId, UploadParams), Problem> {
    if service.draining() {
        return Err(Problem::draining());
    }
    let pipeline_id = named(pipeline_id)?;
    let QueryParams(params) = params?;
    if !is_version(&params.version) {
        return Err(IngestionError::bad_version(&params.version).into());
    }
    let max_bytes = max_bytes(service);
    if announced_bytes > max_bytes as u64 {
        return Err(Problem::body_too_large(max_bytes));
    }
    let oracle_id = pipeline::known(service, &pipeline_id)?.registered.oracle_id;
    let running = service.system.ingestion.ask(Running).await?;
    let Some(run) = running.into_iter().find(|run| run.oracle_id == oracle_id) else {
        return Ok((pipeline_id, params));
    };
    // one that has ended gives its source's place back in a moment
    let found = service.system.store.run(&run.run_id)?;
    if found.is_some_and(|(found, _)| found.state == RunState::Running) {
        return Err(IngestionError::Busy { oracle_id, run_id: run.run_id }.into());
    }
    Ok((pipeline_id, params))
}

/// The most bytes that a payload may have.
fn max_bytes(service: &Service) -> usize {
    usize::try_from(service.config.ingestion.max_payload_bytes).unwrap_or(usize::MAX)
}

/// Takes a payload in as it comes. Dropped before it is finished, it leaves nothing.
async fn receive(service: &Service, body: &mut Body) -> Result<Archiving, Problem> {
    let (max_bytes, idle_s) = (max_bytes(service), service.config.limits.idle_s);
    let archiving = Archiving::begin(service.system.store.files().clone());
    let mut left_bytes = max_bytes;
    loop {
        let frame = timeout(Duration::from_secs(idle_s), body.frame()).await;
        let frame = frame.map_err(|_| Problem::body_broken(format!("nothing has come for {idle_s} s")))?;
        let Some(frame) = frame else { return Ok(archiving) };
        let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        let left = left_bytes.checked_sub(piece.len());
        left_bytes = left.ok_or(Problem::body_too_large(max_bytes))?;
        if archiving.push(piece).await.is_err() {
            // the end tells what is wrong
            return Ok(archiving);
        }
    }
}

/// Gives a payload its name and begins a run over it.
async fn begin(
    service: Arc<Service>,
    pipeline_id: PipelineId,
    params: UploadParams,
    payload: Archiving,
    peer: Peer,
) -> Result<(StatusCode, Json<UploadResponse>), Problem> {
    let _turn = ARCHIVING.lock().await;
    let payload = payload.finish().await.map_err(IngestionError::from)?;
    let UploadParams { version, released_at: Moment(released_at), replace } = params;
    let begin = Begin {
        pipeline_id,
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
    let begun = service.system.ingestion.ask(begin).await?;
    match begun {
        Ok(Begun::Started(run)) => {
            Ok((StatusCode::ACCEPTED, Json(UploadResponse { unchanged: false, run: *run })))
        }
        Ok(Begun::Unchanged(run)) => {
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
