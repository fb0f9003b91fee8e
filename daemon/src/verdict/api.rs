//! Handlers of verdicts and sessions on the routes' socket.

mod answers;
pub mod cache;
pub mod crosscheck;
pub mod orders;
pub mod sessions;
mod submitted_prompt;
pub mod verdicts;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes for applications.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(crosscheck::post))
        .routes(routes!(verdicts::get, verdicts::post))
        .routes(routes!(orders::list))
        .routes(routes!(orders::get, orders::delete))
        .routes(routes!(sessions::put))
        .routes(routes!(cache::get, cache::post))
}
