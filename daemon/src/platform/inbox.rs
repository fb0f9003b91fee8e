//! `/v1/inbox`: everything that waits for a decision of a person. Each feature declares its kinds of items.

use super::api::request::QueryParams;
use super::openapi::{STORE, problems};
use super::problem::Problem;
use super::routes::{Routes, routes};
use super::service::{DaemonService, run_blocking};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::inbox::{InboxParams, InboxResponse, WaitingItem};
use domain_base::problem::INVALID_REQUEST;
use oracled_store::{Store, StoreError};
use std::sync::Arc;

/// A kind of items that wait for a decision of a person.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InboxKind {
    pub(crate) name: &'static str,
    /// Reads the items, at most `ITEMS_PER_KIND`.
    pub(crate) read: fn(&Store) -> Result<Vec<WaitingItem>, StoreError>,
}

/// The kinds of a socket, by feature.
#[derive(Debug, Clone, Copy)]
struct InboxKinds(&'static [&'static [InboxKind]]);

/// The routes of the inbox with these kinds.
pub(crate) fn routes(kinds: &'static [&'static [InboxKind]]) -> Routes {
    routes![read_inbox].route_layer(Extension(InboxKinds(kinds)))
}

problems!(InboxProblems: STORE; INVALID_REQUEST);

/// List everything that waits for a decision of a person.
///
/// The socket for reviewers has reviews, held orders and notices only.
#[utoipa::path(
    get,
    path = "/v1/inbox",
    operation_id = "read_inbox",
    tag = "platform",
    params(InboxParams),
    responses(
        InboxProblems,
        (status = 200, description = "A page of the inbox, and the number of items by kind", body = InboxResponse),
    ),
)]
async fn read_inbox(
    State(service): State<Arc<DaemonService>>,
    Extension(InboxKinds(kinds)): Extension<InboxKinds>,
    QueryParams(params): QueryParams<InboxParams>,
) -> Result<Json<InboxResponse>, Problem> {
    let (store, now) = (service.system.store.clone(), service.system.clock.now());
    let read = run_blocking(move || {
        let mut waiting = Vec::new();
        for kind in kinds.iter().copied().flatten() {
            waiting.extend((kind.read)(&store)?);
        }
        Ok::<_, StoreError>(waiting)
    });
    let names: Vec<_> = kinds.iter().copied().flatten().map(|kind| kind.name).collect();
    let selected = InboxResponse::select(read.await?, &names, &params, now);
    selected.map(Json).map_err(|error| Problem::new(INVALID_REQUEST, error.to_string()))
}
