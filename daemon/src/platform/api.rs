//! Routes of the whole daemon.

pub(crate) mod batch;
pub mod front;
pub mod health;
mod lent_body;
pub mod metrics;
pub mod oracles;
pub(crate) mod piece_writer;
pub mod request;
pub(crate) mod reserved_body;
pub(crate) mod serving;

use super::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new().routes(routes!(oracles::get)).routes(routes!(serving::read_document))
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::get))
}
