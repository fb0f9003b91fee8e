//! Handlers of verification on the control socket.

pub mod execution;
pub mod review;
pub mod review_evidence;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of reviews, on the control socket and on the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(review::list))
        .routes(routes!(review::get))
        .routes(routes!(review_evidence::get))
        .routes(routes!(review::resolve))
        .routes(routes!(review::revoke))
        .routes(routes!(review::dismiss))
        .routes(routes!(review::comment))
}

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    review_routes().routes(routes!(execution::get))
}
