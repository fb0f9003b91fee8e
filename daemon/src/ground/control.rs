//! Handlers of ground truth on the control socket.

pub mod freshness;
pub mod ingest;
pub mod rejects;
pub mod run;
pub mod run_changes;
pub mod source;
pub mod upkeep;
pub mod value_history;

use super::api::records;
use crate::platform::openapi::Routes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(upkeep::pull))
        .routes(routes!(ingest::post))
        .routes(routes!(run::list))
        .routes(routes!(run::get))
        .routes(routes!(run::cancel))
        .routes(routes!(run::approve))
        .routes(routes!(run::discard))
        .routes(routes!(run::undo))
        .routes(routes!(run_changes::get))
        .routes(routes!(rejects::get))
        .routes(routes!(source::get))
        .routes(routes!(source::review))
        .routes(routes!(freshness::get))
        .routes(routes!(source::invalidate))
        .routes(routes!(source::confirm))
        .routes(routes!(upkeep::prune))
        .routes(routes!(upkeep::verify))
        .routes(routes!(upkeep::rebuild))
        .routes(routes!(upkeep::export))
        .routes(routes!(value_history::post))
        .routes(routes!(records::recorded_provenance))
}
