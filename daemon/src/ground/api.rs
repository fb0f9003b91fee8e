//! Handlers of ground truth on the routes' socket.
//!
//! `POST /v1/signals/{…}`, or any other path in a freshness policy: a source signals that its earlier data is no longer
//! reliable.

use super::{QUERY, RECORD};
use crate::platform::api::batch;
use crate::platform::api::body::{ReservedBody, json_response};
use crate::platform::api::request::{BatchLine, JsonBody, PATHS, QueryParams, parse};
use crate::platform::config::credentials::read_secret_file;
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, SIGNALS_PER_WINDOW, run_blocking};
use actors_ground::queries::{ChangesPage, QueryAnswerPage, QueryError, QueryService, RecordReadError};
use actors_ground::registry::SourceInvalidation;
use actors_platform::caller::CallerWaitCheck;
use actors_platform::clock::monotonic;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::{Extension, Json};
use domain_audit::event::ReadSubject;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::problem::{
    BODY_BROKEN, BODY_TOO_LARGE, FACTS_NOT_HERE, INTERNAL_ERROR, INVALID_REQUEST, SOURCE_DAMAGED,
    UNSUPPORTED_MEDIA_TYPE,
};
use domain_ground::event::InvalidationCause;
use domain_ground::freshness::InvalidationTrigger;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::problem::{
    RECORD_UNKNOWN, SIGNAL_FORBIDDEN, SIGNAL_RATE_LIMITED, SIGNAL_UNKNOWN, SOURCE_SILENT, SOURCE_STALE,
    SOURCE_UNKNOWN,
};
use domain_ground::query::{OracleQuery, QueryAnswer, RecordAnswer};
use domain_ground::record::ProvenanceRecord;
use domain_ground::source::SourceAvailability;
use domain_ground::source_state::SourceState;
use domain_ground::wire::{ChangesParams, ProvenanceReport, QueryBatchAnswer, SignalResponse, SourceSummary};
use hyper::{Method, StatusCode, Uri};
use oracled_store::{Store, StoreError};
use secrecy::ExposeSecret as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![query_source, query_sources, read_record, read_provenance, list_sources, list_changes]
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    routes![post]
}

problems!(ListProblems: STORE);

/// List the registered sources, in the order of their ids.
///
/// `identity` has the axes that identify the subject of a record.
#[utoipa::path(
    get,
    path = "/v1/sources",
    operation_id = "list_sources",
    tag = "ground",
    responses(
        ListProblems,
        (status = 200, description = "The entries of the registry, each with whether it answers", body = Vec<SourceSummary>),
    ),
)]
async fn list_sources(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<SourceSummary>>, Problem> {
    let now = service.system.clock.now();
    let store = &service.system.store;
    let listed = store.sources()?.into_iter().map(|state| {
        let known = store.ontology(&state.entry.registration.ontology)?;
        let axes = known.iter().flat_map(Ontology::identity);
        let identity = axes.map(|axis| axis.axis.clone()).collect();
        let (answers, note) = match state.entry.availability(now) {
            SourceAvailability::Answers => (true, None),
            SourceAvailability::AnswersWithWarning(note) => (true, Some(note)),
            SourceAvailability::Silent(note) => (false, Some(note)),
        };
        let statements = state.files.iter().map(|file| file.statements).sum();
        let size_bytes = state.files.iter().map(|file| file.size_bytes).sum();
        Ok(SourceSummary { entry: state.entry, identity, answers, note, statements, size_bytes })
    });
    listed.collect::<Result<_, Problem>>().map(Json)
}

problems!(RecordProblems: RECORD STORE; SOURCE_SILENT SOURCE_STALE);

/// Read a record by its id, with its validity and its freshness.
///
/// The record is returned whatever its status is now.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}",
    operation_id = "read_record",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        RecordProblems,
        (status = 200, description = "The record with all its axes, its standing and its freshness", body = RecordAnswer),
    ),
)]
pub async fn read_record(
    State(service): State<Arc<DaemonService>>,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RecordAnswer>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    Ok(Json(service.run_work(async move { Ok(queries.record(&record_id).await?) }).await?))
}

problems!(ProvenanceProblems: RECORD STORE; SOURCE_SILENT);

/// Read the provenance of a record whose source answers.
///
/// The provenance leads to the hash and the payload offset of the raw record.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}/provenance",
    operation_id = "read_provenance",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        ProvenanceProblems,
        (status = 200, description = "The provenance record, and the location of the raw record", body = ProvenanceRecord),
    ),
)]
pub async fn read_provenance(
    State(service): State<Arc<DaemonService>>,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ProvenanceRecord>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    Ok(Json(service.run_work(async move { Ok(queries.provenance(&record_id).await?) }).await?))
}

