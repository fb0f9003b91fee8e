//! `/v1/sessions/{session_id}`: shows, exports, corrects or removes one session, and removes its cached verdict.

use super::orders::held_report;
use crate::platform::api::request::{JsonBody, PathSessionId};
use crate::platform::logged_read::LoggedRead;
use crate::platform::openapi::{JSON_BODY, SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use crate::verdict::api::orders::report_of;
use crate::verdict::api::{parse_email, parse_label};
use actors_verdict::cache::{
    CorrectSession, CorrectSessionOutcome, PurgeOutcome, PurgeVerdict, RemoveSession,
};
use actors_verdict::notifier::{HoldMessages, queued_mails};
use actors_verdict::orders::ReadHeldVerdict;
use axum::extract::State;
use axum::{Extension, Json};
use domain_audit::event::ReadSubject;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::problem::INTERNAL_ERROR;
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::cost::ModelCost;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::SessionExported;
use domain_verdict::outbox::{MessageState, OutboxMessage};
use domain_verdict::policy::HeldVerdict;
use domain_verdict::problem::{
    HELD_VERDICT_UNREADABLE, MAIL_IN_FLIGHT, SESSION_MISMATCH, SESSION_ON_HOLD, SESSION_UNKNOWN,
    VERDICT_NOT_CACHED,
};
use domain_verdict::session::{RejectingCheck, SessionRecord};
use domain_verdict::wire::{CorrectSessionRequest, PurgeResponse, SessionExport, SessionPage, SessionReport};
use oracled_store::{LogQuery, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn session_unknown(session_id: &SessionId) -> Problem {
    Problem::new(SESSION_UNKNOWN, format!("no session {session_id} is registered"))
}

problems!(ReadProblems: SESSION STORE; SESSION_UNKNOWN);

/// Maximum number of log entries of a session in one answer.
const HISTORY_MAX: usize = 1000;

/// Read a session with its order, its costs, its waiting mails and its log entries.
///
/// The entry `operator_read` in the log names the reader.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}",
    operation_id = "read_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The session and its history", body = SessionPage),
    ),
)]
pub async fn read_session(
    State(service): State<Arc<DaemonService>>,
    read: LoggedRead,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<SessionPage>, Problem> {
    let reading = Arc::clone(&service);
    let page = run_blocking(move || read_page(&reading, session_id)).await?;
    read.log(&service, ReadSubject::Session).await?;
    Ok(Json(page))
}

fn read_page(service: &DaemonService, session_id: SessionId) -> Result<SessionPage, Problem> {
    let store = &service.system.store;
    let session = store.session(&session_id)?.ok_or_else(|| session_unknown(&session_id))?.0;
    let mut mails = Vec::new();
    for mail_id in queued_mails(store, &session_id)? {
        // the mail may have been sent meanwhile
        if let Some((MessageState::Mail(mail), _)) = store.message_state(&mail_id)? {
            mails.push(mail);
        }
    }
    let costs = sum_costs(store, &session_id)?;
    let legal_hold = store.legal_hold(&session_id)?.map(|(hold, _)| hold);
    let query =
        LogQuery { session: Some(session_id), newest: true, limit: HISTORY_MAX + 1, ..LogQuery::default() };
    let mut lines = store.log(&query)?;
    let has_older_entries = lines.len() > HISTORY_MAX;
    let history = lines.split_off(lines.len().saturating_sub(HISTORY_MAX));
    let history = history.iter().map(|line| serde_json::from_str(&line.json)).collect::<Result<_, _>>();
    let report = report_of(service, session.clone());
    let (order, waiting_for) = report.map(|report| (report.order, report.waiting_for)).unzip();
    Ok(SessionPage {
        order,
        waiting_for: waiting_for.flatten(),
        session: session.into(),
        legal_hold,
        mails,
        costs,
        history: history.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))?,
        has_older_entries,
    })
}

/// The costs of the model calls of a session, one for each currency.
fn sum_costs(store: &Store, session_id: &SessionId) -> Result<Vec<ModelCost>, Problem> {
    let mut costs = Vec::new();
    let mut next = Some(LogQuery {
        session: Some(session_id.clone()),
        events: vec!["oracle_interaction".into()],
        limit: usize::MAX,
        ..LogQuery::default()
    });
    while let Some(query) = next {
        let page = store.log_page(&query)?;
        for line in page.lines {
            let CallCost { cost } = serde_json::from_str(&line.json)
                .map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))?;
            costs = ModelCost::sum_by_currency(costs.into_iter().chain(cost));
        }
        next = page.next;
    }
    Ok(costs)
}

/// The cost in the log entry of a model call.
#[derive(Deserialize)]
struct CallCost {
    cost: Option<ModelCost>,
}

problems!(CorrectProblems: JSON_BODY SESSION STORE; SESSION_UNKNOWN SESSION_MISMATCH);

