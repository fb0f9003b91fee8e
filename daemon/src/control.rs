//! The administrators' socket: one file a verb.
//!
//! Whatever changes something here is an audit event with the peer's uid, gid and pid, committed before it is
//! done. Nothing here regenerates a verdict, changes a constant or approves anything.

use crate::ground::api::records;
use crate::platform::api::oracles;
use crate::platform::api::request::Unasked;
use crate::platform::control::order::PATHS;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Router;
use axum::routing::{delete, get, post};
use hyper::Request;
use std::sync::Arc;

/// Every path of the administrators' socket.
pub fn router(service: Arc<Service>) -> Router {
    let router = Router::new()
        .route("/v1/status", get(crate::platform::control::status::get))
        .route("/v1/actors", get(crate::platform::control::actors::get))
        .route("/v1/health/oracles", get(oracles::get))
        .route("/v1/health/oracles/{oracle_id}", post(crate::platform::control::health::post))
        .route("/v1/log", get(crate::audit::control::log::get))
        .route("/v1/log/follow", get(crate::audit::control::log::follow))
        .route(
            "/v1/log-level",
            get(crate::platform::control::log_level::get).put(crate::platform::control::log_level::put),
        )
        .route("/v1/verdicts/{session_id}", delete(crate::verdict::control::purge::delete))
        .route(
            "/v1/sessions/{session_id}",
            get(crate::verdict::control::session::get)
                .patch(crate::verdict::control::session::patch)
                .delete(crate::verdict::control::session::delete),
        )
        .route("/v1/divergence", get(crate::verdict::control::divergence::get))
        .route("/v1/outbox", get(crate::verdict::control::outbox::get))
        .route(
            "/v1/outbox/{mail_id}",
            post(crate::verdict::control::outbox::post).delete(crate::verdict::control::outbox::delete),
        )
        .route("/v1/drain", post(crate::platform::control::drain::post))
        .route("/v1/reload", post(crate::platform::control::reload::post))
        .route("/v1/ontologies", get(crate::ground::control::ontology::list))
        .route(
            "/v1/ontologies/{ontology_id}/{version}",
            get(crate::ground::control::ontology::get).put(crate::ground::control::ontology::put),
        )
        .route("/v1/sources", get(crate::ground::control::source::list))
        .route(
            "/v1/sources/{oracle_id}",
            get(crate::ground::control::source::get).put(crate::ground::control::source::put),
        )
        .route("/v1/sources/{oracle_id}/review", post(crate::ground::control::source::review))
        .route(
            "/v1/sources/{oracle_id}/freshness",
            get(crate::ground::control::freshness::get).put(crate::ground::control::freshness::put),
        )
        .route(
            "/v1/sources/{oracle_id}/adapter",
            get(crate::ground::control::adapter::get).put(crate::ground::control::adapter::put),
        )
        .route("/v1/sources/{oracle_id}/invalidate", post(crate::ground::control::source::invalidate))
        .route("/v1/sources/{oracle_id}/confirm", post(crate::ground::control::source::confirm))
        .route("/v1/pipelines", get(crate::ground::control::pipeline::list))
        .route(
            "/v1/pipelines/{pipeline_id}",
            get(crate::ground::control::pipeline::get).put(crate::ground::control::pipeline::put),
        )
        .route("/v1/pipelines/{pipeline_id}/runs", post(crate::ground::control::ingest::post))
        .route("/v1/pipelines/{pipeline_id}/pull", post(crate::ground::control::upkeep::pull))
        .route("/v1/workflows", get(crate::verification::control::workflow::list))
        .route(
            "/v1/workflows/{workflow_id}",
            get(crate::verification::control::workflow::get).put(crate::verification::control::workflow::put),
        )
        .route("/v1/reviews", get(crate::verification::control::review::list))
        .route("/v1/reviews/{review_id}", get(crate::verification::control::review::get))
        .route("/v1/reviews/{review_id}/resolve", post(crate::verification::control::review::resolve))
        .route("/v1/reviews/{review_id}/revoke", post(crate::verification::control::review::revoke))
        .route("/v1/reviews/{review_id}/dismiss", post(crate::verification::control::review::dismiss))
        .route("/v1/executions/{execution_id}", get(crate::verification::control::execution::get))
        .route("/v1/sources/{oracle_id}/prune", post(crate::ground::control::upkeep::prune))
        .route("/v1/sources/{oracle_id}/verify", post(crate::ground::control::upkeep::verify))
        .route("/v1/sources/{oracle_id}/rebuild", post(crate::ground::control::upkeep::rebuild))
        .route("/v1/sources/{oracle_id}/export", get(crate::ground::control::upkeep::export))
        .route("/v1/records/{record_id}/provenance", get(records::recorded_provenance))
        .route("/v1/runs", get(crate::ground::control::run::list))
        .route("/v1/runs/{run_id}", get(crate::ground::control::run::get))
        .route("/v1/runs/{run_id}/cancel", post(crate::ground::control::run::cancel))
        .route("/v1/runs/{run_id}/approve", post(crate::ground::control::run::approve))
        .route("/v1/runs/{run_id}/discard", post(crate::ground::control::run::discard))
        .route("/v1/runs/{run_id}/undo", post(crate::ground::control::run::undo))
        .route("/v1/runs/{run_id}/rejects", get(crate::ground::control::rejects::get));
    #[cfg(debug_assertions)]
    let router = router.route("/v1/inject-panic/{actor}", post(crate::platform::control::inject_panic::post));
    router
        .fallback(async |_: Unasked| Problem::NotFound(PATHS))
        .method_not_allowed_fallback(async |_: Unasked| Problem::MethodNotAllowed(PATHS))
        .with_state(service)
}

/// Whether a request takes the time that it takes: what it works on is as large as a disk allows.
pub fn is_unhurried<B>(request: &Request<B>) -> bool {
    crate::ground::control::ingest::is_upload(request)
        || crate::ground::control::upkeep::takes_its_time(request)
}
