//! Orders on the routes' socket: placing one by `POST /v1/verdicts/{session_id}`, and reading, listing and cancelling them.

use super::RequestSessionCaller;
use crate::platform::api::body::json_response;
use crate::platform::api::request::{PathSessionId, QueryParams};
use crate::platform::openapi::{SESSION, STORE, problems};
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::service::DaemonService;
use crate::verdict::OWNER;
use crate::verdict::config::models::{ModelProvider, ModelSection};
use actors_platform::clock::stopwatch;
use actors_verdict::generation::GenerationError;
use actors_verdict::orders::{CancelOrder, PlaceOrder, PlacedOrder};
use actors_verdict::submission::{CachedVerdict, Submission};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use domain_base::caller::PeerCredentials;
use domain_base::page::ListPage;
use domain_base::problem::INVALID_REQUEST;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::ParseTextError;
use domain_verdict::order::{Order, OrderPosition, OrderState};
use domain_verdict::problem::{MODEL_UNAVAILABLE, ORDER_STATE_REFUSED, ORDER_UNKNOWN, SESSION_ON_HOLD};
use domain_verdict::session::SessionRecord;
use domain_verdict::wire::{OrderReport, OrdersParams};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use jiff::Timestamp;
use oracled_store::OrderQuery;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// The header with which a client asks for an answer before the work is done (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The time between the last moment of waiting and the time limit of the request.
const ANSWER_TAKES: Duration = Duration::from_millis(500);
/// The time between two looks at what an order waits for.
const WAIT_LOOK: Duration = Duration::from_millis(200);
/// The shortest and the longest time after which a client should read an order again. What an order waits for can end
/// earlier than expected.
const POLL_AFTER_S: u64 = 5;
const POLL_AFTER_MAX_S: u64 = 300;

/// Whether the client asks for an answer before the verdict exists.
pub(super) fn prefers_async(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    preferences
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("respond-async"))
}

/// Places the order of a verdict. If `is_async`, the answer to a new order is 202. Otherwise it waits for the verdict: 201 with a new
/// verdict, 200 with one that the session already had, 202 with the order while it is open or held.
pub(super) async fn place(
    service: Arc<DaemonService>,
    submission: Submission,
    is_async: bool,
    began: Instant,
) -> Result<Response, Problem> {
    let limit = Duration::from_secs(service.limits.request_s);
    let until = began + limit.saturating_sub(ANSWER_TAKES);
    let (session_id, orders) = (submission.session_id.clone(), service.system.orders.clone());
    let placed = service.run_work(async move { Ok(orders.ask(PlaceOrder(submission)).await?) }).await?;
    match placed {
        Ok(PlacedOrder::Replayed(cached)) => Ok(replayed_response(&cached)),
        Ok(PlacedOrder::Mismatch(what)) => Err(Problem::session_mismatch(&session_id, what)),
        Ok(PlacedOrder::Order { mut progress, is_new }) => {
            // an order that waits for the next day is not waited for
            let application = session_id.application();
            let budgets = service.system.daily_budgets()?;
            if !is_async && !budgets.iter().any(|budget| budget.stops(Some(&application))) {
                wait_for_verdict(&service, &session_id, &mut progress, until).await;
            }
            let session = service.system.store.session(&session_id)?;
            let session = session.ok_or_else(|| Problem::session_unknown(session_id.local()))?.0;
            if is_async && is_new {
                // the first attempt may already have ended; the answer is that the order was placed
                let report =
                    report_of(&service, session).ok_or_else(|| Problem::order_unknown(session_id.local()))?;
                return Ok(accepted(report.into_local(), service.system.clock.now()));
            }
            answer(&service, session, is_new)
        }
        Err(failed) => Err(generation_problem(&service, &session_id, &failed)),
    }
}

/// Waits until the order is not open any longer, at most `until`. An order whose next attempt is later is not waited for.
async fn wait_for_verdict(
    service: &DaemonService,
    session_id: &SessionId,
    progress: &mut watch::Receiver<Order>,
    until: Instant,
) {
    let mut stopping = service.subscribe_stop();
    let is_late = |due: Timestamp| {
        let left = until.saturating_duration_since(stopwatch());
        let now = service.system.clock.now();
        Duration::try_from(due.duration_since(now)).is_ok_and(|wait| wait > left)
    };
    let is_decided = |order: &Order| !order.state.is_open() || order.next_attempt_at.is_some_and(is_late);
    let latest = progress.clone();
    // the wait of a due order is no change of the order
    let waits_later = async {
        loop {
            sleep(WAIT_LOOK).await;
            let is_queued = latest.borrow().state == OrderState::Queued;
            let waits_until = service.system.order_waits.of(session_id).and_then(|wait| wait.until);
            if is_queued && waits_until.is_some_and(is_late) {
                break;
            }
        }
    };
    let wait = async {
        tokio::select! {
            _ = progress.wait_for(is_decided) => {}
            () = waits_later => {}
            _ = stopping.wait_for(|stops| *stops) => {}
        }
    };
    // if the time is over, the order continues
    drop(timeout_at(until, wait).await);
}