problems!(RecordedProblems: RECORD STORE);

/// Read the provenance of a record and the text of its raw record, even if its source does not answer.
///
/// The entry `operator_read` in the log names the reader of the text.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}/provenance",
    operation_id = "read_recorded_provenance",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        RecordedProblems,
        (status = 200, description = "The provenance record, and the location and the text of the raw record", body = ProvenanceReport),
    ),
)]
pub async fn read_recorded_provenance(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ProvenanceReport>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    let provenance =
        service.run_work(async move { Ok(queries.recorded_provenance(&record_id).await?) }).await?;
    let store = service.system.store.clone();
    let report = run_blocking(move || -> Result<_, Problem> {
        let (raw_text, raw_fault) = match read_raw_text(&store, &provenance) {
            Ok(raw_text) => (raw_text, None),
            Err(error) => (None, Some(without_state_dir(error.to_string()))),
        };
        Ok(ProvenanceReport { provenance, raw_text, raw_fault })
    });
    let report = report.await?;
    if report.raw_text.is_some() {
        read.log(&service, ReadSubject::RawRecord).await?;
    }
    Ok(Json(report))
}

/// The text of the raw record; `None` if it was pruned or not kept.
pub(crate) fn read_raw_text(
    store: &Store,
    provenance: &ProvenanceRecord,
) -> Result<Option<String>, StoreError> {
    if provenance.pruned {
        return Ok(None);
    }
    let raw = &provenance.raw;
    let texts = store.raw_texts(&provenance.oracle_id, &raw.raw_sha256, [(raw.offset, raw.len)])?;
    Ok(texts.into_iter().next())
}

fn parse_record_id(record_id: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    // the path has escapes that are not UTF-8
    let Path(record_id) = record_id.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    Ok(record_id)
}

impl From<RecordReadError> for Problem {
    fn from(error: RecordReadError) -> Self {
        let detail = error.to_string();
        match error {
            RecordReadError::Unknown(_) => Problem::new(RECORD_UNKNOWN, detail),
            RecordReadError::Silent(_) => Problem::new(SOURCE_SILENT, detail),
            RecordReadError::Stale(_) => Problem::new(SOURCE_STALE, detail),
            RecordReadError::Store(error) => error.into(),
            RecordReadError::Unlogged(error) => error.into(),
        }
    }
}

problems!(QueryProblems: JSON_BODY QUERY);

/// Query a source.
///
/// The answer has the freshness of the data. In the `axes` of a record every requested axis is present, as null where the
/// record has no value.
#[utoipa::path(
    post,
    path = "/v1/query",
    operation_id = "query_source",
    tag = "ground",
    request_body = OracleQuery,
    responses(
        QueryProblems,
        (status = 200, description = "The records that match", body = QueryAnswer),
    ),
)]
pub async fn query_source(
    State(service): State<Arc<DaemonService>>,
    Extension(still_waiting): Extension<CallerWaitCheck>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let query = body.parse::<OracleQuery>()?;
    let queries = service.system.queries.clone();
    let to_json = |answer: &QueryAnswer| {
        serde_json::to_vec(answer).expect("an answer is plain data with text for keys")
    };
    let body = service.run_work(answer_query(queries, query, still_waiting, to_json));
    Ok(json_response(StatusCode::OK, body.await?))
}

problems!(BatchProblems: STORE; UNSUPPORTED_MEDIA_TYPE);

/// Run many queries, one per line.
///
/// Each line is a request as of `POST /v1/query`, for example with its own `point_in_time`. The answer has one line for each, in
/// the same order. An invalid line gets a problem as its answer, and the other lines are still answered.
#[utoipa::path(
    post,
    path = "/v1/query:batch",
    operation_id = "query_sources",
    tag = "ground",
    request_body(content = OracleQuery, content_type = "application/x-ndjson", description = "One query per line"),
    responses(
        BatchProblems,
        (status = 200, description = "One answer per line", body = QueryBatchAnswer, content_type = "application/x-ndjson"),
    ),
)]
async fn query_sources(
    State(service): State<Arc<DaemonService>>,
    Extension(still_waiting): Extension<CallerWaitCheck>,
    request: Request,
) -> Result<Response, Problem> {
    batch::respond(&service, request, |lines, sender| {
        let answering = Arc::clone(&service);
        // one at a time, since an answer can take much memory
        batch::answer_each(Arc::clone(&service), lines, sender, 1, move |line| {
            answer_line(Arc::clone(&answering), line, still_waiting.clone())
        })
    })
}

