//! Routes of the whole daemon.

pub(crate) mod batch;
pub(crate) mod body;
pub mod front;
pub mod health;
pub mod metrics;
pub mod request;
pub(crate) mod serving;

use super::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(serving::read_document))
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(health::read_liveness))
        .routes(routes!(health::read_readiness))
        .routes(routes!(metrics::get))
}
