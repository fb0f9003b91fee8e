//! `/v1/outbox`: queued mails, and dead letters.

use crate::platform::api::request::JsonBody;
use crate::platform::api::request::QueryParams;
use crate::platform::control::control_request::parse_name;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::verdict::notifier::{DropMail, ListMails, RequeueMail};
use oracled_api::base::page::ListPage;
use oracled_api::verdict::{MailAction, MailActionRequest, OutboxParams};
use oracled_domain::PeerCredentials;
use oracled_domain::verdict::mail::MailState;
use std::sync::Arc;

/// The requested mails.
///
/// # Errors
/// `InvalidRequest` if a parameter is invalid.
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<OutboxParams>,
) -> Result<Json<ListPage<MailState>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    let list = ListMails { after, limit: *limit + 1, dead_only: dead };
    let mails = service.system.notifier.ask(list).await??;
    Ok(Json(ListPage::from_items(mails, *limit, |mail| mail.mail_id.to_string())))
}

/// Queues a mail for another attempt. Returns its state.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<MailState>, Problem> {
    let mail_id = parse_name(mail_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    let notifier = service.system.notifier.clone();
    run_to_end(async move { Ok(Json(notifier.ask(RequeueMail { mail_id, peer }).await??)) }).await
}

/// Removes a mail without sending it. Returns its last state.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
pub async fn delete(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<MailState>, Problem> {
    let mail_id = parse_name(mail_id)?;
    let notifier = service.system.notifier.clone();
    run_to_end(async move { Ok(Json(notifier.ask(DropMail { mail_id, peer }).await??)) }).await
}
