//! The router of the routes' socket. Each resource has one file.

pub mod openapi;

use crate::ground::api::{changes, query, records, signals, sources};
use crate::platform::access_log::record_route;
use crate::platform::api::request::{PATHS, reject_params, require_application};
use crate::platform::api::{health, metrics, oracles};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::rules::api::rules;
use crate::verdict::api::{cache, crosscheck, orders, sessions, verdicts};
use crate::verification::api::verify;
use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post, put};
use std::sync::Arc;
use tower::util::MapRequestLayer;

/// Every path of the routes' socket.
pub fn router(service: Arc<DaemonService>) -> Router {
    Router::new()
        .route("/v1/crosscheck", post(crosscheck::post))
        .route("/v1/verdicts/{session_id}", post(verdicts::post))
        .route("/v1/orders/{session_id}", get(orders::get).delete(orders::delete))
        .route("/v1/sessions/{session_id}", put(sessions::put))
        .route("/cache/{session_id}", get(cache::get).post(cache::post))
        .route("/v1/rules", get(rules::list))
        .route("/v1/rules/evaluate", post(rules::evaluate))
        .route("/v1/rules/evaluate:batch", post(rules::evaluate_batch))
        .route("/v1/query", post(query::post))
        .route("/v1/query:batch", post(query::batch))
        .route("/v1/verify", post(verify::post))
        .route("/v1/verify:batch", post(verify::batch))
        .route("/v1/verify/{execution_id}", get(verify::get))
        .route("/v1/records/{record_id}", get(records::get))
        .route("/v1/records/{record_id}/provenance", get(records::provenance))
        .route("/v1/sources", get(sources::list))
        .route("/v1/health/oracles", get(oracles::get))
        .route("/openapi.json", get(openapi::get))
        .route_layer(from_fn(reject_params))
        // these routes have parameters, and reject unknown ones themselves
        .route("/v1/verdicts/{session_id}", get(verdicts::get))
        .route("/v1/changes", get(changes::get))
        .route("/v1/orders", get(orders::list))
        .route_layer(from_fn(require_application))
        // webhooks, probes and scrapers may add parameters of their own
        .route("/v1/signals/{*name}", post(signals::post))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::get))
        .fallback(signals::handle_other_path)
        .method_not_allowed_fallback(async || Problem::method_not_allowed(PATHS))
        .layer(MapRequestLayer::new(record_route))
        .with_state(service)
}
