//! Upkeep of a source: pull, check, prune, rebuild and export.
//!
//! None of them has a time limit. A check and an export end when the administrator closes the connection; the others run
//! to completion.

use crate::platform::api::request::Unasked;
use crate::platform::control::document::Document;
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use oracled_actors::ground::ingestion::{Prune, Pull, PullOutcome, Rebuild, Verify};
use oracled_actors::ground::queries::StillWaiting;
use oracled_actors::platform::caller::carried;
use oracled_api::base::pieces::{Pieces, Sender};
use oracled_api::base::problem::ProblemCode;
use oracled_api::ground::{PruneRequest, PullResponse, VerifyFilesRequest};
use oracled_domain::Peer;
use oracled_domain::audit::event::{ReadKind, ReadOutcome};
use oracled_domain::base::moment::Moment;
use oracled_domain::ground::check::{PruneOutcome, RebuildOutcome, VerifiedSource};
use oracled_domain::ground::id::SourceId;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::runtime::Handle;

/// An export is handed on in pieces of so many bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// So many pieces may wait to be read.
const PIECES_WAITING: usize = 4;

/// Whether a request is one of these.
pub fn takes_its_time<B>(request: &Request<B>) -> bool {
    let (path, method) = (request.uri().path(), request.method());
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    (method == Method::POST && ends(&["/pull", "/prune", "/verify", "/rebuild", "/undo"]))
        || (method == Method::GET && ends(&["/export"]))
}

/// Pulls a pipeline's payload and begins its run. Answers once it has come.
///
/// # Errors
/// `Draining`; `PipelineUnknown`, `InvalidRequest` where it does not pull, `PullBusy`, `PullFailed`, `RunBusy`.
pub async fn pull(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    pipeline_id: Result<Path<String>, PathRejection>,
    _: Unasked,
) -> Result<Json<PullResponse>, Problem> {
    if service.draining() {
        return Err(Problem::draining());
    }
    let pipeline_id = named(pipeline_id)?;
    act(async move {
        let requested_by = peer.uid.to_string();
        let pull = Pull { pipeline_id, requested_by, peer: Some(peer) };
        Ok(Json(match service.system.ingestion.ask(pull).await?? {
            PullOutcome::NothingNew { retrieved_at } => {
                PullResponse { unchanged: true, run: None, retrieved_at: Some(retrieved_at) }
            }
            PullOutcome::Begun(begun) => {
                let unchanged = matches!(begun, oracled_actors::ground::ingestion::Begun::Unchanged(_));
                let (oracled_actors::ground::ingestion::Begun::Started(run)
                | oracled_actors::ground::ingestion::Begun::Unchanged(run)) = begun;
                PullResponse { unchanged, run: Some(*run), retrieved_at: None }
            }
        }))
    })
    .await
}

/// Takes the content of what had ceased to hold out of a source.
///
/// # Errors
/// `SourceUnknown`, `InvalidRequest` where it is to be kept, `RunBusy`; where the entry cannot be committed, and then
/// nothing changes.
pub async fn prune(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<PruneOutcome>, Problem> {
    let oracle_id = named(oracle_id)?;
    let PruneRequest { before } = document.read()?;
    let before = before.map(|Moment(before)| before);
    act(async move { Ok(Json(service.system.ingestion.ask(Prune { oracle_id, before, peer }).await??)) })
        .await
}

/// Compares a source's files, payloads and raw records with their digests. The check stops when its caller closes the
/// connection.
///
/// # Errors
/// `SourceUnknown`, `RunUnknown`; where they cannot be read. What is wrong with them is the answer.
pub async fn verify(
    State(service): State<Arc<Service>>,
    Extension(still_waiting): Extension<StillWaiting>,
    oracle_id: Result<Path<String>, PathRejection>,
    document: Document,
) -> Result<Json<VerifiedSource>, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let VerifyFilesRequest { run_id } = document.read()?;
    let unknown = run_id.clone();
    let verified = act(async move {
        let (of_progress, checked) = (Arc::clone(&service), oracle_id.clone());
        let proceed = Arc::new(move |progress| {
            of_progress.checks.set(&checked, Some(progress));
            still_waiting()
        });
        let check = Verify { oracle_id: oracle_id.clone(), run_id, proceed };
        let verified = service.system.ingestion.ask(check).await;
        service.checks.set(&oracle_id, None);
        Ok(verified??)
    })
    .await?;
    match unknown.filter(|_| verified.runs.is_empty() && verified.file_fault.is_none()) {
        Some(run_id) => Err(Problem::run_unknown(run_id.to_string())),
        None => Ok(Json(verified)),
    }
}

/// Makes the files of a source anew that are damaged or gone, out of its archived payloads. What it says stays the same.
///
/// # Errors
/// `SourceUnknown`, `RunBusy`; `NotRebuilt` where a payload is not whole, or comes to something else: nothing changes then.
pub async fn rebuild(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RebuildOutcome>, Problem> {
    let oracle_id = named(oracle_id)?;
    act(async move { Ok(Json(service.system.ingestion.ask(Rebuild { oracle_id, peer }).await??)) }).await
}

/// Every version of every record of a source with its provenance, one line of JSON each.
///
/// # Errors
/// `SourceUnknown`. Where a record cannot be read the answer breaks off.
pub async fn export(
    State(service): State<Arc<Service>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let oracle_id: SourceId = named(oracle_id)?;
    let queries = service.system.queries.clone();
    let requested = serde_json::json!({"oracle_id": oracle_id});
    let open = || queries.open_entry(ReadKind::Export, Some(oracle_id.clone()), &requested);
    let mut started = open();
    let Some(view) = service.system.store.view(&oracle_id)? else {
        started.ended_as(ReadOutcome::SourceUnknown);
        queries.close_entry(started).await?;
        return Err(Problem::new(ProblemCode::SourceUnknown, format!("no source {oracle_id} is registered")));
    };
    let mut ended = open();
    started.ended_as(ReadOutcome::Started);
    queries.close_entry(started).await?;
    let (sender, body) = Pieces::new(PIECES_WAITING);
    let runtime = Handle::current();
    let mut out = Export { sender, piece: Vec::new(), lines: 0, runtime };
    let exporting = tokio::task::spawn_blocking(move || {
        let exported = view.export(&mut out).map_err(|error| error.to_string());
        let exported = exported.and_then(|_| out.flush().map_err(|error| error.to_string()));
        (exported, view, out)
    });
    tokio::spawn(carried(async move {
        let Ok((exported, view, out)) = exporting.await else { return };
        ended.exported(view.state.completed.iter().map(|run| run.release.version.as_str()), out.lines);
        if exported.is_err() {
            ended.ended_as(ReadOutcome::Failed);
        }
        let closed = queries.close_entry(ended).await.map_err(|error| error.to_string());
        match exported.and(closed) {
            Ok(()) => out.sender.finish(),
            Err(error) => tracing::warn!(error, "an export has broken off"),
        }
    }));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(body)).into_response())
}

/// What is written, handed on piece by piece from a thread that may wait.
struct Export {
    sender: Sender,
    piece: Vec<u8>,
    /// The lines that were sent.
    lines: u64,
    runtime: Handle,
}

impl Write for Export {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
        self.runtime.block_on(self.sender.send(piece.into())).map_err(io::Error::other)?;
        self.lines += lines as u64;
        Ok(())
    }
}
