//! `/openapi.json`: the description of the socket for reviewers.

use crate::platform::api::reserved_body;
use crate::platform::openapi::{CommonProblems, Complete, json};
use crate::verdict::control::held_orders;
use crate::verification::control::{review, review_evidence};
use axum::response::Response;
use hyper::StatusCode;
use oracled_api::base::problem::ProblemDocument;
use oracled_api::base::service::OpenApiDocument;
use oracled_domain::ApplicationName;
use std::sync::LazyLock;
use utoipa::OpenApi;

/// The description of the socket for reviewers.
#[derive(Debug, OpenApi)]
#[openapi(
    modifiers(&Complete),
    info(
        title = "oracled: reviews",
        description = "The optional Unix socket for reviewers: reviews and held orders, and nothing else. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://localhost", description = "Over the Unix socket `review.sock`; the host name is ignored")),
    tags(
        (name = "platform", description = "This description"),
        (name = "verification", description = "Reviews"),
        (name = "verdict", description = "Held orders"),
    ),
    components(schemas(ApplicationName, ProblemDocument)),
    paths(
        review::list,
        review::get,
        review_evidence::get,
        review::resolve,
        review::revoke,
        review::dismiss,
        review::comment,
        held_orders::list,
        held_orders::get,
        held_orders::post,
        held_orders::read_held,
        get,
    )
)]
struct ReviewOpenApi;

/// The description of the socket for reviewers, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| json(&ReviewOpenApi::openapi()));
    &DOCUMENT
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
pub async fn get() -> Response {
    reserved_body::json_response(StatusCode::OK, document())
}
