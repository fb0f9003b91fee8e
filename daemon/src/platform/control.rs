//! Control of the whole daemon.

pub mod actors;
pub mod control_request;
pub mod drain;
pub mod health;
pub(crate) mod identified_user;
#[cfg(debug_assertions)]
pub mod inject_panic;
pub mod log_level;

use super::api::{oracles, serving};
use super::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(serving::read_document))
        .routes(routes!(actors::get))
        .routes(routes!(oracles::get_with_errors))
        .routes(routes!(health::post))
        .routes(routes!(log_level::get, log_level::put))
        .routes(routes!(drain::post))
}
