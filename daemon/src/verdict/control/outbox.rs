//! `/v1/outbox`: queued mails, and dead letters.

use crate::platform::api::request::JsonBody;
use crate::platform::api::request::QueryParams;
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::verdict::notifier::{ChangeMail, ListMails};
use oracled_actors::verdict::outbox::OutboxAction;
use oracled_api::base::page::ListPage;
use oracled_api::verdict::{MailAction, MailActionRequest, OutboxParams};
use oracled_domain::MailId;
use oracled_domain::PeerCredentials;
use oracled_domain::verdict::mail::MailState;
use std::sync::Arc;

problems!(ListProblems: STORE);

/// List queued mails and dead letters.
#[utoipa::path(
    get,
    path = "/v1/outbox",
    operation_id = "list_mails",
    tag = "verdict",
    params(OutboxParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of mails", body = ListPage<MailState>),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<OutboxParams>,
) -> Result<Json<ListPage<MailState>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    let list = ListMails { after, limit: *limit + 1, dead_only: dead };
    let mails = service.system.notifier.ask(list).await??;
    Ok(Json(ListPage::from_items(mails, *limit, |mail| mail.mail_id.to_string())))
}

problems!(RequeueProblems: JSON_BODY STORE; MailUnknown MailInFlight);

/// Queue a mail for another attempt.
#[utoipa::path(
    post,
    path = "/v1/outbox/{mail_id}",
    operation_id = "requeue_mail",
    tag = "verdict",
    params(("mail_id" = MailId, Path)),
    request_body = MailActionRequest,
    responses(
        RequeueProblems,
        (status = 200, description = "The state of the mail", body = MailState),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<MailState>, Problem> {
    let id = parse_name(mail_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    let notifier = service.system.notifier.clone();
    let change = ChangeMail { id, action: OutboxAction::Requeue, peer };
    run_to_end(async move { Ok(Json(notifier.ask(change).await??)) }).await
}

problems!(DropProblems: STORE; MailUnknown MailInFlight);

/// Remove a mail without sending it.
#[utoipa::path(
    delete,
    path = "/v1/outbox/{mail_id}",
    operation_id = "drop_mail",
    tag = "verdict",
    params(("mail_id" = MailId, Path)),
    responses(
        DropProblems,
        (status = 200, description = "The last state of the mail", body = MailState),
    ),
)]
pub async fn delete(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<MailState>, Problem> {
    let id = parse_name(mail_id)?;
    let notifier = service.system.notifier.clone();
    let change = ChangeMail { id, action: OutboxAction::Drop, peer };
    run_to_end(async move { Ok(Json(notifier.ask(change).await??)) }).await
}
