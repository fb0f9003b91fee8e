//! `/v1/webhooks`: queued webhooks, dead letters, and tests of endpoints.

use super::outbox::{change_message, list_messages};
use crate::platform::api::request::{JsonBody, QueryParams};
use crate::platform::control::control_request::{parse_name, require_application};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_verdict::notifier::{ChangeMessage, OutboxAction, TestWebhook};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_verdict::outbox::{MessageChannel, MessageState};
use domain_verdict::webhook::{WebhookId, WebhookState};
use oracled_api::base::page::ListPage;
use oracled_api::verdict::{
    MailAction, MailActionRequest, WebhookListParams, WebhookTestRequest, WebhookTestResponse,
};
use std::sync::Arc;

problems!(ListProblems: STORE);

/// List queued webhooks and dead letters.
#[utoipa::path(
    get,
    path = "/v1/webhooks",
    operation_id = "list_webhooks",
    tag = "verdict",
    params(WebhookListParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of webhooks", body = ListPage<WebhookState>),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<WebhookListParams>,
) -> Result<Json<ListPage<MessageState>>, Problem> {
    let WebhookListParams { after, limit, dead } = params;
    list_messages(&service, MessageChannel::Webhook, after.map(Into::into), *limit, dead).await
}

problems!(RequeueProblems: JSON_BODY STORE; MailUnknown MailInFlight);

/// Queue a webhook for another attempt.
#[utoipa::path(
    post,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "requeue_webhook",
    tag = "verdict",
    params(("webhook_id" = WebhookId, Path)),
    request_body = MailActionRequest,
    responses(
        RequeueProblems,
        (status = 200, description = "The state of the webhook", body = WebhookState),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    webhook_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<MessageState>, Problem> {
    let id: WebhookId = parse_name(webhook_id)?;
    let MailActionRequest { action: MailAction::Requeue } = body.parse()?;
    change_message(&service, ChangeMessage { id: id.into(), action: OutboxAction::Requeue, peer }).await
}

problems!(DropProblems: STORE; MailUnknown MailInFlight);

/// Remove a webhook without sending it.
#[utoipa::path(
    delete,
    path = "/v1/webhooks/{webhook_id}",
    operation_id = "drop_webhook",
    tag = "verdict",
    params(("webhook_id" = WebhookId, Path)),
    responses(
        DropProblems,
        (status = 200, description = "The last state of the webhook", body = WebhookState),
    ),
)]
pub async fn delete(
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
    request_body = WebhookTestRequest,
    responses(
        TestProblems,
        (status = 200, description = "The result of the test", body = WebhookTestResponse),
    ),
)]
pub async fn test(
    State(service): State<Arc<DaemonService>>,
    body: JsonBody,
) -> Result<Json<WebhookTestResponse>, Problem> {
    let WebhookTestRequest { application } = body.parse()?;
    if let Some(name) = &application {
        require_application(&service, name)?;
    }
    let tested = service.system.notifier.ask(TestWebhook(application)).await?;
    let (answer, error) = match tested.outcome {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error)),
    };
    Ok(Json(WebhookTestResponse {
        webhook_id: tested.webhook_id,
        status: answer.map(|(status, _)| status),
        latency_ms: answer.map(|(_, latency)| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
        error,
    }))
}