/// The answer to a request for the verdict of a session with an order.
pub(super) fn answer(
    service: &DaemonService,
    session: SessionRecord,
    is_new: bool,
) -> Result<Response, Problem> {
    let session_id = session.session_id.clone();
    let report =
        report_of(service, session).ok_or_else(|| Problem::order_unknown(session_id.local()))?.into_local();
    match report.order.state {
        OrderState::Delivered => {
            // not from the cache, whose metrics count only reads of verdicts
            let delivery = service.system.store.verdict(&session_id)?;
            let (delivery, _) = delivery.ok_or_else(|| Problem::verdict_not_cached(session_id.local()))?;
            let cached = CachedVerdict::from(delivery);
            Ok(if is_new {
                json_response(StatusCode::CREATED, cached.body)
            } else {
                replayed_response(&cached)
            })
        }
        OrderState::Failed => Err(Problem::order_failed(&session_id, &report.order)),
        OrderState::Cancelled => Err(Problem::order_cancelled(&session_id)),
        OrderState::Queued | OrderState::Generating | OrderState::Held => {
            Ok(accepted(report, service.system.clock.now()))
        }
    }
}

/// The order of a session that was read.
pub(crate) fn report_of(service: &DaemonService, session: SessionRecord) -> Option<OrderReport> {
    OrderReport::of(session).map(|report| with_wait(service, report))
}

/// The report with what the order waits for. Its errors do not show where the daemon keeps its files.
fn with_wait(service: &DaemonService, report: OrderReport) -> OrderReport {
    let wait = service.system.order_waits.of(&report.session_id);
    let mut report = report.waiting_for(wait, service.system.clock.now());
    for cause in report.order.last_attempts.iter_mut().filter_map(|attempt| attempt.cause.as_mut()) {
        *cause = UpstreamText::new(without_state_dir(cause.reveal().to_owned()));
    }
    if let Some(wait) = &mut report.waiting_for {
        wait.detail = without_state_dir(std::mem::take(&mut wait.detail));
    }
    report
}

/// The order of a session; `None` if it has none.
pub(crate) fn read_order(
    service: &DaemonService,
    session_id: &SessionId,
) -> Result<Option<OrderReport>, Problem> {
    let session = service.system.store.session(session_id)?;
    Ok(session.and_then(|(session, _)| report_of(service, session)))
}

/// When a client should read an order again: when it is attempted next, if that is known.
fn poll_after(report: &OrderReport, now: Timestamp) -> u64 {
    let until = report.waiting_for.as_ref().and_then(|wait| wait.until);
    let next = until.or(report.order.next_attempt_at);
    let wait = next.map(|at| at.duration_since(now)).and_then(|wait| Duration::try_from(wait).ok());
    (wait.unwrap_or_default().as_secs_f64().ceil() as u64).clamp(POLL_AFTER_S, POLL_AFTER_MAX_S)
}

/// The response with an order, and when to read it again if it is open.
fn respond(report: OrderReport, status: StatusCode, now: Timestamp) -> Response {
    let poll_after = report.order.state.is_open().then(|| poll_after(&report, now));
    let mut response = (status, Json(report)).into_response();
    response.headers_mut().extend(poll_after.map(|wait| (RETRY_AFTER, HeaderValue::from(wait))));
    response
}

/// 202 with the order and its place.
fn accepted(report: OrderReport, now: Timestamp) -> Response {
    let location = HeaderValue::try_from(format!("/v1/orders/{}", report.session_id));
    let location = location.expect("a session id has only visible ASCII characters");
    let mut response = respond(report, StatusCode::ACCEPTED, now);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A page of the orders of `application`, or of all.
pub(crate) fn list_orders(
    service: &DaemonService,
    application: Option<ApplicationName>,
    params: OrdersParams,
) -> Result<ListPage<OrderReport>, Problem> {
    let OrdersParams { after, limit, state } = params;
    let before = after
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: ParseTextError| Problem::new(INVALID_REQUEST, format!("`after`: {error}")))?;
    let query = OrderQuery { application, state, before, limit: *limit + 1 };
    let sessions = service.system.store.orders(&query)?.into_iter();
    let orders = sessions.filter_map(|session| report_of(service, session)).collect();
    let position =
        |report: &OrderReport| OrderPosition::of(&report.session_id, report.order.placed_at).to_string();
    Ok(ListPage::from_items(orders, *limit, position))
}

