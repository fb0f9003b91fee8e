//! `/v1/orders`: lists, shows, retries, fails, cancels and releases orders.
//!
//! On the socket for reviewers, an order that is not held does not exist.

use crate::platform::api::request::{JsonBody, PathSessionId, QueryParams};
use crate::platform::control::{IdentifiedUser, check_reason, require_application};
use crate::platform::openapi::{JSON_BODY, SESSION, STORE, problems};
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_to_end};
use crate::verdict::api::orders::{list_orders, read_order, report_of};
use crate::verdict::{HELD, ORDER_CHANGE};
use actors_verdict::orders::{ChangeOrder, HeldVerdictText, OrderChangeError, ReadHeldVerdict};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::page::ListPage;
use domain_base::problem::INVALID_REQUEST;
use domain_base::session_id::SessionId;
use domain_verdict::order::OrderState;
use domain_verdict::problem::ORDER_UNKNOWN;
use domain_verdict::wire::{
    AllOrdersParams, HeldOrdersParams, HeldVerdictReport, OrderActionRequest, OrderReport, OrdersParams,
};
use std::sync::Arc;

problems!(ListProblems: STORE; INVALID_REQUEST);

/// List orders, the latest one first.
///
/// An application that is not configured and has no orders is an error.
#[utoipa::path(
    get,
    path = "/v1/orders",
    operation_id = "list_orders",
    tag = "verdict",
    params(AllOrdersParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of orders", body = ListPage<OrderReport>),
    ),
)]
pub async fn list(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<AllOrdersParams>,
) -> Result<Json<ListPage<OrderReport>>, Problem> {
    let AllOrdersParams { application, after, limit, state } = params;
    // an application that was configured once may have orders
    if let Some(name) = &application
        && !service.system.store.applications_with_orders()?.contains(name)
    {
        require_application(&service, name)?;
    }
    list_orders(&service, application, OrdersParams { after, limit, state }).map(Json)
}

problems!(ReadProblems: SESSION STORE; ORDER_UNKNOWN);

/// Read an order.
#[utoipa::path(
    get,
    path = "/v1/orders/{session_id}",
    operation_id = "read_order",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The order", body = OrderReport),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<OrderReport>, Problem> {
    let report = read_order(&service, &session_id)?;
    report.map(Json).ok_or_else(|| Problem::order_unknown(session_id))
}

problems!(ChangeProblems: JSON_BODY SESSION STORE ORDER_CHANGE);

/// Retry, fail or cancel an order, or release its held verdict.
///
/// A queued, generating or held order is cancelled for good; a repeated cancellation gets the same answer.
#[utoipa::path(
    post,
    path = "/v1/orders/{session_id}",
    operation_id = "change_order",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = OrderActionRequest,
    responses(
        ChangeProblems,
        (status = 200, description = "The order after the change", body = OrderReport),
    ),
)]
pub async fn change(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<OrderReport>, Problem> {
    let OrderActionRequest { action, reason, changed_at } = body.parse()?;
    check_reason(&reason)?;
    let orders = service.system.orders.clone();
    let message =
        ChangeOrder { session_id: session_id.clone(), action, reason, held_only: false, changed_at, user };
    let session = run_to_end(async move { Ok(orders.ask(message).await??) }).await?;
    report_of(&service, session).map(Json).ok_or_else(|| Problem::order_unknown(session_id))
}

problems!(ReadHeldProblems: SESSION STORE HELD);

/// Read the verdict that the policy holds.
///
/// The entry `held_verdict_read` in the log names the reader.
#[utoipa::path(
    get,
    path = "/v1/orders/{session_id}/verdict",
    operation_id = "read_held_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadHeldProblems,
        (status = 200, description = "The held verdict", body = HeldVerdictReport),
    ),
)]
pub async fn read_held(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<HeldVerdictReport>, Problem> {
    let orders = service.system.orders.clone();
    let message = ReadHeldVerdict { session_id, peer };
    let held = run_to_end(async move { Ok(orders.ask(message).await??) }).await?;
    Ok(Json(held_report(held)))
}

pub(super) fn held_report(HeldVerdictText { held, delivery }: HeldVerdictText) -> HeldVerdictReport {
    HeldVerdictReport {
        session_id: held.session_id,
        query: delivery.query,
        held_at: held.held_at,
        path: held.path,
        causes: held.causes,
        verdict: delivery.approved.verdict().to_owned(),
        decision: delivery.approved.decision().clone(),
    }
}

/// List the held orders, the latest one first.
#[utoipa::path(
    get,
    path = "/v1/orders",
    operation_id = "list_orders",
    tag = "verdict",
    params(HeldOrdersParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of held orders", body = ListPage<OrderReport>),
    ),
)]
pub async fn list_held(
    State(service): State<Arc<DaemonService>>,
    QueryParams(params): QueryParams<HeldOrdersParams>,
) -> Result<Json<ListPage<OrderReport>>, Problem> {
    let HeldOrdersParams { application, after, limit, state: _ } = params;
    let held = OrdersParams { after, limit, state: Some(OrderState::Held) };
    list_orders(&service, application, held).map(Json)
}

