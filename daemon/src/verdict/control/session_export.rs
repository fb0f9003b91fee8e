//! `/v1/sessions/{session_id}/export`: everything that is stored about a session.

use super::orders::held_report;
use super::session::session_unknown;
use crate::platform::api::request::PathSessionId;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_verdict::notifier::queued_mails;
use actors_verdict::orders::ReadHeldVerdict;
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::event::SessionExported;
use domain_verdict::outbox::OutboxMessage;
use oracled_api::base::problem::ProblemCode;
use oracled_api::verdict::SessionExport;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

problems!(ExportProblems: SESSION STORE; SessionUnknown HeldVerdictUnreadable);

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
pub async fn get(
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
    if session.is_none() && rejecting_check.is_none() {
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
    };
    Ok((export, is_held))
}

fn to_value(stored: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(stored).map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))
}
