//! Handlers of ground truth on the control socket.

pub(crate) mod inbox;
pub mod run;
pub mod source;

use super::api;
use crate::ground::control::source::SourceChecks;
use crate::platform::openapi::Routes;
use axum::Extension;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(source::pull))
        .routes(routes!(run::upload_payload))
        .routes(routes!(run::list_runs))
        .routes(routes!(run::read_run))
        .routes(routes!(run::cancel_run))
        .routes(routes!(run::approve_run))
        .routes(routes!(run::discard_run))
        .routes(routes!(run::undo_run))
        .routes(routes!(run::list_run_changes))
        .routes(routes!(run::list_rejects))
        .routes(routes!(source::read_source))
        .routes(routes!(source::review_source))
        .routes(routes!(source::read_freshness))
        .routes(routes!(source::invalidate_source))
        .routes(routes!(source::confirm_source))
        .routes(routes!(source::prune))
        .routes(routes!(source::verify))
        .routes(routes!(source::rebuild))
        .routes(routes!(source::export))
        .routes(routes!(source::read_value_history))
        .routes(routes!(api::read_recorded_provenance))
        .layer(Extension(SourceChecks::default()))
}