async fn answer_line(
    service: Arc<DaemonService>,
    BatchLine { number: line, text }: BatchLine,
    still_waiting: CallerWaitCheck,
) -> ReservedBody {
    let to_answer = move |answer: &QueryAnswer| {
        batch::to_line(&QueryBatchAnswer { line, answer: Some(answer), problem: None })
    };
    let answered = match text.and_then(|text| parse::<OracleQuery>(&text)) {
        Ok(query) => {
            let queries = service.system.queries.clone();
            service.run_work_queued(answer_query(queries, query, still_waiting, to_answer)).await
        }
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(|problem| {
        let answer = QueryBatchAnswer { line, answer: None, problem: Some(problem.to_raw()) };
        ReservedBody::new(batch::to_line(&answer), None)
    })
}

/// Runs a query, and writes its answer by `write`.
async fn answer_query(
    queries: QueryService,
    query: OracleQuery,
    still_waiting: CallerWaitCheck,
    write: impl FnOnce(&QueryAnswer) -> Vec<u8> + Send + 'static,
) -> Result<ReservedBody, Problem> {
    let QueryAnswerPage { answer, memory_permit } = queries.page(query, still_waiting).await?;
    if memory_permit.is_none() {
        return Ok(ReservedBody::new(write(&answer), None));
    }
    // serializing a long answer would block other requests
    let body = spawn_blocking(move || ReservedBody::new(write(&answer), memory_permit)).await;
    body.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))
}

problems!(ChangesProblems: STORE; SOURCE_UNKNOWN SOURCE_SILENT SOURCE_DAMAGED FACTS_NOT_HERE);

/// List the changes of records after a position.
///
/// Changes are in the order in which they became known: a version became valid, was superseded, was withdrawn, and so on.
/// `next` is the `since` for the next request, even at the end, since more changes may follow. `withheld` names sources
/// that do not answer, whose changes are left out. Once such a source is approved, a request with its `oracle_id` returns
/// its changes from the beginning.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "list_changes",
    tag = "ground",
    params(ChangesParams),
    responses(
        ChangesProblems,
        (status = 200, description = "The changes", body = ChangesPage),
    ),
)]
async fn list_changes(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<ChangesParams>,
) -> Result<Json<ChangesPage>, Problem> {
    let ChangesParams { since, oracle_id, limit } = params;
    let since = since.as_deref().map(str::parse).transpose().map_err(QueryError::Position)?;
    let queries = service.system.queries.clone();
    let page = service.run_work(async move { Ok(queries.changes(since, oracle_id, *limit).await?) }).await?;
    Ok(Json(page))
}

/// The header with the body's HMAC-SHA-256, as `sha256=` and 64 hexadecimal digits.
const SIGNATURE: &str = "x-hub-signature-256";

problems!(SignalProblems: STORE; INVALID_REQUEST SOURCE_UNKNOWN BODY_BROKEN BODY_TOO_LARGE SIGNAL_FORBIDDEN SIGNAL_UNKNOWN SIGNAL_RATE_LIMITED);

