//! `POST /v1/signals/{…}`, or any other path that a freshness policy names: a source tells that what it has said is not to
//! be relied on any more.

use super::PATHS;
use super::request::Unasked;
use crate::problem::{GroundProblem, Problem, ProblemDocument};
use crate::service::Service;
use actors::registry::Invalidate;
use axum::extract::State;
use axum::{Extension, Json};
use domain::Peer;
use domain::event::ground::InvalidationCause;
use domain::ground::freshness::InvalidationTrigger;
use domain::ground::id::SourceId;
use hyper::{Method, Uri};
use serde::Serialize;
use std::sync::Arc;

/// The sources that a signal was about.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Invalidated {
    /// Their ids.
    invalidated: Vec<SourceId>,
}

/// Takes a signal: every source whose freshness policy names this path as an `upstream_signal` is stale from now on.
///
/// # Errors
/// `signal_unknown` where no policy names it; where the entry cannot be committed, and then nothing changes.
#[utoipa::path(
    post,
    path = "/v1/signals/{name}",
    params(("name" = String, Path, description = "The rest of the path that a policy names; may hold slashes")),
    responses(
        (status = 200, description = "Which sources are stale now", body = Invalidated),
        (status = "4XX", description = "No policy names the path", body = ProblemDocument),
        (status = "5XX", description = "It could not be written down", body = ProblemDocument),
    ),
)]
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    _: Unasked,
) -> Result<Json<Invalidated>, Problem> {
    let named = named_by(&service, uri.path())?;
    if named.is_empty() {
        let told = format!("no source's freshness policy names {} as an `upstream_signal`", uri.path());
        return Err(GroundProblem::SignalUnknown(told).into());
    }
    invalidate(&service, named, uri.path(), peer).await
}

/// What comes in at a path that is nobody else's: a signal, where a policy has a webhook there.
///
/// # Errors
/// `not_found` where it has not; where the entry cannot be committed, and then nothing changes.
pub async fn elsewhere(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    method: Method,
    uri: Uri,
    _: Unasked,
) -> Result<Json<Invalidated>, Problem> {
    let named = named_by(&service, uri.path())?;
    match method {
        _ if named.is_empty() => Err(Problem::NotFound(PATHS)),
        Method::POST => invalidate(&service, named, uri.path(), peer).await,
        _ => Err(Problem::MethodNotAllowed(PATHS)),
    }
}

/// The sources whose policies have a webhook at `path`; the one that every source has without its own names none.
fn named_by(service: &Service, path: &str) -> Result<Vec<SourceId>, Problem> {
    let names_it = |trigger: &InvalidationTrigger| matches!(trigger, InvalidationTrigger::UpstreamSignal { webhook } if webhook == path);
    let sources = service.system.store.sources()?.into_iter();
    let named = sources.filter(|state| {
        let triggers = state.policy.iter().flat_map(|policy| &policy.invalidation_triggers);
        triggers.into_iter().any(names_it)
    });
    Ok(named.map(|state| state.entry.registration.oracle_id).collect())
}

/// Declares each of the sources stale, also where that fails for one of them; whoever has sent the signal is told so, and
/// sends it again.
async fn invalidate(
    service: &Arc<Service>,
    named: Vec<SourceId>,
    path: &str,
    peer: Peer,
) -> Result<Json<Invalidated>, Problem> {
    let registry = service.system.registry.clone();
    let detail = format!("signal at {path}");
    let invalidated = service.work(async move {
        let mut failed = Ok(());
        for oracle_id in &named {
            let (trigger, detail) = (InvalidationCause::UpstreamSignal, detail.clone());
            let order = Invalidate { oracle_id: oracle_id.clone(), trigger, detail, peer };
            let done = registry.ask(order).await.map_err(Problem::from);
            failed = failed.and(done.and_then(|done| done.map_err(Problem::from)));
        }
        failed.map(|()| named)
    });
    Ok(Json(Invalidated { invalidated: invalidated.await? }))
}
