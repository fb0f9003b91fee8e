//! Handlers of ground truth on the control socket.

pub(crate) mod inbox;
pub mod run;
pub mod source;

use super::api;
use crate::ground::control::source::SourceChecks;
use crate::platform::routes::{Routes, routes};
use axum::Extension;

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    routes![
        source::pull,
        run::upload_payload,
        run::list_runs,
        run::read_run,
        run::cancel_run,
        run::approve_run,
        run::discard_run,
        run::undo_run,
        run::list_run_changes,
        run::list_rejects,
        source::read_source,
        source::review_source,
        source::read_freshness,
        source::invalidate_source,
        source::confirm_source,
        source::prune,
        source::verify,
        source::rebuild,
        source::export,
        source::read_value_history,
        api::read_recorded_provenance
    ]
    .route_layer(Extension(SourceChecks::default()))
}
