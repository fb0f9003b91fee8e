//! Handlers of verdicts and sessions on the control socket.

pub mod costs;
pub mod divergence;
pub mod erasures;
pub mod held_orders;
pub mod orders;
pub mod outbox;
pub mod prompts;
pub mod purge;
pub mod retention;
pub mod session;
pub mod session_export;
pub mod webhooks;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(costs::get))
        .routes(routes!(divergence::get))
        .routes(routes!(outbox::get))
        .routes(routes!(outbox::post, outbox::delete))
        .routes(routes!(webhooks::get))
        .routes(routes!(webhooks::test))
        .routes(routes!(webhooks::post, webhooks::delete))
        .routes(routes!(orders::list))
        .routes(routes!(orders::get, orders::post))
        .routes(routes!(orders::read_held))
        .routes(routes!(purge::delete))
        .routes(routes!(session_export::get))
        .routes(routes!(erasures::post))
        .routes(routes!(retention::get, retention::post))
        .routes(routes!(session::get, session::patch, session::delete))
        .routes(routes!(prompts::post))
}

/// The routes of the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(held_orders::list))
        .routes(routes!(held_orders::get, held_orders::post))
        .routes(routes!(held_orders::read_held))
}
