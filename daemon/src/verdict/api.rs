//! Handlers of verdicts and sessions on the routes' socket.

pub mod crosscheck;
pub mod orders;
pub mod sessions;
pub mod verdicts;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(crosscheck::post))
        .routes(routes!(verdicts::read_verdict, verdicts::submit_verdict))
        .routes(routes!(orders::list))
        .routes(routes!(orders::get, orders::delete))
        .routes(routes!(sessions::put))
        .routes(routes!(verdicts::read_cached_verdict, verdicts::write_cached_verdict))
}