/// Correct a session.
///
/// An absent member leaves its value unchanged.
#[utoipa::path(
    patch,
    path = "/v1/sessions/{session_id}",
    operation_id = "correct_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = CorrectSessionRequest,
    responses(
        CorrectProblems,
        (status = 200, description = "The corrected session", body = SessionReport),
    ),
)]
pub async fn correct_session(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<SessionReport>, Problem> {
    let CorrectSessionRequest { customer_email, original_verdict, owner_uid } = body.parse()?;
    let correct = CorrectSession {
        session_id: session_id.clone(),
        customer_email: parse_email(customer_email)?,
        original_verdict: parse_label(original_verdict)?,
        owner_uid,
        peer,
    };
    let cache = service.system.cache.clone();
    match run_to_end(async move { Ok(cache.ask(correct).await??) }).await? {
        CorrectSessionOutcome::Done(session) => Ok(Json((*session).into())),
        CorrectSessionOutcome::Unknown => Err(session_unknown(&session_id)),
        CorrectSessionOutcome::Mismatch(what) => Err(Problem::session_mismatch(&session_id, what)),
    }
}

problems!(RemoveProblems: SESSION STORE; SESSION_UNKNOWN SESSION_ON_HOLD MAIL_IN_FLIGHT);

/// Remove a session with its cached verdict and its queued mail.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session_id}",
    operation_id = "remove_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        RemoveProblems,
        (status = 200, description = "The last state of the session", body = SessionReport),
    ),
)]
pub async fn remove_session(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<SessionReport>, Problem> {
    let mails = queued_mails(&service.system.store, &session_id)?;
    let (cache, notifier) = (service.system.cache.clone(), service.system.notifier.clone());
    let session = session_id.clone();
    let removed = run_to_end(async move {
        let mails = if mails.is_empty() { None } else { Some(notifier.ask(HoldMessages(mails)).await??) };
        Ok(cache.ask(RemoveSession { session_id: session, mails, peer }).await??)
    });
    let removed = removed.await?;
    removed.map(|session| Json(session.into())).ok_or_else(|| session_unknown(&session_id))
}

problems!(ExportProblems: SESSION STORE; SESSION_UNKNOWN HELD_VERDICT_UNREADABLE);

/// Export everything that is stored about a session, except its log entries.
///
/// The entry `session_exported` in the log names the reader, and `held_verdict_read` for a held verdict. `GET
/// /v1/log?session=ID&after=0` has the log entries.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session_id}/export",
    operation_id = "export_session",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ExportProblems,
        (status = 200, description = "The stored data", body = SessionExport),
    ),
)]
pub async fn export_session(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<SessionExport>, Problem> {
    let system = Arc::clone(&service);
    let id = session_id.clone();
    let (mut export, is_held) = run_blocking(move || read_stored(&system, &id)).await?;
    let (log, orders) = (service.system.log.clone(), service.system.orders.clone());
    let exported = AuditEvent::new(service.system.clock.now(), session_id.clone(), SessionExported { peer });
    let held = run_to_end(async move {
        // first of all: no data leaves the daemon without an entry
        log.commit(exported.into()).await?;
        if !is_held {
            return Ok(None);
        }
        Ok(Some(orders.ask(ReadHeldVerdict { session_id, peer }).await??))
    });
    export.held_verdict = held.await?.map(held_report);
    Ok(Json(export))
}

/// The stored data without the held verdict, and whether the policy holds one.
fn read_stored(service: &DaemonService, session_id: &SessionId) -> Result<(SessionExport, bool), Problem> {
    let store = &service.system.store;
    let session = store.session(session_id)?.map(|(session, _)| session);
    let rejecting_check = store.rejecting_check(session_id)?.map(|(check, _)| check);
    let named = [SessionRecord::TABLE, VerdictDelivery::TABLE, HeldVerdict::TABLE, RejectingCheck::TABLE];
    let others = store.session_values(session_id, &named.map(|table| table.name))?;
    if session.is_none() && rejecting_check.is_none() && others.is_empty() {
        return Err(session_unknown(session_id));
    }
    let mut mails = Vec::new();
    for mail_id in queued_mails(store, session_id)? {
        // the mail may have been sent meanwhile
        let mail = match store.message(&mail_id)? {
            Some((OutboxMessage::Mail(mail), _)) => Some(to_value(&mail)?),
            _ => None,
        };
        mails.extend(mail);
    }
    let is_held = session.as_ref().is_some_and(|session| session.is_held_by_policy());
    let export = SessionExport {
        session: session.as_ref().map(to_value).transpose()?,
        verdict: store.verdict(session_id)?.map(|(delivery, _)| to_value(&delivery)).transpose()?,
        held_verdict: None,
        mails,
        rejecting_check: rejecting_check.as_ref().map(to_value).transpose()?,
        others,
    };
    Ok((export, is_held))
}

fn to_value(stored: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(stored).map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))
}

problems!(PurgeProblems: SESSION STORE; VERDICT_NOT_CACHED SESSION_ON_HOLD);

/// Remove the cached verdict of a session. The session stays.
#[utoipa::path(
    delete,
    path = "/v1/verdicts/{session_id}",
    operation_id = "purge_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        PurgeProblems,
        (status = 200, description = "The verdict was removed", body = PurgeResponse),
    ),
)]
pub async fn purge_verdict(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<PurgeResponse>, Problem> {
    let (cache, purge) =
        (service.system.cache.clone(), PurgeVerdict { session_id: session_id.clone(), peer });
    let outcome = run_to_end(async move { Ok(cache.ask(purge).await??) }).await?;
    let session_id = session_id.to_string();
    let damaged = match outcome {
        PurgeOutcome::NotCached => return Err(Problem::verdict_not_cached(session_id)),
        PurgeOutcome::Removed => false,
        PurgeOutcome::RemovedDamaged => true,
    };
    Ok(Json(PurgeResponse { session_id, purged: true, damaged }))
}
