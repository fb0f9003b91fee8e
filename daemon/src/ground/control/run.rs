//! `/v1/runs`: ingestion runs, with their progress, their results, what they change, and what they reject.
//!
//! `POST /v1/pipelines/{pipeline_id}/runs` receives a payload, archives it, and starts a run over it. The size of a
//! payload is only limited by the disk: at most a few pieces are in memory.

use super::source;
use crate::ground::RUN;
use crate::ground::config::IngestionSection;
use crate::platform::api::request::QueryParams;
use crate::platform::cluster::ClusterSection;
use crate::platform::control::{ControlBody, check_reason, parse_name};
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{DOCUMENT_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_audit::logger::CommitError;
use actors_ground::ingestion::{
    ARCHIVING, ApproveRun, CancelRun, DiscardRun, IngestionError, ListRunProgress, PayloadArchiver, StartRun,
    StartRunOutcome, UndoRun,
};
use actors_ground::registry::RegistryError;
use axum::body::{Body, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_audit::event::ReadSubject;
use domain_base::caller::PeerCredentials;
use domain_base::digest::is_digit;
use domain_base::moment::Moment;
use domain_base::page::ListPage;
use domain_base::problem::{
    BODY_BROKEN, BODY_TOO_LARGE, FACTS_NOT_HERE, IN_CLUSTER, INVALID_DOCUMENT, INVALID_REQUEST,
    SOURCE_DAMAGED,
};
use domain_ground::id::PipelineId;
use domain_ground::ontology::is_version;
use domain_ground::pipeline::PipelineState;
use domain_ground::problem::{
    CONTENT_PRUNED, PAYLOAD_UNDECODABLE, PIPELINE_UNKNOWN, RUN_BUSY, RUN_NOT_HELD, RUN_NOT_IN_FORCE,
    RUN_NOT_RUNNING, RUN_OUTDATED, RUN_UNKNOWN, RUNS_HELD, SOURCE_UNKNOWN, VERSION_KNOWN,
};
use domain_ground::run::{IngestionRun, RunProgress, RunState};
use domain_ground::source_state::SourceState;
use domain_ground::wire::{
    ApprovalRequest, ReasonRequest, RejectReport, RejectsParams, RunChangeReport, RunChangesParams,
    RunReport, RunsParams, UploadParams, UploadResponse,
};
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use oracled_store::{Store, StoreError};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use store_facts::decoding::PayloadEncoding;
use tokio::time::timeout;

/// Minimum number of first digits that may name a run, if they are unique.
const DIGITS_MIN: usize = 8;

problems!(ListProblems: STORE; SOURCE_UNKNOWN RUN_UNKNOWN);

/// List runs, the latest first.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "list_runs",
    tag = "ground",
    params(RunsParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of runs", body = ListPage<RunReport>),
    ),
)]
pub async fn list_runs(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<RunsParams>,
) -> Result<Json<ListPage<RunReport>>, Problem> {
    let RunsParams { oracle_id, after, limit } = params;
    if let Some(oracle_id) = &oracle_id {
        source::find_source(&service, oracle_id)?;
    }
    // read first: a run that ends meanwhile is then listed as ended, and no ended run as running
    let running = service.system.ingestion.ask(ListRunProgress).await?;
    let mut runs = service.system.store.runs()?;
    runs.retain(|run| oracle_id.as_ref().is_none_or(|oracle_id| run.oracle_id == *oracle_id));
    runs.sort_by_key(|run| Reverse(run.started_at));
    if let Some(after) = after {
        let position = runs.iter().position(|run| run.run_id == after);
        let position = position.ok_or_else(|| Problem::run_unknown(after.to_string()))?;
        runs.drain(..=position);
    }
    runs.truncate(*limit + 1);
    let mut sources = BTreeMap::new();
    for run in &runs {
        if !sources.contains_key(&run.oracle_id) {
            sources.insert(run.oracle_id.clone(), service.system.store.source(&run.oracle_id)?);
        }
    }
    let source =
        |run: &IngestionRun| sources.get(&run.oracle_id).and_then(Option::as_ref).map(|(source, _)| source);
    let reports = runs.into_iter().map(|run| report_run(source(&run), run, &running)).collect();
    Ok(Json(ListPage::from_items(reports, *limit, |report: &RunReport| report.run.run_id.to_string())))
}

