//! `/openapi.json`: the description of the routes' socket.

use crate::ground::api::{changes, query, records, signals, sources};
use crate::platform::api::{health, metrics, oracles, reserved_body};
use crate::platform::openapi::{CommonProblems, Complete, json, operations_of};
use crate::rules::api::rules;
use crate::verdict::api::{cache, crosscheck, orders, sessions, verdicts};
use crate::verification::api::verify;
use axum::response::Response;
use hyper::StatusCode;
use oracled_api::base::openapi::problem_responses;
use oracled_api::base::problem::{ProblemCode, ProblemDocument};
use oracled_api::base::service::OpenApiDocument;
use oracled_api::verdict::CacheResult;
use std::sync::LazyLock;
use utoipa::openapi::OpenApi as OpenApiObject;
use utoipa::{Modify, OpenApi};

/// The description of the routes' socket.
#[derive(Debug, OpenApi)]
#[openapi(
    modifiers(&RequireApplication, &Complete),
    info(
        title = "oracled: routes",
        description = "The Unix socket for application routes: it judges a model's verdicts before delivery. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://localhost", description = "Over the Unix socket `oracled.sock`; the host name is ignored")),
    tags(
        (name = "verdict", description = "Verdicts, sessions and the cache"),
        (name = "rules", description = "Texts checked against facts"),
        (name = "ground", description = "Sources, their records and changes"),
        (name = "verification", description = "Values verified by several sources"),
        (name = "platform", description = "The daemon itself"),
    ),
    components(schemas(ProblemDocument, CacheResult)),
    paths(
        crosscheck::post,
        verdicts::post,
        verdicts::get,
        orders::list,
        orders::get,
        orders::delete,
        sessions::put,
        cache::post,
        cache::get,
        rules::list,
        rules::evaluate,
        rules::evaluate_batch,
        query::post,
        query::batch,
        verify::post,
        verify::batch,
        verify::get,
        records::get,
        records::provenance,
        sources::list,
        changes::get,
        signals::post,
        oracles::get,
        health::alive,
        health::ready,
        metrics::get,
        get,
    )
)]
struct RoutesOpenApi;

/// The paths that callers of no application may use, too.
const FOR_ALL: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/v1/signals/{name}"];

/// Adds the response to callers of no application.
struct RequireApplication;

impl Modify for RequireApplication {
    fn modify(&self, document: &mut OpenApiObject) {
        let of_applications =
            document.paths.paths.iter_mut().filter(|(path, _)| !FOR_ALL.contains(&path.as_str()));
        for operation in of_applications.flat_map(|(_, item)| operations_of(item)) {
            let refused = problem_responses(&[ProblemCode::ApplicationUnknown]);
            let refused = refused.into_iter().filter(|(status, _)| status == "403");
            for (status, response) in refused {
                // an operation that declares the status names all of its codes
                operation.responses.responses.entry(status).or_insert(response);
            }
        }
    }
}

/// The description of the routes' socket, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| json(&RoutesOpenApi::openapi()));
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
