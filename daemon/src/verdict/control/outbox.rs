//! `/v1/outbox`: queued mails, and dead letters.

use crate::platform::api::request::{JsonBody, QueryParams};
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_verdict::notifier::{ChangeMessage, OutboxAction};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_verdict::mail::{MailId, MailState};
use domain_verdict::outbox::{MessageChannel, MessageId, MessageState};
use oracled_api::base::page::ListPage;
use oracled_api::verdict::{MailAction, MailActionRequest, OutboxParams};
use oracled_store::StoreError;
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
) -> Result<Json<ListPage<MessageState>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    list_messages(&service, MessageChannel::Mail, after.map(Into::into), *limit, dead).await
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
) -> Result<Json<MessageState>, Problem> {
    let id: MailId = parse_name(mail_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Requeue, peer }).await
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
) -> Result<Json<MessageState>, Problem> {
    let id: MailId = parse_name(mail_id)?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Drop, peer }).await
}

/// A page of the messages of a channel.
pub(super) async fn list_messages(
    service: &DaemonService,
    channel: MessageChannel,
    after: Option<MessageId>,
    limit: usize,
    dead_only: bool,
) -> Result<Json<ListPage<MessageState>>, Problem> {
    let store = service.system.store.clone();
    let listed = run_blocking(move || {
        let mut messages = Vec::new();
        store.visit_messages(Some(channel), after.as_ref(), |state| {
            if !dead_only || state.tries().is_dead() {
                messages.push(state);
            }
            messages.len() <= limit
        })?;
        Ok::<_, StoreError>(messages)
    });
    Ok(Json(ListPage::from_items(listed.await?, limit, |state| state.entry().message_id.to_string())))
}

/// Requeues or removes a message.
pub(super) async fn change_message(
    service: &DaemonService,
    change: ChangeMessage,
) -> Result<Json<MessageState>, Problem> {
    let notifier = service.system.notifier.clone();
    run_to_end(async move { Ok(Json(notifier.ask(change).await??)) }).await
}