problems!(ReadProblems: RUN STORE);

/// Read a run and its progress.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}",
    operation_id = "read_run",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits")),
    responses(
        ReadProblems,
        (status = 200, description = "The run", body = RunReport),
    ),
)]
pub async fn read_run(
    State(service): State<Arc<DaemonService>>,
    run_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RunReport>, Problem> {
    let running = service.system.ingestion.ask(ListRunProgress).await?;
    let store = &service.system.store;
    let run = find_run(store, run_id)?;
    let source = store.source(&run.oracle_id)?.map(|(source, _)| source);
    Ok(Json(report_run(source.as_ref(), run, &running)))
}

problems!(CancelProblems: RUN STORE; RUN_NOT_RUNNING);

/// Cancel a run.
///
/// None of its records become visible, unless its last commit is already in progress.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/cancel",
    operation_id = "cancel_run",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits")),
    responses(
        CancelProblems,
        (status = 202, description = "The run will end", body = RunReport),
    ),
)]
pub async fn cancel_run(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    run_id: Result<Path<String>, PathRejection>,
) -> Result<(StatusCode, Json<RunReport>), Problem> {
    run_to_end(async move {
        let run = find_run(&service.system.store, run_id)?;
        let running = service.system.ingestion.ask(ListRunProgress).await?;
        service.system.ingestion.ask(CancelRun { run_id: run.run_id.clone(), peer }).await??;
        Ok((StatusCode::ACCEPTED, Json(report_run(None, run, &running))))
    })
    .await
}

problems!(ApproveProblems: DOCUMENT_BODY RUN STORE; IN_CLUSTER RUN_NOT_HELD RUN_OUTDATED RUN_BUSY VERSION_KNOWN);

