//! The router of the socket for reviewers: reviews and held orders, and nothing else.

pub mod openapi;

use crate::platform::access_log::record_route;
use crate::platform::api::request::reject_params;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::control::held_orders;
use crate::verification::control::{review, review_evidence};
use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use std::sync::Arc;
use tower::util::MapRequestLayer;

/// The list of the paths of this socket, for errors.
const PATHS: &str = "/openapi.json: this is the socket for reviewers, which has only reviews and held orders";

/// Every path of the socket for reviewers.
pub fn router(service: Arc<DaemonService>) -> Router {
    Router::new()
        .route("/openapi.json", get(openapi::get))
        .route("/v1/reviews/{review_id}", get(review::get))
        .route("/v1/reviews/{review_id}/evidence", get(review_evidence::get))
        .route("/v1/reviews/{review_id}/resolve", post(review::resolve))
        .route("/v1/reviews/{review_id}/revoke", post(review::revoke))
        .route("/v1/reviews/{review_id}/dismiss", post(review::dismiss))
        .route("/v1/reviews/{review_id}/comments", post(review::comment))
        .route("/v1/orders/{session_id}", get(held_orders::get).post(held_orders::post))
        .route("/v1/orders/{session_id}/verdict", get(held_orders::read_held))
        // this layer applies only to the routes above; the routes below have query parameters
        .route_layer(from_fn(reject_params))
        .route("/v1/reviews", get(review::list))
        .route("/v1/orders", get(held_orders::list))
        .fallback(async || Problem::not_found(PATHS))
        .method_not_allowed_fallback(async || Problem::method_not_allowed(PATHS))
        .layer(MapRequestLayer::new(record_route))
        .with_state(service)
}
