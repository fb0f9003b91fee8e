//! Handlers of verification on the routes' socket.

pub mod verify;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(verify::post))
        .routes(routes!(verify::batch))
        .routes(routes!(verify::get))
}
