//! `GET /v1/log` and `GET /v1/log/follow`: the audit log as JSON lines.

use crate::platform::api::request::QueryParams;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain_base::session_id::SessionId;
use hyper::header::CONTENT_TYPE;
use oracled_api::audit::{LogEntry, LogParams};
use oracled_api::base::problem::ProblemCode;
use oracled_api::base::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_domain::events::{event_type, event_types};
use oracled_store::{LogLine, LogPage, LogQuery, Store};
use std::sync::Arc;

const MEDIA_TYPE: &str = "application/x-ndjson";

problems!(ReadProblems: SESSION STORE);

/// Read entries of the audit log, one per line, the lowest number first.
///
/// If an entry cannot be read, the response breaks off.
#[utoipa::path(
    get,
    path = "/v1/log",
    operation_id = "read_log",
    tag = "audit",
    params(LogParams),
    responses(
        ReadProblems,
        (status = 200, description = "One entry per line", body = LogEntry, content_type = "application/x-ndjson"),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<LogParams>,
) -> Result<Response, Problem> {
    let store = service.system.store.clone();
    let first = read_page(store.clone(), parse_log_query(params)?).await?;
    Ok(stream_response(|sender| send_all(store, first, sender)))
}

problems!(FollowProblems: SESSION);

/// Follow the audit log until the client disconnects.
///
/// The selected entries are followed by each new entry as it becomes durable.
#[utoipa::path(
    get,
    path = "/v1/log/follow",
    operation_id = "follow_log",
    tag = "audit",
    params(LogParams),
    responses(
        FollowProblems,
        (status = 200, description = "One entry per line", body = LogEntry, content_type = "application/x-ndjson"),
    ),
)]
pub async fn follow(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<LogParams>,
) -> Result<Response, Problem> {
    let query = parse_log_query(params)?;
    Ok(stream_response(|sender| send_and_follow(service, query, sender)))
}

/// A response that a separate task sends. If the task fails, the response breaks off.
fn stream_response<F>(sending: impl FnOnce(StreamedBodySender) -> F) -> Response
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let (sender, body) = StreamedBody::new(1);
    let sending = sending(sender);
    tokio::spawn(async move {
        if let Err(problem) = sending.await {
            tracing::warn!("cannot send the log; the response breaks off: {problem}");
        }
    });
    ([(CONTENT_TYPE, MEDIA_TYPE)], Body::new(body)).into_response()
}

async fn send_all(store: Store, mut page: LogPage, mut sender: StreamedBodySender) -> Result<(), Problem> {
    while sender.send(join_lines(&page.lines)).await.is_ok() {
        let Some(next) = page.next else { break };
        page = read_page(store.clone(), next).await?;
    }
    sender.finish();
    Ok(())
}

async fn send_and_follow(
    service: Arc<DaemonService>,
    mut query: LogQuery,
    mut sender: StreamedBodySender,
) -> Result<(), Problem> {
    let mut report = service.system.log.report();
    let mut stopping = service.subscribe_stop();
    loop {
        report.mark_unchanged();
        let reached = service.system.store.last_seq();
        let LogPage { lines, next } = read_page(service.system.store.clone(), query.clone()).await?;
        // an empty page is not sent, but shows whether anyone still reads
        if sender.send(join_lines(&lines)).await.is_err() || *stopping.borrow() {
            break;
        }
        if let Some(next) = next {
            query = next;
            continue;
        }
        let full = lines.len() >= query.limit && !query.newest;
        query.after = lines.last().map_or(query.after, |line| line.seq);
        query = LogQuery { newest: false, limit: usize::MAX, ..query };
        if full {
            continue;
        }
        query.after = query.after.max(reached);
        tokio::select! {
            changed = report.changed() => if changed.is_err() { break },
            () = sender.wait_until_dropped() => break,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    sender.finish();
    Ok(())
}

fn parse_log_query(params: LogParams) -> Result<LogQuery, Problem> {
    let session = params.session.map(SessionId::try_from).transpose();
    let session = session.map_err(|error| Problem::new(ProblemCode::InvalidSessionId, error.to_string()))?;
    if let Some(event) = params.event.as_deref().filter(|event| event_type(event).is_none()) {
        let known: Vec<_> = event_types().map(|kind| kind.name).collect();
        let known = known.join(", ");
        return Err(Problem::new(
            ProblemCode::InvalidRequest,
            format!("`{event}` is not an event; allowed: {known}"),
        ));
    }
    let limit = *params.limit;
    let newest = params.after.is_none() && params.since.is_none();
    let after = params.after.unwrap_or(0);
    let LogParams { execution, request_id, event, since, .. } = params;
    Ok(LogQuery { session, execution, request_id, event, since, after, limit, newest })
}

async fn read_page(store: Store, query: LogQuery) -> Result<LogPage, Problem> {
    let page = tokio::task::spawn_blocking(move || store.log_page(&query)).await;
    Ok(page.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))??)
}

fn join_lines(lines: &[LogLine]) -> Bytes {
    lines.iter().flat_map(|line| [line.json.as_str(), "\n"]).collect::<String>().into()
}
