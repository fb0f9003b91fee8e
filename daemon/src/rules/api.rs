//! Handlers of Oracle-A on the routes' socket.

pub mod rules;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(rules::list))
        .routes(routes!(rules::evaluate))
        .routes(routes!(rules::evaluate_batch))
}
