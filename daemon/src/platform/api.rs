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

use self::shared_log::{StoreAge, after_shared_log, store_age};
use crate::platform::access_log::record_route;
use crate::platform::api::body::json_response;
use crate::platform::api::request::check_no_params;
use crate::platform::api::request_check::RequestCheck;
use crate::platform::openapi::{CommonProblems, complete, operations_by_path};
use crate::platform::problem::Problem;
use crate::platform::routes::{Routes, routes};
use crate::platform::service::DaemonService;
use axum::extract::{MatchedPath, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use domain_base::service::{LivenessResponse, OpenApiDocument, ReadinessResponse};
use hyper::{Method, StatusCode};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use tower::util::MapRequestLayer;
use utoipa::IntoResponses;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    routes![read_document]
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    routes![read_liveness, read_readiness].merge(metrics_routes())
}

/// The route that the listener for metrics has, too.
pub(crate) fn metrics_routes() -> Routes {
    routes![metrics::get]
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

/// The description of a socket. Its parts are made at their first use.
#[derive(Debug)]
pub(crate) struct SocketDescription {
    /// The description without the routes.
    head: fn() -> OpenApi,
    routes: fn() -> Routes,
    operations: OnceLock<HashMap<(Method, String), OperationTraits>>,
    document: OnceLock<String>,
}

/// The parts of the description that decide about a request before its handler.
#[derive(Debug, Clone, Copy)]
struct OperationTraits {
    takes_params: bool,
    store_age: Option<StoreAge>,
}

impl SocketDescription {
    pub(crate) const fn new(head: fn() -> OpenApi, routes: fn() -> Routes) -> Self {
        Self { head, routes, operations: OnceLock::new(), document: OnceLock::new() }
    }

    fn describe(&self) -> OpenApi {
        let mut document = (self.head)();
        (self.routes)().describe(&mut document);
        document
    }

    /// The document, as JSON.
    pub(crate) fn document(&self) -> &str {
        self.document.get_or_init(|| complete(self.describe()))
    }

    fn traits_of(&self, request: &Request) -> Option<OperationTraits> {
        let operations = self.operations.get_or_init(|| {
            let document = self.describe();
            let traits = operations_by_path(&document).map(|(route, operation)| {
                let (takes_params, store_age) = (takes_params(operation), store_age(operation));
                (route, OperationTraits { takes_params, store_age })
            });
            traits.collect()
        });
        operations.get(&route_of(request)).copied()
    }
}

fn takes_params(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(
        |parameter| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query),
    )
}

/// The description of a socket, in the requests of the socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described(&'static SocketDescription);

/// The parts of the description of the operation of a request; `None` if its socket describes no such operation.
fn traits_of(request: &Request) -> Option<OperationTraits> {
    let Described(description) = request.extensions().get()?;
    description.traits_of(request)
}

/// The router of a socket with these routes and this description. `paths` is for requests of other paths and methods.
pub(crate) fn serve_routes(
    routes: Routes,
    service: &Arc<DaemonService>,
    description: &'static SocketDescription,
    paths: &'static str,
) -> Router<Arc<DaemonService>> {
    after_shared_log(routes, service)
        .fallback(async || Problem::not_found(paths))
        .method_not_allowed_fallback(async move || Problem::method_not_allowed(paths))
        .layer(MapRequestLayer::new(record_route))
        .layer(Extension(Described(description)))
}

/// Rejects requests with query parameters, where the routes describe none. The handlers of the others reject unknown ones.
pub(crate) fn reject_params(routes: Routes) -> Routes {
    routes.route_layer(RequestCheck(reject_undeclared_params))
}

fn reject_undeclared_params(request: &Request) -> Result<(), Problem> {
    let Err(refused) = check_no_params(request.uri()) else { return Ok(()) };
    if traits_of(request).is_some_and(|traits| traits.takes_params) { Ok(()) } else { Err(refused) }
}

/// The method and the path of the operation of a request.
fn route_of(request: &Request) -> (Method, String) {
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
pub(crate) async fn read_document(Extension(Described(description)): Extension<Described>) -> Response {
    json_response(StatusCode::OK, description.document())
}
