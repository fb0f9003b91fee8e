//! `/v1/sources/{oracle_id}`: the state of a source, its freshness, the history of its values, the operations of
//! administrators, and its upkeep: pull, check, prune, rebuild and export.
//!
//! No upkeep has a time limit. A check and an export end when the administrator closes the connection; the others run
//! to completion.

use crate::ground::QUERY;
use crate::platform::api::body::PieceWriter;
use crate::platform::api::request::QueryParams;
use crate::platform::control::{ControlBody, check_reason, parse_name};
use crate::platform::openapi::{DOCUMENT_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use actors_ground::ingestion::{PruneSource, PullOutcome, PullPipeline, RebuildSource, VerifySourceFiles};
use actors_ground::registry::{RegistryError, SourceInvalidation, SourceReviewDecision, policy_of};
use actors_platform::caller::{CallerWaitCheck, spawn_for_caller};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::moment::Moment;
use domain_base::problem::{BODY_TOO_LARGE, FACTS_NOT_HERE, IN_CLUSTER, INVALID_DOCUMENT, SOURCE_DAMAGED};
use domain_ground::event::{InvalidationCause, SourceReadKind, SourceReadOutcome};
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::problem::{
    NOT_INVALIDATED, NOT_REBUILT, ONTOLOGY_UNKNOWN, PAYLOAD_UNDECODABLE, PIPELINE_UNKNOWN, PULL_BUSY,
    PULL_FAILED, REVIEW_REFUSED, RUN_BUSY, RUN_NOT_IN_FORCE, RUN_UNKNOWN, RUNS_HELD, SOURCE_UNKNOWN,
    VERSION_KNOWN,
};
use domain_ground::query::{QueryRequest, ValueHistory};
use domain_ground::source::SourceRegistryEntry;
use domain_ground::source_state::{
    PruneOutcome, RebuildOutcome, SourceCheckProgress, SourceCheckReport, SourceState,
};
use domain_ground::wire::{
    ExportedVersion, FreshnessReport, PruneRequest, PullParams, PullResponse, ReasonRequest, SourceReport,
    SourceReviewRequest, ValueHistoryRequest, VerifyFilesRequest,
};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

problems!(ReadProblems: STORE; SOURCE_UNKNOWN);

/// Read a source, with its last check and the check in progress.
#[utoipa::path(
    get,
    path = "/v1/sources/{oracle_id}",
    operation_id = "read_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The source", body = SourceReport),
    ),
)]
pub async fn read_source(
    State(service): State<Arc<DaemonService>>,
    Extension(checks): Extension<SourceChecks>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<SourceReport>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let entry = find_source(&service, &oracle_id)?.entry;
    let last_check = service.system.store.source_check(&oracle_id);
    Ok(Json(SourceReport { entry, last_check, checking: checks.get(&oracle_id) }))
}

problems!(ReviewProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN REVIEW_REFUSED);

/// Approve a source, or set its deprecation date.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/review",
    operation_id = "review_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = SourceReviewRequest,
    responses(
        ReviewProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn review_source(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let review = match body.read()? {
        SourceReviewRequest::Approve {} => SourceReviewDecision::Approve,
        SourceReviewRequest::Deprecate(Moment(date)) => SourceReviewDecision::Deprecate(date),
    };
    run_to_end(async move { Ok(Json(service.system.registry.review(&oracle_id, review, peer).await?)) }).await
}

problems!(InvalidateProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN);

/// Mark all data of a source as stale until its newest release is ingested or confirmed.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/invalidate",
    operation_id = "invalidate_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ReasonRequest,
    responses(
        InvalidateProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn invalidate_source(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let detail = parse_reason(&body)?;
    run_to_end(async move {
        let trigger = InvalidationCause::Manual;
        let invalidation = SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer };
        service.system.registry.invalidate(invalidation).await?;
        Ok(Json(find_source(&service, &oracle_id)?.entry))
    })
    .await
}

problems!(ConfirmProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN NOT_INVALIDATED);

/// Confirm the data of an invalidated source.
///
/// The source no longer counts as stale, unless its data is too old.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/confirm",
    operation_id = "confirm_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ReasonRequest,
    responses(
        ConfirmProblems,
        (status = 200, description = "The source", body = SourceRegistryEntry),
    ),
)]
pub async fn confirm_source(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceRegistryEntry>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let detail = parse_reason(&body)?;
    run_to_end(async move {
        service.system.registry.confirm(&oracle_id, detail, peer).await?;
        Ok(Json(find_source(&service, &oracle_id)?.entry))
    })
    .await
}