problems!(ListProblems: STORE; INVALID_REQUEST);

/// List the orders of the caller's application, the latest one first.
#[utoipa::path(
    get,
    path = "/v1/orders",
    operation_id = "list_orders",
    tag = "verdict",
    params(OrdersParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of orders", body = ListPage<OrderReport>),
    ),
)]
pub async fn list(
    State(service): State<Arc<DaemonService>>,
    Extension(application): Extension<ApplicationName>,
    QueryParams(params): QueryParams<OrdersParams>,
) -> Result<Json<ListPage<OrderReport>>, Problem> {
    let page = list_orders(&service, Some(application), params)?;
    let items = page.items.into_iter().map(OrderReport::into_local).collect();
    Ok(Json(ListPage { items, ..page }))
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
        (status = 200, description = "The order", body = OrderReport, headers(("Retry-After" = u64, description = "When to read the order again, in seconds: 5 to 300. Missing if it is not open."))),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
) -> Result<Response, Problem> {
    let report = read_order(&service, &session_id)?;
    let report = report.ok_or_else(|| Problem::order_unknown(session_id.local()))?;
    Ok(respond(report.into_local(), StatusCode::OK, service.system.clock.now()))
}

problems!(CancelProblems: SESSION STORE OWNER; ORDER_UNKNOWN ORDER_STATE_REFUSED SESSION_ON_HOLD);

/// Cancel an order.
///
/// A queued, generating or held order is cancelled for good; a repeated request gets the same answer. The answer of a model call
/// in progress is discarded, and its cost counts. A later order or verdict for the session gets 409 `order_cancelled`.
#[utoipa::path(
    delete,
    path = "/v1/orders/{session_id}",
    operation_id = "cancel_order",
    tag = "verdict",
    params(("session_id" = SessionId, Path)),
    responses(
        CancelProblems,
        (status = 200, description = "The cancelled order", body = OrderReport),
    ),
)]
pub async fn delete(
    State(service): State<Arc<DaemonService>>,
    PathSessionId(session_id): PathSessionId,
    RequestSessionCaller(caller): RequestSessionCaller,
    Extension(peer): Extension<PeerCredentials>,
) -> Result<Json<OrderReport>, Problem> {
    let orders = service.system.orders.clone();
    let cancel = CancelOrder { session_id: session_id.clone(), caller, peer };
    let session = service.run_work(async move { Ok(orders.ask(cancel).await??) }).await?;
    let report = report_of(&service, session);
    report.map(|report| Json(report.into_local())).ok_or_else(|| Problem::order_unknown(session_id.local()))
}

/// The problem of a verdict that cannot be generated.
fn generation_problem(service: &DaemonService, session_id: &SessionId, failed: &GenerationError) -> Problem {
    match failed {
        GenerationError::NoModel => no_model_problem(service),
        failed => Problem::generation_failed(session_id, failed),
    }
}

/// The reason why no verdict can be generated, and the remedy.
fn no_model_problem(service: &DaemonService) -> Problem {
    let cause = match service.section::<ModelSection>().provider {
        ModelProvider::None => {
            "no model is configured; send `verdict` or `raw`, or configure `model.provider`".to_owned()
        }
        _ if service.system.store.is_test() => {
            "the model has no key; see `model.api_key_file`, or set `model.provider = \"canned\"` for the test mode".to_owned()
        }
        _ => "the model has no key; see `model.api_key_file`".to_owned(),
    };
    Problem::new(MODEL_UNAVAILABLE, cause)
}

/// 200 with a verdict that the session already had.
pub(super) fn replayed_response(cached: &CachedVerdict) -> Response {
    json_response(StatusCode::OK, mark_replayed(cached))
}

/// The document with `"replayed":true` as its last member.
fn mark_replayed(cached: &CachedVerdict) -> Bytes {
    let members = cached.body.strip_suffix(b"}").expect("the document is an object");
    [members, br#","replayed":true}"#].concat().into()
}
