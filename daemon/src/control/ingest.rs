//! `POST /v1/pipelines/{pipeline_id}/runs`: a payload is handed in, archived as it comes, and a run begins over it.
//!
//! A payload is as large as a disk allows: of one that comes, a few pieces are in memory.

use super::{act, named, pipeline};
use crate::api::request::discard;
use crate::moment::Moment;
use crate::problem::Problem;
use crate::service::Service;
use actors::ingestion::{Begin, Begun, IngestionError, Running};
use axum::body::{Body, HttpBody};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use bytes::Bytes;
use domain::Peer;
use domain::ground::id::PipelineId;
use domain::ground::ontology::is_version;
use domain::ground::run::{Run, RunState};
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use store::ground::archive::{ArchiveWriter, Archived};
use store::{Store, StoreError};
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest payload that may be handed in: 16 GiB.
pub const PAYLOAD_MAX_BYTES: usize = 16 << 30;
/// So many pieces of a payload wait to be archived at the most; hyper's are of some 100 KiB.
const PIECES_WAITING: usize = 4;

/// Between the moment that a payload is in the archive and the moment that a run names it nobody may take it for one that
/// nobody needs.
static ARCHIVING: Mutex<()> = Mutex::const_new(());

/// What is said of a payload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What the source calls this version.
    version: String,
    /// When the source released it.
    released_at: Moment,
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ingested {
    /// Whether the same run has brought the same records before, so that nothing changes.
    pub unchanged: bool,
    /// The run.
    pub run: Run,
}

/// Whether a request hands in a payload, which takes the time that it takes.
pub fn is_upload<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && path.starts_with("/v1/pipelines/") && path.ends_with("/runs")
}

/// Archives the body, whatever it is declared to be, and begins a run over it: 202, or 200 where the same run has brought
/// the same records before.
///
/// # Errors
/// `PipelineUnknown`, `InvalidRequest`; `RunBusy` while another run of the source goes on; `BodyTooLarge`, `BodyBroken`,
/// `RequestTimeout` where nothing comes for too long: then nothing stays.
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    pipeline_id: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
    mut body: Body,
) -> Result<(StatusCode, Json<Ingested>), Problem> {
    let received = match checked(&service, pipeline_id, asked).await {
        Ok((pipeline_id, asked)) => {
            receive(&service, &mut body).await.map(|writer| (pipeline_id, asked, writer))
        }
        Err(problem) => Err(problem),
    };
    match received {
        Ok((pipeline_id, asked, payload)) => act(begin(service, pipeline_id, asked, payload, peer)).await,
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
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<(PipelineId, Asked), Problem> {
    let pipeline_id = named(pipeline_id)?;
    let Query(asked) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    if !is_version(&asked.version) {
        return Err(IngestionError::Version.into());
    }
    let oracle_id = pipeline::known(service, &pipeline_id)?.registered.oracle_id;
    let running = service.system.ingestion.ask(Running).await?;
    match running.into_iter().find(|run| run.oracle_id == oracle_id) {
        Some(run) => Err(IngestionError::Busy { oracle_id, run_id: run.run_id }.into()),
        None => Ok((pipeline_id, asked)),
    }
}

/// Takes a payload in as it comes. Dropped before it is finished, it leaves nothing.
async fn receive(service: &Service, body: &mut Body) -> Result<ArchiveWriter, Problem> {
    const MAX_BYTES: u64 = PAYLOAD_MAX_BYTES as u64;
    let too_large = || Problem::BodyTooLarge { max_bytes: PAYLOAD_MAX_BYTES };
    let idle_s = service.config.limits.idle_s;
    // what is announced too large need not be sent first
    if body.size_hint().lower() > MAX_BYTES {
        return Err(too_large());
    }
    let (pieces, coming) = mpsc::channel(PIECES_WAITING);
    let store = service.system.store.clone();
    let archived = spawn_blocking(move || archive(&store, coming));
    let mut size_bytes = 0;
    while let Some(frame) = timeout(Duration::from_secs(idle_s), body.frame())
        .await
        .map_err(|_| Problem::BodyBroken(format!("nothing has come for {idle_s} s")))?
    {
        let frame = frame.map_err(|error| Problem::BodyBroken(error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        size_bytes += piece.len() as u64;
        if size_bytes > MAX_BYTES {
            return Err(too_large());
        }
        if pieces.send(piece).await.is_err() {
            break;
        }
    }
    drop(pieces);
    Ok(archived.await.map_err(|error| Problem::Internal(error.to_string()))??)
}

/// Writes what comes into the archive, and hands it back without a name.
fn archive(store: &Store, mut coming: mpsc::Receiver<Bytes>) -> Result<ArchiveWriter, StoreError> {
    let mut writer = store.files().archive_writer()?;
    while let Some(piece) = coming.blocking_recv() {
        writer.push(&piece)?;
    }
    Ok(writer)
}

/// Gives a payload its name and begins a run over it.
async fn begin(
    service: Arc<Service>,
    pipeline_id: PipelineId,
    asked: Asked,
    payload: ArchiveWriter,
    peer: Peer,
) -> Result<(StatusCode, Json<Ingested>), Problem> {
    let _turn = ARCHIVING.lock().await;
    let finished = spawn_blocking(move || payload.finish()).await;
    let payload = finished.map_err(|error| Problem::Internal(error.to_string()))??;
    let Asked { version, released_at: Moment(released_at) } = asked;
    let begin = Begin {
        pipeline_id,
        version,
        released_at,
        payload: payload.clone(),
        source_url: None,
        requested_by: peer.uid.to_string(),
        peer: Some(peer),
    };
    let begun = service.system.ingestion.ask(begin).await?;
    match begun {
        Ok(Begun::Started(run)) => Ok((StatusCode::ACCEPTED, Json(Ingested { unchanged: false, run: *run }))),
        Ok(Begun::Unchanged(run)) => {
            remove_unneeded(&service.system.store, &payload)?;
            Ok((StatusCode::OK, Json(Ingested { unchanged: true, run: *run })))
        }
        // whether its entry is durable is not certain; the next start removes the payload where it is not
        Err(error @ IngestionError::Commit(_)) => Err(error.into()),
        Err(error) => {
            remove_unneeded(&service.system.store, &payload)?;
            Err(error.into())
        }
    }
}

/// Removes a payload that no run needs.
fn remove_unneeded(store: &Store, payload: &Archived) -> Result<(), StoreError> {
    for run in store.runs()?.iter().filter(|run| run.input.raw_sha256 == payload.sha256) {
        let definition = store.definition(&run.input.pipeline_sha256)?;
        let is_kept = definition.is_none_or(|definition| definition.pipeline.audit.log_raw_input);
        if run.state != RunState::Completed || is_kept {
            return Ok(());
        }
    }
    store.files().remove_archived(&payload.sha256).map(|_| ())
}
