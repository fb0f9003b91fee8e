//! The wait of a host of a cluster before it answers: others may have changed the store.

use super::traits_of;
use crate::platform::openapi::has_store_problems;
use crate::platform::problem::Problem;
use crate::platform::routes::Routes;
use crate::platform::service::DaemonService;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use utoipa::openapi::path::Operation;

/// The member of an operation whose handler answers by the store as it was at the last contact, and waits for the shared log by itself
/// before it answers that something is missing.
const RECENT: &str = "x-recent";
/// The member of an operation that does not wait: it can give this host the key without which it cannot read the shared log, or complete the
/// end of the cluster.
const UNWAITING: &str = "x-unwaiting";

/// How recent the store must be for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreAge {
    /// It has everything that was committed before the request.
    CaughtUp,
    /// It was so within `cluster.stale_s`.
    Recent,
}

/// The routes of a socket. In a cluster, a request waits for the shared log first if its operation reads the store.
pub(crate) fn after_shared_log(routes: Routes, service: &Arc<DaemonService>) -> Router<Arc<DaemonService>> {
    let router = routes.into_router();
    if service.cluster.is_none() {
        return router;
    }
    router.route_layer(from_fn_with_state(Arc::clone(service), wait_for_shared_log))
}

/// How recent the store must be for an operation. `None`: the operation does not depend on it.
pub(super) fn store_age(operation: &Operation) -> Option<StoreAge> {
    let has = |name| operation.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(name));
    match () {
        () if has(UNWAITING) => None,
        () if has(RECENT) => Some(StoreAge::Recent),
        () if has_store_problems(operation) => Some(StoreAge::CaughtUp),
        () => None,
    }
}

async fn wait_for_shared_log(
    State(service): State<Arc<DaemonService>>,
    request: Request,
    next: Next,
) -> Response {
    // an operation without a description waits, too
    let age = traits_of(&request).map_or(Some(StoreAge::CaughtUp), |traits| traits.store_age);
    let waited = match age {
        Some(StoreAge::CaughtUp) => service.catch_up().await,
        Some(StoreAge::Recent) => service.check_recent(),
        None => Ok(()),
    };
    match waited {
        Ok(()) => next.run(request).await,
        Err(problem) => Problem::into_response(problem),
    }
}