/// Approve a held run.
///
/// Its payload is read again, and its records become visible. If a run of the source was completed since the held run was read, the
/// request names it in `outdated_by`.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/approve",
    operation_id = "approve_run",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits")),
    request_body = ApprovalRequest,
    responses(
        ApproveProblems,
        (status = 202, description = "The run has started again", body = RunReport),
    ),
)]
pub async fn approve_run(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    run_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<(StatusCode, Json<RunReport>), Problem> {
    let ApprovalRequest { reason, outdated_by } = body.read()?;
    check_reason(&reason)?;
    run_to_end(async move {
        let run_id = find_run(&service.system.store, run_id)?.run_id;
        let approval = ApproveRun { run_id, reason, outdated_by, peer };
        let run = service.system.ingestion.ask(approval).await??;
        Ok((StatusCode::ACCEPTED, Json(report_changed_run(run))))
    })
    .await
}

problems!(DiscardProblems: DOCUMENT_BODY RUN STORE; RUN_NOT_HELD);

/// Discard a held run.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/discard",
    operation_id = "discard_run",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits")),
    request_body = ReasonRequest,
    responses(
        DiscardProblems,
        (status = 200, description = "The discarded run", body = RunReport),
    ),
)]
pub async fn discard_run(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    run_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<RunReport>, Problem> {
    let reason = source::parse_reason(&body)?;
    run_to_end(async move {
        let run_id = find_run(&service.system.store, run_id)?.run_id;
        let run = service.system.ingestion.ask(DiscardRun { run_id, reason, peer }).await??;
        Ok(Json(report_changed_run(run)))
    })
    .await
}

problems!(UndoProblems: DOCUMENT_BODY RUN STORE; IN_CLUSTER RUN_NOT_IN_FORCE RUN_BUSY CONTENT_PRUNED SOURCE_DAMAGED FACTS_NOT_HERE);

/// Undo a completed run.
///
/// The response has the new run that does so, which can itself be undone.
#[utoipa::path(
    post,
    path = "/v1/runs/{run_id}/undo",
    operation_id = "undo_run",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits")),
    request_body = ReasonRequest,
    responses(
        UndoProblems,
        (status = 200, description = "The new run", body = RunReport),
    ),
)]
pub async fn undo_run(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    run_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<RunReport>, Problem> {
    let reason = source::parse_reason(&body)?;
    run_to_end(async move {
        let run_id = find_run(&service.system.store, run_id)?.run_id;
        let run = service.system.ingestion.ask(UndoRun { run_id, reason, peer }).await??;
        Ok(Json(report_changed_run(run)))
    })
    .await
}

/// The run that a path names by its id, or by its first digits.
fn find_run(store: &Store, run_id: Result<Path<String>, PathRejection>) -> Result<IngestionRun, Problem> {
    let Path(digits) = run_id.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    find_run_of_digits(store, &digits)
}

/// The run with this id, or with these first digits of its id.
pub(crate) fn find_run_of_digits(store: &Store, digits: &str) -> Result<IngestionRun, Problem> {
    if digits.len() < DIGITS_MIN || !digits.bytes().all(is_digit) {
        let detail = format!(
            "`{digits}` is not the id of a run; use the id, or {DIGITS_MIN} or more of its first digits (lower-case hexadecimal)"
        );
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let unknown = || Problem::run_unknown(digits.to_owned());
    let ids = store.runs_with_prefix(digits)?;
    if ids.len() > 1 {
        let detail = format!("several run ids begin with {digits}; use more digits");
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let run_id = ids.first().and_then(|run_id| run_id.parse().ok()).ok_or_else(unknown)?;
    Ok(store.run(&run_id)?.ok_or_else(unknown)?.0)
}

/// The current state of a run, and the run that undid it.
fn report_run(source: Option<&SourceState>, run: IngestionRun, running: &[RunProgress]) -> RunReport {
    let progress = running.iter().find(|progress| progress.run_id == run.run_id);
    // the progress was read before the run's end was committed, and is outdated then
    let progress = progress.filter(|_| run.ended_at.is_none()).cloned();
    let undone_by = source.and_then(|source| source.run_undone_by(&run.run_id)).map(|by| by.run_id.clone());
    let outdated_by = source.and_then(|source| source.run_since(&run)).map(|since| since.run_id.clone());
    RunReport { run, progress, undone_by, outdated_by }
}

/// The report of a run that was just changed, and so was not undone.
fn report_changed_run(run: IngestionRun) -> RunReport {
    RunReport { run, progress: None, undone_by: None, outdated_by: None }
}

problems!(ChangesProblems: RUN STORE; SOURCE_DAMAGED FACTS_NOT_HERE);

/// List the changes of a run, with the raw records before and after them.
///
/// A held run has the changes that it would make to the records at the end of its reading. To find their raw records, its payload is
/// read from the beginning. The entry `operator_read` in the log names the reader of raw records.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/changes",
    operation_id = "list_run_changes",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits"), RunChangesParams),
    responses(
        ChangesProblems,
        (status = 200, description = "A page of changes", body = ListPage<RunChangeReport>),
    ),
)]
pub async fn list_run_changes(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    run_id: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<RunChangesParams>,
) -> Result<Json<ListPage<RunChangeReport>>, Problem> {
    let RunChangesParams { after, limit } = params;
    let store = service.system.store.clone();
    let run = find_run(&store, run_id)?;
    let page = run_blocking(move || -> Result<_, StoreError> {
        let changes = store.run_changes(&run, after, *limit + 1)?.into_iter();
        let changes = changes.map(|change| RunChangeReport {
            number: change.ordinal,
            kind: change.entry.kind,
            source_record_id: change.entry.source_record_id,
            record_id: change.record_id,
            valid_from: change.entry.valid_from,
            valid_until: change.entry.valid_until,
            before: change.before,
            after: change.after,
        });
        Ok(ListPage::from_items(changes.collect(), *limit, |change: &RunChangeReport| {
            change.number.to_string()
        }))
    });
    let page = page.await?;
    if page.items.iter().any(|change| change.before.is_some() || change.after.is_some()) {
        read.log(&service, ReadSubject::RawRecord).await?;
    }
    Ok(Json(page))
}

problems!(RejectsProblems: RUN STORE; SOURCE_DAMAGED FACTS_NOT_HERE);

/// List the records that a run rejected, with the reasons.
///
/// The entry `operator_read` in the log names the reader of raw records.
#[utoipa::path(
    get,
    path = "/v1/runs/{run_id}/rejects",
    operation_id = "list_rejects",
    tag = "ground",
    params(("run_id" = String, Path, pattern = "^[0-9a-f]{8,64}$", description = "The id of the run, or 8 or more of its first digits"), RejectsParams),
    responses(
        RejectsProblems,
        (status = 200, description = "A page of rejects", body = ListPage<RejectReport>),
    ),
)]
pub async fn list_rejects(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    run_id: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<RejectsParams>,
) -> Result<Json<ListPage<RejectReport>>, Problem> {
    let store = service.system.store.clone();
    let run = find_run(&store, run_id)?;
    let page = run_blocking(move || read_page(&store, &run, params)).await?;
    if page.items.iter().any(|report| report.raw_text.is_some()) {
        read.log(&service, ReadSubject::RawRecord).await?;
    }
    Ok(Json(page))
}

