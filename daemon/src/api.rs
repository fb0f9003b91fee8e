//! The routes' socket: one file a resource.

pub mod cache;
pub mod crosscheck;
pub mod front;
pub mod health;
pub mod metrics;
pub mod openapi;
pub mod oracles;
pub mod request;
pub mod rules;
pub mod sessions;
pub mod verdicts;

use crate::problem::Problem;
use crate::service::Service;
use axum::Router;
use axum::routing::{get, post, put};
use std::sync::Arc;

/// Every path of the routes' socket.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/crosscheck", post(crosscheck::post))
        .route("/v1/verdicts/{session_id}", get(verdicts::get).post(verdicts::post))
        .route("/v1/sessions/{session_id}", put(sessions::put))
        .route("/cache/{session_id}", get(cache::get).post(cache::post))
        .route("/v1/rules", get(rules::list))
        .route("/v1/rules/evaluate", post(rules::evaluate))
        .route("/v1/rules/evaluate:batch", post(rules::evaluate_batch))
        .route("/v1/health/oracles", get(oracles::get))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::get))
        .route("/openapi.json", get(openapi::get))
        .fallback(async || Problem::NotFound)
        .method_not_allowed_fallback(async || Problem::MethodNotAllowed)
        .with_state(service)
}
