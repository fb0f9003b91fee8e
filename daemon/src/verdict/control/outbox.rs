//! `/v1/outbox`: queued mails, and dead letters.

use crate::platform::api::request::JsonBody;
use crate::platform::api::request::QueryParams;
use crate::platform::control::order::named;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::verdict::notifier::{DropMail, List, Requeue};
use oracled_api::base::page::Page;
use oracled_api::verdict::{MailAction, MailRequest, OutboxParams};
use oracled_domain::Peer;
use oracled_domain::verdict::mail::Standing;
use std::sync::Arc;

/// The requested mails.
///
/// # Errors
/// `InvalidRequest` if a parameter is invalid.
pub async fn get(
    State(service): State<Arc<Service>>,
    QueryParams(params): QueryParams<OutboxParams>,
) -> Result<Json<Page<Standing>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    let list = List { after, limit: *limit + 1, dead_only: dead };
    let mails = service.system.notifier.ask(list).await??;
    Ok(Json(Page::of(mails, *limit, |mail| mail.mail_id.to_string())))
}

/// Queues a mail for another attempt. Returns its state.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mail_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<Standing>, Problem> {
    let mail_id = named(mail_id)?;
    let MailRequest { action: MailAction::Requeue } = body.parse()?;
    let notifier = service.system.notifier.clone();
    act(async move { Ok(Json(notifier.ask(Requeue { mail_id, peer }).await??)) }).await
}

/// Removes a mail without sending it. Returns its last state.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
pub async fn delete(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Standing>, Problem> {
    let mail_id = named(mail_id)?;
    let notifier = service.system.notifier.clone();
    act(async move { Ok(Json(notifier.ask(DropMail { mail_id, peer }).await??)) }).await
}
