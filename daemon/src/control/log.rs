//! `GET /v1/log` and `GET /v1/log/follow`: the audit log, as lines of JSON.

use crate::pieces::{Pieces, Sender};
use crate::problem::Problem;
use crate::service::Service;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use domain::{Event, SessionId};
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::Deserialize;
use std::sync::Arc;
use store::{LogLine, LogQuery, Store};

/// The most entries in one answer.
pub const LIMIT_MAX: usize = 10_000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 100;
/// So many at a time while following.
const FOLLOW_AT_ONCE: usize = 512;
const MEDIA_TYPE: &str = "application/x-ndjson";

/// Which entries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those that speak of this session.
    session: Option<String>,
    /// Only those of the verification of this execution id.
    execution: Option<String>,
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

/// The entries asked for, one a line, the lowest number first.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn get(State(service): State<Arc<Service>>, asked: Question) -> Result<Response, Problem> {
    let query = understood(asked)?;
    let lines = read(service.system.store.clone(), query).await?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text(&lines)).into_response())
}

/// The entries asked for, and then every further one as it becomes durable, until the caller goes away.
///
/// # Errors
/// `InvalidRequest` where the question is not understood.
pub async fn follow(State(service): State<Arc<Service>>, asked: Question) -> Result<Response, Problem> {
    let query = understood(asked)?;
    let (mut sender, body) = Pieces::new(1);
    tokio::spawn(async move {
        match send_all(&service, query, &mut sender).await {
            Ok(()) => sender.finish(),
            Err(problem) => tracing::warn!("a follower of the log was left: {problem}"),
        }
    });
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], Body::new(body)).into_response())
}

async fn send_all(service: &Service, mut query: LogQuery, sender: &mut Sender) -> Result<(), Problem> {
    let mut report = service.system.log.report();
    let mut stopping = service.stopping();
    loop {
        report.mark_unchanged();
        let reached = service.system.store.last_seq();
        let lines = read(service.system.store.clone(), query.clone()).await?;
        let full = lines.len() >= query.limit && !query.newest;
        query.after = lines.last().map_or(query.after, |line| line.seq);
        if !full {
            query.after = query.after.max(reached);
        }
        query = LogQuery { newest: false, limit: FOLLOW_AT_ONCE, ..query };
        if !lines.is_empty() && sender.send(text(&lines).into()).await.is_err() {
            return Ok(());
        }
        if full {
            continue;
        }
        tokio::select! {
            changed = report.changed() => if changed.is_err() { return Ok(()) },
            () = sender.unread() => return Ok(()),
            _ = stopping.wait_for(|stopping| *stopping) => return Ok(()),
        }
    }
}

fn understood(asked: Question) -> Result<LogQuery, Problem> {
    let Query(asked) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let session = asked.session.map(SessionId::try_from).transpose();
    let session = session.map_err(|error| Problem::InvalidSessionId(error.to_string()))?;
    if let Some(event) = asked.event.as_deref().filter(|event| !Event::KINDS.contains(event)) {
        let known = Event::KINDS.join(", ");
        return Err(Problem::InvalidRequest(format!("`{event}` is not an event; allowed: {known}")));
    }
    let limit = asked.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    let newest = asked.after.is_none() && asked.since.is_none();
    let after = asked.after.unwrap_or(0);
    let Asked { execution, event, since, .. } = asked;
    Ok(LogQuery { session, execution, event, since, after, limit, newest })
}

async fn read(store: Store, query: LogQuery) -> Result<Vec<LogLine>, Problem> {
    let lines = tokio::task::spawn_blocking(move || store.log(&query)).await;
    Ok(lines.map_err(|error| Problem::Internal(error.to_string()))??)
}

fn text(lines: &[LogLine]) -> String {
    lines.iter().flat_map(|line| [line.json.as_str(), "\n"]).collect()
}
