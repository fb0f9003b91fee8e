//! `GET /v1/log` and `GET /v1/log/follow`: the audit log, as lines of JSON.

use crate::pieces::{Pieces, Sender};
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use oracled_domain::{Event, SessionId};
use oracled_store::{LogLine, LogPage, LogQuery, Store};
use serde::Deserialize;
use std::sync::Arc;
use strum::VariantNames;

/// The most entries in one answer.
pub const LIMIT_MAX: usize = 10_000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 100;
const MEDIA_TYPE: &str = "application/x-ndjson";

/// Which entries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those that speak of this session.
    session: Option<String>,
    /// Only those of the verification of this execution id.
    execution: Option<String>,
    /// Only entries that the request with this id caused.
    request_id: Option<String>,
    /// Only events of this name.
    event: Option<String>,
    /// Only those at or after this time.
    since: Option<Timestamp>,
    /// Only those with a higher number; without it, the newest.
    after: Option<u64>,
    /// How many at the most.
    limit: Option<usize>,
}

type Question = Result<Query<Asked>, QueryRejection>;

/// The entries asked for, one a line, the lowest number first; of many, some are held in memory at a time.
///
/// # Errors
/// `InvalidRequest` where the question is not understood. Where an entry cannot be read further on the answer breaks off.
pub async fn get(State(service): State<Arc<Service>>, asked: Question) -> Result<Response, Problem> {
    let store = service.system.store.clone();
    let first = read(store.clone(), understood(asked)?).await?;
    Ok(answer(|sender| send_all(store, first, sender)))
}

/// The entries asked for, and then every further one as it becomes durable, until the caller goes away.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn follow(State(service): State<Arc<Service>>, asked: Question) -> Result<Response, Problem> {
    let query = understood(asked)?;
    Ok(answer(|sender| send_on(service, query, sender)))
}

/// An answer that is sent by a task of its own; where that fails, it breaks off.
fn answer<F>(sending: impl FnOnce(Sender) -> F) -> Response
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let (sender, body) = Pieces::new(1);
    let sending = sending(sender);
    tokio::spawn(async move {
        if let Err(problem) = sending.await {
            tracing::warn!("a reader of the log was left: {problem}");
        }
    });
    ([(CONTENT_TYPE, MEDIA_TYPE)], Body::new(body)).into_response()
}

async fn send_all(store: Store, mut page: LogPage, mut sender: Sender) -> Result<(), Problem> {
    while sender.send(text(&page.lines)).await.is_ok() {
        let Some(next) = page.next else { break };
        page = read(store.clone(), next).await?;
    }
    sender.finish();
    Ok(())
}

async fn send_on(service: Arc<Service>, mut query: LogQuery, mut sender: Sender) -> Result<(), Problem> {
    let mut report = service.system.log.report();
    let mut stopping = service.stopping();
    loop {
        report.mark_unchanged();
        let reached = service.system.store.last_seq();
        let LogPage { lines, next } = read(service.system.store.clone(), query.clone()).await?;
        // an empty page is not sent, but shows whether anyone still reads
        if sender.send(text(&lines)).await.is_err() || *stopping.borrow() {
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
            () = sender.unread() => break,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    sender.finish();
    Ok(())
}

fn understood(asked: Question) -> Result<LogQuery, Problem> {
    let Query(asked) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let session = asked.session.map(SessionId::try_from).transpose();
    let session = session.map_err(|error| Problem::InvalidSessionId(error.to_string()))?;
    if let Some(event) = asked.event.as_deref().filter(|event| !Event::VARIANTS.contains(event)) {
        let known = Event::VARIANTS.join(", ");
        return Err(Problem::InvalidRequest(format!("`{event}` is not an event; allowed: {known}")));
    }
    let limit = asked.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    let newest = asked.after.is_none() && asked.since.is_none();
    let after = asked.after.unwrap_or(0);
    let Asked { execution, request_id, event, since, .. } = asked;
    Ok(LogQuery { session, execution, request_id, event, since, after, limit, newest })
}

async fn read(store: Store, query: LogQuery) -> Result<LogPage, Problem> {
    let page = tokio::task::spawn_blocking(move || store.log_page(&query)).await;
    Ok(page.map_err(|error| Problem::Internal(error.to_string()))??)
}

fn text(lines: &[LogLine]) -> Bytes {
    lines.iter().flat_map(|line| [line.json.as_str(), "\n"]).collect::<String>().into()
}
