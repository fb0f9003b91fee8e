//! The router of a socket, made of the routes of the features.

use super::body::json_response;
use super::request::check_no_params;
use crate::platform::access_log::record_route;
use crate::platform::openapi::{CommonProblems, Routes};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use domain_base::service::OpenApiDocument;
use hyper::{Method, StatusCode};
use std::collections::HashSet;
use std::sync::Arc;
use tower::util::MapRequestLayer;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Parameter, ParameterIn};

/// The description of a socket, as JSON, in the requests of the socket. The first request for it creates it, not the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketDocument(fn() -> &'static str);

/// The router of a socket with these routes and this description. `paths` is for requests of other paths and methods.
pub(crate) fn serve_routes(
    routes: Routes,
    document: fn() -> &'static str,
    paths: &'static str,
) -> Router<Arc<DaemonService>> {
    Router::from(routes)
        .fallback(async || Problem::not_found(paths))
        .method_not_allowed_fallback(async move || Problem::method_not_allowed(paths))
        .layer(MapRequestLayer::new(record_route))
        .layer(Extension(SocketDocument(document)))
}

/// Rejects requests with query parameters, where the routes describe none. The handlers of the others reject unknown ones.
pub(crate) fn reject_params(mut routes: Routes) -> Routes {
    let mut taking = HashSet::new();
    let is_of_query = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query);
    for (path, item) in &mut routes.get_openapi_mut().paths.paths {
        let operations = [
            (Method::GET, &item.get),
            (Method::PUT, &item.put),
            (Method::POST, &item.post),
            (Method::DELETE, &item.delete),
            (Method::PATCH, &item.patch),
        ];
        for (method, operation) in operations {
            if operation.iter().flat_map(|operation| operation.parameters.iter().flatten()).any(is_of_query) {
                taking.insert((method, path.clone()));
            }
        }
    }
    routes.route_layer(from_fn_with_state(Arc::new(taking), reject_undeclared_params))
}

async fn reject_undeclared_params(
    State(taking): State<Arc<HashSet<(Method, String)>>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    if let Err(refused) = check_no_params(request.uri()) {
        let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
        if !taking.contains(&(method, path.as_str().to_owned())) {
            return refused.into_response();
        }
    }
    next.run(request).await
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