/// Signal that the data of sources is no longer reliable.
///
/// Every source whose freshness policy names this path as an `upstream_signal` becomes stale. The body may have any media
/// type.
#[utoipa::path(
    post,
    path = "/v1/signals/{*name}",
    operation_id = "send_signal",
    tag = "ground",
    params(("name" = String, Path, description = "The rest of the path that a policy names; it may contain slashes"), ("X-Hub-Signature-256" = Option<String>, Header, pattern = "^sha256=[0-9a-f]{64}$", description = "The HMAC-SHA-256 of the body under the secret of the policy; required if the policy has a `secret_file`")),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream", description = "The body that `X-Hub-Signature-256` signs; it is not stored"),
    responses(
        SignalProblems,
        (status = 200, description = "The sources that are stale now", body = SignalResponse),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    uri: Uri,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<SignalResponse>, Problem> {
    // a client may escape what a policy does not escape, for example slashes
    let unescaped = name.map_or_else(|_| uri.path().to_owned(), |Path(name)| format!("/v1/signals/{name}"));
    let named = {
        let sources = service.system.store.sources()?;
        let mut found = [uri.path(), &unescaped].into_iter().map(|path| (path, find_targets(&sources, path)));
        found.find(|(_, targets)| !targets.is_empty())
    };
    if let Some((path, targets)) = named {
        return accept_signal(&service, targets, path, request, peer).await;
    }
    let detail = format!("no source's freshness policy names {} as an `upstream_signal`", uri.path());
    Err(Problem::new(SIGNAL_UNKNOWN, detail))
}

/// Handles a path without another route: a signal, if a policy has a webhook at the path.
///
/// # Errors
/// `not_found` if no policy names the path. If the entry cannot be committed, nothing changes.
pub async fn handle_other_path(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    method: Method,
    uri: Uri,
    request: Request,
) -> Result<Json<SignalResponse>, Problem> {
    let named = find_targets(&service.system.store.sources()?, uri.path());
    if method == Method::POST && !named.is_empty() {
        return accept_signal(&service, named, uri.path(), request, peer).await;
    }
    Err(if named.is_empty() { Problem::not_found(PATHS) } else { Problem::method_not_allowed(PATHS) })
}

/// A source whose policy names a path, and the file with the secret of its signals.
struct SignalTarget {
    oracle_id: SourceId,
    secret_file: Option<PathBuf>,
}

/// Accepts a signal for the sources whose secret signed it, and for those without a secret.
async fn accept_signal(
    service: &Arc<DaemonService>,
    named: Vec<SignalTarget>,
    path: &str,
    request: Request,
    peer: PeerCredentials,
) -> Result<Json<SignalResponse>, Problem> {
    let signature = request.headers().get(SIGNATURE).and_then(|value| value.to_str().ok());
    let signature = signature.and_then(|text| text.strip_prefix("sha256=")?.parse::<Sha256Hex>().ok());
    let body = JsonBody::read_any_type(request, service).await?;
    let mut signed = Vec::new();
    for SignalTarget { oracle_id, secret_file } in named {
        let is_signed = match secret_file {
            None => true,
            Some(file) => {
                // the secret may be replaced while the daemon runs; without the secret no signal is accepted
                let secret = read_secret_file("`secret_file`", &file).map_err(|error| {
                    tracing::error!(%oracle_id, %error, "cannot read the secret of a freshness policy");
                    Problem::new(INTERNAL_ERROR, "the secret of a freshness policy cannot be read")
                })?;
                let key = secret.expose_secret().as_bytes();
                signature.as_ref().is_some_and(|signature| signature.is_hmac_of(key, body.as_bytes()))
            }
        };
        signed.extend(is_signed.then_some(oracle_id));
    }
    if signed.is_empty() {
        let detail = format!(
            "the signal at {path} is not signed under the secret of its freshness policy; send \
             `X-Hub-Signature-256: sha256=` and the HMAC-SHA-256 of the body in hexadecimal digits"
        );
        return Err(Problem::new(SIGNAL_FORBIDDEN, detail));
    }
    service.signal_rate.count_signal(path, monotonic()).map_err(|wait| {
        let wait_s = wait.as_secs() + 1;
        let detail =
            format!("more than {SIGNALS_PER_WINDOW} signals a minute at {path}; send it again in {wait_s} s");
        Problem::new(SIGNAL_RATE_LIMITED, detail).retry_after(Duration::from_secs(wait_s))
    })?;
    invalidate(service, signed, path, peer).await
}

/// The sources whose policies have a webhook at `path`. The default policy has no webhook.
fn find_targets(sources: &[SourceState], path: &str) -> Vec<SignalTarget> {
    let secret_of = |trigger: &InvalidationTrigger| match trigger {
        InvalidationTrigger::UpstreamSignal { webhook, secret_file } if webhook == path => {
            Some(secret_file.clone())
        }
        _ => None,
    };
    let named = sources.iter().filter_map(|state| {
        let triggers = state.policy.iter().flat_map(|policy| &policy.invalidation_triggers);
        let secrets: Vec<_> = triggers.filter_map(secret_of).collect();
        // a path that is named twice is protected if either trigger has a secret
        let secret_file = secrets.iter().flatten().next().cloned();
        let oracle_id = state.entry.registration.oracle_id.clone();
        (!secrets.is_empty()).then_some(SignalTarget { oracle_id, secret_file })
    });
    named.collect()
}

/// Marks each of the sources as stale, and continues after a failure. The sender then gets an error and sends
/// the signal again.
async fn invalidate(
    service: &Arc<DaemonService>,
    named: Vec<SourceId>,
    path: &str,
    peer: PeerCredentials,
) -> Result<Json<SignalResponse>, Problem> {
    let registry = service.system.registry.clone();
    let detail = format!("signal at {path}");
    let invalidated = service.run_work(async move {
        let mut failed = Ok(());
        for oracle_id in &named {
            let (trigger, detail) = (InvalidationCause::UpstreamSignal, detail.clone());
            let invalidation = SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer };
            let done = registry.invalidate(invalidation).await;
            failed = failed.and(done.map_err(Problem::from));
        }
        failed.map(|()| named)
    });
    Ok(Json(SignalResponse { invalidated: invalidated.await? }))
}