fn read_page(
    store: &Store,
    run: &IngestionRun,
    RejectsParams { after, raw, limit }: RejectsParams,
) -> Result<ListPage<RejectReport>, StoreError> {
    let rejects = store.rejects(run, after, *limit + 1)?;
    let ListPage { items, next } =
        ListPage::from_items(rejects, *limit, |reject| reject.position.to_string());
    let texts = if raw {
        let places = items.iter().map(|reject| (reject.offset, reject.len));
        store.raw_texts(&run.oracle_id, &run.input.raw_sha256, places)?
    } else {
        Vec::new()
    };
    let texts = texts.into_iter().map(Some).chain(iter::repeat(None));
    let items = items.into_iter().zip(texts).map(|(reject, raw_text)| RejectReport { reject, raw_text });
    Ok(ListPage { items: items.collect(), next })
}

/// Whether a request uploads a payload, which has no time limit.
pub fn is_upload<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && path.starts_with("/v1/pipelines/") && path.ends_with("/runs")
}

problems!(UploadProblems: STORE; IN_CLUSTER INVALID_DOCUMENT BODY_BROKEN PAYLOAD_UNDECODABLE PIPELINE_UNKNOWN RUN_BUSY VERSION_KNOWN RUNS_HELD RUN_NOT_IN_FORCE BODY_TOO_LARGE FACTS_NOT_HERE);

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
pub async fn upload_payload(
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
    if service.section::<ClusterSection>().lacks_objects() {
        // before the payload is read
        return Err(IngestionError::InCluster.into());
    }
    let pipeline_id = parse_name(pipeline_id)?;
    let QueryParams(params) = params?;
    if !is_version(&params.version) {
        return Err(IngestionError::invalid_version(&params.version).into());
    }
    let max_bytes = max_payload_bytes(service);
    if announced_bytes > max_bytes as u64 {
        return Err(Problem::body_too_large(max_bytes, Some(MAX_PAYLOAD_BYTES)));
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

/// The configuration key of the longest payload.
const MAX_PAYLOAD_BYTES: &str = "ingestion.max_payload_bytes";

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
        left_bytes = left.ok_or_else(|| Problem::body_too_large(max_bytes, Some(MAX_PAYLOAD_BYTES)))?;
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
