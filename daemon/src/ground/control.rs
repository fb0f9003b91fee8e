//! Handlers of ground truth on the control socket.

pub mod ingest;
pub mod run;
pub mod source;
pub mod upkeep;

use self::upkeep::SourceChecks;
use super::api;
use crate::platform::openapi::Routes;
use axum::Extension;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(upkeep::pull))
        .routes(routes!(ingest::post))
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
        .routes(routes!(upkeep::prune))
        .routes(routes!(upkeep::verify))
        .routes(routes!(upkeep::rebuild))
        .routes(routes!(upkeep::export))
        .routes(routes!(source::read_value_history))
        .routes(routes!(api::read_recorded_provenance))
        .layer(Extension(SourceChecks::default()))
}
