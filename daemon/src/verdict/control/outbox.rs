//! `/v1/outbox`: queued mails, and dead letters.

use crate::platform::api::request::JsonBody;
use crate::platform::api::request::QueryParams;
use crate::platform::control::order::named;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::verdict::notifier::{DropMail, List, Requeue};
use oracled_api::base::page::Page;
use oracled_api::verdict::{MailAction, MailRequest, OutboxParams};
use oracled_domain::MailId;
use oracled_domain::Peer;
use oracled_domain::verdict::mail::Standing;
use std::sync::Arc;

problems!(ListProblems: PARAMS READ; );

/// List queued mails and dead letters.
///
/// # Errors
/// `InvalidRequest` if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/v1/outbox",
    operation_id = "list_mails",
    tag = "verdict",
    params(OutboxParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of mails", body = Page<Standing>),
    ),
)]
pub async fn get(
    State(service): State<Arc<Service>>,
    QueryParams(params): QueryParams<OutboxParams>,
) -> Result<Json<Page<Standing>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    let list = List { after, limit: *limit + 1, dead_only: dead };
    let mails = service.system.notifier.ask(list).await??;
    Ok(Json(Page::of(mails, *limit, |mail| mail.mail_id.to_string())))
}

problems!(RequeueProblems: JSON_BODY COMMIT; MailUnknown MailInFlight);

/// Queue a mail for another attempt.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
#[utoipa::path(
    post,
    path = "/v1/outbox/{mail_id}",
    operation_id = "requeue_mail",
    tag = "verdict",
    params(("mail_id" = MailId, Path)),
    request_body = MailRequest,
    responses(
        RequeueProblems,
        (status = 200, description = "The state of the mail", body = Standing),
    ),
)]
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

problems!(DropProblems: PARAMS COMMIT; MailUnknown MailInFlight);

/// Remove a mail without sending it.
///
/// # Errors
/// `MailUnknown`, `MailInFlight`. If the audit entry cannot be committed, nothing changes.
#[utoipa::path(
    delete,
    path = "/v1/outbox/{mail_id}",
    operation_id = "drop_mail",
    tag = "verdict",
    params(("mail_id" = MailId, Path)),
    responses(
        DropProblems,
        (status = 200, description = "The last state of the mail", body = Standing),
    ),
)]
pub async fn delete(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<Standing>, Problem> {
    let mail_id = named(mail_id)?;
    let notifier = service.system.notifier.clone();
    act(async move { Ok(Json(notifier.ask(DropMail { mail_id, peer }).await??)) }).await
}
