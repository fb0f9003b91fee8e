//! `POST /v1/signals/{…}`: a source tells that what it has said is not to be relied on any more.

use crate::problem::{GroundProblem, Problem, ProblemDocument};
use crate::service::Service;
use actors::registry::{Invalidate, policy_of};
use axum::extract::State;
use axum::{Extension, Json};
use domain::Peer;
use domain::event::ground::InvalidationCause;
use domain::ground::freshness::InvalidationTrigger;
use domain::ground::id::SourceId;
use hyper::Uri;
use serde::Serialize;
use std::sync::Arc;

/// The sources that a signal was about.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Invalidated {
    /// Their ids.
    #[schema(value_type = Vec<String>)]
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
) -> Result<Json<Invalidated>, Problem> {
    let path = uri.path().to_owned();
    let mut named = Vec::new();
    for state in service.system.store.sources()? {
        let oracle_id = state.entry.oracle_id().clone();
        let Some(view) = service.system.store.view(&oracle_id)? else { continue };
        let policy = policy_of(&view.state, &view.ontology);
        let names_it = |trigger: &InvalidationTrigger| matches!(trigger, InvalidationTrigger::UpstreamSignal { webhook } if *webhook == path);
        if policy.invalidation_triggers.iter().any(names_it) {
            named.push(oracle_id);
        }
    }
    if named.is_empty() {
        let told = format!("no source's freshness policy names {path} as an `upstream_signal`");
        return Err(GroundProblem::SignalUnknown(told).into());
    }
    let registry = service.system.registry.clone();
    let invalidated = service.work(async move {
        for oracle_id in &named {
            let (trigger, detail) = (InvalidationCause::UpstreamSignal, format!("signal at {path}"));
            registry.ask(Invalidate { oracle_id: oracle_id.clone(), trigger, detail, peer }).await??;
        }
        Ok(named)
    });
    Ok(Json(Invalidated { invalidated: invalidated.await? }))
}
