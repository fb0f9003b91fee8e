//! `/openapi.json`: the routes' socket described.

use super::{cache, crosscheck, health, metrics, oracles, rules, sessions, verdicts};
use axum::Json;
use utoipa::OpenApi;

/// The description.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "oracled",
        description = "Judges a model's verdicts before anyone sees them. Errors are `application/problem+json` with a stable `code`; every answer bears `X-Request-Id`.",
    ),
    paths(
        crosscheck::post,
        verdicts::post,
        verdicts::get,
        sessions::put,
        cache::post,
        cache::get,
        rules::list,
        rules::evaluate,
        rules::evaluate_batch,
        oracles::get,
        health::alive,
        health::ready,
        metrics::get,
        get,
    )
)]
struct Description;

/// The description, as JSON.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "This document", body = Object)))]
pub async fn get() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
