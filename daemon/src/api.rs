//! The routes' socket: one file a resource.

pub mod openapi;

use crate::platform::api::request::{PATHS, Unasked};
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Router;
use axum::routing::{get, post, put};
use std::sync::Arc;

/// Every path of the routes' socket.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/crosscheck", post(crate::verdict::api::crosscheck::post))
        .route(
            "/v1/verdicts/{session_id}",
            get(crate::verdict::api::verdicts::get).post(crate::verdict::api::verdicts::post),
        )
        .route("/v1/sessions/{session_id}", put(crate::verdict::api::sessions::put))
        .route(
            "/cache/{session_id}",
            get(crate::verdict::api::cache::get).post(crate::verdict::api::cache::post),
        )
        .route("/v1/rules", get(crate::rules::api::rules::list))
        .route("/v1/rules/evaluate", post(crate::rules::api::rules::evaluate))
        .route("/v1/rules/evaluate:batch", post(crate::rules::api::rules::evaluate_batch))
        .route("/v1/query", post(crate::ground::api::query::post))
        .route("/v1/verify", post(crate::verification::api::verify::post))
        .route("/v1/verify/{execution_id}", get(crate::verification::api::verify::get))
        .route("/v1/records/{record_id}", get(crate::ground::api::records::get))
        .route("/v1/records/{record_id}/provenance", get(crate::ground::api::records::provenance))
        .route("/v1/sources", get(crate::ground::api::sources::list))
        .route("/v1/changes", get(crate::ground::api::changes::get))
        .route("/v1/signals/{*name}", post(crate::ground::api::signals::post))
        .route("/v1/health/oracles", get(crate::platform::api::oracles::get))
        .route("/healthz", get(crate::platform::api::health::alive))
        .route("/readyz", get(crate::platform::api::health::ready))
        .route("/metrics", get(crate::platform::api::metrics::get))
        .route("/openapi.json", get(openapi::get))
        .fallback(crate::ground::api::signals::elsewhere)
        .method_not_allowed_fallback(async |_: Unasked| Problem::MethodNotAllowed(PATHS))
        .with_state(service)
}
