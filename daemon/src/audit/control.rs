//! Handlers of the audit log on the control socket.

pub mod backup;
pub mod log;
pub mod proofs;

use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(log::get))
        .routes(routes!(log::follow))
        .routes(routes!(proofs::checkpoint))
        .routes(routes!(proofs::prove_entry))
        .routes(routes!(proofs::prove_continuation))
        .routes(routes!(proofs::tile))
        .routes(routes!(backup::post))
}
