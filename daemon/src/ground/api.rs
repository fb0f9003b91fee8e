//! Handlers of ground truth on the routes' socket.

pub mod changes;
pub mod query;
pub mod records;
pub mod signals;
pub mod sources;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(query::post))
        .routes(routes!(query::batch))
        .routes(routes!(records::get))
        .routes(routes!(records::provenance))
        .routes(routes!(sources::list))
        .routes(routes!(changes::get))
}

/// The routes for every process.
pub(crate) fn open_routes() -> Routes {
    OpenApiRouter::new().routes(routes!(signals::post))
}
