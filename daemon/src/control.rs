//! The router of the control socket. Each verb has one file.
//!
//! Every change is an audit event with the peer's uid, gid and pid, committed before the change takes effect.
//! No handler regenerates a verdict, changes a constant or approves a verdict.

mod documents;
pub mod openapi;

use crate::audit::control::{backup, log, proofs};
use crate::ground::api::records;
use crate::ground::control::{freshness, ingest, rejects, run, run_changes, source, upkeep, value_history};
use crate::platform::access_log::record_route;
use crate::platform::api::oracles;
use crate::platform::api::request::reject_params;
use crate::platform::control::control_request::PATHS;
#[cfg(debug_assertions)]
use crate::platform::control::inject_panic;
use crate::platform::control::{actors, drain, health, log_level, reload, status};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::control::{
    costs, divergence, erasures, orders, outbox, prompts, purge, retention, session, session_export, webhooks,
};
use crate::verification::control::{execution, review, review_evidence};
use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{delete, get, post};
use hyper::Request;
use std::sync::Arc;
use tower::util::MapRequestLayer;

/// Adds the routes that have query parameters.
fn add_routes_with_params(router: Router<Arc<DaemonService>>) -> Router<Arc<DaemonService>> {
    router
        .route("/v1/log", get(log::get))
        .route("/v1/log/follow", get(log::follow))
        .route("/v1/log/checkpoint", get(proofs::checkpoint))
        .route("/v1/log/proof", get(proofs::prove_entry))
        .route("/v1/log/continuation", get(proofs::prove_continuation))
        .route("/v1/costs", get(costs::get))
        .route("/v1/divergence", get(divergence::get))
        .route("/v1/outbox", get(outbox::get))
        .route("/v1/webhooks", get(webhooks::get))
        .route("/v1/orders", get(orders::list))
        .route("/v1/documents/{kind}", get(documents::list))
        .route("/v1/pipelines/{pipeline_id}/pull", post(upkeep::pull))
        .route("/v1/pipelines/{pipeline_id}/runs", post(ingest::post))
        .route("/v1/reviews", get(review::list))
        .route("/v1/runs", get(run::list))
        .route("/v1/runs/{run_id}/changes", get(run_changes::get))
        .route("/v1/runs/{run_id}/rejects", get(rejects::get))
}

/// Every path of the control socket.
pub fn router(service: Arc<DaemonService>) -> Router {
    let router = Router::new()
        .route("/openapi.json", get(openapi::get))
        .route("/v1/status", get(status::get))
        .route("/v1/actors", get(actors::get))
        .route("/v1/log/tile/{*path}", get(proofs::tile))
        .route("/v1/backup", post(backup::post))
        .route("/v1/health/oracles", get(oracles::get_with_errors))
        .route("/v1/health/oracles/{oracle_id}", post(health::post))
        .route("/v1/log-level", get(log_level::get).put(log_level::put))
        .route("/v1/verdicts/{session_id}", delete(purge::delete))
        .route("/v1/sessions/{session_id}/export", get(session_export::get))
        .route("/v1/erasures", post(erasures::post))
        .route("/v1/retention", get(retention::get).post(retention::post))
        .route("/v1/sessions/{session_id}", get(session::get).patch(session::patch).delete(session::delete))
        .route("/v1/outbox/{mail_id}", post(outbox::post).delete(outbox::delete))
        .route("/v1/webhooks/test", post(webhooks::test))
        .route("/v1/webhooks/{webhook_id}", post(webhooks::post).delete(webhooks::delete))
        .route("/v1/orders/{session_id}", get(orders::get).post(orders::post))
        .route("/v1/orders/{session_id}/verdict", get(orders::read_held))
        .route("/v1/prompts/try", post(prompts::post))
        .route("/v1/drain", post(drain::post))
        .route("/v1/reload", post(reload::post))
        .route("/v1/documents", post(documents::apply))
        .route("/v1/documents/{kind}/{document_id}", get(documents::get).put(documents::put))
        .route("/v1/sources/{oracle_id}", get(source::get))
        .route("/v1/sources/{oracle_id}/review", post(source::review))
        .route("/v1/sources/{oracle_id}/freshness", get(freshness::get))
        .route("/v1/sources/{oracle_id}/invalidate", post(source::invalidate))
        .route("/v1/sources/{oracle_id}/confirm", post(source::confirm))
        .route("/v1/reviews/{review_id}", get(review::get))
        .route("/v1/reviews/{review_id}/evidence", get(review_evidence::get))
        .route("/v1/reviews/{review_id}/resolve", post(review::resolve))
        .route("/v1/reviews/{review_id}/revoke", post(review::revoke))
        .route("/v1/reviews/{review_id}/dismiss", post(review::dismiss))
        .route("/v1/reviews/{review_id}/comments", post(review::comment))
        .route("/v1/executions/{execution_id}", get(execution::get))
        .route("/v1/sources/{oracle_id}/prune", post(upkeep::prune))
        .route("/v1/sources/{oracle_id}/verify", post(upkeep::verify))
        .route("/v1/sources/{oracle_id}/rebuild", post(upkeep::rebuild))
        .route("/v1/sources/{oracle_id}/export", get(upkeep::export))
        .route("/v1/sources/{oracle_id}/history", post(value_history::post))
        .route("/v1/records/{record_id}/provenance", get(records::recorded_provenance))
        .route("/v1/runs/{run_id}", get(run::get))
        .route("/v1/runs/{run_id}/cancel", post(run::cancel))
        .route("/v1/runs/{run_id}/approve", post(run::approve))
        .route("/v1/runs/{run_id}/discard", post(run::discard))
        .route("/v1/runs/{run_id}/undo", post(run::undo))
        .route_layer(from_fn(reject_params));
    let router = add_routes_with_params(router);
    #[cfg(debug_assertions)]
    let router = router.route("/v1/inject-panic/{actor}", post(inject_panic::post));
    router
        .fallback(async || Problem::not_found(PATHS))
        .method_not_allowed_fallback(async || Problem::method_not_allowed(PATHS))
        .layer(MapRequestLayer::new(record_route))
        .with_state(service)
}

/// Whether a request has no time limit, because its work is only limited by the size of the disk.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    ingest::is_upload(request)
        || backup::has_no_time_limit(request)
        || upkeep::has_no_time_limit(request)
        || erasures::has_no_time_limit(request)
        || retention::has_no_time_limit(request)
}