/// Read a held order.
#[utoipa::path(
    get,
    path = "/v1/orders/{session_id}",
    operation_id = "read_order",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadProblems,
        (status = 200, description = "The order", body = OrderReport),
    ),
)]
pub async fn get_held(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<OrderReport>, Problem> {
    let report = read_order(&service, &session_id)?;
    let held = report.filter(|report| report.order.state == OrderState::Held);
    held.map(Json).ok_or_else(|| Problem::order_unknown(session_id))
}

/// Retry, fail or cancel a held order, or release its held verdict.
#[utoipa::path(
    post,
    path = "/v1/orders/{session_id}",
    operation_id = "change_order",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    request_body = OrderActionRequest,
    responses(
        ChangeProblems,
        (status = 200, description = "The order after the change", body = OrderReport),
    ),
)]
pub async fn change_held(
    State(service): State<Arc<DaemonService>>,
    IdentifiedUser(user): IdentifiedUser,
    PathSessionId(session_id): PathSessionId,
    body: JsonBody,
) -> Result<Json<OrderReport>, Problem> {
    let OrderActionRequest { action, reason, changed_at } = body.parse()?;
    check_reason(&reason)?;
    let orders = service.system.orders.clone();
    let message =
        ChangeOrder { session_id: session_id.clone(), action, reason, held_only: true, changed_at, user };
    let changed = async move { Ok(orders.ask(message).await?.map_err(hide_other_orders)?) };
    let session = run_to_end(changed).await?;
    report_of(&service, session).map(Json).ok_or_else(|| Problem::order_unknown(session_id))
}

/// Read the verdict that the policy holds.
///
/// The entry `held_verdict_read` in the log names the reader.
#[utoipa::path(
    get,
    path = "/v1/orders/{session_id}/verdict",
    operation_id = "read_held_verdict",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        ReadHeldProblems,
        (status = 200, description = "The held verdict", body = HeldVerdictReport),
    ),
)]
pub async fn read_held_for_reviewer(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Json<HeldVerdictReport>, Problem> {
    let orders = service.system.orders.clone();
    let message = ReadHeldVerdict { session_id, peer };
    let read = async move { Ok(orders.ask(message).await?.map_err(hide_other_orders)?) };
    Ok(Json(held_report(run_to_end(read).await?)))
}

/// The error for a reviewer: the state of an order that is not held is not shown.
fn hide_other_orders(error: OrderChangeError) -> OrderChangeError {
    match error {
        OrderChangeError::State { session_id, state }
        | OrderChangeError::NoHeldVerdict { session_id, state }
            if state != OrderState::Held =>
        {
            OrderChangeError::Unknown(session_id)
        }
        error => error,
    }
}