pub(crate) fn parse_reason(body: &ControlBody) -> Result<String, Problem> {
    let ReasonRequest { reason } = body.read()?;
    check_reason(&reason)?;
    Ok(reason)
}

/// The stored state of a source.
pub(crate) fn find_source(service: &DaemonService, oracle_id: &SourceId) -> Result<SourceState, Problem> {
    let known = service.system.store.source(oracle_id)?;
    let unknown = || Problem::new(SOURCE_UNKNOWN, format!("no source {oracle_id} is registered"));
    Ok(known.ok_or_else(unknown)?.0)
}

problems!(FreshnessProblems: STORE; SOURCE_UNKNOWN ONTOLOGY_UNKNOWN);

/// Read the freshness of a source by the policy in force.
#[utoipa::path(
    get,
    path = "/v1/sources/{oracle_id}/freshness",
    operation_id = "read_freshness",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        FreshnessProblems,
        (status = 200, description = "The freshness", body = FreshnessReport),
    ),
)]
pub async fn read_freshness(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<FreshnessReport>, Problem> {
    let state = find_source(&service, &parse_name(oracle_id)?)?;
    let registration = &state.entry.registration;
    let reference = &registration.ontology;
    let ontology = service.system.store.ontology(reference)?;
    let unknown = || RegistryError::OntologyUnknown(reference.clone());
    let policy = policy_of(&state, &ontology.ok_or_else(unknown)?);
    let axes: Vec<_> = registration.axes_provided.iter().map(String::as_str).collect();
    let (invalidated_at, now) = (state.stale_since(), service.system.clock.now());
    let in_force = state.entry.version_in_force(state.present(now));
    let released_at = in_force.map(|version| version.released_at);
    Ok(Json(FreshnessReport {
        now: policy.evaluate(&axes, released_at, invalidated_at, now),
        current_version: in_force.map(|version| version.version.clone()),
        released_at,
        is_default: state.policy.is_none(),
        invalidated_at,
        policy,
    }))
}

problems!(HistoryProblems: DOCUMENT_BODY QUERY);

/// Read the history of a value: when it is valid, and when this daemon knew it so.
///
/// The filters fix all identity axes with `eq`. A question with `point_in_time` and `known_at` gets the value whose two
/// periods contain these times. Freshness is not checked. The log has one entry for it.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/history",
    operation_id = "read_value_history",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = ValueHistoryRequest,
    responses(
        HistoryProblems,
        (status = 200, description = "The values with their periods", body = ValueHistory),
    ),
)]
pub async fn read_value_history(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<ValueHistory>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let ValueHistoryRequest { axis, filters } = body.read()?;
    let request = QueryRequest { axes_requested: vec![axis], filters, ..QueryRequest::default() };
    let queries = service.system.queries.clone();
    let read = service.run_work(async move { Ok(queries.value_history(&oracle_id, request).await?) });
    Ok(Json(read.await?))
}

/// Whether a request has no time limit, because it is one of these, or an undo.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    let (path, method) = (request.uri().path(), request.method());
    let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
    (method == Method::POST && ends(&["/pull", "/prune", "/verify", "/rebuild", "/undo"]))
        || (method == Method::GET && ends(&["/export"]))
}

