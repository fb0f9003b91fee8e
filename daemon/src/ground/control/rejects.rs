//! `GET /v1/runs/{run_id}/rejects`: the records that a run has not taken, and why.

use super::run;
use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use oracled_domain::ground::rejection::Reject;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most rejects in one answer.
pub const LIMIT_MAX: usize = 1000;
/// So many without being asked.
const LIMIT_DEFAULT: usize = 100;

/// Which rejects.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Only those behind this position in the payload.
    after: Option<u64>,
    /// How many at the most.
    limit: Option<usize>,
}

/// Rejects in the order of their positions.
#[derive(Debug, Serialize, Deserialize)]
pub struct Page {
    /// The rejects; none of a run that goes on.
    pub rejects: Vec<Reject>,
    /// Behind which position to go on; null where there are no more.
    pub next: Option<u64>,
}

/// The rejects asked for.
///
/// # Errors
/// `RunUnknown`; `InvalidRequest` where the question is not understood.
pub async fn get(
    State(service): State<Arc<Service>>,
    run_id: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(Asked { after, limit }) = asked.map_err(|error| Problem::InvalidRequest(error.body_text()))?;
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::InvalidRequest(format!("`limit` is {limit}; allowed: 1 to {LIMIT_MAX}")));
    }
    let run = run::known(&service.system.store, run_id)?;
    // one more shows whether there are more
    let mut rejects = service.system.store.rejects(&run, after, limit + 1)?;
    let more = rejects.len() > limit;
    rejects.truncate(limit);
    let next = rejects.last().filter(|_| more).map(|last| last.position);
    Ok(Json(Page { rejects, next }))
}
