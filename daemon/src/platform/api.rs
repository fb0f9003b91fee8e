//! Routes of the whole daemon, and the router of a socket, made of the routes of the features.
//!
//! `/healthz` and `/readyz` show whether the daemon is alive, and whether it accepts verdicts.

pub(crate) mod batch;
pub(crate) mod body;
pub mod front;
pub mod metrics;
pub mod request;
pub(crate) mod request_check;
mod shared_log;

use self::shared_log::after_shared_log;
use super::openapi::{Routes, operations_by_path};
use crate::platform::access_log::record_route;
use crate::platform::api::body::json_response;
use crate::platform::api::request::check_no_params;
use crate::platform::api::request_check::RequestCheck;
use crate::platform::openapi::CommonProblems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::extract::{MatchedPath, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use domain_base::service::{LivenessResponse, OpenApiDocument, ReadinessResponse};
use hyper::{Method, StatusCode};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tower::util::MapRequestLayer;
use utoipa::IntoResponses;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{Content, Ref, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(read_document))
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(read_liveness))
        .routes(routes!(read_readiness))
        .merge(metrics_routes())
}

/// The route that the listener for metrics has, too.
pub(crate) fn metrics_routes() -> Routes {
    OpenApiRouter::new().routes(routes!(metrics::get))
}

/// Report that the daemon is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "read_liveness",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "The daemon is alive", body = LivenessResponse),
    ),
)]
async fn read_liveness() -> Json<LivenessResponse> {
    Json(LivenessResponse { status: "alive", version: env!("CARGO_PKG_VERSION") })
}

/// The problems of the readiness route, one of which has the status of a daemon that is not ready.
struct ReadyProblems;

impl IntoResponses for ReadyProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut responses = CommonProblems::responses();
        if let Some(RefOr::T(response)) = responses.get_mut("503") {
            let report = Content::new(Some(Ref::from_schema_name("ReadinessResponse")));
            response.content.insert("application/json".to_owned(), report.into());
            let own = "The daemon does not accept verdicts, for the given reasons";
            response.description = format!("{own}; or {}", response.description);
        }
        responses
    }
}

/// Report whether the daemon accepts verdicts.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "read_readiness",
    tag = "platform",
    responses(
        ReadyProblems,
        (status = 200, description = "The daemon accepts verdicts", body = ReadinessResponse),
    ),
)]
async fn read_readiness(State(service): State<Arc<DaemonService>>) -> Response {
    let reasons = service.unready_reasons();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let degraded = service.degraded_reasons().await;
    let test_mode = service.system.store.is_test();
    (status, Json(ReadinessResponse { ready, reasons, degraded, test_mode })).into_response()
}

/// The description of a socket, as JSON, in the requests of the socket. The first request for it creates it, not the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketDocument(fn() -> &'static str);

/// The router of a socket with these routes and this description. `paths` is for requests of other paths and methods.
pub(crate) fn serve_routes(
    routes: Routes,
    service: &Arc<DaemonService>,
    document: fn() -> &'static str,
    paths: &'static str,
) -> Router<Arc<DaemonService>> {
    after_shared_log(routes, service)
        .fallback(async || Problem::not_found(paths))
        .method_not_allowed_fallback(async move || Problem::method_not_allowed(paths))
        .layer(MapRequestLayer::new(record_route))
        .layer(Extension(SocketDocument(document)))
}

/// Rejects requests with query parameters, where the routes describe none. The handlers of the others reject unknown ones.
pub(crate) fn reject_params(routes: Routes) -> Routes {
    let is_of_query = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query);
    let operations = operations_by_path(routes.get_openapi());
    let taking = operations
        .filter(|(_, operation)| operation.parameters.iter().flatten().any(is_of_query))
        .map(|(route, _)| route);
    let taking = Arc::new(taking.collect::<HashSet<_>>());
    routes.route_layer(RequestCheck(move |request: &Request| reject_undeclared_params(&taking, request)))
}

fn reject_undeclared_params(taking: &HashSet<(Method, String)>, request: &Request) -> Result<(), Problem> {
    let Err(refused) = check_no_params(request.uri()) else { return Ok(()) };
    if taking.contains(&route_of(request)) { Ok(()) } else { Err(refused) }
}

/// The method and the path of the operation of a request.
pub(crate) fn route_of(request: &Request) -> (Method, String) {
    let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    (method, path.to_owned())
}

/// Read the description of this socket.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "read_openapi",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "This document", body = OpenApiDocument),
    ),
)]
pub(crate) async fn read_document(
    Extension(SocketDocument(document)): Extension<SocketDocument>,
) -> Response {
    json_response(StatusCode::OK, document())
}