problems!(PullProblems: STORE; IN_CLUSTER INVALID_DOCUMENT PIPELINE_UNKNOWN PULL_BUSY PULL_FAILED PAYLOAD_UNDECODABLE BODY_TOO_LARGE RUN_BUSY VERSION_KNOWN RUNS_HELD RUN_NOT_IN_FORCE FACTS_NOT_HERE);

/// Pull the payload of a pipeline and start its run.
///
/// The response is sent when the payload has arrived.
#[utoipa::path(
    post,
    path = "/v1/pipelines/{pipeline_id}/pull",
    operation_id = "pull_payload",
    tag = "ground",
    params(("pipeline_id" = PipelineId, Path), PullParams),
    responses(
        PullProblems,
        (status = 200, description = "The run, or that the source has nothing new", body = PullResponse),
    ),
)]
pub async fn pull(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    pipeline_id: Result<Path<String>, PathRejection>,
    params: Result<QueryParams<PullParams>, Problem>,
) -> Result<Json<PullResponse>, Problem> {
    service.check_new_work()?;
    let pipeline_id = parse_name(pipeline_id)?;
    let QueryParams(PullParams { force }) = params?;
    run_to_end(async move {
        let requested_by = peer.uid.to_string();
        let pull = PullPipeline { pipeline_id, requested_by, peer: Some(peer), force };
        Ok(Json(match service.system.ingestion.ask(pull).await?? {
            PullOutcome::NothingNew { retrieved_at } => {
                PullResponse { unchanged: true, run: None, retrieved_at: Some(retrieved_at) }
            }
            PullOutcome::Begun(outcome) => {
                let unchanged = matches!(outcome, actors_ground::ingestion::StartRunOutcome::Unchanged(_));
                let (actors_ground::ingestion::StartRunOutcome::Started(run)
                | actors_ground::ingestion::StartRunOutcome::Unchanged(run)) = outcome;
                PullResponse { unchanged, run: Some(*run), retrieved_at: None }
            }
        }))
    })
    .await
}

problems!(PruneProblems: DOCUMENT_BODY STORE; IN_CLUSTER SOURCE_UNKNOWN RUN_BUSY SOURCE_DAMAGED FACTS_NOT_HERE);

/// Remove from a source the content of records that are no longer valid.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/prune",
    operation_id = "prune_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = PruneRequest,
    responses(
        PruneProblems,
        (status = 200, description = "What was removed", body = PruneOutcome),
    ),
)]
pub async fn prune(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<PruneOutcome>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    let PruneRequest { before } = body.read()?;
    let before = before.map(|Moment(before)| before);
    run_to_end(async move {
        Ok(Json(service.system.ingestion.ask(PruneSource { oracle_id, before, peer }).await??))
    })
    .await
}

/// The progress of the source checks that callers wait for.
#[derive(Debug, Clone, Default)]
pub struct SourceChecks(Arc<Mutex<HashMap<SourceId, SourceCheckProgress>>>);

impl SourceChecks {
    /// Sets the progress of the check of a source, or removes it after the check.
    pub fn set(&self, oracle_id: &SourceId, progress: Option<SourceCheckProgress>) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => drop(checks.insert(oracle_id.clone(), progress)),
            None => drop(checks.remove(oracle_id)),
        }
    }

    #[must_use]
    pub fn get(&self, oracle_id: &SourceId) -> Option<SourceCheckProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(oracle_id).copied()
    }
}

problems!(VerifyProblems: DOCUMENT_BODY STORE; SOURCE_UNKNOWN RUN_UNKNOWN FACTS_NOT_HERE);

