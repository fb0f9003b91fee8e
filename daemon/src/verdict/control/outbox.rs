//! `/v1/outbox`, `/v1/webhooks`: queued mails and webhooks, and dead letters.

use crate::platform::api::request::{JsonBody, QueryParams};
use crate::platform::control::{parse_name, require_application};
use crate::platform::openapi::{JSON_BODY, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking, run_to_end};
use actors_verdict::notifier::{ChangeMessage, ListEndpoints, OutboxAction, ResumeEndpoint, TestWebhook};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::page::ListPage;
use domain_verdict::mail::{MailId, MailState};
use domain_verdict::outbox::{MessageChannel, MessageId, MessageState};
use domain_verdict::problem::{ENDPOINT_NOT_PAUSED, MAIL_IN_FLIGHT, MAIL_UNKNOWN};
use domain_verdict::webhook::{WebhookId, WebhookOutage, WebhookReceiver, WebhookState};
use domain_verdict::wire::{
    EndpointReport, EndpointRequest, MailAction, MailActionRequest, OutboxParams, WebhookListParams,
    WebhookTestResponse,
};
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
pub async fn list_mails(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<OutboxParams>,
) -> Result<Json<ListPage<MessageState>>, Problem> {
    let OutboxParams { after, limit, dead } = params;
    list_messages(&service, MessageChannel::Mail, after.map(Into::into), *limit, dead).await
}

problems!(RequeueProblems: JSON_BODY STORE; MAIL_UNKNOWN MAIL_IN_FLIGHT);

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
pub async fn requeue_mail(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<MessageState>, Problem> {
    let id: MailId = parse_name(mail_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Requeue, peer }).await
}

problems!(DropProblems: STORE; MAIL_UNKNOWN MAIL_IN_FLIGHT);

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
pub async fn drop_mail(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    mail_id: Result<Path<String>, PathRejection>,
) -> Result<Json<MessageState>, Problem> {
    let id: MailId = parse_name(mail_id)?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Drop, peer }).await
}

/// A page of the messages of a channel.
async fn list_messages(
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
async fn change_message(
    service: &DaemonService,
    change: ChangeMessage,
) -> Result<Json<MessageState>, Problem> {
    let notifier = service.system.notifier.clone();
    run_to_end(async move { Ok(Json(notifier.ask(change).await??)) }).await
}

problems!(ListWebhooksProblems: STORE);

/// List queued webhooks and dead letters.
#[utoipa::path(
    get,
    path = "/v1/webhooks",
    operation_id = "list_webhooks",
    tag = "verdict",
    params(WebhookListParams),
    responses(
        ListWebhooksProblems,
        (status = 200, description = "A page of webhooks", body = ListPage<WebhookState>),
    ),
)]
pub async fn list_webhooks(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<WebhookListParams>,
) -> Result<Json<ListPage<MessageState>>, Problem> {
    let WebhookListParams { after, limit, dead } = params;
    list_messages(&service, MessageChannel::Webhook, after.map(Into::into), *limit, dead).await
}

problems!(RequeueWebhookProblems: JSON_BODY STORE; MAIL_UNKNOWN MAIL_IN_FLIGHT);

/// Queue a webhook for another attempt.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "requeue_webhook",
    tag = "verdict",
    params(("webhook_id" = WebhookId, Path)),
    request_body = MailActionRequest,
    responses(
        RequeueWebhookProblems,
        (status = 200, description = "The state of the webhook", body = WebhookState),
    ),
)]
pub async fn requeue_webhook(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    webhook_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<MessageState>, Problem> {
    let id: WebhookId = parse_name(webhook_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Requeue, peer }).await
}

problems!(DropWebhookProblems: STORE; MAIL_UNKNOWN MAIL_IN_FLIGHT);

/// Remove a webhook without sending it.
#[utoipa::path(
    delete,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "drop_webhook",
    tag = "verdict",
    params(("webhook_id" = WebhookId, Path)),
    responses(
        DropWebhookProblems,
        (status = 200, description = "The last state of the webhook", body = WebhookState),
    ),
)]
pub async fn drop_webhook(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    webhook_id: Result<Path<String>, PathRejection>,
) -> Result<Json<MessageState>, Problem> {
    let id: WebhookId = parse_name(webhook_id)?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Drop, peer }).await
}

problems!(TestProblems: JSON_BODY);

/// Send a test event to an endpoint at once.
#[utoipa::path(
    post,
    path = "/v1/webhooks/test",
    operation_id = "test_webhook",
    tag = "verdict",
    request_body = EndpointRequest,
    responses(
        TestProblems,
        (status = 200, description = "The result of the test", body = WebhookTestResponse),
    ),
)]
pub async fn test_webhook(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Json<WebhookTestResponse>, Problem> {
    let receiver = parse_receiver(&service, body)?;
    let tested = service.system.notifier.ask(TestWebhook(receiver)).await?;
    let (answer, error) = match tested.outcome {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error)),
    };
    Ok(Json(WebhookTestResponse {
        webhook_id: tested.webhook_id,
        status: answer.map(|answer| answer.status),
        latency_ms: answer.map(|answer| answer.latency_ms),
        error,
    }))
}

fn parse_receiver(service: &DaemonService, body: JsonBody) -> Result<WebhookReceiver, Problem> {
    let request: EndpointRequest = body.parse()?;
    if let Some(name) = &request.application {
        require_application(service, name)?;
    }
    Ok(request.into())
}

problems!(EndpointsProblems: STORE);

/// List the endpoints of webhooks, with their states.
#[utoipa::path(
    get,
    path = "/v1/webhooks/endpoints",
    operation_id = "list_webhook_endpoints",
    tag = "verdict",
    responses(
        EndpointsProblems,
        (status = 200, description = "The configured endpoints", body = Vec<EndpointReport>),
    ),
)]
pub async fn list_webhook_endpoints(
    State(service): State<Arc<DaemonService>>,
) -> Result<Json<Vec<EndpointReport>>, Problem> {
    Ok(Json(service.system.notifier.ask(ListEndpoints).await??))
}

problems!(ResumeProblems: JSON_BODY STORE; ENDPOINT_NOT_PAUSED);

/// Resume a paused endpoint, so that its webhooks are sent again.
///
/// Webhooks that waited are sent first.
#[utoipa::path(
    post,
    path = "/v1/webhooks/resume",
    operation_id = "resume_webhooks",
    tag = "verdict",
    request_body = EndpointRequest,
    responses(
        ResumeProblems,
        (status = 200, description = "The outage, which ends with the next accepted webhook", body = WebhookOutage),
    ),
)]
pub async fn resume_webhooks(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    body: JsonBody,
) -> Result<Json<WebhookOutage>, Problem> {
    let receiver = parse_receiver(&service, body)?;
    let notifier = service.system.notifier.clone();
    run_to_end(async move { Ok(Json(notifier.ask(ResumeEndpoint { receiver, peer }).await??)) }).await
}