/// Compare the files, payloads and raw records of a source with their digests.
///
/// The check stops when its caller closes the connection. Faults in the files are the result, not an error.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/verify",
    operation_id = "verify_source_files",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    request_body = VerifyFilesRequest,
    responses(
        VerifyProblems,
        (status = 200, description = "The result of the check", body = SourceCheckReport),
    ),
)]
pub async fn verify(
    State(service): State<Arc<DaemonService>>,
    Extension(still_waiting): Extension<CallerWaitCheck>,
    Extension(checks): Extension<SourceChecks>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: ControlBody,
) -> Result<Json<SourceCheckReport>, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let VerifyFilesRequest { run_id } = body.read()?;
    let unknown = run_id.clone();
    let verified = run_to_end(async move {
        let (reporter, checked) = (checks.clone(), oracle_id.clone());
        let proceed = Arc::new(move |progress| {
            reporter.set(&checked, Some(progress));
            still_waiting()
        });
        let check = VerifySourceFiles { oracle_id: oracle_id.clone(), run_id, proceed };
        let verified = service.system.ingestion.ask(check).await;
        checks.set(&oracle_id, None);
        Ok(verified??)
    })
    .await?;
    match unknown.filter(|_| verified.runs.is_empty() && verified.file_fault.is_none()) {
        Some(run_id) => Err(Problem::run_unknown(run_id.to_string())),
        None => Ok(Json(verified)),
    }
}

problems!(RebuildProblems: STORE; IN_CLUSTER SOURCE_UNKNOWN RUN_BUSY NOT_REBUILT);

/// Rebuild the damaged or missing files of a source from its archived payloads.
///
/// The answers of the source stay the same.
#[utoipa::path(
    post,
    path = "/v1/sources/{oracle_id}/rebuild",
    operation_id = "rebuild_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        RebuildProblems,
        (status = 200, description = "What was rebuilt", body = RebuildOutcome),
    ),
)]
pub async fn rebuild(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RebuildOutcome>, Problem> {
    let oracle_id = parse_name(oracle_id)?;
    run_to_end(
        async move { Ok(Json(service.system.ingestion.ask(RebuildSource { oracle_id, peer }).await??)) },
    )
    .await
}

problems!(ExportProblems: STORE; SOURCE_UNKNOWN SOURCE_DAMAGED FACTS_NOT_HERE);

/// Export every version of every record of a source with its provenance.
///
/// If a record cannot be read, the response breaks off.
#[utoipa::path(
    get,
    path = "/v1/sources/{oracle_id}/export",
    operation_id = "export_source",
    tag = "ground",
    params(("oracle_id" = SourceId, Path)),
    responses(
        ExportProblems,
        (status = 200, description = "One version per line", body = ExportedVersion, content_type = "application/x-ndjson"),
    ),
)]
pub async fn export(
    State(service): State<Arc<DaemonService>>,
    oracle_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let oracle_id: SourceId = parse_name(oracle_id)?;
    let queries = service.system.queries.clone();
    let requested = serde_json::json!({"oracle_id": oracle_id});
    let open = || queries.open_entry(SourceReadKind::Export, Some(oracle_id.clone()), &requested);
    let mut started = open();
    let Some(view) = service.system.store.view(&oracle_id)? else {
        started.set_outcome(SourceReadOutcome::SourceUnknown);
        queries.close_entry(started).await?;
        return Err(Problem::new(SOURCE_UNKNOWN, format!("no source {oracle_id} is registered")));
    };
    let mut ended = open();
    started.set_outcome(SourceReadOutcome::Started);
    queries.close_entry(started).await?;
    let (mut out, body) = PieceWriter::new();
    let exporting = tokio::task::spawn_blocking(move || {
        let exported = view.export(&mut out).map_err(|error| error.to_string());
        let exported = exported.and_then(|_| out.flush().map_err(|error| error.to_string()));
        (exported, view, out)
    });
    spawn_for_caller(async move {
        let Ok((exported, view, out)) = exporting.await else { return };
        ended.note_export(view.state.completed.iter().map(|run| run.release.version.as_str()), out.lines);
        if exported.is_err() {
            ended.set_outcome(SourceReadOutcome::Failed);
        }
        let closed = queries.close_entry(ended).await.map_err(|error| error.to_string());
        match exported.and(closed) {
            Ok(()) => out.finish(),
            Err(error) => tracing::warn!(error, "cannot complete an export; the response breaks off"),
        }
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(body)).into_response())
}
